"""Answers of an Archive live until it changes: what a resolver asks, and what readers get, over real sockets."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.extensions.changes import ChangesReply
from ibi.protocol.messages import ChangeNotification
from ibi.resolver.cache import change_requests
from ibi.resolver.cache.change_requests import PAUSE
from ibi.resolver.cache.lease import LEASE_SECONDS, Moment, lease_age
from ibi.resolver.members.notices import MOST_PER_SECOND
from support.network.leasing_archive import LeasingArchive
from support.resolver.running_resolver import SERVICE, Running, resolver, until
from support.scripted_archive import Behaviour

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

ONE, TWO = "a.example/b/2010/01.01.00.00", "a.example/b/2010/01.01.00.01"


def play(
    data: Path,
    scene: Callable[[Running, LeasingArchive], Awaitable[None]],
    archive: LeasingArchive | None = None,
) -> None:
    """Play a scene with an Archive of two items, whose changes the resolver knows up to now."""

    async def main() -> None:
        leasing = archive or LeasingArchive()
        for number, name in enumerate((ONE, TWO)):
            leasing.change(name, f"http://leasing.example/{number}")
        async with resolver(data, [leasing]) as running:
            await renewed(running, leasing)
            await scene(running, leasing)

    asyncio.run(main())


def age(running: Running, leasing: LeasingArchive) -> float:
    """How old the lease is; LEASE_SECONDS if there is none."""
    cache = running.knows.cache
    return lease_age(cache.leases.began(cache.leases.slot(leasing.service)), cache.moment)


async def renewed(running: Running, leasing: LeasingArchive, *, anew: bool = True) -> None:
    """Have changes requested now, and wait until they are applied."""
    (archive,) = running.registry.archives()
    running.service.changes.refresh(archive, anew=anew)
    await until(lambda: running.knows.cache.position(leasing.service) == leasing.position)
    await until(lambda: age(running, leasing) < LEASE_SECONDS)


def end_lease(running: Running, leasing: LeasingArchive) -> None:
    """A minute passes in which nothing is asked."""
    leases = running.knows.cache.leases
    slot = leases.slot(leasing.service)
    leases.renew(slot, Moment(*(each - LEASE_SECONDS for each in leases.began(slot))))
    leases.note_sent(slot, leases.sent(slot) - LEASE_SECONDS)


async def clicks(running: Running, name: str, times: int = 1) -> list[str | None]:
    """Where readers are led, one after the other; what was heard is written before the next one comes."""
    led = list[str | None]()
    for _ in range(times):
        led.append((await running.ask(f"/{name}")).location)
        await asyncio.to_thread(running.knows.cache.flush)
    return led


def counts(leasing: LeasingArchive) -> tuple[int, int]:
    """How many queries it got, and how many requests for changes."""
    return len(leasing.requests("urlRequest")), len(leasing.requests("changesRequest"))


def test_a_minute_later_one_request_serves_all_its_answers(tmp_path: Path) -> None:
    async def scene(running: Running, leasing: LeasingArchive) -> None:
        assert await clicks(running, ONE, 3) == ["http://leasing.example/0"] * 3
        assert await clicks(running, TWO, 3) == ["http://leasing.example/1"] * 3
        assert counts(leasing) == (2, 1)
        for _ in range(3):
            end_lease(running, leasing)
            led = await asyncio.gather(*(clicks(running, name) for name in (ONE, TWO, ONE, TWO)))
            assert [each for (each,) in led] == [
                f"http://leasing.example/{number}" for number in (0, 1, 0, 1)
            ]
        assert counts(leasing) == (2, 4)

    play(tmp_path, scene)


def test_what_has_changed_is_asked_for_anew_and_nothing_else(tmp_path: Path) -> None:
    async def scene(running: Running, leasing: LeasingArchive) -> None:
        await clicks(running, ONE, 2)
        await clicks(running, TWO, 2)
        leasing.change(ONE, "http://leasing.example/new")
        end_lease(running, leasing)
        assert await clicks(running, ONE, 2) == ["http://leasing.example/new"] * 2
        assert await clicks(running, TWO, 2) == ["http://leasing.example/1"] * 2
        assert leasing.items_queried == [ONE, TWO, ONE]

    play(tmp_path, scene)


def test_what_rests_on_a_changed_item_is_asked_for_anew(tmp_path: Path) -> None:
    async def scene(running: Running, leasing: LeasingArchive) -> None:
        leasing.rests[ONE] = (TWO,)
        await clicks(running, ONE, 2)
        leasing.change(TWO, "http://leasing.example/other")
        leasing.places[ONE] = "http://leasing.example/by-two"
        end_lease(running, leasing)
        assert await clicks(running, ONE, 2) == ["http://leasing.example/by-two"] * 2
        assert leasing.items_queried == [ONE, ONE]

    play(tmp_path, scene)


def test_if_anything_may_have_changed_all_its_answers_are_asked_for_anew(tmp_path: Path) -> None:
    async def scene(running: Running, leasing: LeasingArchive) -> None:
        await clicks(running, ONE, 3)
        await clicks(running, TWO, 3)
        leasing.change(None)
        leasing.places[TWO] = "http://leasing.example/new"
        end_lease(running, leasing)
        assert await clicks(running, TWO, 2) == ["http://leasing.example/new"] * 2
        assert await clicks(running, ONE, 2) == ["http://leasing.example/0"] * 2
        assert leasing.items_queried == [ONE, TWO, TWO, ONE]

    play(tmp_path, scene)


def test_a_store_that_was_rolled_back_does_not_find_the_position(tmp_path: Path) -> None:
    async def scene(running: Running, leasing: LeasingArchive) -> None:
        before = leasing.places[ONE]
        leasing.change(ONE, "http://leasing.example/lost")
        await renewed(running, leasing)
        assert await clicks(running, ONE, 2) == ["http://leasing.example/lost"] * 2
        leasing.log.pop()
        leasing.places[ONE] = before
        leasing.change(TWO, "http://leasing.example/1")  # as many changes as before
        end_lease(running, leasing)
        assert await clicks(running, ONE, 2) == [before] * 2

    play(tmp_path, scene)


def test_many_changes_come_in_several_replies_and_only_the_last_one_renews(tmp_path: Path) -> None:
    async def scene(running: Running, leasing: LeasingArchive) -> None:
        await clicks(running, ONE, 2)
        leasing.page = 2
        for number in range(9):
            leasing.change(f"a.example/b/2011/01.01.00.{number:02}", "http://leasing.example/more")
        leasing.change(ONE, "http://leasing.example/last")
        end_lease(running, leasing)
        before = counts(leasing)[1]
        assert await clicks(running, ONE) == ["http://leasing.example/last"]
        assert counts(leasing)[1] - before == 5

    play(tmp_path, scene)


def test_an_endless_list_of_changes_ends_and_renews_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_requests, "MOST_PAGES", 5)

    class Endless(LeasingArchive):
        endless = False

        def changes_reply(self, pairs: dict[str, str]) -> ChangesReply:
            if self.endless:
                self.change(TWO, "http://leasing.example/1")
            return replace(super().changes_reply(pairs), more=self.endless)

    async def scene(running: Running, leasing: LeasingArchive) -> None:
        await clicks(running, ONE, 2)
        end_lease(running, leasing)
        assert isinstance(leasing, Endless)
        leasing.endless = True
        before = counts(leasing)[1]
        assert await clicks(running, ONE) == ["http://leasing.example/0"]
        assert counts(leasing)[1] - before == 5
        assert age(running, leasing) == LEASE_SECONDS

    play(tmp_path, scene, Endless())


def test_a_notice_has_changes_requested_at_once(tmp_path: Path) -> None:
    async def scene(running: Running, leasing: LeasingArchive) -> None:
        leasing.rests[ONE] = (TWO,)
        await clicks(running, ONE, 3)
        leasing.change(TWO, "http://leasing.example/other")
        leasing.places[ONE] = "http://leasing.example/by-two"
        notice = ChangeNotification(parse_ibi(leasing.service), (parse_name(TWO),))
        answer = await running.ask(f"/{SERVICE.main}?{notice.query()}")
        assert answer.status == 200
        await until(lambda: running.knows.cache.position(leasing.service) == leasing.position)
        assert await clicks(running, ONE, 2) == ["http://leasing.example/by-two"] * 2

    play(tmp_path, scene)


def test_many_notices_in_a_second_are_one_request_and_each_reply_may_be_relied_on(tmp_path: Path) -> None:
    async def scene(running: Running, leasing: LeasingArchive) -> None:
        notice = ChangeNotification(parse_ibi(leasing.service), (parse_name(ONE),))
        for number in range(MOST_PER_SECOND + 4):
            await clicks(running, ONE, 2)
            leasing.change(ONE, f"http://leasing.example/new{number}")
            answer = await running.ask(f"/{SERVICE.main}?{notice.query()}")
            assert answer.status == 200
            assert await clicks(running, ONE) == [f"http://leasing.example/new{number}"]
        before = counts(leasing)[1]
        many = [running.ask(f"/{SERVICE.main}?{notice.query()}") for _ in range(200)]
        assert {answer.status for answer in await asyncio.gather(*many)} == {200}
        assert counts(leasing)[1] - before < len(many) / 4

    play(tmp_path, scene)


def test_a_notice_from_elsewhere_does_so_too_while_the_lease_runs(tmp_path: Path) -> None:
    async def main() -> None:
        leasing = LeasingArchive("leasing.example", "127.0.0.9")
        leasing.change(ONE, "http://leasing.example/0")
        async with resolver(tmp_path, [leasing]) as running:
            await renewed(running, leasing)
            notice = ChangeNotification(parse_ibi(leasing.service), (parse_name(ONE),)).query()
            cache, before = running.knows.cache, counts(leasing)[1]
            slot, now = cache.leases.slot(leasing.service), cache.boot()
            assert (await running.ask(f"/{SERVICE.main}?{notice}")).status == 403
            await until(lambda: cache.leases.began(slot).boot > now)
            assert counts(leasing)[1] > before
            await asyncio.sleep(PAUSE + 0.2)  # another one may have been under way
            end_lease(running, leasing)
            after = counts(leasing)[1]
            assert (await running.ask(f"/{SERVICE.main}?{notice}")).status == 403
            await asyncio.sleep(PAUSE + 0.2)
            assert counts(leasing)[1] == after

    asyncio.run(main())


def test_an_answer_of_another_position_is_given_but_not_kept_and_changes_are_requested(
    tmp_path: Path,
) -> None:
    async def scene(running: Running, leasing: LeasingArchive) -> None:
        leasing.change(ONE, "http://leasing.example/new")
        assert await clicks(running, ONE) == ["http://leasing.example/new"]
        await until(lambda: running.knows.cache.position(leasing.service) == leasing.position)
        assert await clicks(running, ONE, 3) == ["http://leasing.example/new"] * 3
        assert counts(leasing) == (2, 2)

    play(tmp_path, scene)


def test_requests_for_changes_are_half_a_second_apart(tmp_path: Path) -> None:
    async def scene(running: Running, leasing: LeasingArchive) -> None:
        (archive,) = running.registry.archives()
        loop = asyncio.get_running_loop()
        end = loop.time() + 2.2
        while loop.time() < end:
            running.service.changes.refresh(archive)
            await asyncio.sleep(0.05)
        moments = [request.when for request in leasing.requests("changesRequest")]
        # One that waited for a busy machine may come close behind the one before; so all of them count.
        assert 3 <= len(moments) <= 7
        assert moments[-1] - moments[0] >= 0.5 * (len(moments) - 1) - 0.2

    play(tmp_path, scene)


@pytest.mark.parametrize(
    "on_changes",
    [
        Behaviour(b"error {no service knows this subject}", status="400 Bad Request"),
        Behaviour(b""),
        Behaviour(ChangesReply("0" * 16, f"9.{'0' * 16}").body()),
        Behaviour(lie="status-404"),
    ],
)
def test_an_archive_that_gives_no_reply_is_not_asked_again_and_its_answers_hold_for_their_max_age(
    tmp_path: Path, on_changes: Behaviour
) -> None:
    async def main() -> None:
        leasing = LeasingArchive()
        leasing.on_changes = on_changes
        leasing.change(ONE, "http://leasing.example/0")
        async with resolver(tmp_path, [leasing]) as running:
            assert await clicks(running, ONE) == ["http://leasing.example/0"]
            await until(lambda: counts(leasing)[1] == 1)
            await until(lambda: not running.service.changes.supports(running.registry.archives()[0]))
            assert await clicks(running, ONE, 4) == ["http://leasing.example/0"] * 4
            assert counts(leasing) == (2, 1)

    asyncio.run(main())


@pytest.mark.parametrize("lie", ["silence", "status-503"])
def test_if_it_is_silent_readers_get_the_older_answer_and_the_lease_is_not_renewed(
    tmp_path: Path, lie: str
) -> None:
    async def scene(running: Running, leasing: LeasingArchive) -> None:
        await clicks(running, ONE, 2)
        leasing.on_changes = Behaviour(lie=lie)
        leasing.manner = Behaviour(lie=lie)
        leasing.places = {}
        end_lease(running, leasing)
        assert await clicks(running, ONE) == ["http://leasing.example/0"]
        assert age(running, leasing) == LEASE_SECONDS

    play(tmp_path, scene)


def test_a_late_reply_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_requests, "REPLY_SECONDS", 0.2)

    async def scene(running: Running, leasing: LeasingArchive) -> None:
        await clicks(running, ONE, 2)
        end_lease(running, leasing)
        leasing.hold()
        (archive,) = running.registry.archives()
        running.service.changes.refresh(archive)
        await asyncio.sleep(0.4)
        leasing.release()
        await asyncio.sleep(0.2)
        assert age(running, leasing) == LEASE_SECONDS

    play(tmp_path, scene)


def test_a_reply_to_a_request_from_before_it_was_excluded_does_not_count(tmp_path: Path) -> None:
    async def scene(running: Running, leasing: LeasingArchive) -> None:
        await clicks(running, ONE, 2)
        end_lease(running, leasing)
        leasing.hold()
        (archive,) = running.registry.archives()
        before = counts(leasing)[1]
        running.service.changes.refresh(archive)
        await until(lambda: counts(leasing)[1] > before)
        await asyncio.to_thread(running.knows.cache.forget, archive.service, None)  # as an exclusion does
        leasing.release()
        await asyncio.sleep(0.2)
        assert age(running, leasing) == LEASE_SECONDS

    play(tmp_path, scene)


def test_an_answer_ends_when_its_archive_says_so(tmp_path: Path) -> None:
    async def scene(running: Running, leasing: LeasingArchive) -> None:
        leasing.seconds = 1
        await clicks(running, ONE, 3)
        assert counts(leasing)[0] == 1
        leasing.places[ONE] = "http://leasing.example/open"
        await asyncio.sleep(1.1)
        assert await clicks(running, ONE) == ["http://leasing.example/open"]

    play(tmp_path, scene)


def test_who_was_not_asked_for_a_quarter_of_an_hour_is_asked(tmp_path: Path) -> None:
    async def scene(running: Running, leasing: LeasingArchive) -> None:
        before = counts(leasing)[1]
        await running.service.changes.look()
        await asyncio.sleep(0.1)
        assert counts(leasing)[1] == before
        leases = running.knows.cache.leases
        leases.note_sent(
            leases.slot(leasing.service), running.knows.cache.moment.boot - change_requests.ASK_EVERY
        )
        await running.service.changes.look()
        await until(lambda: counts(leasing)[1] == before + 1)

    play(tmp_path, scene)
