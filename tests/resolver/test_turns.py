"""Who may have everybody asked next: a queue by origin, and a loop that knows when it was late itself."""

from __future__ import annotations

import asyncio
import time

import pytest

from ibi.resolver import turns
from ibi.resolver.pulse import Pulse
from ibi.resolver.turns import ROUNDS_AT_ONCE, Turns
from resolver.running import until


class Street:
    """So many questions under way, and who was let in, in order."""

    def __init__(self) -> None:
        self.busy = 0
        self.let_in: list[str] = []
        self.turns = Turns(lambda: self.busy)

    def come(self, name: str, size: int = 10) -> turns.Ticket | None:
        def go() -> None:
            self.busy += size
            self.let_in.append(name)

        return self.turns.take(name.rstrip("0123456789"), size, go)

    def end(self, count: int) -> None:
        self.busy -= count
        self.turns.look()


def test_who_comes_when_there_is_room_is_let_in_at_once() -> None:
    street = Street()
    for number in range(ROUNDS_AT_ONCE):
        street.come(f"a{number}")
    assert len(street.let_in) == ROUNDS_AT_ONCE
    street.come("b")
    assert "b" not in street.let_in
    street.end(10)
    assert street.let_in[-1] == "b"


def test_of_those_who_wait_each_origin_has_its_turn() -> None:
    street = Street()
    street.busy = 10 * ROUNDS_AT_ONCE
    for name in ("a1", "a2", "a3", "b1", "c1", "b2"):
        street.come(name)
    for _ in range(6):
        street.end(10)
    assert street.let_in == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_who_needs_no_turn_any_more_is_passed_over() -> None:
    street = Street()
    street.busy = 10 * ROUNDS_AT_ONCE
    first, _ = street.come("a1"), street.come("b1")
    assert first is not None
    street.turns.give_back(first)
    street.turns.give_back(first)
    street.end(10)
    assert street.let_in == ["b1"]


def test_a_network_of_any_size_is_asked_when_nothing_else_is_under_way() -> None:
    street = Street()
    street.come("a1", 100_000)
    assert street.let_in == ["a1"]
    street.come("b1", 1)
    assert street.let_in == ["a1"]
    street.end(100_000)
    assert street.let_in == ["a1", "b1"]


def test_when_too_many_wait_the_next_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_WAITING", 2)
    street = Street()
    street.busy = 10 * ROUNDS_AT_ONCE
    tickets = [street.come(f"a{number}") for number in range(3)]
    assert [ticket is None for ticket in tickets] == [False, False, True]


def test_what_held_a_loop_up_while_nothing_was_waited_for_is_forgotten() -> None:
    async def main() -> None:
        pulse, clock = Pulse(), asyncio.get_running_loop().time
        for _ in range(50):  # however busy this machine is
            pulse.begin(clock())
            pulse.end()
            time.sleep(0.6)  # noqa: ASYNC251 - that is what holds it up
            begun = clock()
            pulse.begin(begun)
            if not pulse.was_late(begun):
                break
        else:
            pytest.fail("it blames what comes for what was before")
        pulse.end()

    asyncio.run(main())


def test_a_pulse_that_nobody_wants_ends_and_begins_again() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        pulse = Pulse()
        pulse.begin(loop.time())
        pulse.end()
        await until(lambda: pulse._beat is None)
        pulse.begin(loop.time())
        pulse.end()
        pulse.begin(loop.time())
        first = pulse._beat
        await until(lambda: pulse._beat is not first)
        assert isinstance(pulse._beat, asyncio.TimerHandle)
        pulse.end()

    asyncio.run(main())


def test_a_loop_that_was_held_up_knows_it() -> None:
    async def main() -> None:
        pulse, clock = Pulse(), asyncio.get_running_loop().time
        pulse.begin(clock())
        begun = clock()
        time.sleep(0.8)  # noqa: ASYNC251 - that is what holds it up
        assert pulse.was_late(begun)
        await asyncio.sleep(0.3)
        assert pulse.was_late(begun)
        for _ in range(50):  # however busy this machine is
            begun = clock()
            await asyncio.sleep(0.01)
            if not pulse.was_late(begun):
                break
        else:
            pytest.fail("it always takes itself for late")
        pulse.end()

    asyncio.run(main())
