"""How the registry's database is read and written, by several threads and processes at once."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Error as SQLiteError
from typing import TYPE_CHECKING

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from ibi.errors import SetupError
from ibi.resolver.registry.rows import Move, RegisteredArchive, registered_archive
from ibi.resolver.schema import archives, moves
from ibi.resolver.sign import Sign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from sqlalchemy import Connection, Engine, Select

    from ibi.identifier.forms import IBI


class RegistryStore:
    """One database, made ready by `ibi.database`. `clock` gives POSIX seconds."""

    def __init__(self, engine: Engine, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._clock = clock
        self._lock = threading.Lock()
        self._reader: Any = None
        self._version: int | None = None
        self.sign = _sign(engine)
        """Another number after each change, before whoever made it goes on; None where there can be none."""

    def registered(self) -> list[RegisteredArchive]:
        """All Archives known here, also those that have only applied, in order of registration."""
        waiting = {row["service_ibi"]: _move(row) for row in self._read(select(moves))}
        rows = self._read(select(archives).order_by(archives.c.registered_at, archives.c.service_ibi))
        return [registered_archive(row, waiting.get(row["service_ibi"])) for row in rows]

    def entry(self, service_ibi: IBI) -> RegisteredArchive | None:
        """What is known of one Archive; None if it is unknown."""
        rows = self._read(select(archives).where(archives.c.service_ibi == service_ibi.canonical))
        waiting = self._read(select(moves).where(moves.c.service_ibi == service_ibi.canonical))
        return registered_archive(rows[0], _move(waiting[0]) if waiting else None) if rows else None

    def ready(self) -> bool:
        """Whether the database can be read at this moment."""
        try:
            self._read(select(archives.c.service_ibi).limit(1))
        except SetupError:
            return False
        return True

    def close(self) -> None:
        """Give back the connections."""
        with self._lock:
            self._drop_reader()
        self._engine.dispose()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A write transaction. Raises SetupError where the database cannot be written."""
        try:
            with self._engine.begin() as connection:
                yield connection
            if self.sign is not None:
                self.sign.change()
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            raise SetupError("the registry cannot be written now") from error

    def _read(self, statement: Select[Any]) -> list[dict[str, Any]]:
        try:
            with self._lock:
                return self._select(statement)
        except (SQLAlchemyError, SQLiteError) as error:
            self._drop_reader()
            raise SetupError("the registry cannot be read now") from error

    def _select(self, statement: Select[Any]) -> list[dict[str, Any]]:
        """Rows read outside any transaction: readers never wait for writers, nor writers for them."""
        compiled = statement.compile(self._engine)
        rows = self._fetch(str(compiled), [compiled.params[name] for name in compiled.positiontup or ()])
        return [dict(zip(statement.selected_columns.keys(), row, strict=True)) for row in rows]

    def _fetch(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if self._reader is None:
            self._reader = self._engine.raw_connection()
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
        statement = update(archives).where(
            archives.c.service_ibi == service_ibi.canonical, archives.c.state == "registered"
        )
        if change is not None:
            statement = statement.where(archives.c.change == change)
        with self._writing() as connection:
            return connection.execute(statement.values(values)).rowcount == 1

    def _now(self) -> str:
        return self._text(self._clock())

    @staticmethod
    def _text(moment: float) -> str:
        return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _sign(engine: Engine) -> Sign | None:
    try:
        return Sign(Path(f"{engine.url.database}-sign"))
    except OSError:
        return None


def _move(row: dict[str, Any]) -> Move:
    return Move(row["address"], row["ip"], row["since"], row["silent_since"], row["checks"])
