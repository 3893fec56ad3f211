"""The durable state of minting: the last date, in two files of DIR/minting that are used only under a lock.

    state    the last record, one line of fixed width, overwritten in place: a commit is one write and one sync
    lock     the lock itself, and a replica of the last record

A record is less than a sector and lies in one page, so neither a kill nor a power cut leaves half a record. If
another program changed these files, that is a fault, and no label is given until it is repaired (GEN-44: the last
date is on disk first; AMB-18: lost state):

    missing    the state does not exist, but its replica or other files of ours do
    damaged    a line is not one that we wrote
    older      the replica has later labels
    moved      the state was written on another machine
    copied     the file is not the one that we wrote: it was copied, or restored from a backup
    touched    the file was changed after our last write

The replica notes when the state file was last changed (its ctime, which the system sets at every write); the note
is taken away before the next write and made anew after it.
Without this note, a restored file cannot be distinguished from the right one. Then the first draw of a
process gives only dates later than the present clock plus `waiting_room.AHEAD`, as in a new directory.
Because no label was ever reserved further ahead, no label is given twice, whatever records the file has lost.

What cannot be detected: a whole machine or disk that was set back to an earlier moment.
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
from ibi.runtime.durable_files import flush_folder, make_folder, overwrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


WIDTH = 256
"""Bytes of the line of every record: less than a sector."""

OURS = ("archive.toml", "catalogue.sqlite", "col", "resolver.toml", "registry.sqlite")
"""Files of Archives and resolvers: if a data directory has any of them, a missing state was lost."""

FOLDER = "minting"
_NOTE_WIDTH = 64
_UNNOTED = b"-"
# In a burst of draws, the change of the file is noted only once in this time.
_NOTED_EVERY = TICKS // 20
# After a draw that took less time, it is not checked whether the files are still in place.
_STRAIGHT = TICKS // 1000
_VERSION = "1"


class StateRecord(NamedTuple):
    """The facts about the last label that minting needs for the next one.

    `last`: the last date given; `clock`: the latest clock reading; `running`: how long the machine had been
    running at `clock`, in its run called `boot`; all in ticks. `drawn`: the number of all labels; `machine`,
    `file`: the machine and the file of this record; `names`: a hash of the prefixes of the labels.
    """

    last: int
    clock: int
    running: int
    drawn: int
    boot: str
    machine: str
    names: str = "-"
    file: str = ""

    def line(self) -> bytes:
        """Return the record as its line on disk: words, a checksum, blanks, a line end."""
        numbers = f"{self.last} {self.clock} {self.running} {self.drawn}"
        return checked(f"{_VERSION} {numbers} {self.boot} {self.machine} {self.names} {self.file}".encode())

    @classmethod
    def read(cls, line: bytes) -> StateRecord | None:
        """Return the record in a line; None if the line is damaged in any way."""
        body = unchecked(line)
        words = body.split(b" ") if body else ()
        if len(line) != WIDTH or not words or words[0] != _VERSION.encode():
            return None
        try:
            last, clock, running, drawn = map(int, words[1:5])
            boot, machine, names, file = (word.decode() for word in words[5:])
        except ValueError:
            return None
        return cls(last, clock, running, drawn, boot, machine, names, file)


def checked(body: bytes, width: int = WIDTH) -> bytes:
    """Return a line of `width` bytes: the words, their checksum, blanks, a line end."""
    return (b"%b %d" % (body, crc32(body))).ljust(width - 1) + b"\n"


def unchecked(line: bytes) -> bytes | None:
    """Return the words of a line, without their checksum; None if the line is damaged in any way."""
    body = line.rstrip().rpartition(b" ")[0]
    return body if checked(body, len(line)) == line else None


_NOTHING_NOTED = checked(_UNNOTED, _NOTE_WIDTH)


class StateFault(Enum):
    """Why a state cannot be trusted."""

    MISSING = "missing"
    DAMAGED = "damaged"
    OLDER = "older"
    OTHER_MACHINE = "other machine"
    COPIED = "copied"
    TOUCHED = "touched"


SENTENCES = {
    StateFault.MISSING: "the minting state in {directory} is missing, so the next label might be a second one",
    StateFault.DAMAGED: "the minting state in {directory} is damaged, so the next label might be a second one",
    StateFault.OLDER: "the minting state in {directory} is older than the last label given: was a backup put back?",
    StateFault.OTHER_MACHINE: (
        "the minting state in {directory} was made by another machine; two must never mint from one state"
    ),
    StateFault.COPIED: "the minting state in {directory} is a copy; two directories must never mint from one state",
    StateFault.TOUCHED: (
        "the minting state in {directory} was touched from outside since the last label: a backup put back?"
    ),
}
"""The sentence for each fault; `ibi mint recover` repairs all of them, OTHER_MACHINE and COPIED with `--moved`."""


class StateFiles:
    """The two files of one data directory, for one process; the state stays open between draws.

    machine        the identity of the machine
    running        a function that returns the machine's running time in ticks
    drawn          the count of labels of the state file, when this process last read or wrote it
    replica_drawn  that of the replica; a file with a lower count than before was set back
    own_drawn      the last count that this process wrote; if `drawn` is another one, another process has written since
    has_drawn      whether this process has drawn
    noted_at       when this process last noted the time of change of the file, in ticks of `running`
    """

    def __init__(self, directory: Path, machine: str, running: Callable[[], int]) -> None:
        self.directory = directory
        self.machine = machine
        self.running = running
        self.path = str(directory / FOLDER / "state")
        self.handle: int | None = None
        self.identity = ""
        self.drawn = self.replica_drawn = self.own_drawn = 0
        self.has_drawn = False
        self.noted_at = -_NOTED_EVERY
        self._lock = str(directory / FOLDER / "lock")
        self._written = b""
        self._parsed: tuple[StateRecord | None, bytes | None] = (None, None)

    def prepare(self) -> None:
        """Make the folder. Raises OSError."""
        make_folder(self.directory / FOLDER)

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[LockedState]:
        """Yield the state under its lock, a file opened each time to exclude other threads and forks, too.

        Raises OSError; without `wait`, BlockingIOError if another process is drawing.
        """
        began = self.running()
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield LockedState(self, lock, began)
        finally:
            # Unlocked explicitly, because a child forked meanwhile has the file open and would keep the lock.
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)

    def leave(self) -> None:
        """Note the last change of the state, and close it. Raises OSError, also where another process is drawing."""
        # That process leaves later, and notes the change.
        with self.locked(wait=False) as state:
            state.note_change()
            self.close()

    def parsed(self, written: bytes) -> tuple[StateRecord | None, bytes | None]:
        """Return the record and the note in the bytes of the lock file; equal bytes are parsed only once."""
        if written != self._written:
            self._written = written
            self._parsed = StateRecord.read(written[:WIDTH]), unchecked(written[WIDTH:])
        return self._parsed

    def note_written(self, written: bytes, record: StateRecord, note: bytes) -> None:
        """Cache the record and the note of bytes that we have written, so that they need not be parsed."""
        self._written, self._parsed = written, (record, note)

    def open(self) -> None:
        """Open the present state file, if there is one."""
        self.close()
        with suppress(FileNotFoundError):
            self.adopt(os.open(self.path, os.O_RDWR | os.O_CLOEXEC))

    def adopt(self, handle: int) -> None:
        """Use an open file as the state file."""
        identity = file_identity(handle)
        # A repair makes a new file, to which the counts of the old file do not apply.
        if identity != self.identity:
            self.drawn = self.replica_drawn = self.own_drawn = 0
        self.handle, self.identity = handle, identity

    def close(self) -> None:
        """Close the state file, under its lock, because others may use it; the next draw opens it again."""
        handle, self.handle = self.handle, None
        if handle is not None:
            os.close(handle)

    def __del__(self) -> None:
        """Close the state file if it could not be closed before, because another process was drawing."""
        self.close()


class LockedState:
    """The content of the files, while their lock is held.

    `record` and `replica`: None if they cannot be read; `fault`: why they cannot be trusted; `new`: there are
    neither they nor other files of ours; `is_untouched`: the state file was last changed at the moment that the
    replica records. If not (after a kill, a power cut, or while others draw), it may have been changed from outside.
    `waiting_room.LockedRecord` explains the other attributes.
    """

    def __init__(self, files: StateFiles, lock: int, began: int) -> None:
        self._files = files
        self._folder = files.directory / FOLDER
        self._lock = lock
        self._began = began
        written = os.pread(lock, WIDTH + _NOTE_WIDTH + 1, 0)
        self.replica, note = files.parsed(written)
        self._has_note = note not in {None, _UNNOTED}
        if files.handle is None or self.replica is None or self.replica.file != files.identity:
            files.open()
        self.record = self._read(written[:WIDTH])
        self.new = self.is_untouched = False
        self.is_latest = files.has_drawn
        self.identity, self.margin, self.waits_locked, self.drew_last = files.machine, 0, True, False
        self.fault: StateFault | None = None
        if self.record and self.replica and self.replica.drawn < self.record.drawn:
            # A kill prevented the replica, or it was restored from a backup, perhaps together with the state.
            files.open()
            self.record = self._read(written[:WIDTH])
        if files.handle is None:
            self.new = not written and not any((files.directory / name).exists() for name in OURS)
            self.fault = None if self.new else StateFault.MISSING
            return
        damaged = bool(written) and (self.replica is None or not note or len(written) != WIDTH + _NOTE_WIDTH)
        self.fault = StateFault.DAMAGED if damaged else self._judge(note)
        self.is_latest = self.is_untouched or files.has_drawn
        if self.record is not None and self.fault is None:
            files.drawn = self.record.drawn
            files.replica_drawn = self.replica.drawn if self.replica else 0

    def _read(self, replicated: bytes) -> StateRecord | None:
        """Return the record of the open file; a line that equals the replica's is not parsed again."""
        if self._files.handle is None:
            return None
        line = os.pread(self._files.handle, WIDTH + 1, 0)
        return self.replica if line == replicated else StateRecord.read(line)

    def _judge(self, note: bytes | None) -> StateFault | None:
        record, replica, files = self.record, self.replica, self._files
        if record is None or (replica is None and record.drawn):
            return StateFault.DAMAGED
        if record.machine != files.machine:
            return StateFault.OTHER_MACHINE
        if record.file != files.identity:
            return StateFault.COPIED
        replicated = replica.drawn if replica else 0
        if record.drawn < max(files.drawn, replicated) or replicated < files.replica_drawn:
            return StateFault.OLDER
        if replica is None or replica.drawn < record.drawn or note is None or not self._has_note:
            return None
        self.is_untouched = os.fstat(self._handle).st_ctime_ns <= int(note)
        return None if self.is_untouched else StateFault.TOUCHED

    def clock_confirmed(self, now: int) -> bool:  # noqa: ARG002 - no other clock is known
        """Whether another clock agrees."""
        return False

    def trusted(self) -> StateRecord:
        """Return the record. Raises LostState if it cannot be trusted."""
        if self.fault is not None or self.record is None:
            raise LostState(SENTENCES[self.fault or StateFault.MISSING], directory=self._folder)
        return self.record

    def commit(self, record: StateRecord) -> None:
        """Make a later record durable: one write in place and one sync. Raises LostState, OSError."""
        line = record.line()
        if self._has_note:
            # A kill within the next write may leave the file with a new ctime and its old bytes, which would look
            # like a change from outside if the note of its last ctime were still there.
            overwrite(self._lock, _NOTHING_NOTED, WIDTH)
        overwrite(self._handle, line)
        # Only the data need a sync, because the length of the file never changes.
        os.fdatasync(self._handle)
        if not self._in_place():
            raise LostState(SENTENCES[StateFault.MISSING], directory=self._folder)
        self._files.drawn = self._files.own_drawn = record.drawn
        self._files.has_drawn = True
        # Reading the ctime of a file makes its next sync 50 % slower, so a burst of draws reads it once.
        now = self._files.running()
        note = now - self._files.noted_at >= _NOTED_EVERY
        self._write_replica(record, line, self._handle if note else None)
        if note:
            self._files.noted_at = now

    def note_change(self) -> None:
        """Note when the file was written, if this process wrote it last and has not noted it yet."""
        record = self.record
        if self.fault is None and record and record.drawn == self._files.own_drawn and not self.is_untouched:
            self._write_replica(record, record.line(), self._handle)

    def create(self, record: StateRecord) -> None:
        """Write the first record of a state, or one that repairs it, into a new file. Raises OSError."""
        handle, record = self._write_new_file(record)
        try:
            # The replica first: if the repair is interrupted, a process with the old file must draw no more.
            if not self.new:
                self._write_replica(record, record.line(), None)
                os.fsync(self._lock)
            # Renamed after the sync, so that the name "state" never leads to half a file.
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
        self._files.drawn = self._files.replica_drawn = record.drawn
        self.record, self.fault, self.new, self.is_untouched, self.is_latest = record, None, False, True, True

    def _write_new_file(self, record: StateRecord) -> tuple[int, StateRecord]:
        """Write and sync a new file with the record; as root, give it to the owner of the folder."""
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
        assert self._files.handle is not None  # noqa: S101 - used only if there is a record
        return self._files.handle

    def _in_place(self) -> bool:
        """Return whether the names still lead to the open files; else another process may use other files."""
        # This check costs as much as the sync, and files are not replaced within so short a draw.
        if self._files.running() - self._began < _STRAIGHT:
            return True
        with suppress(FileNotFoundError):
            return all(
                os.path.samestat(os.fstat(handle), (self._folder / name).stat())
                for name, handle in (("lock", self._lock), ("state", self._handle))
            )
        return False

    def _write_replica(self, record: StateRecord, line: bytes, noted: int | None) -> None:
        """Write a record and its line into the lock file, and note when the open file `noted` was changed."""
        # Not synced, because a replica that is older than the state is harmless.
        changed = _UNNOTED if noted is None else b"%d" % os.fstat(noted).st_ctime_ns
        written = line + (_NOTHING_NOTED if noted is None else checked(changed, _NOTE_WIDTH))
        overwrite(self._lock, written)
        self._files.note_written(written, record, changed)
        self._files.replica_drawn = record.drawn
