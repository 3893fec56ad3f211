"""Which clocks are believed, and that a false one neither spells a label nor poisons the state."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from ibi.errors import ClockError
from ibi.identifier.dates import MINUTE, TICKS
from ibi.minting import WaitingRoom
from ibi.minting.clock import ClockLimits
from ibi.minting.waiting_room import AHEAD
from support.machine import START, FalseMachine, waiting_room_at

TOLERANCE = ClockLimits().back
MILLISECOND = TICKS // 1000


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_clock_far_behind_is_an_error_and_one_a_little_behind_a_wait(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        shown = clock.at
        date = waiting_room.draw(TICKS)
        clock.at = shown - TOLERANCE - 3600 * TICKS
        with pytest.raises(ClockError, match="3602 seconds behind"):
            waiting_room.draw(TICKS)
        clock.at = shown - TICKS
        assert waiting_room.draw(TICKS) > date


@pytest.mark.proves("GEN-44")
def test_a_clock_set_back_after_a_long_wait_is_noticed(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(MINUTE)
        assert clock.slept > 2
        clock.at = START
        with pytest.raises(ClockError):
            waiting_room.draw(MINUTE)


def test_a_clock_is_waited_for_as_long_as_it_may_go_back_and_no_longer(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        longest = AHEAD + TOLERANCE
        with pytest.raises(ClockError):
            waiting_room.wait_until(clock.at + longest + 1)
        due = clock.at + longest
        waiting_room.wait_until(due)
        assert clock.at >= due


@pytest.mark.proves("GEN-44")
def test_a_clock_set_back_during_the_wait_is_noticed(tmp_path: Path) -> None:
    clock = FalseMachine()

    def sleep_and_set_back(seconds: float) -> None:
        clock.sleep(seconds)
        clock.at -= 3600 * TICKS

    machine = replace(clock.machine, sleep=sleep_and_set_back)
    with WaitingRoom(tmp_path, machine) as waiting_room:
        with pytest.raises(ClockError):
            waiting_room.draw(MINUTE)
        with pytest.raises(ClockError):
            waiting_room.wait_until(clock.at + MINUTE)


@pytest.mark.proves("GEN-44")
def test_a_crash_during_a_long_wait_burns_nothing_and_is_no_fault_of_the_clock(tmp_path: Path) -> None:
    clock = FalseMachine()

    def crash(seconds: float) -> None:
        raise KeyboardInterrupt(seconds)

    with (
        WaitingRoom(tmp_path, replace(clock.machine, sleep=crash)) as waiting_room,
        pytest.raises(KeyboardInterrupt),
    ):
        waiting_room.draw(MINUTE)
    clock.pass_by(TICKS)
    with waiting_room_at(tmp_path, clock) as waiting_room:
        assert waiting_room.draw(MINUTE) == START - START % MINUTE + MINUTE


DAY = 86400 * TICKS


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_clock_that_leaps_far_ahead_of_the_running_machine_spells_no_label(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        before = waiting_room.draw(TICKS)
        clock.at += 3650 * DAY
        with pytest.raises(ClockError, match="3650 days ahead"):
            waiting_room.draw(TICKS)
        clock.at -= 3650 * DAY  # and the state is not poisoned
        assert waiting_room.draw(TICKS) - before <= 2 * TICKS


def test_a_quiet_month_is_no_leap(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
        clock.pass_by(31 * DAY)
        assert waiting_room.draw(TICKS)


def test_less_than_a_day_ahead_is_believed(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
        clock.at += 23 * 3600 * TICKS
        assert waiting_room.draw(TICKS)


@pytest.mark.proves("GEN-44")
@pytest.mark.parametrize(("synchronised", "believed"), [(True, True), (None, True), (False, False)])
def test_after_days_switched_off_a_synchronised_clock_is_trusted(
    tmp_path: Path, synchronised: bool | None, believed: bool
) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
    clock.restart("second-boot")
    clock.at += 5 * DAY
    clock.synchronised = synchronised
    with waiting_room_at(tmp_path, clock) as waiting_room:
        if believed:
            assert waiting_room.draw(TICKS)
        else:
            with pytest.raises(ClockError, match="5 days ahead"):
                waiting_room.draw(TICKS)


def test_an_operator_may_ask_for_a_clock_that_is_kept(tmp_path: Path) -> None:
    clock = FalseMachine()
    clock.synchronised = False
    strict = WaitingRoom(tmp_path, clock.machine, ClockLimits(synchronised=True))
    with pytest.raises(ClockError, match="not synchronised"):
        strict.__enter__()
    clock.synchronised = True
    with strict as waiting_room:
        assert waiting_room.draw(TICKS)


@pytest.mark.proves("GEN-70")
def test_a_clock_that_has_not_been_set_starts_nothing(tmp_path: Path) -> None:
    clock = FalseMachine(at=3 * DAY)
    with (
        pytest.raises(ClockError, match="1970-01-04T00:00:00Z: it has not been set"),
        waiting_room_at(tmp_path, clock),
    ):
        pass
    clock.at = START
    with waiting_room_at(tmp_path, clock) as waiting_room:
        assert waiting_room.draw(TICKS)


def test_small_steps_back_cost_two_seconds_each_and_do_not_add_up(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        for _ in range(20):
            slept = clock.slept
            waiting_room.draw(MILLISECOND)
            assert clock.slept - slept <= 2
            clock.at -= 19 * TICKS // 10


@pytest.mark.proves("GEN-38")
def test_a_leap_second_and_a_slew_are_nothing_special(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        dates = []
        for turn in range(200):
            dates.append(waiting_room.draw(TICKS // 10))
            if turn == 100:
                clock.at -= TICKS
            clock.at += turn * 10_000
    assert dates == sorted(set(dates))


@pytest.mark.parametrize(
    ("leap", "wrong"),
    [
        (86_400 * TICKS, False),
        (86_400 * TICKS + 1, True),
        (-2 * TICKS, False),
        (-2 * TICKS - 1, True),
    ],
)
def test_a_clock_may_leap_by_a_day_ahead_and_two_seconds_back_and_no_further(
    tmp_path: Path, leap: int, wrong: bool
) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(MILLISECOND)
        clock.pass_by(TICKS)
        waiting_room.reserve(MILLISECOND, 1)
        clock.at += leap
        with pytest.raises(ClockError) if wrong else nullcontext():
            waiting_room.reserve(MILLISECOND, 1)


@pytest.mark.parametrize(
    ("at", "sentence"),
    [
        (-1, "the clock of this machine says 1970-01-01T00:00:00Z: it has not been set"),
        (253_370_678_399 * TICKS + 1, "the clock of this machine is past the year 9998: set it right"),
    ],
)
def test_a_clock_outside_the_calendar_is_not_set_right(tmp_path: Path, at: int, sentence: str) -> None:
    with pytest.raises(ClockError) as refused:
        waiting_room_at(tmp_path, FalseMachine(at)).__enter__()
    assert str(refused.value) == sentence


def test_the_last_moment_of_the_calendar_is_a_time(tmp_path: Path) -> None:
    waiting_room_at(tmp_path, FalseMachine(253_370_678_399 * TICKS)).__enter__()


def test_the_first_second_of_the_first_month_is_a_time(tmp_path: Path) -> None:
    first = 807_235_200 * TICKS
    with (
        pytest.raises(ClockError, match=r"says 1995-07-31T23:59:59\.999999999Z: it has not been set"),
        waiting_room_at(tmp_path, FalseMachine(first - 1)),
    ):
        pass
    with waiting_room_at(tmp_path, FalseMachine(first)) as waiting_room:
        assert waiting_room.reserve(MILLISECOND, 1).last > first
