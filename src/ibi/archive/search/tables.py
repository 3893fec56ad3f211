"""The tables of the index, and its file: how it is created, opened, and discarded when it is damaged.

The file is derived from the catalogue, so it is never repaired and never migrated: it is rebuilt. Only the process that
writes it removes it; a reader that meets damage leaves a note that requests a rebuild.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE: Final = "finding.sqlite3"
NOTE: Final = "finding.again"
"""An empty file that requests a rebuild of the index."""

_LOCK: Final = "finding.door"

VERSION: Final = 2
"""Of these tables and of what is put into them; an index of another version is rebuilt."""

# Kept in the file, so set once, when it is made.
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
    events INTEGER NOT NULL, described_by INTEGER NOT NULL, open INTEGER NOT NULL, embargo TEXT NOT NULL)""",
    "CREATE INDEX entry_stamp ON entry (stamp, number)",
    # What a condition names stands in its index too: else counting would look at every row.
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
    "CREATE TABLE sheet (number INTEGER PRIMARY KEY, modified INTEGER NOT NULL)",
    """CREATE TABLE state (built INTEGER NOT NULL, through INTEGER NOT NULL,
    last_name TEXT NOT NULL, told INTEGER NOT NULL, told_items INTEGER, again INTEGER)""",
)
_VERSION: Final = "PRAGMA user_version"
_SET_VERSION: Final = f"PRAGMA user_version = {VERSION}"
_ONLY_READ: Final = "PRAGMA query_only = ON"
_BEGIN: Final = "BEGIN IMMEDIATE"
_COMMIT: Final = "COMMIT"
_ROLLBACK: Final = "ROLLBACK"
_UNUSABLE: Final = "the database {path} cannot be used: {reason}"


class IndexNotReady(SetupError):
    """The index does not exist yet, or not any more: it is being built, and cannot be searched until then."""

    def __init__(self) -> None:
        super().__init__("the list of what is held here is being made; try again in a few seconds")


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open a connection that only reads, for any thread. Raises IndexNotReady without an index of this version."""
    with _file_lock(path, fcntl.LOCK_SH):
        if not path.exists():
            raise IndexNotReady
        database = _connect(path)
        try:
            found = database.execute(_VERSION).fetchone()[0]
            database.execute(_ONLY_READ)
        except BaseException:
            database.close()
            raise
    if found != VERSION:
        database.close()
        raise IndexNotReady
    return database


def open_to_write(path: Path) -> sqlite3.Connection:
    """Open a connection that writes; the file is made if there is none. Raises sqlite3.Error."""
    if not path.exists():
        _make(path)
    return _connect(path)


def _make(path: Path) -> None:
    """Make an empty index under another name, then rename it: no reader finds an incomplete one, or has to wait."""
    temporary = path.with_name(f"{path.name}.new")
    remove(temporary)
    temporary.touch(mode=0o600)
    with closing(_connect(temporary)) as database:
        database.execute(_WAL)
        with transaction(database):
            for table in _TABLES:
                database.execute(table)
            database.execute(_SET_VERSION)
    temporary.rename(path)


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Run one transaction: at its end all of it is done, or nothing. Raises sqlite3.Error."""
    database.execute(_BEGIN)
    try:
        yield
        database.execute(_COMMIT)
    except BaseException:
        if database.in_transaction:
            database.execute(_ROLLBACK)
        raise


def is_of_this_version(path: Path) -> bool:
    """Return whether there is an index of this version, by its first page. Raises sqlite3.DatabaseError."""
    if not path.exists():
        return False
    database = _connect(path)
    try:
        return bool(database.execute(_VERSION).fetchone()[0] == VERSION)
    finally:
        database.close()


def remove(path: Path) -> None:
    """Remove the index with its log; a process that has it open can read on. Raises OSError."""
    with _file_lock(path, fcntl.LOCK_EX):
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
    """Leave the note that requests a rebuild of the index."""
    with suppress(OSError):
        path.with_name(NOTE).touch()


def unusable(path: Path, error: sqlite3.Error | OSError) -> SetupError:
    """Return the error for a file that cannot be used now."""
    reason = error.strerror or error if isinstance(error, OSError) else error
    return SetupError(_UNUSABLE, path=path, reason=reason)


@contextmanager
def _file_lock(path: Path, how: int) -> Iterator[None]:
    """Hold the lock between opening and removing the index. Raises OSError."""
    # Without it a process could open the database of one index with the log of the next.
    handle = os.open(path.with_name(_LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)


def _connect(path: Path) -> sqlite3.Connection:
    """Connect to a file that exists; none is made."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    database = sqlite3.connect(uri, uri=True, timeout=5, isolation_level=None, check_same_thread=False)
    try:
        for pragma in _PRAGMAS:
            database.execute(pragma)
    except BaseException:
        database.close()
        raise
    return database
