"""The shared store of a data directory, and how its changes reach every process of every node.

Triggers count the changes of each part (`registry`, `evidence`, `document accounts.json`, …) in the table
`change_count`, and send the name of the part with NOTIFY. A notice may be lost: so the counters are also read every
second and after each reconnect, and a part is read again where its counter differs from the one that was seen last.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import tomllib
import zlib
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.errors import IbiError, SetupError
from ibi.runtime.environment import environment_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection, Engine

MIGRATIONS: Final = Path(__file__).parent / "migrations"
"""The migrations of what is shared besides the registry or the catalogue."""
TABLES: Final = frozenset(
    {
        "shared_version",
        "may_go_on",
        "document",
        "change_count",
        "session",
        "attempt",
        "reply",
        "upload",
        "upload_piece",
    }
)
"""The tables that they make, and those of the versions."""
STORE: Final = "store"
"""The name of the setting that names the store, in the file of each node."""
POLL_SECONDS: Final = 1.0
"""Seconds between two reads of the counters of changes, for notices that were lost."""
REACHED_SECONDS: Final = 3.0
"""Seconds after the last answer of the store for which it counts as reached."""
LONGEST_NOTICE: Final = 7_000
"""Characters of a text that `tell` sends; PostgreSQL sends less than 8,000 bytes."""

_CHANGES: Final = "ibi_changes"
_NOTICES: Final = "ibi_notices"
_WAIT: Final = 0.25  # seconds until the watch sees that it is to end
_RETRY: Final = 0.5  # seconds between two attempts to reach a store that is away
_COUNTS: Final = "SELECT name, number FROM change_count"
_SERVED: Final = zlib.crc32(
    b"ibi served"
)  # the advisory lock that each process holds while it watches the store
STORE_FILES: Final = {"resolver.toml": "IBI_RESOLVER_STORE", "archive.toml": "IBI_ARCHIVE_STORE"}
"""The files of settings that may name a store, and the variables that go before them."""
_MAY_BE_WHOLE: Final = frozenset({"archive.toml"})
"""Those that may have all other settings, too: then nothing is shared but the catalogue, as before there were nodes."""

_log = logging.getLogger(__name__)


class SharedStore:
    """The store of one program, in one process. Its methods may be called from any thread.

    Until `watch` is called, as in a command, `count` asks the store each time; from then on it returns what the
    watching thread has read.
    """

    def __init__(self, url: str) -> None:
        # Imported here: the driver is an extra, and settings are read where no database is.
        from ibi.runtime.database import open_engine
        from ibi.runtime.database.postgresql import connection_options

        self._options = connection_options(url)
        self.engine: Engine = open_engine(url)
        self.texts: dict[str, str | None] = {}
        """The documents that this process has in memory, by name (`documents`)."""
        self.reading = threading.Lock()
        """Held while one of them is read into memory."""
        self._counts: dict[str, int] = {}
        self._noting = threading.Lock()
        self._followers: dict[str, Callable[[], None]] = {}
        self._anew: set[str] = set()
        self._hears: Callable[[str], None] = lambda _: None
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()
        self._own = count(1)
        self._read_at = float("-inf")
        self._first = threading.Event()

    @property
    def is_watched(self) -> bool:
        """Whether a thread of this process follows the changes."""
        return self._thread is not None

    @property
    def is_reached(self) -> bool:
        """Whether the store answered a moment ago; without a watch, that is not known, and taken to be so."""
        return not self.is_watched or time.monotonic() - self._read_at < REACHED_SECONDS

    def check_reached(self) -> None:
        """Raise SetupError while the store is known to be away, so that no thread waits for it."""
        if not self.is_reached:
            raise SetupError("the store cannot be reached now; ask again in a moment")

    def transaction(self) -> AbstractContextManager[Connection]:
        """Open a write transaction. Raises SetupError if it fails, or the store is away."""
        from ibi.runtime.database import transaction

        return transaction(self.engine)

    def count(self, part: str) -> int:
        """Return the number of changes of a part, as far as this process knows. Raises SetupError."""
        if self.is_watched:
            return self._counts.get(part, 0)
        with self.transaction() as run:
            found = run.exec_driver_sql(f"{_COUNTS} WHERE name = %(name)s", {"name": part}).first()
        return int(found[1]) if found else 0

    def note_changed(self, part: str) -> None:
        """Have this process read a part again that it has just changed, before the watching thread has read of it.

        `count` returns a number that it never returned before. It is negative, unlike those of the store, so that the
        next look finds another one there.
        """
        if self.is_watched:
            with self._noting:
                self._counts[part] = -next(self._own)

    def follow(self, part: str, read: Callable[[], None]) -> None:
        """Call `read`, and have the watching thread call it whenever a part has changed. Raises what it raises."""
        self._followers[part] = read
        self._anew.add(part)  # what changes in this moment is read once more
        read()

    def hear(self, notice: Callable[[str], None]) -> None:
        """Have `notice` called in the watching thread with each text that a node sends by `tell`."""
        self._hears = notice

    def tell(self, text: str) -> None:
        """Send a text of ASCII, below LONGEST_NOTICE, to all nodes; it may be lost, and then no error is raised."""
        with suppress(SetupError):
            self.check_reached()
            with self.transaction() as run:
                values = {"channel": _NOTICES, "text": text}
                run.exec_driver_sql("SELECT pg_notify(%(channel)s, %(text)s)", values)

    def watch(self, seconds: float = 5.0) -> None:
        """Follow the changes from now on; return when all was read once. Raises SetupError where it is not."""
        self._thread = threading.Thread(target=self._run, name="shared store", daemon=True)
        self._thread.start()
        if not self._first.wait(seconds):
            self.close()
            raise SetupError(
                "the store cannot be reached: look at `store` in the settings, and at its server"
            )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep every node from serving during a block. Raises SetupError if one serves."""
        with self.engine.connect() as connection:
            run = connection.execution_options(isolation_level="AUTOCOMMIT")
            try:
                if not run.exec_driver_sql(f"SELECT pg_try_advisory_lock({_SERVED})").scalar_one():
                    raise SetupError("a node serves from this store: stop all its nodes first")
                yield
            finally:
                free_locks(connection)

    def close(self) -> None:
        """End the watch, and close all connections."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join(2 * _WAIT)
        self.engine.dispose()

    def _run(self) -> None:
        from sqlalchemy.exc import SQLAlchemyError

        logged_at: float | None = None  # when the store was last read before it was logged as away
        while not self._ends.is_set():
            try:
                self._listen()
            except (SQLAlchemyError, self.engine.dialect.loaded_dbapi.Error, SetupError, OSError) as error:
                if logged_at != self._read_at:
                    _log.warning(
                        "the store cannot be reached: %s", str(error).splitlines()[0] if str(error) else error
                    )
                logged_at = self._read_at
                self._ends.wait(_RETRY)

    def _listen(self) -> None:
        """Follow the changes on one connection, until it breaks or the watch ends."""
        # One of its own, since the pool must not give one that listens to others, and without a limit for an answer:
        # while the server hangs, `is_reached` says so.
        connection: Any = self.engine.dialect.loaded_dbapi.connect(**self._options, autocommit=True)
        try:
            if not connection.execute(f"SELECT pg_try_advisory_lock_shared({_SERVED})").fetchone()[0]:
                raise SetupError("it is being moved")
            for channel in (_CHANGES, _NOTICES):
                connection.execute(f"LISTEN {channel}")
            # Read after each connect: what was sent while this connection was closed is lost.
            self.look(connection)
            self._first.set()
            read_at = time.monotonic()
            while not self._ends.is_set():
                is_changed = False
                for each in connection.notifies(timeout=_WAIT, stop_after=1):
                    is_changed |= each.channel == _CHANGES
                    if each.channel == _NOTICES:
                        self._call(self._hears, each.payload)
                if is_changed or time.monotonic() - read_at >= POLL_SECONDS:
                    self.look(connection)
                    read_at = time.monotonic()
        finally:
            connection.close()

    def look(self, connection: Any) -> None:
        """Read the counters by a connection of the driver, and have each changed part read again.

        The watching thread calls it.
        """
        # Before the others: what this process changes meanwhile is read at the next look.
        known = self._counts.copy()
        counts: dict[str, int] = dict(connection.execute(_COUNTS).fetchall())
        self._read_at = time.monotonic()
        anew, self._anew = self._anew, set()
        followers = dict(self._followers)
        for part, read in followers.items():
            number = counts.get(part, 0)
            if part not in anew and known.get(part, 0) == number:
                continue
            # Noted only after it was read: if that fails, it is tried again with the next look.
            if self._call(read):
                self._note(part, known.get(part, 0), number)
            else:
                self._anew.add(part)
        for part in counts.keys() - followers.keys():
            self._note(part, known.get(part, 0), counts[part])

    def _note(self, part: str, known: int, number: int) -> None:
        """Note the number of a part, unless it is no longer the one that was known."""
        with self._noting:
            if self._counts.get(part, 0) == known:
                self._counts[part] = number

    @staticmethod
    def _call(function: Callable[..., None], *values: str) -> bool:
        try:
            function(*values)
        except IbiError as error:
            _log.warning("a change of another node was not followed: %s", error)
            return False
        except Exception:  # noqa: BLE001 - one follower that fails must not end the watch
            _log.exception("a change of another node was not followed")
            return False
        return True


def free_locks(connection: Connection) -> None:
    """Free the advisory locks of a connection, so that the next one may take them at once, and close it."""
    from sqlalchemy.exc import SQLAlchemyError

    with suppress(SQLAlchemyError, connection.dialect.loaded_dbapi.Error):
        connection.exec_driver_sql("SELECT pg_advisory_unlock_all()")
    connection.invalidate()  # closes it, which frees them, whatever has happened


class _NodeFile(NamedTuple):
    """What the file of settings in a data directory says of the store. `is_whole`: it has the other settings, too."""

    fingerprint: tuple[int, ...]
    store: str
    is_whole: bool


_stores: dict[tuple[int, Path, str], SharedStore] = {}
_files: dict[Path, _NodeFile] = {}
_opening: Final = threading.Lock()


def store_of(data: Path) -> SharedStore | None:
    """Return the shared store of a data directory, one for each process; None if its settings name none.

    Nothing is asked of it yet. Raises SetupError for a URL that is none.
    """
    url = store_url(data)
    if not url:
        return None
    with _opening:
        # A process that was forked opens its own: two processes on one connection would mix their answers.
        key = os.getpid(), data.resolve(), url
        if key not in _stores:
            _stores[key] = SharedStore(url)
        return _stores[key]


def store_url(data: Path) -> str:
    """Return the URL of the store that the settings in a data directory name, "" for none.

    While they cannot be read, it is the one that this process has read before, or "": reading the settings themselves
    then says what is wrong, and a running service goes on as it is.
    """
    for name, variable in STORE_FILES.items():
        found = _node_file(data / name)
        if found is not None:
            alone = found.is_whole and name in _MAY_BE_WHOLE
            return "" if alone else environment_store(variable) or found.store
    return ""


def _node_file(path: Path) -> _NodeFile | None:
    """Return what a file of settings says; None if there is none, or it could never be read."""
    try:
        found = path.stat()
        fingerprint = found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
        known = _files.get(path)
        if known is None or known.fingerprint != fingerprint:
            table = tomllib.loads(path.read_bytes().decode())
            url = table.get(STORE, "")
            # The service is the setting that no file of a whole service lacks.
            known = _NodeFile(fingerprint, url if isinstance(url, str) else "", "service" in table)
            _files[path] = known
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError):
        return _files.get(path)
    return known


def opened_stores() -> frozenset[object]:
    """Return what names each store that is open in this process or one that it was forked from."""
    return frozenset(_stores)


def close_stores(but: frozenset[object] = frozenset()) -> None:
    """Close the stores of this process: at the end of a command, all that were not open before it."""
    with _opening:
        for key in [key for key in _stores if key not in but and key[0] == os.getpid()]:
            _stores.pop(key).close()


def node_name(data: Path) -> str:
    """Return what differs between the nodes that share a store: a machine and a data directory."""
    return f"{socket.gethostname()}:{data.resolve()}"


def close_store(data: Path) -> None:
    """Close the store of a data directory in this process: before it forks, and at its end."""
    with _opening:
        for key in [key for key in _stores if key[:2] == (os.getpid(), data.resolve())]:
            _stores.pop(key).close()
