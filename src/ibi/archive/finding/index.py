"""The index of one Archive, to be read: which items there are, when they changed, and what they are found by.

    index = Index(directory.path)                            # opens nothing yet; any thread may use it
    index.changed((0, 0), None, None, "", 100)               # the first 100 entries, by (stamp, number)
    index.changed((last.stamp, last.number), None, None, "", 100)   # those that follow
    index.close()

`Indexer` (in `indexing`) writes it: the first process of a running Archive, or `ibi archive index`. It is derived from
the catalogue, never in a backup, and made anew when it is lost, damaged or of another version; until then every
method raises BeingMade (a SetupError: status 503). Whoever wants more of an item than its entry asks
`ledgers.numbered.holdings` for many numbers at once.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.finding import tables
from ibi.archive.finding.tables import BeingMade

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ibi.archive.finding.patience import Patience

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


def _changed(part: str) -> str:
    return (
        f"SELECT {COLUMNS} FROM entry WHERE {_BY_PART[part]}"  # noqa: S608 - made of our own words
        "(stamp, number) > (:stamp, :number) AND stamp <= :last ORDER BY stamp, number LIMIT :most"
    )


def _size(part: str) -> str:
    return f"SELECT count(*) FROM entry WHERE {_BY_PART[part]} stamp >= :first AND stamp <= :last"  # noqa: S608 - made of our own words


_CHANGED: Final = {part: _changed(part) for part in _BY_PART}
_SIZE: Final = {part: _size(part) for part in _BY_PART}
_ENTRY_OF: Final = f"SELECT {COLUMNS} FROM entry WHERE number = :number"  # noqa: S608 - made of our own words
_EARLIEST: Final = "SELECT min(stamp) FROM entry"
_NEWEST: Final = "SELECT max(stamp) FROM entry"
_PARTS: Final = (
    "SELECT value, items FROM facet WHERE what = :what AND value > '' ORDER BY items DESC, value LIMIT 1000"
)


class Entry(NamedTuple):
    """What the index knows of one item.

    `number`: that of the catalogue; `stamp`: POSIX seconds when this entry last changed; `shown`: whether lists for
    readers show it (removed items and items of metadata are not); `content_type`: "Data" or "Metadata"; `kind`: what
    DataCite calls the general type of a resource ("Dissertation", "Other"); `language`: two letters, "" where nobody
    tells; `year`: that of its date, 0 where nobody tells; `name`: its main name, as spelled; `modified`: POSIX seconds
    of its own timestamp; `people`: a name a line.
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


class Index:
    """Reads the index in the data directory `folder`. Opened when it is first needed, and again when it was replaced.

    Every method raises BeingMade while there is no whole index, and SetupError where the disk refuses.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / tables.FILE
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._file = (0, 0)

    def close(self) -> None:
        """Give up the connection; the next use opens a new one."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def changed(
        self, after: tuple[int, int], first: int | None, last: int | None, part: str, most: int
    ) -> list[Entry]:
        """Some entries, all items among them, in the order of (stamp, number): those that follow after `after`.

        Only with a stamp from `first` to `last` (POSIX seconds, both included, None: open), and of one `part`: "" all;
        of the items that are no metadata of others: "data", "kind:Dissertation", "language:pt", "access:open". At a
        constant cost, wherever the list has come. `after` is (0, 0) at first, then the (stamp, number) of the last
        entry that was seen. An entry that changes later gets a stamp that is not earlier than any other, and not
        earlier than the second in which it can first be read: so whoever asks next from the second in which it last
        asked misses nothing.
        """
        what, _, value = part.partition(":")
        stamp, number = after
        if first is not None and first > stamp:
            stamp, number = first, -1
        values = {"value": value, "stamp": stamp, "number": number, "last": _end(last), "most": most}
        return [entry(row) for row in self.rows(_CHANGED[what], values)]

    def size(self, first: int | None, last: int | None, part: str) -> int:
        """How many entries `changed` lists in all; counted, so it costs more the more there are (40 ms a million)."""
        what, _, value = part.partition(":")
        values = {"value": value, "first": -_LAST if first is None else first, "last": _end(last)}
        return int(self.rows(_SIZE[what], values)[0][0])

    def parts(self, what: str) -> dict[str, int]:
        """The values of "kind" or "language" and how many shown items have each, the most frequent first."""
        return dict(self.rows(_PARTS, {"what": what}))

    def entry_of(self, number: int) -> Entry | None:
        """What the index knows of the item of this number, None if nothing yet."""
        return next((entry(row) for row in self.rows(_ENTRY_OF, {"number": number})), None)

    def earliest(self) -> int | None:
        """The stamp of the entry that changed first, None if there is none."""
        return self.rows(_EARLIEST)[0][0]  # type: ignore[no-any-return]  # an INTEGER or NULL

    def newest(self) -> int | None:
        """The stamp of the entry that changed last, None if there is none."""
        return self.rows(_NEWEST)[0][0]  # type: ignore[no-any-return]  # an INTEGER or NULL

    def rows(self, statement: str, values: Any = (), patience: Patience | None = None) -> list[Any]:
        """What a statement finds; for the rooms beside this one. Raises TooLong where there was a limit."""
        with self._lock:
            try:
                database = self._connection()
                with patience.with_(database) if patience else nullcontext():
                    return database.execute(statement, values).fetchall()
            except sqlite3.OperationalError as error:
                self.close()
                if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
                    raise  # a fault of ours, no fault of the file
                raise tables.unusable(self.path, error) from None
            except sqlite3.DatabaseError as error:
                self.close()
                if not tables.is_damage(error):
                    raise
                tables.ask_for_a_new_one(self.path)
                raise BeingMade from None

    def _connection(self) -> sqlite3.Connection:
        """The connection to the file that is there now, once it is whole."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - at every use: a Path makes it twice as long
        except OSError:
            self.close()
            raise BeingMade from None
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
            raise BeingMade
        self._database, self._file = database, file
        return database


def entry(row: Iterable[Any]) -> Entry:
    """The entry of a row."""
    found = Entry(*row)
    return found._replace(removed=bool(found.removed), shown=bool(found.shown))


def _end(last: int | None) -> int:
    return _LAST if last is None else last
