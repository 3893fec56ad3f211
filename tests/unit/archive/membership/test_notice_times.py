"""When notices of change are sent, to the quarter of a second; what each of them says; and how they are cut."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from ibi.archive.membership import notices
from ibi.archive.membership.membership import WantedMemberships
from ibi.archive.membership.notices import NoticeSender
from ibi.archive.store.tables.memberships import MembershipRecord, MembershipStanding
from ibi.errors import PeerSilent
from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.messages import ChangeNotification, read_request
from support.archive.archive_fixture import SERVICE, NewArchive
from support.clock import run_with_false_clock

URL = "http://resolver.example"
THERE = "J8LNKB5R7W/3FUQHC5"
Step = tuple[int, bytes] | Exception | float
RECEIVED: Step = (200, b"notice {change received}")
BUSY: Step = (503, b"later")
ABOUT = ("/-/about", 3.0)


class Sent(NamedTuple):
    """A notice as it was sent: when, where to, how long its reply was waited for, and what it says."""

    at: float
    address: str
    path: str
    seconds: float
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class Resolver:
    """A client that takes these steps for the notices, and the last one for ever; a number: that long it hangs."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.sent: list[Sent] = []
        self.cancelled: list[float] = []
        self.closed = False

    async def get(self, address: str, target: str, seconds: float) -> Any:
        now = asyncio.get_running_loop().time() - 1000
        path, _, query = target.partition("?")
        if not query:
            self.sent.append(Sent(now, address, path, seconds))
            return SimpleNamespace(status=200, body=json.dumps({"service_ibi": THERE}).encode())
        notice = read_request(query)
        assert isinstance(notice, ChangeNotification)
        assert notice.service_ibi == SERVICE.main
        changed, removed = (tuple(map(str, each)) for each in (notice.changed, notice.removed))
        self.sent.append(Sent(now, address, path, seconds, changed, removed))
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, Exception):
            raise step
        if isinstance(step, float):
            try:
                await asyncio.sleep(step)
            except asyncio.CancelledError:
                self.cancelled.append(asyncio.get_running_loop().time() - 1000)
                raise
            step = RECEIVED
        assert isinstance(step, tuple)
        return SimpleNamespace(status=step[0], body=step[1])

    async def close(self) -> None:
        self.closed = True

    @property
    def notices(self) -> list[tuple[float, tuple[str, ...]]]:
        """When each notice was sent, and the names that it says have changed."""
        return [(each.at, each.changed) for each in self.sent if each.path != "/-/about"]


def name(number: int) -> str:
    return f"a.example/b/2013/01.01.{number // 60:02}.{number % 60:02}"


async def deposit(archive: NewArchive, *numbers: int) -> None:
    lines = [{"rep": name(number), "url": "http://far.example/"} for number in numbers]
    assert (await asyncio.to_thread(archive.load, *lines)).added == len(lines)


def tell(
    archive: NewArchive,
    seconds: float,
    resolver: Resolver,
    meanwhile: Callable[[dict[str, Any]], Coroutine[Any, Any, None]] | None = None,
    *,
    requests_changes: bool = False,
    services: dict[str, str] | None = None,
    off: bool = False,
) -> None:
    """Tell a resolver for so many seconds; `meanwhile` gets the inclusion requests by which it is wanted.

    When there are none any more, the Archive is switched off, if `off`.
    """
    looks = list[bool]()
    record = MembershipRecord(URL, MembershipStanding.INCLUDED, "2026-11-21T10:00:00Z", notices=True)
    requests: dict[str, Any] = {URL: archive.settings.inclusion_request("0.1.0")}

    async def answer() -> bool:
        return requests_changes

    async def live() -> None:
        client: Any = resolver
        kept: Any = SimpleNamespace(read=lambda: {URL: record})
        addresses: Any = lambda roots: SimpleNamespace(request_changes=answer, roots=roots)  # noqa: E731 - one line
        sender = NoticeSender(
            archive.catalogue,
            lambda: WantedMemberships(dict(requests), on=bool(requests) or not off, services=services or {}),
            kept,
            client,
            addresses,
            lambda: looks.append(True),
        )
        running = asyncio.create_task(sender.run())
        beside = asyncio.create_task(meanwhile(requests)) if meanwhile else None
        await asyncio.sleep(seconds + 0.125)
        running.cancel()
        await asyncio.gather(running, *([beside] if beside else []), return_exceptions=True)
        assert beside is None or beside.result() is None
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_with_false_clock(live(), sockets=False)
    assert resolver.closed
    assert len(looks) > 1  # changed settings are followed at each look


def test_a_change_is_told_at_the_next_look_and_no_sooner_than_half_a_second_after_the_last_notice(
    archive: NewArchive,
) -> None:
    async def change(_: dict[str, Any]) -> None:
        await asyncio.sleep(1.1)
        await deposit(archive, 1)
        await asyncio.sleep(0.2)
        with archive.item_store.unit_of_work("maria") as work:
            work.remove(work.get(parse_name(name(1))))

    resolver = Resolver(RECEIVED)
    tell(archive, 5, resolver, change)
    assert resolver.sent == [
        Sent(0.0, "resolver.example", *ABOUT),
        Sent(0.0, "resolver.example", f"/{THERE}", 3.0),
        Sent(1.25, "resolver.example", f"/{THERE}", 3.0, (name(1),)),
        Sent(1.75, "resolver.example", f"/{THERE}", 3.0, (name(1),), (name(1),)),
    ]


def test_a_resolver_whose_service_is_known_is_not_asked_for_it(archive: NewArchive) -> None:
    resolver = Resolver(RECEIVED)
    tell(archive, 1, resolver, services={URL: "J8LNKB5R7W/3K3RQLE"})
    assert resolver.sent == [Sent(0.0, "resolver.example", "/J8LNKB5R7W/3K3RQLE", 3.0)]


MINUTE = "resolver.example is not told what changes, for 60 s: "
HOUR = "resolver.example is not told what changes, for 3600 s: "


@pytest.mark.parametrize(
    ("steps", "times", "messages"),
    [
        ([BUSY], [0, 0.5, 1, 61, 61.5, 62], [f"{MINUTE}it answered with status 503"]),
        ([PeerSilent("it is silent")], [0, 0.5, 1, 61, 61.5, 62], [f"{MINUTE}it is silent"]),
        ([BUSY, BUSY, RECEIVED], [0, 0.5, 1], []),
        ([(404, b"")], [0, 3600], [f"{HOUR}it answered with status 404"]),
        ([BUSY, (400, b"")], [0, 0.5, 3650], [f"{HOUR}it answered with status 400"]),
    ],
    ids=["busy", "silent", "busy for a while", "unknown", "unknown in the end"],
)
def test_a_notice_that_fails_is_sent_again_soon_and_then_later(
    archive: NewArchive,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    steps: list[Step],
    times: list[float],
    messages: list[str],
) -> None:
    """Before each of them the resolver is asked for its service, because another one may be there now."""
    if times[-1] > 1000:
        monkeypatch.setattr(notices, "LOOK_EVERY", 50.0)
    caplog.set_level(logging.INFO, notices.__name__)
    resolver = Resolver(*steps)
    tell(archive, times[-1], resolver)
    assert resolver.notices == [(at, ()) for at in times]
    assert [each.at for each in resolver.sent if each.path == "/-/about"] == times
    assert list(dict.fromkeys(caplog.messages)) == messages


def test_a_reply_that_is_none_ends_the_notices_for_an_hour(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notices, "LOOK_EVERY", 50.0)
    caplog.set_level(logging.INFO, notices.__name__)
    resolver = Resolver((200, b"<html>"))
    tell(archive, 3600, resolver)
    assert [at for at, _ in resolver.notices] == [0.0, 3600.0]
    assert caplog.messages[0].startswith(HOUR)


@pytest.mark.parametrize(("status", "tries"), [(503, 2), (404, 1)])
def test_one_that_requests_changes_misses_a_notice_that_fails_but_not_the_next_one(
    archive: NewArchive, status: int, tries: int
) -> None:
    """One that knows no notices gets none for an hour, though."""

    async def change(_: dict[str, Any]) -> None:
        await asyncio.sleep(10.1)
        await deposit(archive, 1)

    resolver = Resolver(*[(status, b"")] * tries, RECEIVED)
    tell(archive, 20, resolver, change, requests_changes=True)
    failed = [(0.5 * number, ()) for number in range(tries)]
    assert resolver.notices == failed + ([(10.25, (name(1),))] if status == 503 else [])


@pytest.mark.parametrize(
    ("requests_changes", "times"), [(False, [0.0, 10.25, 20.25]), (True, [0.0, 1.25, 8.25, 11.25])]
)
def test_that_anything_has_changed_is_told_every_ten_seconds_at_most(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch, requests_changes: bool, times: list[float]
) -> None:
    """One that requests changes is told at once, as that costs it no answer."""
    monkeypatch.setattr(notices, "MOST_NAMES", 1)
    monkeypatch.setattr(notices, "MOST_CHANGED", 1)

    async def change(_: dict[str, Any]) -> None:
        for number, pause in ((1, 1.1), (3, 7), (5, 3)):
            await asyncio.sleep(pause)
            await deposit(archive, number, number + 1)

    resolver = Resolver(RECEIVED)
    tell(archive, 60, resolver, change, requests_changes=requests_changes)
    assert resolver.notices == [(at, ()) for at in times]


@pytest.mark.parametrize("off", [False, True], ids=["left", "switched off"])
def test_the_notices_of_a_resolver_that_was_left_end_at_once(archive: NewArchive, *, off: bool) -> None:
    async def leave(requests: dict[str, Any]) -> None:
        await asyncio.sleep(1.1)
        requests.clear()

    resolver = Resolver(100.0)
    tell(archive, 5, resolver, leave, off=off)
    assert (resolver.notices, resolver.cancelled) == ([(0.0, ())], [1.25])


def test_a_notice_under_way_ends_with_the_archive(archive: NewArchive) -> None:
    resolver = Resolver(100.0)
    tell(archive, 5, resolver)
    assert resolver.cancelled == [5.125]


def long_name(number: int) -> str:
    """A name of 265 characters, which is counted as 400 in a URL."""
    tail = f"/2013/01.01.{number // 60:02}.{number % 60:02}"
    return f"a.example/{'b' * (265 - len('a.example/') - len(tail))}{tail}"


@pytest.mark.parametrize(
    ("names", "removed", "sizes"),
    [
        ([name(number) for number in range(50)], False, [50]),
        ([name(number) for number in range(101)], False, [50, 50, 1]),
        ([long_name(number) for number in range(10)], False, [10]),
        ([long_name(number) for number in range(21)], False, [10, 10, 1]),
        ([long_name(number) for number in range(6)], True, [5, 1]),
    ],
    ids=["fifty", "more than fifty", "4000 characters", "more characters", "removed"],
)
def test_a_notice_has_fifty_names_at_most_and_fits_into_a_url(
    archive: NewArchive, names: list[str], removed: bool, sizes: list[int]
) -> None:
    """The name of a removed item stands in it twice."""

    def change() -> None:
        archive.load(*({"rep": each, "url": "http://far.example/"} for each in names))
        if removed:
            with archive.item_store.unit_of_work("maria") as work:
                for each in names:
                    work.remove(work.get(parse_ibi(each)))

    async def beside(_: dict[str, Any]) -> None:
        await asyncio.sleep(1.1)
        await asyncio.to_thread(change)

    resolver = Resolver(RECEIVED)
    tell(archive, 3, resolver, beside)
    names_sent = [each.changed for each in resolver.sent if each.changed]
    assert [len(each) for each in names_sent] == sizes
    assert sorted(each for notice in names_sent for each in notice) == sorted(names)
    assert [each.removed for each in resolver.sent if each.changed] == (
        names_sent if removed else [()] * len(names_sent)
    )
