"""Moves a waiting room from the files of a data directory into the row of a database, and back.

The old place stops first, and for ever; then the new one begins, later than every date that was reserved. A move that
is cut off in between can be made again: the old place still tells how far its dates had come.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from ibi.errors import LostState
from ibi.minting.state import FOLDER, SENTENCES, StateFault, StateFiles, StateRecord
from ibi.minting.waiting_room import AHEAD, unusable
from ibi.runtime.durable_files import flush_folder

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.minting.machine import Machine
    from ibi.minting.state import LockedState
    from ibi.minting.state_row import LockedRow, StateRow

MOVED_AWAY: Final = "moved-away"
"""Stands in a row instead of its database once its waiting room is in files: it then counts as moved."""


def to_row(directory: Path, machine: Machine, row: StateRow) -> None:
    """Move the waiting room of a data directory into an empty row, or one that was moved away before.

    Raises LostState if either cannot be trusted, SetupError.
    """
    files = StateFiles(directory, machine.identity, machine.running)
    try:
        files.prepare()
        with closing(row), row.alone() as new, closing(files), files.locked() as old:
            if new.fault is None and new.record is not None and _is_stopped(old) and not _is_moved_away(new):
                return  # a move that was cut off has begun it
            if not (new.new or new.fault is StateFault.MISSING or _is_moved_away(new)):
                raise LostState(SENTENCES[new.fault or StateFault.OTHER_MACHINE], directory=row.name)
            record = _readable(old, directory)
            # Without its state, but with its replica, a folder counts as lost.
            (directory / FOLDER / "state").unlink(missing_ok=True)
            flush_folder(directory / FOLDER)
            new.create(_later(record, new.record, machine.now() + AHEAD + new.margin))
    except OSError as error:
        raise unusable(directory, error) from error


def to_files(row: StateRow, directory: Path, machine: Machine) -> None:
    """Move the waiting room of a row into the files of a data directory. Raises LostState, SetupError."""
    with closing(row), row.alone() as old:
        record = old.record
        if record is None or not (old.fault is None or _is_moved_away(old)):
            raise LostState(SENTENCES[old.fault or StateFault.MISSING], directory=row.name)
        margin = 0 if old.is_latest else old.margin
        old.commit(record._replace(machine=MOVED_AWAY))
        earliest = machine.now() + AHEAD + margin
    files = StateFiles(directory, machine.identity, machine.running)
    try:
        files.prepare()
        with closing(files), files.locked() as new:
            fresh = record._replace(machine=machine.identity, boot=machine.boot, running=machine.running())
            new.create(_later(fresh, new.record or new.replica, earliest))
    except OSError as error:
        raise unusable(directory, error) from error


def _is_stopped(files: LockedState) -> bool:
    return files.fault is StateFault.MISSING and files.replica is not None


def _is_moved_away(row: LockedRow) -> bool:
    return row.record is not None and row.record.machine == MOVED_AWAY


def _readable(files: LockedState, directory: Path) -> StateRecord:
    """Return the record of files that can be trusted, or were stopped by a move before. Raises LostState."""
    if files.fault is None and files.record is not None:
        return files.record
    if _is_stopped(files) and files.replica is not None:
        return files.replica
    raise LostState(SENTENCES[files.fault or StateFault.MISSING], directory=directory / FOLDER)


def _later(record: StateRecord, other: StateRecord | None, earliest: int) -> StateRecord:
    """Return a record that is later than both, counts more labels, and gives no date before `earliest`."""
    known = [record] if other is None else [record, other]
    last = max(earliest, *(each.last for each in known))
    return record._replace(
        last=last, clock=max(each.clock for each in known), drawn=1 + max(each.drawn for each in known)
    )
