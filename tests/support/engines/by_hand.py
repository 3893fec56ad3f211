"""The tables of a catalogue by hand, past the program and its rules; in SQLite and in PostgreSQL alike."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from ibi.archive.store.data_directory import catalogue_store
from ibi.runtime.database import open_engine, transaction
from ibi.runtime.shared.documents import documents_of

_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
_TRIGGERS = "SELECT name FROM sqlite_master WHERE type = 'trigger'"


@contextmanager
def holding_up(data: Path) -> Iterator[Connection]:
    """A transaction in a catalogue, committed at the end of the block; all others that write wait meanwhile."""
    engine = open_engine(catalogue_store(data))
    try:
        with transaction(engine, "catalogue") as connection:
            yield connection
    finally:
        engine.dispose()


def run(data: Path, statement: str) -> list[tuple[Any, ...]]:
    """Run one statement in a transaction of its own; return its rows."""
    with holding_up(data) as connection:
        result = connection.exec_driver_sql(statement)
        return [tuple(row) for row in result] if result.returns_rows else []


def harm(data: Path, *statements: str) -> None:
    """Change a catalogue without its triggers and foreign keys."""
    store = catalogue_store(data)
    if isinstance(store, Path):
        with closing(sqlite3.connect(store)) as database, database:
            for (trigger,) in database.execute(_TRIGGERS).fetchall():
                database.execute(f"DROP TRIGGER {trigger}")
            for statement in statements:
                database.execute(statement)
        return
    with holding_up(data) as connection:
        for statement in ("SET LOCAL session_replication_role = replica", *statements):
            connection.exec_driver_sql(statement)


def put_document(data: Path, name: str, text: str) -> None:
    """Write a file of a data directory, or the document of its store that stands for it."""
    documents = documents_of(data)
    if documents is None:
        (data / name).write_text(text)
        return
    with documents.changing(name) as document:
        document.write(text)


def everything(data: Path) -> bytes:
    """What the tables of a catalogue hold: the bytes of the file and its log, or all rows of a database as text."""
    store = catalogue_store(data)
    if isinstance(store, Path):
        return b"".join(path.read_bytes() for path in data.glob(f"{store.name}*"))
    with holding_up(data) as connection:
        names = connection.exec_driver_sql(_TABLES).scalars().all()
        rows = [connection.exec_driver_sql(f'SELECT * FROM "{name}"').all() for name in names]  # noqa: S608 - its own names
        return str(rows).encode()
