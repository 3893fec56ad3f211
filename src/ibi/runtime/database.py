"""SQLite databases: an engine with the guarantees that the services rely on, and versioned migrations.

Readers never wait, a commit is on the disk before it is reported, foreign keys are enforced, and what a write
transaction has read cannot change under it.
"""

from __future__ import annotations

import re
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event
from sqlalchemy.exc import DatabaseError

from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

_ONLY_READING = "only_reading"
"""An option of connections that only read, so that a look at the version waits for no writer."""
_REVISION = re.compile(r'^revision = "(\w+)"$', re.MULTILINE)
_TABLE = re.compile(r'\bcreate_table\(\s*"(\w+)"')
_PRAGMAS = (
    # Readers and one writer do not wait for each other.
    "PRAGMA journal_mode = WAL",
    # With WAL, NORMAL would lose the last commits at a power cut, and with them receipts and tokens given.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA busy_timeout = 10000",
    "PRAGMA temp_store = MEMORY",
)


def open_engine(path: Path) -> Engine:
    """Make an engine for the SQLite file at a path; the file is neither opened nor made yet."""
    engine = create_engine(
        f"sqlite:///{path}", hide_parameters=True, connect_args={"check_same_thread": False, "timeout": 10}
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        # Otherwise the driver would begin transactions, and only at the first write; `begin` below does it.
        connection.isolation_level = None
        try:
            for pragma in _PRAGMAS:
                connection.execute(pragma)
        except UnicodeDecodeError:
            # The schema is so damaged that the driver cannot decode SQLite's error message.
            raise engine.dialect.loaded_dbapi.DatabaseError("malformed database schema") from None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # IMMEDIATE takes the lock before anything is read: a transaction that first reads and then writes
        # would fail at once, without waiting, if another one has written meanwhile.
        only_reading = connection.get_execution_options().get(_ONLY_READING)
        connection.exec_driver_sql("BEGIN" if only_reading else "BEGIN IMMEDIATE")

    return engine


def migrate(engine: Engine, migrations: Path) -> None:
    """Bring a database, new or older, to the newest version. Raises SetupError where that fails.

    A new file is readable by its owner alone: it may hold hashes of keys.
    """
    # Imported here: the import takes a third of the time of a command, and hardly any command needs it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    try:
        Path(str(engine.url.database)).touch(mode=0o600)
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except (DatabaseError, OSError) as error:
        raise _unusable(engine, error) from None


def check_version(engine: Engine, migrations: Path) -> None:
    """Refuse a database of another version than this program's, or without one of its tables.

    The database is not changed. Raises SetupError, which says what to do.
    """
    newest, found = _versions(migrations)[-1], _version(engine)
    if found == newest:
        _check_tables(engine, migrations)
        return
    path = engine.url.database
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
    found, versions = _version(engine), _versions(migrations)
    return (found, versions[-1]) if found is not None and found in versions[:-1] else None


def upgrade(engine: Engine, migrations: Path) -> None:
    """Migrate a database of an older version of this program to the newest; leave any other as it is.

    A later version, or a database that is not ours, is refused by `check_version`, which every caller calls
    next. Raises SetupError if the migration fails, or if the version cannot be read.
    """
    if earlier_version(engine, migrations) is not None:
        migrate(engine, migrations)


def quick_check(engine: Engine, seconds: float) -> list[str]:
    """Have SQLite check its file; return the faults, [] if there are none. Writers do not wait meanwhile.

    Raises SetupError where the file cannot be read and TimeoutError when it takes longer than `seconds`.
    """
    end = time.monotonic() + seconds
    try:
        with closing(engine.raw_connection()) as connection:
            driver: Any = connection.driver_connection
            driver.set_progress_handler(lambda: time.monotonic() > end, 10_000)
            try:
                found = [str(row[0]) for row in driver.execute("PRAGMA quick_check(10)")]
            finally:
                driver.set_progress_handler(None, 0)
    except (DatabaseError, engine.dialect.loaded_dbapi.Error) as error:
        if time.monotonic() > end:
            raise TimeoutError from None
        raise _unusable(engine, error) from None
    return [] if found == ["ok"] else found


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """Open a write transaction. Raises SetupError if it fails: locked too long, disk full, damaged."""
    try:
        with engine.begin() as connection:
            yield connection
    except (DatabaseError, engine.dialect.loaded_dbapi.Error) as error:
        raise _unusable(engine, error) from None


def run_migrations(attributes: dict[Any, Any]) -> None:
    """Run migrations on the connection that `migrate` has opened; each env.py of migrations calls this."""
    from alembic import context

    context.configure(connection=attributes["connection"], render_as_batch=True)
    context.run_migrations()  # all of them in the one transaction that `migrate` has begun


def _versions(migrations: Path) -> list[str]:
    """Return the versions that the migrations lead to, oldest first."""
    return [_REVISION.findall(step)[0] for step in _steps(migrations)]


def _steps(migrations: Path) -> list[str]:
    """Return the source of each migration, oldest first."""
    return [step.read_text("utf-8") for step in sorted((migrations / "versions").glob("[0-9]*.py"))]


def _check_tables(engine: Engine, migrations: Path) -> None:
    """Refuse a database in which a table that the migrations made cannot be read. Raises SetupError."""
    tables = [name for step in _steps(migrations) for name in _TABLE.findall(step)]
    table = ""
    try:
        with engine.connect().execution_options(**{_ONLY_READING: True}) as connection:
            for table in tables:
                # A table in the schema may still be unusable, so SQLite has to prepare a read of each.
                connection.exec_driver_sql(f'SELECT * FROM "{table}" LIMIT 0')  # noqa: S608 - our own names
    except DatabaseError as error:
        if "no such table" not in str(error.orig):
            raise _unusable(engine, error) from None
        raise SetupError(
            "{path} is damaged: its table {table} is missing; put back a backup",
            path=engine.url.database, table=table,
        ) from None  # fmt: skip
    finally:
        engine.dispose()


def _version(engine: Engine) -> str | None:
    """Return the version of a database; None if it has none. Raises SetupError if it cannot be read."""
    tables = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
    try:
        with engine.connect().execution_options(**{_ONLY_READING: True}) as connection:
            if connection.exec_driver_sql(tables).first() is None:
                return None
            found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all()
    except DatabaseError as error:
        raise _unusable(engine, error) from None
    finally:
        # The database may be refused, and then no connection to it must stay open.
        engine.dispose()
    return found[0] if len(found) == 1 else None


def _unusable(engine: Engine, error: Exception) -> SetupError:
    # The driver's message says what is wrong; that of SQLAlchemy would contain the statement, too.
    cause = error.orig if isinstance(error, DatabaseError) else getattr(error, "strerror", None)
    path = engine.url.database
    return SetupError("the database {path} cannot be used: {reason}", path=path, reason=cause or error)
