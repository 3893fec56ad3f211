"""Reading the search index: which items there are, when they changed, and what they are found by.

    index = Index(directory.path)                            # opens nothing yet; any thread may use it
    index.changed((0, 0), None, None, "", 100)               # the first 100 entries, by (stamp, number)
    index.changed((last.stamp, last.number), None, None, "", 100)   # those that follow
    index.close()

`indexing.Indexer` writes it: in the first process of a served Archive, or in `ibi archive index`. While it is being
built every method raises IndexNotReady (a SetupError: status 503). More of an item than its entry has: ask
`tables.listings.holdings` for many numbers at once.

`CpuBudget` bounds what one search may compute: some words are in very many items, in long phrases or with very many
endings.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.search import tables
from ibi.archive.search.tables import IndexNotReady

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


# Steps of SQLite between two checks of the clock.
_EVERY: Final = 100


class SearchTooLong(Exception):
    """A search needs more processor time than it may have."""


class CpuBudget:
    """So many seconds of processor time for all statements of one search together."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    @contextmanager
    def limiting(self, database: sqlite3.Connection) -> Iterator[None]:
        """Interrupt the statements run meanwhile when the budget is spent. Raises SearchTooLong."""
        # The thread's own time, not the clock's: on a busy machine the same search gives the same answer, only later.
        end = time.thread_time() + self._left
        database.set_progress_handler(lambda: time.thread_time() > end, _EVERY)
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            raise SearchTooLong from None
        finally:
            database.set_progress_handler(None, 0)
            self._left = end - time.thread_time()


_THROUGH: Final = "SELECT through FROM state"
_READY: Final = "SELECT through >= built FROM state"
COLUMNS: Final = "number, stamp, removed, shown, content_type, kind, language, year, name, modified, people"
_LAST: Final = 1 << 62

_DATA: Final = "content_type = 'Data' AND "
_BY_PART: Final = {
    "": "",
    "data": _DATA,
    "kind": f"{_DATA}kind = :value AND ",
    "language": f"{_DATA}language = :value AND ",
    "access": f"{_DATA}open AND ",
}
_CHANGED: Final = {
    part: f"SELECT {COLUMNS} FROM entry WHERE {condition}"  # noqa: S608 - made of our own words
    "(stamp, number) > (:stamp, :number) AND stamp <= :last ORDER BY stamp, number LIMIT :most"
    for part, condition in _BY_PART.items()
}
_SIZE: Final = {
    part: f"SELECT count(*) FROM entry WHERE {condition} stamp >= :first AND stamp <= :last"  # noqa: S608 - made of our own words
    for part, condition in _BY_PART.items()
}
_ENTRY_OF: Final = f"SELECT {COLUMNS} FROM entry WHERE number = :number"  # noqa: S608 - made of our own words
_EARLIEST: Final = "SELECT min(stamp) FROM entry"
_NEWEST: Final = "SELECT max(stamp) FROM entry"


class IndexEntry(NamedTuple):
    """What the index knows of one item.

    `number`: that of the catalogue; `stamp`: POSIX seconds when this entry last changed; `shown`: whether lists for
    readers show it (not removed items, nor items of metadata); `content_type`: "Data" or "Metadata"; `kind`: what
    DataCite calls the general type of a resource ("Dissertation", "Other"); `language`: two letters, "" if unknown;
    `year`: that of its date, 0 if unknown; `name`: its main name, as spelled; `modified`: POSIX seconds of its own
    timestamp; `people`: a name a line.
    """

    number: int
    stamp: int
    removed: bool
    shown: bool
    content_type: str
    kind: str
    language: str
    year: int
    name: str
    modified: int
    people: str


class SearchIndex:
    """Reads the index in the data directory `folder`. Opened when it is first needed, and again when it was replaced.

    Every method raises IndexNotReady while there is no whole index, and SetupError where the disk refuses.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / tables.FILE
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._file = (0, 0)

    def close(self) -> None:
        """Close the connection; the next use opens a new one."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def changed(
        self, after: tuple[int, int], first: int | None, last: int | None, part: str, most: int
    ) -> list[IndexEntry]:
        """Return the next entries in the order of (stamp, number), those of removed items too, at a constant cost.

        `after` is (0, 0) at first, then the (stamp, number) of the last entry that was seen. Only entries with a stamp
        from `first` to `last` (POSIX seconds, both included, None: open), and of one `part`: "" for all, or of the
        items that are data "data", "kind:Dissertation", "language:pt", "access:open".
        """
        what, _, value = part.partition(":")
        stamp, number = after
        if first is not None and first > stamp:
            stamp, number = first, -1
        values = {
            "value": value,
            "stamp": stamp,
            "number": number,
            "last": _LAST if last is None else last,
            "most": most,
        }
        return [entry(row) for row in self.rows(_CHANGED[what], values)]

    def size(self, first: int | None, last: int | None, part: str) -> int:
        """Count the entries that `changed` lists in all; this reads them all (40 ms a million)."""
        what, _, value = part.partition(":")
        values = {
            "value": value,
            "first": -_LAST if first is None else first,
            "last": _LAST if last is None else last,
        }
        return int(self.rows(_SIZE[what], values)[0][0])

    def entry_of(self, number: int) -> IndexEntry | None:
        """Return the entry of the item of this number; None if there is none yet."""
        return next((entry(row) for row in self.rows(_ENTRY_OF, {"number": number})), None)

    def earliest(self) -> int | None:
        """Return the earliest stamp; None if there is no entry."""
        return self.rows(_EARLIEST)[0][0]  # type: ignore[no-any-return]  # an INTEGER or NULL

    def newest(self) -> int | None:
        """Return the latest stamp; None if there is no entry."""
        return self.rows(_NEWEST)[0][0]  # type: ignore[no-any-return]  # an INTEGER or NULL

    def through(self) -> int:
        """Return the number of the last item that is in the index; 0 at the beginning."""
        rows = self.rows(_THROUGH)
        return int(rows[0][0]) if rows else 0

    def rows(self, statement: str, values: Any = (), budget: CpuBudget | None = None) -> list[Any]:
        """Run a statement of this package; returns its rows. Raises SearchTooLong when the budget is spent."""
        with self._lock:
            try:
                database = self._connection()
                with budget.limiting(database) if budget else nullcontext():
                    return database.execute(statement, values).fetchall()
            except sqlite3.OperationalError as error:
                self.close()
                if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
                    # A wrong statement, not a fault of the file.
                    raise
                raise tables.unusable(self.path, error) from None
            except sqlite3.DatabaseError as error:
                self.close()
                if not tables.is_damage(error):
                    raise
                tables.request_rebuild(self.path)
                raise IndexNotReady from None

    def _connection(self) -> sqlite3.Connection:
        """Return the connection to the present file; reopened when the index was rebuilt."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - at every use: Path.stat takes twice as long
        except OSError:
            self.close()
            raise IndexNotReady from None
        file = (found.st_dev, found.st_ino)
        if self._database is not None and file == self._file:
            return self._database
        self.close()
        try:
            database = tables.open_to_read(self.path)
        except OSError as error:
            raise tables.unusable(self.path, error) from None
        try:
            ready = database.execute(_READY).fetchone()
        except BaseException:
            database.close()
            raise
        if ready is None or not ready[0]:
            database.close()
            raise IndexNotReady
        self._database, self._file = database, file
        return database


def entry(row: Iterable[Any]) -> IndexEntry:
    """Make an entry of a row of COLUMNS."""
    found = IndexEntry(*row)
    return found._replace(removed=bool(found.removed), shown=bool(found.shown))
