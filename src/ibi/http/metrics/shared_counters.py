"""Counters that the processes of one data directory share: each writes its own file, and any can add them up.

    DIR/metrics/0, 1, ...     a fingerprint of the names of the counters, then a float for each counter

A process has its file to itself (flock) and maps it into its memory.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

_MOST_FILES: Final = 1024  # files of counters, one for each process
_FLOAT: Final = 8  # bytes

_log = logging.getLogger("ibi.metrics")


class CounterTotals(NamedTuple):
    """What all processes have counted, and the numbers of those that still run, each in the order of the names."""

    sums: list[float]
    running: list[list[float]]


class SharedCounters:
    """The numbers of this process, and the sums of all.

    `names` of the numbers, in order; a file with other names starts again at zero. `gauges` are the indexes
    of numbers that hold only while a process runs (requests in flight). One thread at a time may count.
    """

    def __init__(self, folder: Path, names: Sequence[str], gauges: Collection[int] = ()) -> None:
        self._folder = folder
        self._fingerprint = sha256("\n".join(names).encode()).digest()
        self._size = len(self._fingerprint) + _FLOAT * len(names)
        self._handle: int | None = None
        self._private = False
        try:
            self._handle = self._take()
            memory = mmap.mmap(self._handle, self._size)
        except OSError as error:
            # A full disk, say: this process counts for itself, since no request may fail for a statistic.
            _log.warning("the metrics of this process are not added to those of the others: %s", error)
            self._leave()
            self._private = True
            memory = mmap.mmap(-1, self._size)
        self.values = memoryview(memory)[len(self._fingerprint) :].cast("d")
        """The numbers of this process, to be added to."""
        for index in gauges:
            self.values[index] = 0.0

    def totals(self) -> CounterTotals:
        """Return what was counted until now, in this process and in all others."""
        running = [list(self.values)] if self._private else []
        counted = list(running)
        with suppress(OSError):
            for name in os.listdir(self._folder):  # noqa: PTH208 - names, not paths
                values, lives = self._read(name)
                counted += [values] if values else []
                running += [values] if values and lives else []
        return CounterTotals(
            [sum(column) for column in zip(*counted, strict=True)] or [0.0] * len(self.values), running
        )

    def close(self) -> None:
        """Leave the file to the next process; what is counted from now on is lost."""
        self._leave()
        self.values = memoryview(bytearray(self.values.nbytes)).cast("d")  # the map would keep the file open

    def _leave(self) -> None:
        if self._handle is not None:
            fcntl.flock(self._handle, fcntl.LOCK_UN)  # the map has a copy of the handle, and so of the lock
            os.close(self._handle)
            self._handle = None

    def _take(self) -> int:
        """Lock the first file that no process has. Raises OSError."""
        # The next process counts on from the numbers in the file, so that nothing is lost or counted twice,
        # and there are never more files than processes at one time.
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for number in range(_MOST_FILES):
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(self._folder / str(number), flags, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._prepare(handle)
            except BlockingIOError:
                os.close(handle)
                continue
            except OSError:
                os.close(handle)
                raise
            return handle
        raise OSError("too many processes")

    def _prepare(self, handle: int) -> None:
        """Reset a file that has other names than ours."""
        if (
            os.pread(handle, len(self._fingerprint), 0) == self._fingerprint
            and os.fstat(handle).st_size == self._size
        ):
            return
        # Written, not only sized: on a full disk, a write into a hole of a mapped file kills the process.
        empty = bytes(self._size - len(self._fingerprint))
        os.ftruncate(handle, 0)
        if os.pwrite(handle, empty, len(self._fingerprint)) == len(empty):
            os.pwrite(handle, self._fingerprint, 0)
        if os.fstat(handle).st_size != self._size:
            raise OSError("the disk is full")

    def _read(self, name: str) -> tuple[list[float], bool]:
        """Read the numbers in a file, [] if it has other names, and whether its process still runs."""
        content, lives = b"", False
        with suppress(OSError):  # the file is gone, or not ours
            handle = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                content = os.pread(handle, self._size + 1, 0)
                lives = not _is_free(handle)
            finally:
                os.close(handle)
        if len(content) != self._size or not content.startswith(self._fingerprint):
            return [], False
        return list(memoryview(content)[len(self._fingerprint) :].cast("d")), lives


def is_counted(folder: Path) -> bool:
    """Whether a process counts in a folder now, so that its data directory is being served. Raises OSError."""
    for path in folder.iterdir() if folder.exists() else ():
        with suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if path.name.isdecimal() and not _is_free(handle):
                    return True
            finally:
                os.close(handle)
    return False


def _is_free(handle: int) -> bool:
    """Whether no process has locked a file."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
