"""The waiting room: no date is given twice, whatever crashes (G15 chapter 6, GEN-40 to GEN-44).

    lock · read the last date · distribute (pure) · COMMIT · release the lock · THEN WAIT until the dates are due

A draw whose first date is too far ahead waits before the commit, too (below: where the last date is kept).

A crash before the commit loses nothing. A crash after the commit burns the dates of the batch: they are never given.
The commit costs one sync, for one label or for a whole batch of dates that are drawn together.

All dates are multiples of the granularity (the grid). None is reserved more than AHEAD before its moment, so no draw
waits for long because of what others have reserved. A later draw gets later dates, also in another process. Each data
directory is one waiting room, even if the Archive changes its name; so is each database that the nodes of an Archive
share. Where the last date is kept (`MintingState`):

    state        files of the data directory: a draw that must wait for its date keeps their lock meanwhile
    state_row    a row in PostgreSQL: such a draw ends its transaction, waits, and tries again

The first date (note 10: the first label). In a new directory, the present clock plus AHEAD counts as the last date.
If someone else owned the prefix before, that owner reserved no later date; every date given here is later. So no
label is given twice, although nothing is known of that owner (GEN-06: one rule for all suffixes). The first label
therefore waits for at most AHEAD and one granularity (GEN-33: the creation date): 1.2 s with a granularity of a
second, 60.2 s with one of a minute.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from ibi.errors import ClockError, SetupError
from ibi.identifier.dates import TICKS
from ibi.identifier.distributor import distribute_many
from ibi.minting.clock import ClockLimits, behind, check_clock_reading
from ibi.minting.state import StateFiles, StateRecord
from ibi.runtime.settings import SubsystemSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from ibi.identifier.distributor import Batch
    from ibi.minting.machine import Machine

AHEAD = TICKS // 5
"""How far reserved dates may be ahead of the clock (note 9: when a label leaves): a fifth of a second, in ticks."""

_LONGEST_SLEEP = TICKS // 5  # nanoseconds; then the clock is read again, because it may have been set
_SHORTEST_SLEEP = TICKS // 1000  # nanoseconds; a shorter wait is not worth a sleep
# Ticks for which a process that was the last to draw lets others draw first. A label leaves when its date has come,
# which is later than that, so no label is delayed.
_TURN = AHEAD // 4
_LIMITS = ClockLimits()


class Overtaken(Exception):
    """Another process has drawn since the record was read; nothing was written."""


class LockedRecord(Protocol):
    """The last record, while no other process can read or change it.

    new           whether there is no record, nor anything else of ours
    drew_last     whether this process was the last to draw
    is_latest     True: the record has the last date that was reserved. False: later ones may have been reserved, as
                  the record may be an older one: after a kill, a change from outside, or a failover of the database
    identity      what the record names as its machine
    margin        by how many ticks the clocks of other nodes may be ahead of this one
    waits_locked  whether a draw whose first date is too far ahead waits under the lock. If not, it releases the lock,
                  waits, and tries again with a new `LockedRecord`
    """

    new: bool
    drew_last: bool
    is_latest: bool
    identity: str
    margin: int
    waits_locked: bool

    def clock_confirmed(self, now: int) -> bool:
        """Whether another clock agrees with ours, which reads `now`. Raises ClockError if it contradicts."""

    def trusted(self) -> StateRecord:
        """Return the record. Raises LostState if it cannot be trusted."""

    def commit(self, record: StateRecord) -> None:
        """Make a later record durable, at the end of the lock at the latest. Raises Overtaken."""

    def create(self, record: StateRecord) -> None:
        """Make the first record durable, or one that repairs it."""


class MintingState(Protocol):
    """Where the last record is kept; threads and processes may share it."""

    def prepare(self) -> None:
        """Make what the lock needs. Raises OSError, SetupError."""

    def locked(self) -> AbstractContextManager[LockedRecord]:
        """Yield the record under its lock. Raises OSError, SetupError."""

    def leave(self) -> None:
        """Release what is kept between draws, so that the next process can verify the record. Raises OSError."""


class WaitingRoom:
    """The waiting room of a data directory; enter it, then draw. Processes and threads may share it.

    `prefixes`: those of the labels. If they change, the last date becomes the present clock plus AHEAD,
    because labels with the new prefixes may have been given elsewhere. `machine` has the clock. `state`: where the
    last date is kept, if not in files of the directory.

    Raises SetupError if the directory cannot be used, and LostState if the last date cannot be trusted.
    """

    def __init__(
        self,
        directory: Path | str,
        machine: Machine,
        limits: ClockLimits = _LIMITS,
        prefixes: Sequence[str] = (),
        state: MintingState | None = None,
    ) -> None:
        self._directory = Path(directory).absolute()
        self._machine = machine
        self._limits = limits
        self._names = sha256(" ".join(prefixes).encode()).hexdigest()[:16]
        self._state = state or StateFiles(self._directory, machine.identity, machine.running)

    def __enter__(self) -> Self:
        several = self._directory / SubsystemSettings.FILE
        if several.exists():
            raise SetupError(
                "{path} lists several subsystems, each with a directory of its own", path=several
            )
        try:
            self._state.prepare()
            with self._state.locked() as state:
                self._last_record(state)
        except OSError as error:
            raise unusable(self._directory, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the state so that the next process can verify that it was not touched."""
        with suppress(OSError):
            self._state.leave()

    def reserve(self, granularity: int, count: int) -> Batch:
        """Draw up to `count` dates at once, at least one; they are durable, but not yet due.

        `granularity` in ticks, one of GRANULARITIES. Dates further than AHEAD of the clock are not given. Returns
        when the first date is at most AHEAD of it; a label may be given only when its date is due (GEN-40: a label
        leaves when it is due). Raises LostState, ClockError, and SetupError if the disk fails; then no date was
        given.
        """
        try:
            while True:
                try:
                    with self._state.locked() as state:
                        drawn = self._reserve(state, granularity, count)
                        margin, turn = state.margin, _TURN if state.drew_last else 0
                except Overtaken:
                    continue
                if not isinstance(drawn, int):
                    return drawn
                # The lock was not kept, so others may have waited for longer: they come first.
                self._wait(drawn + turn, longest=granularity + margin + turn)
        except OSError as error:
            raise unusable(self._directory, error) from error

    def _reserve(self, state: LockedRecord, granularity: int, count: int) -> Batch | int:
        """Draw under the lock, and wait there for the first date if the record `waits_locked`.

        If not, and the first date is too far ahead, draw nothing: return when to try again, a moment in ticks.
        """
        record = self._last_record(state)
        now = self._machine.now()
        last = record.last
        if not (state.is_latest and record.names == self._names):
            # The record may be an old one, without the latest labels. But given labels have past dates, and reserved
            # dates are less than AHEAD in the future.
            last = max(last, now + AHEAD + state.margin)
            if not state.waits_locked:
                # Written at once: the next try reads the record again, and would move the last date once more.
                self._check(state, record, now)
                record = record._replace(last=last, names=self._names)
                state.commit(record)
        while True:
            now = self._machine.now()
            self._check(state, record, now)
            batch = distribute_many(last, granularity, now, count, now + AHEAD)
            # The dates of a batch's head have come already. Without any, the draw waits until the first date is near.
            early = 0 if batch.head else batch.tail.start - AHEAD - now
            if early <= 0:
                state.commit(self._record(state, batch.last, record, now, len(batch)))
                return batch
            if not state.waits_locked:
                return now + early
            self._wait(now + early, longest=granularity)

    def _check(self, state: LockedRecord, record: StateRecord, now: int) -> None:
        """Check the clock, which reads `now`. Raises ClockError."""
        check_clock_reading(
            record, now, self._machine, self._limits, clock_confirmed=state.clock_confirmed(now)
        )

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
        """Wait until the clock has reached the date of a batch (ticks), even if a sleep ends early.

        Raises ClockError if the clock has gone back meanwhile, or stands still. See GEN-40: a label leaves when it is
        due.
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

    def _last_record(self, state: LockedRecord) -> StateRecord:
        """Return the last record; in a new directory, make the first record."""
        if state.new:
            machine, now = self._machine, self._machine.now()
            first = StateRecord(
                now + AHEAD, now, machine.running(), 0, machine.boot, state.identity, self._names
            )
            self._check(state, first, now)
            state.create(first)
        return state.trusted()

    def _record(
        self, state: LockedRecord, last: int, before: StateRecord, now: int, count: int
    ) -> StateRecord:
        """Return the record after a draw."""
        drawn = before.drawn + count
        # The later of two clock readings is kept, so that small steps back do not add up.
        if now < before.clock:
            return before._replace(last=last, drawn=drawn, names=self._names)
        machine = self._machine
        running = machine.running()
        return StateRecord(last, now, running, drawn, machine.boot, state.identity, self._names, before.file)


def unusable(directory: Path, error: OSError) -> SetupError:
    """Return the error for a data directory that the system refuses to use."""
    problem = "labels cannot be made in {path}: {reason}"
    return SetupError(problem, path=directory, reason=error.strerror or error)
