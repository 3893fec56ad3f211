"""When a resolver is asked for inclusion and for exclusion, how long its reply may take, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from ibi.archive.membership.membership import (
    Membership,
    Memberships,
    WantedMemberships,
    request_exclusions,
)
from ibi.archive.store.tables.memberships import MembershipRecord, MembershipStanding
from ibi.errors import PeerSilent
from ibi.protocol.messages import ArchiveTitles
from ibi.protocol.query_string import read_query
from support.archive.archive_fixture import NOW, settings_for
from support.clock import run_with_false_clock

URL, OTHER = "http://resolver.example", "https://other.example"
THERE = "J8LNKB5R7W/3FUQHC5"
WAITING, INCLUDED, UNCONFIRMED = (
    MembershipStanding.WAITING,
    MembershipStanding.INCLUDED,
    MembershipStanding.UNCONFIRMED,
)
EXCLUDED, REFUSED = MembershipStanding.EXCLUDED, MembershipStanding.REFUSED
BEFORE = "2023-11-01T00:00:00Z"
Reply = tuple[int, bytes] | tuple[int, bytes, dict[bytes, bytes]] | Exception
YES: Reply = (200, b"status.archive included status.confirmation successful")
UNSURE: Reply = (200, b"status.archive included status.confirmation unsuccessful")
GONE: Reply = (200, b"status.archive excluded")
NO: Reply = (403, b"status.archive refused")
SILENT = PeerSilent("it is silent")
BUSY: Reply = (503, b"")


class Sent(NamedTuple):
    """A request: when, where to, for which path, the seconds for its reply; what it is, until when, and its headers."""

    at: float
    address: str
    path: str
    seconds: float
    subject: str = ""
    end: str = ""
    headers: tuple[tuple[str, str], ...] = ()


class Resolver:
    """A client that gives these replies of a service, and the last one for ever."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.sent: list[Sent] = []
        self.closed = False

    async def get(self, address: str, target: str, seconds: float, headers: Any = ()) -> Any:
        at = asyncio.get_running_loop().time() - 1000
        path, _, query = target.partition("?")
        pairs = dict(read_query(query)) if query else {}
        subject, end = pairs.get("servicesubject", ""), pairs.get("exclusion.end", "")
        self.sent.append(Sent(at, address, path, seconds, subject, end, tuple(headers)))
        if not query:
            return SimpleNamespace(status=200, headers={}, body=json.dumps({"service_ibi": THERE}).encode())
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        status, body, *more = reply
        return SimpleNamespace(status=status, body=body, headers=more[0] if more else {})

    async def close(self) -> None:
        self.closed = True

    @property
    def requests(self) -> list[tuple[float, str]]:
        """When its service got which request."""
        return [(each.at, each.subject.removesuffix("Request")) for each in self.sent if each.subject]


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """The bounds between which pauses were drawn; the longest is always taken."""
    bounds = list[tuple[float, float]]()

    def longest(least: float, most: float) -> float:
        bounds.append((least, most))
        return most

    monkeypatch.setattr(random, "uniform", longest)
    return bounds


def record(standing: MembershipStanding, url: str = URL) -> MembershipRecord:
    return MembershipRecord(url, standing, BEFORE)


def request_of(key: str = "1" * 20) -> Any:
    return settings_for("archive.example:8080", key=key).inclusion_request("0.1.0")


def facts_kept(member: MembershipRecord) -> tuple[object, ...]:
    """What is kept of a membership."""
    return member.standing, member.since, member.heard, str(member.problem or ""), member.notices


def for_a_while(seconds: float, work: Coroutine[Any, Any, None]) -> None:
    async def live() -> None:
        task = asyncio.create_task(work)
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled() or task.exception() is None

    run_with_false_clock(live(), sockets=False)


def membership(
    resolver: Resolver, standing: MembershipStanding = WAITING, **more: Any
) -> tuple[Membership, list[MembershipRecord]]:
    """A membership, and all that is kept of it; each look at its clock takes a second."""
    kept, clock, client = list[MembershipRecord](), iter(range(NOW, NOW + 10_000)), resolver

    async def keep(member: MembershipRecord) -> None:
        kept.append(member)

    given: Any = client
    made = Membership(request_of(), record(standing), given, keep, lambda: next(clock), **more)
    return made, kept


DOUBLED = [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5, 123.5, 183.5]


@pytest.mark.parametrize(
    ("replies", "times", "bounds"),
    [
        ([SILENT], DOUBLED, {(0.5, 1.0)}),
        ([NO], DOUBLED, {(0.5, 1.0)}),
        ([YES], [0, 60, 120, 180], {(0.9, 1.0)}),
        ([BUSY, BUSY, YES, BUSY, BUSY, BUSY], [0, 0.5, 1.5, 61.5, 62, 63, 65], {(0.5, 1.0), (0.9, 1.0)}),
    ],
    ids=["silent", "refused", "included", "busy for a while"],
)
def test_inclusion_is_requested_with_growing_pauses_and_then_every_minute(
    drawn: list[tuple[float, float]],
    replies: list[Reply],
    times: list[float],
    bounds: set[tuple[float, float]],
) -> None:
    resolver = Resolver(*replies)
    for_a_while(times[-1] + 0.25, membership(resolver)[0].stay())
    assert resolver.requests == [(at, "inclusion") for at in times]
    assert set(drawn) == bounds


def test_exclusion_is_requested_with_growing_pauses_until_it_is_granted(
    drawn: list[tuple[float, float]],
) -> None:
    resolver = Resolver(*[SILENT] * 4, BUSY, (200, b"x"), YES, *[SILENT] * 2, GONE)
    made, _ = membership(resolver, INCLUDED)
    for_a_while(1000, made.leave("never"))
    assert resolver.requests == [(at, "exclusion") for at in DOUBLED]
    assert {each.end for each in resolver.sent if each.subject} == {"never"}
    assert set(drawn) == {(0.5, 1.0)}


def test_the_service_is_looked_up_again_after_each_failure() -> None:
    resolver = Resolver(YES, YES, BUSY, YES)
    made, _ = membership(resolver, titles=ArchiveTitles("A university", "Uma universidade"))
    for_a_while(121, made.stay())
    titles = (("ibi-archive-title", "A%20university"), ("ibi-archive-title-pt", "Uma%20universidade"))
    included = ("resolver.example", f"/{THERE}", 10.0, "inclusionRequest", "", titles)
    about = ("resolver.example", "/-/about", 10.0)
    assert resolver.sent == [
        Sent(0.0, *about), Sent(0.0, *included), Sent(60.0, *included), Sent(120.0, *included),
        Sent(120.5, *about), Sent(120.5, *included),
    ]  # fmt: skip


def test_a_service_that_the_settings_name_is_not_looked_up() -> None:
    resolver = Resolver(GONE)
    made, _ = membership(resolver, INCLUDED, service="J8LNKB5R7W/3K3RQLE")
    for_a_while(1, made.leave())
    assert resolver.sent == [Sent(0.0, "resolver.example", "/J8LNKB5R7W/3K3RQLE", 1.5, "exclusionRequest")]


def test_each_change_of_a_membership_is_kept_and_each_reply() -> None:
    """Silence is no news, once it was kept."""
    notices: Reply = (
        200,
        b"status.archive included status.confirmation successful",
        {b"ibi-change-notices": b"yes"},
    )
    resolver = Resolver(SILENT, SILENT, BUSY, NO, UNSURE, notices, SILENT, SILENT, YES, NO, BUSY, GONE)
    made, kept = membership(resolver)
    for_a_while(400, made.stay())
    times = [f"2023-11-14T22:13:{20 + second}Z" for second in range(13)]
    refused = "it does not know this Archive, or not with this key"
    assert [facts_kept(each) for each in kept] == [
        (WAITING, BEFORE, "", "it is silent", False),
        (WAITING, BEFORE, "", "it answered with status 503", False),
        (REFUSED, times[3], times[3], refused, False),
        (UNCONFIRMED, times[4], times[4], "", False),
        (INCLUDED, times[5], times[5], "", True),
        (INCLUDED, times[5], times[5], "it is silent", True),
        (INCLUDED, times[5], times[8], "", False),
        (REFUSED, times[9], times[9], refused, False),
        (WAITING, times[10], times[9], "it answered with status 503", False),
        (WAITING, times[10], times[9], "its reply is no inclusion status", False),
    ]


@pytest.mark.parametrize(
    ("standing", "end", "reply", "settled", "kept"),
    [
        (WAITING, "", GONE, True, []),
        (EXCLUDED, "", GONE, True, []),
        (EXCLUDED, "2026-01-01T00:00:00Z", GONE, True, []),
        (EXCLUDED, "never", GONE, True, [(EXCLUDED, "")]),
        (UNCONFIRMED, "", GONE, True, [(EXCLUDED, "")]),
        (INCLUDED, "", NO, True, [(REFUSED, "it does not know this Archive, or not with this key")]),
        (INCLUDED, "", BUSY, False, [(INCLUDED, "it answered with status 503")]),
        (INCLUDED, "", YES, False, [(INCLUDED, "its reply is no exclusion status")]),
        (INCLUDED, "", (403, b"status.archive refused", {b"retry-after": b"1"}), False,
         [(INCLUDED, "it asks to try again later: another request came in between, or a move is on hold")]),
    ],
)  # fmt: skip
def test_exclusion_is_requested_where_the_archive_may_be_included(
    standing: MembershipStanding,
    end: str,
    reply: Reply,
    settled: bool,
    kept: list[tuple[MembershipStanding, str]],
) -> None:
    made, records = membership(Resolver(reply), standing)
    assert run_with_false_clock(made.request_exclusion(end), sockets=False) is settled
    assert [(each.standing, str(each.problem or "")) for each in records] == kept
    assert made.inclusion_requested is (standing.included and (reply is not GONE))


class Kept:
    """The table of memberships, as it is in the end."""

    def __init__(self, *known: MembershipRecord) -> None:
        self.known = {each.resolver: each for each in known}

    def read(self) -> dict[str, MembershipRecord]:
        return dict(self.known)

    async def keep(self, member: MembershipRecord) -> None:
        self.known[member.resolver] = member

    async def forget(self, resolver: str) -> None:
        del self.known[resolver]

    @property
    def standings(self) -> dict[str, MembershipStanding]:
        return {url: each.standing for url, each in self.known.items()}


def memberships(wanted: list[WantedMemberships], resolver: Resolver, kept: Kept) -> Memberships:
    """The memberships by the last of these settings."""
    client: Any = resolver
    store: Any = kept
    return Memberships(lambda: wanted[-1], client, store, lambda: NOW)


def test_changed_settings_are_followed_within_half_a_second() -> None:
    """A resolver is joined, the Archive is switched off, and on again; the other resolver is left."""
    resolver, kept = Resolver(YES, YES, GONE, GONE, YES, GONE, YES, YES), Kept()
    one = WantedMemberships({URL: request_of()}, on=True, services={URL: "a/1"})
    both = WantedMemberships(
        {URL: request_of(), OTHER: request_of("2" * 20)}, on=True, services={URL: "a/1", OTHER: "b/1"}
    )
    off = WantedMemberships(both.requests, on=False, services=both.services)
    wanted = [one]
    all_of_them = memberships(wanted, resolver, kept)

    async def live() -> None:
        task = asyncio.create_task(all_of_them.run())
        for now in (both, off, one, one):
            await asyncio.sleep(1.25)
            wanted.append(now)
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert kept.standings == {URL: INCLUDED}
        await all_of_them.stop()
        await all_of_them.close()

    run_with_false_clock(live(), sockets=False)
    assert resolver.closed
    http, https = ("resolver.example", "/a/1"), ("https://other.example", "/b/1")
    assert resolver.sent == [
        Sent(0.0, *http, 10.0, "inclusionRequest"),
        Sent(1.5, *https, 10.0, "inclusionRequest"),
        Sent(2.5, *http, 1.5, "exclusionRequest"),
        Sent(2.5, *https, 1.5, "exclusionRequest"),
        Sent(4.0, *http, 10.0, "inclusionRequest"),
        Sent(4.0, *https, 1.5, "exclusionRequest", "never"),
        Sent(6.0, *http, 1.5, "exclusionRequest", "2023-11-14T22:14:20Z"),
    ]


@pytest.mark.parametrize(("for_good", "end"), [(False, ""), (True, "never")])
def test_an_archive_that_is_not_served_requests_exclusion_once(for_good: bool, end: str) -> None:
    """From those resolvers that are wanted, and known to have been asked."""
    resolver, kept = Resolver(GONE), Kept(record(INCLUDED), record(WAITING, OTHER))
    urls = (URL, OTHER, "http://third.example")
    wanted = WantedMemberships({each: request_of() for each in urls}, on=False, services={URL: "a/1"})
    client: Any = resolver
    store: Any = kept

    async def ask() -> list[MembershipRecord]:
        resolvers = [*urls, "http://fourth.example"]
        return await request_exclusions(wanted, resolvers, client, store, lambda: NOW, for_good=for_good)

    found = run_with_false_clock(ask(), sockets=False)
    assert resolver.sent == [Sent(0.0, "resolver.example", "/a/1", 1.5, "exclusionRequest", end)]
    assert [(each.resolver, each.standing) for each in found] == [(URL, EXCLUDED), (OTHER, WAITING)]
