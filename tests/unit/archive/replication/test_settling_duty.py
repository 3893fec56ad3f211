"""When a served Archive asks what became of restored originals, and what its log says of the answers."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.replication import restored_originals
from ibi.archive.replication.restored_originals import SettlingDuty, SettlingResult
from ibi.errors import IbiError
from support.clock import run_with_false_clock

DATA = Path("DATA")
LEFT = (
    "it is not known what became of the originals that are left ({}): where you know that they are here and were not "
    "removed, claim them again: ibi archive settle --data DATA --name IBI, or --all"
)


class Answers:
    """Gives one result after the other, the last one for ever; notes when it was requests, and by whom."""

    data = DATA

    def __init__(self, *results: SettlingResult, unsettled: int = 1) -> None:
        self.results = list(results)
        self.unsettled = unsettled
        self.requests: list[tuple[float, str]] = []

    def count(self) -> int:
        return self.unsettled

    async def ask(self, who: str) -> SettlingResult:
        self.requests.append((asyncio.get_running_loop().time(), who))
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]


def pauses(answers: Any, seconds: int) -> list[int]:
    """The seconds between the times at which it is requests, from the beginning; it is looked at each second."""

    async def live() -> float:
        duty, begun = SettlingDuty(answers), asyncio.get_running_loop().time()
        for _ in range(seconds):
            await duty.look()
            await asyncio.sleep(1)
        return begun

    times = [run_with_false_clock(live()), *(moment for moment, _ in answers.requests)]
    return [round(later - earlier) for earlier, later in pairwise(times)]


def test_it_asks_less_and_less_often_until_something_is_settled() -> None:
    nothing = SettlingResult(left=2)
    answers = Answers(
        *[nothing] * 8, SettlingResult(moved=1, left=1), nothing, SettlingResult(removed=1), nothing
    )
    assert pauses(answers, 1300) == [0, 10, 20, 40, 80, 160, 300, 300, 300, 5, 10, 5, 10, 20]
    assert {who for _, who in answers.requests} == {"settling"}


def test_no_request_is_sent_while_nothing_is_unsettled() -> None:
    assert pauses(Answers(SettlingResult(), unsettled=0), 20) == []


def test_the_log_says_what_was_settled_and_what_is_left_to_a_person(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    silent, none = IbiError("it does not answer"), IbiError("no resolver has been joined")
    answers = Answers(
        SettlingResult(moved=1, removed=2, left=3),
        SettlingResult(moved=1),
        SettlingResult(moved=1, left=1, problems=[("http://r.example", silent), ("", none)]),
    )
    assert pauses(answers, 11) == [0, 5, 5]
    named = [each for each in caplog.records if each.name == restored_originals.__name__]
    assert [(each.levelname, each.getMessage()) for each in named] == [
        ("INFO", "restored originals: 1 moved, 2 removed, 3 left"),
        ("WARNING", LEFT.format(3)),
        ("INFO", "restored originals: 1 moved, 0 removed, 0 left"),
        ("INFO", "restored originals: 1 moved, 0 removed, 1 left"),
        ("WARNING", "restored originals cannot be settled by http://r.example: it does not answer"),
        ("WARNING", "restored originals cannot be settled by asking: no resolver has been joined"),
    ]
