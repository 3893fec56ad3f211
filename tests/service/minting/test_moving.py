"""A waiting room moves from files to a row and back, is cut off on the way, and gives no date twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ibi.errors import LostState
from ibi.identifier.dates import TICKS
from ibi.minting import moving
from ibi.minting.moving import to_files, to_row
from ibi.minting.state_row import LockedRow
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
