"""Writing the index: a portion at a time, each in one small transaction, from what the catalogue says has changed.

    new items       by their numbers, which only ever go up
    changed items   by the catalogue's feed of events, which keeps the last 10,000. Where it has forgotten some, and
                    not all since were the first ones of new items, the events of every item are counted and compared
    another catalogue in the place of the one that was there: made anew

Nothing here is on the way of a deposit or an import: whoever writes the catalogue never waits for the index.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import threading
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Final

from ibi.archive.access import day_of
from ibi.archive.finding import dating, tables
from ibi.archive.finding.portion import Line, Portion
from ibi.archive.finding.state import State
from ibi.archive.finding.words import words_of
from ibi.archive.holding import Access
from ibi.archive.ledgers import numbered
from ibi.archive.networking.duties import Duty
from ibi.identifier.forms import IBIForms
from ibi.interface.threads import to_its_end
from ibi.protocol import vocabulary
from ibi.protocol.vocabulary import ContentType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.ledgers.numbered import Facts, Standing

EVERY: Final = 1.0
"""Seconds between two looks at whether something has changed."""

ITEMS: Final = 200
"""Items in one transaction."""

BULK: Final = 500
"""New items within a look that tell of an import under way."""

LOCK: Final = "finding.lock"
"""Whoever writes the index holds it for one portion."""

_OPEN: Final = frozenset({Access.OPEN, Access.EMBARGOED})
_COUNTED: Final = 5_000
"""Items whose events are counted at once."""

_KNOWN_EVENTS: Final = "SELECT number, events FROM entry WHERE number > ? ORDER BY number LIMIT ?"


class Indexer:
    """Keeps the index in the data directory `folder` up to date with a catalogue; several take turns.

    `now` gives POSIX seconds; `kind_of` what values of the element type of Dublin Core come to; `service`: the name
    of the Archive's own service item, which no list shows.
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
        self._path = folder / tables.FILE
        self._note = folder / tables.NOTE
        self._now = now
        self._kind_of = kind_of
        self._service = service
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._items: int | None = None  # there were at the last look
        self._using = (
            threading.RLock()
        )  # a portion may go on in its thread when whoever waited for it has been ended
        self.through = 0
        """The number of the last item that is in, as far as is known."""

    def duty(self) -> Duty:
        """What the first process does."""
        return Duty("search index", EVERY, self._look, close=self.close)

    def close(self) -> None:
        """Give up the connection, when the portion that is under way has ended; the next use opens a new one."""
        with self._using:
            if self._database is not None:
                self._database.close()
                self._database = None

    def bring_up_to_date(self) -> None:
        """Do all there is to do. Raises SetupError."""
        while self.portion():
            pass

    def anew(self) -> None:
        """Forget all: the next portion begins a new index."""
        tables.ask_for_a_new_one(self._path)

    def portion(self) -> bool:
        """Do one portion of what there is to do; False when there is nothing more. Raises SetupError."""
        try:
            with self._using, _turn(self._path.with_name(LOCK)):
                return self._portion()
        except sqlite3.Error as error:
            self.close()
            if not tables.is_damage(error):
                raise tables.unusable(self._path, error) from None
            self.anew()
            return True
        except OSError as error:
            raise tables.unusable(self._path, error) from None

    async def _look(self) -> None:
        """Portion after portion, and as long a pause after each, so that answers are not held up.

        While very much comes in, one portion a look: an import goes first, and the index catches up when it has ended.
        """
        clock = asyncio.get_running_loop().time
        before = self._items
        while True:
            begun = clock()
            more = await to_its_end(self.portion)
            if not more or (before is not None and self._items is not None and self._items - before > BULK):
                return
            await asyncio.sleep(min(clock() - begun, EVERY))

    def _portion(self) -> bool:
        database = self._open()
        with self._catalogue.reading() as run:
            standing = numbered.standing(run)
        self._items = standing.items
        state = State.read(database)
        if state is not None and not self._is_of_this_catalogue(state, standing):
            dating.forget_dates(self._path.parent)
            self.anew()
            return True
        if state is None:
            state = State(standing.items, 0, "", standing.events, standing.items, None)
        elif state.is_at(standing) and not Portion(database).embargo_over(day_of(self._now()), 1):
            return False
        with tables.transaction(database):
            self._step(database, state, standing)
        return True

    def _step(self, database: sqlite3.Connection, state: State, standing: Standing) -> None:
        """New items first, then those that the feed tells of, then those that may have been missed."""
        portion = Portion(database)
        state = state.having_heard(standing)
        building = state.through < state.built
        if state.through < standing.items:
            with self._catalogue.reading() as run:
                found = numbered.facts_after(run, state.through, ITEMS)
            state = state._replace(through=found[-1].number, last_name=found[-1].name)
        elif state.told < standing.events:
            found, state = self._from_feed(portion, state, standing)
        else:
            found, state = self._compared(portion, state)
            over = portion.embargo_over(day_of(self._now()), ITEMS)
            with self._catalogue.reading() as run:
                found += numbered.facts_of(run, over)
        lines = list(map(self._line, found))
        lines += [self._line(each) for each in self._described(portion, lines)]
        folder = self._path.parent
        before = dating.read_dates(folder) if building else None

        def stamp(line: Line) -> int:
            """The second before whose end it is read; in an index made anew, when the one before has dated it."""
            present = int(self._now()) + 1
            return present if before is None else min(before.again(line.happened), present)

        lag = portion.put(lines, stamp, building=building)
        if not building:
            dating.note_lag(folder, lag)
        elif state.through >= state.built:
            dating.begin_dates(folder, int(self._now()) + 1)
        state.keep(database)
        self.through = state.through

    def _from_feed(self, portion: Portion, state: State, standing: Standing) -> tuple[list[Facts], State]:
        """Items that have had events, some of them at a time."""
        last = min(standing.events, state.told + ITEMS)
        with self._catalogue.reading() as run:
            numbers = [each for each in numbered.changed(run, state.told, last) if each <= state.through]
            found = numbered.facts_of(run, numbers)
        known = portion.events_of(numbers)
        items = standing.items if last == standing.events else None
        return [each for each in found if known.get(each.number) != each.events], state._replace(
            told=last, told_items=items
        )

    def _compared(self, portion: Portion, state: State) -> tuple[list[Facts], State]:
        """Items that have had more events than the index knows of, some at a time."""
        if state.again is None:
            return [], state
        with self._catalogue.reading() as run:
            counts = numbered.event_counts(run, state.again, _COUNTED)
            known = dict(portion.run(_KNOWN_EVENTS, state.again, _COUNTED).fetchall())
            differ = [number for number, events in counts if known.get(number) != events and number in known]
            found = numbered.facts_of(run, differ[:ITEMS])
        if len(differ) > ITEMS:
            return found, state._replace(again=differ[ITEMS - 1])
        ended = len(counts) < _COUNTED
        return found, state._replace(again=None if ended else counts[-1][0])

    def _described(self, portion: Portion, lines: list[Line]) -> list[Facts]:
        """The items whose metadata are told by those that have changed."""
        tellers = [line.number for line in lines if line.content_type == ContentType.METADATA]
        numbers = portion.described_by(tellers) if tellers else []
        with self._catalogue.reading() as run:
            return numbered.facts_of(run, numbers) if numbers else []

    def _line(self, facts: Facts) -> Line:
        metadata, teller, moments = facts.metadata, 0, [facts.moment or facts.timestamp]
        if metadata is None and facts.metadata_item:
            with self._catalogue.reading() as run:
                other = self._catalogue.holding(IBIForms.parse(facts.metadata_item).main)
                for each in numbered.facts_of(run, [other.number] if other else ()):
                    metadata, teller = each.metadata, each.number
                    moments.append(each.moment or each.timestamp)
        removed = facts.state == vocabulary.State.DELETED
        lasting = facts.embargo if facts.embargo and facts.embargo > day_of(self._now()) else ""
        if facts.embargo and not lasting:
            moments.append(f"{facts.embargo}T00:00:00Z")
        return Line(
            number=facts.number,
            removed=removed,
            shown=not removed and facts.content_type == ContentType.DATA and facts.name != self._service,
            content_type=facts.content_type,
            name=facts.name,
            modified=_seconds(facts.timestamp),
            happened=max(map(_seconds, moments)),
            events=facts.events,
            described_by=teller,
            words=words_of(metadata, facts.language, self._kind_of),
            open=facts.access in _OPEN and not lasting and bool(removed or facts.has_data),
            embargo=lasting,
        )

    def _is_of_this_catalogue(self, state: State, standing: Standing) -> bool:
        if standing.items < state.through or standing.events < state.told:
            return False
        with self._catalogue.reading() as run:
            return state.through == 0 or numbered.name_of(run, state.through) == state.last_name

    def _open(self) -> sqlite3.Connection:
        """The connection to the index; what is asked to be made anew, or is of another version, is removed first."""
        if self._note.exists():
            self.close()
            tables.remove(self._path)
            self._note.unlink(missing_ok=True)
        if self._database is not None and (
            not self._path.exists() or self._path.stat().st_ino != self._inode
        ):
            self.close()
        if self._database is None:
            if not tables.is_of_this_version(self._path):
                tables.remove(self._path)
            self._database = tables.open_to_write(self._path)
            self._inode = self._path.stat().st_ino
        return self._database


def _seconds(timestamp: str) -> int:
    return int(datetime.fromisoformat(timestamp).timestamp())


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Wait for the lock, and hold it. Raises OSError."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
