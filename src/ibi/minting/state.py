"""The last date, on disk: two files in DIR/minting that only the holder of the lock reads or writes.

    state    the last record, one line of fixed width, overwritten in place: a commit is one write and one sync
    lock     the lock itself, and a copy of the last record, the witness

A record is less than a sector and lies in one page: neither a kill nor a power cut leaves half of it. Whatever has
been done to these files from outside speaks against them, and then no label is given (GEN-44, AMB-18):

    missing    the state is gone while its witness, or other files of ours, are there
    damaged    a line is not one that we wrote
    older      the witness tells of later labels
    moved      the machine is another one
    copied     the file is another one: copied, or put back from a backup
    touched    the file was changed after our last write

The witness notes when the state was last changed, which the system moves whenever anybody writes. Where it could not
be noted, the first draw of a process takes the present clock for the last date, as in a new directory: whatever the
file may have missed, no label was ever given before its moment.

What cannot be seen: a whole machine or disk set back to an earlier moment.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING

from ibi.durable import flush_folder, overwrite
from ibi.errors import LostState
from ibi.identifier.dates import TICKS
from ibi.minting.machine import file_identity
from ibi.minting.record import WIDTH, Record, checked, unchecked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OURS = ("archive.toml", "catalogue.sqlite", "col", "resolver.toml", "registry.sqlite")
"""What Archives and resolvers leave in a data directory: beside these, a missing state is a lost one."""

FOLDER = "minting"
_NOTE_WIDTH = 64
_UNNOTED = b"-"
_NOTHING_NOTED = checked(_UNNOTED, _NOTE_WIDTH)
_NOTED_EVERY = TICKS // 20
_STRAIGHT = TICKS // 1000


class Fault(Enum):
    """What speaks against a state."""

    MISSING = "missing"
    DAMAGED = "damaged"
    OLDER = "older"
    MOVED = "moved"
    COPIED = "copied"
    TOUCHED = "touched"


SENTENCES = {
    Fault.MISSING: "the minting state in {directory} is missing, so the next label might be a second one",
    Fault.DAMAGED: "the minting state in {directory} is damaged, so the next label might be a second one",
    Fault.OLDER: "the minting state in {directory} is older than the last label given: was a backup put back?",
    Fault.MOVED: "the minting state in {directory} was made by another machine; two must never mint from one state",
    Fault.COPIED: "the minting state in {directory} is a copy; two directories must never mint from one state",
    Fault.TOUCHED: "the minting state in {directory} was touched from outside since the last label: a backup put back?",
}
"""The faults for people; all of them are repaired by `ibi mint recover`."""


class StateFiles:
    """The two files of one data directory, for one process; the state is kept open from one draw to the next.

    `machine` is the identity of the machine, `running` tells its running time in ticks.
    """

    def __init__(self, directory: Path, machine: str, running: Callable[[], int]) -> None:
        self.directory = directory
        self.machine = machine
        self.running = running
        self.path = str(directory / FOLDER / "state")
        self.handle: int | None = None
        self.identity = ""
        self.drawn = self.witnessed = self.own = 0
        self.noted = -_NOTED_EVERY
        self._lock = str(directory / FOLDER / "lock")
        self._written = b""
        self._said: tuple[Record | None, bytes | None] = (None, None)

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[State]:
        """The state, under its lock; that is opened anew each time, so that threads and forks exclude each other.

        Raises OSError; without `wait`, BlockingIOError where somebody draws just now.
        """
        began = self.running()
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield State(self, lock, began)
        finally:
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_UN)  # a child that was forked meanwhile has it open too
            os.close(lock)

    def said(self, written: bytes) -> tuple[Record | None, bytes | None]:
        """The record and the note of the lock file; the same bytes are read once."""
        if written != self._written:
            self._written = written
            self._said = Record.read(written[:WIDTH]), unchecked(written[WIDTH:])
        return self._said

    def wrote(self, written: bytes, record: Record, note: bytes) -> None:
        """Bytes that we have written, and so need not read."""
        self._written, self._said = written, (record, note)

    def open(self) -> None:
        """Open the state that lies there now, if there is one."""
        self.close()
        with suppress(FileNotFoundError):
            self.adopt(os.open(self.path, os.O_RDWR | os.O_CLOEXEC))

    def adopt(self, handle: int) -> None:
        """Take an open file for the state."""
        identity = file_identity(handle)
        if identity != self.identity:  # a repair starts a new file, and what we saw of the old one is over
            self.drawn = self.witnessed = self.own = 0
        self.handle, self.identity = handle, identity

    def close(self) -> None:
        """Close the state, under its lock, for others may use it; the next draw opens it again."""
        handle, self.handle = self.handle, None
        if handle is not None:
            os.close(handle)

    def __del__(self) -> None:
        """Whoever left while others drew could not close it."""
        self.close()


class State:
    """What the files say, while their lock is held.

    `record` and `witness`: None where there is nothing to be read; `fault`: what speaks against them. A directory
    without either, and without other files of ours, is `new`. `vouched`: the witness has noted when the file was
    written, and so it was; otherwise (after a kill, a power cut, or while others draw) nobody knows.
    """

    def __init__(self, files: StateFiles, lock: int, began: int) -> None:
        self._files = files
        self._folder = files.directory / FOLDER
        self._lock = lock
        self._began = began
        written = os.pread(lock, WIDTH + _NOTE_WIDTH + 1, 0)
        self.witness, note = files.said(written)
        if files.handle is None or self.witness is None or self.witness.file != files.identity:
            files.open()
        self.record = self._read(written[:WIDTH])
        self.new = self.vouched = False
        self.fault: Fault | None = None
        if self.record and self.witness and self.witness.drawn < self.record.drawn:
            files.open()  # a kill came before the witness; or it was put back, and then perhaps the state was as well
            self.record = self._read(written[:WIDTH])
        if files.handle is None:
            self.new = not written and not any((files.directory / name).exists() for name in OURS)
            self.fault = None if self.new else Fault.MISSING
            return
        damaged = bool(written) and (self.witness is None or not note or len(written) != WIDTH + _NOTE_WIDTH)
        self.fault = Fault.DAMAGED if damaged else self._judge(note)
        if self.record is not None and self.fault is None:
            files.drawn = self.record.drawn
            files.witnessed = self.witness.drawn if self.witness else 0

    def _read(self, witnessed: bytes) -> Record | None:
        """The record of the open file; the line of the witness is not read twice."""
        if self._files.handle is None:
            return None
        line = os.pread(self._files.handle, WIDTH + 1, 0)
        return self.witness if line == witnessed else Record.read(line)

    def _judge(self, note: bytes | None) -> Fault | None:
        record, witness, files = self.record, self.witness, self._files
        if record is None or (witness is None and record.drawn):
            return Fault.DAMAGED
        if record.machine != files.machine:
            return Fault.MOVED
        if record.file != files.identity:
            return Fault.COPIED
        witnessed = witness.drawn if witness else 0
        if record.drawn < max(files.drawn, witnessed) or witnessed < files.witnessed:
            return Fault.OLDER
        if witness is None or witness.drawn < record.drawn or note is None or note == _UNNOTED:
            return None
        self.vouched = os.fstat(self._handle).st_ctime_ns <= int(note)
        return None if self.vouched else Fault.TOUCHED

    def trusted(self) -> Record:
        """The record, if nothing speaks against it. Raises LostState."""
        if self.fault is not None or self.record is None:
            raise LostState(SENTENCES[self.fault or Fault.MISSING], directory=self._folder)
        return self.record

    def commit(self, record: Record) -> None:
        """Make a later record of the same file durable: one write in place and one sync. Raises LostState and OSError.

        To ask when a file was changed makes the next sync half as dear again, so in a burst of draws it is not noted.
        """
        line = record.line()
        overwrite(self._handle, line)
        os.fdatasync(self._handle)
        if not self._in_place():
            self._files.close()
            raise LostState(SENTENCES[Fault.MISSING], directory=self._folder)
        self._files.drawn = self._files.own = record.drawn
        now = self._files.running()
        note = now - self._files.noted >= _NOTED_EVERY
        self._bear_witness(record, line, self._handle if note else None)
        if note:
            self._files.noted = now

    def settle(self) -> None:
        """Note when the file was written, where that was left out, if the last to write it were we."""
        record = self.record
        if self.fault is None and record and record.drawn == self._files.own and not self.vouched:
            self._bear_witness(record, record.line(), self._handle)

    def found(self, record: Record) -> None:
        """Write the first record of a state, or the one that repairs it, into a new file; raises OSError.

        If a repair breaks off, the witness already tells of it: who has the old file open draws no more.
        """
        handle, record = self._write_aside(record)
        try:
            if not self.new:
                self._bear_witness(record, record.line(), None)
                os.fsync(self._lock)
            (self._folder / "state.new").replace(self._folder / "state")
            flush_folder(self._folder)
            self._bear_witness(record, record.line(), handle)
            os.ftruncate(self._lock, WIDTH + _NOTE_WIDTH)
            os.fsync(self._lock)
        except BaseException:
            os.close(handle)
            raise
        self._files.close()
        self._files.adopt(handle)
        self._files.drawn = self._files.witnessed = record.drawn
        self.record, self.fault, self.new, self.vouched = record, None, False, True

    def _write_aside(self, record: Record) -> tuple[int, Record]:
        """A new file with the record, synced; whoever repairs as root leaves it to the owner of the folder."""
        handle = os.open(
            self._folder / "state.new", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
        )
        try:
            if os.geteuid() == 0:
                owner = self._folder.stat()
                for ours in (handle, self._lock):
                    os.fchown(ours, owner.st_uid, owner.st_gid)
            record = record._replace(file=file_identity(handle))
            overwrite(handle, record.line())
            os.fsync(handle)
        except BaseException:
            os.close(handle)
            raise
        return handle, record

    @property
    def _handle(self) -> int:
        assert self._files.handle is not None  # noqa: S101 - asked for only where there is a record
        return self._files.handle

    def _in_place(self) -> bool:
        """Whether the names still lead to the files that we hold: else somebody may draw from others meanwhile.

        Files do not change places while a draw goes straight through; to look costs as much as the sync.
        """
        if self._files.running() - self._began < _STRAIGHT:
            return True
        with suppress(FileNotFoundError):
            return all(
                os.path.samestat(os.fstat(handle), (self._folder / name).stat())
                for name, handle in (("lock", self._lock), ("state", self._handle))
            )
        return False

    def _bear_witness(self, record: Record, line: bytes, noted: int | None) -> None:
        """Copy the record, which is written like this, into the lock file, and note when the file `noted` was changed.

        Unsynced: a witness that lags behind is harmless.
        """
        changed = _UNNOTED if noted is None else b"%d" % os.fstat(noted).st_ctime_ns
        written = line + (_NOTHING_NOTED if noted is None else checked(changed, _NOTE_WIDTH))
        overwrite(self._lock, written)
        self._files.wrote(written, record, changed)
        self._files.witnessed = record.drawn
