"""Acts that write history: the same entries, whether a program, a librarian on a page, or a command does them.

Each act is done by the three ways at three Archives that begin alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.operations.listed import OPERATIONS
from ibi.cli import main
from ibi.web.administration_pages import EVENTS
from ibi.web.item_values import HAPPENED
from support.acts.beginnings import (
    KEY,
    RESOLVER,
    Beginning,
    bag,
    copied,
    damaged,
    filed,
    handed,
    has_stopped,
    included,
    is_given,
    joined,
    original,
    peered,
    restored,
    working,
)
from support.archive.archive_fixture import LAST, REP
from support.archive.oai_repository import Repository, answering, article
from support.archive.replication_fixture import NAME
from support.archive.three_ways import BY_NAME, COMMAND, JSON, PAGE, Came, Given, equal_beginnings

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Case:
    """How one act is done: its fields, what comes before, what it leaves, and what each way shows of its result.

    `by_page` and `command`: where the act has a page of its own, or a command with other words; `file`: what the
    page sends with its fields.
    """

    given: Callable[[Beginning], Given]
    what: tuple[str, ...]
    shown: Callable[[Any], list[str]]
    prepare: Callable[[Beginning], None] = lambda _: None
    by_page: Callable[[Beginning], list[tuple[str, str]]] | None = None
    page: str = ""
    page_shows: str = ""
    file: tuple[str, bytes] | None = None
    command: Callable[[Beginning], tuple[str, ...]] | None = None
    after: Callable[[Beginning], None] = lambda _: None


CASES: dict[str, Case] = {
    "deposit": Case(
        lambda _: {"url": "http://far.example/x", "language": "pt"},
        ("deposited",),
        lambda result: [result["rep"].partition("/")[0]],
        by_page=lambda _: [("url", "http://far.example/x"), ("language", "pt")],
        page="deposit",
    ),
    "put-file": Case(
        lambda _: {"ibi": REP, "file": "more.txt", "upload": b"words"},
        ("edited",),
        lambda result: [result["rep"]],
        by_page=lambda _: [("target", "index.html")],
        page=f"files/{REP}",
        file=("more.txt", b"words"),
        command=lambda at: ("edit", REP, "--file", at.written("more.txt", b"words")),
    ),
    "take-out-file": Case(
        lambda _: {"ibi": REP, "file": "more.txt"},
        ("edited",),
        lambda result: [result["rep"]],
        filed,
        by_page=lambda _: [("target", "index.html"), ("without", "more.txt"), ("sure", "yes")],
        page=f"files/{REP}",
        command=lambda _: ("edit", REP, "--without", "more.txt"),
    ),
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
DECIDED: dict[str, Case] = {
    "join": Case(
        lambda _: {"resolver": RESOLVER, "key": KEY, "also": "yes"},
        (),
        lambda result: [result["service"], result["key"]],
        by_page=lambda _: [("what", "join"), ("resolver", RESOLVER), ("key", KEY)],
        page="membership",
    ),
    "leave": Case(
        lambda _: {"resolver": RESOLVER},
        (),
        lambda _: [RESOLVER],
        joined,
        by_page=lambda _: [("what", "leave"), ("resolver", RESOLVER), ("sure", "yes")],
        page="membership",
        page_shows='role="status"',
    ),
    "switch": Case(
        lambda _: {"switched_on": "no"},
        (),
        lambda result: ["switched on" if result["switched_on"] else "switched off"],
        by_page=lambda _: [("what", "switch"), ("switched_on", "no"), ("sure", "yes")],
        page="membership",
        command=lambda _: ("switch", "off"),
    ),
    "rotate-key": Case(
        lambda at: {"resolver": at.resolver}, (), lambda result: [result["resolver"]], included
    ),
    "stop-job": Case(
        lambda at: {"id": at.job}, (), lambda result: [result["id"]], working, after=has_stopped
    ),
}  # fmt: skip
"""Acts that change no item: what they decide stands in the settings, or in a job."""
WITHOUT_HISTORY: dict[str, Given] = {
    "set": {"audit_days": "3"},
    "set-institution": {"name": "A library"},
    "peer": {"name": "b", "address": "http://b.example"},
    "forget-peer": {"name": "b"},
    "audit": {},
    "check": {"repair": "yes"},
    "backup": {},
    "index": {},
}
"""What else changes no item, with fields; `test_three_ways` compares what it leaves."""
ELSEWHERE = {"edit", "delete"}
"""Acts on items whose histories `test_three_ways` compares."""


def test_every_act_that_changes_something_is_here() -> None:
    acts = {each.name for each in OPERATIONS if each.changes}
    assert acts == CASES.keys() | DECIDED.keys() | WITHOUT_HISTORY.keys() | ELSEWHERE


@pytest.fixture
def beginnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Beginning]]:
    """Three Archives that begin alike, each with another one beside it."""
    monkeypatch.setenv("LANGUAGE", "en")
    with (
        answering(Repository([article(1), article(2)])) as repository,
        equal_beginnings(
            tmp_path, lambda stack, way, folder: Beginning.begin(stack, way, folder, capsys, repository.url)
        ) as made,
    ):
        yield made


def done(at: Beginning, name: str, case: Case) -> Came:
    """Do an act by the way of this beginning."""
    operation, ways = BY_NAME[name], at.ways
    if at.way == JSON:
        return ways.by_json(operation, case.given(at), if_match="*")
    if at.way == PAGE:
        if case.by_page is None:
            return ways.by_page(operation, case.given(at))
        return by_its_page(at, case, case.by_page(at))
    if case.command is None:
        return ways.by_command(operation, case.given(at))
    ways.capsys.readouterr()
    word, *words = case.command(at)
    status = main(["archive", word, "--data", str(ways.data), *words])
    printed = ways.capsys.readouterr()
    return Came("" if status == 0 else printed.err, printed.out, printed.err)


def by_its_page(at: Beginning, case: Case, fields: list[tuple[str, str]]) -> Came:
    """Fill in the page that an act has of its own, with the version and the key that stand in its form."""
    path, root = f"/-/admin/{case.page}", at.ways.root
    text = root.look(path).text
    sent = [*((name, root.hidden(name)) for name in ("once", "since") if f'name="{name}"' in text), *fields]
    if 'enctype="multipart/form-data"' in text:
        parts = [(name, None, value.encode()) for name, value in sent]
        files = [("file", *case.file)] if case.file else []
        answer = root.send_files(path, *parts, *files)
    else:
        answer = root.send(path, *sent)
    shown = root.gone_to(answer) if answer.status == 303 else answer
    assert shown.status == 200, shown.text
    return Came(result=shown.text)


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
    check_shown(case, results)


@pytest.mark.parametrize("name", DECIDED)
def test_each_way_decides_the_same_and_shows_the_same_result(beginnings: list[Beginning], name: str) -> None:
    case, decided, results = DECIDED[name], [], []
    for at in beginnings:
        case.prepare(at)
        at.before, before = at.history(), at.decided()
        came = done(at, name, case)
        assert came.refusal == "", (at.way, came)
        shown = json.dumps(came.result) if at.way == JSON else f"{came.result}\n{came.beside}"
        results.append(json.loads(at.anywhere(shown)) if at.way == JSON else at.anywhere(shown))
        case.after(at)
        decided.append(at.decided())
        assert decided[-1] != before
        assert at.added() == {}
    assert decided[1] == decided[0]
    assert decided[2] == decided[0]
    check_shown(case, results)


def check_shown(case: Case, results: list[Any]) -> None:
    """Check that page and command show what the answer in JSON, the first one, says."""
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
