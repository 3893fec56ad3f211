"""The tables of the registry, and how several threads and processes read and write them at once."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from sqlite3 import Error as SQLiteError
from typing import TYPE_CHECKING, Final

from sqlalchemy import Boolean, Column, Float, Integer, MetaData, String, Table, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from ibi.errors import SetupError
from ibi.resolver.model.archive import Move, RegisteredArchive, moment_text, registered_archive
from ibi.runtime.generation_counter import GenerationCounter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from sqlalchemy import ColumnElement, Connection, Engine, Select

    from ibi.identifier.forms import IBI
    from ibi.runtime.shared.store import SharedStore


metadata = MetaData()

archives = Table(
    "archives",
    metadata,
    Column("service_ibi", String, primary_key=True, comment="canonical: equal labels are one row"),
    Column("spelling", String, nullable=False, comment="as registered; the path of the base URL"),
    Column("key_hash", String, nullable=False, comment="argon2; the key itself is never stored"),
    Column(
        "url_hosts", String, nullable=False, default="", comment="hosts its URLs are bound to, blanks between"
    ),
    Column("registered_at", String, nullable=False, comment="of one that has applied: when it did"),
    Column("included", Boolean, nullable=False, default=False),
    Column("confirmed", Boolean, nullable=False, default=False),
    Column("address", String),
    Column("ip", String),
    Column("protocol", String),
    Column("platform_version", String),
    Column("admin_mail", String, comment="as the Archive itself said last"),
    Column("changed_at", String, comment="of the last inclusion or exclusion"),
    Column(
        "change",
        Integer,
        nullable=False,
        default=0,
        comment="counts changes: a slow inclusion may be outdated",
    ),
    Column("state", String, nullable=False, default="registered", comment="applied, registered or mirrored"),
    Column(
        "mirrored_from",
        String,
        nullable=False,
        default="",
        comment="public key of the resolver that lists it",
    ),
    Column("contact", String, nullable=False, default="", comment="whom to write to, as registered"),
    Column("contact_name", String, nullable=False, default=""),
    Column("source", String, nullable=False, default="", comment="where the last accepted request came from"),
    Column("included_at", Float, comment="POSIX seconds: since when it is included at this address"),
    Column("heard_at", String, comment="its last accepted request, to the minute"),
    Column("confirmed_address", String, comment="where it confirmed last"),
    Column("confirmed_at", String),
    Column("move_allowed", Boolean, nullable=False, default=False, comment="by the administrator, once"),
    Column("back_at", Float, comment="POSIX seconds: when one that is excluded expects to be back"),
    Column(
        "title", String, nullable=False, default="", comment="what readers call it; from others, one line"
    ),
    Column("title_pt", String, nullable=False, default="", comment="the same in Portuguese, if it differs"),
    Column("gone", Boolean, nullable=False, default=False, comment="excluded for good, as it said itself"),
)

moves = Table(
    "moves",
    metadata,
    Column("service_ibi", String, primary_key=True, comment="canonical"),
    Column("address", String, nullable=False, comment="where the Archive wants to move"),
    Column("ip", String, nullable=False),
    Column(
        "since",
        Float,
        key="reported_at",  # published databases have the other name
        nullable=False,
        comment="POSIX seconds: when its administrator was last told",
    ),
    Column("silent_since", Float, comment="POSIX seconds: the first check that the old address missed"),
    Column("checks", Integer, nullable=False, comment="how many it has missed since"),
)


# One change at a time, as in SQLite, while readers go on: `check` of a change sees what no other can change meanwhile.
_LOCK: Final = "LOCK TABLE archives IN SHARE ROW EXCLUSIVE MODE"


class RegistryDatabase:
    """One database, opened by `ibi.runtime.database`. `clock` returns POSIX seconds.

    `store`: the shared store that the engine belongs to; without it, `engine` is of an SQLite file. `generation_file`:
    that of the generation counter, beside the SQLite file unless it is given.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], float],
        store: SharedStore | None = None,
        generation_file: Path | None = None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._store = store
        self._lock = threading.Lock()
        self._changing = threading.Lock()
        self._reader: Any = None
        self._version: int | None = None
        self.generation: GenerationCounter | None = None
        """Changes with each write, for all processes; None if the file for it cannot be made."""
        with suppress(OSError):
            self.generation = GenerationCounter(generation_file or Path(f"{engine.url.database}-sign"))

    def registered(self) -> list[RegisteredArchive]:
        """Return all Archives known here, also those that have only applied, in order of registration."""
        held_moves = {row["service_ibi"]: _move(row) for row in self._read(select(moves))}
        rows = self._read(select(archives).order_by(archives.c.registered_at, archives.c.service_ibi))
        return [registered_archive(row, held_moves.get(row["service_ibi"])) for row in rows]

    def entry(self, service_ibi: IBI) -> RegisteredArchive | None:
        """Return the entry of one Archive; None if it is unknown."""
        rows = self._read(select(archives).where(archives.c.service_ibi == service_ibi.canonical))
        held_moves = self._read(select(moves).where(moves.c.service_ibi == service_ibi.canonical))
        return registered_archive(rows[0], _move(held_moves[0]) if held_moves else None) if rows else None

    def ready(self) -> bool:
        """Whether the database can be read at this moment."""
        if self._store is not None and self._store.is_watched:
            return self._store.is_reached
        try:
            self._read(select(archives.c.service_ibi).limit(1))
        except SetupError:
            return False
        return True

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._drop_reader()
        if self._store is None:
            self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Open a write transaction. Raises SetupError if the database cannot be written."""
        try:
            with self._alone(), self._engine.begin() as connection:
                if self._store is not None:
                    connection.exec_driver_sql(_LOCK)
                yield connection
            self._changed()
            # After the commit and before the caller goes on: once an Archive gets the answer "included",
            # every process asks it from its next request on, without polling the database.
            if self.generation is not None:
                self.generation.change()
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            raise SetupError("the registry cannot be written now") from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one thread of this process change a shared registry at a time. Raises SetupError while it is away."""
        if self._store is None:
            yield
            return
        # Others that waited for the lock of the table would keep the connections which its holder needs (`record`).
        with self._changing:
            self._store.check_reached()
            yield

    def _changed(self) -> None:
        """Read again what this process has in memory, after a change of its own."""

    def _read(self, statement: Select[Any]) -> list[dict[str, Any]]:
        if self._store is not None:
            self._store.check_reached()
        try:
            with self._lock:
                return self._select(statement)
        except (SQLAlchemyError, SQLiteError) as error:
            self._drop_reader()
            raise SetupError("the registry cannot be read now") from error

    def _select(self, statement: Select[Any]) -> list[dict[str, Any]]:
        names = statement.selected_columns.keys()
        if self._store is not None:
            with self._engine.connect() as connection:
                return [dict(zip(names, row, strict=True)) for row in connection.execute(statement)]
        # Through the driver and outside any transaction: readers never wait for writers, nor writers for readers.
        compiled = statement.compile(self._engine)
        rows = self._fetch(str(compiled), [compiled.params[name] for name in compiled.positiontup or ()])
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _fetch(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if self._reader is None:
            self._reader = self._engine.raw_connection()
            # PRAGMA data_version compares only on one connection: on a new one, everything is read again.
            self._version = None
        cursor = self._reader.cursor()
        try:
            rows: list[tuple[Any, ...]] = cursor.execute(sql, values).fetchall()
        finally:
            cursor.close()
        return rows

    def _drop_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.invalidate()

    def _update(self, service_ibi: IBI, change: int | None = None, **values: object) -> bool:
        """Change a registered Archive; False if there is none, or if a later change than `change` was opened."""
        statement = update(archives).where(of_archive(service_ibi))
        if change is not None:
            statement = statement.where(archives.c.change == change)
        with self._transaction() as connection:
            return connection.execute(statement.values(values)).rowcount == 1

    def _now(self) -> str:
        return moment_text(self._clock())


def of_archive(service_ibi: IBI, state: str = "registered") -> ColumnElement[bool]:
    """Return the condition for the row of an Archive in this state."""
    return (archives.c.service_ibi == service_ibi.canonical) & (archives.c.state == state)


def _move(row: dict[str, Any]) -> Move:
    return Move(row["address"], row["ip"], row["reported_at"], row["silent_since"], row["checks"])
