"""The evidence on disk: DIR/evidence.jsonl, which only grows, and DIR/evidence.head, the last number and hash.

Several processes write to one pair of files, each while it holds the lock of the head. Entries are flushed before the
head tells of them, so a crash leaves at most lines that the head does not know yet, and perhaps half a line. The next
writer takes the lines for what they are, cuts off the half, and writes down that it did. Where the end is not what the
head tells of, it goes on from the head: the numbers that are missing then are missing for everybody to see.

What it finds wrong becomes an entry `damage`, with a `kind`:

    torn       half a line at the end, of so many `bytes`, was cut off: what a crash may leave
    end        the end is not the entry `number` that the head tells of: entries were removed or changed
    strange    after the last entry there were lines that do not belong there
    head       the head was missing or damaged: entries may be missing at the end

What cannot be seen from here: both files set back or written anew by whoever has the disk. An anchor kept elsewhere
shows it. Nobody should move one of the files alone; with both moved away, a new log begins.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from ibi.durable import flush_folder, overwrite
from ibi.resolver.chain import (
    HEAD_WIDTH,
    LONGEST_LINE,
    START,
    Head,
    Note,
    Verdict,
    ending,
    judge,
    read_line,
    write_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ibi.resolver.chain import Anchor

_TRIES = 100  # to get hold of a head that others replace


class EvidenceFiles:
    """The two files; `path` is that of the entries. Everything here raises OSError, and may be called by any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.head_path = path.with_suffix(".head")

    def append(self, notes: Sequence[Note]) -> None:
        """Add entries, one or more, all or none; they are durable when this returns."""
        with self._locked() as handle, _opened(self.path) as log:
            head, found = _settle(handle, log, notes[0].moment)
            size = os.fstat(log).st_size
            lines, last = [], head.anchor
            for note in (*found, *notes):
                line, last = write_line(last, note)
                lines.append(line)
            whole = not size or os.pread(log, 1, size - 1) == b"\n"
            content = b"".join(lines) if whole else b"".join((b"\n", *lines))
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
            ):  # the entries are durable; a head that is late is brought up by the next writer
                overwrite(handle, Head(last, size + len(content)).line())
                os.fsync(handle)

    def head(self) -> Head | None:
        """What the head tells; None if it is damaged, or missing though there are entries."""
        return self._look()[0]

    def lines(self) -> Iterator[bytes]:
        """All that is written by now, line by line, without half a line that a crash has left."""
        head, size = self._look()
        return self._lines(head.size if head else 0, size)

    def verify(self, since: Anchor | None = None) -> Verdict:
        """Read all entries, a line at a time, and say whether they are as they were written, the anchor among them."""
        head, size = self._look()
        return judge(self._lines(head.size if head else 0, size), head, since)

    def _lines(self, known: int, size: int) -> Iterator[bytes]:
        """The lines among the first `size` bytes; half a line after the first `known` is left out."""
        if not size:
            return
        with self.path.open("rb") as file:
            while size > (at := file.tell()):
                line = file.readline(min(LONGEST_LINE, size - at))
                if not line or (at >= known and not line.endswith(b"\n") and file.tell() == size):
                    return
                yield line

    def _look(self) -> tuple[Head | None, int]:
        """The head, and how many bytes there are, at a moment at which nobody writes."""
        with ExitStack() as stack:
            said = b""
            with suppress(FileNotFoundError):
                handle = os.open(self.head_path, os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_SH)
                said = os.pread(handle, HEAD_WIDTH + 1, 0)
            size = self.path.stat().st_size if self.path.exists() else 0
        return Head.read(said) if said or size else Head(START, 0), size

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The head, open under its lock; opened anew each time, so that threads and forks exclude each other."""
        for _ in range(_TRIES):
            with _opened(self.head_path) as handle:
                fcntl.flock(handle, fcntl.LOCK_EX)
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(handle), self.head_path.stat()):
                        yield handle
                        return
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(self.head_path))


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A file, made where there is none, to be read and added to; closing it gives up its lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield handle
    finally:
        with suppress(OSError):  # what counts was flushed before
            os.close(handle)


def _settle(handle: int, log: int, moment: str) -> tuple[Head, list[Note]]:
    """Where to go on, and what there is to be said about it. Nothing but the end is read, unless the head is lost."""
    said = os.pread(handle, HEAD_WIDTH + 1, 0)
    head, size = Head.read(said), os.fstat(log).st_size
    found: list[dict[str, str | int]] = []
    if head is None:
        head = Head(START, 0)
        if said or size:
            found.append({"kind": "head"})
        else:  # before the first entry: from now on a log without a head was tampered with
            overwrite(handle, head.line())
            os.fsync(handle)
    if size < head.size or not _ends(log, head):
        found.append({"kind": "end", "number": head.anchor.number})
    elif size > head.size:
        last, end, strange = _after(log, head, size)
        if strange:
            found.append({"kind": "strange"})
        if end < size:
            os.ftruncate(log, end)
            found.append({"kind": "torn", "bytes": size - end})
        head = Head(last, end)
    return head, [Note(moment, "damage", facts) for facts in found]


def _ends(log: int, head: Head) -> bool:
    """Whether the entry that the head tells of ends where it tells."""
    if not head.anchor.number:
        return head.size == 0
    expected = ending(head.anchor.hash)
    return os.pread(log, len(expected), max(0, head.size - len(expected))) == expected


def _after(log: int, head: Head, size: int) -> tuple[Anchor, int, bool]:
    """What comes after the head: the last entry, where the last whole line ends, and whether anything is strange."""
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
    """Add bytes at the end, all of them."""
    at, left = os.lseek(log, 0, os.SEEK_END), memoryview(content)
    while left:
        written = os.pwrite(log, left, at)
        at, left = at + written, left[written:]
