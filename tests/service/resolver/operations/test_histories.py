"""Decisions at a resolver: the same evidence, whether a program, an administrator on a page, or a command makes them.

Each is made by the three ways at three resolvers that begin alike.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts.tokens import Scope
from ibi.cli import main
from ibi.identifier.forms import parse_ibi
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.model.archive import Move
from ibi.resolver.operations.listed import OPERATIONS
from support.archive.administration_fixture import Librarian
from support.archive.three_ways import COMMAND, JSON, PAGE, equal_beginnings
from support.resolver.administration_fixture import AdministeredResolver, administered_resolver

pytestmark = pytest.mark.long

ARCHIVE = "a.example/b/2014/01.01.00.00"
BY = {JSON: "token admin", PAGE: "account root", COMMAND: "command"}
BY_NAME = {each.name: each for each in OPERATIONS}


@dataclass
class Beginning:
    """A resolver before a decision, and the way by which it is made."""

    way: str
    resolver: AdministeredResolver
    browser: Librarian
    capsys: pytest.CaptureFixture[str]
    before: int = 0

    def evidence(self) -> list[tuple[str, dict[str, str | int]]]:
        """The facts of all entries."""
        with closing(Evidence(self.resolver.data / EVIDENCE_FILE, time.time)) as evidence:
            return [(entry.what, dict(entry.facts)) for entry in evidence.entries()]

    def added(self) -> list[tuple[str, dict[str, str | int]]]:
        """The entries since the beginning; each names the way by which it came, and is told without it."""
        entries = self.evidence()[self.before :]
        assert [facts.pop("by") for _, facts in entries] == [BY[self.way]] * len(entries)
        return entries


@dataclass(frozen=True)
class Case:
    """How one decision is made: the body of JSON, the fields of the page, the words of the command.

    `what`: the kinds of entries that it leaves; `shown`: what each way shows of its result (else nothing);
    `secret`: whether it shows a key, which differs from place to place; `then`: the page that shows it, if another.
    """

    body: dict[str, Any] | None
    page: str
    form: list[tuple[str, str]]
    words: tuple[str, ...]
    what: list[str]
    prepare: Callable[[AdministeredResolver], None] = lambda _: None
    shown: str = ARCHIVE
    secret: bool = False
    then: str = ""


def applied(resolver: AdministeredResolver) -> None:
    """An Archive has applied."""
    resolver.registry.apply(
        parse_ibi(ARCHIVE), "archive.example", "ada@archive.example", "Ada", ["b.example"]
    )


def registered(resolver: AdministeredResolver) -> None:
    """An Archive is registered."""
    resolver.registry.register(parse_ibi(ARCHIVE))


def moving(resolver: AdministeredResolver) -> None:
    """A registered Archive wants to move."""
    registered(resolver)
    resolver.registry.hold_move(parse_ibi(ARCHIVE), Move("new.example", "192.0.2.7", 1.0))


def disputed(resolver: AdministeredResolver) -> None:
    """Two Archives have claimed an original."""
    with closing(Evidence(resolver.data / EVIDENCE_FILE, lambda: 1_900_000_000.0)) as evidence:
        evidence.write("alert", kind="suspect-originals", ibi=ARCHIVE, archives=f"{ARCHIVE} {ARCHIVE[:-1]}1")


def about(what: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """The fields of a button on a page about an Archive."""
    return [("ibi", ARCHIVE), ("what", what), *more]


SURE = ("sure", "yes")
CASES = {
    "register": Case(
        {"ibi": ARCHIVE}, "do/register", [("ibi", ARCHIVE)], ("register", "--archive-service", ARCHIVE),
        ["registered"], secret=True,
    ),
    "approve": Case(None, "applications", about("approve"), ("approve", ARCHIVE), ["approved"], applied,
                    then="archives"),
    "refuse": Case(
        {"reason": "Not ours."}, "applications", about("refuse", ("reason", "Not ours.")),
        ("refuse", ARCHIVE, "--reason", "Not ours."), ["unregistered"], applied, "",
    ),
    "rotate": Case(
        None, "archives", about("key", SURE), ("rotate", ARCHIVE), ["rotated"], registered, secret=True,
    ),
    "allow-move": Case(None, "archives", about("move"), ("allow-move", ARCHIVE), ["move-allowed"], moving),
    "unregister": Case(
        None, "archives", about("forget", SURE), ("unregister", "--archive-service", ARCHIVE), ["unregistered"],
        registered, "",
    ),
    "settle-alert": Case(
        None, "alerts", [("ibi", ARCHIVE)], ("settle-alert", ARCHIVE), ["settled"], disputed, "",
    ),
    "set-institution": Case(
        {"name": "A network"}, "identity", [("name", "A network")], ("institution", "--name", "A network"),
        [], shown="A network",
    ),
    "set": Case(
        {"grace_seconds": 0.25, "admin": "ada@urlib.net"}, "policies",
        [("grace_seconds", "0.25"), ("admin", "ada@urlib.net")],
        ("set", "grace_seconds", "0.25", "admin", "ada@urlib.net"), ["setting", "setting"], shown="0.25",
    ),
}  # fmt: skip
KEY = re.compile(r"\b\d{20,}(-\d{20,})?\b")


def test_every_decision_is_here() -> None:
    assert {each.name for each in OPERATIONS if each.changes} == CASES.keys()


@pytest.fixture
def beginnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Beginning]]:
    """Three resolvers that begin alike."""
    monkeypatch.setenv("LANGUAGE", "en")

    def begin(stack: ExitStack, way: str, folder: Path) -> Beginning:
        resolver = stack.enter_context(administered_resolver(folder))
        return Beginning(way, resolver, resolver.browser("root"), capsys)

    with equal_beginnings(tmp_path, begin) as made:
        yield made


def done(at: Beginning, name: str, case: Case) -> str:
    """Make a decision by the way of this beginning; all that is shown of it."""
    if at.way == JSON:
        method, pattern = BY_NAME[name].method, BY_NAME[name].pattern.replace("<ibi>", ARCHIVE)
        reply = at.resolver.ask(method, pattern, case.body, Scope.ADMIN)
        assert reply.status < 300, reply.text
        return reply.text
    if at.way == PAGE:
        path = f"/-/admin/{case.page}"
        text = at.browser.look(path).text
        found = re.findall(r'name="(was\.\w+|version)" value="([^"]*)"', text)
        seen = [(one, unescape(value)) for one, value in found]
        typed = dict(case.form)
        kept = [(one.removeprefix("was."), value) for one, value in seen if one.startswith("was.")]
        others = [(one, value) for one, value in kept if one not in typed]
        answer = at.browser.send(path, *seen, *others, *case.form)
        shown = at.browser.gone_to(answer) if answer.status == 303 else answer
        assert shown.status == 200, shown.text
        return at.browser.look(f"/-/admin/{case.then}").text if case.then else shown.text
    at.capsys.readouterr()
    word, *words = case.words
    status = main(["resolver", word, "--data", str(at.resolver.data), *words])
    printed = at.capsys.readouterr()
    assert status == 0, printed.err
    return printed.out + printed.err


@pytest.mark.parametrize("name", CASES)
def test_each_way_leaves_the_same_evidence_and_shows_the_same_result(
    beginnings: list[Beginning], name: str
) -> None:
    case, added = CASES[name], []
    for at in beginnings:
        case.prepare(at.resolver)
        at.before = len(at.evidence())
        shown = done(at, name, case)
        assert case.shown in shown, (at.way, shown)
        assert bool(KEY.search(shown)) == case.secret, (at.way, shown)
        added.append(at.added())
    assert sorted(what for what, _ in added[0]) == case.what
    assert sorted(added[1], key=json.dumps) == sorted(added[0], key=json.dumps)
    assert sorted(added[2], key=json.dumps) == sorted(added[0], key=json.dumps)
