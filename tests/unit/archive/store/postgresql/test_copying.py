"""A catalogue is copied whole, table by table, and a copy that differs anywhere is told; here between two files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest

from ibi.archive.model.item import Holding
from ibi.archive.store import schema
from ibi.archive.store.postgresql.copying import compare_rows, copy_rows
from ibi.archive.store.tables import batches
from ibi.archive.store.tables.history import ItemEvent
from ibi.archive.store.tables.rows import names_of
from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms
from ibi.runtime.database import migrate, open_engine
from support.archive.archive_fixture import WHEN, fill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Engine

    from support.archive.archive_fixture import NewArchive

PAGE: Final = 2000


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Engine]:
    """A new catalogue in another file."""
    engine = open_engine(tmp_path / "target.sqlite")
    migrate(engine, schema.MIGRATIONS)
    yield engine
    engine.dispose()


def _change(engine: Engine, statement: str) -> None:
    with closing(sqlite3.connect(str(engine.url.database))) as database, database:
        database.execute(statement)


def test_every_row_is_copied_page_by_page(archive: NewArchive, target: Engine) -> None:
    forms = [IBIForms.parse(f"rep a.example/b/{2000 + n // 60}/01.01.00.{n % 60:02}") for n in range(PAGE)]
    new = [Holding(forms=each, timestamp=WHEN, url="http://far.example/") for each in forms]
    with archive.catalogue.writing() as writer:
        items = [(each, [name for name, _ in names_of(each)]) for each in new]
        batches.add_all(writer.run, items, ItemEvent(WHEN, "maria", "imported", {}))
    so_far: list[int] = []
    copy_rows(archive.catalogue.engine, target, so_far.append)
    assert so_far[:2] == [PAGE, PAGE + 1]  # the items come first
    assert so_far == sorted(so_far)
    assert (
        compare_rows(archive.catalogue.engine, target)
        == compare_rows(target, archive.catalogue.engine)
        == so_far[-1]
    )
    with closing(sqlite3.connect(str(target.url.database))) as copied:
        counts = {
            table: copied.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - names of tables
            for table in ("item", "event", "changed", "sidecar")
        }
    assert counts == {"item": PAGE + 1, "event": PAGE, "changed": PAGE + 1, "sidecar": 0}


def test_a_copy_keeps_which_sidecars_are_written(archive: NewArchive, target: Engine) -> None:
    """Triggers mark all of them as outdated while the rows are copied."""
    fill(archive)
    with closing(sqlite3.connect(archive.data / "catalogue.sqlite")) as source:
        owed = source.execute("SELECT item, owed FROM sidecar").fetchall()
    copy_rows(archive.catalogue.engine, target)
    with closing(sqlite3.connect(str(target.url.database))) as copied:
        assert copied.execute("SELECT item, owed FROM sidecar").fetchall() == owed != []


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE item SET transferable = NOT transferable WHERE number = 1", "item"),
        ("UPDATE name SET main = NOT main", "name"),
        ("UPDATE event SET detail = 'x'", "event"),
        ("DELETE FROM file WHERE name = 'index.html'", "file"),
        ("INSERT INTO leaving VALUES ('a')", "leaving"),
        ("UPDATE sidecar SET owed = 9", "sidecar"),
    ],
)
def test_a_difference_in_any_table_is_told(
    archive: NewArchive, target: Engine, statement: str, table: str
) -> None:
    fill(archive)
    source = archive.catalogue.engine
    copy_rows(source, target)
    assert compare_rows(source, target) > 20
    _change(target, statement)
    sentence = "{} has another content than {}: see the table " + table
    for one, other in ((source, target), (target, source)):
        with pytest.raises(SetupError) as raised:
            compare_rows(one, other)
        assert str(raised.value) == sentence.format(other.url.database, one.url.database)


def test_a_row_that_cannot_be_copied_leaves_the_new_catalogue_as_it_was(
    archive: NewArchive, target: Engine
) -> None:
    fill(archive)
    _change(target, "CREATE TRIGGER no BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(SetupError, match="no"):
        copy_rows(archive.catalogue.engine, target)
    with closing(sqlite3.connect(str(target.url.database))) as copied:
        assert copied.execute("SELECT count(*) FROM item").fetchone() == (0,)


def test_a_file_that_is_no_database_cannot_be_copied(archive: NewArchive, tmp_path: Path) -> None:
    (tmp_path / "target.sqlite").write_bytes(b"no database" * 1000)
    engine = open_engine(tmp_path / "target.sqlite")
    with pytest.raises(SetupError, match=r"target\.sqlite.*not a database"):
        copy_rows(archive.catalogue.engine, engine)
    engine.dispose()
