"""Replies to requests with an Idempotency-Key in a store that several nodes share, so that each node repeats them."""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError
from ibi.runtime.shared.store import free_locks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from ibi.runtime.shared.store import SharedStore

_LOCK: Final = "SELECT pg_try_advisory_lock(%(space)s, hashtext(%(name)s))"
_SPACE: Final = zlib.crc32(b"ibi replies") >> 1  # a lock of two numbers meets none of those with one
_READ: Final = "SELECT facts FROM reply WHERE name = %(name)s"
_WRITE: Final = (
    "INSERT INTO reply (name, facts, moment) VALUES (%(name)s, %(facts)s, %(moment)s)"
    " ON CONFLICT (name) DO UPDATE SET facts = excluded.facts, moment = excluded.moment"
)
_REMOVE: Final = "DELETE FROM reply WHERE name = %(name)s"
_FORGET: Final = "DELETE FROM reply WHERE moment < %(before)s"


class SharedReply:
    """The row of one reply, while its lock is held."""

    def __init__(self, run: Connection, name: str, moment: float) -> None:
        self._run = run
        self._name = name
        self._moment = moment

    def read(self) -> str:
        """Return the stored text, "" for none."""
        found: str | None = self._run.exec_driver_sql(_READ, {"name": self._name}).scalar()
        return found or ""

    def write(self, facts: str) -> None:
        """Store a text, durably."""
        self._run.exec_driver_sql(_WRITE, {"name": self._name, "facts": facts, "moment": self._moment})

    def clear(self) -> None:
        """Forget it: nothing was done."""
        self._run.exec_driver_sql(_REMOVE, {"name": self._name})


@contextmanager
def held_reply(
    store: SharedStore, name: str, moment: float, kept_seconds: float
) -> Iterator[SharedReply | None]:
    """Lock a reply for all nodes, and yield it; None if another request holds it. Raises SetupError.

    `moment`: now, in POSIX seconds; replies that are older than `kept_seconds` are forgotten.
    """
    from sqlalchemy.exc import SQLAlchemyError  # here: commands that have no store import this module, too

    store.check_reached()
    try:
        # Each statement commits by itself, and the lock belongs to the connection: it is free once its node dies.
        with store.engine.connect() as connection:
            run = connection.execution_options(isolation_level="AUTOCOMMIT")
            try:
                if not run.exec_driver_sql(_LOCK, {"space": _SPACE, "name": name}).scalar_one():
                    yield None
                    return
                run.exec_driver_sql(_FORGET, {"before": moment - kept_seconds})
                yield SharedReply(run, name, moment)
            finally:
                free_locks(connection)
    except SQLAlchemyError as error:
        raise SetupError("the store cannot be reached now; ask again in a moment") from error
