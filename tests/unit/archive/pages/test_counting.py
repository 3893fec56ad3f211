"""When visits are counted, what is counted together, what is forgotten, and what the log has of those that are lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from ibi.archive.pages.statistics import Statistics
from ibi.archive.pages.visits import DOUBLE_CLICK, MANY, ItemVisit, VisitCounter
from ibi.archive.store.tables import usage
from ibi.archive.store.tables.usage import UsageCounts
from ibi.errors import SetupError
from support.archive.archive_fixture import NOW, NewArchive

READER = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"
)


WAIT = 60.0
"""Seconds after which visits are counted here: so many that no machine is too slow for these tests."""


@pytest.fixture(autouse=True)
def _waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibi.archive.pages.visits.COUNT_AFTER", WAIT)


class LeapingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be set ahead."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def run(work: Callable[[LeapingLoop], Coroutine[Any, Any, None]]) -> None:
    loop = LeapingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work(loop))


async def wait(loop: LeapingLoop, seconds: float) -> None:
    """Let what has begun wait for its time, which comes then."""
    for _ in range(5):
        await asyncio.sleep(0)
    loop.ahead += seconds
    await asyncio.sleep(0.02)


def visit(number: int = 1, moment: float = NOW, url: str = "/", *, fetched: bool = False) -> ItemVisit:
    return ItemVisit(1, fetched, url, lambda: f"192.0.2.{number}", READER, moment)


def counts(archive: NewArchive) -> UsageCounts:
    """The visits of all items together."""
    total = UsageCounts()
    for line in Statistics(archive.catalogue).of_all():
        total = total.plus(line.counts)
    return total


async def until(true: Callable[[], bool]) -> None:
    """Wait for what threads do."""
    for _ in range(2000):
        if true():
            return
        await asyncio.sleep(0.005)
    raise AssertionError


def test_visits_are_counted_after_a_while_or_when_they_are_many(archive: NewArchive) -> None:
    async def work(loop: LeapingLoop) -> None:
        counter = VisitCounter(archive.catalogue, archive.clock.seconds)
        for number in range(MANY - 1):
            counter.add(visit(number))
        await asyncio.sleep(0.1)
        assert counts(archive).investigations == 0
        counter.add(visit(MANY))
        await until(lambda: counts(archive).investigations == MANY)
        await asyncio.sleep(0.05)
        # The next ones wait again.
        counter.add(visit(200))
        await asyncio.sleep(0.1)
        assert counts(archive).investigations == MANY
        await wait(loop, WAIT)
        await until(lambda: counts(archive).investigations == MANY + 1)
        counter.add(visit(201))
        await counter.close()
        assert counts(archive).investigations == MANY + 2

    run(work)


def test_an_address_is_counted_again_only_more_than_thirty_seconds_later(archive: NewArchive) -> None:
    async def work(_loop: LeapingLoop) -> None:
        counter = VisitCounter(archive.catalogue, archive.clock.seconds)
        moments = 0, DOUBLE_CLICK, 2 * DOUBLE_CLICK + 0.1
        for moment in moments:
            counter.add(visit(moment=NOW + moment, fetched=True))
        counter.add(visit(moment=NOW + 1, url="/other"))
        await counter.close()

    assert DOUBLE_CLICK == 30
    run(work)
    # The second one is a double click; the third one came more than thirty seconds after it, in the same hour.
    assert counts(archive) == UsageCounts(
        investigations=3, unique_investigations=1, requests=2, unique_requests=1
    )


def test_what_has_expired_is_forgotten_with_the_next_visits_after_an_hour_without_any_and_at_the_start(
    archive: NewArchive,
) -> None:
    def is_left() -> bool:
        with archive.catalogue.reading() as reading:
            return usage.has_expired_fingerprints(reading, archive.clock.now)

    async def work(loop: LeapingLoop) -> None:
        counter = VisitCounter(archive.catalogue, archive.clock.seconds)
        counter.add(visit())
        await wait(loop, WAIT)
        await until(lambda: counts(archive).investigations == 1)
        archive.clock.now += 7200
        assert is_left()
        counter.add(visit(2, archive.clock.now))
        await wait(loop, WAIT)
        await until(lambda: counts(archive).investigations == 2)
        await until(lambda: not is_left())
        await asyncio.sleep(0.05)
        archive.clock.now += 7200
        await wait(loop, 3590)
        await asyncio.sleep(0.05)
        assert is_left()
        await wait(loop, 10.1)
        await until(lambda: not is_left())
        counter.add(visit(3, archive.clock.now))
        await counter.close()
        archive.clock.now += 7200
        await wait(loop, 7200)
        await asyncio.sleep(0.05)
        assert is_left()  # nothing is forgotten by a counter that was closed
        VisitCounter(archive.catalogue, archive.clock.seconds)
        assert not is_left()

    run(work)


def test_the_log_tells_how_many_visits_were_lost_and_why(
    archive: NewArchive, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> NoReturn:
        raise SetupError("the disk is full")

    def faulty(*_: object) -> NoReturn:
        raise ZeroDivisionError("192.0.2.1")

    async def lost(counter: VisitCounter) -> None:
        counter.add(visit(1))
        counter.add(visit(2))
        await counter.close()

    async def work(_loop: LeapingLoop) -> None:
        full = SimpleNamespace(reading=refused, writing=refused)
        await lost(VisitCounter(full, archive.clock.seconds))  # type: ignore[arg-type]  # it has what is used
        monkeypatch.setattr(usage, "key_of_day", faulty)
        await lost(VisitCounter(archive.catalogue, archive.clock.seconds))

    run(work)
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [
        (logging.WARNING, "visits could not be forgotten: the disk is full"),
        (logging.WARNING, "2 visits were not counted: the disk is full"),
        (logging.ERROR, "2 visits were not counted: ZeroDivisionError"),
    ]
