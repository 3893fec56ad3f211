"""The migrations of a catalogue in SQLite: the schema that they make, and what older rows become."""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from ibi.archive.store import schema
from ibi.runtime.database import migrate, open_engine
from support.new_databases import migrate_to

ITEMS = """INSERT INTO item (number, rep, state, content_type, timestamp, transferable, file_list_public, file_count)
    VALUES (1, 'a.example/b/2010/01.01.00.00', 'Original', 'Data', '2010-01-01T00:00:00Z', 1, 1, 2),
    (2, 'a.example/b/2010/01.01.00.01', 'Copy', 'Data', '2010-01-01T00:00:00Z', 1, 1, 0)"""
FILES = (
    "INSERT INTO file (item, name, size, sha256, media_type) VALUES (1, 'a', 1, '', ''), (1, 'b', 1, '', '')"
)
EVENTS = """INSERT INTO event (item, number, moment, who, what)
    VALUES (1, 1, '', '', 'deposited'), (2, 1, '', '', 'copied'), (1, 2, '', '', 'edited')"""
COPIED = """INSERT INTO copied (item, archive, service, url, original, tag, compared, checked, since, private)
    VALUES (2, 'http://b.example/', '', '', '', '"tag"', 1, '', '', 0)"""


def _schema_of(path: Path) -> set[str]:
    """Return the statements that make what a database has, without comments and layout."""
    with closing(sqlite3.connect(path)) as database:
        made = database.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name <> 'alembic_version'"
        )
        plain = (re.sub(r"--.*", "", sql).replace("(", " ( ").replace(")", " ) ") for (sql,) in made)
        return {" ".join(sql.split()) for sql in plain}


def test_the_migrations_lead_to_the_schema_that_people_read(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "new.sqlite")
    migrate(engine, schema.MIGRATIONS)
    engine.dispose()
    with closing(sqlite3.connect(tmp_path / "written.sqlite")) as written:
        written.executescript((schema.MIGRATIONS.parent / "catalogue.sql").read_text(encoding="utf-8"))
    assert _schema_of(tmp_path / "new.sqlite") == _schema_of(tmp_path / "written.sqlite")


def test_older_rows_get_what_newer_versions_need(tmp_path: Path) -> None:
    """Sidecars are owed, copies are fetched whole again, and numbers of changes go on where they were."""
    path, began = tmp_path / "catalogue.sqlite", int(time.time())
    engine = open_engine(path)
    migrate_to(engine, schema.MIGRATIONS, "catalogue_0001")
    with closing(sqlite3.connect(path)) as first, first:
        first.execute(ITEMS)
        first.execute(FILES)
    migrate_to(engine, schema.MIGRATIONS, "catalogue_0005")
    with closing(sqlite3.connect(path)) as fifth, fifth:
        assert fifth.execute("SELECT item, owed FROM sidecar").fetchall() == [(1, 1)]
        fifth.execute(EVENTS)
        fifth.execute(COPIED)
        assert fifth.execute("SELECT number, item FROM changed").fetchall() == [(1, 1), (2, 2), (3, 1)]
    migrate(engine, schema.MIGRATIONS)
    engine.dispose()
    with closing(sqlite3.connect(path)) as newest:
        feeds = newest.execute("SELECT item, number, feed FROM event").fetchall()
        assert feeds == [(1, 1, None), (1, 2, 3), (2, 1, None)]
        assert newest.execute("SELECT item, tag, due FROM copied").fetchall() == [(2, "", "~")]
        ((number, word, moment, rules, item),) = newest.execute("SELECT * FROM changed")
    assert (number, rules, item) == (4, 0, None)
    assert re.fullmatch("[0-9a-f]{16}", word)
    assert began <= moment <= time.time()
