"""The waiting room: no label twice, whatever crashes (G15 chapter 6, GEN-40 to GEN-44).

    lock · read the last date · distribute (pure) · COMMIT · release the lock · THEN WAIT until the dates are due

A crash before the commit loses nothing; a crash after it burns labels that nobody has seen. The commit costs one
sync, for one label or for a whole batch: dates drawn together at one moment. A batch runs at most AHEAD of the clock
and so does, for whoever draws next, the last date: who asks after a label was handed out gets a later one, from
whichever process.

One data directory is one waiting room. An Archive that changes its name keeps its order of dates.

The first date (note 10). A new directory takes the present clock plus AHEAD, to the tick, as its last date, and never
less. Whoever minted under the prefix before reserved no date later than that; every date given here is on a grid point
*after* it; so nothing is met again, without any knowledge of the old owner (GEN-06). The price is a wait past the next
point of the grid that is asked for, the coarsest grid on which the first label can lie: at most AHEAD and one r
(GEN-33), a second by default and a minute for r = 60.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ibi.errors import ClockError, SetupError
from ibi.identifier.dates import TICKS
from ibi.identifier.distributor import coarsest_for, distribute_many
from ibi.minting.clock import ClockLimits, behind, believe
from ibi.minting.record import Record
from ibi.minting.state import State, StateFiles, make_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.identifier.distributor import Batch
    from ibi.minting.machine import Machine

AHEAD = TICKS // 5
"""How far reserved dates may lie ahead of the clock (note 9): a fifth of a second, in ticks."""

_LONGEST_SLEEP = TICKS // 5  # then the clock is read again, in case it was set
_SHORTEST_SLEEP = TICKS // 1000
_LIMITS = ClockLimits()


class WaitingRoom:
    """The waiting room of one data directory; enter it with `with`, then draw. Processes and threads share it safely.

    Raises SetupError where the directory cannot be used and LostState where the last date is not to be trusted.
    """

    def __init__(self, directory: Path | str, machine: Machine, limits: ClockLimits = _LIMITS) -> None:
        self._directory = Path(directory)
        self._machine = machine
        self._limits = limits
        self._files = StateFiles(self._directory, machine.identity, machine.running)
        self._has_drawn = False

    def __enter__(self) -> Self:
        with usable(self._directory):
            make_folder(self._directory)
            with self._locked() as state:
                state.trusted()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the state so that the next one knows that nobody has touched it since."""
        with suppress(OSError):
            if self._has_drawn:
                with self._files.locked() as state:
                    state.settle()
        self._files.close()

    def reserve(self, granularity: int | None, count: int) -> Batch:
        """Draw up to `count` dates at once, at least one; they are durable, but not yet due.

        `granularity` in ticks, one of GRANULARITIES; None: the coarsest that gives `count` labels in a second. Fewer
        dates are given where more would run further than AHEAD of the clock. Returns once the first date is at most
        AHEAD; whoever hands out a label first waits until it is due (GEN-40). Raises LostState, ClockError, and
        SetupError when the disk fails; after an error, no date was given.
        """
        step = granularity or coarsest_for(count)
        with usable(self._directory), self._locked() as state:
            record = state.trusted()
            sure = state.vouched or self._has_drawn
            last = record.last if sure else max(record.last, self._machine.now() + AHEAD)
            while True:
                now = self._machine.now()
                believe(record, now, self._machine, self._limits)
                batch = distribute_many(last, step, now, count, now + AHEAD)
                early = 0 if batch.head else batch.tail.start - AHEAD - now
                if early <= 0:
                    state.commit(self._record(batch.last, record, now, len(batch)))
                    self._has_drawn = True
                    return batch
                self._wait(now + early, longest=step)

    def draw(self, granularity: int) -> int:
        """Draw the next date and wait until it is due (Algorithm 4); raises as `reserve`."""
        batch = self.reserve(granularity, 1)
        if batch.tail:
            self.wait_until(batch.last)
        return batch.last

    def now(self) -> int:
        """The clock, in ticks."""
        return self._machine.now()

    def wait_until(self, moment: int) -> None:
        """Return when the clock has reached the date of a batch, in ticks: a sleep may end early (GEN-40).

        Raises ClockError if the clock has gone back meanwhile, or stands still.
        """
        self._wait(moment, longest=AHEAD)

    def _wait(self, moment: int, longest: int) -> None:
        """Wait; a right clock is at most `longest` (ticks) before the moment."""
        began, most = self._machine.running(), longest + self._limits.back
        while (left := moment - self._machine.now()) > 0:
            if left > most:
                raise behind(left - longest)
            if self._machine.running() - began > most:
                raise ClockError(
                    "the clock of this machine stands still; no label is given until it is right"
                )
            self._machine.sleep(max(_SHORTEST_SLEEP, min(left, _LONGEST_SLEEP)) / TICKS)

    @contextmanager
    def _locked(self) -> Iterator[State]:
        with self._files.locked() as state:
            if state.new:
                now = self._machine.now()
                machine = self._machine
                first = Record(now + AHEAD, now, machine.running(), 0, machine.boot, machine.identity)
                believe(first, now, self._machine, self._limits)
                state.found(first)
            yield state

    def _record(self, last: int, before: Record, now: int, count: int) -> Record:
        """What is to be remembered; of two clocks the later one, so that small steps back do not add up."""
        drawn = before.drawn + count
        if now < before.seen:
            return before._replace(last=last, drawn=drawn)
        machine = self._machine
        return Record(last, now, machine.running(), drawn, machine.boot, machine.identity, before.file)


@contextmanager
def usable(directory: Path) -> Iterator[None]:
    """Turn what the system says about a data directory into a SetupError."""
    try:
        yield
    except OSError as error:
        problem = "labels cannot be made in {path}: {reason}"
        raise SetupError(problem, path=directory, reason=error.strerror or error) from error
