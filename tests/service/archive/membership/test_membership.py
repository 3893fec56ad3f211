"""An Archive at its resolvers, which follow scripts, over real sockets."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import urlsplit

import pytest

from ibi.archive.membership import membership
from ibi.archive.membership.membership import resolver_address
from ibi.archive.store.tables.memberships import MembershipRecord, MembershipStanding
from ibi.errors import SetupError
from ibi.http.server.service import STOPPING_SECONDS
from ibi.protocol.messages import ArchiveTitles
from support.archive.archive_fixture import SERVICE
from support.archive.membership_fixture import (
    EXCLUDED,
    INCLUDED,
    KEY,
    NO_ADDRESS,
    OVERTAKEN,
    REFUSED,
    RESOLVER_SERVICE,
    UNCONFIRMED,
    Here,
    ScriptedResolver,
    Step,
    request_of,
    until,
)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of hundredths of a second."""
    monkeypatch.setattr(membership, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(membership, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(membership, "LOOK_EVERY", 0.01)


@pytest.mark.proves("REG-03", "MSG-20", "REG-01", "ARC-10")
def test_an_archive_says_all_eight_pairs_when_it_switches_on_and_off() -> None:
    async def run() -> ScriptedResolver:
        async with ScriptedResolver(INCLUDED, EXCLUDED) as resolver:
            async with Here({resolver.url: request_of()}) as here:
                await until(lambda: here.records.get(resolver.url))
            return resolver

    resolver = asyncio.run(run())
    assert resolver.subjects == ["inclusionRequest", "exclusionRequest"]
    assert {urlsplit(target).path for target in resolver.targets} == {"/-/about", f"/{RESOLVER_SERVICE}"}
    # Beyond the eight: until when it expects to be away, a minute after it was stopped (note 48).
    queries = resolver.queries
    assert queries[1].pop("exclusion.end") == "2023-11-14T22:14:20Z"
    for query in queries:
        del query["servicesubject"]
        assert query == {
            "archiveaddress": "archive.example:8080",
            "archiveserviceibi": str(SERVICE.main),
            "archiveip": "127.0.0.1",
            "archiveprotocol": "HTTP",
            "archiveplatformversion": "0.1.0",
            "archiveadmemailaddress": "admin@archive.example",
            "registrationkey": KEY,
        }


def test_the_name_of_the_institution_goes_beside_the_message_and_only_into_the_inclusion() -> None:
    async def run() -> ScriptedResolver:
        async with ScriptedResolver(INCLUDED, EXCLUDED) as resolver:
            async with Here(
                {resolver.url: request_of()}, titles=ArchiveTitles("São João Institute", "Instituto São João")
            ) as here:
                await until(lambda: here.records.get(resolver.url))
            return resolver

    resolver = asyncio.run(run())
    assert resolver.subjects == ["inclusionRequest", "exclusionRequest"]
    assert resolver.titles == ["S%C3%A3o%20Jo%C3%A3o%20Institute", "Instituto%20S%C3%A3o%20Jo%C3%A3o"]


PRIVATE = (
    "it contacts no Archive at archive.example:8080; at an address that is not public, its operator must allow it: "
    "ibi resolver set allow_private_archives yes"
)


@pytest.mark.proves("REG-04", "REG-06", "AMB-33")
@pytest.mark.parametrize(
    ("bad", "standing", "problem"),
    [
        (REFUSED, MembershipStanding.REFUSED, "it does not know this Archive, or not with this key"),
        (NO_ADDRESS, MembershipStanding.REFUSED, PRIVATE),
        (OVERTAKEN, MembershipStanding.WAITING,
         "it asks to try again later: another request came in between, or a move is on hold"),
        (EXCLUDED, MembershipStanding.WAITING, "its reply is no inclusion status"),
        ((200, b"hello"), MembershipStanding.WAITING, "its reply is no inclusion status"),
        ((200, b""), MembershipStanding.WAITING, "its reply is no inclusion status"),
        ((302, b""), MembershipStanding.WAITING, "it answered with status 302"),
        ((503, b"later"), MembershipStanding.WAITING, "it answered with status 503"),
        ((503, b"", b"retry-after: 1\r\n"), MembershipStanding.WAITING, "it answered with status 503"),
        (None, MembershipStanding.WAITING, "the connection was closed before the end of the answer"),
    ],
    ids=["refused", "address", "overtaken", "another status", "no status", "nothing", "redirect", "busy", "later",
         "closed"],
)  # fmt: skip
def test_an_archive_asks_again_until_it_is_included(
    bad: Step, standing: MembershipStanding, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def run() -> None:
        async with ScriptedResolver(bad) as resolver, Here({resolver.url: request_of()}) as here:
            await until(lambda: len(resolver.subjects) > 4)
            member = here.records[resolver.url]
            assert (member.standing, str(member.problem)) == (standing, problem)
            resolver.script = [INCLUDED]
            await until(lambda: here.records[resolver.url].standing is MembershipStanding.INCLUDED)
            assert here.records[resolver.url].problem is None
            resolver.script = [EXCLUDED]

    asyncio.run(run())
    assert KEY not in caplog.text
    assert len(caplog.records) <= 4  # each piece of news once, not each try


def test_news_is_logged_with_its_reason_and_its_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def run() -> str:
        async with ScriptedResolver(REFUSED) as resolver, Here({resolver.url: request_of()}) as here:
            await until(lambda: resolver.url in here.records)
            resolver.script = [INCLUDED, EXCLUDED]
            await until(lambda: here.records[resolver.url].standing is MembershipStanding.INCLUDED)
        return resolver.url

    url = asyncio.run(run())
    place = f"{SERVICE.main} at {url}: "
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, f"{place}refused: it does not know this Archive, or not with this key"),
        (logging.INFO, f"{place}included"),
        (logging.INFO, f"{place}excluded"),
    ]


def test_what_cannot_be_read_or_kept_is_logged_and_the_archive_is_included_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> str:
        async with ScriptedResolver(INCLUDED) as resolver:
            here = Here({resolver.url: request_of()})
            here.notes.fault = SetupError("the disk is full")
            async with here:
                await until(lambda: resolver.subjects and len(caplog.records) > 1)
        return resolver.url

    url = asyncio.run(run())
    assert [record.getMessage() for record in caplog.records][:2] == [
        "how this Archive stood at its resolvers is not known: the disk is full",
        f"{SERVICE.main} at {url} was not noted: the disk is full",
    ]


def test_a_fault_that_ends_the_task_of_a_resolver_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with ScriptedResolver(EXCLUDED) as resolver, Here({resolver.url: request_of()}) as here:
            await until(lambda: resolver.url in here.records)
            here.notes.fault = ZeroDivisionError()
            resolver.script = [INCLUDED]
            await until(lambda: len(caplog.records) > 1)
            here.notes.fault = None

    asyncio.run(run())
    record = caplog.records[1]
    assert (record.levelno, record.getMessage()) == (
        logging.ERROR, "an Archive has stopped asking a resolver",
    )  # fmt: skip
    assert record.exc_info
    assert record.exc_info[0] is ZeroDivisionError


@pytest.mark.proves("REG-05")
def test_an_unconfirmed_inclusion_is_one_too() -> None:
    async def run() -> None:
        async with ScriptedResolver(UNCONFIRMED) as resolver, Here({resolver.url: request_of()}) as here:
            await until(lambda: here.records.get(resolver.url))
            assert here.records[resolver.url].standing is MembershipStanding.UNCONFIRMED
            await asyncio.sleep(0.2)
            assert resolver.subjects == ["inclusionRequest"]

    asyncio.run(run())


def test_an_included_archive_asks_again_every_minute_and_logs_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A replayed message that switches it off does so for a minute (threat T17)."""
    assert membership.HEARTBEAT == 60
    monkeypatch.setattr(membership, "HEARTBEAT", 0.02)
    caplog.set_level(logging.INFO)

    async def run() -> None:
        async with ScriptedResolver(INCLUDED) as resolver, Here({resolver.url: request_of()}) as here:
            await until(lambda: here.records.get(resolver.url))
            since = here.records[resolver.url].since
            here.now += 100
            seen = len(resolver.subjects)
            await until(lambda: len(resolver.subjects) > seen + 3)
            assert here.records[resolver.url].since == since
            assert here.records[resolver.url].heard > since
            assert len(caplog.records) == 1
            resolver.script = [EXCLUDED]

    asyncio.run(run())


def test_a_resolver_that_falls_silent_still_counts_as_one_that_asks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(membership, "HEARTBEAT", 0.02)

    async def run() -> None:
        async with ScriptedResolver(INCLUDED) as resolver:
            url = resolver.url
            async with Here({url: request_of()}) as here:
                await until(lambda: here.records.get(url))
                await resolver.stop()
                await until(lambda: here.records[url].problem)
                heard = here.records[url].heard
                here.now += 100
                noted = here.notes.noted
                await asyncio.sleep(0.3)
                assert here.records[url].standing is MembershipStanding.INCLUDED
                assert (here.records[url].heard, here.notes.noted) == (
                    heard,
                    noted,
                )  # no news is not written down
                await resolver.start()
                await until(lambda: here.records[url].problem is None)
                assert here.records[url].heard > heard

    asyncio.run(run())
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) <= 2


def test_one_resolver_that_is_down_holds_no_other_up() -> None:
    async def run() -> None:
        async with ScriptedResolver(None) as down, ScriptedResolver(INCLUDED) as well:
            requests = {down.url: request_of("1" * 20), well.url: request_of("2" * 20)}
            async with Here(requests) as here:
                await until(lambda: well.url in here.records)
                assert here.records[well.url].standing is MembershipStanding.INCLUDED
                await until(lambda: len(down.subjects) > 2)
            assert {query["registrationkey"] for query in down.queries} == {"1" * 20}
            assert {query["registrationkey"] for query in well.queries} == {"2" * 20}

    asyncio.run(run())


@pytest.mark.proves("ARC-15", "REG-07")
def test_switched_off_it_says_goodbye_until_it_is_heard_and_on_it_asks_again() -> None:
    async def run() -> None:
        async with ScriptedResolver(INCLUDED, None, (503, b""), EXCLUDED, INCLUDED, EXCLUDED) as resolver:
            async with Here({resolver.url: request_of()}) as here:
                await until(lambda: here.records.get(resolver.url))
                here.on = False
                await until(lambda: here.records[resolver.url].standing is MembershipStanding.EXCLUDED)
                await asyncio.sleep(0.1)
                here.on = True
                await until(lambda: here.records[resolver.url].standing is MembershipStanding.INCLUDED)
            assert resolver.subjects == [
                "inclusionRequest",
                *["exclusionRequest"] * 3,
                "inclusionRequest",
                "exclusionRequest",
            ]

    asyncio.run(run())


@pytest.mark.parametrize("lost", [None, OVERTAKEN], ids=["lost", "overtaken"])
def test_a_resolver_that_is_left_is_told_and_forgotten(lost: Step) -> None:
    async def run() -> None:
        async with (
            ScriptedResolver(INCLUDED, lost, EXCLUDED) as resolver,
            Here({resolver.url: request_of()}) as here,
        ):
            await until(lambda: here.records.get(resolver.url))
            here.requests.clear()
            await until(lambda: not here.records)
            assert resolver.subjects == ["inclusionRequest", "exclusionRequest", "exclusionRequest"]

    asyncio.run(run())


@pytest.mark.parametrize("was_on", [True, False])
def test_a_resolver_is_left_while_the_archive_is_switched_off(was_on: bool) -> None:
    async def run() -> None:
        async with ScriptedResolver(INCLUDED, EXCLUDED) as resolver:
            async with Here({resolver.url: request_of()}, on=was_on) as here:
                if was_on:
                    await until(lambda: here.records.get(resolver.url))
                here.on = False
                await asyncio.sleep(0.2)
                here.requests.clear()
                await until(lambda: not here.records)
                await asyncio.sleep(0.2)
            assert resolver.subjects == (["inclusionRequest", *["exclusionRequest"] * 2] if was_on else [])
            # Excluded already, it still tells that it will not be back: its originals may be elsewhere then.
            assert [query.get("exclusion.end") for query in resolver.queries] == [None, None, "never"][
                : len(resolver.queries)
            ]

    asyncio.run(run())


def test_a_resolver_that_never_included_the_archive_is_forgotten_without_a_word() -> None:
    async def run() -> None:
        async with ScriptedResolver(EXCLUDED) as resolver:
            known = {
                resolver.url: MembershipRecord(
                    resolver.url, MembershipStanding.WAITING, "2026-01-01T00:00:00Z"
                )
            }
            async with Here({resolver.url: request_of()}, on=False, records=known) as here:
                await asyncio.sleep(0.05)
                here.requests.clear()
                await until(lambda: not here.records)
            assert resolver.subjects == []

    asyncio.run(run())


def test_one_that_retires_says_that_it_will_not_be_back_also_after_it_was_switched_off() -> None:
    async def run() -> None:
        async with ScriptedResolver(INCLUDED, EXCLUDED) as resolver:
            async with Here({resolver.url: request_of()}) as here:
                await until(lambda: here.records.get(resolver.url))
                here.on = False
                await until(lambda: here.records[resolver.url].standing is MembershipStanding.EXCLUDED)
                here.retired = True
                await until(lambda: len(resolver.queries) == 3)
            # One that ends before it has read the reply says it again.
            assert [query.get("exclusion.end") for query in resolver.queries][:3] == [None, None, "never"]
            assert {query.get("exclusion.end") for query in resolver.queries[3:]} <= {"never"}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("retired", "end"), [(True, "never"), (False, None)], ids=["for good", "switched off"]
)
def test_one_that_ends_while_it_is_leaving_says_no_date_of_its_return(
    *, retired: bool, end: str | None
) -> None:
    async def run() -> None:
        async with ScriptedResolver(INCLUDED, EXCLUDED) as resolver:
            async with Here({resolver.url: request_of()}) as here:
                await until(lambda: here.records.get(resolver.url))
                resolver.mute = True
                here.on, here.retired = False, retired
                await until(lambda: len(resolver.queries) == 2)
                resolver.mute = False
            assert [query.get("exclusion.end") for query in resolver.queries] == [None, end, end]

    asyncio.run(run())


@pytest.mark.proves("REG-08", "ARC-10")
def test_a_new_address_is_said_at_once() -> None:
    async def run() -> None:
        async with ScriptedResolver(INCLUDED) as resolver, Here({resolver.url: request_of()}) as here:
            await until(lambda: here.records.get(resolver.url))
            here.requests[resolver.url] = request_of(ip="192.0.2.7")
            await until(lambda: len(resolver.queries) > 1)
            assert [query["archiveip"] for query in resolver.queries] == ["127.0.0.1", "192.0.2.7"]
            assert set(resolver.subjects) == {"inclusionRequest"}  # the new word replaces the old one

    asyncio.run(run())


def test_what_was_left_open_by_a_power_cut_is_said_at_the_next_start() -> None:
    """Switched off while it was not served, the Archive still stood as included at its resolver."""

    async def run() -> None:
        async with ScriptedResolver(EXCLUDED) as resolver:
            known = {
                resolver.url: MembershipRecord(
                    resolver.url, MembershipStanding.INCLUDED, "2026-01-01T00:00:00Z"
                )
            }
            async with Here({resolver.url: request_of()}, on=False, records=known) as here:
                await until(lambda: here.records[resolver.url].standing is MembershipStanding.EXCLUDED)
            assert resolver.subjects == ["exclusionRequest"]

    asyncio.run(run())


def test_the_end_does_not_wait_for_a_resolver_that_says_nothing() -> None:
    async def run() -> float:
        async with ScriptedResolver(INCLUDED) as resolver:
            async with Here({resolver.url: request_of()}) as here:
                await until(lambda: here.records.get(resolver.url))
                resolver.mute = True
                begun = asyncio.get_running_loop().time()
            return asyncio.get_running_loop().time() - begun

    assert asyncio.run(run()) < STOPPING_SECONDS


@pytest.mark.parametrize("about", [b"", b"[]", b"{}", b'{"service_ibi": 5}', b"[" * 100_000, b"\xff"])
def test_what_is_no_resolver_is_told_no_key(about: bytes) -> None:
    async def run() -> list[str]:
        async with ScriptedResolver(INCLUDED) as resolver:
            resolver.about = about
            async with Here({resolver.url: request_of()}):
                await until(lambda: len(resolver.targets) > 2)
            return resolver.targets

    assert set(asyncio.run(run())) == {"/-/about"}


def test_a_resolver_that_was_made_anew_is_found_under_its_new_name() -> None:
    async def run() -> None:
        async with ScriptedResolver((400, b"")) as resolver, Here({resolver.url: request_of()}) as here:
            await until(lambda: resolver.subjects)
            resolver.about = b'{"service_ibi": "urlib.net/www/2020/01.01.00.00"}'
            await until(lambda: resolver.targets[-1].startswith("/urlib.net/"))
            resolver.script = [INCLUDED]
            await until(lambda: here.records[resolver.url].standing is MembershipStanding.INCLUDED)

    asyncio.run(run())


@pytest.mark.parametrize("root", ["ftp://r.example", "r.example", "http://r.example/path", "http://u@r.example",
                                  "http://", "http://r.example?x", "http://[::1"])  # fmt: skip
def test_what_is_no_root_of_a_resolver_is_refused(root: str) -> None:
    with pytest.raises(SetupError):
        resolver_address(root)


@pytest.mark.parametrize("root", ["http://r.example", "http://r.example/", "http://r.example:80"])
def test_a_root_of_a_resolver_gives_its_address(root: str) -> None:
    assert resolver_address(root).startswith("r.example")
