"""Versions of databases: a chain of migrations leads from an empty database, or an older one, to the newest version.

In PostgreSQL one database may hold the tables of several chains. Each chain has its table of the version, named after
the first word of its revisions: `catalogue_version` of "catalogue_0010". Where the folder of the migrations has a
`postgresql/0010.sql`, a new database of PostgreSQL begins with the schema of that version: earlier migrations are
SQLite's.

Nodes of two versions of the program may run side by side on one database of PostgreSQL. A migration that only adds says
so, by `only_adds = True`: tables, indexes, and columns that an insert may leave out. A program that migrates writes
into the table `may_go_on` the version after which all migrations only added; programs of that version or a later one
go on with the newer database (decision 0057).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DatabaseError

from ibi.errors import SetupError
from ibi.runtime.database.faults import is_postgresql, place, unusable
from ibi.runtime.database.sqlite import ONLY_READING

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_ADDS = re.compile(r"^only_adds = True$", re.MULTILINE)
_REVISION = re.compile(r'^revision = "(\w+)"$', re.MULTILINE)
_TABLE = re.compile(r'\bcreate_table\(\s*"(\w+)"')
_TABLES = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{table}'"
_TABLES_OF_SCHEMA = "SELECT 1 WHERE to_regclass('{table}') IS NOT NULL"
_MAY_GO_ON = (
    "CREATE TABLE IF NOT EXISTS may_go_on"
    " (chain TEXT PRIMARY KEY, version TEXT NOT NULL, oldest TEXT NOT NULL)"
)
_OLDEST = "SELECT oldest FROM may_go_on WHERE chain = %(chain)s AND version = %(version)s"
_NOTE_OLDEST = (
    "INSERT INTO may_go_on (chain, version, oldest) VALUES (%(chain)s, %(version)s, %(oldest)s)"
    " ON CONFLICT (chain) DO UPDATE SET version = excluded.version, oldest = excluded.oldest"
)
_LOCK = 0x1B1  # one process migrates a database of PostgreSQL at a time


def migrate(engine: Engine, migrations: Path) -> None:
    """Bring a database, new or older, to the newest version. Raises SetupError where that fails.

    A new file is readable by its owner alone: it may hold hashes of keys.
    """
    # Imported here: the import takes a third of the time of a command, and hardly any command needs it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    try:
        if not is_postgresql(engine):
            Path(str(engine.url.database)).touch(mode=0o600)
        with engine.begin() as connection:
            if is_postgresql(engine):
                _prepare(connection, migrations)
            config.attributes |= {"connection": connection, "table": _version_table(engine, migrations)}
            command.upgrade(config, "head")
            if is_postgresql(engine):
                connection.exec_driver_sql(_MAY_GO_ON)
                connection.exec_driver_sql(_NOTE_OLDEST, _supported(migrations))
    except (DatabaseError, OSError) as error:
        raise unusable(engine, error) from None


def check_version(engine: Engine, migrations: Path) -> None:
    """Refuse a database of another version than this program's, or without one of its tables.

    A newer one is accepted where only additions came after this version. The database is not changed. Raises
    SetupError, which says what to do.
    """
    versions, found = _versions(migrations), _version(engine, migrations)
    newest = versions[-1]
    is_unknown = found is not None and found not in versions
    if found == newest or (is_unknown and _may_go_on(engine, migrations, str(found))):
        _check_tables(engine, migrations)
        return
    path = place(engine)
    if found is None:
        raise SetupError("{path} is not a database of ours", path=path)
    raise SetupError(
        "{path} has version {found}, but this program needs version {newest}: it was written by another version",
        path=path, found=found, newest=newest,
    )  # fmt: skip


def earlier_version(engine: Engine, migrations: Path) -> tuple[str, str] | None:
    """Return the version of a database that `upgrade` would migrate, and the newest one; None for any other.

    Raises SetupError if the version cannot be read.
    """
    found, versions = _version(engine, migrations), _versions(migrations)
    return (found, versions[-1]) if found is not None and found in versions[:-1] else None


def upgrade(engine: Engine, migrations: Path) -> None:
    """Migrate a database of an older version of this program to the newest; leave any other as it is.

    A later version, or a database that is not ours, is refused by `check_version`, which every caller calls
    next. Raises SetupError if the migration fails, or if the version cannot be read.
    """
    if earlier_version(engine, migrations) is not None:
        migrate(engine, migrations)


def run_migrations(attributes: dict[Any, Any]) -> None:
    """Run migrations on the connection that `migrate` has opened; each env.py of migrations calls this."""
    from alembic import context

    context.configure(connection=attributes["connection"], version_table=attributes["table"])
    context.run_migrations()  # all of them in the one transaction that `migrate` has begun


def has_version(engine: Engine, migrations: Path) -> bool:
    """Whether a database has a version of this chain, whichever it is. Raises SetupError if it cannot be read."""
    return _version(engine, migrations) is not None


def _supported(migrations: Path) -> dict[str, str]:
    """Return the row of `may_go_on`: the newest version, and the one after which all migrations only added."""
    steps = _steps(migrations)
    while len(steps) > 1 and _ADDS.search(steps[-1]):
        steps.pop()
    oldest = _REVISION.findall(steps[-1])[0]
    return {"chain": _chain(migrations), "version": _versions(migrations)[-1], "oldest": oldest}


def _may_go_on(engine: Engine, migrations: Path, found: str) -> bool:
    """Whether a database of a version that is unknown here says that this program may go on with it."""
    if not is_postgresql(engine):
        return False  # a file belongs to one program
    values = {"chain": _chain(migrations), "version": found}
    try:
        with engine.connect() as connection:
            if connection.exec_driver_sql(_TABLES_OF_SCHEMA.format(table="may_go_on")).first() is None:
                return False
            return connection.exec_driver_sql(_OLDEST, values).scalar() in _versions(migrations)
    except DatabaseError as error:
        raise unusable(engine, error) from None
    finally:
        engine.dispose()


def _prepare(connection: Connection, migrations: Path) -> None:
    """Let this process alone migrate a database of PostgreSQL, as slowly as it must, and give a new one its schema."""
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    table = _version_table(connection.engine, migrations)
    beginnings = sorted((migrations / "postgresql").glob("[0-9]*.sql"))
    if not beginnings or connection.exec_driver_sql(_TABLES_OF_SCHEMA.format(table=table)).first():
        return
    driver: Any = connection.connection.driver_connection
    driver.execute(beginnings[-1].read_text("utf-8"))
    driver.execute(f"CREATE TABLE {table} (version_num VARCHAR(32) PRIMARY KEY)")
    version = f"{_chain(migrations)}_{beginnings[-1].stem}"
    driver.execute(f"INSERT INTO {table} (version_num) VALUES ('{version}')")  # noqa: S608 - our own names


def _chain(migrations: Path) -> str:
    """Return the first word of the revisions of these migrations."""
    return _versions(migrations)[-1].partition("_")[0]


def _version_table(engine: Engine, migrations: Path) -> str:
    return f"{_chain(migrations)}_version" if is_postgresql(engine) else "alembic_version"


@cache
def _versions(migrations: Path) -> tuple[str, ...]:
    """Return the versions that the migrations lead to, oldest first."""
    return tuple(_REVISION.findall(step)[0] for step in _steps(migrations))


@cache
def _tables(migrations: Path) -> tuple[str, ...]:
    """Return the tables that the migrations make."""
    return tuple(name for step in _steps(migrations) for name in _TABLE.findall(step))


def _steps(migrations: Path) -> list[str]:
    """Return the source of each migration, oldest first."""
    return [step.read_text("utf-8") for step in sorted((migrations / "versions").glob("[0-9]*.py"))]


def _check_tables(engine: Engine, migrations: Path) -> None:
    """Refuse a database in which a table that the migrations made cannot be read. Raises SetupError."""
    table = ""
    try:
        with engine.connect().execution_options(**{ONLY_READING: True}) as connection:
            for table in _tables(migrations):
                # A table in the schema may still be unusable, so the database has to prepare a read of each.
                connection.exec_driver_sql(f'SELECT * FROM "{table}" LIMIT 0')  # noqa: S608 - our own names
    except DatabaseError as error:
        if "no such table" not in str(error.orig) and getattr(error.orig, "sqlstate", "") != "42P01":
            raise unusable(engine, error) from None
        raise SetupError(
            "{path} is damaged: its table {table} is missing; put back a backup",
            path=place(engine), table=table,
        ) from None  # fmt: skip
    finally:
        engine.dispose()


def _version(engine: Engine, migrations: Path) -> str | None:
    """Return the version of a database; None if it has none. Raises SetupError if it cannot be read."""
    table = _version_table(engine, migrations)
    exists = (_TABLES_OF_SCHEMA if is_postgresql(engine) else _TABLES).format(table=table)
    try:
        with engine.connect().execution_options(**{ONLY_READING: True}) as connection:
            if connection.exec_driver_sql(exists).first() is None:
                return None
            found = connection.exec_driver_sql(f"SELECT version_num FROM {table}").scalars().all()  # noqa: S608 - our own names
    except DatabaseError as error:
        raise unusable(engine, error) from None
    finally:
        # The database may be refused, and then no connection to it must stay open.
        engine.dispose()
    return found[0] if len(found) == 1 else None
