"""PostgreSQL: connections that never wait for ever, and whose commits are on the disk before they are reported.

    postgresql://user:password@host:port/name?sslmode=verify-full     over the network; the password is a secret
    postgresql://user@/name?host=/run/postgresql                      by a socket of this machine

Connections lead to the server itself, or to a pooler that keeps a session for each (not PgBouncer's transaction mode).
"""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError

from ibi.errors import SetupError

try:
    import psycopg
except ImportError:
    raise SetupError("a store in PostgreSQL needs more packages: pip install 'ibi[postgres]'") from None

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg.abc import PQGen
    from sqlalchemy import Engine

TIMEOUT: Final = 25.0
"""Seconds that one statement may take, as this side counts them: a server that hangs counts nothing."""

_CONNECT: Final = 5  # seconds
_SLOW: Final = 1.0  # seconds: a server that refuses a connection answers sooner
_PAUSE: Final = 1.0  # seconds between two looks at a server that hangs
_REACHING: Final[Mapping[str, object]] = {
    "connect_timeout": _CONNECT,
    # A peer that was cut off is given up after about ten seconds.
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "ibi",
    "client_encoding": "UTF8",
}
_SESSION: Final[Mapping[str, str]] = {
    "statement_timeout": "20s",
    "lock_timeout": "10s",
    # A process that stands still must not keep others from writing.
    "idle_in_transaction_session_timeout": "10s",
}
_ALWAYS: Final = r"-c synchronous_commit=on -c default_transaction_isolation=read\ committed"
"""What neither the server nor a URL may change: what was reported as stored is on its disk."""


_T = TypeVar("_T")


class _Connection(psycopg.Connection[Any]):
    """A connection that raises an error, and is closed, if the server does not answer within `limit` seconds."""

    limit: float | None = None  # None: TIMEOUT
    opened_by: _Connecting | None = None

    def __del__(self) -> None:  # type: ignore[override]  # the arguments of the driver only keep its modules
        """End with the engine that has opened it, without the driver's warning, as a connection of SQLite does."""

    def wait(self, gen: PQGen[_T], interval: float = 0.1, timeout: float | None = None) -> _T:
        """As in the driver, which waits for ever by itself."""
        limit = timeout or self.limit or TIMEOUT
        try:
            return super().wait(gen, interval=interval, timeout=limit)
        except psycopg.errors._WaitTimeout:  # noqa: SLF001 - what `timeout` is documented to raise
            self.pgconn.finish()
            problem = f"the server has not answered for {limit:g} s"
            if self.opened_by is not None:
                self.opened_by.look_out(problem)
            raise psycopg.OperationalError(problem) from None


def read_url(text: str) -> URL:
    """Read the URL of a database. Raises SetupError, which never shows the text: it may have a password in it."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        url = URL.create("")
    if url.drivername not in {"postgresql", "postgres"} or not url.database:
        raise SetupError("a store is a URL such as postgresql://user:password@host/database, and this is not")
    return url


def connection_options(store: str, session: Mapping[str, str] = {}) -> dict[str, Any]:
    """Return the arguments of `psycopg.connect` for a store. Raises SetupError.

    `session`: settings of the server for this connection, beside the usual ones or in their place.
    """
    options = read_url(store).translate_connect_args(username="user", database="dbname")
    query = {
        name: value if isinstance(value, str) else value[-1] for name, value in read_url(store).query.items()
    }
    settings = " ".join(f"-c {name}={value}" for name, value in {**_SESSION, **session}.items())
    query["options"] = " ".join(filter(None, (settings, query.get("options", ""), _ALWAYS)))
    return {**_REACHING, **options, **query}


def open_engine(store: str) -> Engine:
    """Make an engine for a store; its URL has neither user nor password. Raises SetupError."""
    url = read_url(store)
    host = url.host or url.query.get("host", "") or "localhost"
    shown = URL.create("postgresql+psycopg", host=str(host), port=url.port, database=url.database)
    connecting = _Connecting(connection_options(store))
    # As many connections as there are threads that write: one that waits for the lock needs its own.
    engine = create_engine(shown, hide_parameters=True, creator=connecting, max_overflow=-1)

    @event.listens_for(engine, "checkout")
    def check(connection: Any, _record: object, _proxy: object) -> None:
        # A server that was started again has closed it: the pool then opens another one.
        if is_lost(connection):
            raise DisconnectionError

    return engine


def is_lost(connection: Any) -> bool:
    """Whether an idle connection was closed, by either side, or leads to a server that hangs; costs a system call."""
    opened_by: _Connecting | None = connection.opened_by
    if connection.closed or (opened_by is not None and opened_by.problem):
        return True
    # An idle server says nothing, unless it ends, or was told to end this connection.
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN | select.POLLERR | select.POLLHUP)
    return bool(poll.poll(0))


class _Connecting:
    """Opens connections. When one has found that the server hangs, all fail at once until a thread finds it again.

    Otherwise each request would wait for it, one after the other, and the event loop with them.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._hangs = (
            0,
            "",
        )  # the process that has found it, and what it found: a fork has no thread that looks

    @property
    def problem(self) -> str:
        """What is known of a server that hangs; "" if it is not known to."""
        process, problem = self._hangs
        return problem if process == os.getpid() else ""

    def __call__(self) -> Any:
        """Open a connection. Raises psycopg.OperationalError."""
        if problem := self.problem:
            raise psycopg.OperationalError(problem)
        began = time.monotonic()
        try:
            connection = _Connection.connect(**self._options)
        except psycopg.OperationalError as error:
            if time.monotonic() - began > _SLOW:
                self.look_out(str(error))
            raise
        connection.opened_by = self
        return connection

    def look_out(self, problem: str) -> None:
        """Let all connections fail with this problem until the server answers again, if only by a refusal."""
        with self._lock:
            if self.problem:
                return
            self._hangs = os.getpid(), problem
        looking = threading.Thread(target=_look_out, args=(weakref.ref(self), self._options), daemon=True)
        looking.start()

    def found(self) -> None:
        """Try again from now on."""
        self._hangs = 0, ""


def _look_out(connecting: weakref.ref[_Connecting], options: dict[str, Any]) -> None:
    """Connect until the server answers, or the engine is gone."""
    while connecting() is not None:
        began = time.monotonic()
        try:
            psycopg.connect(**options).close()
        except psycopg.OperationalError:
            if time.monotonic() - began > _SLOW:
                time.sleep(_PAUSE)
                continue
        if (waiting := connecting()) is not None:
            waiting.found()
        return
