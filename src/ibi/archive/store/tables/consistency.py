"""Checks of the catalogue, by the database itself and by our rules between its tables; and copies of its file.

A copy is the database as it is at one moment, while others go on writing into it.
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
_MOST: Final = 20  # rows of one kind of damage that are listed


def integrity_errors(run: SqlRunner) -> list[str]:
    """Return what the database finds wrong with itself, in its own words; [] if nothing."""
    found = [str(row[0]) for row in run(_INTEGRITY).fetchall()]
    return [] if found == ["ok"] else found


def dangling_references(run: SqlRunner) -> list[tuple[str, str]]:
    """Return the pairs of tables of which the first has rows whose row in the second is missing."""
    return sorted({(str(row[0]), str(row[2])) for row in run(_DANGLING).fetchall()})


def broken_rules(run: SqlRunner) -> Iterator[tuple[str, int]]:
    """Yield the items that break a rule between tables: the rule ("files", "names", "removed"), and their number."""
    for rule, statement in (("files", _WRONG_COUNTS), ("names", _NAMELESS), ("removed", _UNLAWFUL)):
        for row in run(statement, most=_MOST).fetchall():
            yield rule, int(row[0])


_UNUSABLE: Final = "the database {path} cannot be used: {reason}"
_CHECK: Final = "PRAGMA integrity_check(1)"
# A backup is one file: no log beside it that could be lost.
_ALONE: Final = "PRAGMA journal_mode = DELETE"
_SETTLE: Final = (
    "UPDATE file SET staged = NULL WHERE staged IS NOT NULL",
    "DELETE FROM leaving",
    "DELETE FROM visit_mark",
    "DELETE FROM visit_key",
)
_COMPACT: Final = "VACUUM"


def copy_database(source: Path, target: Path) -> None:
    """Copy a database to a file that is not there yet, whole and flushed. Raises SetupError."""
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
    """Mark all files of a copy of the catalogue as placed, as they are in a backup. Raises SetupError.

    The marks that tell readers apart for an hour are deleted from it.
    """
    try:
        with closing(sqlite3.connect(copy)) as database:
            for statement in _SETTLE:
                database.execute(statement)
            database.commit()
            # VACUUM, or what was deleted would stay readable in free pages of a file that is kept for years.
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
