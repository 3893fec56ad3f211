"""The evidence on disk: DIR/evidence.jsonl, which only grows, and DIR/evidence.head, the last number and hash.

Several processes write to one pair of files, each while it holds the lock of the head. If a writer finds a
fault at the end of the log, it writes an entry `damage`, with a `kind`:

    torn       half a line of so many `bytes` at the end, which a crash may leave, was cut off
    end        the end is not the entry `number` that the head names: entries were removed or changed
    strange    after the last entry there were lines that do not belong there
    head       the head was missing or damaged: entries may be missing at the end

A writer cannot see if a person with access to the disk restores old versions of both files, or rewrites both;
an anchor stored elsewhere shows it. Never move one file alone; with both moved away, a new log begins.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from ibi.resolver.evidence.backwards import is_half, lines_backwards, position_of
from ibi.resolver.evidence.chain import (
    CHAIN_START,
    HEAD_WIDTH,
    LONGEST_LINE,
    LogHead,
    LogVerification,
    NewEntry,
    line_end,
    read_line,
    verify_lines,
    write_line,
)
from ibi.runtime.durable_files import flush_folder, overwrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from ibi.resolver.evidence.chain import Anchor

_TRIES = 100  # to lock a head that is being replaced


class EvidenceFiles:
    """The two files; `path` is that of the entries. Its methods raise OSError; any thread may call them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.head_path = path.with_suffix(".head")

    def append(self, new: Sequence[NewEntry], check: Callable[[], None] | None = None) -> None:
        """Append entries, one or more, all or none; they are durable when this returns.

        `check` is called while no other process can write; what it raises leaves the log as it was.
        """
        with self._locked() as handle, _opened(self.path) as log:
            if check is not None:
                check()
            head, damage = _recover_head(handle, log, new[0].moment)
            size = os.fstat(log).st_size
            lines, last = [], head.anchor
            for each in (*damage, *new):
                line, last = write_line(last, each)
                lines.append(line)
            ends_with_line = not size or os.pread(log, 1, size - 1) == b"\n"
            content = b"".join(lines) if ends_with_line else b"".join((b"\n", *lines))
            # The entries are flushed before the head names them. A crash in between leaves at most whole
            # lines after the head, which the next writer accepts, and half a line, which it cuts off.
            try:
                _write(log, content)
                os.fsync(log)
                if not head.anchor.number:
                    flush_folder(self.path.parent)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(log, size)
                raise
            with suppress(
                OSError
            ):  # the entries are durable, and the next writer brings an outdated head up to date
                overwrite(handle, LogHead(last, size + len(content)).line())
                os.fsync(handle)

    def fill(self, lines: Iterable[bytes]) -> None:
        """Write the lines of another log, as they are, into files that are not there yet."""
        last, size = CHAIN_START, 0
        with self._locked() as handle, _opened(self.path) as log:
            for line in lines:
                _write(log, line)
                entry = read_line(line)
                last, size = last if entry is None else entry.anchor, size + len(line)
            os.fsync(log)
            flush_folder(self.path.parent)
            overwrite(handle, LogHead(last, size).line())
            os.fsync(handle)

    def head(self) -> LogHead | None:
        """Read the head; None if it is damaged, or if it is missing and there are entries."""
        return self._look()[0]

    def lines(self) -> Iterator[bytes]:
        """Read all lines, except half a line that a crash has left at the end."""
        head, size = self._look()
        return self._lines(head.size if head else 0, size)

    def verify(self, anchor: Anchor | None = None) -> LogVerification:
        """Check all entries, a line at a time, and that the entry of `anchor` is among them."""
        head, size = self._look()
        return verify_lines(self._lines(head.size if head else 0, size), head, anchor)

    def backwards(self, before: int, at: int, most_bytes: int) -> Iterator[tuple[int, bytes]]:
        """Read the last lines, the latest first, each with its position, in `most_bytes` at most.

        Only those before the position `at`, or of entries with numbers below `before`; 0: all. Half a line that may
        be a write in progress is left out.
        """
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            size = file.seek(0, 2)
            end = min(at, size) if at else position_of(file, before) if before else size
            for position, line in lines_backwards(file, end, most_bytes):
                if end < size or not is_half(line):
                    yield position, line

    def tail(self, most_bytes: int) -> Iterator[bytes]:
        """Read the lines in so many bytes at the end, the earliest first."""
        with self.path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - most_bytes))
            yield from file

    def version(self) -> object:
        """Return what differs once the log has grown; None if there is none."""
        try:
            now = self.path.stat()
        except FileNotFoundError:
            return None
        return now.st_ino, now.st_size, now.st_mtime_ns

    def _lines(self, known: int, size: int) -> Iterator[bytes]:
        """Read the lines in the first `size` bytes, without half a line at the end, after `known` bytes."""
        if not size:
            return
        with self.path.open("rb") as file:
            while size > (at := file.tell()):
                line = file.readline(min(LONGEST_LINE, size - at))
                if not line or (at >= known and not line.endswith(b"\n") and file.tell() == size):
                    return
                yield line

    def _look(self) -> tuple[LogHead | None, int]:
        """Return the head and the size of the log, read while no process writes."""
        with ExitStack() as stack:
            line = b""
            with suppress(FileNotFoundError):
                handle = os.open(self.head_path, os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_SH)
                line = os.pread(handle, HEAD_WIDTH + 1, 0)
            size = self.path.stat().st_size if self.path.exists() else 0
        return LogHead.read(line) if line or size else LogHead(CHAIN_START, 0), size

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the head and lock it."""
        # Opened each time, because a lock belongs to the open file: so threads and forks exclude each other.
        for _ in range(_TRIES):
            with _opened(self.head_path) as handle:
                fcntl.flock(handle, fcntl.LOCK_EX)
                # If the file was replaced while this waited, this lock is on a file that no process opens.
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(handle), self.head_path.stat()):
                        yield handle
                        return
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(self.head_path))


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a file for reading and writing, and make it if there is none; closing it releases its lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield handle
    finally:
        with suppress(OSError):  # the entries were flushed before
            os.close(handle)


def _recover_head(handle: int, log: int, moment: str) -> tuple[LogHead, list[NewEntry]]:
    """Return the head after which to append, and the damage to record. Reads only the end, given a head."""
    line = os.pread(handle, HEAD_WIDTH + 1, 0)
    head, size = LogHead.read(line), os.fstat(log).st_size
    damage: list[dict[str, str | int]] = []
    if head is None:
        head = LogHead(CHAIN_START, 0)
        os.ftruncate(handle, min(len(line), HEAD_WIDTH))  # else one that is too long would stay so
        if line or size:
            damage.append({"kind": "head"})
        else:  # written before the first entry, so that a log without a head is always damage
            overwrite(handle, head.line())
            os.fsync(handle)
    # Where the end is missing, the numbers go on from the head all the same, so that the gap shows for ever.
    # Numbers that went on from the entries that are left would hide that entries were removed.
    if size < head.size or not _ends_as(log, head):
        damage.append({"kind": "end", "number": head.anchor.number})
    elif size > head.size:
        last, end, strange = _after(log, head, size)
        if strange:
            damage.append({"kind": "strange"})
        if end < size:
            os.ftruncate(log, end)
            damage.append({"kind": "torn", "bytes": size - end})
        head = LogHead(last, end)
    return head, [NewEntry(moment, "damage", facts) for facts in damage]


def _ends_as(log: int, head: LogHead) -> bool:
    """Whether the entry that the head names ends where the head says."""
    if not head.anchor.number:
        return head.size == 0
    expected = line_end(head.anchor.hash)
    return os.pread(log, len(expected), max(0, head.size - len(expected))) == expected


def _after(log: int, head: LogHead, size: int) -> tuple[Anchor, int, bool]:
    """Read the lines after the head: the last anchor, the end of the last whole line, if any is strange."""
    last, end, strange = head.anchor, head.size, False
    with os.fdopen(os.dup(log), "rb") as file:
        file.seek(end)
        while file.tell() < size:
            begins = file.tell() == end
            line = file.readline(LONGEST_LINE)
            entry = read_line(line) if begins else None
            if line.endswith(b"\n"):
                end = file.tell()
                strange |= entry is None or (entry.number, entry.previous) != (last.number + 1, last.hash)
            if entry is not None:
                last = entry.anchor
    return last, end, strange


def _write(log: int, content: bytes) -> None:
    """Append bytes, all of them."""
    at, left = os.lseek(log, 0, os.SEEK_END), memoryview(content)
    while left:
        written = os.pwrite(log, left, at)
        at, left = at + written, left[written:]
