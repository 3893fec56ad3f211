"""Store sessions and attempts to sign in: DIR/sessions.sqlite, shared by all processes of a service.

In a data directory with a shared store they are two tables there, so a session holds at every node. See T44: stolen
accounts.

Only the SHA-256 of a session's random id is stored, so a reader of the file cannot take over a session. If
the file is lost, or was made by another version, all users must sign in again.
"""

from __future__ import annotations

import secrets
from contextlib import closing
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from ibi.errors import SetupError
from ibi.runtime.database import open_engine, transaction
from ibi.runtime.durable_files import setup_errors
from ibi.runtime.shared.store import store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sqlalchemy import Connection

IDLE: Final = 3600.0
"""Seconds without a request after which a session ends."""
ABSOLUTE: Final = 12 * 3600.0
"""Seconds after which a session ends, whatever happens in it."""
MOST_SESSIONS: Final = 20
"""Sessions of one account; one more ends the oldest."""
MOST_ATTEMPTS: Final = 100_000
"""Attempts to sign in that are stored; beyond this the oldest are deleted."""
ATTEMPTS_STORED: Final = 3600.0
"""Seconds for which attempts are stored: no limit looks back further."""

_VERSION: Final = 2
_NOTE_EVERY: Final = 60.0  # seconds between two notes of a session's use, each of which flushes the disk
_ID_BYTES: Final = 32
_A_MOMENT: Final = 1.0  # seconds
_TABLES: Final = (
    "DROP TABLE IF EXISTS session",
    "DROP TABLE IF EXISTS attempt",
    (
        "CREATE TABLE session (hash TEXT PRIMARY KEY, account TEXT NOT NULL, stamp TEXT NOT NULL,"
        " begun REAL NOT NULL, seen REAL NOT NULL, language TEXT NOT NULL) WITHOUT ROWID"
    ),
    "CREATE INDEX session_of_account ON session (account, begun)",
    "CREATE TABLE attempt (number INTEGER PRIMARY KEY AUTOINCREMENT, name BLOB NOT NULL, moment REAL NOT NULL)",
    "CREATE INDEX attempt_of_name ON attempt (name, moment)",
    "CREATE INDEX attempt_by_moment ON attempt (moment)",
    f"PRAGMA user_version = {_VERSION}",
)
_FIND: Final = "SELECT account, stamp, language, begun, seen FROM session WHERE hash = :hash"
_ADD: Final = text(
    "INSERT INTO session (hash, account, stamp, begun, seen, language)"
    " VALUES (:hash, :account, :stamp, :now, :now, :language)"
)
_NOTE_USE: Final = text("UPDATE session SET seen = :now WHERE hash = :hash")
_CHOOSE: Final = text("UPDATE session SET language = :language WHERE hash = :hash")
_END: Final = text("DELETE FROM session WHERE hash = :hash")
_END_ALL: Final = text("DELETE FROM session WHERE account = :account")
_END_OLD: Final = text("DELETE FROM session WHERE seen <= :idle OR begun <= :old OR begun > :soon")
_END_MANY: Final = text(
    "DELETE FROM session WHERE account = :account AND hash NOT IN"
    " (SELECT hash FROM session WHERE account = :account ORDER BY begun DESC, hash LIMIT :most)"
)
_TRIED: Final = text(
    "SELECT moment FROM attempt WHERE name = :name AND moment > :after AND moment <= :now"
    " ORDER BY moment DESC LIMIT :most"
)
_TRY: Final = text("INSERT INTO attempt (name, moment) VALUES (:name, :now) RETURNING number")
_FORGET: Final = text(
    "DELETE FROM attempt WHERE moment <= :before OR number <= (SELECT max(number) FROM attempt) - :most"
)
_CLEAR: Final = text("DELETE FROM attempt WHERE number = :number")
_CLEAR_ALL: Final = text("DELETE FROM attempt WHERE name = :name")
# Attempts are counted and added one after the other, as in SQLite: two at once must not both be the last one allowed.
_LOCK_ATTEMPTS: Final = text("LOCK TABLE attempt IN SHARE ROW EXCLUSIVE MODE")


class AttemptLimit(NamedTuple):
    """At most `most` failed attempts for one name in `seconds`. Each `kind` has names of its own."""

    kind: str
    most: int
    seconds: float


class StoredSession(NamedTuple):
    """A session: its account, the stamp of its password, and the language chosen in it, "" for none."""

    account: str
    stamp: str
    language: str


class SignInAttempt(NamedTuple):
    """An attempt, counted as failed until it is cleared; or not counted: `wait` seconds first."""

    numbers: tuple[int, ...]
    wait: float = 0.0


class Sessions:
    """The sessions in one file, or in the shared store of its folder. `now` returns POSIX seconds.

    All methods may wait for the disk. They raise SetupError if the file, or the store, cannot be used.
    """

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        self._path = path
        self._now = now
        self._store = store_of(path.parent)
        self._engine = open_engine(path) if self._store is None else self._store.engine
        self._made = False

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        if self._store is None:
            self._engine.dispose()

    def start(self, account: str, stamp: str, language: str = "") -> str:
        """Start a session, with the language of its pages if one was chosen; return its id, which is stored nowhere."""
        session, now = secrets.token_urlsafe(_ID_BYTES), self._now()
        with self._writing() as run:
            run.execute(_END_OLD, {"idle": now - IDLE, "old": now - ABSOLUTE, "soon": now + _NOTE_EVERY})
            values = {"account": account, "stamp": stamp, "now": now, "language": language}
            run.execute(_ADD, {"hash": _hash(session), **values})
            run.execute(_END_MANY, {"account": account, "most": MOST_SESSIONS})
        return session

    def find(self, session: str) -> StoredSession | None:
        """Return a session and note its use; None if it is unknown or has ended."""
        now, hashed = self._now(), _hash(session)
        self._make()
        try:
            row = self._row(hashed)
        except (DatabaseError, self._engine.dialect.loaded_dbapi.Error) as error:
            problem = "the database {path} cannot be used: {reason}"
            raise SetupError(problem, path=self._path, reason=error) from None
        if row is None:
            return None
        account, stamp, language, begun, used_at = row
        if now - used_at >= IDLE or not -_NOTE_EVERY < now - begun < ABSOLUTE:
            self.end(session)
            return None
        if now - used_at >= _NOTE_EVERY:
            with self._writing() as run:
                run.execute(_NOTE_USE, {"now": now, "hash": hashed})
        return StoredSession(account, stamp, language)

    def choose_language(self, session: str, language: str) -> None:
        """Store the language that a user has chosen for the pages of a session."""
        with self._writing() as run:
            run.execute(_CHOOSE, {"language": language, "hash": _hash(session)})

    def end(self, session: str) -> None:
        """End a session; one that has ended may be ended again."""
        with self._writing() as run:
            run.execute(_END, {"hash": _hash(session)})

    def end_all(self, account: str) -> None:
        """End every session of an account."""
        with self._writing() as run:
            run.execute(_END_ALL, {"account": account})

    def attempt(self, named: Sequence[tuple[AttemptLimit, str]]) -> SignInAttempt:
        """Count an attempt under several limits before it costs any work; if one is reached, it is not counted."""
        now = self._now()
        names = [(limit, _name(limit, name)) for limit, name in named]
        with self._writing() as run:
            if self._store is not None:
                run.execute(_LOCK_ATTEMPTS)
            run.execute(_FORGET, {"before": now - ATTEMPTS_STORED, "most": MOST_ATTEMPTS})
            wait = max(self._wait(run, limit, name, now) for limit, name in names)
            if wait:
                return SignInAttempt((), wait)
            return SignInAttempt(
                tuple(run.execute(_TRY, {"name": name, "now": now}).scalar_one() for _, name in names)
            )

    def clear(self, attempt: SignInAttempt, limit: AttemptLimit, name: str) -> None:
        """Delete an attempt that did not fail, and all earlier attempts of this name."""
        with self._writing() as run:
            for number in attempt.numbers:
                run.execute(_CLEAR, {"number": number})
            run.execute(_CLEAR_ALL, {"name": _name(limit, name)})

    @staticmethod
    def _wait(run: Connection, limit: AttemptLimit, name: bytes, now: float) -> float:
        """Return the seconds until the next attempt is allowed under a limit; 0 if it is allowed now."""
        # Moments in the future are ignored, because a clock that was wrong once must not lock an account.
        values = {"name": name, "after": now - limit.seconds, "now": now, "most": limit.most}
        moments = [row[0] for row in run.execute(_TRIED, values)]
        return max(moments[-1] + limit.seconds - now, _A_MOMENT) if len(moments) >= limit.most else 0.0

    def _row(self, hashed: str) -> Any:
        """Return the row of a session, without waiting for writers."""
        if self._store is not None:
            with self._engine.connect() as run:
                return run.execute(text(_FIND), {"hash": hashed}).first()
        with closing(self._engine.raw_connection()) as connection:
            return connection.cursor().execute(_FIND, {"hash": hashed}).fetchone()

    def _writing(self) -> Any:
        self._make()
        if self._store is not None:
            self._store.check_reached()
        return transaction(self._engine)

    def _make(self) -> None:
        """Make the tables if they are missing or of another version; a second process finds them made."""
        if self._made or self._store is not None:
            return
        with setup_errors("the database {path} cannot be used: {reason}", path=self._path):
            self._path.touch(mode=0o600)
        with transaction(self._engine) as run:
            if run.exec_driver_sql("PRAGMA user_version").scalar_one() != _VERSION:
                for statement in _TABLES:
                    run.exec_driver_sql(statement)
        self._made = True


def _hash(session: str) -> str:
    return sha256(session.encode("utf-8", "surrogatepass")).hexdigest()


def _name(limit: AttemptLimit, name: str) -> bytes:
    # Hashed, so that the file contains no addresses of people, and each name takes 16 bytes.
    return blake2b(f"{limit.kind} {name}".encode("utf-8", "replace"), digest_size=16).digest()
