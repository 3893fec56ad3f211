"""When a resolver asks an Archive what has changed, to the tenth of a second: real sockets, a false clock."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from ibi.errors import SetupError
from ibi.protocol.extensions.changes import ChangesReply
from ibi.resolver.cache.answers import AnswerCache
from ibi.resolver.cache.change_requests import (
    ASK_EVERY,
    PAUSE,
    REPLY_SECONDS,
    UNDER_WAY_SECONDS,
    UNSUPPORTED_SECONDS,
    ChangesRequester,
)
from ibi.resolver.cache.lease import LEASE_SECONDS, NEVER, RENEW_AFTER
from ibi.resolver.model.archive import Archive
from support.clock import run_with_false_clock
from support.network.leasing_archive import LeasingArchive
from support.resolver.scripted_peers import among
from support.scripted_archive import Behaviour

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from ibi.errors import PeerError
    from ibi.http.client import Client

ONE, TWO = "a.example/b/2010/01.01.00.00", "a.example/b/2010/01.01.00.01"
SILENT, UNKNOWN = Behaviour(lie="silence"), Behaviour(b"", lie="status-404")


class Scene:
    """One Archive, and one process that asks it; `ended` has how each request to renew ended, "" for well."""

    def __init__(
        self, folder: Path, client: Client, archives: Sequence[Archive], one: LeasingArchive
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.client, self.leasing, (self.archive,) = client, one, archives
        self.cache = AnswerCache(folder / "memory", lambda: 1e9 + self.loop.time(), boot=self.loop.time)
        self.leases, self.slot = self.cache.leases, self.cache.leases.slot(self.archive.service)
        self.names: list[tuple[Sequence[str], str]] = []
        self.ended: list[str] = []
        self.included: tuple[Archive, ...] = (self.archive,)
        self.requester = self.another()
        self.began = self.loop.time()

    def another(self, **limits: float) -> ChangesRequester:
        return ChangesRequester(
            self.client,
            self.cache,
            lambda: self.included,
            **limits,
            on_names=lambda names, service: self.names.append((names, service)),
        )

    @property
    def moments(self) -> list[float]:
        """When the Archive was asked, since the last call of `again`."""
        return [round(each.when - self.began, 1) for each in self.leasing.requests("changesRequest")]

    def again(self) -> None:
        self.leasing.received.clear()
        self.began = self.loop.time()

    def note(self, error: PeerError | None) -> None:
        self.ended.append("" if error is None else str(error))

    async def renew(self) -> tuple[str, float]:
        """Have the lease renewed; how that ended, and after how many seconds."""
        begun, ended = self.loop.time(), asyncio.Event()

        def end(error: PeerError | None) -> None:
            self.note(error)
            ended.set()

        self.requester.renew(self.archive, end)
        await ended.wait()
        return self.ended[-1], round(self.loop.time() - begun, 1)


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    one = LeasingArchive(ip="127.77.0.1")
    async with among(one) as (client, archives):
        made = Scene(folder, client, archives, one)
        yield made
        await client.close()
        made.cache.close()


def play(folder: Path, act: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        async with scene(folder) as made:
            await act(made)

    run_with_false_clock(main())


def test_a_lease_is_renewed_once_for_all_who_wait_and_tells_what_has_changed(tmp_path: Path) -> None:
    async def act(made: Scene) -> None:
        requester, service = made.requester, made.archive.service
        assert requester.seconds_since_reply(made.archive) == inf
        requester.renew(made.archive, made.note)
        assert await made.renew() == ("", 0.0)
        assert (made.ended, made.moments, made.names) == (["", ""], [0.0], [((), service)])
        assert made.cache.position(service) == made.leasing.position
        assert made.leases.began(made.slot).real - 1e9 == made.leases.began(made.slot).boot == made.began
        for after, expected in ((RENEW_AFTER - 0.1, [0.0]), (0.1, [0.0, RENEW_AFTER])):
            await asyncio.sleep(after)
            assert await made.renew() == ("", 0.0)
            assert made.moments == expected
        made.leasing.change(ONE, "http://leasing.example/1")
        made.leasing.change(TWO, "http://leasing.example/2")
        await asyncio.sleep(7.0)
        assert round(requester.seconds_since_reply(made.archive)) == 7
        requester.refresh(made.archive)
        await asyncio.sleep(0.1)
        assert made.names[-1] == ((ONE, TWO), service)

    play(tmp_path, act)


def test_requests_are_half_a_second_apart_but_for_what_is_left_of_a_reply(tmp_path: Path) -> None:
    async def act(made: Scene) -> None:
        await made.renew()
        made.again()
        for after in (0.0, 0.2, 0.2, 3.0):
            await asyncio.sleep(after)
            made.requester.refresh(made.archive)
        await asyncio.sleep(3.0)
        # A request counts if it is later than the call; the last one was sent at the very moment of its call.
        assert made.moments == [PAUSE, 3.4, 3.4 + PAUSE]
        made.leasing.page = 1
        for name in (ONE, TWO):
            made.leasing.change(name, "http://leasing.example/x")
        made.again()
        made.requester.refresh(made.archive)
        await asyncio.sleep(1.0)
        assert made.moments == [0.0, 0.0, PAUSE]
        assert [names for names, _ in made.names[-3:]] == [(ONE,), (TWO,), ()]

    play(tmp_path, act)


def test_a_notice_is_followed_while_the_lease_runs_or_a_request_may_be_under_way(tmp_path: Path) -> None:
    async def wakes(made: Scene) -> bool:
        made.leasing.received.clear()
        made.requester.wake(made.archive)
        await asyncio.sleep(REPLY_SECONDS + PAUSE + 0.1)
        return bool(made.leasing.received)

    async def act(made: Scene) -> None:
        assert not await wakes(made)  # it was never asked
        await made.renew()
        await asyncio.sleep(LEASE_SECONDS - 0.1)
        assert await wakes(made)
        await asyncio.sleep(LEASE_SECONDS)
        assert not await wakes(made)
        made.leases.note_sent(made.slot, made.loop.time() - UNDER_WAY_SECONDS)
        assert not await wakes(made)
        made.leases.note_sent(made.slot, made.loop.time() - UNDER_WAY_SECONDS + 0.1)
        assert await wakes(made)
        made.leases.renew(made.slot, NEVER)
        made.leases.note_sent(made.slot, made.loop.time())
        assert await wakes(made)
        made.leases.renew(made.slot, NEVER)
        made.leases.note_sent(made.slot, made.loop.time() + 1.0)  # of a machine that has started anew
        assert not await wakes(made)

    play(tmp_path, act)


def test_who_was_not_asked_for_a_quarter_of_an_hour_is_asked_if_it_is_included_and_may_be(
    tmp_path: Path,
) -> None:
    async def act(made: Scene) -> None:
        async def looked() -> bool:
            made.again()
            await made.requester.look()
            pause = made.loop.time() - made.began
            await asyncio.sleep(3.0 - pause)
            assert bool(pause) == bool(made.moments)  # not all Archives are asked at one moment
            return bool(made.moments)

        assert await looked()
        await asyncio.sleep(ASK_EVERY - 2.6)
        assert not await looked()
        await asyncio.sleep(0.1)
        assert await looked()
        for age, expected in ((ASK_EVERY - 0.1, False), (ASK_EVERY, True), (-0.1, True)):
            made.leases.note_sent(made.slot, made.loop.time() - age)
            assert await looked() == expected
        await asyncio.sleep(ASK_EVERY)
        made.included = ()
        assert not await looked()
        made.included = (made.archive,)
        made.requester.unsupported.add(made.archive.service)
        assert not await looked()
        made.requester.unsupported.clear()
        made.leasing.on_changes = SILENT
        made.requester.renew(made.archive, made.note)
        await made.requester.look()
        await asyncio.sleep(3.0)
        assert len(made.leasing.received) == 1  # it was waited for already
        made.leasing.on_changes = None
        await asyncio.sleep(ASK_EVERY)
        made.requester = made.another(most_seconds=0)
        assert not await looked()

    play(tmp_path, act)


def test_an_archive_without_the_extension_is_asked_again_in_an_hour_or_when_it_is_included_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ibi.resolver.cache.change_requests")

    async def act(made: Scene) -> None:
        requester, archive = made.requester, made.archive
        made.leasing.on_changes = UNKNOWN
        assert requester.supports(archive)
        assert await made.renew() == ("", 0.0)
        sentence = "leasing.example/w/2020/01.01.00.00 does not reply to requests for changes: "
        assert [each.getMessage() for each in caplog.records] == [
            f"{sentence}this is not the reply that was expected"
        ]
        assert not requester.supports(archive)
        assert not await requester.catch_up(archive)
        requester.refresh(archive)
        await asyncio.sleep(UNSUPPORTED_SECONDS - 0.1)
        assert not requester.supports(archive)
        await asyncio.sleep(0.2)
        assert (requester.supports(archive), made.moments) == (True, [0.0])
        assert not await requester.catch_up(archive)
        made.leasing.on_changes = None
        requester.refresh(archive, anew=True)
        await asyncio.sleep(PAUSE + 0.1)
        assert requester.supports(archive)
        assert made.cache.position(archive.service) == made.leasing.position
        assert not made.another(most_seconds=0).supports(archive)

    play(tmp_path, act)


def test_who_catches_up_knows_whether_all_was_applied(tmp_path: Path) -> None:
    async def act(made: Scene) -> None:
        assert await made.requester.catch_up(made.archive)
        await asyncio.sleep(10.0)
        made.again()
        assert await made.requester.catch_up(made.archive)
        made.leasing.on_changes = SILENT
        await asyncio.sleep(10.0)
        began = made.loop.time()
        assert not await made.requester.catch_up(made.archive)
        assert round(made.loop.time() - began, 1) == REPLY_SECONDS
        assert made.moments == [0.0, PAUSE, 10.0 + PAUSE]
        assert not await made.another(most_seconds=0).catch_up(made.archive)
        assert len(made.moments) == 3

    play(tmp_path, act)


def test_while_another_process_asks_its_reply_is_awaited_and_then_its_lock(tmp_path: Path) -> None:
    async def act(made: Scene) -> None:
        assert made.leases.lock(made.slot)
        assert await made.renew() == ("another process still waits for its reply", 2.0)
        waiter = asyncio.create_task(made.renew())
        await asyncio.sleep(1.0)
        made.leases.renew(made.slot, made.cache.moment)
        assert await waiter == ("", 1.0)
        assert made.moments == []
        made.leases.renew(made.slot, NEVER)
        waiter = asyncio.create_task(made.renew())
        await asyncio.sleep(1.0)
        made.leases.unlock(made.slot)
        assert await waiter == ("", 1.0)
        assert len(made.moments) == 1
        assert made.leases.lock(made.slot)  # it is free again

    play(tmp_path, act)


def test_a_reply_that_cannot_be_applied_comes_late_or_after_an_exclusion_renews_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(made: Scene) -> None:
        reply = made.leasing.changes_reply
        made.leasing.on_changes = SILENT
        silent, seconds = await made.renew()
        assert (silent, seconds) == ("no whole answer within 2 s", REPLY_SECONDS)

        def excluded(pairs: dict[str, str]) -> ChangesReply:
            made.leases.end(made.slot)
            return reply(pairs)

        made.leasing.on_changes = None
        monkeypatch.setattr(made.leasing, "changes_reply", excluded)
        assert await made.renew() == ("it was excluded or moved meanwhile", 0.0)
        monkeypatch.setattr(made.leasing, "changes_reply", reply)

        def fails(*_: object) -> None:
            raise SetupError("cached answers cannot be forgotten")

        monkeypatch.setattr(made.cache, "apply", fails)
        assert await made.renew() == ("its earlier answers cannot be forgotten", PAUSE)
        assert (made.leases.began(made.slot), made.cache.position(made.archive.service)) == (NEVER, "")
        assert made.names == []

    play(tmp_path, act)


def test_in_the_background_the_leases_of_included_archives_are_renewed_by_their_slots(tmp_path: Path) -> None:
    async def act(made: Scene) -> None:
        other = made.slot % 100 + 1
        made.requester.renew_slots([other])
        made.requester.renew_slots([made.slot, other])
        made.requester.renew_slots([made.slot])
        await asyncio.sleep(0.1)
        assert made.moments == [0.0]
        await asyncio.sleep(LEASE_SECONDS)
        made.included = ()
        made.requester.renew_slots([made.slot])
        made.included = (made.archive,)
        made.requester.unsupported.add(made.archive.service)
        made.requester.renew_slots([made.slot])
        await asyncio.sleep(0.1)
        assert made.moments == [0.0]

    play(tmp_path, act)


def test_a_client_that_closes_waits_until_a_reply_is_applied_and_only_then_is_the_lock_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with scene(tmp_path) as made:
            began, may_end, applied = threading.Event(), threading.Event(), made.cache.apply

            def slow(*reply: Any) -> None:
                began.set()
                may_end.wait(30)
                applied(*reply)

            monkeypatch.setattr(made.cache, "apply", slow)
            made.requester.renew(made.archive, made.note)
            await asyncio.to_thread(began.wait, 30)
            closing = asyncio.create_task(made.client.close())
            await asyncio.sleep(0.05)
            assert (closing.done(), made.leases.lock(made.slot), made.ended) == (False, False, [])
            may_end.set()
            await closing
            assert made.cache.position(made.archive.service) == made.leasing.position
            assert (made.leases.lock(made.slot), made.ended) == (True, ["this client is closed"])

    asyncio.run(main())
