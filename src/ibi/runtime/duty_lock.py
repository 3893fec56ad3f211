"""Duties that one of several nodes does: an advisory lock of PostgreSQL, held by a connection of its own.

    wait      try to take the lock every TRY_EVERY seconds
    take      write a new term, a number that is drawn, into the row of the duty
    hold      do the work; say something on the connection of the lock every BEAT_EVERY seconds
    lose      cancel the work, close the connection, wait

PostgreSQL frees the lock at once when its holder is killed, and IDLE_SECONDS after it was last heard when it is stopped
or cut off. So another node takes over within IDLE_SECONDS and TRY_EVERY.

A holder that wakes up late writes nothing: each write transaction of its work first locks the row of the duty for
sharing, and compares the term with its own (`database.FENCE`). The next holder writes its term before it begins; to do
so, it waits for the transactions that have locked the row. So each step of an earlier holder is written before that, or
not at all.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import zlib
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import SetupError
from ibi.runtime.database.fencing import FENCE
from ibi.runtime.tasks import cancel_tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from psycopg import AsyncConnection
    from sqlalchemy import Connection

TRY_EVERY: Final = 2.0
"""Seconds between two attempts to take the lock."""

BEAT_EVERY: Final = 3.0
"""Seconds between two signs of life of its holder."""

IDLE_SECONDS: Final = 20
"""Seconds without a sign of life after which PostgreSQL ends the connection of the holder, and so frees the lock."""

ANSWER_SECONDS: Final = 10.0
"""Seconds after which a sign of life without an answer means that the lock is lost."""

TABLE: Final = """
CREATE TABLE IF NOT EXISTS duties (
    name text PRIMARY KEY,
    term bigint NOT NULL,
    holder text NOT NULL
)
"""
"""A row for each duty: the present term, and the host that began it."""

_END_SECONDS: Final = 1.0  # until a statement has ended whose connection was shut down

# IF NOT EXISTS does not hold between two connections that make a table at the same moment.
_MAKE: Final = f"BEGIN; SELECT pg_advisory_xact_lock({zlib.crc32(b'ibi duties')}); {TABLE}; COMMIT"

_TAKE: Final = """
INSERT INTO duties (name, term, holder) VALUES (%s, %s, %s)
ON CONFLICT (name) DO UPDATE SET term = excluded.term, holder = excluded.holder RETURNING term
"""

_log = logging.getLogger(__name__)


class DutyLock:
    """The right of one node to do the work `name`; `store` is the URL of the database that the nodes share.

    `idle`: seconds after which a holder that says nothing loses the lock.
    """

    def __init__(self, store: str, name: str, idle: int = IDLE_SECONDS) -> None:
        # Imported here, because the driver is an extra that most services do without.
        from ibi.runtime.database.postgresql import connection_options

        # The server's own keepalives end a connection whose node was cut off while a statement ran.
        session = {
            "idle_session_timeout": f"{idle}s",
            "lock_timeout": "15s",
            "tcp_keepalives_idle": "5",
            "tcp_keepalives_interval": "2",
            "tcp_keepalives_count": "3",
            "tcp_user_timeout": "10s",
        }
        self.name = name
        self._options = connection_options(store, session)
        self._key = zlib.crc32(f"ibi duty {name}".encode())
        self._beat_every = min(BEAT_EVERY, idle / 4)
        self._complaint = ""

    async def while_held(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do endless work whenever this node holds the lock, until cancelled. An error of the work is raised."""
        while True:
            connection, term = await self._acquire()
            _log.info("%s: this node does it from now on", self.name)
            try:
                if await self._hold(connection, term, work):
                    return
            finally:
                await _close(connection)
            _log.warning("%s: the lock was lost; another node may go on", self.name)

    async def _acquire(self) -> tuple[AsyncConnection[Any], int]:
        """Wait for the lock; return its connection, and the new term."""
        while True:
            try:
                connection = await self._connect()
                try:
                    term = await self._take(connection)
                except BaseException:
                    await _close(connection)
                    raise
            except (_driver().Error, OSError, TimeoutError) as error:
                self._complain(error)
                await asyncio.sleep(TRY_EVERY)
            else:
                self._complaint = ""
                return connection, term

    async def _connect(self) -> AsyncConnection[Any]:
        async with asyncio.timeout(ANSWER_SECONDS):
            connection: AsyncConnection[Any] = await _driver().AsyncConnection.connect(
                **self._options, autocommit=True
            )
            return connection

    async def _take(self, connection: AsyncConnection[Any]) -> int:
        """Try to take the lock until it is taken; return the new term."""
        while not (await _answer(connection, "SELECT pg_try_advisory_lock(%s)", self._key))[0]:
            self._complaint = ""
            await asyncio.sleep(TRY_EVERY)
        term = secrets.randbits(62)
        if (await _answer(connection, "SELECT to_regclass('duties') IS NULL"))[0]:
            await connection.execute(_MAKE)
        return int((await _answer(connection, _TAKE, self.name, term, socket.gethostname()))[0])

    async def _hold(
        self, connection: AsyncConnection[Any], term: int, work: Callable[[], Awaitable[None]]
    ) -> bool:
        """Do the work until it ends (True) or the lock is lost (False). An error of the work is raised."""
        context = copy_context()
        context.run(FENCE.set, _Fence(self.name, term).check)
        working = asyncio.get_running_loop().create_task(_run(work), context=context)
        try:
            while not working.done():
                await asyncio.wait({working}, timeout=self._beat_every)
                if not working.done():
                    await _answer(connection, "SELECT 1")
        except (_driver().Error, OSError, TimeoutError) as error:
            self._complain(error)
            return False
        finally:
            if not working.done():
                await cancel_tasks([working])
        working.result()
        return True

    def _complain(self, error: Exception) -> None:
        """Log why the lock cannot be had, once for the same reason."""
        reason = str(error).partition("\n")[0] or type(error).__name__
        if reason != self._complaint:
            self._complaint = reason
            _log.warning("%s: %s", self.name, reason)


class _Fence:
    """What each write transaction of the work of a term checks."""

    def __init__(self, name: str, term: int) -> None:
        self._name = name
        self._term = term

    def check(self, connection: Connection) -> None:
        """Lock the row of the duty for sharing. Raises SetupError if another node has taken the duty over."""
        statement = "SELECT term FROM duties WHERE name = %s FOR SHARE"
        if connection.exec_driver_sql(statement, (self._name,)).scalar() != self._term:
            raise SetupError("another node has taken this work over, so nothing was written")


async def _run(work: Callable[[], Awaitable[None]]) -> None:
    await work()


async def _answer(connection: AsyncConnection[Any], statement: str, *values: object) -> tuple[Any, ...]:
    """Return the first row. Raises psycopg.Error, and TimeoutError after ANSWER_SECONDS."""

    async def ask() -> tuple[Any, ...]:
        cursor = await connection.execute(statement, values)
        return tuple(await cursor.fetchone() or ())

    asking = asyncio.get_running_loop().create_task(ask())
    try:
        await asyncio.wait({asking}, timeout=ANSWER_SECONDS)
        if asking.done():
            return asking.result()
        raise TimeoutError("the database has not answered")
    finally:
        if not asking.done():
            await _give_up(connection, asking)


async def _give_up(connection: AsyncConnection[Any], asking: asyncio.Task[Any]) -> None:
    """End a task that waits for an answer, without waiting for the server."""
    # Its file stays open meanwhile: uvloop ends the process if one is closed that it has just been told to watch.
    with suppress(OSError, _driver().Error), socket.socket(fileno=os.dup(connection.pgconn.socket)) as own:
        own.shutdown(socket.SHUT_RDWR)
    await asyncio.wait({asking}, timeout=_END_SECONDS)
    if not asking.done():
        # The driver would first wait for the answer to a request to cancel the statement.
        connection.pgconn.finish()
    await cancel_tasks([asking])


async def _close(connection: AsyncConnection[Any]) -> None:
    """Close a connection, which frees its locks."""
    with suppress(_driver().Error, OSError):
        await connection.close()


def _driver() -> Any:
    import psycopg

    return psycopg
