"""Counting acknowledgments at an Archive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ibi.archive.membership.resolver_addresses import ResolverAddresses
from ibi.archive.model.url_key import AcknowledgmentCount, AcknowledgmentRefusal
from ibi.archive.service.acknowledgments import AcknowledgmentCounter
from ibi.archive.service.messages import AcknowledgmentRecord
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
