"""Checks of the catalogue, by the database itself and by rules between its tables; and copies of its file.

A copy is a snapshot of one moment; other processes can write into the database while it is made.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ibi.archive.store.tables.catalogue import SqlRunner


_INTEGRITY: Final = "PRAGMA integrity_check(20)"
_DANGLING: Final = "PRAGMA foreign_key_check"
_WRONG_COUNTS: Final = (
    "SELECT item.number FROM item WHERE file_count <>"
    " (SELECT count(*) FROM file WHERE file.item = item.number) LIMIT :most"
)
_NAMELESS: Final = (
    "SELECT item.number FROM item WHERE 1 <>"
    " (SELECT count(*) FROM name WHERE name.item = item.number AND name.main) LIMIT :most"
)
_UNLAWFUL: Final = (
    "SELECT item.number FROM item WHERE state = 'Deleted' AND (url IS NOT NULL OR file_count > 0) LIMIT :most"
)
_MOST: Final = 20  # rows that are listed for one broken rule


def integrity_errors(run: SqlRunner) -> list[str]:
    """Return the errors of the database's integrity check, in its own words; [] if there are none."""
    found = [str(row[0]) for row in run(_INTEGRITY).fetchall()]
    return [] if found == ["ok"] else found


def dangling_references(run: SqlRunner) -> list[tuple[str, str]]:
    """Return pairs of tables: the first has rows that refer to a missing row of the second."""
    return sorted({(str(row[0]), str(row[2])) for row in run(_DANGLING).fetchall()})


def broken_rules(run: SqlRunner) -> Iterator[tuple[str, int]]:
    """Yield (rule, item number) for items that break a rule between tables: "files", "names" or "removed"."""
    for rule, statement in (("files", _WRONG_COUNTS), ("names", _NAMELESS), ("removed", _UNLAWFUL)):
        for row in run(statement, most=_MOST).fetchall():
            yield rule, int(row[0])


_UNUSABLE: Final = "the database {path} cannot be used: {reason}"
_CHECK: Final = "PRAGMA integrity_check(1)"
# A backup is a single file, without a log beside it that could be lost.
_ALONE: Final = "PRAGMA journal_mode = DELETE"
_SETTLE: Final = (
    "UPDATE file SET staged = NULL WHERE staged IS NOT NULL",
    "DELETE FROM leaving",
    "DELETE FROM visit_mark",
    "DELETE FROM visit_key",
)
_COMPACT: Final = "VACUUM"


def copy_database(source: Path, target: Path) -> None:
    """Copy a database to a new file; the copy is checked and durable at the end. Raises SetupError."""
    try:
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True, timeout=10)) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)
            new.execute(_ALONE)
            found = new.execute(_CHECK).fetchone()[0]
        if found != "ok":
            raise SetupError(_UNUSABLE, path=source, reason=found)
        _flush(target)
    except sqlite3.Error as error:
        raise SetupError(_UNUSABLE, path=source, reason=error) from None
    except OSError as error:
        reason = error.strerror or error
        raise SetupError("{path} cannot be written: {reason}", path=target, reason=reason) from None


def settle_copy(copy: Path) -> None:
    """Mark all files in a copy of the catalogue as placed: a backup has no staging. Raises SetupError.

    Fingerprints of visits, and their keys, are deleted from the copy.
    """
    try:
        with closing(sqlite3.connect(copy)) as database:
            for statement in _SETTLE:
                database.execute(statement)
            database.commit()
            # Without VACUUM, deleted rows would stay readable in free pages of a file that is kept for years.
            database.execute(_COMPACT)
        _flush(copy)
    except sqlite3.Error as error:
        raise SetupError(_UNUSABLE, path=copy, reason=error) from None


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
