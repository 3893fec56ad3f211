"""Repair of a state: what is proven, what only the operator can know, and that no label comes twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ibi.errors import ClockError, LostState, SetupError
from ibi.identifier.dates import TICKS
from ibi.minting import WaitingRoom
from ibi.minting.recovery import recover
from ibi.minting.state import StateFault
from ibi.minting.waiting_room import AHEAD
from support.machine import START, FalseMachine

DAY = 86400 * TICKS
pytestmark = pytest.mark.proves("GEN-44", "AMB-18")


def draw(directory: Path, clock: FalseMachine) -> int:
    with WaitingRoom(directory, clock.machine) as waiting_room:
        return waiting_room.draw(TICKS // 1000)


def spoil(directory: Path, fault: StateFault) -> None:
    state, lock = directory / "minting/state", directory / "minting/lock"
    match fault:
        case StateFault.MISSING:
            state.unlink()
        case StateFault.DAMAGED:
            state.write_bytes(b"1 2 3")
        case StateFault.OLDER:
            lines = state.read_bytes(), lock.read_bytes()
            state.write_bytes(lines[0])
            lock.write_bytes(lines[1])
        case StateFault.TOUCHED:
            state.chmod(0o640)
        case StateFault.COPIED:
            shutil.copy(state, directory / "copy")
            (directory / "copy").replace(state)
        case StateFault.MOVED:
            pass


@pytest.mark.parametrize(
    "fault", [StateFault.MISSING, StateFault.DAMAGED, StateFault.TOUCHED, StateFault.OLDER]
)
def test_a_repaired_state_gives_later_labels_than_ever_before(tmp_path: Path, fault: StateFault) -> None:
    clock = FalseMachine()
    before = [draw(tmp_path, clock) for _ in range(5)]
    spoil(tmp_path, fault)
    with pytest.raises(LostState):
        draw(tmp_path, clock)
    found = recover(tmp_path, clock.machine)
    assert found.fault is not None
    assert found.last >= max(before)
    assert draw(tmp_path, clock) > max(before)


@pytest.mark.parametrize("fault", [StateFault.COPIED, StateFault.MOVED])
def test_a_copy_is_repaired_only_if_the_operator_knows_that_it_is_the_only_one(
    tmp_path: Path, fault: StateFault
) -> None:
    clock = FalseMachine()
    before = draw(tmp_path, clock)
    spoil(tmp_path, fault)
    if fault is StateFault.MOVED:
        clock.identity = "another-machine"
    with pytest.raises(LostState, match="say so with --moved"):
        recover(tmp_path, clock.machine)
    with pytest.raises(LostState):
        draw(tmp_path, clock)
    recover(tmp_path, clock.machine, moved=True)
    assert draw(tmp_path, clock) > before


def test_labels_known_from_elsewhere_prove_a_lower_bound(tmp_path: Path) -> None:
    clock = FalseMachine()
    draw(tmp_path, clock)
    spoil(tmp_path, StateFault.MISSING)
    shutil.rmtree(tmp_path / "minting")
    (tmp_path / "archive.toml").touch()
    found = recover(tmp_path, clock.machine, clock.at - DAY)
    assert (found.labels, found.state, found.replica) == (clock.at - DAY, None, None)
    assert found.last == clock.at + AHEAD


def test_a_label_later_than_the_clock_is_not_taken_lightly(tmp_path: Path) -> None:
    clock = FalseMachine()
    draw(tmp_path, clock)
    spoil(tmp_path, StateFault.DAMAGED)
    with pytest.raises(ClockError, match="2010-11-03"):
        recover(tmp_path, clock.machine, START + 2 * DAY)
    with pytest.raises(LostState):
        draw(tmp_path, clock)


def test_a_clock_that_leapt_counts_once_it_is_confirmed(tmp_path: Path) -> None:
    clock = FalseMachine()
    before = draw(tmp_path, clock)
    clock.at += 30 * DAY
    with pytest.raises(ClockError):
        recover(tmp_path, clock.machine)
    recover(tmp_path, clock.machine, clock_right=True)
    assert draw(tmp_path, clock) > before + 29 * DAY


def test_a_clock_behind_the_labels_is_never_confirmed(tmp_path: Path) -> None:
    clock = FalseMachine()
    draw(tmp_path, clock)
    clock.at -= DAY
    for right in (False, True):
        with pytest.raises(ClockError):
            recover(tmp_path, clock.machine, clock_right=right)


def test_a_state_that_looks_sound_is_moved_on_to_the_present(tmp_path: Path) -> None:
    """A machine that was set back as a whole cannot see it; its operator can."""
    clock = FalseMachine()
    draw(tmp_path, clock)
    clock.pass_by(DAY)  # on which labels were given that this state knows nothing of
    found = recover(tmp_path, clock.machine)
    assert (found.fault, found.last) == (None, clock.at + AHEAD)
    assert draw(tmp_path, clock) > START + DAY


def test_where_no_label_was_ever_given_there_is_nothing_to_repair(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="nothing to recover"):
        recover(tmp_path / "new", FalseMachine().machine)
    assert not (tmp_path / "new").exists()
