"""Repair of a state: what is proven, what only the operator can know, and that no label comes twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ibi.errors import ClockError, LostState, SetupError
from ibi.identifier.dates import TICKS
from ibi.minting import WaitingRoom
from ibi.minting.recovery import Recovery, recover, repair_command
from ibi.minting.state import FOLDER, SENTENCES, WIDTH, StateFault, StateRecord
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
        case StateFault.OTHER_MACHINE:
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


@pytest.mark.parametrize("fault", [StateFault.COPIED, StateFault.OTHER_MACHINE])
def test_a_copy_is_repaired_only_if_the_operator_knows_that_it_is_the_only_one(
    tmp_path: Path, fault: StateFault
) -> None:
    clock = FalseMachine()
    before = draw(tmp_path, clock)
    spoil(tmp_path, fault)
    if fault is StateFault.OTHER_MACHINE:
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


def test_a_repair_reports_what_it_has_found_and_writes_one_label_more_than_any_record_counts(
    tmp_path: Path,
) -> None:
    clock = FalseMachine()
    with WaitingRoom(tmp_path, clock.machine, prefixes=("a.example",)) as waiting_room:
        batches = [waiting_room.reserve(TICKS // 1000, count) for count in (3, 4)]
    last, count = batches[-1].last, sum(map(len, batches))
    (names,) = (record.names for record in recorded(tmp_path))
    clock.pass_by(TICKS)
    now, labels = clock.at, clock.at + AHEAD
    assert recover(tmp_path, clock.machine, labels) == Recovery(None, last, last, labels, labels)
    (file,) = {record.file for record in recorded(tmp_path)}
    expected = StateRecord(labels, now, clock.up, count + 1, "first-boot", "this-machine", names, file)
    assert recorded(tmp_path) == {expected}


def test_a_repair_of_nothing_but_a_name_begins_as_a_new_state_does(tmp_path: Path) -> None:
    (tmp_path / "archive.toml").touch()
    clock = FalseMachine()
    assert recover(tmp_path, clock.machine) == Recovery(
        StateFault.MISSING, None, None, None, clock.at + AHEAD
    )
    (record,) = recorded(tmp_path)
    assert (record.drawn, record.names) == (1, "-")


def recorded(directory: Path) -> set[StateRecord]:
    """The records of the state and of its replica."""
    found = [StateRecord.read((directory / FOLDER / name).read_bytes()[:WIDTH]) for name in ("state", "lock")]
    return {record for record in found if record is not None}


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (
            StateFault.COPIED,
            "the minting state in {} is a copy; two directories must never mint from one state",
        ),
        (
            StateFault.OTHER_MACHINE,
            "the minting state in {} was made by another machine; two must never mint from one state",
        ),
    ],
)
def test_the_refusal_says_what_was_found(tmp_path: Path, fault: StateFault, sentence: str) -> None:
    clock = FalseMachine()
    draw(tmp_path, clock)
    spoil(tmp_path, fault)
    if fault is StateFault.OTHER_MACHINE:
        clock.identity = "another-machine"
    with pytest.raises(LostState) as refused:
        recover(tmp_path, clock.machine)
    assert str(refused.value).startswith(sentence.format(tmp_path / FOLDER) + ". If the other one")
    command = str(repair_command(LostState(SENTENCES[fault], directory=tmp_path), tmp_path))
    assert (
        command == f"if the other one never gives a label again: ibi mint recover --data {tmp_path} --moved"
    )


def test_what_happened_here_is_repaired_without_a_word_of_another_machine(tmp_path: Path) -> None:
    for fault in (StateFault.MISSING, StateFault.DAMAGED, StateFault.OLDER, StateFault.TOUCHED):
        command = str(repair_command(LostState(SENTENCES[fault], directory=tmp_path), tmp_path))
        assert command == f"labels wait until it is repaired: ibi mint recover --data {tmp_path}"


def test_where_no_label_was_ever_given_there_is_nothing_to_repair(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="nothing to recover"):
        recover(tmp_path / "new", FalseMachine().machine)
    assert not (tmp_path / "new").exists()
