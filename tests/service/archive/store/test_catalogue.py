"""The catalogue: what is put in comes out, and its laws hold in the database itself."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ibi.archive.model.item import Holding, MetadataValue, StoredFile
from ibi.archive.store import schema
from ibi.archive.store.data_directory import DataDirectory, catalogue_store
from ibi.archive.store.tables import change_log
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.errors import AlreadyHeld, NotHeld, SetupError
from ibi.identifier.forms import IBIForms, parse_name
from ibi.identifier.legacy import LegacyId
from ibi.minting.machine import this_machine
from ibi.protocol.vocabulary import ContentType, ItemState
from ibi.runtime.database import check_version, migrate, open_engine
from support.archive.archive_fixture import WHEN, NewArchive
from support.new_databases import migrate_to

BOTH = IBIForms.parse("rep sid.inpe.br/MTC-m18@80/2009/07.21.13.23 ibip 8JMKD3MGP8W/35MME4E")
PLAIN = Holding(forms=BOTH, timestamp=WHEN, url="http://far.example/")
WHOLE = Holding(
    forms=BOTH,
    aliases=(LegacyId.parse("6RPa7umaZ/UaJFT"), LegacyId.parse("6qtX3pFwXQZ3r59YCT/GUQnU")),
    key="a key of mine",
    state=ItemState.COPY,
    content_type=ContentType.METADATA,
    timestamp=WHEN,
    language="pt-BR",
    transferable=False,
    files=(StoredFile("a%20b.txt", 3, "aa", "text/plain"), StoredFile("c/d.pdf", 4, "bb", "application/pdf")),
    target="c/d.pdf",
    file_list_public=False,
    next_edition=IBIForms.parse("ibip 8JMKD3MGP8W/35MMLL8"),
    translations={"": IBIForms.parse("rep a.example/b/2010/01.01.00.00"), "en": BOTH},
    metadata_item=IBIForms.parse("rep a.example/b/2010/01.01.00.01"),
    metadata={"title": (MetadataValue("Título", "pt"), MetadataValue("Title"))},
    formats={"oai_dc": "http://far.example/dc"},
)


OTHER = IBIForms.parse("rep a.example/b/2030/01.01.00.00")


@pytest.mark.proves("ARC-09", "ARC-12")
@pytest.mark.parametrize("holding", [PLAIN, WHOLE], ids=["plain", "whole"])
def test_an_item_comes_out_as_it_was_put_in(archive: NewArchive, holding: Holding) -> None:
    put = archive.catalogue.put(holding)
    assert replace(put, number=0) == holding
    for name in holding.names:
        assert archive.catalogue.holding(name) == put


@pytest.mark.proves("ARC-17", "GEN-13")
@pytest.mark.parametrize("name", ["SID.inpe.BR/mtc-M18@80/2009/07.21.13.23", "8jmkd3mgp8w/35mme4e"])
def test_an_item_is_found_by_either_form_in_any_case(archive: NewArchive, name: str) -> None:
    put = archive.catalogue.put(PLAIN)
    assert archive.catalogue.holding(parse_name(name)) == put


@pytest.mark.proves("WILD-02")
def test_an_older_opaque_id_finds_its_item_by_exact_case_only(archive: NewArchive) -> None:
    put = archive.catalogue.put(WHOLE)
    assert archive.catalogue.holding(parse_name("6RPa7umaZ/UaJFT")) == put
    assert archive.catalogue.holding(LegacyId.parse("6RPa7umaZ/uaJFT")) is None


@pytest.mark.proves("ARC-01")
@pytest.mark.parametrize(
    "other",
    [
        IBIForms.parse("rep SID.INPE.BR/mtc-m18@80/2009/07.21.13.23"),
        IBIForms.parse("ibip 8jmkd3mgp8w/35mme4e"),
        IBIForms.parse("rep a.example/b/2010/01.01.00.00 ibip 8JMKD3MGP8W/35MME4E"),
    ],
    ids=str,
)
def test_no_two_items_share_a_name_in_any_form_or_case(archive: NewArchive, other: IBIForms) -> None:
    first = archive.catalogue.put(PLAIN)
    with pytest.raises(AlreadyHeld):
        archive.catalogue.put(replace(PLAIN, forms=other))
    assert [first] == [held for held in archive.catalogue.all() if held.url]


@pytest.mark.proves("ARC-02", "ARC-04", "AMB-23")
def test_an_archive_never_holds_original_and_copy_of_one_item(archive: NewArchive) -> None:
    archive.catalogue.put(PLAIN)
    with pytest.raises(AlreadyHeld):
        archive.catalogue.put(replace(PLAIN, state=ItemState.COPY))


@pytest.mark.one_store("sqlite", "test_in_postgresql writes past the program there")
@pytest.mark.proves("ARC-01", "ARC-04")
def test_the_database_itself_refuses_a_second_item_of_a_name(archive: NewArchive) -> None:
    """A write by other tools meets the same constraint."""
    archive.catalogue.put(PLAIN)
    archive.catalogue.close()
    with sqlite3.connect(archive.data / "catalogue.sqlite") as other, pytest.raises(sqlite3.IntegrityError):
        other.execute("INSERT INTO name SELECT name, 1, main FROM name WHERE item <> 1")
    other.close()


def test_what_is_not_held_is_nothing(archive: NewArchive) -> None:
    assert archive.catalogue.holding(BOTH.main) is None
    assert archive.catalogue.holding_by_key("a key of mine") is None


def test_an_item_is_found_by_its_depositors_key(archive: NewArchive) -> None:
    put = archive.catalogue.put(WHOLE)
    assert archive.catalogue.holding_by_key("a key of mine") == put
    other = replace(PLAIN, forms=IBIForms.parse("rep a.example/b/2010/01.01.00.00"), key="a key of mine")
    with pytest.raises(AlreadyHeld):
        archive.catalogue.put(other)


def test_items_come_in_the_order_of_their_names_however_many(archive: NewArchive) -> None:
    names = [f"rep a.example/b/2010/01.{day:02}.{hour:02}.00" for day in range(1, 29) for hour in range(24)]
    with archive.catalogue.writing() as writer:
        for name in reversed(names):
            writer.add(replace(PLAIN, forms=IBIForms.parse(name)))
    found = [str(held.forms) for held in archive.catalogue.all() if held.url]
    assert found == names
    assert archive.catalogue.count() == len(names) + 1
    rest = archive.catalogue.all(after=names[9].removeprefix("rep "))
    assert str(next(rest).forms) == names[10]


def test_a_failed_transaction_leaves_nothing(archive: NewArchive) -> None:
    def add_and_fail() -> None:
        with archive.catalogue.writing() as writer:
            writer.add(WHOLE)
            raise KeyError

    with pytest.raises(KeyError):
        add_and_fail()
    assert archive.catalogue.holding(BOTH.main) is None
    assert archive.catalogue.put(WHOLE).files == WHOLE.files


def test_an_item_is_changed_as_a_whole_but_keeps_every_name(archive: NewArchive) -> None:
    put = archive.catalogue.put(WHOLE)
    changed = replace(PLAIN, number=put.number, state=ItemState.DELETED)
    with archive.catalogue.writing() as writer:
        writer.change(put, changed)
    assert archive.catalogue.holding(BOTH.main) == changed
    assert archive.catalogue.holding(WHOLE.aliases[0]) == changed
    with archive.catalogue.writing() as writer, pytest.raises(NotHeld):
        writer.change(replace(put, number=999), changed)


def test_a_reader_sees_what_another_process_has_written(archive: NewArchive) -> None:
    assert archive.catalogue.holding(BOTH.main) is None
    other = Catalogue(open_engine(catalogue_store(archive.data)))
    other.put(PLAIN)
    other.close()
    assert archive.catalogue.holding(BOTH.main) is not None


# The database


@pytest.mark.one_store("sqlite", "one connection has one transaction: the sentences are those of SQLite")
def test_each_snapshot_is_ended_however_its_block_ends(archive: NewArchive) -> None:
    catalogue = archive.catalogue
    put = catalogue.put(PLAIN)
    with catalogue.snapshot() as snapshot:
        before = snapshot.position
        snapshot("SELECT 1 UNION SELECT 2")  # nothing of it is read
    with pytest.raises(NotHeld), catalogue.snapshot():
        raise NotHeld("no")
    with pytest.raises(SetupError, match="no such table"), catalogue.snapshot() as snapshot:
        snapshot("SELECT 1 FROM nowhere")
    with pytest.raises(SetupError, match="within a transaction"), catalogue.snapshot(), catalogue.snapshot():
        pass

    def elsewhere() -> None:  # the lock is free for other threads
        other = DataDirectory(archive.data, archive.clock.machine).open_catalogue()
        with other.writing() as writer:
            change_log.log_changes(writer.run, [put.number])
        other.close()
        with catalogue.snapshot() as snapshot:
            found.append((snapshot.position, snapshot.holding(PLAIN.forms.main)))

    found: list[tuple[str, Holding | None]] = []
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(10)
    assert [(position == before, holding) for position, holding in found] == [(False, put)]
    with catalogue.snapshot() as snapshot:
        assert snapshot.position == found[0][0]


def test_migrating_twice_changes_nothing(archive: NewArchive) -> None:
    put = archive.catalogue.put(PLAIN)
    engine = open_engine(catalogue_store(archive.data))
    migrate(engine, schema.MIGRATIONS)
    engine.dispose()
    assert archive.catalogue.holding(BOTH.main) == put


VERSIONS = sorted(path.stem[:4] for path in (schema.MIGRATIONS / "versions").glob("0*.py"))


@pytest.mark.one_store("sqlite", "PostgreSQL never had these versions")
@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_a_catalogue_of_an_older_version_keeps_its_items(
    archive: NewArchive, tmp_path: Path, version: str
) -> None:
    """What today's program has put is copied into tables as that version made them, column by column."""
    held = [archive.catalogue.put(holding) for holding in (PLAIN, replace(WHOLE, forms=OTHER))]
    folder = tmp_path / "older"
    folder.mkdir()
    engine = open_engine(folder / "catalogue.sqlite")
    migrate_to(engine, schema.MIGRATIONS, f"catalogue_{version}")
    engine.dispose()
    with closing(sqlite3.connect(folder / "catalogue.sqlite")) as older, older:
        older.execute("ATTACH ? AS today", (str(archive.data / "catalogue.sqlite"),))
        tables = older.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'alembic_version'"
        )
        for (table,) in tables.fetchall():
            if table in {"sidecar", "changed"}:  # which triggers have filled meanwhile
                continue
            columns = ", ".join(row[1] for row in older.execute(f"PRAGMA main.table_info({table})"))
            older.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM today.{table}")  # noqa: S608 - names of columns
    with DataDirectory(folder, this_machine()).catalogue() as catalogue:
        assert [catalogue.holding(each.forms.main) for each in held] == held
        new = replace(PLAIN, forms=IBIForms.parse("rep a.example/b/2031/01.01.00.00"))
        assert catalogue.holding(catalogue.put(new).forms.main) is not None


def test_commits_are_flushed_readers_never_wait_and_links_are_checked(archive: NewArchive) -> None:
    engine = open_engine(archive.data / "catalogue.sqlite")
    with engine.connect() as connection:
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in
                 ("journal_mode", "synchronous", "foreign_keys")]  # fmt: skip
    engine.dispose()
    assert found == ["wal", 2, 1]


@pytest.mark.one_store("sqlite", "tests/service/runtime/database/test_postgresql.py does the same there")
@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", "version 9999"),
        ("DROP TABLE alembic_version", "not a database of ours"),
    ],
)
def test_a_database_of_another_version_is_refused(archive: NewArchive, spoil: str, sentence: str) -> None:
    archive.catalogue.close()
    path = archive.data / "catalogue.sqlite"
    connection = sqlite3.connect(path)
    connection.execute(spoil)
    connection.commit()
    connection.close()
    engine = open_engine(path)
    with pytest.raises(SetupError, match=sentence):
        check_version(engine, schema.MIGRATIONS)
    engine.dispose()


@pytest.mark.parametrize("use", [check_version, migrate], ids=["check", "migrate"])
def test_a_file_that_is_no_database_is_one_sentence(tmp_path: Path, use: Callable[..., None]) -> None:
    path = tmp_path / "catalogue.sqlite"
    path.write_bytes(b"this is a letter, not a database" * 100)
    engine = open_engine(path)
    with pytest.raises(SetupError, match="cannot be used"):
        use(engine, schema.MIGRATIONS)
    engine.dispose()


def test_who_closes_the_catalogue_waits_for_the_thread_that_is_reading(archive: NewArchive) -> None:
    put = archive.catalogue.put(PLAIN)
    closing_it = threading.Thread(target=archive.catalogue.close)
    with archive.catalogue.reading() as run:
        closing_it.start()
        closing_it.join(0.2)
        assert run("SELECT max(number) FROM item").fetchone() == (put.number,)
        assert closing_it.is_alive()
    closing_it.join()
    assert archive.catalogue.holding(BOTH.main) == put
