"""When an event loop counts as late, by a false clock."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from ibi.http.client.loop_lag import LoopLag
from support.clock import FalseClock, FalseClockLoop, run_with_false_clock


def clock() -> FalseClock:
    return cast("FalseClockLoop", asyncio.get_running_loop()).clock


@pytest.mark.parametrize(("seconds", "late"), [(0.5, False), (0.501, True)])
def test_a_loop_is_late_when_a_beat_is_more_than_a_quarter_of_a_second_late(
    seconds: float, *, late: bool
) -> None:
    async def main() -> None:
        lag, begun = LoopLag(lambda: False), clock().now
        lag.begin()
        clock().now += seconds
        assert lag.was_late(begun) == late

    run_with_false_clock(main())


def test_a_late_beat_is_noticed_although_no_caller_asks_before_it_comes() -> None:
    async def main() -> None:
        lag, begun = LoopLag(lambda: True), clock().now
        lag.begin()
        clock().now += 0.8
        await asyncio.sleep(0.1)
        assert lag.was_late(begun)
        assert lag.was_late(begun + 0.8)
        assert not lag.was_late(begun + 0.9)

    run_with_false_clock(main())


@pytest.mark.parametrize(("seconds", "late"), [(0.5, False), (0.501, True)])
def test_a_late_beat_that_restarts_counts_for_what_began_before(seconds: float, *, late: bool) -> None:
    async def main() -> None:
        lag, begun = LoopLag(lambda: True), clock().now
        lag.begin()
        clock().now += seconds
        lag.begin()
        assert lag.was_late(begun) == late
        assert not lag.was_late(clock().now)
        clock().now += 0.6
        assert lag.was_late(clock().now)
        lag.begin()
        assert lag.was_late(clock().now)  # which was noted as of this moment

    run_with_false_clock(main())


def test_a_beat_that_restarts_comes_once() -> None:
    async def main() -> None:
        lag = LoopLag(lambda: False)
        lag.begin()
        await asyncio.sleep(0.2)
        lag.begin()
        await asyncio.sleep(0.2)
        assert lag.timer is not None
        await asyncio.sleep(0.1)
        assert lag.timer is None

    run_with_false_clock(main())
