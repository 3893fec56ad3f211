"""Copies every row of a catalogue to a new, empty one in another database, and compares the two row by row.

The tables are those that both have, so that a table of a later migration is not forgotten.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import Boolean, inspect
from sqlalchemy.exc import DatabaseError

from ibi.errors import SetupError
from ibi.runtime.database import is_postgresql, place, transaction, unusable
from ibi.runtime.database.sqlite import ONLY_READING
from ibi.runtime.shared.store import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Engine, Inspector

    Row = Sequence[Any]
    Read = Callable[[str], Iterator[Row]]

_PAGE: Final = 2000
_FIRST: Final = "item"
_LAST: Final = "sidecar"  # triggers fill it meanwhile
_OTHERS: Final = TABLES | {"waiting_room", "duties"}  # what nodes share is no catalogue, and moved by itself


class _Table(NamedTuple):
    """A table: its name, its columns, those of its key, and the places of those that are true or false."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    flags: tuple[int, ...]

    @classmethod
    def read(cls, found: Inspector, name: str) -> _Table:
        """Read the description of a table."""
        columns = found.get_columns(name)
        flags = tuple(number for number, each in enumerate(columns) if isinstance(each["type"], Boolean))
        key = tuple(map(str, found.get_pk_constraint(name)["constrained_columns"]))
        return cls(name, tuple(each["name"] for each in columns), key, flags)

    @property
    def select(self) -> str:
        """The statement that reads all rows in the order of the key, which is the same in both databases."""
        columns, key = (", ".join(f'"{name}"' for name in names) for names in (self.columns, self.key))
        return f"SELECT {columns} FROM {self.name} ORDER BY {key}"  # noqa: S608 - our own names

    def insert(self, value: str) -> str:
        """Return the statement that adds a row; `value` stands for each value."""
        columns = ", ".join(f'"{name}"' for name in self.columns)
        places = ", ".join(value for _ in self.columns)
        return f"INSERT INTO {self.name} ({columns}) VALUES ({places})"  # noqa: S608 - our own names

    def whole(self, row: Row) -> Row:
        """Return a row with its flags as such; to SQLite they are numbers."""
        values = list(row)
        for number in self.flags:
            values[number] = bool(values[number])
        return values


def copy_rows(source: Engine, target: Engine, progress: Callable[[int], None] = lambda _: None) -> None:
    """Copy all rows into a catalogue that has just been made, as of one moment.

    All of them are there at the end, or none. `progress` is called with the number so far. Raises SetupError.
    """
    count = 0
    tables = _tables(source, target)
    value = "%s" if is_postgresql(target) else "?"
    with _snapshot(source) as read, transaction(target) as connection:
        driver: Any = connection.connection.dbapi_connection
        for table in tables:
            driver.execute(f"DELETE FROM {table.name}")  # noqa: S608 - our own names
            with closing(driver.cursor()) as cursor:
                rows = read(table.select)
                while page := [table.whole(row) for row in islice(rows, _PAGE)]:
                    cursor.executemany(table.insert(value), page)
                    count += len(page)
                    progress(count)


def compare_rows(one: Engine, other: Engine) -> int:
    """Compare two catalogues row by row; return the number of rows. Raises SetupError if they differ."""
    count = 0
    tables = _tables(one, other)
    with _snapshot(one) as read, _snapshot(other) as read_other:
        for table in tables:
            for row, twin in zip_longest(read(table.select), read_other(table.select)):
                if row is None or twin is None or table.whole(row) != table.whole(twin):
                    problem = "{path} has another content than {other}: see the table {table}"
                    raise SetupError(problem, path=place(other), other=place(one), table=table.name)
                count += 1
    return count


def _tables(one: Engine, other: Engine) -> list[_Table]:
    """Return the tables that two catalogues have, in the order in which they can be filled. Raises SetupError."""
    with _inspecting(other) as found:
        names = set(found.get_table_names())
    with _inspecting(one) as found:
        # Each database has its own table of the version.
        names = {name for name in names - _OTHERS if not name.endswith("_version")}
        common = [name for name in found.get_table_names() if name in names]
        tables = [_Table.read(found, name) for name in common]
    return sorted(tables, key=lambda table: (table.name != _FIRST, table.name == _LAST, table.name))


@contextmanager
def _inspecting(engine: Engine) -> Iterator[Inspector]:
    try:
        # It waits for no writer of SQLite.
        with engine.connect().execution_options(**{ONLY_READING: True}) as connection:
            yield inspect(connection)
    except DatabaseError as error:
        raise unusable(engine, error) from None


@contextmanager
def _snapshot(engine: Engine) -> Iterator[Read]:
    """Yield a function that reads the rows of a statement; all statements read one snapshot."""
    try:
        with closing(engine.raw_connection()) as connection:
            driver: Any = connection.dbapi_connection
            begin = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
            driver.execute(begin if is_postgresql(engine) else "BEGIN")

            def read(statement: str) -> Iterator[Row]:
                # With a name, PostgreSQL keeps the rows until they are fetched.
                with closing(driver.cursor(*(["page"] if is_postgresql(engine) else []))) as cursor:
                    cursor.execute(statement)
                    while page := cursor.fetchmany(_PAGE):
                        yield from page

            yield read
            driver.rollback()
    except engine.dialect.loaded_dbapi.Error as error:
        raise unusable(engine, error) from None
