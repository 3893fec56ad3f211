"""Counting acknowledgments at an Archive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ibi.archive.membership.resolver_addresses import ResolverAddresses
from ibi.archive.model.url_key import AcknowledgmentCount, AcknowledgmentRefusal
from ibi.archive.service import acknowledgments
from ibi.archive.service.acknowledgments import AcknowledgmentCounter
from ibi.archive.service.messages import AcknowledgmentRecord
from ibi.archive.store.tables import usage
from ibi.identifier.forms import parse_name
from support.archive.archive_fixture import REP, NewArchive, fill


@pytest.mark.proves("SVC-20")
def test_a_fault_while_some_are_counted_does_not_keep_later_ones_from_being_counted(
    new_archive: Callable[..., NewArchive], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ibi.archive.service.acknowledgments.COUNT_AFTER", 0.01)
    archive = new_archive()
    fill(archive)
    holding = archive.catalogue.holding(parse_name(REP))
    assert holding is not None

    async def no_thread(_host: str, _port: int) -> list[tuple[str, int]]:
        raise RuntimeError("can't start new thread")

    async def count() -> None:
        joined = ResolverAddresses(["http://urlib.example"], no_thread)
        counter = AcknowledgmentCounter(archive.catalogue, archive.clock.seconds, joined)
        counter.add(AcknowledgmentCount(holding.number, "1", 2**40, 1))
        await asyncio.sleep(0.2)
        counter.add(AcknowledgmentCount(holding.number, "2", 2**40, 1))
        await counter.close()

    asyncio.run(count())
    assert archive.catalogue.acknowledgments(holding.number) == 1
    assert "1 acknowledgments were not counted" in caplog.text


def test_readers_of_a_linked_item_count_as_far_as_their_key_may_and_once(
    new_archive: Callable[..., NewArchive],
) -> None:
    archive = new_archive()
    assert archive.load({"rep": REP, "url": "http://far.example/"}).added == 1
    holding = archive.catalogue.holding(parse_name(REP))
    assert holding is not None

    async def count(once: str, readers: int) -> None:
        joined = ResolverAddresses([])
        counter = AcknowledgmentCounter(archive.catalogue, archive.clock.seconds, joined)
        counter.add(AcknowledgmentCount(holding.number, once, 2**40, readers, 4))
        await counter.close()

    figures = []
    for once, readers in (("key 1", 3), ("key 2", 3), ("key 3", 1)):
        asyncio.run(count(once, readers))
        with archive.catalogue.reading() as run:
            found = usage.usage_by_month(run, holding.number, REP, "", "9")
        figures.append([tuple(row.counts) for row in found])
    assert figures == [[(3, 3, 0, 0)], [(4, 4, 0, 0)], [(4, 4, 0, 0)]]


def test_more_than_may_wait_are_dropped_and_the_log_says_so(
    new_archive: Callable[..., NewArchive], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acknowledgments, "MOST_WAITING", 1)
    archive = new_archive()
    fill(archive)
    holding = archive.catalogue.holding(parse_name(REP))
    assert holding is not None

    async def count() -> list[tuple[int, bool]]:
        joined = ResolverAddresses([])
        counter = AcknowledgmentCounter(archive.catalogue, archive.clock.seconds, joined)
        found = [(counter.waiting, counter.record.is_busy)]
        for once in ("1", "1", "2"):
            counter.add(AcknowledgmentCount(holding.number, once, 2**40, 1))
            found.append((counter.waiting, counter.record.is_busy))
        await counter.close()
        return [*found, (counter.waiting, counter.record.is_busy)]

    assert asyncio.run(count()) == [(0, False), (1, True), (1, True), (1, True), (0, False)]
    assert archive.catalogue.acknowledgments(holding.number) == 1
    messages = [each.getMessage() for each in caplog.records]
    assert messages == ["an acknowledgment was not counted: too many are waiting"]


def test_refusals_are_logged_at_once_and_then_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    moments = (0.0, 1.0, 59.9, 60.0, 60.1, 119.9, 120.0)
    clock, logged = [0.0], []
    record = AcknowledgmentRecord(lambda: clock[0])
    for clock[0] in moments:
        record.refuse(AcknowledgmentRefusal.TOO_OLD)
        logged.append([each.getMessage() for each in caplog.records])
        caplog.clear()
    sums = {0: 1, 3: 4, 6: 7}
    start = "acknowledgments were refused, since the start: too-old"
    assert logged == [[f"{start} {sums[at]}"] if at in sums else [] for at in range(7)]
