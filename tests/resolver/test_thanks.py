"""Thanking the one whose URL was chosen: over real sockets, with Archives that do their worst, under a false clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from archive.asking import counted, request, url_list
from archive.world import NOW, REP, Clock, NewArchive, Served, fill, listener, serving, settings_for
from ibi.archive.directory import ArchiveDirectory
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import Acknowledgment
from ibi.protocol.vocabulary import ContentType, State
from ibi.resolver.thanks import MOST_READERS, Thanks
from ibi.transport import AddressPolicy, Client
from resolver.scripted import BODY, Known, among, archive
from support.archives import NOTICE, Conduct, ScriptedArchive
from support.clock import run_with_false_clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

THANKS = Acknowledgment(
    ("192.0.2.1",),
    ContentType.DATA,
    State.ORIGINAL,
    "http://a.example/x",
    "http://urlib.net/example.org/a/2020/01.02.00.00?ibiurl.requireditemstatus=Original",
    "1234567890-1234567890",
    IBIForms.parse("rep example.org/a/2020/01.02.00.00"),
)


def test_an_acknowledgment_goes_to_the_registered_base_url() -> None:
    async def main() -> None:
        one = archive("a", Conduct(BODY))
        async with among(one) as (client, asked):
            thanks = Thanks(client)
            thanks.acknowledge(asked[0], THANKS)
            await thanks.close()
            assert (thanks.delivered, thanks.dropped) == (1, Counter())
        assert one.told[0].target.startswith("/example/a/2020/01.01.00.00?")
        assert one.acknowledgments[0]["url.persistent"] == THANKS.url_persistent
        assert one.acknowledgments[0]["servicesubject"] == "acknowledgment"

    run_with_false_clock(main())


@pytest.mark.parametrize(
    ("lie", "problem"), [("status-500", "garbled"), ("reset", "silent"), ("not-http", "garbled")]
)
def test_why_an_acknowledgment_was_not_delivered_is_counted(lie: str, problem: str) -> None:
    async def main() -> None:
        one = archive("a", Conduct(BODY))
        one.thanks = Conduct(NOTICE, lie=lie)
        async with among(one) as (client, asked):
            thanks = Thanks(client)
            thanks.acknowledge(asked[0], THANKS)
            await thanks.close()
            assert (thanks.delivered, thanks.dropped) == (0, Counter([problem]))

    run_with_false_clock(main())


@pytest.mark.proves("RES-11", "RES-12")
def test_thanks_are_taken_at_once_and_delivered_behind_the_readers_back() -> None:
    async def main() -> None:
        one = archive("a", Conduct(BODY))
        async with among(one) as (client, asked):
            thanks = Thanks(client)
            for _ in range(50):
                thanks.acknowledge(asked[0], THANKS)
            assert (thanks.delivered, thanks.queued) == (0, 50)
            await asyncio.sleep(1)
            assert (thanks.delivered, thanks.queued, thanks.dropped) == (50, 0, Counter())
            await thanks.close()
        assert len(one.acknowledgments) == 50

    run_with_false_clock(main())


def test_an_archive_that_hangs_does_not_hold_up_the_thanks_of_another() -> None:
    async def main() -> None:
        hung, well = archive("hung", Conduct(BODY), 1), archive("a", Conduct(BODY), 2)
        hung.thanks = Conduct(lie="silence")
        async with among(hung, well) as (client, asked):
            thanks = Thanks(client)
            for _ in range(20):
                thanks.acknowledge(asked[0], THANKS)
                thanks.acknowledge(asked[1], THANKS)
            await asyncio.sleep(0.2)
            assert (thanks.delivered, thanks.queued) == (20, 20)
            await asyncio.sleep(20)
            assert (thanks.delivered, thanks.queued, thanks.dropped) == (20, 0, Counter(silent=20))
            await thanks.close()

    run_with_false_clock(main())


def test_delivered_queued_and_dropped_are_all_that_was_ever_given() -> None:
    async def main() -> None:
        hung, liar, well = (
            archive(name, Conduct(BODY), n) for n, name in enumerate(("hung", "liar", "a"), 1)
        )
        hung.thanks, liar.thanks = Conduct(lie="silence"), Conduct(NOTICE, lie="status-500")
        async with among(hung, liar, well) as (client, asked):
            thanks = Thanks(client, most=40, most_per_archive=10)
            given = 0
            for _ in range(30):
                for each in asked:
                    thanks.acknowledge(each, THANKS)
                    given += 1
                    assert thanks.delivered + thanks.queued + thanks.dropped.total() == given
                await asyncio.sleep(0.05)
                assert thanks.delivered + thanks.queued + thanks.dropped.total() == given
            await thanks.close(grace=1.0)
            thanks.acknowledge(asked[0], THANKS)
            given += 1
            assert thanks.queued == 0
            assert thanks.delivered == 30
            assert thanks.dropped["garbled"] == 30
            assert thanks.dropped["too many waiting"] > 0
            assert thanks.dropped["closing"] > 1
            assert thanks.delivered + thanks.dropped.total() == given

    run_with_false_clock(main())


def test_closing_delivers_what_can_be_delivered_in_time() -> None:
    async def main() -> None:
        one = archive("a", Conduct(BODY))
        one.thanks = Conduct(NOTICE, after=0.1)
        async with among(one) as (client, asked):
            thanks = Thanks(client, at_once=1)
            for _ in range(8):
                thanks.acknowledge(asked[0], THANKS)
            await thanks.close(grace=3.0)
            assert (thanks.delivered, thanks.dropped) == (8, Counter())

    run_with_false_clock(main())


# Thanks for answers that were reused (note 1)


def counts(one: ScriptedArchive) -> list[int]:
    """For how many readers each acknowledgment stood that arrived, in order."""
    return [int(pairs.get("acknowledgment.count", "1")) for pairs in one.acknowledgments]


def ids(one: ScriptedArchive) -> list[str]:
    return [pairs.get("acknowledgment.id", "") for pairs in one.acknowledgments]


@pytest.mark.proves("RES-11", "RES-12", "SVC-21")
def test_thanks_for_a_reused_answer_are_added_up_for_a_second_and_sent_as_one() -> None:
    async def main() -> None:
        one = archive("a", Conduct(BODY))
        async with among(one) as (client, asked):
            thanks = Thanks(client)
            thanks.acknowledge(asked[0], THANKS)
            for _ in range(200):
                thanks.again(asked[0], THANKS)
            assert (thanks.delivered, thanks.queued) == (0, 201)
            await asyncio.sleep(0.9)
            assert (thanks.delivered, thanks.queued) == (1, 200)
            await asyncio.sleep(0.2)
            assert (thanks.delivered, thanks.queued, thanks.dropped) == (201, 0, Counter())
            thanks.again(asked[0], THANKS)
            await thanks.close()
        assert counts(one) == [1, 200, 1]
        first, second, third = ids(one)
        assert first == ""
        assert second.isdecimal()
        assert third.isdecimal()
        assert second != third
        assert {pairs["url.persistent"] for pairs in one.acknowledgments} == {THANKS.url_persistent}

    run_with_false_clock(main())


def test_what_differs_in_its_key_or_url_is_not_added_up() -> None:
    async def main() -> None:
        one, other = archive("a", Conduct(BODY), 1), archive("b", Conduct(BODY), 2)
        another_key = replace(THANKS, url_key="1234567890-1234567891")
        another_url = replace(THANKS, url="http://a.example/y")
        async with among(one, other) as (client, asked):
            thanks = Thanks(client)
            for message, times in ((THANKS, 3), (another_key, 4), (another_url, 5)):
                for _ in range(times):
                    thanks.again(asked[0], message)
            thanks.again(asked[1], THANKS)
            await thanks.close()
            assert (thanks.delivered, thanks.dropped) == (13, Counter())
        assert sorted(counts(one)) == [3, 4, 5]
        assert counts(other) == [1]
        assert len({*ids(one), *ids(other)}) == 4

    run_with_false_clock(main())


def test_an_archive_hears_of_reused_answers_once_a_second_or_when_a_thousand_readers_wait() -> None:
    async def main() -> None:
        one = archive("a", Conduct(BODY))
        async with among(one) as (client, asked):
            thanks = Thanks(client)
            for _ in range(30):
                thanks.again(asked[0], THANKS)
                await asyncio.sleep(0.1)
            assert len(one.acknowledgments) in {2, 3}
            for _ in range(2_500):
                thanks.again(asked[0], THANKS)
            await asyncio.sleep(0.05)
            assert thanks.queued < 1_000
            await thanks.close()
            assert thanks.delivered == 2_530
        assert sum(counts(one)) == 2_530
        assert len(counts(one)) <= 5

    run_with_false_clock(main())


@pytest.mark.parametrize("lie", ["status-500", "reset", "cut-off", "silence"])
def test_a_batch_whose_reply_was_lost_is_sent_again_with_the_same_id(lie: str) -> None:
    async def main() -> None:
        one = archive("a", Conduct(BODY))
        one.thanks = Conduct(NOTICE, lie=lie)
        async with among(one) as (client, asked):
            thanks = Thanks(client)
            for _ in range(7):
                thanks.again(asked[0], THANKS)
            await asyncio.sleep(1.2)
            assert len(one.acknowledgments) == 1
            one.thanks = Conduct(NOTICE)
            await asyncio.sleep(6)
            assert (thanks.delivered, thanks.queued, thanks.dropped) == (7, 0, Counter())
            await thanks.close()
        assert counts(one) == [7, 7]
        assert len(set(ids(one))) == 1

    run_with_false_clock(main())


def test_a_batch_that_never_gets_through_is_sent_three_times_and_dropped_whole() -> None:
    async def main() -> None:
        hung, liar = archive("hung", Conduct(BODY), 1), archive("liar", Conduct(BODY), 2)
        hung.thanks, liar.thanks = Conduct(lie="silence"), Conduct(NOTICE, lie="status-500")
        async with among(hung, liar) as (client, asked):
            thanks = Thanks(client)
            for each in asked:
                for _ in range(9):
                    thanks.again(each, THANKS)
            thanks.acknowledge(asked[1], THANKS)
            await asyncio.sleep(30)
            assert (thanks.delivered, thanks.queued) == (0, 0)
            assert thanks.dropped == Counter(silent=9, garbled=10)
            await thanks.close()
        assert counts(hung) == [9, 9, 9]
        assert counts(liar) == [1, 9, 9, 9]

    run_with_false_clock(main())


def test_a_slow_archive_gets_fewer_and_larger_batches_and_nothing_is_dropped() -> None:
    async def main() -> None:
        slow = archive("slow", Conduct(BODY))
        slow.thanks = Conduct(NOTICE, after=2.0)
        messages = [replace(THANKS, url_key=f"1234567890-12345678{n}") for n in range(10, 60)]
        async with among(slow) as (client, asked):
            thanks = Thanks(client, most_per_archive=60)
            for _ in range(100):
                for message in messages:
                    thanks.again(asked[0], message)
                await asyncio.sleep(0.5)
            await asyncio.sleep(100)
            assert (thanks.delivered, thanks.queued, thanks.dropped) == (5_000, 0, Counter())
            await thanks.close()
        assert sum(counts(slow)) == 5_000
        assert len(counts(slow)) < 200

    run_with_false_clock(main())


def test_one_acknowledgment_never_stands_for_more_readers_than_it_may() -> None:
    async def main() -> None:
        one = archive("a", Conduct(BODY))
        one.thanks = Conduct(NOTICE, after=2.5)
        async with among(one) as (client, asked):
            thanks = Thanks(client, at_once=1)
            for _ in range(MOST_READERS + 2_500):
                thanks.again(asked[0], THANKS)
            await asyncio.sleep(10)
            assert (thanks.delivered, thanks.queued, thanks.dropped) == (MOST_READERS + 2_500, 0, Counter())
            await thanks.close()
        assert max(counts(one)) == MOST_READERS

    run_with_false_clock(main())


def test_thanks_that_waited_longer_than_their_key_lives_are_dropped_and_counted() -> None:
    async def main() -> None:
        hung = archive("hung", Conduct(BODY))
        hung.thanks = Conduct(lie="silence")
        async with among(hung) as (client, asked):
            thanks = Thanks(client, at_once=1)
            for _ in range(250):
                thanks.acknowledge(asked[0], THANKS)
            thanks.again(asked[0], THANKS)
            await asyncio.sleep(700)
            assert thanks.queued == 0
            assert thanks.dropped["too old"] > 40
            assert thanks.dropped.total() == 251
            await thanks.close()

    run_with_false_clock(main())


def test_with_batches_too_all_that_was_ever_given_is_accounted_for() -> None:
    async def main() -> None:
        hung, liar, well = (
            archive(name, Conduct(BODY), n) for n, name in enumerate(("hung", "liar", "a"), 1)
        )
        hung.thanks, liar.thanks = Conduct(lie="silence"), Conduct(NOTICE, lie="status-500")
        messages = [replace(THANKS, url_key=f"1234567890-12345678{n}") for n in range(10, 40)]
        async with among(hung, liar, well) as (client, asked):
            thanks = Thanks(client, most=40, most_per_archive=10)
            given = 0
            for round_ in range(60):
                for each in asked:
                    thanks.again(each, messages[round_ % len(messages)])
                    thanks.again(each, messages[0])
                    thanks.acknowledge(each, THANKS)
                    thanks.skip("only prefetched")
                    given += 4
                    assert thanks.delivered + thanks.queued + thanks.dropped.total() == given
                await asyncio.sleep(0.2)
                assert thanks.delivered + thanks.queued + thanks.dropped.total() == given
            await thanks.close(grace=1.0)
            thanks.again(asked[0], THANKS)
            given += 1
            assert thanks.queued == 0
            assert thanks.delivered == sum(counts(well))
            assert thanks.dropped["too many waiting"] > 0
            assert thanks.dropped["closing"] > 1
            assert thanks.delivered + thanks.dropped.total() == given
            assert not thanks._lines

    run_with_false_clock(main())


def test_closing_sends_what_was_gathered_and_tries_again_without_a_pause() -> None:
    async def main() -> None:
        well, liar = archive("a", Conduct(BODY), 1), archive("liar", Conduct(BODY), 2)
        liar.thanks = Conduct(NOTICE, lie="status-500")
        async with among(well, liar) as (client, asked):
            thanks = Thanks(client)
            for each in asked:
                for _ in range(5):
                    thanks.again(each, THANKS)
            began = asyncio.get_running_loop().time()
            await thanks.close(grace=3.0)
            assert asyncio.get_running_loop().time() - began < 0.5
            assert (thanks.delivered, thanks.queued, thanks.dropped) == (5, 0, Counter(garbled=5))
        assert counts(liar) == [5, 5, 5]

    run_with_false_clock(main())


@contextmanager
def archive_of_ours(data: Path, address: str) -> Iterator[NewArchive]:
    """An Archive that believes its resolver."""
    clock = Clock()
    directory = ArchiveDirectory(data, clock.machine)
    directory.begin()
    settings = settings_for(address, trusted_resolvers=("127.0.0.1",), reuse_seconds=60)
    directory.make(settings)
    clock.now = NOW
    one = NewArchive(data, settings, directory.open_catalogue(), directory.storage(), clock)
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
            pass  # whoever asked has gone
        finally:
            for side in (outward, writer):
                side.close()
                with suppress(ConnectionError):
                    await side.wait_closed()


async def clicks(served: Served, message: Acknowledgment) -> int:
    """So many readers are thanked for, half of them by a relay that loses one reply."""
    service = parse_ibi(str(served.archive.settings.service.main))
    losing = Losing(served.port)
    relay = await asyncio.start_server(losing.pass_on, "127.0.0.1", 0)
    direct = Known(service, f"127.0.0.1:{served.port}")
    by_relay = Known(service, f"127.0.0.1:{relay.sockets[0].getsockname()[1]}")
    client = Client(AddressPolicy(allow_private=True))
    thanks = Thanks(client)
    thanks.acknowledge(direct, message)
    for _ in range(700):
        thanks.again(by_relay, message)
        thanks.again(direct, message)
    for _ in range(200):
        if not thanks.queued:
            break
        await asyncio.sleep(0.05)
    await thanks.close()
    await client.close()
    relay.close()
    await asyncio.gather(*(line for line in losing.lines if line is not None))
    assert losing.lost == 1
    assert thanks.dropped == Counter()
    return thanks.delivered


@pytest.mark.long
@pytest.mark.proves("RES-11", "SVC-20", "SVC-21")
def test_an_archive_of_ours_counts_every_click_of_a_reused_answer_exactly_once(tmp_path: Path) -> None:
    """One fresh answer, the others reused, and one batch that came but whose reply was lost: n clicks are n."""
    made = listener()
    with archive_of_ours(tmp_path, f"127.0.0.1:{made.getsockname()[1]}") as one:
        with serving(one, made) as served:
            key = url_list(served.get(request(REP))).url_key
            assert key is not None
            message = replace(THANKS, url="http://far.example/", url_key=key)
            assert asyncio.run(clicks(served, message)) == 1_401
        assert counted(served) == 1_401  # it has stopped, so nothing waits to be counted
