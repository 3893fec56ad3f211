"""Keeps the search index up to date with the catalogue, portion by portion, each in one small transaction.

    new items       are found by their numbers, which only increase
    changed items   are found in the catalogue's log of changes. If it does not reach back to the last portion, the
                    number of events of each item is compared with the number that the index has for it. If the log
                    has no more changes than there are new items, no other item has changed, and none is looked for
    another catalogue in the place of the former one: the index is rebuilt

A deposit or an import never waits for the index.

A harvester that continues from the second of its last request must miss no change. So the stamp of an entry
is the moment at which the entry can be read, rounded up to a whole second (one read at 12.3 s has the stamp
13). The stamp is later than the change of the item; the difference is the lag of the index. A rebuilt index
must give no entry an earlier stamp than the lost index did. So the greatest lag is kept in a file of its own;
before an entry with a greater one can be read, the file gets that (decision 0022):

    DIR/finding.dates    the earliest stamp that an entry may get, and the greatest lag, in seconds

In a rebuilt index the stamp of an entry is the moment of its change plus this lag, but never before the
earliest stamp, and never later than the present. Without the file no earlier index is known: all entries get
the present as stamp, which is from then on the earliest stamp. The file is in no backup, because a restored
one could be older than what a harvester has seen.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.model.access import day_of
from ibi.archive.model.item import Access
from ibi.archive.search import index
from ibi.archive.search.index_writer import EntryUpdate, IndexState, IndexTransaction
from ibi.archive.search.words import words_of
from ibi.archive.store.tables import listings
from ibi.identifier.forms import IBIForms
from ibi.protocol import vocabulary
from ibi.protocol.vocabulary import ContentType
from ibi.runtime.durable_files import locked_file, replace_file
from ibi.runtime.tasks import DoneBy, PeriodicTask, run_to_completion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.listings import CataloguePosition, ItemFacts


FILE: Final = "finding.dates"

# Seconds, doubled as often as needed, so that the file, which is flushed to the disk, is seldom written.
_LEAST: Final = 64


class DatingBounds(NamedTuple):
    """No stamp is before `earliest` (POSIX seconds), or more than `lag` seconds after the item's change."""

    earliest: int
    lag: int


def read_dating(folder: Path) -> DatingBounds | None:
    """Read the bounds of the stamps of earlier indexes; None if there are none. Raises OSError."""
    try:
        values = json.loads((folder / FILE).read_bytes())
        return DatingBounds(int(values["floor"]), int(values["lag"]))
    except (FileNotFoundError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def note_lag(folder: Path, lag: int) -> None:
    """Record that an entry is about to get a stamp `lag` seconds after its change. Raises OSError."""
    known = read_dating(folder)
    if known is not None and lag > known.lag:
        _record(folder, known._replace(lag=max(_LEAST, 1 << (lag - 1).bit_length())))


def _record(folder: Path, dates: DatingBounds) -> None:
    text = json.dumps({"floor": dates.earliest, "lag": dates.lag})
    replace_file(folder / FILE, text.encode() + b"\n")


EVERY: Final = 1.0
"""Seconds between two checks for changes."""

ITEMS: Final = 200
"""Items in one transaction."""

BULK: Final = 500
"""New items between two checks; more of them are taken for a running import."""

LOCK: Final = "finding.lock"
"""The lock file that a process holds while it writes one portion."""

_OPEN: Final = frozenset({Access.OPEN, Access.EMBARGOED})
_COUNTED: Final = 5_000
"""Items whose counts of events are compared in one portion."""

_KNOWN_EVENTS: Final = "SELECT number, events FROM entry WHERE number > :after ORDER BY number LIMIT :most"


class Indexer:
    """Keeps the index in the data directory `folder` up to date; several processes take turns.

    `now` returns POSIX seconds; `kind_of` maps the values of the Dublin Core element type to one kind;
    `service`: the name of the item of the Archive service, which no list shows.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        folder: Path,
        now: Callable[[], float],
        kind_of: Callable[[Iterable[str]], str],
        service: str = "",
    ) -> None:
        self._catalogue = catalogue
        self._path = folder / index.FILE
        self._note = folder / index.NOTE
        self._now = now
        self._kind_of = kind_of
        self._service = service
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._items: int | None = None  # at the last check
        # A portion may continue in its thread after the task that waited for it was cancelled.
        self._using = threading.RLock()
        self.through = 0
        """The number of the last item in the index after the last portion of this process; 0 before."""

    def task(self) -> PeriodicTask:
        """Return the periodic task for the first process of each node of a served Archive."""
        each = DoneBy.EACH_NODE
        return PeriodicTask("search index", EVERY, self._update_in_turns, close=self.close, done_by=each)

    def close(self) -> None:
        """Close the connection once the portion that is being written has ended; the next use opens a new one."""
        with self._using:
            if self._database is not None:
                self._database.close()
                self._database = None

    def bring_up_to_date(self) -> None:
        """Write all portions. Raises SetupError."""
        while self.portion():
            pass

    def anew(self) -> None:
        """Discard the index; the next portion starts a new index. Raises SetupError."""
        try:
            index.request_rebuild(self._path)
        except OSError as error:
            raise index.unusable(self._path, error) from None

    def portion(self) -> bool:
        """Write one portion; returns False if there was nothing to write. Raises SetupError."""
        try:
            with self._using, locked_file(self._path.with_name(LOCK)):
                return self._portion()
        except sqlite3.Error as error:
            self.close()
            if not index.is_damage(error):
                raise index.unusable(self._path, error) from None
            self.anew()
            return True
        except OSError as error:
            raise index.unusable(self._path, error) from None

    async def _update_in_turns(self) -> None:
        """Write portion after portion, until the index is up to date."""
        clock = asyncio.get_running_loop().time
        before = self._items
        # After each portion the loop pauses as long as the portion took, so that answers are not delayed.
        # During an import each check writes one portion: the import goes first, the index catches up later.
        while True:
            begun = clock()
            more = await run_to_completion(self.portion)
            if not more or (before is not None and self._items is not None and self._items - before > BULK):
                return
            await asyncio.sleep(min(clock() - begun, EVERY))

    def _portion(self) -> bool:
        database = self._open()
        with self._catalogue.reading() as run:
            position = listings.position(run)
        self._items = position.items
        state = IndexState.read(database)
        if state is not None and not self._is_of_this_catalogue(state, position):
            # Stamps of another catalogue's items mean nothing for this catalogue.
            (self._path.parent / FILE).unlink(missing_ok=True)
            self.anew()
            return True
        if state is None:
            state = IndexState(position.items, 0, "", position.events, position.items, None)
        elif state.is_up_to_date_with(position) and not IndexTransaction(database).embargo_over(
            day_of(self._now()), 1
        ):
            return False
        with index.transaction(database):
            self._step(database, state, position)
        return True

    def _step(self, database: sqlite3.Connection, state: IndexState, position: CataloguePosition) -> None:
        """Index new items first, then those in the feed, then those that the feed may have missed."""
        transaction = IndexTransaction(database)
        state = state.after_new_items(position)
        building = state.through < state.built
        if state.through < position.items:
            with self._catalogue.reading() as run:
                found = listings.facts_after(run, state.through, ITEMS)
            state = state._replace(through=found[-1].number, last_name=found[-1].name)
        elif state.last_event < position.events:
            found, state = self._from_feed(transaction, state, position)
        else:
            found, state = self._compared(transaction, state)
            over = transaction.embargo_over(day_of(self._now()), ITEMS)
            with self._catalogue.reading() as run:
                found += listings.facts_of(run, over)
        # An unsettled item comes into the index with the event that settles it.
        updates = [self._line(each) for each in found if not each.unsettled]
        updates += [self._line(each) for each in self._described(transaction, updates)]
        folder = self._path.parent
        before = read_dating(folder) if building else None

        def stamp(update: EntryUpdate) -> int:
            """Return the present, rounded up; of a rebuilt entry, at least the stamp that it had."""
            present = int(self._now()) + 1
            if before is None:
                return present
            return min(max(update.changed_at + before.lag, before.earliest), present)

        lag = transaction.put(updates, stamp, building=building)
        if not building:
            note_lag(folder, lag)
        elif state.through >= state.built and read_dating(folder) is None:
            # The first index is complete, and none of its stamps is later than this.
            _record(folder, DatingBounds(int(self._now()) + 1, _LEAST))
        state.keep(database)
        self.through = state.through

    def _from_feed(
        self, transaction: IndexTransaction, state: IndexState, position: CataloguePosition
    ) -> tuple[list[ItemFacts], IndexState]:
        """Return changed items of a part of the feed, and the state after it."""
        last = min(position.events, state.last_event + ITEMS)
        with self._catalogue.reading() as run:
            numbers = [
                each for each in listings.changed(run, state.last_event, last) if each <= state.through
            ]
            found = listings.facts_of(run, numbers)
        known = transaction.events_of(numbers)
        items = position.items if last == position.events else None
        return [each for each in found if known.get(each.number) != each.events], state._replace(
            last_event=last, items_then=items
        )

    def _compared(
        self, transaction: IndexTransaction, state: IndexState
    ) -> tuple[list[ItemFacts], IndexState]:
        """Return a portion of the items with other counts of events than in the index, and the next state."""
        if state.recheck_after is None:
            return [], state
        with self._catalogue.reading() as run:
            counts = listings.event_counts(run, state.recheck_after, _COUNTED)
            known = dict(transaction.run(_KNOWN_EVENTS, after=state.recheck_after, most=_COUNTED).fetchall())
            differ = [
                number for number, events in counts if known.get(number) != events and number <= state.through
            ]
            found = listings.facts_of(run, differ[:ITEMS])
        if len(differ) > ITEMS:
            return found, state._replace(recheck_after=differ[ITEMS - 1])
        ended = len(counts) < _COUNTED
        return found, state._replace(recheck_after=None if ended else counts[-1][0])

    def _described(self, transaction: IndexTransaction, updates: list[EntryUpdate]) -> list[ItemFacts]:
        """Return the items whose metadata item is among the changed items."""
        metadata_numbers = [
            update.number for update in updates if update.content_type == ContentType.METADATA
        ]
        numbers = transaction.described_by(metadata_numbers) if metadata_numbers else []
        with self._catalogue.reading() as run:
            return [each for each in listings.facts_of(run, numbers) if not each.unsettled] if numbers else []

    def _line(self, facts: ItemFacts) -> EntryUpdate:
        metadata, described_by_number, moments = facts.metadata, 0, [facts.moment or facts.timestamp]
        if metadata is None and facts.metadata_item:
            with self._catalogue.reading() as run:
                other = self._catalogue.holding(IBIForms.parse(facts.metadata_item).main)
                for each in listings.facts_of(run, [other.number] if other and not other.unsettled else ()):
                    metadata, described_by_number = each.metadata, each.number
                    moments.append(each.moment or each.timestamp)
        removed = facts.state == vocabulary.ItemState.DELETED
        embargo_until = facts.embargo if facts.embargo and facts.embargo > day_of(self._now()) else ""
        if facts.embargo and not embargo_until:
            moments.append(f"{facts.embargo}T00:00:00Z")
        return EntryUpdate(
            number=facts.number,
            removed=removed,
            shown=not removed and facts.content_type == ContentType.DATA and facts.name != self._service,
            content_type=facts.content_type,
            name=facts.name,
            modified=_seconds(facts.timestamp),
            changed_at=max(map(_seconds, moments)),
            events=facts.events,
            described_by=described_by_number,
            words=words_of(metadata, facts.language, self._kind_of),
            open=facts.access in _OPEN and not embargo_until and bool(removed or facts.has_data),
            embargo=embargo_until,
        )

    def _is_of_this_catalogue(self, state: IndexState, position: CataloguePosition) -> bool:
        if position.items < state.through or position.events < state.last_event:
            return False
        with self._catalogue.reading() as run:
            return state.through == 0 or listings.name_of(run, state.through) == state.last_name

    def _open(self) -> sqlite3.Connection:
        """Return the connection to the index; one to be rebuilt, or of another version, is removed first."""
        if self._note.exists():
            self.close()
            index.remove(self._path)
            self._note.unlink(missing_ok=True)
        if self._database is not None and (
            not self._path.exists() or self._path.stat().st_ino != self._inode
        ):
            self.close()
        if self._database is None:
            self._database = index.open_to_write(self._path)
            self._inode = self._path.stat().st_ino
        return self._database


def _seconds(timestamp: str) -> int:
    return int(datetime.fromisoformat(timestamp).timestamp())
