"""An Archive before an act, with another Archive beside it, and what may come before the act."""

from __future__ import annotations

import getpass
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.api.jobs import Jobs
from ibi.app.archive import archive_directory
from ibi.archive.store.postgresql.nodes import texts_of
from ibi.archive.store.tables import listings
from ibi.cli import main
from ibi.runtime.settings import ArchiveSettings, Peer
from support.archive.administration_fixture import administered_archive
from support.archive.archive_fixture import REP
from support.archive.replication_fixture import NAME, Archive, make_archive
from support.archive.three_ways import Given, Ways
from support.cli.archive_commands import Resolver
from support.programs import MADE

Entries = dict[str, list[dict[str, Any]]]
KEY = "98765432109876543210"
KEYS = {KEY, "12345678901234567890"}
"""Keys that were given."""
RESOLVER = "http://127.0.0.1:8099"
"""The root URL of a resolver that does not answer."""
NEW = "a new item"


@dataclass
class Beginning:
    """An Archive before an act, the other Archive beside it, and the way by which the act is done."""

    way: str
    ways: Ways
    there: Archive
    gate: Gate
    repository: str
    folder: Path
    stack: ExitStack
    transfer: str = ""
    job: str = ""
    resolver: str = ""
    before: Entries = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        stack: ExitStack,
        way: str,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        repository: str = "",
    ) -> Beginning:
        """Serve both until the stack is closed. `folder`: an empty one, in the folder that the beginnings share."""
        # No copy is refreshed but by an act: the Archive itself would often be first.
        served = stack.enter_context(administered_archive(folder, refresh_hours=0))
        there = make_archive(folder, 2)
        stack.enter_context(there.served())
        gate = stack.enter_context(Gate(there.port).open())
        token = Tokens(served.archive.data).make("ways", MADE, [Scope.ADMIN])
        ways = Ways(served.archive.data, served.new_browser("root"), token, capsys, folder)
        return cls(way, ways, there, gate, repository, folder.parent, stack)

    @property
    def root(self) -> str:
        """The root URL of the Archive."""
        return f"http://127.0.0.1:{self.ways.root.port}"

    def history(self) -> Entries:
        """The entries of each item, as a program reads them."""
        items = json.loads(self.ways.program("GET", "/items?limit=500").body)["items"]
        return {_name_of(each): each["history"] for each in items}

    def added(self) -> Entries:
        """The entries since the beginning, without what differs from place to place."""
        authors = {"ways", "root", getpass.getuser()}
        found: Entries = {}
        for name, entries in self.history().items():
            for each in entries[len(self.before.get(name, [])) :]:
                # Only some requests to deposit have a digest, by which they are known when they come again.
                detail = {word: value for word, value in each["detail"].items() if word != "request"}
                text = self.anywhere(json.dumps(detail, sort_keys=True))
                who = "who does it" if each["who"] in authors else each["who"]
                found.setdefault(name, []).append({"what": each["what"], "who": who, "detail": text})
        return found

    def decided(self) -> dict[str, Any]:
        """What is decided about the Archive, and the jobs, without what differs from place to place."""
        texts = texts_of(self.ways.data)
        files = {name: self.anywhere(text) for name, text in texts.items() if name.endswith(".toml")}
        jobs = json.loads(self.ways.program("GET", "/jobs").body)["jobs"]
        return {"files": files, "jobs": [(each["operation"], each["state"]) for each in jobs]}

    def anywhere(self, text: str) -> str:
        """Leave out of a text the addresses, the job, and keys that were made."""
        here, there = f"127.0.0.1:{self.ways.root.port}", (self.there.root, self.gate.root)
        places = {here: "HERE", **{each.removeprefix("http://"): "THERE" for each in there}}
        if self.resolver:
            places[self.resolver.removeprefix("http://")] = "RESOLVER"
        if self.job:
            places[self.job] = "JOB"
        for place, word in places.items():
            text = text.replace(place, word)
        return re.sub(r"\b\d{20}\b", lambda key: key[0] if key[0] in KEYS else "A NEW KEY", text)

    def written(self, name: str, content: bytes) -> str:
        """Write a file for a command; its path."""
        (self.folder / name).write_bytes(content)
        return str(self.folder / name)

    def wait(self, is_so: Callable[[], bool]) -> None:
        """Wait until the running Archive has done its part."""
        end = time.monotonic() + 30
        while not is_so():
            assert time.monotonic() < end, "the Archive does not go on"
            time.sleep(0.1)


def _name_of(item: dict[str, Any]) -> str:
    """What an item is called at each place: one whose name was made here has another name at another."""
    name = str(item.get("key") or item.get("rep") or item["ibip"])
    return NEW if name.startswith(("example.org/", "idempotency:")) else name


class Gate:
    """Stands before the other Archive: lets all requests through, but not the last message of a hand-over."""

    def __init__(self, port: int) -> None:
        gate = self
        self.shut = False

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.pass_on(b"")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                if gate.shut and json.loads(body)["word"] == "complete":
                    self.send_error(503)
                else:
                    self.pass_on(body)

            def pass_on(self, body: bytes) -> None:
                connection = HTTPConnection("127.0.0.1", port, timeout=30)
                headers = {n: v for n, v in self.headers.items() if n.lower() != "host"}
                connection.request(self.command, self.path, body, {**headers, "Host": f"127.0.0.1:{port}"})
                reply = connection.getresponse()
                content = reply.read()
                self.send_response(reply.status)
                self.send_header("content-type", reply.headers.get("content-type", ""))
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                connection.close()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.root = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def open(self) -> Iterator[Gate]:
        thread = Thread(target=self._server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


def original(at: Beginning) -> None:
    """An original over there."""
    at.there.put()


def copied(at: Beginning) -> None:
    """Take a copy, which then lags behind."""
    at.there.put(files={"a.txt": b"old"})
    body = json.dumps({"ibi": NAME, "archive": at.there.root, "private": True}).encode()
    taken = at.ways.program("POST", "/copies", body, content_type="application/json")
    assert taken.status == 200, taken.text
    time.sleep(1.1)  # a version is of its second
    at.there.edit(files={"a.txt": b"new"}, language="pt")


def peered(at: Beginning, *, shut: bool = False) -> None:
    """Know the other Archive, and be known there."""
    at.gate.shut = shut
    token = at.there.lets_in("here")
    Peer.write_tables(at.ways.data, {"there": Peer(address=at.gate.root, token=token)})
    Peer.write_tables(at.there.data, {"here": Peer(address=at.root, token="")})


def handed(at: Beginning) -> None:
    """Begin a hand-over that comes to its last message."""
    peered(at, shut=True)
    body = json.dumps({"ibi": REP, "to": "there"}).encode()
    begun = json.loads(at.ways.program("POST", "/hand-overs", body, content_type="application/json").body)
    at.transfer = begun["transfer"]
    path = f"/hand-overs/{at.transfer}"
    at.wait(lambda: json.loads(at.ways.program("GET", path).body)["stage"] == "handed")


def damaged(at: Beginning) -> None:
    """Damage a file."""
    (path,) = [each for each in (at.ways.data / "col").rglob("a.txt") if "2011" in str(each)]
    path.write_bytes(b"AAA")


def bag(at: Beginning) -> Given:
    """The same bag for all three."""
    source, path = at.folder / "bag", at.folder / "bag.zip"
    if not path.exists():
        other = make_archive(source, 9)
        other.put(metadata={"title": ["In a bag"]})
        assert main(["archive", "export", "--data", str(other.data), NAME, "--to", str(path)]) == 0
    return {"upload": path.read_bytes()}


def is_given(at: Beginning) -> None:
    """Wait until the item is a copy: the running Archive goes on with a hand-over."""
    at.wait(lambda: json.loads(at.ways.program("GET", "/hand-overs").body)["transfers"] == [])


def restored(at: Beginning) -> None:
    """Come back from a backup, as far as the catalogue shows it."""
    with archive_directory(at.ways.data).catalogue() as catalogue, catalogue.writing() as writer:
        service = catalogue.held(ArchiveSettings.read(at.ways.data).service.main)
        listings.unsettle_originals(writer.run, "2026-01-01T00:00:00Z", service.number)


def filed(at: Beginning) -> None:
    """Put a file into the item."""
    put = at.ways.program("PUT", f"/items/{quote(REP, '')}/files/more.txt", b"words", if_match="*")
    assert put.status == 201, put.text


def joined(at: Beginning, resolver: str = RESOLVER) -> None:
    """Take part at a resolver."""
    body = json.dumps({"resolver": resolver, "key": KEY}).encode()
    answer = at.ways.program("POST", "/membership", body, content_type="application/json")
    assert answer.status == 201, answer.text


def included(at: Beginning) -> None:
    """Take part at a resolver that answers, and has confirmed the address."""
    resolver, service = (
        Resolver(at.folder / f"resolver-{at.way}"),
        ArchiveSettings.read(at.ways.data).service.main,
    )
    resolver.register(str(service), KEY)
    at.stack.enter_context(resolver.running())
    at.resolver = resolver.url
    joined(at, resolver.url)
    at.wait(lambda: str(service) in resolver.included)


def working(at: Beginning) -> None:
    """Have a job under way that only ends when it is asked to stop."""

    def work(progress: Callable[..., None]) -> None:
        while True:
            progress(1)
            time.sleep(0.005)

    jobs = Jobs(at.ways.data, time.time, lambda: 100 * time.monotonic())
    at.stack.callback(jobs.close)
    at.job = jobs.start("audit", "somebody", work).id


def has_stopped(at: Beginning) -> None:
    """Wait until the job has ended."""
    at.wait(lambda: json.loads(at.ways.program("GET", f"/jobs/{at.job}").body)["state"] == "stopped")


def forgotten(at: Beginning) -> None:
    """Have a peer that may be forgotten."""
    Peer.write_tables(at.ways.data, {"b": Peer(address="http://b.example", token="")})


def kept(at: Beginning) -> None:
    """Have a folder for backups."""
    settings = ArchiveSettings.read(at.ways.data)
    replace(settings, backup_folder=str(at.folder / f"backups-{at.way}")).write(at.ways.data)
