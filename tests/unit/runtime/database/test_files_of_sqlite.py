"""Databases in files: what holds for each connection, which versions are taken, and what is said of all others."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DatabaseError

from ibi.archive.store import schema
from ibi.errors import SetupError
from ibi.runtime.database import (
    check_version,
    earlier_version,
    has_version,
    migrate,
    open_engine,
    quick_check,
    transaction,
    upgrade,
)
from ibi.runtime.database.fencing import FENCE
from ibi.runtime.database.sqlite import ONLY_READING
from support.concurrency.open_files import open_files
from support.engines.chains import migrations, table


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(SetupError) as refused:
        act()
    return str(refused.value)


def test_each_connection_keeps_what_was_committed_and_waits_for_others(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "a.sqlite")
    wanted = {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 10_000,
        "temp_store": 2,
    }
    with engine.connect() as connection:
        for name, value in wanted.items():
            assert connection.exec_driver_sql(f"PRAGMA {name}").scalar() == value
    engine.dispose()


def test_a_transaction_that_only_reads_waits_for_no_writer_and_every_other_one_does(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "a.sqlite")
    with transaction(engine) as writing, closing(sqlite3.connect(tmp_path / "a.sqlite", timeout=0)) as other:
        with engine.connect().execution_options(**{ONLY_READING: True}) as reading:
            assert reading.exec_driver_sql("SELECT 1").scalar() == 1
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")  # nothing was written yet
        writing.exec_driver_sql("CREATE TABLE t (x)")
    engine.dispose()


def test_a_fence_and_a_lock_of_nodes_mean_nothing_for_a_file(tmp_path: Path) -> None:
    def refuse(_: Connection) -> None:
        raise AssertionError("there is no other node")

    engine = open_engine(tmp_path / "a.sqlite")
    token = FENCE.set(refuse)
    try:
        with transaction(engine, "catalogue") as connection:
            assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    finally:
        FENCE.reset(token)
    engine.dispose()


def test_a_transaction_that_fails_is_one_sentence_and_what_its_block_raises_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    engine = open_engine(path)

    def write(statement: str, error: Exception | None = None) -> None:
        with transaction(engine) as connection:
            connection.exec_driver_sql(statement)
            if error is not None:
                raise error

    write("CREATE TABLE t (x)")
    unusable = f"the database {path} cannot be used: no such table: missing"
    assert refusal(lambda: write("INSERT INTO missing VALUES (1)")) == unusable
    driver = sqlite3.OperationalError("of the driver")
    assert refusal(lambda: write("SELECT 1", driver)) == f"the database {path} cannot be used: of the driver"
    with pytest.raises(KeyError):
        write("INSERT INTO t VALUES (1)", KeyError("x"))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM t").scalar() == 0
    engine.dispose()


def test_a_file_that_is_no_database_is_not_held_open(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(b"no database" * 100)
    engine = open_engine(path)
    with pytest.raises(DatabaseError, match="file is not a database"):
        engine.connect()
    assert open_files(tmp_path) == []
    assert (
        refusal(partial(quick_check, engine, 60))
        == f"the database {path} cannot be used: file is not a database"
    )
    for read in (check_version, earlier_version, upgrade, has_version, migrate):
        sentence = f"the database {path} cannot be used: file is not a database"
        assert refusal(partial(read, engine, schema.MIGRATIONS)) == sentence
    assert open_files(tmp_path) == []


def test_a_new_database_cannot_be_made_where_there_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a.sqlite"
    engine = open_engine(path)
    sentence = f"the database {path} cannot be used: No such file or directory"
    assert refusal(partial(migrate, engine, schema.MIGRATIONS)) == sentence


def test_a_new_database_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    engine = open_engine(tmp_path / "a.sqlite")
    try:
        migrate(engine, migrations(tmp_path / "chain", table("one")))
    finally:
        os.umask(before)
    engine.dispose()
    assert {oct(path.stat().st_mode) for path in tmp_path.glob("a.sqlite*")} == {"0o100600"}


def at(path: Path, *versions: str) -> Engine:
    """A database with tables of ours, at these versions."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS alembic_version (version_num TEXT)")
        database.execute("DELETE FROM alembic_version")
        database.executemany("INSERT INTO alembic_version VALUES (?)", [(each,) for each in versions])
    return open_engine(path)


def test_each_version_is_told_from_all_others(tmp_path: Path) -> None:
    path, chain = tmp_path / "a.sqlite", migrations(tmp_path / "100% ours", table("one"), table("two"))
    engine = open_engine(path)
    foreign = f"{path} is not a database of ours"
    for _ in range(2):  # also where the file has just been made, by being looked at
        assert refusal(partial(check_version, engine, chain)) == foreign
        assert (has_version(engine, chain), earlier_version(engine, chain)) == (False, None)
        upgrade(engine, chain)
        assert open_files(tmp_path) == []
    migrate(engine, chain)
    engine.dispose()
    for versions, earlier in (
        (("things_0002",), None), (("things_0001",), ("things_0001", "things_0002")), (("things_0003",), None),
        ((), None), (("things_0001", "things_0002"), None),
    ):  # fmt: skip
        engine = at(path, *versions)
        assert has_version(engine, chain) is (len(versions) == 1)
        assert earlier_version(engine, chain) == earlier
        if versions == ("things_0002",):
            check_version(engine, chain)
        else:
            needs = "but this program needs version things_0002: it was written by another version"
            needed = f"{path} has version {' '.join(versions)}, {needs}"
            refused = refusal(partial(check_version, engine, chain))
            assert refused == (needed if len(versions) == 1 else foreign)
        assert open_files(tmp_path) == []


def test_an_older_database_is_brought_to_the_newest_version_and_no_other_one(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    chain = migrations(tmp_path / "chain", table("one"), table("two"))
    later = migrations(tmp_path / "later", table("one"), table("two"), table("three"))
    engine = open_engine(path)
    migrate(engine, chain)
    upgrade(engine, chain)
    assert earlier_version(engine, later) == ("things_0002", "things_0003")
    upgrade(engine, later)
    check_version(engine, later)
    upgrade(engine, chain)  # a newer one stays
    assert earlier_version(engine, later) is None
    with closing(sqlite3.connect(path)) as database, database:
        found = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall()
        assert [name for (name,) in found] == ["alembic_version", "one", "three", "two"]
        database.execute("DROP TABLE two")
    damaged = f"{path} is damaged: its table two is missing; put back a backup"
    assert refusal(partial(check_version, engine, later)) == damaged
    assert open_files(tmp_path) == []


def test_a_table_that_cannot_be_read_is_no_missing_one(tmp_path: Path) -> None:
    path, chain = tmp_path / "a.sqlite", migrations(tmp_path / "chain", table("one"))
    engine = open_engine(path)
    migrate(engine, chain)
    engine.dispose()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE one")
        database.execute("CREATE VIEW one AS SELECT missing FROM alembic_version")
    sentence = f"the database {path} cannot be used: no such column: missing"
    assert refusal(partial(check_version, engine, chain)) == sentence
