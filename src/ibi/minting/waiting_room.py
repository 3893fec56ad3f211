"""The waiting room: no date is given twice, whatever crashes (G15 chapter 6, GEN-40 to GEN-44).

    lock · read the last date · distribute (pure) · COMMIT · release the lock · THEN WAIT until the dates are due

A crash before the commit loses nothing. A crash after the commit burns the dates of the batch: they are never given.
The commit costs one sync, for one label or for a whole batch of dates that are drawn together.

All dates are multiples of the granularity (the grid). None is reserved more than AHEAD before its moment, so a draw
waits for its own date only, and not for dates that others reserved long before. A later draw gets later dates, also
in another process. Each data directory is one waiting room, even if the Archive changes its name.

The first date (note 10). In a new directory, the present clock plus AHEAD counts as the last date. If someone else
owned the prefix before, that owner reserved no later date; every date given here is later. So no label is given
twice, although nothing is known of that owner (GEN-06). The first label therefore waits for at most AHEAD and one
granularity (GEN-33): 1.2 s with a granularity of a second, 60.2 s with one of a minute.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ibi.errors import ClockError, SetupError
from ibi.identifier.dates import TICKS
from ibi.identifier.distributor import distribute_many
from ibi.minting.clock import ClockLimits, behind, check_clock_reading
from ibi.minting.state import FOLDER, LockedState, StateFiles, StateRecord
from ibi.runtime.durable_files import make_folder
from ibi.runtime.settings import SubsystemSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.identifier.distributor import Batch
    from ibi.minting.machine import Machine

AHEAD = TICKS // 5
"""How far reserved dates may be ahead of the clock (note 9): a fifth of a second, in ticks."""

_LONGEST_SLEEP = TICKS // 5  # nanoseconds; then the clock is read again, because it may have been set
_SHORTEST_SLEEP = TICKS // 1000  # nanoseconds; a shorter wait is not worth a sleep
_LIMITS = ClockLimits()


class WaitingRoom:
    """The waiting room of a data directory; enter it, then draw. Processes and threads may share it.

    `prefixes`: those of the labels. If they change, the last date becomes the present clock plus AHEAD,
    because labels with the new prefixes may have been given elsewhere. `machine` has the clock.

    Raises SetupError if the directory cannot be used, and LostState if the last date cannot be trusted.
    """

    def __init__(
        self,
        directory: Path | str,
        machine: Machine,
        limits: ClockLimits = _LIMITS,
        prefixes: Sequence[str] = (),
    ) -> None:
        self._directory = Path(directory).absolute()
        self._machine = machine
        self._limits = limits
        self._names = sha256(" ".join(prefixes).encode()).hexdigest()[:16]
        self._files = StateFiles(self._directory, machine.identity, machine.running)
        self._has_drawn = False

    def __enter__(self) -> Self:
        several = self._directory / SubsystemSettings.FILE
        if several.exists():
            raise SetupError(
                "{path} lists several subsystems, each with a directory of its own", path=several
            )
        try:
            make_folder(self._directory / FOLDER)
            with self._files.locked() as state:
                self._last_record(state)
        except OSError as error:
            raise unusable(self._directory, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        """Note the last change of the state, so that the next process can verify that it was not touched."""
        # If another process is drawing now, it leaves later and notes the change.
        with suppress(OSError), self._files.locked(wait=False) as state:
            state.note_change()
            self._files.close()

    def reserve(self, granularity: int, count: int) -> Batch:
        """Draw up to `count` dates at once, at least one; they are durable, but not yet due.

        `granularity` in ticks, one of GRANULARITIES. Dates further than AHEAD of the clock are not given.
        Returns when the first date is at most AHEAD of it; a label may be given only when its date is due
        (GEN-40). Raises LostState, ClockError, and SetupError if the disk fails; then no date was given.
        """
        try:
            with self._files.locked() as state:
                return self._reserve(state, granularity, count)
        except OSError as error:
            raise unusable(self._directory, error) from error

    def _reserve(self, state: LockedState, granularity: int, count: int) -> Batch:
        record = self._last_record(state)
        # A file that is not verified may be an old file without the latest labels. But given labels have past
        # dates, and reserved dates are less than AHEAD in the future.
        sure = (state.verified or self._has_drawn) and record.names == self._names
        last = record.last if sure else max(record.last, self._machine.now() + AHEAD)
        while True:
            now = self._machine.now()
            check_clock_reading(record, now, self._machine, self._limits)
            batch = distribute_many(last, granularity, now, count, now + AHEAD)
            # The dates of a batch's head have come already. Without any, the draw waits until the first date is near.
            early = 0 if batch.head else batch.tail.start - AHEAD - now
            if early <= 0:
                state.commit(self._record(batch.last, record, now, len(batch)))
                self._has_drawn = True
                return batch
            self._wait(now + early, longest=granularity)

    def draw(self, granularity: int) -> int:
        """Draw the next date and wait until it is due (Algorithm 4). Raises the errors of `reserve`."""
        batch = self.reserve(granularity, 1)
        if batch.tail:
            self.wait_until(batch.last)
        return batch.last

    @property
    def furthest(self) -> int:
        """How far a reserved date may be ahead of a trusted clock, in ticks."""
        return AHEAD + self._limits.back

    def now(self) -> int:
        """Return the time of the clock, in ticks."""
        return self._machine.now()

    def wait_until(self, moment: int) -> None:
        """Wait until the clock has reached the date of a batch (ticks), even if a sleep ends early (GEN-40).

        Raises ClockError if the clock has gone back meanwhile, or stands still.
        """
        self._wait(moment, longest=AHEAD)

    def _wait(self, moment: int, longest: int) -> None:
        """Wait for a moment; a right clock is at most `longest` (ticks) before it."""
        began, most = self._machine.running(), longest + self._limits.back
        while (left := moment - self._machine.now()) > 0:
            if left > most:
                raise behind(left - longest)
            if self._machine.running() - began > most:
                raise ClockError(
                    "the clock of this machine stands still; no label is given until it is right"
                )
            # Short sleeps, because the clock may be set meanwhile.
            self._machine.sleep(max(_SHORTEST_SLEEP, min(left, _LONGEST_SLEEP)) / TICKS)

    def _last_record(self, state: LockedState) -> StateRecord:
        """Return the last record; in a new directory, make the first record."""
        if state.new:
            machine, now = self._machine, self._machine.now()
            first = StateRecord(
                now + AHEAD, now, machine.running(), 0, machine.boot, machine.identity, self._names
            )
            check_clock_reading(first, now, machine, self._limits)
            state.create(first)
        return state.trusted()

    def _record(self, last: int, before: StateRecord, now: int, count: int) -> StateRecord:
        """Return the record after a draw."""
        drawn = before.drawn + count
        # The later of two clock readings is kept, so that small steps back do not add up.
        if now < before.clock:
            return before._replace(last=last, drawn=drawn, names=self._names)
        machine = self._machine
        running = machine.running()
        return StateRecord(
            last, now, running, drawn, machine.boot, machine.identity, self._names, before.file
        )


def unusable(directory: Path, error: OSError) -> SetupError:
    """Return the error for a data directory that the system refuses to use."""
    problem = "labels cannot be made in {path}: {reason}"
    return SetupError(problem, path=directory, reason=error.strerror or error)
