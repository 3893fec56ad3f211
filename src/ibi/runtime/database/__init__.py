"""Databases: engines with the guarantees that the services rely on, transactions, and versioned migrations.

A store is a SQLite file (a path) or a database of PostgreSQL (a URL). In both, readers never wait for writers, a commit
is on the disk before it is reported, foreign keys are enforced, and no password is ever part of an error.

Entry points: `open_engine`, `transaction`, `migrate`, `check_version`, `upgrade`.
"""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.exc import DatabaseError

from ibi.runtime.database import sqlite
from ibi.runtime.database.faults import is_postgresql, place, unusable
from ibi.runtime.database.fencing import FENCE
from ibi.runtime.database.migrations import (
    check_version,
    earlier_version,
    has_version,
    migrate,
    run_migrations,
    upgrade,
)
from ibi.runtime.database.sqlite import quick_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

__all__ = [
    "check_version",
    "earlier_version",
    "has_version",
    "is_postgresql",
    "is_url",
    "migrate",
    "open_engine",
    "place",
    "quick_check",
    "run_migrations",
    "transaction",
    "unusable",
    "upgrade",
]


def is_url(store: Path | str) -> bool:
    """Whether a store is named by a URL, and not by the path of a SQLite file."""
    return isinstance(store, str) and "://" in store


def open_engine(store: Path | str) -> Engine:
    """Make an engine for a SQLite file, or for a database "postgresql://user:password@host:port/name".

    The store is neither opened nor made yet. Raises SetupError for a URL that is none of PostgreSQL, and where the
    extra `ibi[postgres]` is not installed.
    """
    if not is_url(store):
        return sqlite.open_engine(Path(store))
    # Imported here, because the driver is an extra that most services do without.
    from ibi.runtime.database import postgresql

    return postgresql.open_engine(str(store))


@contextmanager
def transaction(engine: Engine, lock: str = "") -> Iterator[Connection]:
    """Open a write transaction. Raises SetupError if it fails: locked too long, disk full, damaged, server away.

    In SQLite no other transaction writes until it ends. In PostgreSQL no other one with the same `lock` does; without
    a lock, others write meanwhile. A duty that another node has taken over is refused (`FENCE`).
    """
    fence = FENCE.get()
    try:
        with engine.begin() as connection:
            if fence is not None and is_postgresql(engine):
                fence(connection)
            if lock and is_postgresql(engine):
                # Freed at the end of the transaction, also when the process or its connection ends.
                key = zlib.crc32(f"ibi {lock}".encode())
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({key})")
            yield connection
    except (DatabaseError, engine.dialect.loaded_dbapi.Error) as error:
        raise unusable(engine, error) from None
