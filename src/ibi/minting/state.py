"""The state of minting, on disk: the last date, in two files of DIR/minting that only the holder of the lock touches.

    state    the last record, one line of fixed width, overwritten in place: a commit is one write and one sync
    lock     the lock itself, and a replica of the last record

A record is less than a sector and lies in one page: neither a kill nor a power cut leaves half of it. Whatever has
been done to these files from outside is a fault, and then no label is given (GEN-44, AMB-18):

    missing    the state is gone while its replica, or other files of ours, are there
    damaged    a line is not one that we wrote
    older      the replica has later labels
    moved      the machine is another one
    copied     the file is another one: copied, or put back from a backup
    touched    the file was changed after our last write

The replica notes when the state file was last changed (its ctime, which the system sets at every write). Without
this note, a file that was put back cannot be told from the right one. So the first draw of a process then gives only
dates later than the present clock plus `waiting_room.AHEAD`, as in a new directory: no label was ever reserved further
ahead, so none is given twice, whatever records the file has lost.

What cannot be seen: a whole machine or disk set back to an earlier moment.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ibi.errors import LostState
from ibi.identifier.dates import TICKS
from ibi.minting.machine import file_identity
from ibi.runtime.durable_files import flush_folder, overwrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


WIDTH = 256
"""Bytes of the line of a record: less than a sector, always the same."""

OURS = ("archive.toml", "catalogue.sqlite", "col", "resolver.toml", "registry.sqlite")
"""Files of Archives and resolvers in a data directory: beside these, a missing state is a lost one."""

FOLDER = "minting"
_NOTE_WIDTH = 64
_UNNOTED = b"-"
# While draws follow one another within this time, the change of the file is not noted after each.
_NOTED_EVERY = TICKS // 20
# A draw that takes less has gone straight through: the files are not looked for again.
_STRAIGHT = TICKS // 1000
_VERSION = "1"


class StateRecord(NamedTuple):
    """The last label given, as minting needs it for the next one.

    `last`: the last date given. `seen`: the latest clock reading, and `running`: how long the machine had been running
    then, in its run called `boot`; all in ticks. `drawn`: how many labels. `machine`, `file`: where this was written.
    `names`: a hash of the prefixes that the labels had.
    """

    last: int
    seen: int
    running: int
    drawn: int
    boot: str
    machine: str
    names: str = "-"
    file: str = ""

    def line(self) -> bytes:
        """The record as it stands on disk: words, a checksum, blanks, a line end."""
        numbers = f"{self.last} {self.seen} {self.running} {self.drawn}"
        return checked(f"{_VERSION} {numbers} {self.boot} {self.machine} {self.names} {self.file}".encode())

    @classmethod
    def read(cls, line: bytes) -> StateRecord | None:
        """The record that a line holds; None if it is damaged in any way."""
        body = unchecked(line)
        words = body.split(b" ") if body else ()
        if len(line) != WIDTH or not words or words[0] != _VERSION.encode():
            return None
        try:
            last, seen, running, drawn = map(int, words[1:5])
            boot, machine, names, file = (word.decode() for word in words[5:])
        except ValueError:
            return None
        return cls(last, seen, running, drawn, boot, machine, names, file)


def checked(body: bytes, width: int = WIDTH) -> bytes:
    """A line of so many bytes: words, their checksum, blanks, a line end."""
    return (b"%b %d" % (body, crc32(body))).ljust(width - 1) + b"\n"


def unchecked(line: bytes) -> bytes | None:
    """The words of a line, without their checksum; None if it is damaged in any way."""
    body = line.rstrip().rpartition(b" ")[0]
    return body if checked(body, len(line)) == line else None


_NOTHING_NOTED = checked(_UNNOTED, _NOTE_WIDTH)


class StateFault(Enum):
    """Why a state cannot be trusted."""

    MISSING = "missing"
    DAMAGED = "damaged"
    OLDER = "older"
    MOVED = "moved"
    COPIED = "copied"
    TOUCHED = "touched"


SENTENCES = {
    StateFault.MISSING: "the minting state in {directory} is missing, so the next label might be a second one",
    StateFault.DAMAGED: "the minting state in {directory} is damaged, so the next label might be a second one",
    StateFault.OLDER: "the minting state in {directory} is older than the last label given: was a backup put back?",
    StateFault.MOVED: (
        "the minting state in {directory} was made by another machine; two must never mint from one state"
    ),
    StateFault.COPIED: "the minting state in {directory} is a copy; two directories must never mint from one state",
    StateFault.TOUCHED: (
        "the minting state in {directory} was touched from outside since the last label: a backup put back?"
    ),
}
"""The faults for people; `ibi mint recover` repairs all of them."""


class StateFiles:
    """The two files of one data directory, for one process; the state is kept open from one draw to the next.

    `machine` is the identity of the machine, `running()` its running time in ticks.
    """

    def __init__(self, directory: Path, machine: str, running: Callable[[], int]) -> None:
        self.directory = directory
        self.machine = machine
        self.running = running
        self.path = str(directory / FOLDER / "state")
        self.handle: int | None = None
        self.identity = ""
        self.drawn = self.replicated = self.own = 0
        self.noted = -_NOTED_EVERY
        self._lock = str(directory / FOLDER / "lock")
        self._written = b""
        self._parsed: tuple[StateRecord | None, bytes | None] = (None, None)

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[LockedState]:
        """The state, under its lock; that is opened anew each time, so that threads and forks exclude each other.

        Raises OSError; without `wait`, BlockingIOError where another process draws just now.
        """
        began = self.running()
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield LockedState(self, lock, began)
        finally:
            # Unlocked explicitly: a child that was forked meanwhile has the file open, too, and would hold the lock.
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)

    def parsed(self, written: bytes) -> tuple[StateRecord | None, bytes | None]:
        """The record and the note in the bytes of the lock file; the same bytes are parsed once."""
        if written != self._written:
            self._written = written
            self._parsed = StateRecord.read(written[:WIDTH]), unchecked(written[WIDTH:])
        return self._parsed

    def note_written(self, written: bytes, record: StateRecord, note: bytes) -> None:
        """Note what these bytes, which we have written, mean, so that they need not be parsed."""
        self._written, self._parsed = written, (record, note)

    def open(self) -> None:
        """Open the state that lies there now, if there is one."""
        self.close()
        with suppress(FileNotFoundError):
            self.adopt(os.open(self.path, os.O_RDWR | os.O_CLOEXEC))

    def adopt(self, handle: int) -> None:
        """Take an open file for the state."""
        identity = file_identity(handle)
        # A repair starts a new file; what was seen of the old one counts no longer.
        if identity != self.identity:
            self.drawn = self.replicated = self.own = 0
        self.handle, self.identity = handle, identity

    def close(self) -> None:
        """Close the state, under its lock, since others may use it; the next draw opens it again."""
        handle, self.handle = self.handle, None
        if handle is not None:
            os.close(handle)

    def __del__(self) -> None:
        """Close what could not be closed when this process left while others drew."""
        self.close()


class LockedState:
    """The content of the files, while their lock is held.

    `record` and `replica`: None where nothing can be read; `fault`: why they cannot be trusted. A directory without
    either, and without other files of ours, is `new`. `verified`: the time of the last change is the one that the
    replica has noted; otherwise (after a kill, a power cut, or while others draw) it is not known.
    """

    def __init__(self, files: StateFiles, lock: int, began: int) -> None:
        self._files = files
        self._folder = files.directory / FOLDER
        self._lock = lock
        self._began = began
        written = os.pread(lock, WIDTH + _NOTE_WIDTH + 1, 0)
        self.replica, note = files.parsed(written)
        if files.handle is None or self.replica is None or self.replica.file != files.identity:
            files.open()
        self.record = self._read(written[:WIDTH])
        self.new = self.verified = False
        self.fault: StateFault | None = None
        if self.record and self.replica and self.replica.drawn < self.record.drawn:
            # A kill came before the replica was written; or it was put back, and then perhaps the state was as well.
            files.open()
            self.record = self._read(written[:WIDTH])
        if files.handle is None:
            self.new = not written and not any((files.directory / name).exists() for name in OURS)
            self.fault = None if self.new else StateFault.MISSING
            return
        damaged = bool(written) and (self.replica is None or not note or len(written) != WIDTH + _NOTE_WIDTH)
        self.fault = StateFault.DAMAGED if damaged else self._judge(note)
        if self.record is not None and self.fault is None:
            files.drawn = self.record.drawn
            files.replicated = self.replica.drawn if self.replica else 0

    def _read(self, replicated: bytes) -> StateRecord | None:
        """The record of the open file; a line that is the replica's is not parsed twice."""
        if self._files.handle is None:
            return None
        line = os.pread(self._files.handle, WIDTH + 1, 0)
        return self.replica if line == replicated else StateRecord.read(line)

    def _judge(self, note: bytes | None) -> StateFault | None:
        record, replica, files = self.record, self.replica, self._files
        if record is None or (replica is None and record.drawn):
            return StateFault.DAMAGED
        if record.machine != files.machine:
            return StateFault.MOVED
        if record.file != files.identity:
            return StateFault.COPIED
        replicated = replica.drawn if replica else 0
        if record.drawn < max(files.drawn, replicated) or replicated < files.replicated:
            return StateFault.OLDER
        if replica is None or replica.drawn < record.drawn or note is None or note == _UNNOTED:
            return None
        self.verified = os.fstat(self._handle).st_ctime_ns <= int(note)
        return None if self.verified else StateFault.TOUCHED

    def trusted(self) -> StateRecord:
        """The record, if it can be trusted. Raises LostState."""
        if self.fault is not None or self.record is None:
            raise LostState(SENTENCES[self.fault or StateFault.MISSING], directory=self._folder)
        return self.record

    def commit(self, record: StateRecord) -> None:
        """Make a later record of the same file durable: one write in place and one sync. Raises LostState, OSError."""
        line = record.line()
        overwrite(self._handle, line)
        # Of the data alone: the length of the file never changes.
        os.fdatasync(self._handle)
        if not self._in_place():
            self._files.close()
            raise LostState(SENTENCES[StateFault.MISSING], directory=self._folder)
        self._files.drawn = self._files.own = record.drawn
        # Reading a file's time of change makes its next sync cost half as much again: a burst reads it once.
        now = self._files.running()
        note = now - self._files.noted >= _NOTED_EVERY
        self._write_replica(record, line, self._handle if note else None)
        if note:
            self._files.noted = now

    def note_change(self) -> None:
        """Note when the file was written, where that was left out, if this process was the last to write it."""
        record = self.record
        if self.fault is None and record and record.drawn == self._files.own and not self.verified:
            self._write_replica(record, record.line(), self._handle)

    def create(self, record: StateRecord) -> None:
        """Write the first record of a state, or the one that repairs it, into a new file. Raises OSError."""
        handle, record = self._write_new_file(record)
        try:
            # The replica first: if the repair breaks off, a process that has the old file open draws no more.
            if not self.new:
                self._write_replica(record, record.line(), None)
                os.fsync(self._lock)
            # Renamed when it is whole and synced: the name "state" never leads to half a file.
            (self._folder / "state.new").replace(self._folder / "state")
            flush_folder(self._folder)
            self._write_replica(record, record.line(), handle)
            os.ftruncate(self._lock, WIDTH + _NOTE_WIDTH)
            os.fsync(self._lock)
        except BaseException:
            os.close(handle)
            raise
        self._files.close()
        self._files.adopt(handle)
        self._files.drawn = self._files.replicated = record.drawn
        self.record, self.fault, self.new, self.verified = record, None, False, True

    def _write_new_file(self, record: StateRecord) -> tuple[int, StateRecord]:
        """Write a new file with the record, synced; a repair as root gives it to the owner of the folder."""
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
        """Whether the names still lead to the open files: else another process may draw from others meanwhile."""
        # Looking costs as much as the sync, and files do not change places while a draw goes straight through.
        if self._files.running() - self._began < _STRAIGHT:
            return True
        with suppress(FileNotFoundError):
            return all(
                os.path.samestat(os.fstat(handle), (self._folder / name).stat())
                for name, handle in (("lock", self._lock), ("state", self._handle))
            )
        return False

    def _write_replica(self, record: StateRecord, line: bytes, noted: int | None) -> None:
        """Copy the record, whose line this is, into the lock file, and note when the file `noted` was changed."""
        # Not synced: a replica that lags behind the state is harmless.
        changed = _UNNOTED if noted is None else b"%d" % os.fstat(noted).st_ctime_ns
        written = line + (_NOTHING_NOTED if noted is None else checked(changed, _NOTE_WIDTH))
        overwrite(self._lock, written)
        self._files.note_written(written, record, changed)
        self._files.replicated = record.drawn
