"""Numbers that the processes of one data directory count, each in a file of its own, and anybody adds up.

    DIR/metrics/0, 1, ...     a fingerprint of what is counted, then a float for each number

A process has its file to itself (flock) and maps it into its memory: counting is an addition there and no call of the
system. A file whose process is gone is taken by the next one, which counts on from where it stands, so that nothing
that was counted is ever lost or counted twice, and there are never more files than processes at one time.
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

_MOST_FILES: Final = 1024
_FLOAT: Final = 8  # bytes

_log = logging.getLogger("ibi.resolver.metrics")


class Totals(NamedTuple):
    """What all processes have counted, and the numbers of those that still run, each in the order of the names."""

    sums: list[float]
    running: list[list[float]]


class Tallies:
    """The numbers of this process, and the sums of all.

    `names` say what is counted, in order; a file with other names is begun anew. `passing` are the places of what
    holds only while a process runs, such as how much it has in hand. One thread at a time may count. Where no file
    can be had (a full disk), this process counts for itself, which is said in the log: nobody waits for a statistic.
    """

    def __init__(self, folder: Path, names: Sequence[str], passing: Collection[int] = ()) -> None:
        self._folder = folder
        self._mark = sha256("\n".join(names).encode()).digest()
        self._size = len(self._mark) + _FLOAT * len(names)
        self._handle: int | None = None
        self._alone = False
        try:
            self._handle = self._take()
            memory = mmap.mmap(self._handle, self._size)
        except OSError as error:
            _log.warning("the metrics of this process are not added to those of the others: %s", error)
            self.close()
            self._alone = True
            memory = mmap.mmap(-1, self._size)
        self.values = memoryview(memory)[len(self._mark) :].cast("d")
        """The numbers of this process, to be added to."""
        for place in passing:
            self.values[place] = 0.0

    def totals(self) -> Totals:
        """What was counted until now, in this process and in all others."""
        running = [list(self.values)] if self._alone else []
        counted = list(running)
        with suppress(OSError):
            for name in os.listdir(self._folder):  # noqa: PTH208 - names, not paths
                values, lives = self._read(name)
                counted += [values] if values else []
                running += [values] if values and lives else []
        return Totals(
            [sum(column) for column in zip(*counted, strict=True)] or [0.0] * len(self.values), running
        )

    def close(self) -> None:
        """Leave the file to the next process; what is counted from now on is seen by nobody."""
        if self._handle is not None:
            fcntl.flock(self._handle, fcntl.LOCK_UN)  # the map has a copy of the handle, and so of the lock
            os.close(self._handle)
            self._handle = None

    def _take(self) -> int:
        """The first file that no process has, made ready. Raises OSError."""
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
        """Begin anew what was counted under other names; the bytes are written, so that the disk has room for them."""
        if os.pread(handle, len(self._mark), 0) == self._mark and os.fstat(handle).st_size == self._size:
            return
        empty = bytes(self._size - len(self._mark))
        os.ftruncate(handle, 0)
        if os.pwrite(handle, empty, len(self._mark)) == len(empty):
            os.pwrite(handle, self._mark, 0)
        if os.fstat(handle).st_size != self._size:
            raise OSError("the disk is full")

    def _read(self, name: str) -> tuple[list[float], bool]:
        """The numbers in a file, [] if it has other ones, and whether the process that counts there still runs."""
        content, lives = b"", False
        with suppress(OSError):  # it is gone, or none of ours
            handle = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                content = os.pread(handle, self._size + 1, 0)
                lives = not _is_free(handle)
            finally:
                os.close(handle)
        if len(content) != self._size or not content.startswith(self._mark):
            return [], False
        return list(memoryview(content)[len(self._mark) :].cast("d")), lives


def _is_free(handle: int) -> bool:
    """Whether no process has a file to itself."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
