"""Acknowledging the Archive whose URL was chosen: over real sockets, with faulty Archives, under a false clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from ibi.archive.store.data_directory import DataDirectory
from ibi.http.client import AddressPolicy, Client
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import Acknowledgment
from ibi.protocol.vocabulary import ContentType, ItemState
from ibi.resolver.acknowledgments.queue import BATCH_SECONDS, MOST_BATCHED, MOST_READERS, AcknowledgmentQueue
from ibi.resolver.model.archive import Archive
from support.archive.archive_fixture import (
    NOW,
    REP,
    Clock,
    NewArchive,
    Served,
    fill,
    listener,
    serving,
    settings_for,
)
from support.archive.messages import counted, request, url_list
from support.clock import run_with_false_clock
from support.resolver.scripted_peers import BODY, among, archive
from support.scripted_archive import NOTICE, Behaviour, ScriptedArchive
from support.stream_server import StreamServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ACKNOWLEDGMENT = Acknowledgment(
    ("192.0.2.1",),
    ContentType.DATA,
    ItemState.ORIGINAL,
    "http://a.example/x",
    "http://urlib.net/example.org/a/2020/01.02.00.00?ibiurl.requireditemstatus=Original",
    "1234567890-1234567890",
    IBIForms.parse("rep example.org/a/2020/01.02.00.00"),
)


def test_an_acknowledgment_goes_to_the_registered_base_url() -> None:
    async def main() -> None:
        one = archive("a", Behaviour(BODY))
        async with among(one) as (client, archives):
            queue = AcknowledgmentQueue(client)
            queue.acknowledge(archives[0], ACKNOWLEDGMENT)
            await queue.close()
            assert (queue.delivered, queue.dropped) == (1, Counter())
        assert one.received[0].target.startswith("/example/a/2020/01.01.00.00?")
        assert one.acknowledgments[0]["url.persistent"] == ACKNOWLEDGMENT.url_persistent
        assert one.acknowledgments[0]["servicesubject"] == "acknowledgment"

    run_with_false_clock(main())


@pytest.mark.parametrize(
    ("lie", "problem"), [("status-500", "garbled"), ("reset", "silent"), ("not-http", "garbled")]
)
def test_why_an_acknowledgment_was_not_delivered_is_counted(lie: str, problem: str) -> None:
    async def main() -> None:
        one = archive("a", Behaviour(BODY))
        one.on_acknowledgment = Behaviour(NOTICE, lie=lie)
        async with among(one) as (client, archives):
            queue = AcknowledgmentQueue(client)
            queue.acknowledge(archives[0], ACKNOWLEDGMENT)
            await queue.close()
            assert (queue.delivered, queue.dropped) == (0, Counter([problem]))

    run_with_false_clock(main())


def test_what_an_archive_of_ours_refuses_is_not_delivered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A key of another Archive, and one that is too old: the Archive counts nothing, and says why in its log."""
    made = listener()
    with archive_of_ours(tmp_path, f"127.0.0.1:{made.getsockname()[1]}") as one:
        with serving(one, made) as served:
            key = url_list(served.get(request(REP))).url_key
            assert key is not None
            one.clock.now += 3600 * 48

            async def main() -> tuple[int, Counter[str]]:
                address = f"127.0.0.1:{served.port}"
                client = Client(AddressPolicy(allow_private=True))
                queue = AcknowledgmentQueue(client)
                target = Archive(one.settings.service.main, address)
                for each in ("1234567890-1234567890", key):
                    queue.acknowledge(target, replace(ACKNOWLEDGMENT, url_key=each))
                await queue.close()
                await client.close()
                return queue.delivered, queue.dropped

            assert asyncio.run(main()) == (0, Counter(refused=2))
        assert counted(served) == 0  # all that it had to write is written
    assert "too-old 1, unknown-key 1" in caplog.text


@pytest.mark.proves("RES-11", "RES-12")
def test_acknowledgments_are_queued_at_once_and_delivered_in_the_background() -> None:
    async def main() -> None:
        one = archive("a", Behaviour(BODY))
        async with among(one) as (client, archives):
            queue = AcknowledgmentQueue(client)
            for _ in range(50):
                queue.acknowledge(archives[0], ACKNOWLEDGMENT)
            assert (queue.delivered, queue.queued) == (0, 50)
            await asyncio.sleep(1)
            assert (queue.delivered, queue.queued, queue.dropped) == (50, 0, Counter())
            await queue.close()
        assert len(one.acknowledgments) == 50

    run_with_false_clock(main())


def test_an_archive_that_hangs_does_not_delay_the_acknowledgments_of_another() -> None:
    async def main() -> None:
        hung, well = archive("hung", Behaviour(BODY), 1), archive("a", Behaviour(BODY), 2)
        hung.on_acknowledgment = Behaviour(lie="silence")
        async with among(hung, well) as (client, archives):
            queue = AcknowledgmentQueue(client)
            for _ in range(20):
                queue.acknowledge(archives[0], ACKNOWLEDGMENT)
                queue.acknowledge(archives[1], ACKNOWLEDGMENT)
            await asyncio.sleep(0.2)
            assert (queue.delivered, queue.queued) == (20, 20)
            await asyncio.sleep(20)
            assert (queue.delivered, queue.queued, queue.dropped) == (20, 0, Counter(silent=20))
            await queue.close()

    run_with_false_clock(main())


def test_delivered_queued_and_dropped_are_all_that_was_ever_given() -> None:
    async def main() -> None:
        hung, liar, well = (
            archive(name, Behaviour(BODY), n) for n, name in enumerate(("hung", "liar", "a"), 1)
        )
        hung.on_acknowledgment, liar.on_acknowledgment = (
            Behaviour(lie="silence"),
            Behaviour(NOTICE, lie="status-500"),
        )
        async with among(hung, liar, well) as (client, archives):
            queue = AcknowledgmentQueue(client, most=40, most_per_archive=10)
            given = 0
            for _ in range(30):
                for each in archives:
                    queue.acknowledge(each, ACKNOWLEDGMENT)
                    given += 1
                    assert queue.delivered + queue.queued + queue.dropped.total() == given
                await asyncio.sleep(0.05)
                assert queue.delivered + queue.queued + queue.dropped.total() == given
            await queue.close(grace=1.0)
            queue.acknowledge(archives[0], ACKNOWLEDGMENT)
            given += 1
            assert queue.queued == 0
            assert queue.delivered == 30
            assert queue.dropped["garbled"] == 30
            assert queue.dropped["too many waiting"] > 0
            assert queue.dropped["closing"] > 1
            assert queue.delivered + queue.dropped.total() == given

    run_with_false_clock(main())


def test_closing_delivers_what_can_be_delivered_in_time() -> None:
    async def main() -> None:
        one = archive("a", Behaviour(BODY))
        one.on_acknowledgment = Behaviour(NOTICE, after=0.1)
        async with among(one) as (client, archives):
            queue = AcknowledgmentQueue(client, senders_per_archive=1)
            for _ in range(8):
                queue.acknowledge(archives[0], ACKNOWLEDGMENT)
            await queue.close(grace=3.0)
            assert (queue.delivered, queue.dropped) == (8, Counter())

    run_with_false_clock(main())


# Acknowledgments of answers that were reused (note 1)


def counts(one: ScriptedArchive) -> list[int]:
    """For how many readers each acknowledgment stood that arrived, in order."""
    return [int(pairs.get("acknowledgment.count", "1")) for pairs in one.acknowledgments]


def ids(one: ScriptedArchive) -> list[str]:
    return [pairs.get("acknowledgment.id", "") for pairs in one.acknowledgments]


@pytest.mark.proves("RES-11", "RES-12", "SVC-21")
def test_acknowledgments_of_a_reused_answer_are_added_up_for_a_second_and_sent_as_one() -> None:
    async def main() -> None:
        one = archive("a", Behaviour(BODY))
        async with among(one) as (client, archives):
            queue = AcknowledgmentQueue(client)
            queue.acknowledge(archives[0], ACKNOWLEDGMENT)
            for _ in range(200):
                queue.acknowledge_cached(archives[0], ACKNOWLEDGMENT)
            assert (queue.delivered, queue.queued) == (0, 201)
            await asyncio.sleep(0.9)
            assert (queue.delivered, queue.queued) == (1, 200)
            await asyncio.sleep(0.2)
            assert (queue.delivered, queue.queued, queue.dropped) == (201, 0, Counter())
            queue.acknowledge_cached(archives[0], ACKNOWLEDGMENT)
            await queue.close()
        assert counts(one) == [1, 200, 1]
        first, second, third = ids(one)
        assert first == ""
        assert second.isdecimal()
        assert third.isdecimal()
        assert second != third
        assert {pairs["url.persistent"] for pairs in one.acknowledgments} == {ACKNOWLEDGMENT.url_persistent}

    run_with_false_clock(main())


def test_what_differs_in_its_key_or_url_is_not_added_up() -> None:
    async def main() -> None:
        one, other = archive("a", Behaviour(BODY), 1), archive("b", Behaviour(BODY), 2)
        another_key = replace(ACKNOWLEDGMENT, url_key="1234567890-1234567891")
        another_url = replace(ACKNOWLEDGMENT, url="http://a.example/y")
        async with among(one, other) as (client, archives):
            queue = AcknowledgmentQueue(client)
            for message, times in ((ACKNOWLEDGMENT, 3), (another_key, 4), (another_url, 5)):
                for _ in range(times):
                    queue.acknowledge_cached(archives[0], message)
            queue.acknowledge_cached(archives[1], ACKNOWLEDGMENT)
            await queue.close()
            assert (queue.delivered, queue.dropped) == (13, Counter())
        assert sorted(counts(one)) == [3, 4, 5]
        assert counts(other) == [1]
        assert len({*ids(one), *ids(other)}) == 4

    run_with_false_clock(main())


def test_an_archive_hears_of_reused_answers_once_a_second_or_when_a_thousand_readers_wait() -> None:
    async def main() -> None:
        one = archive("a", Behaviour(BODY))
        async with among(one) as (client, archives):
            queue = AcknowledgmentQueue(client)
            for _ in range(30):
                queue.acknowledge_cached(archives[0], ACKNOWLEDGMENT)
                await asyncio.sleep(0.1)
            assert len(one.acknowledgments) in {2, 3}
            for _ in range(2_500):
                queue.acknowledge_cached(archives[0], ACKNOWLEDGMENT)
            await asyncio.sleep(0.05)
            assert queue.queued < 1_000
            await queue.close()
            assert queue.delivered == 2_530
        assert sum(counts(one)) == 2_530
        assert len(counts(one)) <= 5

    run_with_false_clock(main())


@pytest.mark.parametrize("lie", ["status-500", "reset", "cut-off", "silence"])
def test_a_batch_whose_reply_was_lost_is_sent_again_with_the_same_id(lie: str) -> None:
    async def main() -> None:
        one = archive("a", Behaviour(BODY))
        one.on_acknowledgment = Behaviour(NOTICE, lie=lie)
        async with among(one) as (client, archives):
            queue = AcknowledgmentQueue(client)
            for _ in range(7):
                queue.acknowledge_cached(archives[0], ACKNOWLEDGMENT)
            await asyncio.sleep(1.2)
            assert len(one.acknowledgments) == 1
            one.on_acknowledgment = Behaviour(NOTICE)
            await asyncio.sleep(6)
            assert (queue.delivered, queue.queued, queue.dropped) == (7, 0, Counter())
            await queue.close()
        assert counts(one) == [7, 7]
        assert len(set(ids(one))) == 1

    run_with_false_clock(main())


def test_a_batch_that_never_gets_through_is_sent_three_times_and_dropped_whole() -> None:
    async def main() -> None:
        hung, liar = archive("hung", Behaviour(BODY), 1), archive("liar", Behaviour(BODY), 2)
        hung.on_acknowledgment, liar.on_acknowledgment = (
            Behaviour(lie="silence"),
            Behaviour(NOTICE, lie="status-500"),
        )
        async with among(hung, liar) as (client, archives):
            queue = AcknowledgmentQueue(client)
            for each in archives:
                for _ in range(9):
                    queue.acknowledge_cached(each, ACKNOWLEDGMENT)
            queue.acknowledge(archives[1], ACKNOWLEDGMENT)
            await asyncio.sleep(30)
            assert (queue.delivered, queue.queued) == (0, 0)
            assert queue.dropped == Counter(silent=9, garbled=10)
            await queue.close()
        assert counts(hung) == [9, 9, 9]
        assert counts(liar) == [1, 9, 9, 9]

    run_with_false_clock(main())


def test_a_slow_archive_gets_fewer_and_larger_batches_and_nothing_is_dropped() -> None:
    async def main() -> None:
        slow = archive("slow", Behaviour(BODY))
        slow.on_acknowledgment = Behaviour(NOTICE, after=2.0)
        messages = [replace(ACKNOWLEDGMENT, url_key=f"1234567890-12345678{n}") for n in range(10, 60)]
        async with among(slow) as (client, archives):
            queue = AcknowledgmentQueue(client, most_per_archive=60)
            for _ in range(100):
                for message in messages:
                    queue.acknowledge_cached(archives[0], message)
                await asyncio.sleep(0.5)
            await asyncio.sleep(100)
            assert (queue.delivered, queue.queued, queue.dropped) == (5_000, 0, Counter())
            await queue.close()
        assert sum(counts(slow)) == 5_000
        assert len(counts(slow)) < 200

    run_with_false_clock(main())


def test_one_acknowledgment_never_stands_for_more_readers_than_it_may() -> None:
    async def main() -> None:
        one = archive("a", Behaviour(BODY))
        one.on_acknowledgment = Behaviour(NOTICE, after=2.5)
        async with among(one) as (client, archives):
            queue = AcknowledgmentQueue(client, senders_per_archive=1)
            for _ in range(MOST_READERS + 2_500):
                queue.acknowledge_cached(archives[0], ACKNOWLEDGMENT)
            await asyncio.sleep(10)
            assert (queue.delivered, queue.queued, queue.dropped) == (MOST_READERS + 2_500, 0, Counter())
            await queue.close()
        assert max(counts(one)) == MOST_READERS

    run_with_false_clock(main())


def test_many_readers_at_once_are_split_into_the_largest_acknowledgments_that_may_be() -> None:
    async def main() -> None:
        one = archive("a", Behaviour(BODY))
        async with among(one) as (client, archives):
            queue = AcknowledgmentQueue(client, senders_per_archive=1)
            queue.acknowledge_cached(archives[0], ACKNOWLEDGMENT, 2 * MOST_READERS)
            await asyncio.sleep(10)
            await queue.close()
        assert counts(one) == [MOST_READERS, MOST_READERS]

    run_with_false_clock(main())


def test_a_batch_is_sent_as_soon_as_it_is_full() -> None:
    async def main() -> None:
        one = archive("a", Behaviour(BODY))
        async with among(one) as (client, archives):
            queue = AcknowledgmentQueue(client)
            queue.acknowledge_cached(archives[0], ACKNOWLEDGMENT, MOST_BATCHED - 1)
            await asyncio.sleep(BATCH_SECONDS / 4)
            assert counts(one) == []
            queue.acknowledge_cached(archives[0], ACKNOWLEDGMENT)
            await asyncio.sleep(BATCH_SECONDS / 4)
            assert counts(one) == [MOST_BATCHED]
            await queue.close()

    run_with_false_clock(main())


def test_acknowledgments_that_waited_longer_than_their_key_lives_are_dropped_and_counted() -> None:
    async def main() -> None:
        hung = archive("hung", Behaviour(BODY))
        hung.on_acknowledgment = Behaviour(lie="silence")
        async with among(hung) as (client, archives):
            queue = AcknowledgmentQueue(client, senders_per_archive=1)
            for _ in range(250):
                queue.acknowledge(archives[0], ACKNOWLEDGMENT)
            queue.acknowledge_cached(archives[0], ACKNOWLEDGMENT)
            await asyncio.sleep(700)
            assert queue.queued == 0
            assert queue.dropped["too old"] > 40
            assert queue.dropped.total() == 251
            await queue.close()

    run_with_false_clock(main())


def test_with_batches_too_all_that_was_ever_given_is_accounted_for() -> None:
    async def main() -> None:
        hung, liar, well = (
            archive(name, Behaviour(BODY), n) for n, name in enumerate(("hung", "liar", "a"), 1)
        )
        hung.on_acknowledgment, liar.on_acknowledgment = (
            Behaviour(lie="silence"),
            Behaviour(NOTICE, lie="status-500"),
        )
        messages = [replace(ACKNOWLEDGMENT, url_key=f"1234567890-12345678{n}") for n in range(10, 40)]
        async with among(hung, liar, well) as (client, archives):
            queue = AcknowledgmentQueue(client, most=40, most_per_archive=10)
            given = 0
            for round_ in range(60):
                for each in archives:
                    queue.acknowledge_cached(each, messages[round_ % len(messages)])
                    queue.acknowledge_cached(each, messages[0])
                    queue.acknowledge(each, ACKNOWLEDGMENT)
                    queue.skip("only prefetched")
                    given += 4
                    assert queue.delivered + queue.queued + queue.dropped.total() == given
                await asyncio.sleep(0.2)
                assert queue.delivered + queue.queued + queue.dropped.total() == given
            await queue.close(grace=1.0)
            queue.acknowledge_cached(archives[0], ACKNOWLEDGMENT)
            given += 1
            assert queue.queued == 0
            assert queue.delivered == sum(counts(well))
            assert queue.dropped["too many waiting"] > 0
            assert queue.dropped["closing"] > 1
            assert queue.delivered + queue.dropped.total() == given

    run_with_false_clock(main())


def test_closing_sends_what_was_gathered_and_tries_again_without_a_pause() -> None:
    async def main() -> None:
        well, liar = archive("a", Behaviour(BODY), 1), archive("liar", Behaviour(BODY), 2)
        liar.on_acknowledgment = Behaviour(NOTICE, lie="status-500")
        async with among(well, liar) as (client, archives):
            queue = AcknowledgmentQueue(client)
            for each in archives:
                for _ in range(5):
                    queue.acknowledge_cached(each, ACKNOWLEDGMENT)
            began = asyncio.get_running_loop().time()
            await queue.close(grace=3.0)
            assert asyncio.get_running_loop().time() - began < 0.5
            assert (queue.delivered, queue.queued, queue.dropped) == (5, 0, Counter(garbled=5))
        assert counts(liar) == [5, 5, 5]

    run_with_false_clock(main())


@contextmanager
def archive_of_ours(data: Path, address: str) -> Iterator[NewArchive]:
    """An Archive that believes its resolver."""
    clock = Clock()
    directory = DataDirectory(data, clock.machine)
    directory.reserve()
    settings = settings_for(address, trusted_resolvers=("127.0.0.1",), reuse_seconds=60)
    directory.create(settings)
    clock.now = NOW
    one = NewArchive(data, settings, directory.open_catalogue(), directory.file_store(), clock)
    fill(one)
    yield one
    one.catalogue.close()


@dataclass
class Losing:
    """Stands before an Archive: passes on every request, and loses the first reply."""

    port: int
    lost: int = 0
    lines: set[asyncio.Task[None] | None] = field(default_factory=set)

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines.add(asyncio.current_task())
        inward, outward = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            while True:
                outward.write(await reader.readuntil(b"\r\n\r\n"))
                head = await inward.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                body = await inward.readexactly(length)
                if not self.lost:
                    self.lost += 1
                    break
                writer.write(head + body)
        except asyncio.IncompleteReadError:
            pass  # the client has closed the connection
        finally:
            for side in (outward, writer):
                side.close()
                with suppress(ConnectionError):
                    await side.wait_closed()


async def clicks(served: Served, message: Acknowledgment) -> int:
    """The acknowledgments of so many readers arrive, half of them by a relay that loses one reply."""
    service = parse_ibi(str(served.archive.settings.service.main))
    losing = Losing(served.port)
    relay = StreamServer(losing.pass_on)
    await relay.start()
    direct = Archive(service, f"127.0.0.1:{served.port}")
    by_relay = Archive(service, f"127.0.0.1:{relay.port}")
    client = Client(AddressPolicy(allow_private=True))
    queue = AcknowledgmentQueue(client)
    queue.acknowledge(direct, message)
    for _ in range(700):
        queue.acknowledge_cached(by_relay, message)
        queue.acknowledge_cached(direct, message)
    for _ in range(200):
        if not queue.queued:
            break
        await asyncio.sleep(0.05)
    await queue.close()
    await client.close()
    await relay.stop()
    await asyncio.gather(*(line for line in losing.lines if line is not None))
    assert losing.lost == 1
    assert queue.dropped == Counter()
    return queue.delivered


@pytest.mark.long
@pytest.mark.proves("RES-11", "SVC-20", "SVC-21")
def test_an_archive_of_ours_counts_every_click_of_a_reused_answer_exactly_once(tmp_path: Path) -> None:
    """One fresh answer, the others reused, and one batch that came but whose reply was lost: n clicks are n."""
    made = listener()
    with archive_of_ours(tmp_path, f"127.0.0.1:{made.getsockname()[1]}") as one:
        with serving(one, made) as served:
            key = url_list(served.get(request(REP))).url_key
            assert key is not None
            message = replace(ACKNOWLEDGMENT, url="http://far.example/", url_key=key)
            assert asyncio.run(clicks(served, message)) == 1_401
        assert counted(served) == 1_401  # it has stopped, so nothing waits to be counted
