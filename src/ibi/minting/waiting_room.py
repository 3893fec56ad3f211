"""The waiting room: one label at a time, never the same twice, whatever crashes (G15 chapter 6, GEN-40 to GEN-44).

    lock · read the last date · distribute (pure) · COMMIT · THEN WAIT for the creation date · release

A crash before the commit loses nothing; a crash after it burns a label that nobody has seen. So it stands in
DIR/minting:

    lock     held by the one who draws; it also keeps a copy of the last record, as a witness
    state    the last record: version, last date, clock then, how many drawn, and a checksum; integers only

One data directory is one waiting room. An Archive that changes its name keeps its order of dates.

The first date (note 10). A new directory takes the present clock, to the tick, as its last date, and never less.
Whoever owned the prefix before gave no date later than its own clock; every date given here is on a grid point
*after* the start; so nothing is met again, without any knowledge of the old owner (GEN-06). The price is a wait
past the next point of the grid that is asked for, the coarsest grid on which the first label can lie: at most one r
(GEN-33), a second by default and a minute for r = 60.

What it cannot see: a whole directory put back from a backup, state and witness alike.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self
from zlib import crc32

from ibi.errors import ClockError, LostState, SetupError
from ibi.identifier.dates import TICKS
from ibi.identifier.distributor import Slot, distribute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOLERANCE = 2 * TICKS
"""How far a clock may go back before it is called faulty (note 9)."""

OURS = ("archive.toml", "catalogue.sqlite", "col", "resolver.toml", "registry.sqlite")
"""What Archives and resolvers leave in a data directory: beside these, a missing state is a lost one."""

_FOLDER = "minting"
_VERSION = 1
_WIDTH = 128  # a witness is overwritten in place, so all have one length
_LINE = re.compile(rb"[0-9]+ ([0-9]{1,30}) ([0-9]{1,30}) ([0-9]{1,30}) [0-9]+ *\n")
_LONGEST_SLEEP = 1.0  # seconds; then the clock is read again, in case it was set


class _Record(NamedTuple):
    """What is remembered. `last`: the last date given; `seen`: the clock then; both in ticks. `drawn`: a count."""

    last: int
    seen: int
    drawn: int

    def line(self) -> bytes:
        body = f"{_VERSION} {self.last} {self.seen} {self.drawn}"
        return f"{body} {crc32(body.encode())}".ljust(_WIDTH - 1).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> _Record | None:
        """The record that a line holds; None if it is damaged in any way."""
        match = _LINE.fullmatch(line)
        record = cls(*map(int, match.groups())) if match else None
        return record if record and record.line() == line else None


class WaitingRoom:
    """The waiting room of one data directory; enter it with `with`, then draw. Processes and threads share it safely.

    `now` tells the clock in ticks (nanoseconds of POSIX time); `sleep` takes seconds. Raises SetupError where the
    directory cannot be used and LostState where the last date is missing or damaged.
    """

    def __init__(
        self, directory: Path | str, now: Callable[[], int], sleep: Callable[[float], object]
    ) -> None:
        self._directory = Path(directory)
        self._folder = self._directory / _FOLDER
        self._now = now
        self._sleep = sleep

    def __enter__(self) -> Self:
        with _usable(self._directory):
            new = not self._folder.exists()
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if new:
                _flush_folder(self._directory)
            with self._locked() as lock:
                self._recall(lock)
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing stays open between draws."""

    def draw(self, granularity: int) -> Slot:
        """Draw the next date and wait until it has come (Algorithm 4). `granularity` in ticks, one of GRANULARITIES.

        Raises LostState, ClockError when the clock has gone back by more than TOLERANCE, and SetupError when the
        disk fails; after an error, no label was given.
        """
        with _usable(self._directory), self._locked() as lock:
            record, now = self._recall(lock), self._now()
            if now < record.seen - TOLERANCE:
                raise _clock_error(record.seen - now)
            slot = distribute(record.last, granularity, now)
            self._commit(lock, _Record(slot.date, now, record.drawn + 1))
            self._wait(slot)
            if slot.wait > TOLERANCE:  # the clock has moved on meanwhile, so a later fault would be seen
                self._commit(lock, _Record(slot.date, slot.creation, record.drawn + 2))
        return slot

    def _wait(self, slot: Slot) -> None:
        """Until the clock has reached the creation date: a sleep may end early (GEN-40)."""
        while (left := slot.creation - self._now()) > 0:
            if left > slot.wait + TOLERANCE:
                raise _clock_error(left - slot.wait)
            self._sleep(min(left / TICKS, _LONGEST_SLEEP))

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The lock file, open and ours alone; opened anew each time, so that threads exclude each other too."""
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock
        finally:
            os.close(lock)

    def _recall(self, lock: int) -> _Record:
        """The last record; in a new directory, the first."""
        witness = os.pread(lock, _WIDTH + 1, 0)
        try:
            state = (self._folder / "state").read_bytes()
        except FileNotFoundError:
            if witness or any((self._directory / name).exists() for name in OURS):
                problem = (
                    "the minting state in {directory} is missing, so the next label might be a second one"
                )
                raise LostState(problem, directory=self._folder) from None
            now = self._now()
            first = _Record(now, now, 0)
            self._commit(lock, first)
            os.fsync(lock)
            _flush_folder(self._folder)
            return first
        record, copy = _Record.read(state), _Record.read(witness)
        if record is None or (copy is None and (witness or record.drawn)):
            problem = "the minting state in {directory} is damaged, so the next label might be a second one"
            raise LostState(problem, directory=self._folder)
        if copy is not None and copy.drawn > record.drawn:
            problem = (
                "the minting state in {directory} is older than the last label given: was a backup put back?"
            )
            raise LostState(problem, directory=self._folder)
        return record

    def _commit(self, lock: int, record: _Record) -> None:
        """Write the record durably: aside, flushed, moved into place, the folder flushed; then the witness."""
        aside = self._folder / "state.new"
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            if os.write(handle, record.line()) != _WIDTH:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(handle)
        finally:
            os.close(handle)
        aside.replace(self._folder / "state")
        _flush_folder(self._folder)
        # A witness that lags behind after a power cut is harmless; only one that is ahead speaks against the state.
        os.pwrite(lock, record.line(), 0)


@contextmanager
def _usable(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = "labels cannot be made in {path}: {reason}"
        raise SetupError(problem, path=directory, reason=error.strerror or error) from error


def _clock_error(behind: int) -> ClockError:
    problem = "the clock is {seconds} seconds behind the moment of the last label; no label is given until it is right"
    return ClockError(problem, seconds=behind // TICKS)


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some file systems cannot flush a folder
            os.fsync(handle)
    finally:
        os.close(handle)
