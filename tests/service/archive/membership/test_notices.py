"""An Archive tells its resolvers what has changed: to whom, what, how often, and when it gives up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.membership import notices
from ibi.archive.membership.membership import WantedMemberships
from ibi.archive.membership.notices import NoticeSender
from ibi.archive.membership.resolver_addresses import RequestTimes, ResolverAddresses
from ibi.archive.store.tables import change_log, history
from ibi.archive.store.tables.memberships import MembershipRecord, MembershipStanding
from ibi.errors import SetupError
from ibi.http.client import AddressPolicy, Client
from ibi.identifier.forms import parse_name
from ibi.protocol.messages import MOST_CHANGED, ChangeNotification, InclusionRequest, read_request
from support.archive.archive_fixture import REP, NewArchive
from support.archive.membership_fixture import Notes, ScriptedResolver, Step, request_of, until

RECEIVED: Step = (200, b"notice {change received}")
UNKNOWN: Step = (400, b"error {request: no service knows this subject}")
BUSY: Step = (503, b"error {later}")
REFUSED: Step = (403, b"status.archive refused")


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(notices, "SEND_EVERY", 0.01)
    monkeypatch.setattr(notices, "PAUSE", 0.01)
    monkeypatch.setattr(notices, "ANYTHING_EVERY", 0.0)


def notices_of(resolver: ScriptedResolver) -> list[list[str]]:
    """The names in each notice that a resolver got, sorted; [] for anything."""
    found = [read_request(target.partition("?")[2]) for target in resolver.targets if "?" in target]
    assert all(isinstance(each, ChangeNotification) for each in found)
    return [
        sorted(name.canonical for name in each.changed)
        for each in found
        if isinstance(each, ChangeNotification)
    ]


def record_of(resolver: ScriptedResolver, standing: MembershipStanding) -> MembershipRecord:
    """How an Archive stands at a resolver that takes notices."""
    return MembershipRecord(resolver.url, standing, "2026-11-21T10:00:00Z", notices=True)


@asynccontextmanager
async def telling(
    archive: NewArchive,
    *resolvers: ScriptedResolver,
    standing: MembershipStanding = MembershipStanding.INCLUDED,
    requesting: Iterable[str] = (),
) -> AsyncIterator[dict[str, MembershipRecord]]:
    """The Archive tells these resolvers; how it stands at them can be changed.

    `requesting`: the addresses from which changes were requested just now.
    """
    requests_for_changes = RequestTimes()
    for address in requesting:
        requests_for_changes.note(address)
    records = {each.url: record_of(each, standing) for each in resolvers}
    requests: dict[str, InclusionRequest] = {each.url: request_of() for each in resolvers}
    telling = NoticeSender(
        archive.catalogue,
        lambda: WantedMemberships(requests, on=True),
        Notes(records),
        Client(AddressPolicy(allow_private=True)),
        lambda roots: ResolverAddresses(roots, requests=requests_for_changes),
    )
    running = asyncio.create_task(telling.run())
    try:
        yield records
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def deposit(archive: NewArchive, names: Iterable[str]) -> None:
    lines = [{"rep": name, "url": "http://far.example/"} for name in names]
    assert (await asyncio.to_thread(archive.load, *lines)).added == len(lines)


def names_of(count: int, year: int = 2013) -> list[str]:
    return [f"a.example/b/{year}/01.01.{number // 60:02}.{number % 60:02}" for number in range(count)]


def test_a_resolver_hears_first_that_anything_may_have_changed_and_then_what_did(archive: NewArchive) -> None:
    async def scenario() -> None:
        async with ScriptedResolver(RECEIVED) as resolver, telling(archive, resolver):
            await until(lambda: notices_of(resolver) == [[]])
            await deposit(archive, [REP])
            await until(lambda: len(notices_of(resolver)) == 2)
            with archive.item_store.unit_of_work("maria") as work:
                work.remove(work.get(parse_name(REP)))
            await until(lambda: len(notices_of(resolver)) == 3)
            assert notices_of(resolver) == [[], [parse_name(REP).canonical], [parse_name(REP).canonical]]
            requests = [
                read_request(query)
                for _, _, query in (each.partition("?") for each in resolver.targets)
                if query
            ]
            removed = [each.removed for each in requests if isinstance(each, ChangeNotification)]
            assert removed == [(), (), (parse_name(REP),)]

    asyncio.run(scenario())


def test_notices_end_with_the_archive_and_a_fault_of_the_settings_is_logged_once(
    archive: NewArchive, caplog: pytest.LogCaptureFixture
) -> None:
    wanted: list[WantedMemberships] = []
    looks = 0

    def read() -> WantedMemberships:
        nonlocal looks
        looks += 1
        if not wanted:
            raise SetupError("archive.toml cannot be read")
        return wanted[0]

    async def scenario() -> None:
        async with ScriptedResolver(RECEIVED) as resolver:
            records = {resolver.url: record_of(resolver, MembershipStanding.INCLUDED)}
            client = Client(AddressPolicy(allow_private=True))
            notifier = NoticeSender(archive.catalogue, read, Notes(records), client)
            running = asyncio.create_task(notifier.run())
            await until(lambda: looks > 3)
            wanted.append(WantedMemberships({resolver.url: request_of()}, on=True))
            await until(lambda: notices_of(resolver) == [[]])
            wanted[0] = replace(wanted[0], on=False)
            await deposit(archive, [REP])
            seen = looks
            await until(lambda: looks > seen + 3)
            assert notices_of(resolver) == [[]]
            wanted[0] = replace(wanted[0], on=True)
            await until(lambda: notices_of(resolver) == [[], []])  # as a resolver that is new
            wanted.clear()
            await until(lambda: len(caplog.messages) > 1)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
    assert caplog.messages == ["resolvers are not told what has changed: archive.toml cannot be read"] * 2


@pytest.mark.parametrize("status", [403, 429, 502, 503, 504])
def test_a_resolver_that_cannot_take_it_now_gets_it_again(archive: NewArchive, status: int) -> None:
    """Also a proxy before it, while the resolver starts again, says only that."""

    async def scenario() -> None:
        async with ScriptedResolver((status, b"later"), RECEIVED) as resolver, telling(archive, resolver):
            await until(lambda: notices_of(resolver) == [[], []])
            await deposit(archive, [REP])
            await until(lambda: len(notices_of(resolver)) == 3)
            assert notices_of(resolver)[2] == [parse_name(REP).canonical]

    asyncio.run(scenario())


def test_all_names_of_an_item_are_told(archive: NewArchive) -> None:
    async def scenario() -> None:
        async with ScriptedResolver(RECEIVED) as resolver, telling(archive, resolver):
            await until(lambda: notices_of(resolver) == [[]])
            line = {"rep": REP, "ibip": "8JMKD3MGP8W/35MME4E", "aliases": ["6qtX3pFwXQZGivnJSY/M7t24"]}
            await asyncio.to_thread(archive.load, line)
            await until(lambda: len(notices_of(resolver)) == 2)
            assert notices_of(resolver)[1] == ["6qtX3pFwXQZGivnJSY/M7t24", "8JMKD3MGP8W/35MME4E", REP]

    asyncio.run(scenario())


def test_many_changes_are_told_in_several_notices_and_very_many_as_anything(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with ScriptedResolver(RECEIVED) as resolver, telling(archive, resolver):
            await until(lambda: notices_of(resolver) == [[]])
            await deposit(archive, names_of(120))
            await until(lambda: sum(map(len, notices_of(resolver))) == 120)
            assert max(map(len, notices_of(resolver))) <= MOST_CHANGED
            assert sorted(name for notice in notices_of(resolver) for name in notice) == names_of(120)
            assert all(len(target) < 8000 for target in resolver.targets)
            before = len(notices_of(resolver))
            monkeypatch.setattr(notices, "MOST_NAMES", 20)
            await deposit(archive, names_of(120, 2014))
            await until(lambda: len(notices_of(resolver)) > before)
            assert notices_of(resolver)[before:] == [[]]

    asyncio.run(scenario())


def test_who_has_missed_more_than_is_kept_hears_that_anything_may_have_changed(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "KEPT", 1_000)
    monkeypatch.setattr(change_log, "KEPT_SECONDS", -1)

    async def scenario() -> None:
        async with ScriptedResolver(RECEIVED) as resolver, telling(archive, resolver):
            await until(lambda: notices_of(resolver) == [[]])
            await deposit(archive, [REP])
            await until(lambda: len(notices_of(resolver)) == 2)
            holding = archive.catalogue.holding(parse_name(REP))
            assert holding is not None
            event = history.ItemEvent(archive.item_store.moment, "maria", "noted", {})
            with archive.catalogue.writing() as writer:
                for _ in range(3_000):
                    history.add_event(writer.run, holding.number, event)
            await until(lambda: len(notices_of(resolver)) == 3)
            assert notices_of(resolver) == [[], [REP], []]
            with archive.catalogue.reading() as run:
                assert run("SELECT count(*) FROM changed").fetchone()[0] < 2_000

    asyncio.run(scenario())


def test_only_resolvers_that_ask_this_archive_are_told(archive: NewArchive) -> None:
    async def scenario() -> None:
        async with (
            ScriptedResolver(RECEIVED) as asks,
            ScriptedResolver(RECEIVED) as waits,
            telling(archive, asks, waits) as records,
        ):
            records[waits.url] = record_of(waits, MembershipStanding.WAITING)
            await until(lambda: notices_of(asks))
            heard = len(notices_of(waits))
            await deposit(archive, [REP])
            await until(lambda: len(notices_of(asks)) == 2)
            assert len(notices_of(waits)) == heard
            records[waits.url] = record_of(waits, MembershipStanding.INCLUDED)
            await until(lambda: len(notices_of(waits)) > heard)
            assert notices_of(waits)[-1] == []

    asyncio.run(scenario())


def test_a_resolver_that_has_not_said_that_it_takes_notices_gets_none(archive: NewArchive) -> None:
    async def scenario() -> None:
        async with (
            ScriptedResolver(UNKNOWN) as other,
            ScriptedResolver(RECEIVED) as ours,
            telling(archive, other, ours) as records,
        ):
            records[other.url] = replace(records[other.url], notices=False)
            await until(lambda: notices_of(ours))  # one who is new is told that anything may have changed
            await deposit(archive, [REP])
            await until(lambda: [REP] in notices_of(ours))
            assert other.targets == []

    asyncio.run(scenario())


def test_a_resolver_that_knows_no_such_notices_gets_no_more(
    archive: NewArchive, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, notices.__name__)

    async def scenario() -> None:
        async with (
            ScriptedResolver(UNKNOWN) as other,
            ScriptedResolver(RECEIVED) as ours,
            telling(archive, other, ours),
        ):
            await until(lambda: notices_of(other) and notices_of(ours))
            for number in range(1, 4):
                await deposit(archive, [f"a.example/b/2013/01.01.00.0{number}"])
                await until(lambda: len(notices_of(ours)) > number)  # noqa: B023 - waited for within the round
            assert notices_of(other) == [[]]
            host = other.url.removeprefix("http://")
            sentence = "is not told what changes, for 3600 s: it answered with status 400"
            assert caplog.messages == [f"{host} {sentence}"]

    asyncio.run(scenario())


@pytest.mark.parametrize("answer", [BUSY, REFUSED, None])
def test_who_will_not_hear_it_now_is_told_three_times_and_later_that_anything_may_have_changed(
    archive: NewArchive, answer: Step, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, notices.__name__)
    monkeypatch.setattr(notices, "UNREACHABLE_SECONDS", 0.3)

    async def scenario() -> None:
        script: list[Step] = [RECEIVED, answer, answer, answer, RECEIVED]
        async with ScriptedResolver(*script) as resolver, telling(archive, resolver):
            await until(lambda: notices_of(resolver) == [[]])
            await deposit(archive, [REP])
            await until(lambda: len(notices_of(resolver)) == 5)
            assert notices_of(resolver) == [[], [REP], [REP], [REP], []]
            (message,) = caplog.messages
            host = resolver.url.removeprefix("http://")
            assert message.startswith(f"{host} is not told what changes, for 0.3 s: ")

    asyncio.run(scenario())


def test_a_fault_of_this_machine_that_lasts_is_logged_once(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = 0
    read = change_log.changed_names

    def fail(*what: Any) -> list[str] | None:
        nonlocal tries
        tries += 1
        if tries <= 5 or 7 <= tries <= 8:
            raise SetupError("the database {path} cannot be used: {reason}", path="p", reason="full")
        return read(*what)

    async def scenario() -> None:
        async with ScriptedResolver(RECEIVED) as resolver, telling(archive, resolver):
            await until(lambda: notices_of(resolver) == [[]])
            first, second = names_of(2)
            await deposit(archive, [first])
            await until(lambda: notices_of(resolver) == [[], [first]])
            await deposit(archive, [second])
            await until(lambda: notices_of(resolver) == [[], [first], [second]])

    caplog.set_level(logging.WARNING, notices.__name__)
    monkeypatch.setattr(change_log, "changed_names", fail)
    asyncio.run(scenario())
    assert tries == 9
    assert [each.partition(" ")[2] for each in caplog.messages] == [
        "is not told what has changed: the database p cannot be used: full"
    ] * 2


def test_an_import_is_not_told_again_and_again(archive: NewArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "ANYTHING_EVERY", 3600.0)
    monkeypatch.setattr(notices, "MOST_NAMES", 5)

    async def scenario() -> None:
        async with (
            ScriptedResolver(RECEIVED) as resolver,
            telling(archive, resolver),
        ):
            await until(lambda: notices_of(resolver) == [[]])
            for year in (2013, 2014, 2015):
                await deposit(archive, names_of(10, year))
                await asyncio.sleep(0.05)
            assert notices_of(resolver) == [[]]
            monkeypatch.setattr(notices, "MOST_NAMES", 500)
            await until(lambda: sum(map(len, notices_of(resolver))) == 30)
            await deposit(archive, [REP])
            await until(lambda: notices_of(resolver)[-1] == [REP])

    asyncio.run(scenario())


# Resolvers that request changes


def test_one_that_requests_changes_is_not_told_more_than_fifty_names(archive: NewArchive) -> None:
    async def scenario() -> None:
        async with (
            ScriptedResolver(RECEIVED) as resolver,
            telling(archive, resolver, requesting=["127.0.0.1"]),
        ):
            await until(lambda: notices_of(resolver) == [[]])
            await deposit(archive, names_of(MOST_CHANGED))
            await until(lambda: len(notices_of(resolver)) == 2)
            assert notices_of(resolver)[1] == names_of(MOST_CHANGED)
            await deposit(archive, names_of(MOST_CHANGED + 1, 2014))
            await until(lambda: len(notices_of(resolver)) == 3)
            await deposit(archive, [REP])
            await until(lambda: len(notices_of(resolver)) == 4)
            assert notices_of(resolver)[2:] == [[], [REP]]

    asyncio.run(scenario())


def test_one_that_requests_changes_is_told_of_each_import_at_once(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks what has changed, so that a notice about anything costs it no answer."""
    monkeypatch.setattr(notices, "ANYTHING_EVERY", 3600.0)

    async def scenario() -> None:
        async with (
            ScriptedResolver(RECEIVED) as resolver,
            telling(archive, resolver, requesting=["127.0.0.1"]),
        ):
            await until(lambda: notices_of(resolver) == [[]])
            for number, year in enumerate((2013, 2014), 2):
                await deposit(archive, names_of(MOST_CHANGED + 10, year))
                await until(lambda: len(notices_of(resolver)) == number)  # noqa: B023 - waited for within the round
            assert notices_of(resolver) == [[], [], []]

    asyncio.run(scenario())


@pytest.mark.parametrize("answer", [BUSY, REFUSED, None])
def test_one_that_requests_changes_is_passed_over_after_two_tries(archive: NewArchive, answer: Step) -> None:
    async def scenario() -> None:
        script: list[Step] = [RECEIVED, answer, answer, RECEIVED]
        async with (
            ScriptedResolver(*script) as resolver,
            telling(archive, resolver, requesting=["127.0.0.1"]),
        ):
            await until(lambda: notices_of(resolver) == [[]])
            await deposit(archive, [REP])
            await until(lambda: len(notices_of(resolver)) == 3)
            await asyncio.sleep(0.1)
            assert notices_of(resolver) == [[], [REP], [REP]]
            last = names_of(1)
            await deposit(archive, last)
            await until(lambda: len(notices_of(resolver)) == 4)
            assert notices_of(resolver)[3] == last

    asyncio.run(scenario())


def test_a_resolver_hears_of_changes_at_most_twice_a_second(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "SEND_EVERY", 0.3)

    async def scenario() -> None:
        async with ScriptedResolver(RECEIVED) as resolver, telling(archive, resolver):
            for name in names_of(40):
                await deposit(archive, [name])
                await asyncio.sleep(0.02)
            await until(
                lambda: sum(map(len, notices_of(resolver))) + 2 >= 40 or [] in notices_of(resolver)[1:]
            )
            moments = [resolver.request_times.get_nowait() for _ in range(resolver.request_times.qsize())]
            # A notice that waited for a busy machine may come close behind the one before; so all of them count.
            assert moments[-1] - moments[0] > 0.3 * (len(moments) - 1) - 0.2
            assert len(moments) > 2

    asyncio.run(scenario())


def test_a_change_of_no_single_item_is_told_as_anything(archive: NewArchive) -> None:
    async def scenario() -> None:
        async with ScriptedResolver(RECEIVED) as resolver, telling(archive, resolver):
            await until(lambda: notices_of(resolver) == [[]])
            with archive.catalogue.writing() as writer:
                change_log.log_rules(writer.run, 7)
            await until(lambda: len(notices_of(resolver)) == 2)
            await deposit(archive, [REP])
            await until(lambda: len(notices_of(resolver)) == 3)
            assert notices_of(resolver) == [[], [], [REP]]

    asyncio.run(scenario())


def test_all_processes_know_who_requested_changes_lately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (RequestTimes(tmp_path / "new") for _ in range(2))
    joined = ResolverAddresses(["http://127.0.0.1:1"], requests=second)
    assert not asyncio.run(joined.request_changes())
    first.note("127.0.0.2")
    assert not asyncio.run(joined.request_changes())
    first.note("127.0.0.1")
    assert asyncio.run(joined.request_changes())
    monkeypatch.setattr("ibi.archive.membership.resolver_addresses.REQUESTING_SECONDS", -1.0)
    assert not asyncio.run(joined.request_changes())


def test_a_folder_that_cannot_be_used_leaves_each_process_to_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    times = RequestTimes(tmp_path / "file")
    times.note("127.0.0.1")
    assert times.is_recent("127.0.0.1")
    assert not times.is_recent("127.0.0.2")
