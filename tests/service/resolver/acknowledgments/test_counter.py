"""Acknowledgments of the fast path: counted with the redirects, queued as capacity allows, and none is lost."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ibi.errors import ParseError
from ibi.http.client import AddressPolicy, Client
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import Acknowledgment, read_request
from ibi.protocol.vocabulary import ContentType, ItemState
from ibi.resolver.acknowledgments import counter
from ibi.resolver.acknowledgments.counter import ReaderCounter, outcome_number
from ibi.resolver.acknowledgments.queue import AcknowledgmentQueue
from ibi.resolver.metrics.metrics import ResolverMetrics
from ibi.resolver.model.archive import Archive
from proofs.resolver.lending import Archive as Lender
from proofs.resolver.lending import archives, item, make_resolver, service_of
from support.resolver.fast_path_fixture import serve_fast_path
from support.resolver.running_resolver import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

SEED = 7


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibi.resolver.acknowledgments.queue.BATCH_SECONDS", 0.01)
    monkeypatch.setattr(counter, "MIN_COUNT_SECONDS", 0.0)


class CountingResolver:
    """The redirects that one process gives to items of an Archive, each with an acknowledgment key of its own."""

    def __init__(self, folder: Path, archive: Lender, client: Client, most: int) -> None:
        self.client = client
        self.metrics = ResolverMetrics(folder)
        self.queue = AcknowledgmentQueue(client, most_per_archive=most)
        self.counter = ReaderCounter(self.metrics)
        self.metrics.follow(self.counter, lambda: 1, lambda: 0)
        self.metrics.follow(self.queue, lambda: 1, lambda: 0)
        address = f"127.0.0.1:{archive.port}"
        self.included = Archive(parse_ibi(service_of(0)), address, "", "HTTP", "1", "", confirmed=True)
        self.archives: tuple[Archive, ...] = (self.included,)
        self.counter.use_queue(self.queue, lambda: self.archives)

    def redirect(self, number: int, readers: int, checksum: int = 1) -> None:
        name, message = item(0, number), message_of(number, checksum)
        count = self.counter.counts.get(name.encode())
        if count is None or count.checksum != checksum:
            count = self.counter.start(
                name.encode(), checksum, self.included, message.query(), ("192.0.2.1",)
            )
        assert count is not None
        count.readers += readers
        self.counter.unreported_readers += readers
        self.counter.outcomes[outcome_number(1, "right")] += readers

    def metric(self, name: str) -> int:
        lines = self.metrics.text().decode().splitlines()
        return round(
            sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"ibi_resolver_{name}"))
        )


def message_of(number: int, checksum: int = 1) -> Acknowledgment:
    name, key = item(0, number), str(1_000_000_000 + 1_000 * number + checksum)
    urls = f"http://a.example/{name}", f"http://b.example/{name}"
    return Acknowledgment(("192.0.2.9",), ContentType.DATA, ItemState.ORIGINAL, *urls, key)


@asynccontextmanager
async def counting_resolver(
    folder: Path, archive: Lender, most: int = 1_000
) -> AsyncIterator[CountingResolver]:
    client = Client(AddressPolicy(allow_private=True))
    made = CountingResolver(folder, archive, client, most)
    try:
        yield made
    finally:
        made.counter.close()
        await made.queue.close()
        await client.close()
        made.metrics.close()


def run(play: Callable[..., Coroutine[Any, Any, None]], number: int = 1) -> None:
    """Play it with so many Archives."""
    with archives(number) as around:
        asyncio.run(play(*around))


@pytest.mark.parametrize("quiet", [10**9, 0])
def test_however_many_wait_they_are_queued_as_capacity_allows_and_none_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: int
) -> None:
    monkeypatch.setattr(counter, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(counter, "FEW_PER_FLUSH", quiet)
    chance = random.Random(SEED)

    async def play(archive: Lender) -> None:
        async with counting_resolver(tmp_path, archive, most=20) as made:
            total = 0
            for _ in range(200):
                readers = chance.choice([1, 1, 5, 250])
                made.redirect(chance.randrange(60), readers, checksum=chance.choice([1, 1, 1, 2]))
                total += readers
                if chance.random() < 0.05:
                    await asyncio.sleep(0.01)
                    count = made.counter.unreported_readers
                    assert made.queue.delivered + made.queue.queued + made.counter.queued + count == total
            await until(lambda: made.queue.delivered == total)
            assert archive.acknowledged == total
            assert archive.letters < 200
            assert made.metric("thanks_dropped_total") == 0
            assert made.metric("thanks_queued") == 0
            assert (
                made.metric('resolutions_total{outcome="redirect"}')
                == made.metric("thanks_delivered_total")
                == total
            )

    run(play)


def test_closing_queues_all_acknowledgments_and_counts_those_beyond_the_capacity(tmp_path: Path) -> None:
    async def play(archive: Lender) -> None:
        async with counting_resolver(tmp_path, archive, most=30) as made:
            for number in range(50):
                made.redirect(number, 3)
        assert made.queue.delivered == archive.acknowledged == 90
        assert dict(made.queue.dropped) == {"too many waiting": 60}
        assert made.counter.queued == 0

    run(play)


def test_an_acknowledgment_that_waited_too_long_or_has_no_key_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "FLUSH_SECONDS", 0.01)

    async def play(archive: Lender) -> None:
        async with counting_resolver(tmp_path, archive) as made:
            monkeypatch.setattr(counter, "EXPIRY_SECONDS", -1.0)
            made.redirect(1, 4)
            await until(lambda: made.counter.dropped["too old"] == 4)
            monkeypatch.setattr(counter, "EXPIRY_SECONDS", 600.0)
            count = made.counter.start(b"a key", 1, None, "", ("192.0.2.1",))
            assert count is not None
            count.readers += 2
            made.counter.unreported_readers += 2
            await until(lambda: made.queue.dropped["no key to thank with"] == 2)
            assert made.counter.queued == 0

    run(play)


def test_acknowledgments_of_the_ordinary_path_beyond_the_capacity_wait_here_and_count_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "FLUSH_SECONDS", 0.01)

    async def play(archive: Lender) -> None:
        async with counting_resolver(tmp_path, archive, most=4) as made:
            for _ in range(3):
                for number in range(30):
                    assert made.counter.count_reader(made.included, message_of(number))
            await until(lambda: made.queue.delivered == 90)
            assert (archive.acknowledged, archive.letters) == (90, 30)

    run(play)


def test_acknowledgments_that_cannot_be_parsed_again_are_sent_and_stop_no_others(tmp_path: Path) -> None:
    async def play(archive: Lender) -> None:
        async with counting_resolver(tmp_path, archive) as made:
            long = replace(message_of(0), url="http://bad.example/?" + "&" * 8_000)
            with pytest.raises(ParseError):
                read_request(long.query())
            for message in (long, message_of(1), long, message_of(2)):
                assert made.counter.count_reader(made.included, message)
        assert (made.counter.queued, made.queue.queued) == (0, 0)
        assert made.queue.delivered + sum(made.queue.dropped.values()) == 4
        assert archive.acknowledged >= 2

    run(play)


def test_no_reader_is_added_to_a_count_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "MIN_COUNT_SECONDS", 0.0)

    async def play(archive: Lender) -> None:
        async with counting_resolver(tmp_path, archive) as made:
            made.redirect(1, 3)
            [count] = made.counter.counts.values()
            redirect: Any = SimpleNamespace(count=count)
            count.redirect = redirect  # as the fast path does, which adds to the count of the redirect
            await until(lambda: made.queue.delivered == 3)
            assert redirect.reader_count is None

    run(play)


def test_beyond_the_most_that_are_counted_no_new_entry_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "MOST_COUNTS", 1)

    async def play(archive: Lender) -> None:
        async with counting_resolver(tmp_path, archive) as made:
            made.redirect(1, 1)
            assert made.counter.start(b"another", 1, None, "", ()) is None
            assert not made.counter.count_reader(made.included, message_of(2))
            key = next(iter(made.counter.counts))
            assert made.counter.start(key, 2, None, "", ()) is None  # nor another answer of the same target

    run(play)


def test_requests_for_the_same_item_within_a_moment_are_acknowledged_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "MIN_COUNT_SECONDS", 0.3)

    async def play(archive: Lender) -> None:
        async with counting_resolver(tmp_path, archive) as made:
            for _ in range(5):
                made.redirect(1, 1)
                await asyncio.sleep(2 * counter.FLUSH_SECONDS)
                assert len(made.counter.counts) == 1
            await until(lambda: made.queue.delivered == 5)
            assert (archive.letters, archive.acknowledged) == (1, 5)

    run(play)


class ObservedQueue(AcknowledgmentQueue):
    """A queue that counts how often its capacity is looked at in one turn of the loop, and the most of all turns."""

    looks = most_looks = 0

    def has_capacity(self, archive: object) -> bool:
        if not self.looks:
            asyncio.get_running_loop().call_soon(setattr, self, "looks", 0)
        self.looks += 1
        self.most_looks = max(self.most_looks, self.looks)
        return super().has_capacity(archive)  # type: ignore[arg-type]  # whatever it is, it is passed on


@pytest.mark.parametrize("most", [20, 10_000])
def test_of_answers_that_were_replaced_no_look_takes_on_more_than_a_piece_and_all_are_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(counter, "FEW_PER_FLUSH", 10)
    monkeypatch.setattr(counter, "FLUSH_SECONDS", 0.001)

    async def play(archive: Lender) -> None:
        async with counting_resolver(tmp_path, archive, most=most) as made:
            queue = made.queue = ObservedQueue(made.client, most_per_archive=most)
            made.metrics.follow(queue, lambda: 1, lambda: 0)
            made.counter.use_queue(queue, lambda: made.archives)
            for checksum in range(100):  # one target, whose answer became another one each time
                made.redirect(1, 1, checksum=checksum)
            await until(lambda: queue.delivered == 100)
            assert 0 < queue.most_looks <= 2 * (10 + 1)
            assert (archive.acknowledged, made.counter.queued) == (100, 0)

    run(play)


@pytest.mark.parametrize("at_the_end", [False, True])
def test_acknowledgments_go_to_the_current_address_of_their_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, at_the_end: bool
) -> None:
    monkeypatch.setattr(counter, "FLUSH_SECONDS", 3600.0 if at_the_end else 0.01)

    async def play(old: Lender, new: Lender) -> None:
        async with counting_resolver(tmp_path, old) as made:
            made.redirect(1, 3)
            made.archives = (replace(made.included, address=f"127.0.0.1:{new.port}"),)
            if not at_the_end:
                await until(lambda: made.queue.delivered == 3)
        assert (old.acknowledged, new.acknowledged) == (0, 3)

    run(play, 2)


def test_an_archive_that_was_excluded_meanwhile_gets_no_acknowledgment_and_that_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "FLUSH_SECONDS", 0.01)

    async def play(archive: Lender) -> None:
        async with counting_resolver(tmp_path, archive) as made:
            made.redirect(1, 3)
            made.archives = ()
            await until(lambda: made.queue.dropped["no longer included"] == 3)
            assert made.metric('thanks_dropped_total{reason="no longer included"}') == 3
            assert (archive.acknowledged, made.counter.queued) == (0, 0)

    run(play)


def test_a_resolver_acknowledges_an_archive_that_has_moved_at_its_new_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "FLUSH_SECONDS", 3600.0)  # so that all waits until the resolver stops
    with archives(2) as (old, new):
        make_resolver(tmp_path, [old])
        with serve_fast_path(tmp_path, [old]) as made:
            made.warm(item(0, 1))
            for _ in range(5):
                assert made.given(item(0, 1)) is not None
            new.number = old.number  # the same Archive, elsewhere
            made.include(new)
        assert (old.acknowledged, new.acknowledged) == (made.taken[False], made.taken[True])
