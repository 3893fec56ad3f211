"""Some entries of the index written at once, with the words, the counts and the sheets that belong to them."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.finding.words import fold, marks_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ibi.archive.finding.words import Words

SHEET: Final = 10_000
"""Numbers of items on one sheet of the sitemap."""

_OLD: Final = (
    "SELECT number, shown, year, language, kind, people FROM entry"
    " WHERE number IN (SELECT value FROM json_each(?))"
)
_EVENTS_OF: Final = "SELECT number, events FROM entry WHERE number IN (SELECT value FROM json_each(?))"
_DESCRIBED_BY: Final = (
    "SELECT number FROM entry WHERE described_by AND described_by IN (SELECT value FROM json_each(?))"
)
_EMBARGO_OVER: Final = "SELECT number FROM entry WHERE embargo > '' AND embargo <= ? LIMIT ?"
_NEWEST: Final = "SELECT coalesce(max(stamp), 0) FROM entry"
_PUT: Final = "INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_WORDS: Final = (
    "INSERT INTO words (rowid, title, people, subject, abstract, marks) VALUES (?, ?, ?, ?, ?, ?)"
)
_DROP_WORDS: Final = "DELETE FROM words WHERE rowid = ?"
_COUNT: Final = (
    "INSERT INTO facet VALUES (?, ?, ?, ?)"
    " ON CONFLICT (what, value) DO UPDATE SET items = items + excluded.items"
)
_DROP_FACET: Final = "DELETE FROM facet WHERE what = ? AND value = ? AND items <= 0"
_PUT_SHEET: Final = (
    "INSERT INTO sheet VALUES (?, ?)"
    " ON CONFLICT (number) DO UPDATE SET modified = max(modified, excluded.modified)"
)


class Line(NamedTuple):
    """What is to be written of one item. `happened`: POSIX seconds of its last change; the rest as `Entry` has it."""

    number: int
    removed: bool
    shown: bool
    content_type: str
    name: str
    modified: int
    happened: int
    events: int
    described_by: int
    words: Words
    open: bool
    embargo: str
    """The day on which an embargo will be over, "" where there is none any more."""


class Portion:
    """What can be done to the index inside one transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def run(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Run a statement."""
        return self._database.execute(statement, values)

    def events_of(self, numbers: Sequence[int]) -> dict[int, int]:
        """How many events the index knows of each of these items."""
        return dict(self.run(_EVENTS_OF, json.dumps(numbers)).fetchall())

    def described_by(self, numbers: Sequence[int]) -> list[int]:
        """The items whose metadata these items tell."""
        return [row[0] for row in self.run(_DESCRIBED_BY, json.dumps(numbers)).fetchall()]

    def embargo_over(self, day: str, most: int) -> list[int]:
        """Some of the items whose entries do not say yet that their embargo is over on this day."""
        return [row[0] for row in self.run(_EMBARGO_OVER, day, most).fetchall()]

    def put(self, lines: Sequence[Line], stamp_of: Callable[[Line], int], *, building: bool) -> int:
        """Write entries in the place of what the index had of these items.

        The stamps come last, shortly before all this can be read; none is earlier than the newest, but in an index
        that is still `building`, which nobody reads. Returns by how many seconds one is later than its change, at most.
        """
        lines = list({line.number: line for line in lines}.values())
        old = {row[0]: row[1:] for row in self.run(_OLD, json.dumps([line.number for line in lines]))}
        counts: Counter[tuple[str, str]] = Counter()
        labels: dict[tuple[str, str], str] = {}
        for line in lines:
            before = old.get(line.number)
            if before is not None and before[0]:
                counts.subtract(what for what, _ in _facets(*before[1:]))
                self.run(_DROP_WORDS, line.number)
            if line.shown:
                words = line.words
                found = list(_facets(words.year, words.language, words.kind, "\n".join(words.people)))
                counts.update(what for what, _ in found)
                labels.update(found)
                self.run(
                    _PUT_WORDS, line.number, words.title, words.all_people, words.subject, words.abstract,
                    marks_of(words),
                )  # fmt: skip
        self._count(counts, labels)
        self._note_sheets(line for line in lines if line.shown or line.number in old)
        newest = 0 if building else self.run(_NEWEST).fetchone()[0]
        stamped = [(line, max(stamp_of(line), newest)) for line in lines]
        self._database.executemany(
            _PUT,
            [
                (
                    line.number, stamp, line.removed, line.shown, line.content_type, line.words.kind,
                    line.words.language, line.words.year, line.name, line.modified,
                    "\n".join(line.words.people), line.events, line.described_by, line.open, line.embargo,
                )
                for line, stamp in stamped
            ],
        )  # fmt: skip
        return max((stamp - line.happened for line, stamp in stamped), default=0)

    def _count(self, counts: Counter[tuple[str, str]], labels: dict[tuple[str, str], str]) -> None:
        """Bring the lists of years, languages, kinds, people and letters up to date."""
        changed = [
            (what, value, labels.get((what, value), ""), count)
            for (what, value), count in counts.items()
            if count
        ]
        self._database.executemany(_COUNT, changed)
        self._database.executemany(
            _DROP_FACET, [(what, value) for what, value, _, count in changed if count < 0]
        )

    def _note_sheets(self, lines: Iterable[Line]) -> None:
        newest: dict[int, int] = {}
        for line in lines:
            sheet = sheet_of(line.number)
            newest[sheet] = max(newest.get(sheet, 0), line.modified)
        self._database.executemany(_PUT_SHEET, newest.items())


def sheet_of(number: int) -> int:
    """On which sheet of the sitemap an item stands: 1 for the first items."""
    return (number - 1) // SHEET + 1


def _facets(year: int, language: str, kind: str, people: str) -> Iterator[tuple[tuple[str, str], str]]:
    """Under what an item is counted: ((list, value), label)."""
    yield ("year", f"{year:04}" if year else ""), ""
    yield ("language", language), ""
    yield ("kind", kind), ""
    letters = set()
    for person in people.split("\n") if people else ():
        key = fold(person)
        yield ("person", key), person
        letters.add(key[:1])
    for letter in letters:
        yield ("letter", letter), ""
