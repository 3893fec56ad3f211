"""A lock that one process of all nodes holds at a time, by a connection of its own to the database that they share.

PostgreSQL frees it at once when its holder is killed, and `IDLE_SECONDS` after it was last heard when it stands still.
A holder that wakes up late is told by `check`, before it does what only the holder may do.
"""

from __future__ import annotations

import zlib
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IDLE_SECONDS: Final = 30
"""Seconds without a sign of life after which PostgreSQL ends the connection of the holder, and so frees the lock."""
WAIT_SECONDS: Final = 15
"""Seconds that a process waits for the lock."""

_PROBLEM: Final = "the lock of {name} in the database cannot be held: {reason}"


@contextmanager
def advisory_lock(store: str, name: str) -> Iterator[Callable[[], None]]:
    """Hold the lock; yields `check`, which raises SetupError if it was lost. Raises SetupError."""
    # Imported here, because the driver is an extra.
    import psycopg

    from ibi.runtime.database.postgresql import connection_options

    session = {"idle_session_timeout": f"{IDLE_SECONDS}s", "lock_timeout": f"{WAIT_SECONDS}s"}
    options = connection_options(store, session)

    def run(connection: psycopg.Connection[tuple[object, ...]], statement: str, *values: int) -> None:
        try:
            connection.execute(statement, values)
        except psycopg.Error as error:
            raise SetupError(_PROBLEM, name=name, reason=str(error).partition("\n")[0]) from None

    try:
        connection = psycopg.connect(**options, autocommit=True)
    except psycopg.Error as error:
        raise SetupError(_PROBLEM, name=name, reason=str(error).partition("\n")[0]) from None
    with closing(connection):
        run(connection, "SELECT pg_advisory_lock(%s)", zlib.crc32(f"ibi lock {name}".encode()))
        yield lambda: run(connection, "SELECT 1")
