"""Chains of migrations in a real PostgreSQL: which version a new database gets, and which programs go on with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine

from ibi.errors import SetupError
from ibi.runtime.database import (
    check_version,
    earlier_version,
    has_version,
    migrate,
    open_engine,
    place,
    transaction,
)
from support.engines.chains import migrations, table
from support.engines.postgresql import PostgreSQL

ONE, TWO, THREE = table("one"), table("two"), table("three")
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
MAY_GO_ON = "SELECT * FROM may_go_on"


@pytest.fixture
def engine(postgresql: PostgreSQL) -> Iterator[Engine]:
    """An empty database, in which a statement may take very little time."""
    made = open_engine(f"{postgresql.new_database()}?options=-c%20statement_timeout%3D400ms")
    yield made
    made.dispose()


def rows(engine: Engine, statement: str) -> list[tuple[object, ...]]:
    with transaction(engine) as connection:
        return [tuple(row) for row in connection.exec_driver_sql(statement)]


def change(engine: Engine, statement: str) -> None:
    with transaction(engine) as connection:
        connection.exec_driver_sql(statement)


def refusal(engine: Engine, chain: Path) -> str:
    with pytest.raises(SetupError) as refused:
        check_version(engine, chain)
    # A database that is refused may be removed: no connection to it stays open.
    assert (engine.pool.checkedin(), engine.pool.checkedout()) == (0, 0)  # type: ignore[attr-defined]  # of its kind
    return str(refused.value)


@pytest.mark.parametrize(
    ("only_add", "oldest"), [({1, 2, 3}, 1), ({2, 3}, 1), ({1, 3}, 2), ({1, 2}, 3), ((), 3)]
)
def test_the_oldest_program_that_goes_on_is_the_one_before_all_that_only_adds(
    engine: Engine, tmp_path: Path, only_add: set[int], oldest: int
) -> None:
    first = migrations(tmp_path / "first", ONE)
    assert not has_version(engine, first)
    assert refusal(engine, first) == f"{place(engine)} is not a database of ours"
    migrate(engine, first)
    assert rows(engine, MAY_GO_ON) == [("things", "things_0001", "things_0001")]
    chain = migrations(tmp_path / "chain", ONE, TWO, THREE, only_add=frozenset(only_add))
    assert earlier_version(engine, chain) == ("things_0001", "things_0003")
    assert refusal(engine, chain) == (
        f"{place(engine)} has version things_0001, but this program needs version things_0003: "
        "it was written by another version"
    )
    migrate(engine, chain)
    assert rows(engine, MAY_GO_ON) == [("things", "things_0003", f"things_{oldest:04}")]
    assert [name for (name,) in rows(engine, TABLES)] == [
        "may_go_on",
        "one",
        "things_version",
        "three",
        "two",
    ]
    assert rows(engine, "SELECT * FROM things_version") == [("things_0003",)]


def test_an_older_program_goes_on_where_the_database_says_so_of_just_this_version(
    engine: Engine, tmp_path: Path
) -> None:
    first, second = migrations(tmp_path / "1", ONE), migrations(tmp_path / "2", ONE, TWO)
    migrate(engine, migrations(tmp_path / "3", ONE, TWO, THREE, only_add=frozenset({1, 3})))
    needs = "but this program needs version {}: it was written by another version"
    problem = f"{place(engine)} has version things_0003, {needs}"
    assert refusal(engine, first) == problem.format("things_0001")
    check_version(engine, second)
    change(engine, "DROP TABLE one")
    assert (
        refusal(engine, second) == f"{place(engine)} is damaged: its table one is missing; put back a backup"
    )
    for statement in (
        "UPDATE may_go_on SET version = 'things_0004'",
        "UPDATE may_go_on SET version = 'things_0003', chain = 'others'",
        "DELETE FROM may_go_on",
        "DROP TABLE may_go_on",
    ):
        change(engine, statement)
        assert refusal(engine, second) == problem.format("things_0002")
    change(engine, "CREATE TABLE may_go_on (chain TEXT)")
    reason = 'column "oldest" does not exist'
    assert refusal(engine, second) == f"the database {place(engine)} cannot be used: {reason}"


def test_a_new_database_begins_with_the_newest_schema_and_another_one_does_not(
    engine: Engine, tmp_path: Path
) -> None:
    chain = migrations(tmp_path / "chain", "sqlite_alone", "sqlite_alone", THREE)
    schemas = chain / "postgresql"
    schemas.mkdir()
    (schemas / "0001.sql").write_text("not read")
    (schemas / "0002.sql").write_text(
        "CREATE TABLE begun (word TEXT);\nINSERT INTO begun VALUES ('água'), ('%s');\n", "utf-8"
    )
    (schemas / "notes.sql").write_text("not read")
    for _ in range(2):
        migrate(engine, chain)
        assert [name for (name,) in rows(engine, TABLES)] == ["begun", "may_go_on", "things_version", "three"]
        assert rows(engine, "SELECT word FROM begun") == [("água",), ("%s",)]
        assert rows(engine, "SELECT * FROM things_version") == [("things_0003",)]
    with pytest.raises(SetupError):
        migrate(engine, migrations(tmp_path / "broken", ONE, TWO, THREE, "op.execute('no statement')"))
    assert rows(engine, "SELECT * FROM things_version") == [("things_0003",)]


def test_one_process_migrates_at_a_time_and_as_slowly_as_it_must(engine: Engine, tmp_path: Path) -> None:
    chain = migrations(tmp_path / "chain", ONE, """op.execute("SELECT pg_sleep(0.5)")""")
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    other = threading.Thread(target=migrate, args=(engine, chain))
    with transaction(engine) as connection:
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(433)")
        other.start()
        until_waiting(connection, waiting)
        time.sleep(0.5)  # longer than any other statement may take
        assert connection.exec_driver_sql(TABLES).all() == []
    other.join(30)
    check_version(engine, chain)
    assert rows(engine, "SHOW statement_timeout") == [("400ms",)]


def until_waiting(connection: Connection, waiting: str) -> None:
    """Wait until another connection waits for a lock."""
    for _ in range(3000):
        if connection.exec_driver_sql(waiting).scalar():
            return
        time.sleep(0.01)
    raise AssertionError("no other connection waits")
