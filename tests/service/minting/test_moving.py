"""A waiting room moves from files to a row and back, is cut off on the way, and gives no date twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ibi.errors import LostState, SetupError
from ibi.identifier.dates import TICKS
from ibi.minting import moving
from ibi.minting.moving import MOVED_AWAY, to_files, to_row
from ibi.minting.state import FOLDER, SENTENCES, StateFault, StateRecord
from ibi.minting.state_row import MARGIN, LockedRow
from ibi.minting.waiting_room import AHEAD
from support.engines.postgresql import PostgreSQL
from support.machine import FalseMachine, waiting_room_at
from support.minting.rows import Rows

MILLISECOND = TICKS // 1000


@pytest.fixture
def rows(postgresql: PostgreSQL) -> Iterator[Rows]:
    rows = Rows(postgresql)
    yield rows
    rows.close()


def drawn(rows: Rows | None, directory: Path, clock: FalseMachine) -> list[int]:
    """Some dates from the row, or from the files."""
    with rows.at(directory, clock) if rows else waiting_room_at(directory, clock) as waiting_room:
        return [waiting_room.draw(MILLISECOND), *waiting_room.reserve(MILLISECOND, 50)]


@pytest.mark.proves("GEN-02", "GEN-44")
def test_dates_go_on_to_increase_from_files_to_the_row_and_back(tmp_path: Path, rows: Rows) -> None:
    clock = FalseMachine()
    dates = drawn(None, tmp_path, clock)
    for _ in range(2):
        to_row(tmp_path, clock.machine, rows.row(tmp_path, clock.machine))
        with pytest.raises(LostState, match="missing"):
            drawn(None, tmp_path, clock)
        dates += drawn(rows, tmp_path, clock)
        to_files(rows.row(tmp_path, clock.machine), tmp_path, clock.machine)
        with pytest.raises(LostState, match="made by another machine"):
            drawn(rows, tmp_path, clock)
        dates += drawn(None, tmp_path, clock)
    assert dates == sorted(set(dates))


@pytest.mark.proves("GEN-44")
def test_a_move_that_was_cut_off_leaves_no_place_that_mints_and_can_be_made_again(
    tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FalseMachine()
    dates = drawn(None, tmp_path, clock)
    row = rows.row(tmp_path, clock.machine)
    with monkeypatch.context() as patch:
        patch.setattr(LockedRow, "create", _cut_off)
        with pytest.raises(KeyboardInterrupt):
            to_row(tmp_path, clock.machine, row)
    with pytest.raises(LostState, match="missing"):
        drawn(None, tmp_path, clock)
    to_row(tmp_path, clock.machine, row)
    dates += drawn(rows, tmp_path, clock)
    with monkeypatch.context() as patch:
        patch.setattr(moving, "StateFiles", _cut_off)
        with pytest.raises(KeyboardInterrupt):
            to_files(row, tmp_path, clock.machine)
    with pytest.raises(LostState, match="missing"):
        drawn(None, tmp_path, clock)
    with pytest.raises(LostState, match="made by another machine"):
        drawn(rows, tmp_path, clock)
    for _ in range(2):  # once more than is needed
        to_files(row, tmp_path, clock.machine)
    dates += drawn(None, tmp_path, clock)
    assert dates == sorted(set(dates))


@pytest.mark.proves("GEN-44")
def test_files_go_on_after_the_latest_date_that_they_remember_even_if_the_row_was_not_so_far(
    tmp_path: Path, rows: Rows
) -> None:
    clock, ahead = FalseMachine(), FalseMachine()
    ahead.pass_by(3600 * TICKS)
    there = drawn(None, tmp_path / "files", ahead)
    (tmp_path / "files/minting/state").unlink()  # its replica is left
    dates = drawn(rows, tmp_path / "row", clock)
    assert dates[-1] < there[0]
    to_files(rows.row(tmp_path / "row", clock.machine), tmp_path / "files", clock.machine)
    clock.pass_by(3600 * TICKS)  # the last date is no longer ahead of the clock
    assert drawn(None, tmp_path / "files", clock)[0] > there[-1]


def _cut_off(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_row_in_use_is_not_written_over_and_a_damaged_state_is_not_moved(
    tmp_path: Path, rows: Rows
) -> None:
    clock = FalseMachine()
    drawn(rows, tmp_path / "used", clock)
    drawn(None, tmp_path / "used", clock)
    with pytest.raises(LostState):
        to_row(tmp_path / "used", clock.machine, rows.row(tmp_path / "used", clock.machine))
    drawn(None, tmp_path / "damaged", clock)
    (tmp_path / "damaged/minting/state").write_bytes(b"")
    with pytest.raises(LostState, match="damaged"):
        to_row(tmp_path / "damaged", clock.machine, rows.row(tmp_path / "damaged", clock.machine))


def records(rows: Rows, directory: Path) -> StateRecord:
    """The record of the row that stands for a directory."""
    with rows.engines[str(directory)].connect() as connection:
        line = connection.exec_driver_sql("SELECT record FROM waiting_room").scalar_one()
    record = StateRecord.read(line.encode())
    assert record is not None
    return record


@pytest.mark.proves("GEN-44")
@pytest.mark.parametrize("later", [0, 60 * TICKS])
def test_the_new_place_begins_after_all_that_either_has_reserved_and_counts_one_more(
    tmp_path: Path, rows: Rows, later: int
) -> None:
    clock = FalseMachine()
    last = max(drawn(None, tmp_path, clock))
    clock.pass_by(later)
    to_row(tmp_path, clock.machine, rows.row(tmp_path, clock.machine))
    moved = records(rows, tmp_path)
    assert moved.last == max(last, clock.at + AHEAD + MARGIN)
    assert (moved.drawn, moved.file) == (52, "-")
    last = max(drawn(rows, tmp_path, clock))
    clock.pass_by(later)
    to_files(rows.row(tmp_path, clock.machine), tmp_path, clock.machine)
    assert records(rows, tmp_path).machine == MOVED_AWAY
    record = StateRecord.read((tmp_path / FOLDER / "state").read_bytes())
    assert record is not None
    assert record.last == max(last, clock.at + AHEAD)
    assert (record.drawn, record.machine, record.boot, record.running) == (
        104,
        clock.identity,
        clock.boot,
        clock.up,
    )


@pytest.mark.proves("GEN-44")
def test_after_a_failover_the_files_begin_after_what_other_nodes_may_have_reserved(
    tmp_path: Path, rows: Rows
) -> None:
    clock = FalseMachine()
    drawn(rows, tmp_path, clock)
    with rows.engines[str(tmp_path)].begin() as connection:
        connection.exec_driver_sql(
            "UPDATE waiting_room SET timeline = '0000000A', written = pg_current_xact_id()"
        )
    to_files(rows.row(tmp_path, clock.machine), tmp_path, clock.machine)
    record = StateRecord.read((tmp_path / FOLDER / "state").read_bytes())
    assert record is not None
    assert record.last == clock.at + AHEAD + MARGIN


def test_a_missing_row_beside_other_rows_of_ours_is_written(tmp_path: Path, rows: Rows) -> None:
    clock = FalseMachine()
    dates = drawn(None, tmp_path, clock)
    row = rows.row(tmp_path, clock.machine)
    rows.used = True
    to_row(tmp_path, clock.machine, row)
    assert min(drawn(rows, tmp_path, clock)) > max(dates)


def test_the_files_are_stopped_for_good_before_the_row_begins(
    tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, stopped = FalseMachine(), list[str]()
    drawn(None, tmp_path, clock)
    row, sync = rows.row(tmp_path, clock.machine), os.fsync

    def noted(handle: int) -> None:
        if not (tmp_path / FOLDER / "state").exists():
            stopped.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        sync(handle)

    def cut_off(*_: object) -> None:
        assert stopped == [FOLDER]
        _cut_off()

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(LockedRow, "create", cut_off)
    with pytest.raises(KeyboardInterrupt):
        to_row(tmp_path, clock.machine, row)


def test_what_is_not_moved_is_one_sentence(tmp_path: Path, rows: Rows) -> None:
    clock = FalseMachine()
    used, new = tmp_path / "used", tmp_path / "new"
    drawn(rows, used, clock)
    drawn(None, used, clock)
    row = rows.row(used, clock.machine)
    with pytest.raises(LostState) as refused:
        to_row(used, clock.machine, row)
    assert str(refused.value) == SENTENCES[StateFault.OTHER_MACHINE].replace("{directory}", row.name)
    row = rows.row(new, clock.machine)
    for where, act in (
        (f"{new}/{FOLDER}", partial(to_row, new, clock.machine, row)),
        (row.name, partial(to_files, row, new, clock.machine)),
    ):
        with pytest.raises(LostState) as refused:
            act()
        assert str(refused.value) == SENTENCES[StateFault.MISSING].replace("{directory}", where)
    (tmp_path / "file").touch()
    for act in (
        partial(to_row, tmp_path / "file", clock.machine, row),
        partial(to_files, rows.row(used, clock.machine), tmp_path / "file", clock.machine),
    ):
        with pytest.raises(SetupError, match=f"labels cannot be made in {tmp_path}/file: Not a directory"):
            act()
