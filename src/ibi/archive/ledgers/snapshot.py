"""A database as it is at one moment, while others go on writing into it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError

if TYPE_CHECKING:
    from pathlib import Path

_UNUSABLE: Final = "the database {path} cannot be used: {reason}"
_CHECK: Final = "PRAGMA integrity_check(1)"
_ALONE: Final = "PRAGMA journal_mode = DELETE"  # a file that is one file: its log is in it
_SETTLED: Final = "UPDATE file SET staged = NULL WHERE staged IS NOT NULL"
_GONE: Final = "DELETE FROM leaving"
_MARKS: Final = "DELETE FROM visit_mark"
_KEYS: Final = "DELETE FROM visit_key"
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
    """Say in a copy of a catalogue that its files are in their places, as in a backup they are. Raises SetupError.

    What tells readers apart for an hour is left out of it, also out of the free pages of its file.
    """
    try:
        with closing(sqlite3.connect(copy)) as database:
            database.execute(_SETTLED)
            database.execute(_GONE)
            database.execute(_MARKS)
            database.execute(_KEYS)
            database.commit()
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
