"""Checks whether the clock can be trusted (note 9: when a label leaves; T32: clock jumps).

A label has its date for ever, so no label may be made with a wrong clock. A clock is not trusted if

- its time is before the first label of the world, or at the end of the calendar;
- its time is more than two seconds before the time at the last label;
- it has advanced by over a day more than the machine has been running since the last label. After a restart
  it is not known how long the machine was off: then a clock is trusted unless it is known not to be
  synchronised.

Leap seconds, slews and small steps are within the limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ibi.errors import ClockError
from ibi.identifier.dates import TICKS, check_calendar, date_text
from ibi.identifier.ibip import EPOCH
from ibi.minting.machine import UNKNOWN

if TYPE_CHECKING:
    from ibi.minting.machine import Machine
    from ibi.minting.state import StateRecord


@dataclass(frozen=True)
class ClockLimits:
    """How far a clock may be off, in ticks; with `synchronised`, only a synchronised clock may mint."""

    back: int = 2 * TICKS
    """Ticks that a clock may step backwards (T32: clock jumps)."""
    forward: int = 86400 * TICKS
    """Ticks that a clock may step forwards (T32: clock jumps)."""
    synchronised: bool = False


def check_clock_reading(
    record: StateRecord, now: int, machine: Machine, limits: ClockLimits, *, clock_confirmed: bool = False
) -> None:
    """Check that a clock that reads `now` (ticks) can be trusted. Raises ClockError with what to do.

    `clock_confirmed`: the clock of the database agrees with ours. Then a record of another node needs no check by the
    time for which this machine has run.
    """
    if now < EPOCH * TICKS:
        raise ClockError(
            "the clock of this machine says {date}: it has not been set", date=date_text(max(0, now))
        )
    check_calendar(now)
    if now < record.clock - limits.back:
        raise behind(record.clock - now)
    if limits.synchronised and machine.synchronised() is False:
        raise ClockError("the clock of this machine is not synchronised; no label is given until it is")
    # A date from a clock that has leapt ahead does lasting harm: all later dates must come after it.
    ahead = _unexplained(record, now, machine, clock_confirmed=clock_confirmed)
    if ahead > limits.forward:
        problem = (
            "the clock is {days} days ahead of what is expected since the last label; if it is right, confirm it: "
            "ibi mint recover --data DIR --accept-clock"
        )
        raise ClockError(problem, days=ahead // (86400 * TICKS))


def behind(ticks: int) -> ClockError:
    """Return the error for a clock that has gone back by so many ticks."""
    problem = "the clock is {seconds} seconds behind the moment of the last label; no label is given until it is right"
    return ClockError(problem, seconds=ticks // TICKS)


def _unexplained(record: StateRecord, now: int, machine: Machine, *, clock_confirmed: bool) -> int:
    """Return how many ticks the clock has advanced beyond the machine's running time; 0 if it is confirmed."""
    passed = now - record.clock
    if record.boot == machine.boot != UNKNOWN:
        return passed - (machine.running() - record.running)
    return 0 if clock_confirmed or machine.synchronised() is not False else passed
