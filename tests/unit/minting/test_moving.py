"""The move of a waiting room into a row and back, and its repair there: whole records, with a row in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ibi.errors import ClockError, LostState, SetupError
from ibi.identifier.dates import TICKS
from ibi.minting import WaitingRoom
from ibi.minting.moving import MOVED_AWAY, to_files, to_row
from ibi.minting.recovery import Recovery, recover
from ibi.minting.state import FOLDER, SENTENCES, WIDTH, StateFault, StateRecord
from ibi.minting.waiting_room import AHEAD
from support.machine import FalseMachine

DAY = 86_400 * TICKS
MARGIN = 4 * TICKS
NAME = "db.example/ibi"


class Row:
    """What `StateRow` is for a database; `events` is what was done with it."""

    name = NAME
    identity = "database"
    margin = MARGIN
    replica = None

    def __init__(self, record: StateRecord | None = None, fault: StateFault | None = None) -> None:
        self.record = record
        self.fault = fault
        self.new = record is None and fault is None
        self.is_latest = True
        self.confirmed = False
        self.events = list[str]()

    @contextmanager
    def alone(self) -> Iterator[Row]:
        yield self
        self.events.append("free")

    def close(self) -> None:
        self.events.append("close")

    def clock_confirmed(self, _now: int) -> bool:
        return self.confirmed

    def commit(self, record: StateRecord) -> None:
        self.record = record
        self.events.append("write")

    def create(self, record: StateRecord) -> None:
        self.commit(record._replace(machine=self.identity, file="-"))
        self.fault, self.new = None, False


def record_of(machine: FalseMachine, /, **more: Any) -> StateRecord:
    """The record of a row at this moment, which has given ten labels."""
    at, up = machine.at, machine.up
    return StateRecord(at, at, up, 10, "a-boot", Row.identity, "names", "-")._replace(**more)


def given(directory: Path, clock: FalseMachine) -> StateRecord:
    """The record of a data directory where some labels were given."""
    with WaitingRoom(directory, clock.machine) as waiting_room:
        waiting_room.reserve(TICKS // 1000, 3)
    return recorded(directory, "state")


def recorded(directory: Path, name: str) -> StateRecord:
    found = StateRecord.read((directory / FOLDER / name).read_bytes()[:WIDTH])
    assert found is not None
    return found


def moves_to(directory: Path, clock: FalseMachine, row: Row) -> None:
    to_row(directory, clock.machine, row)  # type: ignore[arg-type]  # it is used as one


def moves_back(row: Row, directory: Path, clock: FalseMachine) -> None:
    to_files(row, directory, clock.machine)  # type: ignore[arg-type]  # the same


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises((LostState, SetupError)) as refused:
        act()
    return str(refused.value)


def lost(fault: StateFault, place: object) -> str:
    return SENTENCES[fault].format(directory=place)


@pytest.mark.parametrize("passed", [0, 10 * TICKS])
def test_a_row_goes_on_later_than_all_that_the_files_have_reserved_and_they_stop(
    passed: int, tmp_path: Path
) -> None:
    clock, row = FalseMachine(), Row()
    before = given(tmp_path, clock)
    clock.pass_by(passed)
    moves_to(tmp_path, clock, row)
    last = clock.at + AHEAD + MARGIN
    assert row.record == before._replace(last=last, drawn=before.drawn + 1, machine=Row.identity, file="-")
    assert row.events == ["write", "free", "close"]
    assert not (tmp_path / FOLDER / "state").exists()
    assert recorded(tmp_path, "lock") == before
    assert refusal(lambda: given(tmp_path, clock)) == lost(StateFault.MISSING, tmp_path / FOLDER)
    moves_to(tmp_path, clock, row)  # once more, as after a move that was cut off at its very end
    assert row.events == ["write", "free", "close", "free", "close"]


def test_a_clock_that_is_behind_the_files_moves_no_date_back(tmp_path: Path) -> None:
    clock, row = FalseMachine(), Row()
    before = given(tmp_path, clock)
    clock.at -= DAY
    moves_to(tmp_path, clock, row)
    assert row.record == before._replace(drawn=before.drawn + 1, machine=Row.identity, file="-")


def test_a_move_that_was_cut_off_before_the_row_was_written_goes_on(tmp_path: Path) -> None:
    clock, row = FalseMachine(), Row()
    before = given(tmp_path, clock)
    (tmp_path / FOLDER / "state").unlink()
    moves_to(tmp_path, clock, row)
    assert row.record is not None
    assert (row.record.drawn, row.record.clock) == (before.drawn + 1, before.clock)


@pytest.mark.parametrize("fault", [StateFault.DAMAGED, StateFault.OTHER_MACHINE, StateFault.TOUCHED, None])
def test_a_row_that_others_may_use_is_left_as_it_is(fault: StateFault | None, tmp_path: Path) -> None:
    clock = FalseMachine()
    before = given(tmp_path, clock)
    row = Row(record_of(clock), fault)
    problem = refusal(lambda: moves_to(tmp_path, clock, row))
    assert problem == lost(fault or StateFault.OTHER_MACHINE, NAME)
    assert row.events == ["close"]
    assert recorded(tmp_path, "state") == before


def test_a_row_from_which_all_was_moved_away_or_lost_may_be_filled(tmp_path: Path) -> None:
    clock = FalseMachine()
    for number, row in enumerate(
        (
            Row(record_of(clock, machine=MOVED_AWAY), StateFault.OTHER_MACHINE),
            Row(None, StateFault.MISSING),
            Row(
                record_of(clock, machine=MOVED_AWAY, last=clock.at + DAY, clock=clock.at + DAY),
                StateFault.TOUCHED,
            ),
        )
    ):
        known = row.record
        before = given(tmp_path / str(number), clock)
        moves_to(tmp_path / str(number), clock, row)
        assert row.record is not None
        assert row.record == before._replace(
            last=max(clock.at + AHEAD + MARGIN, known.last if known else 0),
            clock=max(before.clock, known.clock if known else 0),
            drawn=1 + max(before.drawn, known.drawn if known else 0),
            machine=Row.identity, file="-",
        )  # fmt: skip


def test_files_that_cannot_be_trusted_are_not_moved(tmp_path: Path) -> None:
    clock, row = FalseMachine(), Row()
    new = tmp_path / "new"
    assert refusal(lambda: moves_to(new, clock, row)) == lost(StateFault.MISSING, new / FOLDER)
    given(tmp_path, clock)
    (tmp_path / FOLDER / "state").chmod(0o640)
    assert refusal(lambda: moves_to(tmp_path, clock, row)) == lost(StateFault.TOUCHED, tmp_path / FOLDER)
    assert row.events == ["close", "close"]
    (tmp_path / "file").touch()
    problem = f"labels cannot be made in {tmp_path}/file: Not a directory"
    assert refusal(lambda: moves_to(tmp_path / "file", clock, row)) == problem
    assert refusal(lambda: moves_back(Row(record_of(clock)), tmp_path / "file", clock)) == problem


@pytest.mark.parametrize("is_latest", [True, False])
def test_files_go_on_later_than_all_that_the_row_has_reserved_and_it_stops(
    is_latest: bool, tmp_path: Path
) -> None:
    clock = FalseMachine()
    known = record_of(clock, running=5)
    row = Row(known)
    row.is_latest = is_latest
    clock.pass_by(TICKS)
    moves_back(row, tmp_path, clock)
    assert row.record == known._replace(machine=MOVED_AWAY)
    assert row.events == ["write", "free", "close"]
    found = recorded(tmp_path, "state")
    assert found == recorded(tmp_path, "lock")
    last = clock.at + AHEAD + (0 if is_latest else MARGIN)
    assert found == StateRecord(
        last, known.clock, clock.up, 11, "first-boot", "this-machine", "names", found.file
    )
    row.fault = StateFault.OTHER_MACHINE  # as its database says of a record that names none
    moves_back(row, tmp_path / "again", clock)  # as after a move that was cut off
    assert recorded(tmp_path / "again", "state").drawn == 11


def test_files_that_were_stopped_before_count_too(tmp_path: Path) -> None:
    clock, row = FalseMachine(), Row()
    before = given(tmp_path, clock)
    moves_to(tmp_path, clock, row)
    row.record = record_of(clock, last=1, clock=1, drawn=1)
    clock.at -= DAY
    moves_back(row, tmp_path, clock)
    found = recorded(tmp_path, "state")
    assert (found.last, found.clock, found.drawn) == (before.last, before.clock, before.drawn + 1)


@pytest.mark.parametrize("fault", [StateFault.DAMAGED, StateFault.OTHER_MACHINE, None])
def test_a_row_that_cannot_be_trusted_is_not_moved(fault: StateFault | None, tmp_path: Path) -> None:
    clock = FalseMachine()
    row = Row(record_of(clock) if fault else None, fault)
    assert refusal(lambda: moves_back(row, tmp_path, clock)) == lost(fault or StateFault.MISSING, NAME)
    assert row.events == ["close"]
    assert list(tmp_path.iterdir()) == []


# --- a repair in a row ----------------------------------------------------------------------------------------------


def test_a_row_is_repaired_where_the_database_agrees_about_the_time(tmp_path: Path) -> None:
    clock = FalseMachine()
    known = record_of(clock, clock=clock.at - 3 * DAY)
    clock.synchronised = False
    row = Row(known)
    row.confirmed = True
    found = recover(tmp_path, clock.machine, row=row)  # type: ignore[arg-type]  # it is used as one
    last = clock.at + AHEAD + MARGIN
    assert found == Recovery(None, known.last, None, None, last)
    assert row.record == StateRecord(last, clock.at, clock.up, 11, "first-boot", Row.identity, "names", "-")
    assert row.events == ["write", "free", "close"]
    unsure = Row(known)
    with pytest.raises(ClockError, match="the clock is 3 days ahead"):
        recover(tmp_path, clock.machine, row=unsure)  # type: ignore[arg-type]  # the same
    assert (unsure.record, unsure.events) == (known, ["close"])


def test_a_row_of_another_database_is_repaired_only_if_that_one_gives_no_label(tmp_path: Path) -> None:
    clock = FalseMachine()
    row = Row(record_of(clock, machine="another"), StateFault.OTHER_MACHINE)

    def repair(*, moved: bool = False) -> Recovery:
        return recover(tmp_path, clock.machine, clock.at, moved=moved, row=row)  # type: ignore[arg-type]  # the same

    assert refusal(repair) == (
        f"{lost(StateFault.OTHER_MACHINE, NAME)}. If the other one will never give a label again, say so with "
        "--moved; if it goes on, use another host name or port here, in a new directory"
    )
    last = clock.at + AHEAD + MARGIN
    assert repair(moved=True) == Recovery(StateFault.OTHER_MACHINE, clock.at, None, clock.at, last)
    assert (row.fault, row.record and row.record.machine) == (None, Row.identity)
