"""The log of the evidence page by page, backwards from its end: what was written last is read first."""

from __future__ import annotations

from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi
from ibi.resolver.evidence.chain import LONGEST_LINE, read_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ibi.resolver.evidence.chain import Entry


MOST_ENTRIES: Final = 200
"""Entries on one page of the log."""
SLICE_BYTES: Final = 1 << 20
"""Bytes of the log that are read for one page."""


class LogSlice(NamedTuple):
    """Some entries, the latest first.

    `at`: how many bytes of the log come before the last line that was read, where the next page begins; 0 where there
    is none. `unread`: lines that were passed over, because they are not as they were written.
    """

    entries: list[Entry]
    at: int
    unread: int = 0


def read_slice(
    log: Path,
    wanted: Callable[[Entry], bool],
    before: int = 0,
    most: int = MOST_ENTRIES,
    slice_bytes: int = SLICE_BYTES,
    at: int = 0,
) -> LogSlice:
    """Read the last wanted entries among the first `at` bytes, or with a number smaller than `before` (0: of all).

    Raises OSError.
    """
    entries: list[Entry] = []
    begin = unread = 0
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            end = min(at, size) if at else _position(file, before) if before else size
            # A mebibyte at most: the log may have millions of entries of which few are wanted. The next page goes on
            # by bytes and not by numbers, because damaged lines have none, and a mebibyte of them may follow.
            for begin, line in _backwards(file, end, slice_bytes):  # noqa: B007 - the last one is returned
                entry = read_line(line)
                if entry is None:
                    unread += end < size or not _is_half(line)
                elif wanted(entry):
                    entries.append(entry)
                    if len(entries) == most:
                        break
    except FileNotFoundError:
        pass
    return LogSlice(entries, begin, unread)


def entry_filter(what: str, ibi: str) -> Callable[[Entry], bool]:
    """Make a filter for entries of one kind, and about one item or Archive; "" for all. Raises ParseError."""
    canonical = parse_ibi(ibi).canonical if ibi else ""
    return lambda entry: what in {"", entry.what} and (not canonical or mentions(entry, canonical))


def mentions(entry: Entry, canonical: str) -> bool:
    """Whether one of the facts names this item or Archive, in any spelling."""
    texts = (value.split() for value in entry.facts.values() if isinstance(value, str))
    return any(canonical_ibi(word) == canonical for word in chain.from_iterable(texts) if "/" in word)


def entry_facts(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON has it, as it is in the file."""
    return {**entry._asdict(), "facts": dict(entry.facts)}


def canonical_ibi(text: str) -> str:
    """Return the canonical spelling of an IBI in a fact, "" for a text that is none."""
    try:
        return parse_ibi(text).canonical
    except ParseError:
        return ""


def _is_half(line: bytes) -> bool:
    """Whether this may be an entry that is just being written."""
    return not line.endswith(b"\n") and len(line) < LONGEST_LINE


def _backwards(file: BinaryIO, end: int, slice_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Read the lines before a position, the last one first, each with its position."""
    begin = start = max(0, end - slice_bytes)
    file.seek(start)
    lines = file.read(end - start).splitlines(keepends=True)
    if start and len(lines) > 1:
        begin += len(lines.pop(0))  # its beginning is not here
    positions = accumulate(map(len, lines), initial=begin)
    yield from reversed(list(zip(positions, lines, strict=False)))


def _position(file: BinaryIO, number: int) -> int:
    """Find the first entry whose number is not smaller than this; return the end where there is none."""
    # By bisection over bytes: numbers only go up, so no index has to be written beside the log.
    low, high = 0, file.seek(0, 2)
    while high - low > 2 * LONGEST_LINE:
        middle = (low + high) // 2
        following = _next_entry(file, middle)
        if following is None or following[1].number >= number:
            high = middle
        else:
            low = following[0]
    file.seek(low)
    at = low
    for line in iter(lambda: file.readline(LONGEST_LINE), b""):
        entry = read_line(line)
        if entry is not None and entry.number >= number:
            return at
        at += len(line)
    return at


def _next_entry(file: BinaryIO, position: int) -> tuple[int, Entry] | None:
    """Read the first entry that begins after a position; None where none does within the length of a line or two."""
    file.seek(position)
    at = position + len(file.readline(LONGEST_LINE))
    while at < position + 2 * LONGEST_LINE and (line := file.readline(LONGEST_LINE)):
        entry = read_line(line)
        if entry is not None:
            return at, entry
        at += len(line)
    return None
