"""The evidence page by page, from its end backwards: what was written last is asked for first.

The log may have millions of entries. A place in it is found by the numbers of the entries, which only ever go up, and
of one page at most so many bytes are looked at; where a page ends for that, the next one goes on. It goes on by bytes:
lines that are not as they were written have no number, and there may be more of them than are looked at for one page.
"""

from __future__ import annotations

from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi
from ibi.resolver.chain import LONGEST_LINE, read_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ibi.resolver.chain import Entry

MOST_ENTRIES: Final = 200
"""Entries on one page of the log."""
LOOKED_AT: Final = 1 << 20
"""Bytes of the log that are read for one page."""


class Page(NamedTuple):
    """Some entries, the latest first.

    `at`: how many bytes of the log come before the last of what was looked at, where the next page begins; 0 where
    there is none. `unread`: lines that were passed over, because they are not as they were written.
    """

    entries: list[Entry]
    at: int
    unread: int = 0


def page(
    log: Path,
    wanted: Callable[[Entry], bool],
    before: int = 0,
    most: int = MOST_ENTRIES,
    looked_at: int = LOOKED_AT,
    at: int = 0,
) -> Page:
    """The last entries that are wanted among the first `at` bytes, or with a number smaller than `before` (0: of all).

    Raises OSError.
    """
    found: list[Entry] = []
    place = unread = 0
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            end = min(at, size) if at else _place(file, before) if before else size
            for place, line in _backwards(file, end, looked_at):  # noqa: B007 - where it ended is told
                entry = read_line(line)
                if entry is None:
                    unread += end < size or not _is_half(line)
                elif wanted(entry):
                    found.append(entry)
                    if len(found) == most:
                        break
    except FileNotFoundError:
        pass
    return Page(found, place, unread)


def tells_of(entry: Entry, canonical: str) -> bool:
    """Whether one of the facts names this item or Archive, in any spelling."""
    texts = (value.split() for value in entry.facts.values() if isinstance(value, str))
    return any(_canonical(word) == canonical for word in chain.from_iterable(texts) if "/" in word)


def facts(entry: Entry) -> dict[str, Any]:
    """An entry as programs are told of it, as it stands in the file."""
    return {**entry._asdict(), "facts": dict(entry.facts)}


def _canonical(word: str) -> str | None:
    try:
        return parse_ibi(word).canonical
    except ParseError:
        return None


def _is_half(line: bytes) -> bool:
    """Whether this may be an entry that is just being written."""
    return not line.endswith(b"\n") and len(line) < LONGEST_LINE


def _backwards(file: BinaryIO, end: int, looked_at: int) -> Iterator[tuple[int, bytes]]:
    """The lines before a place, the last one first, each with where it begins."""
    place = start = max(0, end - looked_at)
    file.seek(start)
    lines = file.read(end - start).splitlines(keepends=True)
    if start and len(lines) > 1:
        place += len(lines.pop(0))  # its beginning is not here
    places = accumulate(map(len, lines), initial=place)
    yield from reversed(list(zip(places, lines, strict=False)))


def _place(file: BinaryIO, number: int) -> int:
    """Where the first entry begins whose number is not smaller than this; the end where there is none."""
    low, high = 0, file.seek(0, 2)
    while high - low > 2 * LONGEST_LINE:
        middle = (low + high) // 2
        found = _next(file, middle)
        if found is None or found[1].number >= number:
            high = middle
        else:
            low = found[0]
    file.seek(low)
    at = low
    for line in iter(lambda: file.readline(LONGEST_LINE), b""):
        entry = read_line(line)
        if entry is not None and entry.number >= number:
            return at
        at += len(line)
    return at


def _next(file: BinaryIO, place: int) -> tuple[int, Entry] | None:
    """The first entry that begins after a place, and where; None where none does within the length of a line or two."""
    file.seek(place)
    at = place + len(file.readline(LONGEST_LINE))
    while at < place + 2 * LONGEST_LINE and (line := file.readline(LONGEST_LINE)):
        entry = read_line(line)
        if entry is not None:
            return at, entry
        at += len(line)
    return None
