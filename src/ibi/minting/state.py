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

What cannot be seen: a whole machine or disk set back to an earlier moment.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ibi.errors import LostState
from ibi.minting.machine import file_identity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OURS = ("archive.toml", "catalogue.sqlite", "col", "resolver.toml", "registry.sqlite")
"""What Archives and resolvers leave in a data directory: beside these, a missing state is a lost one."""

FOLDER = "minting"
_VERSION = 1
_WIDTH = 256
_LINE = re.compile(
    rb"1 ([0-9]{1,30}) ([0-9]{1,30}) ([0-9]{1,30}) ([0-9]{1,30}) ([!-~]{1,64}) ([!-~]{1,32}) ([!-~]{1,64}) "
    rb"[0-9]{1,10} *\n"
)
_CHANGED = re.compile(rb"([0-9]{1,30}) *\n")
_CHANGED_WIDTH = 32


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


class Record(NamedTuple):
    """What is remembered.

    `last`: the last date given. `seen`: the latest clock shown, and `running`: how long the machine had been running
    then, in its run called `boot`; all in ticks. `drawn`: how many labels. `machine`, `file`: where this was written.
    """

    last: int
    seen: int
    running: int
    drawn: int
    boot: str
    machine: str
    file: str = ""

    def line(self) -> bytes:
        """The record as it stands on disk: words, a checksum, blanks, a line end."""
        body = " ".join(map(str, (_VERSION, *self)))
        return f"{body} {crc32(body.encode())}".ljust(_WIDTH - 1).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Record | None:
        """The record that a line holds; None if it is damaged in any way."""
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        last, seen, running, drawn = map(int, match.groups()[:4])
        boot, machine, file = (word.decode() for word in match.groups()[4:])
        record = cls(last, seen, running, drawn, boot, machine, file)
        return record if record.line() == line else None


class State:
    """The two files of one data directory, while their lock is held.

    `record` and `witness` are what they say, None where there is nothing to be read; `fault` is what speaks against
    them. A directory without either, and without other files of ours, is `new`.
    """

    def __init__(self, directory: Path, machine: str, lock: int) -> None:
        self._folder = directory / FOLDER
        self._machine = machine
        self._lock = lock
        self._state = _open(self._folder / "state")
        written = os.pread(lock, _WIDTH + _CHANGED_WIDTH + 1, 0)
        changed = _CHANGED.fullmatch(written[_WIDTH:])
        self.witness = Record.read(written[:_WIDTH]) if changed else None
        self.record: Record | None = None
        self.new = False
        self.fault: Fault | None = None
        if self._state is None:
            self.new = not written and not any((directory / name).exists() for name in OURS)
            self.fault = None if self.new else Fault.MISSING
            return
        self.record = Record.read(os.pread(self._state, _WIDTH + 1, 0))
        self.fault = self._judge(damaged_witness=bool(written) and self.witness is None, changed=changed)

    def _judge(self, *, damaged_witness: bool, changed: re.Match[bytes] | None) -> Fault | None:
        record, witness, state = self.record, self.witness, self._state
        assert state is not None  # noqa: S101 - there is a record only in a file
        if record is None or damaged_witness or (witness is None and record.drawn):
            return Fault.DAMAGED
        if record.machine != self._machine:
            return Fault.MOVED
        if record.file != file_identity(state):
            return Fault.COPIED
        if witness is not None and witness.drawn > record.drawn:
            return Fault.OLDER
        if witness is None or changed is None or witness.drawn < record.drawn:
            return (
                None  # a kill came between the two, or a power cut: nobody knows when the state was written
            )
        return Fault.TOUCHED if os.fstat(state).st_ctime_ns > int(changed[1]) else None

    def trusted(self) -> Record:
        """The record, if nothing speaks against it. Raises LostState."""
        if self.fault is not None or self.record is None:
            raise LostState(SENTENCES[self.fault or Fault.MISSING], directory=self._folder)
        return self.record

    def commit(self, record: Record) -> Record:
        """Make a later record durable: one write in place and one sync. Returns it as it was written."""
        assert self._state is not None  # noqa: S101 - commits follow a trusted record
        record = record._replace(file=self.trusted().file)
        _write(self._state, record.line(), 0)
        os.fdatasync(self._state)
        self._bear_witness(record)
        self.record = record
        return record

    def found(self, record: Record) -> Record:
        """Write the first record of a state, or the one that repairs it, into a new file: aside, synced, moved."""
        aside = self._folder / "state.new"
        handle = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            record = record._replace(file=file_identity(handle))
            _write(handle, record.line(), 0)
            os.fsync(handle)
            aside.replace(self._folder / "state")
            flush_folder(self._folder)
        except OSError:
            os.close(handle)
            raise
        self.close()
        self._state, self.record, self.fault, self.new = handle, record, None, False
        os.ftruncate(self._lock, 0)
        self._bear_witness(record)
        os.fsync(self._lock)
        return record

    def _bear_witness(self, record: Record) -> None:
        """Copy the record into the lock file. Unsynced: a witness that lags behind is harmless."""
        assert self._state is not None  # noqa: S101 - what was written just now is open
        changed = str(os.fstat(self._state).st_ctime_ns).ljust(_CHANGED_WIDTH - 1).encode() + b"\n"
        _write(self._lock, record.line() + changed, 0)

    def close(self) -> None:
        """Close the state file; the lock stays with whoever holds it."""
        if self._state is not None:
            os.close(self._state)
            self._state = None


@contextmanager
def locked(directory: Path, machine: str) -> Iterator[State]:
    """The state of a data directory under its lock; opened anew each time, so that threads exclude each other too.

    `machine` is the identity of the machine. Raises OSError.
    """
    lock = os.open(directory / FOLDER / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = State(directory, machine, lock)
        try:
            yield state
        finally:
            state.close()
    finally:
        os.close(lock)


def make_folder(directory: Path) -> None:
    """Make DIR/minting, for its owner only, where it is not there yet."""
    folder = directory / FOLDER
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        flush_folder(directory)


def flush_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some file systems cannot flush a folder
            os.fsync(handle)
    finally:
        os.close(handle)


def _open(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def _write(handle: int, line: bytes, offset: int) -> None:
    if os.pwrite(handle, line, offset) != len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
