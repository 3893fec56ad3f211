"""The waiting room to the tick, over a state in memory: what it writes, how long it waits, what it does not believe.

How dates come in order over runs, processes and kills is in `tests/service/minting/test_waiting_room.py`.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ibi.errors import ClockError, SetupError
from ibi.identifier.dates import TICKS
from ibi.minting import WaitingRoom
from ibi.minting.clock import ClockLimits
from ibi.minting.machine import Machine
from ibi.minting.state import FOLDER, StateRecord
from ibi.minting.waiting_room import AHEAD, LockedRecord, Overtaken, unusable
from ibi.runtime.settings import SubsystemSettings
from support.machine import START, FalseMachine

BACK = ClockLimits().back
MARGIN = 700
TURN = AHEAD // 4
SHORTEST, LONGEST = TICKS // 1000, TICKS // 5
NAMES = "e3b0c44298fc1c14"  # of no prefixes, as every state has recorded it


class ExactMachine(FalseMachine):
    """Its clock moves by just the ticks for which someone sleeps, each time written down."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeps = list[int]()

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(round(seconds * TICKS))
        self.pass_by(self.sleeps[-1])


class StateInMemory:
    """A state that is kept nowhere; it is its own lock, and the record under it."""

    margin = MARGIN
    identity = "there"

    def __init__(
        self, last: int | None = None, *, waits_locked: bool = False, drew_last: bool = False
    ) -> None:
        self.record = None if last is None else record(last)
        self.waits_locked, self.drew_last, self.is_latest = waits_locked, drew_last, True
        self.written = list[StateRecord]()
        self.new = self.record is None
        self.is_locked = False
        self.overtakes = 0
        self.is_confirmed = False

    def prepare(self) -> None:
        pass

    def locked(self) -> AbstractContextManager[LockedRecord]:
        return self._lock()

    @contextmanager
    def _lock(self) -> Iterator[LockedRecord]:
        assert not self.is_locked
        self.is_locked = True
        try:
            yield self
        finally:
            self.is_locked = False

    def clock_confirmed(self, now: int) -> bool:
        assert now > START - BACK
        return self.is_confirmed

    def trusted(self) -> StateRecord:
        assert self.record is not None
        return self.record

    def commit(self, record: StateRecord) -> None:
        if self.overtakes:
            self.overtakes -= 1
            raise Overtaken
        self.create(record)
        self.is_latest = True

    def create(self, record: StateRecord) -> None:
        self.record, self.new = record, False
        self.written.append(record)

    def leave(self) -> None:
        pass


def record(last: int, names: str = NAMES) -> StateRecord:
    return StateRecord(last, START, 1000 * TICKS, 5, "first-boot", "there", names, "its-file")


def waiting_room_over(state: StateInMemory, machine: Machine, *prefixes: str) -> WaitingRoom:
    return WaitingRoom("/nowhere", machine, prefixes=prefixes, state=state)


def awake(_seconds: float) -> None:
    raise AssertionError("it waits, and need not")


# --- what is written ------------------------------------------------------------------------------------------------


def test_the_first_record_is_that_of_the_present_moment() -> None:
    state = StateInMemory()
    with waiting_room_over(state, FalseMachine().machine):
        pass
    assert state.written == [
        StateRecord(START + AHEAD, START, 1000 * TICKS, 0, "first-boot", "there", NAMES, "")
    ]


def test_a_record_tells_the_clock_and_the_run_of_the_machine_and_counts_labels() -> None:
    state, clock = StateInMemory(START - TICKS), ExactMachine()
    clock.pass_by(7)
    clock.boot = "second-boot"
    batch = waiting_room_over(state, clock.machine).reserve(1, 3)
    (written,) = state.written
    assert written == StateRecord(
        batch.last, START + 7, 1000 * TICKS + 7, 8, "second-boot", "there", NAMES, "its-file"
    )


@pytest.mark.parametrize(("back", "running"), [(0, 1001 * TICKS), (1, 1000 * TICKS)])
def test_the_later_of_two_readings_of_the_clock_is_kept(back: int, running: int) -> None:
    state, clock = StateInMemory(START - TICKS), ExactMachine()
    clock.at, clock.up = START - back, 1001 * TICKS
    waiting_room_over(state, clock.machine).reserve(1, 1)
    (written,) = state.written
    assert (written.clock, written.running, written.drawn) == (START, running, 6)


@pytest.mark.parametrize(
    ("is_latest", "prefixes"), [(False, ()), (True, ("a.example",)), (False, ("a.example",))]
)
def test_where_the_record_may_be_an_old_one_it_is_moved_on_once_and_then_drawn_from(
    is_latest: bool, prefixes: tuple[str, ...]
) -> None:
    state, clock = StateInMemory(START - TICKS), ExactMachine()
    state.is_latest = is_latest
    batch = waiting_room_over(state, clock.machine, *prefixes).reserve(1, 1)
    moved, drawn = state.written
    assert moved == record(START + AHEAD + MARGIN, moved.names)
    assert (moved.names != NAMES) == bool(prefixes)
    assert batch.last == drawn.last == START + AHEAD + MARGIN + 1
    assert drawn.names == moved.names


def test_a_later_record_is_never_moved_back() -> None:
    state, clock = StateInMemory(START + AHEAD + MARGIN + 5), ExactMachine()
    state.is_latest = False
    assert waiting_room_over(state, clock.machine).reserve(1, 1).last == START + AHEAD + MARGIN + 6


def test_with_a_wrong_clock_nothing_is_moved_on() -> None:
    state, clock = StateInMemory(START - TICKS), ExactMachine()
    state.is_latest = False
    clock.at += 2 * 86400 * TICKS
    with pytest.raises(ClockError, match="ahead of what is expected"):
        waiting_room_over(state, clock.machine).reserve(1, 1)
    assert state.written == []


def test_a_clock_that_another_one_confirms_may_have_stood_for_days() -> None:
    state, clock = StateInMemory(START - TICKS), ExactMachine()
    clock.at += 2 * 86400 * TICKS
    clock.boot, clock.synchronised = "second-boot", False
    waiting_room = waiting_room_over(state, clock.machine)
    with pytest.raises(ClockError, match="ahead of what is expected"):
        waiting_room.reserve(1, 1)
    state.is_confirmed = True
    assert len(waiting_room.reserve(1, 1)) == 1


def test_each_draw_takes_the_next_date_and_counts_one_label() -> None:
    state, clock = StateInMemory(START - 1), ExactMachine()
    waiting_room = waiting_room_over(state, clock.machine)
    dates = [waiting_room.draw(1) for _ in range(3)]
    assert dates[:2] == [START, START + 1]
    assert [(each.last, each.drawn) for each in state.written] == list(zip(dates, (6, 7, 8), strict=True))


def test_who_was_overtaken_tries_again() -> None:
    state = StateInMemory(START - TICKS)
    state.overtakes = 3
    assert len(waiting_room_over(state, FalseMachine().machine).reserve(1, 1)) == 1


# --- how long it waits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waits_locked", [False, True])
@pytest.mark.parametrize("last", [START - TICKS, START + AHEAD - 1])
def test_a_date_that_is_no_further_ahead_than_it_may_be_is_given_at_once(
    last: int, waits_locked: bool
) -> None:
    state = StateInMemory(last, waits_locked=waits_locked)
    batch = waiting_room_over(state, replace(ExactMachine().machine, sleep=awake)).reserve(1, 1)
    assert last < batch.last <= START + AHEAD


@pytest.mark.parametrize("waits_locked", [False, True])
def test_a_date_one_tick_further_ahead_is_waited_for(waits_locked: bool) -> None:
    state, clock = StateInMemory(START + AHEAD, waits_locked=waits_locked), ExactMachine()
    assert waiting_room_over(state, clock.machine).reserve(1, 1).last == START + AHEAD + 1
    assert clock.sleeps == [SHORTEST]


@pytest.mark.parametrize(("drew_last", "turn"), [(False, 0), (True, TURN)])
def test_who_drew_last_lets_others_come_first_and_waits_without_the_lock(drew_last: bool, turn: int) -> None:
    apart = 3 * SHORTEST
    state, clock = StateInMemory(START + AHEAD + apart - 1, drew_last=drew_last), ExactMachine()
    locked = list[bool]()

    def sleep(seconds: float) -> None:
        locked.append(state.is_locked)
        clock.sleep(seconds)

    waiting_room_over(state, replace(clock.machine, sleep=sleep)).reserve(1, 1)
    assert sum(clock.sleeps) == apart + turn
    assert not any(locked)


def test_files_are_waited_for_under_their_lock() -> None:
    state, clock = StateInMemory(START + AHEAD + SHORTEST, waits_locked=True, drew_last=True), ExactMachine()
    locked = list[bool]()

    def sleep(seconds: float) -> None:
        locked.append(state.is_locked)
        clock.sleep(seconds)

    waiting_room_over(state, replace(clock.machine, sleep=sleep)).reserve(1, 1)
    assert locked
    assert all(locked)
    assert sum(clock.sleeps) < TURN


@pytest.mark.parametrize(
    ("waits_locked", "drew_last", "longest"),
    [(True, True, 1), (False, False, 1 + MARGIN), (False, True, 1 + MARGIN + TURN)],
)
def test_a_draw_waits_for_as_long_as_right_clocks_may_differ_and_no_longer(
    waits_locked: bool, drew_last: bool, longest: int
) -> None:
    turn = TURN if drew_last and not waits_locked else 0
    last = START + AHEAD + longest + BACK - turn - 1
    for later in (0, 1):
        state, clock = (
            StateInMemory(last + later, waits_locked=waits_locked, drew_last=drew_last),
            ExactMachine(),
        )
        waiting_room = waiting_room_over(state, clock.machine)
        if later:
            with pytest.raises(ClockError, match="2 seconds behind"):
                waiting_room.reserve(1, 1)
            assert clock.sleeps == []
        else:
            assert waiting_room.reserve(1, 1).last == last + 1


def test_a_moment_is_waited_for_to_the_tick() -> None:
    clock = ExactMachine()
    waiting_room = waiting_room_over(StateInMemory(START), clock.machine)
    for left in (0, 1, SHORTEST, SHORTEST + 5, LONGEST, AHEAD + BACK):
        clock.sleeps.clear()
        moment = clock.at + left
        waiting_room.wait_until(moment)
        assert moment <= clock.at < moment + SHORTEST
        assert clock.sleeps == expected(left)


def expected(left: int) -> list[int]:
    """The sleeps for so many ticks."""
    sleeps = list[int]()
    while left > 0:
        sleeps.append(max(SHORTEST, min(left, LONGEST)))
        left -= sleeps[-1]
    return sleeps


def test_a_clock_that_stands_still_is_waited_for_as_long_as_one_that_goes_back() -> None:
    clock = FalseMachine()

    def sleep(seconds: float) -> None:
        clock.up += round(seconds * TICKS)

    most = AHEAD + BACK
    assert most % LONGEST == 0
    began = clock.up
    with pytest.raises(ClockError, match="stands still"):
        waiting_room_over(StateInMemory(START), replace(clock.machine, sleep=sleep)).wait_until(
            clock.at + AHEAD
        )
    assert clock.up - began == most + LONGEST


def test_only_what_is_not_due_is_waited_for_after_a_draw() -> None:
    state = StateInMemory(START - TICKS)
    waiting_room = waiting_room_over(state, replace(ExactMachine().machine, sleep=awake))
    assert START - TICKS < waiting_room.draw(1) <= START
    assert (waiting_room.furthest, waiting_room.now()) == (AHEAD + BACK, START)


# --- directories ----------------------------------------------------------------------------------------------------


def test_a_directory_of_several_subsystems_is_no_waiting_room(tmp_path: Path) -> None:
    path = tmp_path / SubsystemSettings.FILE
    path.touch()
    with (
        pytest.raises(SetupError) as refused,
        WaitingRoom(tmp_path, FalseMachine().machine, state=StateInMemory()),
    ):
        pass
    assert str(refused.value) == f"{path} lists several subsystems, each with a directory of its own"


def test_a_directory_that_the_system_refuses_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    waiting_room = WaitingRoom(tmp_path / "file", FalseMachine().machine)
    problem = f"labels cannot be made in {tmp_path}/file: Not a directory"
    with pytest.raises(SetupError, match=problem):
        waiting_room.__enter__()
    with pytest.raises(SetupError, match=problem):
        waiting_room.reserve(1, 1)


def test_who_leaves_lets_the_next_one_see_that_nothing_was_touched(tmp_path: Path) -> None:
    clock = FalseMachine()
    with WaitingRoom(tmp_path, clock.machine) as waiting_room:
        for _ in range(2):
            waiting_room.reserve(1, 1)
        crashed = (tmp_path / FOLDER / "lock").read_bytes()
    assert (tmp_path / FOLDER / "lock").read_bytes() != crashed


def test_who_leaves_while_another_draws_says_nothing(tmp_path: Path) -> None:
    waiting_room = WaitingRoom(tmp_path, FalseMachine().machine)
    with waiting_room, (tmp_path / FOLDER / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting_room.__exit__()


def test_what_the_system_refuses_is_said_in_its_words(tmp_path: Path) -> None:
    assert str(unusable(tmp_path, OSError(5, "no disk"))) == f"labels cannot be made in {tmp_path}: no disk"
    assert str(unusable(tmp_path, OSError("no disk"))) == f"labels cannot be made in {tmp_path}: no disk"
