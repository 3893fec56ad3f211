"""Acts that write history: the same entries, whether a program, a librarian on a page, or a command does them.

Each act is done by the three ways at three Archives that begin alike.
"""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.app.archive import archive_directory
from ibi.archive.operations.listed import OPERATIONS
from ibi.archive.store.tables import unsettled
from ibi.cli import main
from ibi.runtime.settings import ArchiveSettings, Peer
from ibi.web.administration_pages import EVENTS
from ibi.web.item_page import HAPPENED
from support.archive.administration_fixture import administered_archive
from support.archive.archive_fixture import LAST, REP
from support.archive.oai_repository import Repository, answering, article
from support.archive.replication_fixture import NAME, Archive, make_archive
from support.archive.three_ways import BY_NAME, COMMAND, JSON, PAGE, Came, Given, Ways, equal_beginnings
from support.programs import MADE

pytestmark = pytest.mark.long

Entries = dict[str, list[dict[str, Any]]]


@dataclass
class Beginning:
    """An Archive before an act, the other Archive beside it, and the way by which the act is done."""

    way: str
    ways: Ways
    there: Archive
    gate: Gate
    repository: str
    folder: Path
    transfer: str = ""
    before: Entries = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The root URL of the Archive."""
        return f"http://127.0.0.1:{self.ways.root.port}"

    def history(self) -> Entries:
        """The entries of each item, as a program reads them."""
        items = json.loads(self.ways.program("GET", "/items?limit=500").body)["items"]
        return {each.get("key") or each.get("rep") or each["ibip"]: each["history"] for each in items}

    def added(self) -> Entries:
        """The entries since the beginning, without what differs from place to place."""
        places = {self.root: "HERE", self.there.root: "THERE", self.gate.root: "THERE"}
        authors = {"ways", "root", getpass.getuser()}
        found: Entries = {}
        for name, entries in self.history().items():
            for each in entries[len(self.before.get(name, [])) :]:
                text = json.dumps(each["detail"], sort_keys=True)
                for place, word in places.items():
                    text = text.replace(place, word)
                who = "who does it" if each["who"] in authors else each["who"]
                found.setdefault(name, []).append({"what": each["what"], "who": who, "detail": text})
        return found

    def wait(self, is_so: Callable[[], bool]) -> None:
        """Wait until the running Archive has done its part."""
        end = time.monotonic() + 30
        while not is_so():
            assert time.monotonic() < end, "the Archive does not go on"
            time.sleep(0.1)


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


@dataclass(frozen=True)
class Case:
    """How one act is done: its fields, what comes before, what it leaves, and what each way shows of its result.

    `by_page` and `command`: where the act has a page of its own, or a command with other words.
    """

    given: Callable[[Beginning], Given]
    what: tuple[str, ...]
    shown: Callable[[Any], list[str]]
    prepare: Callable[[Beginning], None] = lambda _: None
    by_page: Callable[[Beginning], list[tuple[str, str]]] | None = None
    page: str = ""
    page_shows: str = ""
    command: Callable[[Beginning], tuple[str, ...]] | None = None
    after: Callable[[Beginning], None] = lambda _: None


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
        unsettled.unsettle_originals(writer.run, "2026-01-01T00:00:00Z", service.number)


CASES: dict[str, Case] = {
    "copy": Case(
        lambda at: {"ibi": NAME, "archive": at.there.root, "private": "yes"},
        ("copied",),
        lambda result: [result["rep"]],
        original,
        by_page=lambda at: [("ibi", NAME), ("archive", at.there.root), ("private", "yes")],
        page="copy",
    ),
    "refresh": Case(lambda _: {"ibi": NAME}, ("refreshed",), lambda result: [result["ibi"]], copied),
    "hand-over": Case(
        lambda _: {"ibi": REP, "to": "there"},
        ("given",),
        lambda result: [result["item"]],
        peered,
        by_page=lambda _: [("to", "there"), ("sure", "yes")],
        page=f"transfer/{REP}",
        page_shows='role="status"',
        after=is_given,
    ),
    "take-back": Case(
        lambda at: {"transfer": at.transfer},
        ("returned",),
        lambda result: [result["item"]],
        handed,
        by_page=lambda at: [("transfer", at.transfer)],
        page="transfer",
        page_shows='role="status"',
        command=lambda _: ("transfer", REP, "--cancel"),
    ),
    "harvest": Case(
        lambda at: {"url": at.repository, "allow_private": "yes"},
        ("harvested",),
        lambda result: [str(result["added"])],
    ),
    "import-bag": Case(bag, ("deposited",), lambda result: [result["rep"]]),
    "repair": Case(
        lambda _: {"ibi": LAST, "file": "a.txt", "upload": b"aaa"},
        ("repaired",),
        lambda result: [result["ibi"], result["file"]],
        damaged,
    ),
    # Before, it is not in the list of items, with all that has happened to it.
    "settle": Case(
        lambda _: {"names": REP},
        ("imported", "settled"),
        lambda result: [str(result["settled"]), str(result["left"])],
        restored,
    ),
    "retire": Case(
        lambda _: {"to": "there"}, ("given",), lambda result: [str(result["moved"])], peered
    ),
}  # fmt: skip
WITHOUT_HISTORY: dict[str, Given] = {
    "join": {"resolver": "http://127.0.0.1:8099"},
    "leave": {"resolver": "http://127.0.0.1:8099"},
    "switch": {"switched_on": "no"},
    "rotate-key": {"resolver": "http://127.0.0.1:8099"},
    "set": {"audit_days": "3"},
    "peer": {"name": "b", "address": "http://b.example"},
    "forget-peer": {"name": "b"},
    "audit": {},
    "check": {"repair": "yes"},
    "backup": {},
    "index": {},
    "stop-job": {"id": "0" * 32},
}
"""What changes no item, with fields."""
OF_ITEMS = {"deposit", "edit", "put-file", "take-out-file", "delete"}
"""Acts on items, whose pages are their own: `test_three_ways` compares what they write."""


def test_every_act_that_changes_something_is_here() -> None:
    acts = {each.name for each in OPERATIONS if each.changes}
    assert acts == CASES.keys() | WITHOUT_HISTORY.keys() | OF_ITEMS


@pytest.fixture
def beginnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Beginning]]:
    """Three Archives that begin alike, each with another one beside it."""
    monkeypatch.setenv("LANGUAGE", "en")
    with answering(Repository([article(1), article(2)])) as repository:

        def begin(stack: ExitStack, way: str, folder: Path) -> Beginning:
            served = stack.enter_context(administered_archive(folder))
            there = make_archive(folder, 2)
            stack.enter_context(there.served())
            gate = stack.enter_context(Gate(there.port).open())
            token = Tokens(served.archive.data).make("ways", MADE, [Scope.ADMIN])
            ways = Ways(served.archive.data, served.new_browser("root"), token, capsys, folder)
            return Beginning(way, ways, there, gate, repository.url, tmp_path)

        with equal_beginnings(tmp_path, begin) as made:
            yield made


def done(at: Beginning, name: str, case: Case) -> Came:
    """Do an act by the way of this beginning."""
    operation, ways = BY_NAME[name], at.ways
    if at.way == JSON:
        return ways.by_json(operation, case.given(at))
    if at.way == PAGE:
        if case.by_page is None:
            return ways.by_page(operation, case.given(at))
        path = f"/-/admin/{case.page}"
        ways.root.look(path)
        answer = ways.root.gone_to(ways.root.send(path, *case.by_page(at)))
        return Came(result=answer.text)
    if case.command is None:
        return ways.by_command(operation, case.given(at))
    ways.capsys.readouterr()
    word, *words = case.command(at)
    status = main(["archive", word, "--data", str(ways.data), *words])
    printed = ways.capsys.readouterr()
    return Came("" if status == 0 else printed.err, printed.out, printed.err)


@pytest.mark.parametrize("name", CASES)
def test_each_way_leaves_the_same_history_and_shows_the_same_result(
    beginnings: list[Beginning], name: str
) -> None:
    case, added, results = CASES[name], [], []
    for at in beginnings:
        case.prepare(at)
        at.before = at.history()
        came = done(at, name, case)
        assert came.refusal == "", (at.way, came)
        results.append(came.result if at.way == JSON else f"{came.result}\n{came.beside}")
        case.after(at)
        added.append(at.added())
    assert added[0]
    assert {each["what"] for entries in added[0].values() for each in entries} == set(case.what)
    assert added[1] == added[0]
    assert added[2] == added[0]
    for way, result in zip((PAGE, COMMAND), results[1:], strict=True):
        wanted = [case.page_shows] if way == PAGE and case.page_shows else case.shown(results[0])
        assert [each for each in wanted if each not in result] == [], (way, result)


def test_a_page_has_words_for_what_a_history_says() -> None:
    assert {word for case in CASES.values() for word in case.what} - EVENTS.keys() == set()
    assert EVENTS.keys() == HAPPENED.keys()


def test_what_changes_no_item_writes_no_history(beginnings: list[Beginning]) -> None:
    at, *_ = beginnings
    at.before = at.history()
    for name, given in WITHOUT_HISTORY.items():
        at.ways.by_json(BY_NAME[name], given)
        assert at.added() == {}, name
