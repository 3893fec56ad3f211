"""How many counts of readers one flush ends: few where there is much to do, and all of them in time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from ibi.resolver.acknowledgments.counter import (
    FEW_PER_FLUSH,
    FLUSH_SECONDS,
    MIN_COUNT_SECONDS,
    MOST_FLUSHES,
    ReaderCounter,
    outcome_number,
)
from ibi.resolver.acknowledgments.queue import EXPIRY_SECONDS, AcknowledgmentQueue
from ibi.resolver.metrics.metrics import ResolverMetrics
from ibi.resolver.resolve.resolution import MOST_ROUNDS
from support.clock import FalseClockLoop, run_with_false_clock
from support.resolver.scripted_peers import among

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("counts", "resolutions", "ended"),
    [
        (100, 0, FEW_PER_FLUSH + 1),
        (100, FEW_PER_FLUSH - 1, FEW_PER_FLUSH + 1),
        (100, FEW_PER_FLUSH, 1),
        (100, 499, 1),
        (100, 500, 2),
        (100, 999, 2),
        (100, 1_000, 3),
        (3 * MOST_FLUSHES + 10, 500, 4),
        (3 * MOST_FLUSHES - 10, 500, 3),
    ],
)
def test_a_flush_ends_as_many_counts_as_there_is_time_for(
    tmp_path: Path, counts: int, resolutions: int, ended: int
) -> None:
    async def main() -> None:
        metrics = ResolverMetrics(tmp_path)
        async with among() as (client, _):
            queue, counter = AcknowledgmentQueue(client), ReaderCounter(metrics)
            counter.use_queue(queue, tuple)
            for number in range(counts):
                made = counter.start(b"%d" % number, 1, None, "", ("192.0.2.1",))
                assert made is not None
                made.readers = 2
            counter.unreported_readers = 2 * counts
            await asyncio.sleep(MIN_COUNT_SECONDS - FLUSH_SECONDS / 2)
            assert (len(counter.counts), counter.queued) == (counts, 2 * counts)
            await asyncio.sleep(FLUSH_SECONDS)
            left = len(counter.counts)
            counter.outcomes[0] = resolutions
            await asyncio.sleep(FLUSH_SECONDS)
            assert left - len(counter.counts) == ended
            gone = 2 * (counts - len(counter.counts))
            assert queue.dropped == Counter({"no key to thank with": gone})
            assert (counter.queued, counter.outcomes[0]) == (2 * counts - gone, 0)
            counter.close()
            assert (counter.queued, counter.counts) == (0, {})
            assert queue.dropped == Counter({"no key to thank with": 2 * counts})
        metrics.close()

    run_with_false_clock(main())


def test_a_count_that_waited_longer_than_its_key_lives_is_dropped_as_too_old(tmp_path: Path) -> None:
    async def main() -> None:
        metrics = ResolverMetrics(tmp_path)
        async with among() as (client, _):
            queue, counter = AcknowledgmentQueue(client), ReaderCounter(metrics)
            counter.use_queue(queue, tuple)
            for number in range(2):
                made = counter.start(b"%d" % number, 1, None, "", ("192.0.2.1",))
                assert made is not None
                made.readers = number + 1
                # The flush is the next thing that happens, at a moment that floats represent exactly.
                made.first_at = 1024.0 - EXPIRY_SECONDS - number / 8
            counter.unreported_readers = 3
            loop = asyncio.get_running_loop()
            assert isinstance(loop, FalseClockLoop)
            loop.clock.now = 1024.0
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert (queue.dropped, counter.dropped) == (
                Counter({"no key to thank with": 1}),
                Counter({"too old": 2}),
            )
            assert (counter.queued, counter.counts) == (0, {})
            counter.close()
        metrics.close()

    run_with_false_clock(main())


def test_what_the_fast_path_has_resolved_is_in_the_metrics_after_a_flush(tmp_path: Path) -> None:
    async def main() -> None:
        metrics = ResolverMetrics(tmp_path)
        counter, before = ReaderCounter(metrics), set(metrics.text().decode().splitlines())
        counter.outcomes[outcome_number(3, "right")] = 5
        counter.outcomes[outcome_number(MOST_ROUNDS + 5, "wrong")] = 2
        counter.wake()
        await asyncio.sleep(FLUSH_SECONDS)
        assert not any(counter.outcomes)
        changed = set(metrics.text().decode().splitlines()) - before
        buckets = {line for line in changed if "_bucket{" in line}
        assert all(line.endswith(" 7.0") for line in buckets)
        assert len(buckets) > 10
        name = "ibi_resolver_"
        assert changed - buckets == {
            f'{name}resolutions_total{{outcome="redirect"}} 7.0',
            f"{name}rounds_total {5 * 3 + 2 * MOST_ROUNDS:.1f}",
            f'{name}hints_total{{result="right"}} 5.0',
            f'{name}hints_total{{result="wrong"}} 2.0',
            f'{name}remembered_total{{answer="fresh"}} 7.0',
            f"{name}resolution_seconds_count 7.0",
        }
        metrics.close()

    run_with_false_clock(main())
