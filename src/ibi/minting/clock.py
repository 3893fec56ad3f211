"""When a clock is to be believed (note 9, threat T32). Pure: moments in, a verdict out.

A label's date is for ever, so a clock that is wrong must not spell one. What speaks against a clock:

- it stands before the first label of the world;
- it is behind what it showed at the last label;
- it has moved on by more than a day further than the machine has been running since. Across a restart nobody knows
  how long the machine was off; then a clock that is kept right by somebody is believed, another one is not.

Leap seconds, slews and small steps are within the limits and nothing special.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ibi.errors import ClockError
from ibi.identifier.dates import TICKS, date_text
from ibi.identifier.ibip import EPOCH
from ibi.minting.machine import UNKNOWN

if TYPE_CHECKING:
    from ibi.minting.machine import Machine
    from ibi.minting.record import Record


@dataclass(frozen=True)
class ClockLimits:
    """How far a clock may be off, in ticks; with `synchronised`, a clock that nobody keeps right mints nothing."""

    back: int = 2 * TICKS
    forward: int = 86400 * TICKS
    synchronised: bool = False


def believe(record: Record, now: int, machine: Machine, limits: ClockLimits) -> None:
    """Return if the clock may be believed that says `now` (ticks). Raises ClockError with what to do."""
    if now < EPOCH * TICKS:
        raise ClockError(
            "the clock of this machine says {date}: it has not been set", date=date_text(max(0, now))
        )
    if now < record.seen - limits.back:
        raise behind(record.seen - now)
    if limits.synchronised and machine.synchronised() is False:
        raise ClockError("the clock of this machine is not synchronised; no label is given until it is")
    ahead = _unexplained(record, now, machine)
    if ahead > limits.forward:
        problem = (
            "the clock is {days} days ahead of what is expected since the last label; if it is right, confirm it: "
            "ibi mint recover --accept-clock"
        )
        raise ClockError(problem, days=ahead // (86400 * TICKS))


def behind(ticks: int) -> ClockError:
    """The error of a clock that has gone back by so many ticks."""
    problem = "the clock is {seconds} seconds behind the moment of the last label; no label is given until it is right"
    return ClockError(problem, seconds=ticks // TICKS)


def _unexplained(record: Record, now: int, machine: Machine) -> int:
    """How far the clock has moved on, less what the machine's running time, or a kept clock, vouches for."""
    passed = now - record.seen
    if record.boot == machine.boot != UNKNOWN:
        return passed - (machine.running() - record.running)
    return 0 if machine.synchronised() is not False else passed
