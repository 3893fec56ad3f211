"""A hand-over tells the resolvers at once: which ones, for how long it waits, and what the log says if that fails."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ibi.archive.membership.announcing import Announcer
from ibi.archive.membership.joining import Resolvers
from ibi.archive.store.tables import memberships
from ibi.archive.store.tables.memberships import MembershipRecord, MembershipStanding
from ibi.identifier.forms import parse_name
from ibi.runtime.settings import ArchiveSettings
from support.archive.archive_fixture import REP, NewArchive
from support.archive.membership_fixture import RESOLVER_SERVICE, ScriptedResolver, Step
from support.clock import run_with_false_clock

RECEIVED: Step = (200, b"notice {change received}")
BUSY: Step = (503, b"error {later}")
NAMES = (parse_name(REP),)


@dataclass
class Announcement:
    """What an announcement did: the targets that a resolver was asked for, and the seconds that it took."""

    targets: list[str]
    seconds: float


def announce(
    archive: NewArchive,
    resolver: ScriptedResolver,
    standing: MembershipStanding | None = MembershipStanding.INCLUDED,
    *,
    on: bool = True,
    times: int = 1,
    between: Callable[[], object] = bool,
) -> Announcement:
    async def run() -> Announcement:
        async with resolver:
            settings = Resolvers.read(archive.data).joining(resolver.url, None, also=False).settings
            Resolvers(settings).switching(on=on).write(archive.data)
            if standing is not None:
                with archive.catalogue.writing() as writer:
                    memberships.save(
                        writer.run, MembershipRecord(resolver.url, standing, "2026-01-01T00:00:00Z")
                    )
            announcer, began = Announcer(archive.data, archive.catalogue), asyncio.get_running_loop().time()
            for _ in range(times):
                await announcer.announce(NAMES)
                between()
            return Announcement(resolver.targets, asyncio.get_running_loop().time() - began)

    return run_with_false_clock(run())


def test_a_resolver_that_includes_the_archive_is_told_each_time(archive: NewArchive) -> None:
    sent = announce(archive, ScriptedResolver(RECEIVED), times=2)
    assert [target.partition("?")[0] for target in sent.targets] == ["/-/about", f"/{RESOLVER_SERVICE}"] * 2
    assert REP.rpartition("/")[2] in sent.targets[1]


@pytest.mark.parametrize(
    ("standing", "on"),
    [
        (None, True),
        (MembershipStanding.WAITING, True),
        (MembershipStanding.EXCLUDED, True),
        (MembershipStanding.INCLUDED, False),
        (None, False),
    ],
)
def test_no_other_resolver_is_told(
    archive: NewArchive, standing: MembershipStanding | None, *, on: bool
) -> None:
    assert announce(archive, ScriptedResolver(RECEIVED), standing, on=on).targets == []


@pytest.mark.parametrize(
    ("step", "targets", "problem"),
    [
        (BUSY, 4, "is not told at once of a hand-over: it answered with status 503"),
        ((400, b""), 2, "is not told at once of hand-overs, for 60 s: it answered with status 400"),
        ((200, b"x"), 2, "is not told at once of hand-overs, for 60 s: a name and its value are expected here"),
    ],
)  # fmt: skip
def test_one_that_takes_no_notice_is_left_for_a_minute_unless_it_is_busy(
    archive: NewArchive, caplog: pytest.LogCaptureFixture, step: Step, targets: int, problem: str
) -> None:
    caplog.set_level(logging.INFO)
    resolver = ScriptedResolver(step)
    assert len(announce(archive, resolver, times=2).targets) == targets
    assert [record.getMessage() for record in caplog.records] == [f"{resolver.url} {problem}"] * (
        targets // 2
    )


@pytest.mark.parametrize(("pause", "targets"), [(59.0, 2), (60.0, 4)])
def test_one_that_was_left_is_told_again_after_a_minute(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch, pause: float, targets: int
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    left = announce(
        archive, ScriptedResolver((400, b"")), times=2, between=lambda: now.append(now.pop() + pause)
    )
    assert len(left.targets) == targets


def test_where_nothing_has_changed_no_resolver_is_told(
    archive: NewArchive, caplog: pytest.LogCaptureFixture
) -> None:
    (archive.data / ArchiveSettings.FILE).write_text("[")  # which would be complained of
    asyncio.run(Announcer(archive.data, archive.catalogue).announce(()))
    assert caplog.messages == []


def test_all_that_a_resolver_says_takes_no_longer_than_two_seconds(
    archive: NewArchive, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    resolver = ScriptedResolver(RECEIVED)
    resolver.about_after, resolver.tells_only_where = 1.5, True
    sent = announce(archive, resolver, times=2)
    assert len(sent.targets) == 2
    assert sent.seconds == pytest.approx(2, abs=0.05)


def test_settings_that_cannot_be_read_stop_no_hand_over(
    archive: NewArchive, caplog: pytest.LogCaptureFixture
) -> None:
    (archive.data / ArchiveSettings.FILE).write_text("[")
    asyncio.run(Announcer(archive.data, archive.catalogue).announce(NAMES))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("resolvers are not told at once of a hand-over: ")
    assert record.getMessage().count(ArchiveSettings.FILE) == 1
