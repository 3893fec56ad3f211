"""Store sessions and attempts to sign in: DIR/sessions.sqlite, shared by all processes of a service (T44).

Only the SHA-256 of a session's random id is stored, so a reader of the file cannot take over a session. If
the file is lost, or was made by another version, all users must sign in again.
"""

from __future__ import annotations

import secrets
from contextlib import closing
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy.exc import DatabaseError

from ibi.errors import SetupError
from ibi.runtime.database import open_engine, transaction
from ibi.runtime.durable_files import setup_errors

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
_FIND: Final = "SELECT account, stamp, language, begun, seen FROM session WHERE hash = ?"
_ADD: Final = "INSERT INTO session (hash, account, stamp, begun, seen, language) VALUES (?, ?, ?, ?, ?, ?)"
_NOTE_USE: Final = "UPDATE session SET seen = ? WHERE hash = ?"
_CHOOSE: Final = "UPDATE session SET language = ? WHERE hash = ?"
_END: Final = "DELETE FROM session WHERE hash = ?"
_END_ALL: Final = "DELETE FROM session WHERE account = ?"
_END_OLD: Final = "DELETE FROM session WHERE seen <= ? OR begun <= ? OR begun > ?"
_END_MANY: Final = (
    "DELETE FROM session WHERE account = ? AND hash NOT IN"
    " (SELECT hash FROM session WHERE account = ? ORDER BY begun DESC, hash LIMIT ?)"
)
_TRIED: Final = (
    "SELECT moment FROM attempt WHERE name = ? AND moment > ? AND moment <= ? ORDER BY moment DESC LIMIT ?"
)
_TRY: Final = "INSERT INTO attempt (name, moment) VALUES (?, ?) RETURNING number"
_FORGET: Final = "DELETE FROM attempt WHERE moment <= ? OR number <= (SELECT max(number) FROM attempt) - ?"
_CLEAR: Final = "DELETE FROM attempt WHERE number = ?"
_CLEAR_ALL: Final = "DELETE FROM attempt WHERE name = ?"


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
    """The sessions in one file. `now` returns POSIX seconds. All methods may wait for the disk.

    They raise SetupError if the file cannot be used.
    """

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        self._path = path
        self._now = now
        self._engine = open_engine(path)
        self._made = False

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        self._engine.dispose()

    def start(self, account: str, stamp: str, language: str = "") -> str:
        """Start a session, with the language of its pages if one was chosen; return its id, which is stored nowhere."""
        session, now = secrets.token_urlsafe(_ID_BYTES), self._now()
        with self._writing() as run:
            run.exec_driver_sql(_END_OLD, (now - IDLE, now - ABSOLUTE, now + _NOTE_EVERY))
            run.exec_driver_sql(_ADD, (_hash(session), account, stamp, now, now, language))
            run.exec_driver_sql(_END_MANY, (account, account, MOST_SESSIONS))
        return session

    def find(self, session: str) -> StoredSession | None:
        """Return a session and note its use; None if it is unknown or has ended."""
        now, hashed = self._now(), _hash(session)
        self._make()
        try:
            # Read without waiting for writers.
            with closing(self._engine.raw_connection()) as connection:
                row = connection.cursor().execute(_FIND, (hashed,)).fetchone()
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
                run.exec_driver_sql(_NOTE_USE, (now, hashed))
        return StoredSession(account, stamp, language)

    def choose_language(self, session: str, language: str) -> None:
        """Store the language that a user has chosen for the pages of a session."""
        with self._writing() as run:
            run.exec_driver_sql(_CHOOSE, (language, _hash(session)))

    def end(self, session: str) -> None:
        """End a session; one that has ended may be ended again."""
        with self._writing() as run:
            run.exec_driver_sql(_END, (_hash(session),))

    def end_all(self, account: str) -> None:
        """End every session of an account."""
        with self._writing() as run:
            run.exec_driver_sql(_END_ALL, (account,))

    def attempt(self, named: Sequence[tuple[AttemptLimit, str]]) -> SignInAttempt:
        """Count an attempt under several limits before it costs any work; if one is reached, it is not counted."""
        now = self._now()
        names = [(limit, _name(limit, name)) for limit, name in named]
        with self._writing() as run:
            run.exec_driver_sql(_FORGET, (now - ATTEMPTS_STORED, MOST_ATTEMPTS))
            wait = max(self._wait(run, limit, name, now) for limit, name in names)
            if wait:
                return SignInAttempt((), wait)
            return SignInAttempt(
                tuple(run.exec_driver_sql(_TRY, (name, now)).scalar_one() for _, name in names)
            )

    def clear(self, attempt: SignInAttempt, limit: AttemptLimit, name: str) -> None:
        """Delete an attempt that did not fail, and all earlier attempts of this name."""
        with self._writing() as run:
            for number in attempt.numbers:
                run.exec_driver_sql(_CLEAR, (number,))
            run.exec_driver_sql(_CLEAR_ALL, (_name(limit, name),))

    @staticmethod
    def _wait(run: Connection, limit: AttemptLimit, name: bytes, now: float) -> float:
        """Return the seconds until the next attempt is allowed under a limit; 0 if it is allowed now."""
        # Moments in the future are ignored, because a clock that was wrong once must not lock an account.
        values = (name, now - limit.seconds, now, limit.most)
        moments = [row[0] for row in run.exec_driver_sql(_TRIED, values)]
        return max(moments[-1] + limit.seconds - now, _A_MOMENT) if len(moments) >= limit.most else 0.0

    def _writing(self) -> Any:
        self._make()
        return transaction(self._engine)

    def _make(self) -> None:
        """Make the tables if they are missing or of another version; a second process finds them made."""
        if self._made:
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
