"""When acknowledgments are sent and sent again, and when an Archive is reported as silent: to the tenth of a second."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import Acknowledgment
from ibi.protocol.vocabulary import ContentType, ItemState
from ibi.resolver.acknowledgments.counter import RedirectCount
from ibi.resolver.acknowledgments.queue import EXPIRY_SECONDS, MOST_BATCHED, MOST_READERS, AcknowledgmentQueue
from ibi.resolver.model.archive import Archive
from support.clock import run_with_false_clock
from support.resolver.scripted_peers import BODY, among, archive
from support.scripted_archive import NOTICE, Behaviour

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ibi.http.client import Client
    from support.scripted_archive import ScriptedArchive

MESSAGE = Acknowledgment(
    ("192.0.2.1",),
    ContentType.DATA,
    ItemState.ORIGINAL,
    "http://a.example/x",
    "http://urlib.net/example.org/a/2020/01.02.00.00",
    "1234567890-1234567890",
    IBIForms.parse("rep example.org/a/2020/01.02.00.00"),
)


class Scene:
    """A queue to one Archive; `silences`: when it was reported as silent, and whether that failed."""

    def __init__(self, client: Client, known: Archive, one: ScriptedArchive) -> None:
        self.loop = asyncio.get_running_loop()
        self.archive, self.one = known, one
        self.queue = AcknowledgmentQueue(client)
        self.began = self.loop.time()
        self.silences: list[tuple[float, str, bool]] = []
        self.queue.on_silence = self.report

    def report(self, archive: Archive, *, failed: bool) -> None:
        self.silences.append((self.now(), archive.address, failed))

    def now(self) -> float:
        return round(self.loop.time() - self.began, 1)

    @property
    def moments(self) -> list[float]:
        """When requests came."""
        return [round(each.when - self.began, 1) for each in self.one.received]

    @property
    def counts(self) -> tuple[int, int, Counter[str]]:
        return self.queue.delivered, self.queue.queued, self.queue.dropped


def play(manner: Behaviour, act: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        one = archive("a", Behaviour(BODY))
        one.on_acknowledgment = manner
        async with among(one) as (client, (known,)):
            scene = Scene(client, known, one)
            await act(scene)
            await scene.queue.close()

    run_with_false_clock(main())


CONDUCTS: dict[str, tuple[Behaviour, list[float], list[tuple[float, bool]], Counter[str]]] = {
    "in time": (Behaviour(NOTICE, 0.4), [1.0], [], Counter()),
    "slow": (Behaviour(NOTICE, 0.7), [1.0], [(1.5, False)], Counter()),
    "resets": (
        Behaviour(NOTICE, lie="reset"),
        [1.0, 2.0, 5.0],
        [(1.0, True), (2.0, True), (5.0, True)],
        Counter(silent=3),
    ),
    "garbled": (Behaviour(NOTICE, lie="status-500"), [1.0, 2.0, 5.0], [], Counter(garbled=3)),
    "hangs": (
        Behaviour(lie="silence"),
        [1.0, 5.0, 11.0],
        [
            *[(1.5 + half / 2, False) for half in range(6)],
            (4.0, True),
            *[(5.5 + half / 2, False) for half in range(6)],
            (8.0, True),
            *[(11.5 + half / 2, False) for half in range(6)],
            (14.0, True),
        ],
        Counter(silent=3),
    ),
}


@pytest.mark.parametrize("conduct", CONDUCTS)
def test_one_with_an_id_is_sent_three_times_and_silence_is_reported_each_half_second(conduct: str) -> None:
    manner, moments, silences, dropped = CONDUCTS[conduct]

    async def act(scene: Scene) -> None:
        for _ in range(3):
            scene.queue.acknowledge_cached(scene.archive, MESSAGE)
        await asyncio.sleep(20.0)
        assert scene.moments == moments
        assert sorted(set(scene.silences)) == sorted((at, "a.example", failed) for at, failed in silences)
        assert scene.counts == (0 if dropped else 3, 0, dropped)
        events = {pairs["acknowledgment.id"] for pairs in scene.one.acknowledgments}
        assert len(events) == 1

    play(manner, act)


@pytest.mark.parametrize(("lie", "reported"), [("reset", True), ("status-500", False)])
def test_one_without_an_id_is_sent_once_and_the_next_one_follows(lie: str, *, reported: bool) -> None:
    async def act(scene: Scene) -> None:
        scene.queue.acknowledge(scene.archive, MESSAGE)
        scene.queue.acknowledge(scene.archive, MESSAGE)
        await asyncio.sleep(20.0)
        assert scene.moments == [0.0, 0.0]
        assert scene.silences == [(0.0, "a.example", True)] * 2 * reported
        assert scene.counts == (0, 0, Counter({"silent" if reported else "garbled": 2}))

    play(Behaviour(NOTICE, lie=lie), act)


def test_an_id_has_up_to_twenty_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "randbelow", lambda below: below - 1)

    async def act(scene: Scene) -> None:
        scene.queue.acknowledge_cached(scene.archive, MESSAGE, 7)
        await asyncio.sleep(2.0)
        (pairs,) = scene.one.acknowledgments
        assert (pairs["acknowledgment.id"], pairs["acknowledgment.count"]) == ("9" * 20, "7")

    play(Behaviour(NOTICE), act)


def test_where_nothing_may_be_sent_to_the_reason_is_counted_and_others_are_sent() -> None:
    async def act(scene: Scene) -> None:
        inside = Archive(parse_ibi("example/b/2020/01.01.00.00"), "127.0.0.1:80")
        for each in (inside, inside, scene.archive):
            scene.queue.acknowledge(each, MESSAGE)
        await asyncio.sleep(1.0)
        assert scene.counts == (1, 0, Counter(silent=2))
        assert [address for _, address, failed in scene.silences if failed] == ["127.0.0.1:80"] * 2

    play(Behaviour(NOTICE), act)


@pytest.mark.parametrize("address", ["127.0.0.1:80", "no address"])
def test_one_with_an_id_that_may_not_be_sent_is_tried_again_after_the_same_pauses(address: str) -> None:
    async def act(scene: Scene) -> None:
        inside = Archive(parse_ibi("example/b/2020/01.01.00.00"), address)
        scene.queue.acknowledge_cached(inside, MESSAGE, 3)
        await asyncio.sleep(0.5)
        assert scene.counts == (0, 3, Counter())
        await asyncio.sleep(20.0)
        assert scene.silences == [(at, address, True) for at in (1.0, 2.0, 5.0)]
        assert scene.counts == (0, 0, Counter(silent=3))

    play(Behaviour(NOTICE), act)


@pytest.mark.parametrize("grace", [0.5, 2.0])
def test_closing_waits_for_a_while_and_then_gives_up(grace: float) -> None:
    async def act(scene: Scene) -> None:
        for _ in range(6):
            scene.queue.acknowledge(scene.archive, MESSAGE)
        await asyncio.sleep(0.1)
        await scene.queue.close(grace)
        assert scene.now() == round(grace + 0.1, 1)
        await asyncio.sleep(0.1)
        # Four were sent, and their connections are closed.
        assert (scene.moments, scene.one.closed_early) == ([0.0] * 4, 4)
        assert scene.counts == (0, 0, Counter(closing=6))
        scene.queue.acknowledge(scene.archive, MESSAGE)
        scene.queue.acknowledge_cached(scene.archive, MESSAGE, 5)
        assert scene.counts == (0, 0, Counter(closing=12))
        await asyncio.sleep(20.0)
        assert len(scene.moments) == 4
        assert all(at <= grace for at, _, _ in scene.silences)

    play(Behaviour(lie="silence"), act)


def test_closing_sends_at_once_what_waits_for_its_second_try() -> None:
    async def act(scene: Scene) -> None:
        scene.queue.acknowledge_cached(scene.archive, MESSAGE)
        await asyncio.sleep(1.2)
        await scene.queue.close()
        assert scene.now() == 1.2
        assert scene.moments == [1.0, 1.2, 1.2]
        assert scene.counts == (0, 0, Counter(garbled=1))

    play(Behaviour(NOTICE, lie="status-500"), act)


def test_one_that_waited_as_long_as_its_key_lives_is_sent_and_one_that_waited_longer_is_not() -> None:
    async def act(scene: Scene) -> None:
        now = scene.loop.time()
        other = replace(MESSAGE, url="http://a.example/y")
        scene.queue.acknowledge_cached(scene.archive, MESSAGE, 2, now - EXPIRY_SECONDS + 1.0)
        scene.queue.acknowledge_cached(scene.archive, other, 3, now - EXPIRY_SECONDS + 0.9)
        await asyncio.sleep(1.5)
        assert scene.counts == (2, 0, Counter({"too old": 3}))
        assert scene.moments == [1.0]

    play(Behaviour(NOTICE), act)


def test_half_of_the_queue_is_for_those_who_cannot_wait() -> None:
    async def act(scene: Scene) -> None:
        client, other = scene.queue.client, replace(scene.archive, address="b.example")
        queue = AcknowledgmentQueue(client, most=8, most_per_archive=6)
        found = []
        for number in range(9):
            found.append((queue.has_capacity(scene.archive), queue.has_capacity(other)))
            target = scene.archive if number < 3 else other
            queue.acknowledge_cached(target, replace(MESSAGE, url=f"http://a.example/{number}"))
        assert found == [(True, True)] * 3 + [(False, True)] + [(False, False)] * 5
        assert (queue.queued, queue.dropped) == (8, Counter({"too many waiting": 1}))
        assert AcknowledgmentQueue(client, most=1, most_per_archive=1).has_capacity(other)
        await queue.close(grace=0.0)

    play(Behaviour(NOTICE), act)


def test_one_acknowledgment_takes_all_readers_that_it_may_and_the_next_one_the_rest() -> None:
    async def act(scene: Scene) -> None:
        for readers in (1, MOST_READERS - 1, 1, MOST_READERS - 1, 2):
            scene.queue.acknowledge_cached(scene.archive, MESSAGE, readers)
        await asyncio.sleep(2.0)
        counts = [int(pairs["acknowledgment.count"]) for pairs in scene.one.acknowledgments]
        assert sorted(counts) == [2, MOST_READERS, MOST_READERS]

    play(Behaviour(NOTICE, 0.1), act)


def test_what_was_delivered_makes_place_for_as_many_and_no_more_senders_than_before() -> None:
    async def act(scene: Scene) -> None:
        queue = scene.queue = AcknowledgmentQueue(scene.queue.client, most=6)
        for _ in range(3):
            for _ in range(2):
                queue.acknowledge(scene.archive, MESSAGE)
            await asyncio.sleep(1.0)
        queue.acknowledge(scene.archive, MESSAGE)
        await queue.close()  # it waits for the last one, although no other was under way for a while
        assert scene.counts == (7, 0, Counter())
        scene.queue = queue = AcknowledgmentQueue(queue.client, most=6)
        queue.acknowledge(scene.archive, MESSAGE)
        await asyncio.sleep(1.0)
        scene.one.on_acknowledgment, number = Behaviour(lie="silence"), len(scene.moments)
        for _ in range(8):
            queue.acknowledge(scene.archive, MESSAGE)
        await asyncio.sleep(0.1)
        assert (queue.queued, queue.dropped) == (6, Counter({"too many waiting": 2}))
        assert len(scene.moments) == number + 4
        await queue.close(grace=0.1)

    play(Behaviour(NOTICE, 0.1), act)


def test_a_count_of_readers_is_acknowledged_with_the_addresses_of_the_first() -> None:
    expected = replace(MESSAGE, client_addresses=("203.0.113.7",))
    for stored in (MESSAGE, MESSAGE.query()):
        count = RedirectCount(1, None, stored, ("203.0.113.7",), 0.0)
        assert count.message() == expected


def test_a_batch_that_was_full_before_its_second_had_passed_shortens_that_of_the_next_one_by_nothing() -> (
    None
):
    async def act(scene: Scene) -> None:
        for after, readers in ((0.0, 1), (0.5, MOST_BATCHED - 1), (0.1, 1)):
            await asyncio.sleep(after)
            scene.queue.acknowledge_cached(scene.archive, MESSAGE, readers)
        await asyncio.sleep(2.0)
        assert scene.moments == [0.5, 1.6]

    play(Behaviour(NOTICE, 0.3), act)
