"""The database module knows which version a database has, and what the newest is, without the program that migrates."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from ibi.archive.store import schema
from ibi.errors import SetupError
from ibi.resolver.registry.registry import MIGRATIONS
from ibi.runtime import database


@pytest.mark.parametrize("migrations", [schema.MIGRATIONS, MIGRATIONS], ids=["catalogue", "registry"])
def test_the_versions_of_a_database_are_those_that_alembic_knows(
    migrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest, *older = (step.revision for step in ScriptDirectory(str(migrations)).walk_revisions())
    migrated: list[str] = []

    def engine_at(version: str) -> Engine:
        engine = database.open_engine(tmp_path / version)
        with database.transaction(engine) as connection:
            connection.exec_driver_sql("CREATE TABLE alembic_version (version_num TEXT)")
            connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (version,))
        return engine

    current = database.open_engine(tmp_path / newest)
    database.migrate(current, migrations)
    monkeypatch.setattr(
        "ibi.runtime.database.migrations.migrate",
        lambda engine, _: migrated.append(Path(engine.url.database).name),
    )
    database.check_version(current, migrations)
    for version in (*older, "of_another_program"):
        with pytest.raises(
            SetupError, match=f"has version {version}, but this program needs version {newest}"
        ):
            database.check_version(engine_at(version), migrations)
        database.upgrade(database.open_engine(tmp_path / version), migrations)
    database.upgrade(database.open_engine(tmp_path / newest), migrations)
    assert migrated == older


@pytest.mark.parametrize("migrations", [schema.MIGRATIONS, MIGRATIONS], ids=["catalogue", "registry"])
def test_a_database_is_refused_that_lacks_any_of_its_tables(migrations: Path, tmp_path: Path) -> None:
    engine = database.open_engine(tmp_path / "database.sqlite")
    database.migrate(engine, migrations)
    driver = sqlite3.connect(tmp_path / "database.sqlite")
    driver.execute("PRAGMA legacy_alter_table = ON")  # or every view, trigger and key would follow
    made = driver.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    tables = {name for (name,) in made} - {"alembic_version"}
    assert len(tables) > 1
    for table in tables:
        driver.execute(f"ALTER TABLE {table} RENAME TO elsewhere")
        with pytest.raises(SetupError, match=f"is damaged: its table {table} is missing; put back a backup"):
            database.check_version(engine, migrations)
        driver.execute(f"ALTER TABLE elsewhere RENAME TO {table}")
    database.check_version(engine, migrations)
    driver.close()


def test_nothing_but_a_migration_waits_for_alembic(tmp_path: Path) -> None:
    init = f"archive init --data {tmp_path / 'a'} --address archive.example --ip 127.0.0.1"
    service = ("--service-ibi", "LK47B6W/362SFKH")
    subprocess.run([sys.executable, "-m", "ibi", *init.split(), *service], check=True, capture_output=True)
    shown = f"ibi.cli.main(['archive', 'list', '--data', {str(tmp_path / 'a')!r}])"
    code = f"import sys, ibi.cli; status = {shown}; sys.exit(status or 'alembic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_transaction_has_read_cannot_change_under_it(tmp_path: Path) -> None:
    engine = database.open_engine(tmp_path / "database.sqlite")
    with database.transaction(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE counter (value INTEGER)")
        connection.exec_driver_sql("INSERT INTO counter VALUES (0)")

    def increment(meanwhile: threading.Thread | None = None) -> None:
        with database.transaction(engine) as connection:
            value = connection.exec_driver_sql("SELECT value FROM counter").scalar_one()
            if meanwhile is not None:
                meanwhile.start()
                meanwhile.join(0.2)
            connection.exec_driver_sql("UPDATE counter SET value = ?", (value + 1,))

    other = threading.Thread(target=increment)
    increment(meanwhile=other)
    other.join()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT value FROM counter").scalar_one() == 2
    engine.dispose()


def test_checking_the_version_waits_for_no_writer(tmp_path: Path) -> None:
    writing, reading = (database.open_engine(tmp_path / "catalogue.sqlite") for _ in range(2))
    database.migrate(writing, schema.MIGRATIONS)
    with database.transaction(writing):
        # A writer would wait for ten seconds, and then be refused.
        database.upgrade(reading, schema.MIGRATIONS)
        database.check_version(reading, schema.MIGRATIONS)
    writing.dispose()


def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    steps = {"0001": "CREATE TABLE first (value INTEGER)", "0002": "INSERT INTO missing VALUES (1)"}
    (tmp_path / "versions").mkdir()
    (tmp_path / "env.py").write_text((schema.MIGRATIONS / "env.py").read_text())
    for before, (revision, statement) in zip((None, "0001"), steps.items(), strict=True):
        step = f"""\
            from alembic import op
            revision = "{revision}"
            down_revision = {before!r}
            def upgrade(): op.execute("{statement}")
            """
        (tmp_path / "versions" / f"{revision}_step.py").write_text(dedent(step))
    engine = database.open_engine(tmp_path / "database.sqlite")
    with pytest.raises(SetupError, match="no such table: missing"):
        database.migrate(engine, tmp_path)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT name FROM sqlite_master").all() == []
    engine.dispose()


def test_a_new_database_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "database.sqlite"
    engine = database.open_engine(path)
    database.migrate(engine, MIGRATIONS)
    engine.dispose()
    assert path.stat().st_mode & 0o777 == 0o600


FILL = """INSERT INTO t
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 100000) SELECT i, hex(i) FROM n"""
COUNT = """
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 100000) SELECT count(*) FROM n"""


def _filled(path: Path) -> Engine:
    engine = database.open_engine(path)
    with database.transaction(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE t (i INTEGER PRIMARY KEY, x TEXT)")
        connection.exec_driver_sql(FILL)
    return engine


def test_a_sound_database_has_no_faults_and_a_damaged_one_tells_them(tmp_path: Path) -> None:
    path = tmp_path / "database.sqlite"
    engine = _filled(path)
    assert database.quick_check(engine, 60) == []
    engine.dispose()  # the last connection writes all into the file
    content = bytearray(path.read_bytes())
    content[36:40] = (7).to_bytes(4, "big")  # how many pages are free
    path.write_bytes(content)
    engine = database.open_engine(path)
    (fault,) = database.quick_check(engine, 60)
    assert "size is 0 but should be 7" in fault
    engine.dispose()


def test_a_check_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    engine = _filled(tmp_path / "database.sqlite")
    with pytest.raises(TimeoutError):
        database.quick_check(engine, -1)
    # What comes after it on the same connection has all the time that it needs.
    with engine.connect() as connection:
        assert connection.exec_driver_sql(COUNT).scalar() == 100_000
    engine.dispose()


def test_a_file_that_is_no_database_is_not_checked(tmp_path: Path) -> None:
    path = tmp_path / "database.sqlite"
    path.write_bytes(b"no database" * 1000)
    engine = database.open_engine(path)
    with pytest.raises(SetupError, match=f"{path}.*not a database"):
        database.quick_check(engine, 60)
    engine.dispose()
