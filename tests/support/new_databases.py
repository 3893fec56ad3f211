"""New databases in a moment: what the migrations make of an empty file is made once in a process, and then said again.

Hundreds of tests want an Archive or a registry of their own, and running every migration costs more than most of what
they show. An empty database gets, statement by statement, what the first one of this process has got from its
migrations; one that holds anything already is migrated as ever, and so is every one made by a command in a process of
its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine

_migrated = command.upgrade
_made: dict[str, list[str]] = {}  # folder of migrations -> the statements that make a new database


def upgrade(config: Any, revision: str) -> None:
    """What alembic's `command.upgrade` does, for the one way in which `ibi.runtime.database.migrate` calls it."""
    connection = config.attributes["connection"]
    if connection.dialect.name != "sqlite":
        _migrated(config, revision)
        return
    driver = connection.connection.driver_connection
    new = driver.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    folder = config.get_main_option("script_location")
    if new and folder in _made:
        for statement in _made[folder]:
            driver.execute(statement)
        return
    _migrated(config, revision)
    if new:
        transaction = {"BEGIN TRANSACTION;", "COMMIT;"}  # there is one already
        _made[folder] = [statement for statement in driver.iterdump() if statement not in transaction]


def migrate_to(engine: Engine, migrations: Path, version: str) -> None:
    """Make of an empty file of SQLite, or of one of an older version, what a program of that version had."""
    config = Config()
    config.set_main_option("script_location", str(migrations))
    with engine.begin() as connection:
        config.attributes |= {"connection": connection, "table": "alembic_version"}
        _migrated(config, version)
