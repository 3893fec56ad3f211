"""Writes to the index: entries with their words, the counts of facets, and the sheets of the sitemap.

`IndexState`, which is stored in the index itself, shows how far the index has followed the catalogue.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.search.words import facet_words, fold
from ibi.archive.store.tables.catalogue import by_position

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ibi.archive.search.words import ItemWords
    from ibi.archive.store.tables.listings import CataloguePosition


SHEET: Final = 10_000
"""Item numbers for each sheet of the sitemap."""

_OLD: Final = (
    "SELECT number, shown, year, language, kind, people, subjects FROM entry"
    " WHERE number IN (SELECT value FROM json_each(:numbers))"
)
_EVENTS_OF: Final = "SELECT number, events FROM entry WHERE number IN (SELECT value FROM json_each(:numbers))"
_DESCRIBED_BY: Final = (
    "SELECT number FROM entry WHERE described_by AND described_by IN (SELECT value FROM json_each(:numbers))"
)
_EMBARGO_OVER: Final = "SELECT number FROM entry WHERE embargo > '' AND embargo <= :day LIMIT :most"
_NEWEST: Final = "SELECT coalesce(max(stamp), 0) FROM entry"
_PUT: Final = (
    "INSERT OR REPLACE INTO entry (number, stamp, removed, shown, content_type, kind, language, year, name, modified,"
    " people, events, described_by, open, embargo, subjects)"
    " VALUES (:number, :stamp, :removed, :shown, :content_type, :kind, :language, :year, :name, :modified,"
    " :people, :events, :described_by, :open, :embargo, :subjects)"
)
_PUT_WORDS: Final = (
    "INSERT INTO words (rowid, title, people, subject, abstract, marks)"
    " VALUES (:number, :title, :people, :subject, :abstract, :marks)"
)
_DROP_WORDS: Final = "DELETE FROM words WHERE rowid = :number"
_COUNT: Final = (
    "INSERT INTO facet (what, value, label, items) VALUES (:what, :value, :label, :items)"
    " ON CONFLICT (what, value) DO UPDATE SET items = items + excluded.items"
)
_DROP_FACET: Final = "DELETE FROM facet WHERE what = :what AND value = :value AND items <= 0"
_PUT_SHEET: Final = (
    "INSERT INTO sheet (number, modified) VALUES (:number, :modified)"
    " ON CONFLICT (number) DO UPDATE SET modified = max(modified, excluded.modified)"
)


class EntryUpdate(NamedTuple):
    """An entry to write. `changed_at`: POSIX seconds of the item's last change; others as in `IndexEntry`."""

    number: int
    removed: bool
    shown: bool
    content_type: str
    name: str
    modified: int
    changed_at: int
    events: int
    described_by: int
    words: ItemWords
    open: bool
    embargo: str
    """The day on which an embargo ends, "" if there is none or it has ended."""


class IndexTransaction:
    """Reads and writes of the index inside one transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def run(self, statement: str, **values: Any) -> sqlite3.Cursor:
        """Run a statement with named parameters."""
        return self._database.execute(statement, values)

    def _many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row of values, which are in the order of its parameters."""
        self._database.executemany(by_position(statement), rows)

    def events_of(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return for each of these items how many of its events are in the index."""
        return dict(self.run(_EVENTS_OF, numbers=json.dumps(numbers)).fetchall())

    def described_by(self, numbers: Sequence[int]) -> list[int]:
        """Return the items whose metadata item is one of these items."""
        return [row[0] for row in self.run(_DESCRIBED_BY, numbers=json.dumps(numbers)).fetchall()]

    def embargo_over(self, day: str, most: int) -> list[int]:
        """Return at most `most` items whose entries still have an embargo that has ended by this day."""
        return [row[0] for row in self.run(_EMBARGO_OVER, day=day, most=most).fetchall()]

    def put(
        self, updates: Sequence[EntryUpdate], stamp_of: Callable[[EntryUpdate], int], *, building: bool
    ) -> int:
        """Write entries, in place of older entries of the same items.

        Returns the greatest lag: by how many seconds a stamp is later than the change of its item. While the
        index is `building`, a stamp may be earlier than the newest one, because there are no readers yet.
        """
        updates = list({update.number: update for update in updates}.values())
        numbers = json.dumps([update.number for update in updates])
        old = {row[0]: row[1:] for row in self.run(_OLD, numbers=numbers)}
        self._put_words(updates, old)
        self._note_sheets(update for update in updates if update.shown or update.number in old)
        # Stamps are taken last, shortly before the entries can be read: a harvester that continues from the
        # second of its last request must not miss an entry that was written meanwhile (decision 0022).
        newest = 0 if building else self.run(_NEWEST).fetchone()[0]
        stamped = [(update, max(stamp_of(update), newest)) for update in updates]
        self._many(
            _PUT,
            [
                (
                    update.number, stamp, update.removed, update.shown, update.content_type, update.words.kind,
                    update.words.language, update.words.year, update.name, update.modified,
                    "\n".join(update.words.people), update.events, update.described_by, update.open, update.embargo,
                    "\n".join(update.words.subjects),
                )
                for update, stamp in stamped
            ],
        )  # fmt: skip
        return max((stamp - update.changed_at for update, stamp in stamped), default=0)

    def _put_words(self, updates: Sequence[EntryUpdate], old: Mapping[int, Sequence[Any]]) -> None:
        """Write the words of items; count the items in the lists of years, languages, kinds and people."""
        counts: Counter[tuple[str, str]] = Counter()
        labels: dict[tuple[str, str], str] = {}
        for update in updates:
            before = old.get(update.number)
            if before is not None and before[0]:
                counts.subtract(what for what, _ in _facets(*before[1:]))
                self.run(_DROP_WORDS, number=update.number)
            if update.shown:
                words = update.words
                listed = ("\n".join(words.people), "\n".join(words.subjects))
                found = list(_facets(words.year, words.language, words.kind, *listed))
                counts.update(what for what, _ in found)
                labels.update(found)
                self.run(
                    _PUT_WORDS,
                    number=update.number,
                    title=words.title,
                    people=words.all_people,
                    subject=words.subject,
                    abstract=words.abstract,
                    marks=facet_words(words),
                )
        changed = [
            (what, value, labels.get((what, value), ""), count)
            for (what, value), count in counts.items()
            if count
        ]
        self._many(_COUNT, changed)
        self._many(_DROP_FACET, [(what, value) for what, value, _, count in changed if count < 0])

    def _note_sheets(self, updates: Iterable[EntryUpdate]) -> None:
        newest: dict[int, int] = {}
        for update in updates:
            sheet = (update.number - 1) // SHEET + 1
            newest[sheet] = max(newest.get(sheet, 0), update.modified)
        self._many(_PUT_SHEET, newest.items())


def _facets(
    year: int, language: str, kind: str, people: str, subjects: str
) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield ((list, value), label) for each list in which an item is counted."""
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
    for subject in subjects.split("\n") if subjects else ():
        yield ("subject", fold(subject)), subject


_STATE: Final = "SELECT built, through, last_name, last_event, items_then, recheck_after FROM state"
_FORGET: Final = "DELETE FROM state"
_KEEP: Final = (
    "INSERT INTO state (built, through, last_name, last_event, items_then, recheck_after)"
    " VALUES (:built, :through, :last_name, :last_event, :items_then, :recheck_after)"
)


class IndexState(NamedTuple):
    """How far the index has followed the catalogue.

    `built`: the last item when building began; `through`: the item up to which all items are in the index;
    `last_name`: its name; `last_event`: the event up to which all events are in the index; `items_then`: the
    last item at that event, None while the feed is read; `recheck_after`: the item up to which counts of
    events have been compared, None if no comparison is needed.
    """

    built: int
    through: int
    last_name: str
    last_event: int
    items_then: int | None
    recheck_after: int | None

    @classmethod
    def read(cls, database: sqlite3.Connection) -> IndexState | None:
        """Read the state of an index; None for a new one."""
        row = database.execute(_STATE).fetchone()
        return cls(*row) if row else None

    def keep(self, database: sqlite3.Connection) -> None:
        """Write the state into the index."""
        database.execute(_FORGET)
        database.execute(_KEEP, self._asdict())

    def is_up_to_date_with(self, position: CataloguePosition) -> bool:
        """Return whether every change of the catalogue is in the index."""
        all_events = (self.last_event, self.items_then) == (position.events, position.items)
        return all_events and self.through == position.items and self.recheck_after is None

    def after_new_items(self, position: CataloguePosition) -> IndexState:
        """Return the state from which to continue, in which the feed of changes may be skipped.

        It is skipped if there have been as many events as new items since: an item gets its first event when
        it is added, so no other item has changed, and new items are read by number. It is also skipped if it
        no longer reaches back to the last event in the index: then all items are rechecked.
        """
        everything = self._replace(last_event=position.events, items_then=position.items)
        if (
            self.items_then is not None
            and position.events - self.last_event == position.items - self.items_then
        ):
            return everything
        if position.oldest > self.last_event + 1:
            return everything._replace(recheck_after=0)
        return self
