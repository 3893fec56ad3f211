"""Makes the tables of a resolver in a shared store, and checks them before the resolver is served."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import inspect
from sqlalchemy.exc import DatabaseError

from ibi.errors import SetupError
from ibi.runtime.database import (
    check_version,
    earlier_version,
    has_version,
    migrate,
    place,
    unusable,
    upgrade,
)
from ibi.runtime.shared.store import MIGRATIONS as SHARED
from ibi.runtime.shared.store import TABLES

if TYPE_CHECKING:
    from sqlalchemy import Engine

MIGRATIONS: Final = Path(__file__).parent / "migrations"
"""The migrations of the registry, wrong keys and the evidence in a shared store."""

_ALL: Final = (SHARED, MIGRATIONS)  # the second needs functions of the first


def make_tables(engine: Engine) -> None:
    """Make all tables in a new database. Raises SetupError, also for a database that holds something else."""
    try:
        names = set(inspect(engine).get_table_names())
    except DatabaseError as error:
        raise unusable(engine, error) from None
    if "resolver_version" not in names and names - TABLES:
        raise SetupError("{path} holds something else: take a database of its own", path=place(engine))
    for migrations in _ALL:
        if not has_version(engine, migrations):
            migrate(engine, migrations)


def check_tables(engine: Engine) -> None:
    """Bring the tables to this version; refuse those of a later one. Raises SetupError."""
    for migrations in _ALL:
        upgrade(engine, migrations)
        check_version(engine, migrations)


def earlier_tables(engine: Engine) -> tuple[str, str] | None:
    """Return a version of the tables that `check_tables` would migrate, and the newest one; None if there is none."""
    found = (earlier_version(engine, migrations) for migrations in _ALL)
    return next((versions for versions in found if versions is not None), None)
