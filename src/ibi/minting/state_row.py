"""The durable state of minting as a row in PostgreSQL, for an Archive of several nodes.

    lock · read the last record · (the caller distributes) · write it · COMMIT, which releases the lock

A process that was the last to draw knows the record without reading it. So it chooses its dates at once, and replaces
the record by one statement, which does so only if the record is still the same, and all that is said below holds. If it
is not, the process draws in the way above. So a single label costs one round trip in place of six.

The record is the line that `state` has in its file. A node that is killed, stopped or cut off within its transaction
gives no label: PostgreSQL undoes the transaction, at the latest after `idle_in_transaction_session_timeout`.

Whether the row is the one that we wrote last is judged by facts of the database, as `state` does by those of the file:

    missing    there is no row, but other rows of ours exist
    damaged    the line is not one that we wrote
    moved      the record names another cluster or database: this one was restored from a dump, or upgraded
    touched    another transaction than the one that the row names has written it, such as a restore of this row

After a failover or a recovery to a moment (the timeline is another one), the latest transactions may be lost. Then the
next dates are later than the present clock and all that any node can have reserved (`MARGIN`).

Clocks. Each node has its own, so each must agree with that of the database within MOST_SKEW; otherwise it gives no
label, while the other nodes go on. Labels are unique whatever the clocks say, because all nodes draw from one row.

What cannot be detected: a cluster that was set back as a whole with its files, without a recovery.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import text

from ibi.errors import ClockError, LostState
from ibi.identifier.dates import TICKS
from ibi.minting.state import SENTENCES, StateFault, StateRecord
from ibi.minting.waiting_room import Overtaken
from ibi.runtime.database import place, transaction, unusable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection, Engine
    from sqlalchemy.pool import PoolProxiedConnection

MOST_SKEW: Final = 2 * TICKS
"""How far the clock of a node may differ from that of the database, in ticks."""

MARGIN: Final = 2 * MOST_SKEW
"""How far the clocks of two nodes may differ, in ticks."""

_TABLE = text(
    "CREATE TABLE IF NOT EXISTS waiting_room ("
    " id smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),"
    " record text NOT NULL, written xid8 NOT NULL, timeline text NOT NULL)"
)
_THERE = text("SELECT to_regclass('waiting_room') IS NOT NULL")
_LOCK: Final = "waiting room"  # of the transaction, because there may be no row yet
# Besides, because a record is replaced without that lock.
_LOCK_ROW = text("SELECT 1 FROM waiting_room FOR UPDATE")
# A statement of its own, so that its snapshot and its clock are those after the lock.
_READ = text(
    "SELECT w.record, w.xmin = w.written::xid, w.timeline, left(pg_walfile_name(pg_current_wal_lsn()), 8),"
    " (SELECT system_identifier FROM pg_control_system()) || '-'"
    " || (SELECT oid FROM pg_database WHERE datname = current_database()),"
    " coalesce(CAST(:moment AS bigint), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)"
    " FROM (SELECT) AS database LEFT JOIN waiting_room AS w ON true"
)
_WRITE = text(
    "INSERT INTO waiting_room (record, written, timeline) VALUES (:record, pg_current_xact_id(), :timeline)"
    " ON CONFLICT (id) DO UPDATE"
    " SET record = excluded.record, written = excluded.written, timeline = excluded.timeline"
)
# For the driver itself, because SQLAlchemy takes as long as the database does.
_REPLACE: Final = (
    "UPDATE waiting_room SET record = %(record)s, written = pg_current_xact_id()"
    " WHERE record = %(known)s AND xmin = written::xid AND timeline = %(timeline)s"
    " AND timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8) AND abs(coalesce(CAST(%(moment)s AS bigint),"
    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) - %(now)s) <= %(skew)s"
)


def _nothing_else(_connection: Connection) -> bool:
    return False


def _of_the_database() -> int | None:
    return None


class StateRow:
    """The row of one database, for one process.

    `engine`: of the database, with `synchronous_commit` on. `used` returns whether other rows of ours exist.
    `moment` returns the time in microseconds that tests put in place of the database's.
    """

    def __init__(
        self,
        engine: Engine,
        used: Callable[[Connection], bool] = _nothing_else,
        moment: Callable[[], int | None] = _of_the_database,
    ) -> None:
        self.engine = engine
        self.used = used
        self.moment = moment
        self.name = place(engine)
        self.known: _Known | None = None
        self._prepared = False
        self._turn = threading.Lock()
        self._single: PoolProxiedConnection | None = None

    def prepare(self) -> None:
        """Make the table, if it is not there. Raises SetupError."""
        if not self._prepared:
            with transaction(self.engine, _LOCK) as connection:
                if not connection.execute(_THERE).scalar_one():
                    connection.execute(_TABLE)
            self._prepared = True

    @contextmanager
    def locked(self) -> Iterator[LockedRow | KnownRow]:
        """Yield the row under its lock, or what this process knows of it.

        What was written is committed at the end, or undone after an error. Raises SetupError if the database cannot be
        used.
        """
        # One thread after the other: two of them would overtake each other, and read the row again each time.
        with self._turn:
            known, self.known = self.known, None
            if known is not None:
                row = KnownRow(self, known)
                yield row
                self.known = row.known
                return
            with self.alone() as locked:
                yield locked
            self.known = locked.known

    @contextmanager
    def alone(self) -> Iterator[LockedRow]:
        """Yield the row under its lock. Raises as `locked`."""
        try:
            self.prepare()
            with transaction(self.engine, _LOCK) as connection:
                connection.execute(_LOCK_ROW)
                yield LockedRow(self, connection)
        except BaseException:
            self.close()  # a waiting room that could not be entered is not left either
            raise

    def replace(self, known: _Known, record: StateRecord, now: int) -> None:
        """Replace the known record, if it is still the last one. Raises Overtaken if not, and SetupError."""
        values = {
            "record": record.line().decode(), "known": known.record.line().decode(), "timeline": known.timeline,
            "now": now // 1000, "skew": MOST_SKEW // 1000, "moment": self.moment(),
        }  # fmt: skip
        try:
            replaced = self._single_statements().execute(_REPLACE, values).rowcount
        except self.engine.dialect.loaded_dbapi.Error as error:
            raise unusable(self.engine, error) from None
        if not replaced:
            raise Overtaken

    def _single_statements(self) -> Any:
        """Return the driver's connection whose statements are transactions of their own, which saves round trips."""
        from ibi.runtime.database.postgresql import is_lost

        if self._single is not None and is_lost(self._single.dbapi_connection):
            self.close()  # with the pool, whose connections are lost, too
        if self._single is None:
            self._single = self.engine.raw_connection()
            self._single.detach()  # no longer of the pool, whose users expect transactions
            driver: Any = self._single.dbapi_connection
            driver.autocommit = True
        return self._single.dbapi_connection

    def leave(self) -> None:
        """Close the connections; the next draw opens one. The row itself names the transaction that wrote it."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._single is not None:
            self._single.close()
            self._single = None
        self.engine.dispose()


class _Known(NamedTuple):
    """The record that this process wrote last, and the timeline and the identity of the database then."""

    record: StateRecord
    timeline: str
    identity: str


class LockedRow:
    """The row, while it is locked.

    `record`: None if it cannot be read; `fault`: why it cannot be trusted; `replica`: there is none. `moment`: the time
    of the database, in ticks. For the rest see `waiting_room.LockedRecord`.
    """

    replica: StateRecord | None = None
    margin = MARGIN
    waits_locked = False
    drew_last = False

    def __init__(self, row: StateRow, connection: Connection) -> None:
        self._row = row
        self._connection = connection
        found = connection.execute(_READ, {"moment": row.moment()}).one()
        line, untouched, timeline, self._timeline, self.identity, microseconds = found
        self.moment = microseconds * 1000
        self.known: _Known | None = None
        self.is_latest = timeline == self._timeline
        self.new = line is None and not row.used(connection)
        self.record: StateRecord | None = StateRecord.read(line.encode()) if line else None
        self.fault = None if self.new else self._judge(line, untouched=untouched)

    def _judge(self, line: str | None, *, untouched: bool) -> StateFault | None:
        if line is None:
            return StateFault.MISSING
        if self.record is None:
            return StateFault.DAMAGED
        if self.record.machine != self.identity:
            return StateFault.OTHER_MACHINE
        return None if untouched else StateFault.TOUCHED

    def clock_confirmed(self, now: int) -> bool:
        """Return True if the clock of the database agrees with ours. Raises ClockError if it does not."""
        apart = now - self.moment
        if abs(apart) > MOST_SKEW:
            raise ClockError(
                "the clock of this machine and that of the database are {seconds} seconds apart; no label is given "
                "here until both are right",
                seconds=abs(apart) // TICKS,
            )
        return True

    def trusted(self) -> StateRecord:
        """Return the record. Raises LostState if it cannot be trusted."""
        if self.fault is not None or self.record is None:
            raise LostState(SENTENCES[self.fault or StateFault.MISSING], directory=self._row.name)
        return self.record

    def commit(self, record: StateRecord) -> None:
        """Write a later record; it is durable, and given to others, once the lock has been released."""
        self._connection.execute(_WRITE, {"record": record.line().decode(), "timeline": self._timeline})
        self.record, self.is_latest = record, True
        self.known = _Known(record, self._timeline, self.identity)

    def create(self, record: StateRecord) -> None:
        """Write the first record, or one that repairs it."""
        self.commit(record._replace(machine=self.identity, file="-"))
        self.fault, self.new = None, False


class KnownRow:
    """The record that this process wrote last, which no one may have replaced since; it is written at `commit`.

    For its members see `waiting_room.LockedRecord`.
    """

    margin = MARGIN
    waits_locked = False
    drew_last = True
    new = False
    is_latest = True

    def __init__(self, row: StateRow, known: _Known) -> None:
        self._row = row
        self.known = known
        self.identity = known.identity
        self._now: int

    def clock_confirmed(self, now: int) -> bool:
        """Return True; the clock of the database is compared when the record is written."""
        self._now = now
        return True

    def trusted(self) -> StateRecord:
        """Return the record."""
        return self.known.record

    def commit(self, record: StateRecord) -> None:
        """Write a later record, which is durable then. Raises Overtaken, SetupError."""
        self._row.replace(self.known, record, self._now)
        self.known = self.known._replace(record=record)

    def create(self, record: StateRecord) -> None:
        """Do nothing: there is a record."""
