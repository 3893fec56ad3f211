"""A small network as an operator makes it: a resolver, two Archives and a minting service, each its own process.

Everything is made by commands and looked at over HTTP and in files. `tidied` takes out of a text what is another one
in each run: ports, moments, minted labels, keys, digests.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import ibi as ibi_library
from support.concurrency.forked import start_ibi
from support.ports import free_port
from surface.commands import ENGLISH, ibi

FIRST, SECOND, RESOLVER, MINT = "first", "second", "resolver", "mint"
THIRD = "third"
"""An Archive that applies at the resolver, and moves."""

SERVICES = {name: f"archive.example/{name}/2026/02.01.09.00" for name in (FIRST, SECOND, THIRD, RESOLVER)}
KEYS = {FIRST: "11111111111111111111", SECOND: "22222222222222222222"}

OLD = "archive.example/first/2026/03.02.10.15"
"""The first edition of a text, which has a translation in the other Archive."""
NEW = "archive.example/first/2026/09.14.16.40"
"""Its last edition, with several files, and metadata that are an item of their own."""
ABOUT_NEW = "archive.example/first/2026/09.14.16.41"
REMOVED = "archive.example/first/2026/04.01.08.00"
CLAIMED = "archive.example/first/2026/05.20.11.05"
"""An original of which two Archives say that they have it."""
LINKED = "archive.example/first/2026/06.01.08.00"
EMBARGOED = "archive.example/first/2026/06.02.08.00"
CLOSED = "archive.example/first/2026/06.03.08.00"
UNLISTED = "archive.example/first/2026/06.11.14.30"
TRANSLATED = "archive.example/second/2026/03.05.09.30"
MOVING = "archive.example/first/2026/07.07.07.07"
"""An original that is handed over from the first Archive to the second."""
UNKNOWN = "archive.example/first/2026/01.01.00.00"
UNHEARD = "archive.example/first/2026/01.01.00.01"
"""Unknown too; asked when an Archive is silent."""

_METADATA = {
    "title": [{"value": "Names that stay", "lang": "en"}],
    "creator": ["Silva, Maria (https://orcid.org/0000-0002-1825-0097)"],
    "subject": ["names", "places"],
    "date": ["2026-09-14"],
    "language": ["en"],
    "type": ["Text"],
    "description": [{"value": "Why a name outlives every place.", "lang": "en"}],
}

ITEMS: dict[str, list[dict[str, Any]]] = {
    FIRST: [
        {
            "rep": OLD, "ibip": "32G4GKPW/4F97PUL", "language": "en", "files": {"index.html": "index.html"},
            "next_edition": NEW, "translations": {"pt": TRANSLATED}, "metadata": _METADATA,
        },
        {
            "rep": NEW, "ibip": "32G4GKPW/4GE5BA8", "language": "en", "aliases": ["6RPa7umaZ/UaJFT"],
            "target": "index.html",
            "files": {"index.html": "index.html", "notes.txt": "notes.txt", "data/table.csv": "table.csv"},
            "metadata": _METADATA, "metadata_item": ABOUT_NEW, "rights": "anybody may read it",
            "licence": "https://creativecommons.org/publicdomain/zero/1.0/",
        },
        {"rep": ABOUT_NEW, "contenttype": "Metadata", "metadata": _METADATA},
        {"rep": REMOVED, "state": "Deleted", "reason": "it was a draft", "metadata": {"title": ["A draft"]}},
        {"rep": CLAIMED, "files": {"notes.txt": "notes.txt"}, "metadata": {"title": ["Two owners"]}},
        {"rep": LINKED, "url": "http://elsewhere.example/x", "metadata": {"title": ["Elsewhere"]}},
        {"rep": EMBARGOED, "files": {"notes.txt": "notes.txt"}, "access": "embargoed", "embargo": "2999-01-31"},
        {"rep": CLOSED, "files": {"notes.txt": "notes.txt"}, "access": "closed"},
        {"rep": UNLISTED, "files": {"notes.txt": "notes.txt"}, "file_list_public": False},
        {"rep": MOVING, "files": {"notes.txt": "notes.txt"}, "metadata": {"title": ["It moves"]}},
        {"key": "named-here", "files": {"table.csv": "table.csv"}, "metadata": {"title": ["Named here"]}},
    ],
    SECOND: [
        {
            "rep": TRANSLATED, "ibip": "32G4GKQW/4F9LQQL", "language": "pt-BR", "files": {"index.html": "index.html"},
            "translations": {"en": OLD}, "metadata": {"title": [{"value": "Nomes que ficam", "lang": "pt-BR"}]},
        },
        {"rep": CLAIMED, "files": {"notes.txt": "notes.txt"}, "metadata": {"title": ["Two owners"]}},
    ],
}  # fmt: skip

_FILES = {
    "index.html": "<!doctype html><title>Names that stay</title><p>A name.</p>",
    "notes.txt": "notes\n",
    "table.csv": "year,moves\n2026,1\n",
}


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; header names in lower case, those that come twice joined by commas."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        """Its media type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0]

    def json(self) -> Any:
        """Its body."""
        return json.loads(self.body)


@dataclass
class Network:
    """The programs in the folder `data`, a directory for each; `tokens` by the name of the program."""

    data: Path
    ports: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def of(self, name: str) -> Path:
        """The data directory of a program."""
        return self.data / name

    def address(self, name: str) -> str:
        """Where it answers."""
        return f"127.0.0.1:{self.ports[name]}"

    def url(self, name: str, path: str = "") -> str:
        """Something below its root URL."""
        return f"http://{self.address(name)}{path}"

    # ---- making

    def make(self) -> None:
        """Make all that stands before the first request."""
        first = free_port(6)
        names = (RESOLVER, FIRST, SECOND, THIRD, MINT, "moved")
        self.ports = {name: first + number for number, name in enumerate(names)}
        (self.data / "source").mkdir(parents=True)
        for name, text in _FILES.items():
            (self.data / "source" / name).write_text(text)
        self._found_resolver()
        for name in (FIRST, SECOND):
            self.found_archive(name, "--resolver", self.url(RESOLVER), "--key", KEYS[name])
            known = ("--archive-service", SERVICES[name], "--key", KEYS[name])
            must("resolver", "register", "--data", self.of(RESOLVER), *known)
            lines = self.data / "source" / f"{name}.jsonl"
            dated = [{"timestamp": "2026-10-01T00:00:00Z", **item} for item in ITEMS[name]]
            lines.write_text("".join(f"{json.dumps(item)}\n" for item in dated))
            must("archive", "import", "--data", self.of(name), lines)
            scopes = "read,deposit,edit,delete,transfer,admin"
            options = ("--name", "program", "--scope", scopes, "--json")
            self.tokens[name] = json.loads(must("archive", "token", "--data", self.of(name), *options))[
                "token"
            ]

    def _found_resolver(self) -> None:
        data = self.of(RESOLVER)
        must(
            "resolver", "init", "--data", data, "--address", self.address(RESOLVER), "--service-ibi",
            SERVICES[RESOLVER], "--allow-private-archives",
        )  # fmt: skip
        must("resolver", "set", "--data", data, "admin", "admin@resolver.example", "registration", "form")
        token = must("resolver", "token", "add", "--data", data, "--scope", "admin", "--json", "program")
        self.tokens[RESOLVER] = json.loads(token)["token"]

    def found_archive(self, name: str, *more: object) -> None:
        """`ibi archive init`."""
        must(
            "archive", "init", "--data", self.of(name), "--address", self.address(name),
            "--ip", "127.0.0.1", "--service-ibi", SERVICES[name], "--mint-host", f"{name}.archive.example",
            "--mint-ip", "192.0.2.1", "--for-trying", "--admin", "admin@archive.example", *more,
        )  # fmt: skip

    # ---- running

    def start(self, name: str, *words: object) -> None:
        """A server, in a process of its own; what it logs goes to DATA/NAME.log."""
        environment = {**os.environ, **ENGLISH}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        with (self.data / f"{name}.log").open("a") as log:
            self.running[name] = start_ibi(
                words, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )

    def is_ready(self, name: str, lines: int = 1) -> str:
        """Wait until it accepts connections; the lines that it prints then."""
        stdout = self.running[name].stdout
        assert stdout is not None
        lines_read = [stdout.readline() for _ in range(lines)]
        assert all(line.startswith("ready http") for line in lines_read), (
            self.data / f"{name}.log"
        ).read_text()
        return "".join(lines_read)

    def start_archives(self, name: str, *binds: tuple[str, str]) -> None:
        """`ibi archive serve` for these (directory, bind), with a log of all it can tell."""
        words = [word for data, bind in binds for word in ("--data", self.of(data), "--bind", bind)]
        self.start(name, "archive", "serve", *words, "--log-format", "json", "--access-log")

    def serve(self) -> None:
        """The resolver and two Archives that it has included."""
        data = self.of(RESOLVER)
        words = ("--data", data, "--bind", self.address(RESOLVER), "--log-format", "json")
        self.start(RESOLVER, "resolver", "serve", *words)
        self.is_ready(RESOLVER)  # an Archive that finds no resolver asks again only after a while
        self.start_archives(FIRST, *((name, self.address(name)) for name in (FIRST, SECOND)))
        self.is_ready(FIRST, 2)
        self.has_included(2)

    def has_included(self, archives: int) -> None:
        """Wait until the resolver asks so many Archives."""
        about = "/-/about"
        until(
            lambda: self.ask(RESOLVER, "GET", about).json()["archives"] >= archives, "Archives are included"
        )

    def stop(self, name: str) -> int:
        """SIGTERM, and the exit status."""
        process = self.running.pop(name)
        process.terminate()
        try:
            process.communicate(timeout=30)
        finally:
            process.kill()
        return process.returncode

    # ---- asking

    def ask(
        self,
        name: str,
        method: str,
        path: str,
        body: bytes | str | dict[str, Any] | None = None,
        **headers: str,
    ) -> Answer:
        """One request; header names with "_" for "-". A body that is a dict goes as JSON."""
        given = {key.replace("_", "-"): value for key, value in headers.items()}
        if isinstance(body, dict):
            body = json.dumps(body)
            given.setdefault("content-type", "application/json")
        connection = HTTPConnection("127.0.0.1", self.ports[name], timeout=60)
        try:
            connection.request(method, path, body, given)
            reply = connection.getresponse()
            found: dict[str, str] = {}
            for key, value in reply.getheaders():
                found[key.lower()] = f"{found[key.lower()]}, {value}" if key.lower() in found else value
            return Answer(reply.status, found, reply.read())
        finally:
            connection.close()

    def program(self, name: str) -> dict[str, str]:
        """The header with which a program shows its token."""
        return {"authorization": f"Bearer {self.tokens[name]}"}

    # ---- writing down

    def tidied(self, text: str) -> str:
        """Without what is another text in each run."""
        for name, port in self.ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"{name}.test").replace(
                f"127.0.0.1%3A{port}", f"{name}.test"
            )
        text = _MINTED.sub(lambda found: found[0] if found[0] in _FIXED else "MINTED", text)
        text = text.replace(str(self.data), "DATA")
        for pattern, word in _CHANGING:
            text = pattern.sub(word, text)
        return text


_FIXED = frozenset(
    [
        *SERVICES.values(),
        UNKNOWN,
        *(item["rep"] for items in ITEMS.values() for item in items if "rep" in item),
    ]
)
_MINTED = re.compile(r"archive\.example/\w+/\d{4}/\d\d\.\d\d(\.\d+)*")

_CHANGING = (
    (re.compile(r"\b(at|before)=\d+"), r"\1=N"),
    (re.compile(r"(no answer|cannot be reached): .*"), r"\1: WHY"),
    (re.compile(rf"(?<![\d.]){re.escape(ibi_library.__version__)}(?![\d.])"), "VERSION"),
    (re.compile(r"\b\d{8}T\d{6}Z\b"), "MOMENT"),
    (re.compile(r"(The first to show the original was) \S+"), r"\1 IBI"),
    (re.compile(r"\b[2-9A-HJ-NP-UWX]{4,}/[2-9A-HJ-NP-UWX]{4,}\b"), "IBIP"),
    (re.compile(r"ibi_(?!resolver_)[A-Za-z0-9_-]{20,}"), "TOKEN"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "MOMENT"),
    (re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT"), "MOMENT"),
    (re.compile(r"\b\d+\.[0-9a-f]{16}\b"), "POSITION"),
    (re.compile(r"\b[0-9a-f]{32,}\b"), "HEX"),
    (re.compile(r"\b\d{9,}-HEX\b"), "NUMBER-HEX"),
    (re.compile(r"sha(-?)256([=-]):?[A-Za-z0-9+/]{20,}=*:?"), r"sha\g<1>256\g<2>DIGEST"),
    (re.compile(r"/-/static/[\w.-]+"), "/-/static/FILE"),
    (re.compile(r"\b\d+(\.\d+)? ms\b"), "N ms"),
    (re.compile(r" \(remembered\)"), ""),  # whether it was, depends on how fast the walk is
)


@contextlib.contextmanager
def network(folder: Path) -> Iterator[Network]:
    """Made, and none of its programs left running."""
    made = Network(folder)
    made.make()
    try:
        yield made
    finally:
        for process in made.running.values():
            process.kill()
            process.communicate()


def must(*words: object) -> str:
    """What a command prints that has to succeed."""
    typed = ibi(*words)
    assert typed.status == 0, (words, typed)
    return typed.out


def until(happened: Callable[[], object], what: str, seconds: float = 30) -> None:
    """Wait for what another process brings about."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"it did not happen that {what}"
        time.sleep(0.05)
