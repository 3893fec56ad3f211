"""The rows of uploads under way in the store that the nodes of an Archive share, and the lock of each upload."""

from __future__ import annotations

import zlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy.exc import DatabaseError, SQLAlchemyError

from ibi.runtime.database import unusable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from ibi.runtime.shared.store import SharedStore

_SPACE: Final = zlib.crc32(b"ibi uploads") >> 1  # a lock of two numbers meets none of those with one
_IN_TURN: Final = "SELECT pg_advisory_xact_lock(%(space)s, hashtext(%(name)s))"
_LOCK: Final = "SELECT pg_try_advisory_lock(%(space)s, hashtext(%(name)s))"
_UNLOCK: Final = "SELECT pg_advisory_unlock_all()"
# Its node may have lost its network: then another one may go on after this time.
_IDLE: Final = "SET idle_session_timeout = '120s'"
_LENGTHS: Final = "SELECT length FROM upload WHERE token = %(token)s"
_ADD: Final = (
    "INSERT INTO upload (id, token, length, metadata, touched)"
    " VALUES (%(id)s, %(token)s, %(length)s, %(metadata)s, %(moment)s)"
)
_FIND: Final = (
    "SELECT token, length, metadata, touched, coalesce((SELECT start + octet_length(content) FROM upload_piece"
    " WHERE upload = id ORDER BY start DESC LIMIT 1), 0) FROM upload WHERE id = %(id)s"
)
_PUT: Final = "INSERT INTO upload_piece (upload, start, content) VALUES (%(id)s, %(start)s, %(content)s)"
_TOUCH: Final = "UPDATE upload SET touched = %(moment)s WHERE id = %(id)s"
_NEXT: Final = (
    "SELECT start, content FROM upload_piece WHERE upload = %(id)s AND start >= %(start)s"
    " ORDER BY start LIMIT 1"
)
_REMOVE: Final = "DELETE FROM upload WHERE id = %(id)s"
_EXPIRE: Final = "DELETE FROM upload WHERE touched <= %(before)s"


class UploadRow(NamedTuple):
    """One upload; `touched`: when its last bytes came, in POSIX seconds; `offset`: how many have come."""

    token: str
    length: int
    metadata: str
    touched: float
    offset: int


class LockedUpload:
    """An upload while its lock is held, on a connection whose statements commit at once."""

    def __init__(self, run: Connection, upload: str) -> None:
        self._run = run
        self._upload = upload

    def read(self) -> UploadRow | None:
        """Return the upload; None if there is none."""
        row = self._run.exec_driver_sql(_FIND, {"id": self._upload}).first()
        return UploadRow(*row) if row else None

    def put(self, start: int, content: bytes, moment: float) -> None:
        """Add bytes, which are safe when this returns."""
        self._run.exec_driver_sql(_PUT, {"id": self._upload, "start": start, "content": content})
        self._run.exec_driver_sql(_TOUCH, {"id": self._upload, "moment": moment})

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes, piece by piece."""
        start = 0
        while row := self._run.exec_driver_sql(_NEXT, {"id": self._upload, "start": start}).first():
            yield row[1]
            start = row[0] + len(row[1])

    def remove(self) -> None:
        """Remove the upload and its bytes."""
        self._run.exec_driver_sql(_REMOVE, {"id": self._upload})


class NewUploads:
    """The transaction in which uploads of one token begin; `lengths`: those of all that it has."""

    def __init__(self, run: Connection, token: str) -> None:
        self._run = run
        self.lengths = [row[0] for row in run.exec_driver_sql(_LENGTHS, {"token": token})]

    def add(self, upload: str, row: UploadRow) -> None:
        """Add an upload without bytes."""
        values = {"id": upload, "token": row.token, "length": row.length, "metadata": row.metadata}
        self._run.exec_driver_sql(_ADD, {**values, "moment": row.touched})


class UploadRows:
    """The uploads in a store. All methods may wait for it, and raise SetupError."""

    def __init__(self, store: SharedStore) -> None:
        self._store = store

    @contextmanager
    def adding(self, token: str) -> Iterator[NewUploads]:
        """Begin uploads of a token, in one transaction at a time."""
        self._store.check_reached()
        with self._store.transaction() as run:
            run.exec_driver_sql(_IN_TURN, {"space": _SPACE, "name": f"token {token}"})
            yield NewUploads(run, token)

    def find(self, upload: str) -> UploadRow | None:
        """Return an upload; None if there is none."""
        self._store.check_reached()
        with self._store.transaction() as run:
            return LockedUpload(run, upload).read()

    @contextmanager
    def locked(self, upload: str) -> Iterator[LockedUpload | None]:
        """Lock an upload for all nodes; yields None if it is in use."""
        self._store.check_reached()
        engine = self._store.engine
        try:
            with engine.connect() as connection:
                run = connection.execution_options(isolation_level="AUTOCOMMIT")
                try:
                    run.exec_driver_sql(_IDLE)
                    is_free = run.exec_driver_sql(_LOCK, {"space": _SPACE, "name": upload}).scalar_one()
                    yield LockedUpload(run, upload) if is_free else None
                finally:
                    with suppress(SQLAlchemyError, engine.dialect.loaded_dbapi.Error):
                        run.exec_driver_sql(_UNLOCK)  # now: the next piece may come to another node at once
                    connection.invalidate()  # closes it, which frees the lock, whatever has happened
        except (DatabaseError, engine.dialect.loaded_dbapi.Error) as error:
            raise unusable(engine, error) from None

    def expire(self, before: float) -> None:
        """Remove the uploads whose last bytes came before this moment."""
        self._store.check_reached()
        with self._store.transaction() as run:
            run.exec_driver_sql(_EXPIRE, {"before": before})
