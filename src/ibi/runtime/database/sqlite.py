"""SQLite databases: what a write transaction has read cannot change, because no other transaction writes meanwhile."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event
from sqlalchemy.exc import DatabaseError

from ibi.runtime.database.faults import is_postgresql, unusable

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection, Engine

ONLY_READING = "only_reading"
"""An option of connections that only read, so that a look at the version waits for no writer."""

_PRAGMAS = (
    # Readers and one writer do not wait for each other.
    "PRAGMA journal_mode = WAL",
    # With WAL, NORMAL would lose the last commits at a power cut, and with them receipts and tokens given.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA busy_timeout = 10000",
    "PRAGMA temp_store = MEMORY",
)


def open_engine(path: Path) -> Engine:
    """Make an engine for the SQLite file at a path; the file is neither opened nor made yet."""
    engine = create_engine(
        f"sqlite:///{path}", hide_parameters=True, connect_args={"check_same_thread": False, "timeout": 10}
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        # Otherwise the driver would begin transactions, and only at the first write; `begin` below does it.
        connection.isolation_level = None
        try:
            for pragma in _PRAGMAS:
                connection.execute(pragma)
        except Exception as error:
            connection.close()  # not all versions of SQLAlchemy do it
            if isinstance(error, UnicodeDecodeError):
                # The schema is so damaged that the driver cannot decode SQLite's error message.
                raise engine.dialect.loaded_dbapi.DatabaseError("malformed database schema") from None
            raise

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # IMMEDIATE takes the lock before anything is read: a transaction that first reads and then writes
        # would fail at once, without waiting, if another one has written meanwhile.
        only_reading = connection.get_execution_options().get(ONLY_READING)
        connection.exec_driver_sql("BEGIN" if only_reading else "BEGIN IMMEDIATE")

    return engine


def quick_check(engine: Engine, seconds: float) -> list[str]:
    """Have SQLite check its file; return the faults, [] if there are none. Writers do not wait meanwhile.

    PostgreSQL checks its pages itself, when it reads them: there is nothing to do here.

    Raises SetupError where the file cannot be read and TimeoutError when it takes longer than `seconds`.
    """
    if is_postgresql(engine):
        return []
    end = time.monotonic() + seconds
    try:
        with closing(engine.raw_connection()) as connection:
            driver: Any = connection.driver_connection
            driver.set_progress_handler(lambda: time.monotonic() > end, 10_000)
            try:
                found = [str(row[0]) for row in driver.execute("PRAGMA quick_check(10)")]
            finally:
                driver.set_progress_handler(None, 0)
    except (DatabaseError, engine.dialect.loaded_dbapi.Error) as error:
        if time.monotonic() > end:
            raise TimeoutError from None
        raise unusable(engine, error) from None
    return [] if found == ["ok"] else found
