"""The fair queue of rounds, by client; and an event loop that knows when it was late itself."""

from __future__ import annotations

import asyncio
import time

import pytest

from ibi.http.client.loop_lag import LoopLag
from ibi.http.limits import fair_queue
from ibi.http.limits.fair_queue import MOST_IN_FLIGHT, ROUNDS_AT_ONCE, FairQueue
from support.resolver.running_resolver import until


class Rounds:
    """So many queries in flight, and the rounds that started, in order."""

    def __init__(self) -> None:
        self.of_rounds = 0
        self.to_likely_holders = 0
        self.started: list[str] = []
        self.queue = FairQueue(self)

    @property
    def total(self) -> int:
        return self.of_rounds + self.to_likely_holders

    def enter(self, name: str, size: int = 10) -> fair_queue.QueuedRound | None:
        def start() -> None:
            self.of_rounds += size
            self.started.append(name)

        return self.queue.enter(name.rstrip("0123456789"), size, start)

    def end(self, count: int) -> None:
        self.of_rounds -= count
        self.queue.serve()


def test_a_request_within_the_capacity_starts_at_once() -> None:
    rounds = Rounds()
    for number in range(ROUNDS_AT_ONCE):
        rounds.enter(f"a{number}")
    assert len(rounds.started) == ROUNDS_AT_ONCE
    rounds.enter("b")
    assert "b" not in rounds.started
    rounds.end(10)
    assert rounds.started[-1] == "b"


@pytest.mark.parametrize(("others", "starts"), [(MOST_IN_FLIGHT - 2, True), (MOST_IN_FLIGHT - 1, False)])
def test_queries_to_likely_holders_count_only_where_too_many_are_in_flight_in_all(
    others: int, *, starts: bool
) -> None:
    rounds = Rounds()
    rounds.to_likely_holders = others
    rounds.enter("a", 2)
    assert bool(rounds.started) == starts
    rounds.to_likely_holders = 0
    rounds.end(0)
    assert rounds.started == ["a"]


def test_of_the_rounds_that_wait_each_client_has_its_turn() -> None:
    rounds = Rounds()
    rounds.of_rounds = 10 * ROUNDS_AT_ONCE
    for name in ("a1", "a2", "a3", "b1", "c1", "b2"):
        rounds.enter(name)
    for _ in range(6):
        rounds.end(10)
    assert rounds.started == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_a_round_that_left_is_passed_over() -> None:
    rounds = Rounds()
    rounds.of_rounds = 10 * ROUNDS_AT_ONCE
    first, _ = rounds.enter("a1"), rounds.enter("b1")
    assert first is not None
    rounds.queue.leave(first)
    rounds.queue.leave(first)
    rounds.end(10)
    assert rounds.started == ["b1"]


def test_a_network_of_any_size_is_asked_when_nothing_else_is_in_flight() -> None:
    rounds = Rounds()
    rounds.enter("a1", 100_000)
    assert rounds.started == ["a1"]
    rounds.enter("b1", 1)
    assert rounds.started == ["a1"]
    rounds.end(100_000)
    assert rounds.started == ["a1", "b1"]


def test_when_too_many_wait_the_next_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "MOST_WAITING", 2)
    rounds = Rounds()
    rounds.of_rounds = 10 * ROUNDS_AT_ONCE
    queued = [rounds.enter(f"a{number}") for number in range(3)]
    assert [each is None for each in queued] == [False, False, True]


def start(lag: LoopLag) -> None:
    """As queries do: only where it has stopped, or its timer is overdue."""
    if lag.timer is None or asyncio.get_running_loop().time() > lag.timer.when():
        lag.begin()


def test_what_held_a_loop_up_while_nothing_was_waited_for_is_forgotten() -> None:
    async def main() -> None:
        lag, clock = LoopLag(lambda: False), asyncio.get_running_loop().time
        for _ in range(50):  # however busy this machine is
            start(lag)
            time.sleep(0.6)  # noqa: ASYNC251 - that is what holds it up
            begun = clock()
            start(lag)
            if not lag.was_late(begun):
                break
        else:
            pytest.fail("it blames what comes for what was before")

    asyncio.run(main())


def test_a_lag_that_is_not_wanted_is_measured_no_longer_and_then_again() -> None:
    async def main() -> None:
        wanted = False
        lag = LoopLag(lambda: wanted)
        start(lag)
        await until(lambda: lag.timer is None)
        wanted = True
        start(lag)
        first = lag.timer
        await until(lambda: lag.timer is not first)
        assert isinstance(lag.timer, asyncio.TimerHandle)
        wanted = False

    asyncio.run(main())


def test_a_loop_that_was_held_up_knows_it() -> None:
    async def main() -> None:
        lag, clock = LoopLag(lambda: True), asyncio.get_running_loop().time
        lag.begin()
        begun = clock()
        time.sleep(0.8)  # noqa: ASYNC251 - that is what holds it up
        assert lag.was_late(begun)
        await asyncio.sleep(0.3)
        assert lag.was_late(begun)
        for _ in range(50):  # however busy this machine is
            begun = clock()
            await asyncio.sleep(0.01)
            if not lag.was_late(begun):
                break
        else:
            pytest.fail("it always takes itself for late")

    asyncio.run(main())
