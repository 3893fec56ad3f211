"""Copies a whole registry from one store to another, in one transaction, and compares what has come."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import DatabaseError

from ibi.errors import SetupError
from ibi.resolver.registry.database import archives, moves
from ibi.resolver.registry.registry import MIGRATIONS
from ibi.runtime.database import migrate, open_engine, transaction, unusable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from sqlalchemy import Engine

    Rows = dict[str, list[tuple[Any, ...]]]


@contextmanager
def registry_file(path: Path) -> Iterator[Engine]:
    """Open the registry in a file, of this version; it is made if it is not there. Raises SetupError."""
    engine = open_engine(path)
    try:
        migrate(engine, MIGRATIONS)
        yield engine
    finally:
        engine.dispose()


def registry_rows(engine: Engine) -> Rows:
    """Return all rows of a registry by table, in the order of their keys. Raises SetupError."""
    try:
        with engine.connect() as connection:
            return {
                table.name: [
                    tuple(row) for row in connection.execute(select(table).order_by(table.c.service_ibi))
                ]
                for table in (archives, moves)
            }
    except DatabaseError as error:
        raise unusable(engine, error) from None


def copy_registry(rows: Rows, target: Engine) -> None:
    """Replace what a registry holds by these rows. Raises SetupError if they do not come out as they went in."""
    with transaction(target) as connection:
        for table in (archives, moves):
            connection.execute(delete(table))
            names = [column.key for column in table.columns]
            values = [dict(zip(names, row, strict=True)) for row in rows[table.name]]
            if values:
                connection.execute(insert(table), values)
    copied = registry_rows(target)
    if {name: sorted(map(repr, each)) for name, each in copied.items()} != {
        name: sorted(map(repr, each)) for name, each in rows.items()
    }:
        raise SetupError("the registry was not copied as it is; the old one stays in use")
