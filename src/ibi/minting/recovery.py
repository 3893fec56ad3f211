"""Repairs a state that cannot mint: finds a last date that is not earlier than any given label (AMB-18: lost state).

The new last date is the latest of all that can be found: the state and its replica if they can be read, the
labels of the items that are held, and the present clock. The clock counts because no label is given before
its moment. So the repair is right if this clock is not behind the clock by which the lost labels were given.
A sound state is advanced to the present, too, which repairs a machine that was set back as a whole.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.errors import ClockError, IbiError, LostState, SetupError
from ibi.identifier.dates import date_text
from ibi.minting.clock import ClockLimits, check_clock_reading
from ibi.minting.machine import UNKNOWN
from ibi.minting.state import FOLDER, OURS, SENTENCES, StateFault, StateFiles, StateRecord
from ibi.minting.waiting_room import AHEAD, unusable
from ibi.runtime.durable_files import make_folder

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.minting.machine import Machine
    from ibi.minting.state import LockedState
    from ibi.minting.state_row import LockedRow, StateRow


@dataclass(frozen=True)
class Recovery:
    """The dates that were found (in ticks; None: not found), and the new last date."""

    fault: StateFault | None
    state: int | None
    replica: int | None
    labels: int | None
    last: int


_ELSEWHERE: Final = frozenset({SENTENCES[StateFault.OTHER_MACHINE], SENTENCES[StateFault.COPIED]})


def repair_command(error: LostState, data: Path) -> IbiError:
    """Return the command that repairs the lost state of a data directory, as a sentence."""
    if error.problem in _ELSEWHERE:
        problem = "if the other one never gives a label again: ibi mint recover --data {data} --moved"
        return IbiError(problem, data=data)
    return IbiError("labels wait until it is repaired: ibi mint recover --data {data}", data=data)


def recover(
    directory: Path,
    machine: Machine,
    labels: int | None = None,
    *,
    moved: bool = False,
    clock_right: bool = False,
    row: StateRow | None = None,
) -> Recovery:
    """Repair the state of a data directory, or of the database that its Archive has (`row`).

    `labels`: the latest date of all labels that are known from elsewhere, in ticks. `moved`: the operator
    asserts that no process mints from the original of a copied state any more. `clock_right`: the operator
    asserts that the clock is right although it has leapt. Raises LostState and ClockError if such an
    assertion is needed, and SetupError if there is nothing to repair.
    """
    if row is not None:
        with closing(row), row.alone() as locked:
            _refuse_elsewhere(locked, row.name, moved=moved)
            return _repair(locked, machine, labels or 0, clock_right=clock_right)
    if not any((directory / name).exists() for name in (FOLDER, *OURS)):
        raise SetupError("there is nothing to recover in {path}: no label was given there", path=directory)
    try:
        make_folder(directory / FOLDER)
        files = StateFiles(directory, machine.identity, machine.running)
        with closing(files), files.locked() as state:
            _refuse_elsewhere(state, directory / FOLDER, moved=moved)
            return _repair(state, machine, labels or 0, clock_right=clock_right)
    except OSError as error:
        raise unusable(directory, error) from error


def _refuse_elsewhere(state: LockedState | LockedRow, directory: Path | str, *, moved: bool) -> None:
    """Refuse a state that another machine or database may go on with, unless the operator denies it."""
    elsewhere = any(record.machine != state.identity for record in _records(state))
    if (elsewhere or state.fault in {StateFault.OTHER_MACHINE, StateFault.COPIED}) and not moved:
        found = LostState(SENTENCES[state.fault or StateFault.OTHER_MACHINE], directory=directory)
        problem = (
            "{found}. If the other one will never give a label again, say so with --moved; if it goes on, "
            "use another host name or port here, in a new directory"
        )
        raise LostState(problem, found=found)


def _repair(state: LockedState | LockedRow, machine: Machine, labels: int, *, clock_right: bool) -> Recovery:
    now = machine.now()
    confirmed = state.clock_confirmed(now)
    records = _records(state)
    # No label is given before its moment, so no date is later than the clocks plus AHEAD.
    furthest = now + AHEAD + state.margin
    last = max(furthest, labels, *(record.last for record in records))
    known = records[0] if records else None
    names = known.names if known else UNKNOWN
    # More than in any old file: if one turns up again, it counts as older than this state.
    drawn = 1 + max((record.drawn for record in records), default=0)
    fresh = StateRecord(last, now, machine.running(), drawn, machine.boot, machine.identity, names)
    before = fresh if clock_right else known or fresh
    check_clock_reading(before, now, machine, ClockLimits(), clock_confirmed=confirmed)
    if last > furthest:
        problem = "a label of {date} has been given, and the clock says {now}: it is behind, or was far ahead"
        raise ClockError(problem, date=date_text(last), now=date_text(now))
    in_state, in_replica = (record and record.last for record in (state.record, state.replica))
    found = Recovery(state.fault, in_state, in_replica, labels or None, last)
    state.create(fresh)
    return found


def _records(state: LockedState | LockedRow) -> list[StateRecord]:
    """Return the readable records of the state and of its replica."""
    return [record for record in (state.record, state.replica) if record is not None]
