"""The durable state of minting as a row in PostgreSQL, for an Archive of several nodes.

    lock · read the last record · (the caller distributes) · write it · COMMIT, which releases the lock

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

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sqlalchemy import text

from ibi.errors import ClockError, LostState
from ibi.identifier.dates import TICKS
from ibi.minting.state import SENTENCES, StateFault, StateRecord
from ibi.runtime.database import place, transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection, Engine

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
# A statement of its own, so that its snapshot and its clock are those after the lock.
_READ = text(
    "SELECT w.record, w.xmin = w.written::xid, w.timeline, left(pg_walfile_name(pg_current_wal_lsn()), 8),"
    " (SELECT system_identifier FROM pg_control_system()) || '-'"
    " || (SELECT oid FROM pg_database WHERE datname = current_database()),"
    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    " FROM (SELECT) AS database LEFT JOIN waiting_room AS w ON true"
)
_WRITE = text(
    "INSERT INTO waiting_room (record, written, timeline) VALUES (:record, pg_current_xact_id(), :timeline)"
    " ON CONFLICT (id) DO UPDATE"
    " SET record = excluded.record, written = excluded.written, timeline = excluded.timeline"
)


def _nothing_else(_connection: Connection) -> bool:
    return False


class StateRow:
    """The row of one database, for one process.

    `engine`: of the database, with `synchronous_commit` on. `used` returns whether other rows of ours exist. `now`
    returns the time of the database in ticks, given what its clock says; tests replace it.
    """

    def __init__(
        self,
        engine: Engine,
        used: Callable[[Connection], bool] = _nothing_else,
        now: Callable[[int], int] = int,
    ) -> None:
        self.engine = engine
        self.used = used
        self.now = now
        self.name = place(engine)
        self._prepared = False

    def prepare(self) -> None:
        """Make the table, if it is not there. Raises SetupError."""
        if not self._prepared:
            with transaction(self.engine, _LOCK) as connection:
                if not connection.execute(_THERE).scalar_one():
                    connection.execute(_TABLE)
            self._prepared = True

    @contextmanager
    def locked(self) -> Iterator[LockedRow]:
        """Yield the row under its lock. Its transaction is committed at the end, or undone after an error.

        Raises SetupError if the database cannot be used.
        """
        try:
            self.prepare()
            with transaction(self.engine, _LOCK) as connection:
                yield LockedRow(self, connection)
        except BaseException:
            self.close()  # a waiting room that could not be entered is not left either
            raise

    def leave(self) -> None:
        """Close the connections; the next draw opens one. The row itself names the transaction that wrote it."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()


class LockedRow:
    """The row, while it is locked.

    `record`: None if it cannot be read; `fault`: why it cannot be trusted; `replica`: there is none. `moment`: the time
    of the database. For the rest see `waiting_room.LockedRecord`.
    """

    replica: StateRecord | None = None
    margin = MARGIN
    kept = False

    def __init__(self, row: StateRow, connection: Connection) -> None:
        self._row = row
        self._connection = connection
        found = connection.execute(_READ).one()
        line, untouched, timeline, self._timeline, self.identity, microseconds = found
        self.moment = row.now(microseconds * 1000)
        self.sure = timeline == self._timeline
        self.new = line is None and not row.used(connection)
        self.record: StateRecord | None = StateRecord.read(line.encode()) if line else None
        self.fault = None if self.new else self._judge(line, untouched=untouched)

    def _judge(self, line: str | None, *, untouched: bool) -> StateFault | None:
        if line is None:
            return StateFault.MISSING
        if self.record is None:
            return StateFault.DAMAGED
        if self.record.machine != self.identity:
            return StateFault.MOVED
        return None if untouched else StateFault.TOUCHED

    def vouched(self, now: int) -> bool:
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
        self.record, self.sure = record, True

    def create(self, record: StateRecord) -> None:
        """Write the first record, or one that repairs it."""
        self.commit(record._replace(machine=self.identity, file="-"))
        self.fault, self.new = None, False
