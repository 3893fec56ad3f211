"""Answers that wait for the database: how often items are read for one, and what is done when it is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest

from ibi.archive.service import later
from ibi.archive.service.later import MOST_NAMES, TRIES, LaterAnswers
from ibi.archive.store.postgresql.item_reader import NotRead
from ibi.http.response import Response

NAME = "a.example/b/2010/01.01.00.00"
MESSAGE: Any = SimpleNamespace(ibi=SimpleNamespace(canonical=NAME))
ANSWER = Response(203, b"it is here", "text/plain")
GIVEN = (203, ANSWER.whole())
Outcome = Response | Exception


class Scene:
    """Takes the place of the reader and of the messages: each reading leads to the next outcome, or to the last one."""

    def __init__(self, patch: pytest.MonkeyPatch, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.wanted: list[set[str]] = []
        self.waiting: list[Callable[[Any], None]] = []
        self.reads = True
        self.linked: set[str] = set()
        self.done: list[Any] = []
        counts: Any = SimpleNamespace(at_once=Counter[int]())
        self.counts = counts.at_once
        patch.setattr(later, "ItemReader", self.reader)
        messages: Any = SimpleNamespace(
            url_request=lambda request: request, answer_from_snapshot=self.answer_from_snapshot
        )
        self.answers = LaterAnswers("postgresql://there", 1000, messages, counts)

    def reader(self, *given: object) -> Any:
        assert given == ("postgresql://there", 1000)
        return SimpleNamespace(read=self.read, close="closes it")

    def read(self, names: Collection[str], found: Callable[[Any], None]) -> bool:
        self.wanted.append(set(names))
        self.waiting.append(found)
        return self.reads

    def answer_from_snapshot(self, items: Any, message: object, request: object) -> Response:
        assert (items.linked(set()), message, request) == (self.linked, MESSAGE, MESSAGE)
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def begin(self) -> bool:
        return self.answers.begin(MESSAGE, self.done.append)

    def run(self) -> list[Any]:
        """Begin, and find items until there is an answer; it is given once."""
        assert self.begin()
        while self.waiting:
            assert (self.done, len(self.wanted) <= TRIES) == ([], True)
            self.waiting.pop(0)(SimpleNamespace(linked=lambda _: self.linked))
        return self.done


def test_an_answer_is_given_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, ANSWER)
    assert (scene.run(), scene.wanted, scene.counts) == ([GIVEN], [{NAME}], {203: 1})
    assert str(scene.answers.close) == "closes it"


def test_another_message_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, ANSWER)
    other: Any = None
    assert (scene.answers.begin(other, scene.done.append), scene.wanted) == (False, [])
    scene.reads = False
    assert (scene.begin(), scene.done) == (False, [])


def test_items_that_cannot_be_read_have_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, ANSWER)
    assert scene.begin()
    scene.waiting.pop()(None)
    assert (scene.done, scene.counts) == ([None], {})


def test_a_missing_item_is_read_with_all_to_which_the_others_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, NotRead("x"), NotRead("y"), ANSWER)
    scene.linked = {"z"}
    assert scene.run() == [GIVEN]
    assert scene.wanted == [{NAME}, {NAME, "x", "z"}, {NAME, "x", "y", "z"}]


@pytest.mark.parametrize("fault", [NotRead("x"), RuntimeError("a fault")], ids=["missing", "fault"])
def test_what_does_not_come_to_an_end_is_left_to_the_ordinary_path(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    scene = Scene(monkeypatch, fault)
    assert (scene.run(), scene.counts) == ([None], {})
    assert len(scene.wanted) == (TRIES if isinstance(fault, NotRead) else 1)


def test_items_that_can_be_read_no_more_are_left_to_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, NotRead("x"))
    assert scene.begin()
    scene.reads = False
    scene.waiting.pop()(SimpleNamespace(linked=lambda _: set()))
    assert scene.done == [None]


@pytest.mark.parametrize(("names", "is_read"), [(MOST_NAMES, True), (MOST_NAMES + 1, False)])
def test_so_many_items_are_read_for_one_answer(
    monkeypatch: pytest.MonkeyPatch, names: int, is_read: bool
) -> None:
    scene = Scene(monkeypatch, NotRead("x"), ANSWER)
    scene.linked = {str(number) for number in range(names - 2)}
    assert scene.run() == ([GIVEN] if is_read else [None])
    assert len(scene.wanted) == (2 if is_read else 1)
