"""The search index: its tables, its file, and its readers.

The file is derived from the catalogue, so it is never repaired or migrated, but rebuilt. Only the process
that writes it removes it (`indexing.Indexer`); a reader that finds it damaged leaves a note file that
requests a rebuild. While the index is being built, every method of `SearchIndex` raises IndexNotReady (a
SetupError: status 503). Further facts of many items: `store.tables.listings.holdings`.

`CpuBudget` limits the processor time of one search, because some words are in very many items, some phrases
are long, and some beginnings of words fit very many words.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from contextlib import closing, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.errors import IbiError, SetupError
from ibi.runtime.durable_files import locked_file, setup_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FILE: Final = "finding.sqlite3"
NOTE: Final = "finding.again"
"""An empty file that requests a rebuild of the index."""

# Held while a reader opens or closes the index, and while it is removed. Without it, a reader could open one index
# with the write-ahead log of the next, or delete that log, because SQLite's last connection to a database deletes the
# log by its name.
_LOCK: Final = "finding.door"

VERSION: Final = 5
"""The version of these tables and their contents; an index of another version is rebuilt."""

# Stored in the file, so it is set only once.
_WAL: Final = "PRAGMA journal_mode = WAL"
_PRAGMAS: Final = (
    "PRAGMA synchronous = NORMAL",
    "PRAGMA busy_timeout = 5000",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -16000",
)
_TABLES: Final = (
    """CREATE TABLE entry (number INTEGER PRIMARY KEY, stamp INTEGER NOT NULL, removed INTEGER NOT NULL,
    shown INTEGER NOT NULL, content_type TEXT NOT NULL, kind TEXT NOT NULL, language TEXT NOT NULL,
    year INTEGER NOT NULL, name TEXT NOT NULL, modified INTEGER NOT NULL, people TEXT NOT NULL,
    events INTEGER NOT NULL, described_by INTEGER NOT NULL, open INTEGER NOT NULL, embargo TEXT NOT NULL,
    subjects TEXT NOT NULL)""",
    "CREATE INDEX entry_stamp ON entry (stamp, number)",
    # An index contains the columns of its condition, too: else counting would read every row of the table.
    "CREATE INDEX entry_data ON entry (stamp, number, content_type) WHERE content_type = 'Data'",
    "CREATE INDEX entry_kind ON entry (kind, stamp, number, content_type) WHERE content_type = 'Data'",
    "CREATE INDEX entry_language ON entry (language, stamp, number, content_type) WHERE content_type = 'Data'",
    "CREATE INDEX entry_open ON entry (stamp, number, content_type, open) WHERE content_type = 'Data' AND open",
    "CREATE INDEX entry_embargo ON entry (embargo) WHERE embargo > ''",
    "CREATE INDEX entry_news ON entry (stamp, number) WHERE shown",
    "CREATE INDEX entry_described ON entry (described_by) WHERE described_by",
    """CREATE VIRTUAL TABLE words USING fts5 (title, people, subject, abstract, marks,
    tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3')""",
    """CREATE TABLE facet (what TEXT NOT NULL, value TEXT NOT NULL, label TEXT NOT NULL, items INTEGER NOT NULL,
    PRIMARY KEY (what, value)) WITHOUT ROWID""",
    # The most frequent subjects are read for the front page, however many there are.
    "CREATE INDEX facet_subject ON facet (items) WHERE what = 'subject'",
    "CREATE TABLE sheet (number INTEGER PRIMARY KEY, modified INTEGER NOT NULL)",
    """CREATE TABLE state (built INTEGER NOT NULL, through INTEGER NOT NULL,
    last_name TEXT NOT NULL, last_event INTEGER NOT NULL, items_then INTEGER, recheck_after INTEGER)""",
)
# The words of the index with their places, read by `hints`; it stores nothing, and is this connection's own.
_SPELLED: Final = "CREATE VIRTUAL TABLE temp.spelled USING fts5vocab('main', 'words', 'instance')"
_VERSION: Final = "PRAGMA user_version"


class IndexNotReady(SetupError):
    """The index is being built, or rebuilt, and cannot be searched until it is complete."""

    def __init__(self) -> None:
        super().__init__("the list of what is held here is being made; try again in a few seconds")


def _open_to_read(path: Path) -> sqlite3.Connection:
    """Open a read-only connection for any thread. Raises IndexNotReady without a whole index of VERSION."""
    with locked_file(path.with_name(_LOCK), fcntl.LOCK_SH):
        if not path.exists():
            raise IndexNotReady
        database = _connect(path)
        try:
            ours = database.execute(_VERSION).fetchone()[0] == VERSION
            if ours:
                database.execute(_SPELLED)
            database.execute("PRAGMA query_only = ON")
            ready = database.execute(_READY).fetchone() if ours else None
        except BaseException:
            database.close()
            raise
        if ready is None or not ready[0]:
            database.close()
            raise IndexNotReady
    return database


def fault_of(path: Path, seconds: float) -> IbiError | None:
    """Return why an existing index cannot be used and must be made anew; None if it can, or if that takes too long."""
    end = time.monotonic() + seconds
    try:
        with locked_file(path.with_name(_LOCK), fcntl.LOCK_SH), closing(_connect(path)) as database:
            database.execute("PRAGMA query_only = ON")
            found = database.execute(_VERSION).fetchone()[0]
            if found != VERSION:
                return IbiError("it has version {found}, not {version}", found=found, version=VERSION)
            database.set_progress_handler(lambda: time.monotonic() > end, 10_000)
            problems = [str(row[0]) for row in database.execute("PRAGMA quick_check(1)")]
            return None if problems == ["ok"] else IbiError("it is damaged")
    except sqlite3.Error as error:
        return IbiError("it is damaged") if is_damage(error) else None


def open_to_write(path: Path) -> sqlite3.Connection:
    """Open a writing connection; make an empty index if none has this version. Raises sqlite3.Error."""
    ours = False
    if path.exists():
        with closing(_connect(path)) as database:
            ours = database.execute(_VERSION).fetchone()[0] == VERSION
    if not ours:
        remove(path)
        _make(path)
    return _connect(path)


def _make(path: Path) -> None:
    """Make an empty index under another name, then rename it: readers never find an incomplete one."""
    temporary = path.with_name(f"{path.name}.new")
    remove(temporary)
    temporary.touch(mode=0o600)
    with closing(_connect(temporary)) as database:
        database.execute(_WAL)
        for table in _TABLES:
            database.execute(table)
        database.execute(f"PRAGMA user_version = {VERSION}")
    temporary.rename(path)


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Run one transaction: at its end all of it is committed, or nothing. Raises sqlite3.Error."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def remove(path: Path) -> None:
    """Remove the index with its log; a process that has it open can still read it. Raises OSError."""
    with locked_file(path.with_name(_LOCK)):
        for ending in ("-wal", "-shm", ""):
            path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error means that the file is damaged, rather than busy, full, or queried wrongly."""
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(
        error,
        sqlite3.OperationalError
        | sqlite3.ProgrammingError
        | sqlite3.IntegrityError
        | sqlite3.NotSupportedError,
    )


def request_rebuild(path: Path) -> None:
    """Create the note file that requests a rebuild of the index. Raises OSError."""
    path.with_name(NOTE).touch()


def unusable(path: Path, error: sqlite3.Error | OSError) -> SetupError:
    """Return the error for a file that cannot be used now."""
    reason = error.strerror or error if isinstance(error, OSError) else error
    return SetupError("the database {path} cannot be used: {reason}", path=path, reason=reason)


def _connect(path: Path) -> sqlite3.Connection:
    """Connect to an existing file; never creates one."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    database = sqlite3.connect(uri, uri=True, timeout=5, isolation_level=None, check_same_thread=False)
    try:
        for pragma in _PRAGMAS:
            database.execute(pragma)
    except BaseException:
        database.close()
        raise
    return database


STEPS_PER_CHECK: Final = 100
"""Steps of SQLite between two checks of the clock."""


class SearchTooLong(Exception):
    """A search needs more processor time than it may have."""


class CpuBudget:
    """A budget of processor time, in seconds, for all statements of one search together."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    @contextmanager
    def limiting(self, database: sqlite3.Connection) -> Iterator[None]:
        """Interrupt the statements in this block when the budget is spent. Raises SearchTooLong."""
        # The thread's processor time, so that on a busy machine a search gives the same answer, only later.
        end = time.thread_time() + self._left
        database.set_progress_handler(lambda: time.thread_time() > end, STEPS_PER_CHECK)
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
    """The entry of one item in the index.

    `number`: that of the catalogue; `stamp`: POSIX seconds of the last change of this entry; `shown`: whether
    lists for readers show it (no removed items, no items of metadata); `content_type`: "Data" or "Metadata";
    `kind`: DataCite's general type of a resource ("Dissertation", "Other"); `language`: two letters, "" if
    unknown; `year`: that of its date, 0 if unknown; `name`: its main name, as spelled; `modified`: POSIX
    seconds of the item's timestamp; `people`: one name on each line.
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
    """Reads the index in the data directory `folder`; opens it on first use, and again after it was replaced.

    Every method raises IndexNotReady while there is no complete index, and SetupError if the disk fails.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._file = (0, 0)

    def close(self) -> None:
        """Close the connection; the next use opens a new one."""
        with self._lock:
            database, self._database = self._database, None
            if database is None:
                return
            try:
                with locked_file(self.path.with_name(_LOCK), fcntl.LOCK_SH):
                    database.close()
            except OSError:
                # The lock cannot be taken: the folder is gone, or the process may open no more files.
                database.close()

    def changed(
        self, after: tuple[int, int], first: int | None, last: int | None, part: str, most: int
    ) -> list[IndexEntry]:
        """Return the next entries in the order of (stamp, number), also of removed items, at a constant cost.

        `after` is (0, 0) at first, then the (stamp, number) of the last entry that was seen. Only entries
        with a stamp from `first` to `last` (POSIX seconds, both included, None: no limit) and of one `part`
        are returned: "", or of data items "data", "kind:Dissertation", "language:pt", "access:open".
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
        """Count all entries that `changed` would return; this reads each of them (40 ms a million)."""
        what, _, value = part.partition(":")
        values = {
            "value": value,
            "first": -_LAST if first is None else first,
            "last": _LAST if last is None else last,
        }
        return int(self.rows(_SIZE[what], values)[0][0])

    def entry_of(self, number: int) -> IndexEntry | None:
        """Return the entry of the item of this number; None if it is not in the index yet."""
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
                    # The statement is wrong, not the file.
                    raise
                raise unusable(self.path, error) from None
            except sqlite3.DatabaseError as error:
                self.close()
                if not is_damage(error):
                    raise
                # Without the note, the next use of the damaged index requests the rebuild again.
                with suppress(OSError):
                    request_rebuild(self.path)
                raise IndexNotReady from None

    def _connection(self) -> sqlite3.Connection:
        """Return the connection to the present file; reopens it after a rebuild of the index."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - at every use: Path.stat takes twice as long
        except OSError:
            self.close()
            raise IndexNotReady from None
        file = (found.st_dev, found.st_ino)
        if self._database is not None and file == self._file:
            return self._database
        self.close()
        with setup_errors("the database {path} cannot be used: {reason}", path=self.path):
            self._database = _open_to_read(self.path)
        self._file = file
        return self._database


def entry(row: Iterable[Any]) -> IndexEntry:
    """Make an entry from a row of COLUMNS."""
    found = IndexEntry(*row)
    return found._replace(removed=bool(found.removed), shown=bool(found.shown))
