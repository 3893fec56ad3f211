"""Copies every row of a catalogue to a new, empty one in another database, as of one moment.

The tables are those that both have, so that a table of a later migration is not forgotten.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Boolean, inspect

from ibi.runtime.database import is_postgresql, transaction, unusable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Engine

_PAGE: Final = 2000
_FIRST: Final = "item"
_LAST: Final = "sidecar"


def copy_rows(source: Engine, target: Engine) -> dict[str, int]:
    """Copy all rows into a catalogue that has just been made; return the number of rows of each table.

    All of them are there at the end, or none. Raises SetupError.
    """
    held = _tables(source)
    tables = {name: columns for name, columns in _tables(target).items() if name in held}
    counts: dict[str, int] = {}
    with _snapshot(source) as read, transaction(target) as connection:
        driver: Any = connection.connection.dbapi_connection
        # Triggers fill this table meanwhile, and a new catalogue has a first change of its own.
        for table, columns in tables.items():
            driver.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
            counts[table] = _copy(
                read(_select(table, columns)), driver, table, columns, for_postgresql=is_postgresql(target)
            )
    return counts


def _copy(
    pages: Iterator[Sequence[Sequence[Any]]],
    driver: Any,
    table: str,
    columns: dict[str, bool],
    *,
    for_postgresql: bool,
) -> int:
    names = ", ".join(f'"{name}"' for name in columns)
    places = ", ".join("%s" if for_postgresql else "?" for _ in columns)
    flags = [place for place, is_flag in enumerate(columns.values()) if is_flag]
    count = 0
    with closing(driver.cursor()) as cursor:
        for page in pages:
            rows = [_with_flags(row, flags) for row in page] if for_postgresql and flags else page
            cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({places})", rows)  # noqa: S608 - our own names
            count += len(rows)
    return count


def _with_flags(row: Sequence[Any], flags: Sequence[int]) -> list[Any]:
    """Return a row of SQLite, to which truth is a number, as PostgreSQL takes it."""
    values = list(row)
    for place in flags:
        values[place] = bool(values[place])
    return values


def _select(table: str, columns: dict[str, bool]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    return f"SELECT {names} FROM {table}"  # noqa: S608 - our own names


def _tables(engine: Engine) -> dict[str, dict[str, bool]]:
    """Return the tables of a catalogue, in the order in which they can be filled: column -> whether it is a flag."""
    found = inspect(engine)
    names = sorted(
        (name for name in found.get_table_names() if not name.endswith("_version")),
        key=lambda name: (name != _FIRST, name == _LAST, name),
    )
    return {
        name: {column["name"]: isinstance(column["type"], Boolean) for column in found.get_columns(name)}
        for name in names
    }


@contextmanager
def _snapshot(engine: Engine) -> Iterator[Any]:
    """Yield a function that reads a statement page by page; all statements read one snapshot."""
    errors = engine.dialect.loaded_dbapi.Error
    try:
        with closing(engine.raw_connection()) as connection:
            driver: Any = connection.dbapi_connection
            begin = (
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
                if is_postgresql(engine)
                else "BEGIN"
            )
            driver.execute(begin)

            def read(statement: str) -> Iterator[Sequence[Sequence[Any]]]:
                # With a name, PostgreSQL keeps the rows until they are fetched.
                with closing(driver.cursor(*(["page"] if is_postgresql(engine) else []))) as cursor:
                    cursor.execute(statement)
                    while page := cursor.fetchmany(_PAGE):
                        yield page

            yield read
            driver.rollback()
    except errors as error:
        raise unusable(engine, error) from None
