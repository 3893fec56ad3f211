"""Reads the lines of a log in a file from its end, and finds an entry by its number, without an index.

Pages are found by bytes, since damaged lines, perhaps a mebibyte of them, have no numbers.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, BinaryIO

from ibi.resolver.evidence.chain import LONGEST_LINE, read_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.resolver.evidence.chain import Entry


def is_half(line: bytes) -> bool:
    """Whether the line may be an entry that is just being written."""
    return not line.endswith(b"\n") and len(line) < LONGEST_LINE


def lines_backwards(file: BinaryIO, end: int, slice_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Read the lines before a position, the last one first, each with its position."""
    begin = start = max(0, end - slice_bytes)
    file.seek(start)
    lines = file.read(end - start).splitlines(keepends=True)
    if start and len(lines) > 1:
        begin += len(lines.pop(0))  # the first line may lack its beginning
    positions = accumulate(map(len, lines), initial=begin)
    yield from reversed(list(zip(positions, lines, strict=False)))


def position_of(file: BinaryIO, number: int) -> int:
    """Return the position of the first entry whose number is not below `number`, or the end of the log."""
    # By bisection over bytes, as the numbers only go up; so the log needs no index.
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
