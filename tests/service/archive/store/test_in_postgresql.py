"""A catalogue in PostgreSQL: every statement is understood, and an Archive lives in it from `init` to a backup."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import random
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from psycopg import Cursor
from sqlalchemy import inspect

from ibi.accounts.tokens import Scope, Tokens
from ibi.archive.model.item import Holding, MetadataValue
from ibi.archive.preservation.backup import Backup, restore
from ibi.archive.preservation.backup_store import BackupStore
from ibi.archive.preservation.check import check
from ibi.archive.preservation.rebuild import rebuild
from ibi.archive.store import schema, tables
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.postgresql import nodes
from ibi.archive.store.postgresql.cursor import named
from ibi.archive.store.postgresql.moving import move_store
from ibi.archive.store.tables import batches, change_log
from ibi.archive.store.tables.catalogue import Catalogue, CatalogueWriter
from ibi.errors import BadItem, SetupError
from ibi.identifier.forms import IBIForms, parse_name
from ibi.minting.machine import this_machine
from ibi.minting.moving import MOVED_AWAY
from ibi.runtime.database import migrate, open_engine
from ibi.runtime.settings import ArchiveSettings
from support.archive.archive_fixture import LINKED, WHEN, Clock, NewArchive, fill, make_archive
from support.archive.fixtures import let_clocks_differ
from support.cli.archive_commands import make_archive as make_by_command
from support.cli.archive_commands import serving
from support.cli.in_process import ibi
from support.engines import by_hand
from support.engines.postgresql import PostgreSQL
from support.ports import free_port

LINKED_SERVICE = IBIForms.parse("rep other.example/w/2021/01.01.00.00")
OTHER = IBIForms.parse("rep other.example/w/2022/01.01.00.00")
FORM = (
    b'--x\r\nContent-Disposition: form-data; name="item"\r\n\r\n%s\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nbytes\r\n--x--\r\n'
)


def _statements() -> Iterator[tuple[str, str]]:
    """Yield (where, text) of all statements of the catalogue."""
    for module in pkgutil.iter_modules(tables.__path__):
        for name, value in vars(importlib.import_module(f"{tables.__name__}.{module.name}")).items():
            texts = value.values() if isinstance(value, dict) else [value]
            for text in texts:
                if isinstance(text, str) and re.match(r"(SELECT|INSERT|UPDATE|DELETE|PRAGMA|BEGIN)\b", text):
                    # Some are for files of SQLite alone, and one is the beginning of others.
                    is_part = "sum(investigations)" in text and "GROUP BY" not in text
                    if not is_part and not named(text).startswith("PRAGMA"):
                        yield f"{module.name}.{name}", text


def _in_order(statement: str) -> str:
    """Return a statement with parameters as PostgreSQL itself numbers them."""
    numbers: dict[str, int] = {}
    text = re.sub(
        r"%\((\w+)\)s", lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", named(statement)
    )
    return text.replace("%%", "%")


@pytest.fixture(autouse=True)
def _clocks_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    let_clocks_differ(monkeypatch)


@pytest.fixture
def there(postgresql: PostgreSQL, tmp_path: Path) -> Iterator[NewArchive]:
    """An Archive with items whose catalogue is in PostgreSQL."""
    archive = make_archive(tmp_path / "archive", "archive.example", {"store": postgresql.new_database()})
    fill(archive)
    yield archive
    archive.catalogue.close()


def _directory(archive: NewArchive) -> DataDirectory:
    return DataDirectory(archive.data, archive.clock.machine)


def test_every_statement_of_the_catalogue_is_understood(postgresql: PostgreSQL) -> None:
    engine = open_engine(postgresql.new_database())
    migrate(engine, schema.MIGRATIONS)
    found = dict(_statements())
    assert len(found) > 120
    with closing(engine.raw_connection()) as connection:
        driver: Any = connection.dbapi_connection
        driver.autocommit = True
        for where, statement in found.items():
            # Arithmetic needs to know that its parameters are numbers, as the driver says.
            types = "(BIGINT, BIGINT, BIGINT, BIGINT, BIGINT)" if ":number - :kept" in statement else ""
            try:
                driver.execute(f"PREPARE tried {types} AS {_in_order(statement)}")
            except Exception as error:
                raise AssertionError(where) from error
            driver.execute("DEALLOCATE tried")
        driver.autocommit = False
    engine.dispose()


def test_both_stores_have_the_same_tables_columns_and_rules(postgresql: PostgreSQL, tmp_path: Path) -> None:
    described = []
    names: list[str] = []
    for store in (tmp_path / "new.sqlite", postgresql.new_database()):
        engine = open_engine(store)
        migrate(engine, schema.MIGRATIONS)
        found = inspect(engine)
        # What only several nodes need is in PostgreSQL alone.
        names = names or [name for name in found.get_table_names() if "version" not in name]
        described.append(
            {
                name: (
                    {column["name"]: column["nullable"] for column in found.get_columns(name)},
                    sorted(map(str, found.get_pk_constraint(name)["constrained_columns"])),
                    sorted(str(each["constrained_columns"]) for each in found.get_foreign_keys(name)),
                    sorted(
                        str(index["name"])
                        for index in found.get_indexes(name)
                        if not str(index["name"]).endswith("key")
                    ),
                    len(found.get_check_constraints(name)),
                )
                for name in names
            }
        )
        engine.dispose()
    of_sqlite, of_postgresql = described
    assert of_postgresql == of_sqlite


def test_a_database_has_one_archive_and_each_archive_its_own(postgresql: PostgreSQL, tmp_path: Path) -> None:
    store = postgresql.new_database()
    first = make_archive(tmp_path / "first", "archive.example", {"store": store})
    with pytest.raises(SetupError, match="holds an Archive already: a new one needs an empty database"):
        make_archive(tmp_path / "second", "archive.example", {"store": store})
    # Another Archive that is led to it by its settings.
    other = tmp_path / "other"
    other.mkdir()
    replace(first.settings, address="other.example", service=LINKED_SERVICE).write(other)
    with pytest.raises(SetupError, match="holds another Archive than"):
        DataDirectory(other, Clock().machine).open_catalogue()
    # A second node of the first one.
    node = tmp_path / "node"
    node.mkdir()
    first.settings.write(node)
    second = DataDirectory(node, Clock().machine).open_catalogue()
    added = first.load({"url": "http://far.example/", "key": "k"})
    assert added.added == 1
    assert second.holding_by_key("k") == first.catalogue.holding_by_key("k") is not None
    for catalogue in (first.catalogue, second):
        catalogue.close()


def test_an_import_copies_the_rows_of_all_its_tables(
    postgresql: PostgreSQL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make_archive(tmp_path, "archive.example", {"store": postgresql.new_database()})
    one_by_one, copied, copy = list[str](), list[str](), Cursor.copy

    def noted(cursor: Cursor[Any], statement: str) -> Any:
        copied.append(statement)
        return copy(cursor, statement)

    monkeypatch.setattr(Cursor, "copy", noted)
    monkeypatch.setattr(
        Cursor, "executemany", lambda _cursor, query, rows: one_by_one.append(f"{len(rows)}: {query}")
    )
    names = [f"a.example/b/2010/01.01.{number // 60:02}.{number % 60:02}" for number in range(100)]
    report = archive.load(*[{"rep": name, "url": "http://far.example/"} for name in names])
    assert report.added == 100
    assert not one_by_one
    assert {statement.split()[1] for statement in copied} == {"item", "name", "changed", "event"}


@pytest.mark.parametrize(
    ("statement", "law"),
    [
        ("UPDATE item SET state = 'Original' WHERE state = 'Deleted'", "stays removed"),
        ("UPDATE item SET state = 'Copy' WHERE NOT transferable", "not transferable"),
        ("DELETE FROM name", "no name is taken away"),
        ("UPDATE name SET item = 1 WHERE item <> 1", "a name means one item"),
        ("DELETE FROM item", "no item is forgotten"),
        ("DELETE FROM event", "history is not forgotten"),
    ],
)
@pytest.mark.proves("ARC-07", "ARC-08")
def test_the_rules_hold_whichever_program_writes(
    there: NewArchive, postgresql: PostgreSQL, statement: str, law: str
) -> None:
    import psycopg

    database = str(there.catalogue.engine.url.database)
    with pytest.raises(psycopg.IntegrityError, match=law):
        postgresql.execute(statement, database)


def test_a_backup_has_every_row_in_a_file_and_is_put_back_as_one(there: NewArchive, tmp_path: Path) -> None:
    store = BackupStore(tmp_path / "backups")
    saved = Backup(_directory(there), store).run(3)
    assert (saved.items, saved.problems) == (there.catalogue.count(), [])
    back = tmp_path / "back"
    assert restore(store, saved.name, back) == []
    assert ArchiveSettings.read(back).store == ""
    restored = DataDirectory(back, there.clock.machine).open_catalogue()
    with closing(restored):
        assert [held.forms for held in restored.all()] == [held.forms for held in there.catalogue.all()]
        linked = parse_name(LINKED)
        assert replace(restored.held(linked), unsettled="") == there.catalogue.held(linked)
        with there.catalogue.reading() as run, closing(sqlite3.connect(back / "catalogue.sqlite")) as file:
            counted = "SELECT count(*) FROM event"
            assert run(counted).fetchone() == file.execute(counted).fetchone()


@pytest.mark.one_store("sqlite", "begins with a catalogue in a file")
def test_a_catalogue_moves_into_a_database_and_back_with_every_row(
    archive: NewArchive, postgresql: PostgreSQL
) -> None:
    fill(archive)
    before = list(archive.catalogue.all())
    archive.catalogue.close()
    directory = DataDirectory(archive.data, archive.clock.machine)
    store = postgresql.new_database()
    rows = move_store(directory, store)
    assert ArchiveSettings.read(archive.data).store == store
    assert not (archive.data / "catalogue.sqlite").exists()
    with directory.catalogue() as there:
        assert list(there.all()) == before
        assert there.engine.dialect.name == "postgresql"
    with pytest.raises(SetupError, match="is there already"):
        move_store(directory, store)
    kept = archive.data / "lost+found"
    kept.rename(archive.data / "kept")
    for file in (kept, archive.data / "catalogue.sqlite"):  # as if a move had left one, and it cannot be kept
        file.touch()
    with pytest.raises(SetupError, match=r"lost\+found/\S+ cannot be written: Not a directory"):
        move_store(directory, "")
    assert ArchiveSettings.read(archive.data).store == store
    kept.unlink()
    assert move_store(directory, "") == rows
    assert [path.name for path in kept.rglob("*.sqlite")] == ["catalogue.sqlite"]
    with directory.catalogue() as back:
        assert list(back.all()) == before
        assert back.engine.dialect.name == "sqlite"
    # The database that was left is as it was: the move can be made again, as long as nothing has changed.
    assert move_store(directory, store) == rows
    assert move_store(directory, "") == rows
    with directory.catalogue() as changed, changed.writing() as writer:
        writer.add(Holding(forms=OTHER, timestamp=WHEN, url="http://far.example/"))
    with pytest.raises(SetupError, match="has another content than"):
        move_store(directory, store)
    assert ArchiveSettings.read(archive.data).store == ""
    with directory.serve_lock(), pytest.raises(SetupError, match="is being served"):
        move_store(directory, postgresql.new_database())


def test_a_catalogue_moves_into_no_database_that_holds_something_else(
    archive: NewArchive, postgresql: PostgreSQL
) -> None:
    directory, store = DataDirectory(archive.data, archive.clock.machine), postgresql.new_database()
    before = ArchiveSettings.read(archive.data).store
    postgresql.execute("CREATE TABLE other (a integer)", store.rpartition("/")[2])
    archive.catalogue.close()
    with pytest.raises(SetupError, match="holds something else: take a database of its own"):
        move_store(directory, store)
    assert ArchiveSettings.read(archive.data).store == before
    tables = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    assert postgresql.execute(tables, store.rpartition("/")[2]) == [("other",)]
    with directory.catalogue() as still:
        assert len(list(still.all())) == 1


@pytest.mark.parametrize("step", ["copy_rows", "compare_rows", "to_row", "nodes.join"])
def test_a_move_that_is_cut_off_at_any_step_leaves_an_archive_and_can_be_made_again(
    archive: NewArchive, postgresql: PostgreSQL, step: str
) -> None:
    fill(archive)
    before = list(archive.catalogue.all())
    archive.catalogue.close()
    directory, store = DataDirectory(archive.data, archive.clock.machine), postgresql.new_database()

    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"ibi.archive.store.postgresql.moving.{step}", cut_off)
        with pytest.raises(KeyboardInterrupt):
            move_store(directory, store)
    with directory.catalogue() as still:
        assert list(still.all()) == before
    if ArchiveSettings.read(archive.data).store != store:
        move_store(directory, store)
    with directory.catalogue() as there:
        assert (there.engine.dialect.name, list(there.all())) == ("postgresql", before)


def test_a_follower_misses_no_change_however_two_writers_overlap(there: NewArchive) -> None:
    """If the second could commit first, a follower would pass over the number that the first had drawn."""
    first, second = (IBIForms.parse(f"rep other.example/w/2024/01.01.00.0{number}") for number in (1, 2))

    def change(writer: CatalogueWriter, forms: IBIForms) -> None:
        number = writer.add(Holding(forms=forms, timestamp=WHEN, url="http://far.example/"))
        change_log.log_changes(writer.run, [number])

    def follow(catalogue: Catalogue, after: str) -> tuple[str, list[Any]]:
        with catalogue.snapshot() as snapshot:
            newest, known, changes = change_log.changes_after(snapshot, after)
        assert known or not after
        return newest, [names for _, names in changes]

    def work(catalogue: Catalogue) -> None:
        with catalogue.writing() as writer:
            begun.set()
            change(writer, second)

    begun = threading.Event()
    directory = _directory(there)
    with directory.catalogue() as other, directory.catalogue() as reader, ThreadPoolExecutor(1) as threads:
        position, _ = follow(reader, "")
        with there.catalogue.writing() as writer:
            change(writer, first)
            later = threads.submit(work, other)
            assert not begun.wait(1)  # it waits for the first one, before it draws a number
            position, seen = follow(reader, position)
            assert seen == []
        later.result(20)
        _, seen = follow(reader, position)
    assert [name for names in seen for name in names] == [str(first.main), str(second.main)]


def test_a_text_that_postgresql_cannot_keep_is_refused_and_costs_nothing_else(there: NewArchive) -> None:
    with pytest.raises(BadItem, match="cannot contain NUL"), there.catalogue.writing() as writer:
        writer.add(Holding(forms=OTHER, timestamp=WHEN, url="http://far.example/", rights="a\0b"))
    for form, title in (("01", "a\0b"), ("02", "whole")):
        forms = IBIForms.parse(f"rep other.example/w/2023/01.01.00.{form}")
        metadata = {"title": (MetadataValue(title),)}
        there.catalogue.put(
            Holding(forms=forms, timestamp=WHEN, url="http://far.example/", metadata=metadata)
        )
        assert there.catalogue.held(forms.main).metadata == metadata
    with there.catalogue.reading() as run:
        assert [row[2] for row in batches.titles(run, 0, 100)][-2:] == [None, "whole"]


def test_what_makes_a_file_anew_says_that_there_is_none(there: NewArchive) -> None:
    with pytest.raises(SetupError, match="the catalogue is in a database"):
        rebuild(_directory(there))
    by_hand.harm(there.data, "UPDATE item SET metadata = '{' WHERE number = 2")
    (difference,) = check(_directory(there), this_machine())
    assert str(difference.what) == "the catalogue is damaged: a row of it cannot be read (JSONDecodeError)"
    assert str(difference.remedy) == (
        "if the database runs: stop all nodes, put it back from a backup of it (pg_restore), and run: "
        f"ibi mint recover --data {there.data} --moved"
    )


def test_the_doctor_looks_at_the_database_and_says_when_it_is_away(
    postgresql: PostgreSQL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "a"
    make_by_command(data, free_port(), "--store", postgresql.new_database())
    shown = ibi("doctor", "--data", data).stdout
    assert f"postgresql://127.0.0.1:{postgresql.port}" in shown
    assert not (data / "catalogue.sqlite").exists()
    monkeypatch.setenv("IBI_ARCHIVE_STORE", "postgresql://ibi:kein-geheimnis@127.0.0.1:9/nothing")
    faulty = ibi("doctor", "--data", data)
    assert faulty.returncode == 1
    assert "postgresql://127.0.0.1:9/nothing cannot be used: Connection refused" in faulty.stdout
    assert f"see that the database runs, and that {data / 'archive.toml'} leads to it" in faulty.stdout
    refused = ibi("archive", "list", "--data", data)
    assert refused.returncode == 1
    assert "kein-geheimnis" not in faulty.stdout + faulty.stderr + refused.stdout + refused.stderr


def test_labels_go_on_after_a_restoration_and_after_each_move(postgresql: PostgreSQL, tmp_path: Path) -> None:
    data, back, saved = tmp_path / "a", tmp_path / "back", tmp_path / "backups"
    file = tmp_path / "f.txt"
    file.write_text("bytes")
    make_by_command(data, free_port(), "--store", postgresql.new_database())

    def done(*words: object) -> str:
        command = ibi(*words)
        assert command.returncode == 0, command.stderr
        return command.stdout.split(" ")[0]

    def deposit(where: Path) -> str:
        return done("archive", "deposit", "--data", where, "--title", "T", file)

    names = [deposit(data)]
    done("archive", "backup", "--data", data, "--to", saved)
    done("archive", "restore", "--data", back, "--from", saved)
    assert ibi("archive", "deposit", "--data", back, "--title", "T", file).returncode == 1
    done("mint", "recover", "--data", back, "--moved")
    names.append(deposit(back))
    one, other = postgresql.new_database(), postgresql.new_database()
    for store in ("file", one, other, "files"):
        done("archive", "move-store", "--data", data, "--to", store)
        names.append(deposit(data))
    for store in (one, other):  # none of them gives a label any more
        ((record,),) = postgresql.execute("SELECT record FROM waiting_room", store.rpartition("/")[2])
        assert MOVED_AWAY in record
    assert sorted(set(names)) == names
    done("archive", "check", "--data", data)


def test_labels_of_commands_come_from_the_waiting_room_of_all_nodes(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    first, second, url = tmp_path / "first", tmp_path / "second", postgresql.new_database()
    make_by_command(first, free_port(), "--store", url)
    nodes.join(second, url)
    labels = []
    for data in (first, second, first):
        done = ibi("mint", "--data", data, "--host", "a.example.org", "--granularity", "0.1")
        assert done.returncode == 0, done.stderr
        labels.append(done.stdout)
    assert sorted(set(labels)) == labels
    postgresql.execute("UPDATE waiting_room SET record = 'x'", url.rpartition("/")[2])
    refused = ibi("mint", "--data", second, "--host", "a.example.org")
    assert refused.returncode == 1
    assert "labels wait until it is repaired: ibi mint recover --data DIR" in refused.stderr
    assert ibi("mint", "recover", "--data", second).returncode == 0
    assert not (second / "minting").exists()


class _Client:
    """Deposits until it is told to end, and knows what was acknowledged."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self.acknowledged: list[str] = []
        self.refused: list[int] = []
        self.page = ""

    def deposit(self, key: str, **facts: str) -> None:
        """Deposit one file under a key."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        head = {"Authorization": f"Bearer {self._token}", "Content-Type": "multipart/form-data; boundary=x"}
        try:
            connection.request(
                "POST", "/-/api/items", FORM % json.dumps({"key": key, **facts}).encode(), head
            )
            reply = connection.getresponse()
            body = reply.read()
            if reply.status in {200, 201}:  # 200: it was held already, although the answer before was 503
                self.acknowledged.append(key)
                self.page = "/" + json.loads(body)["rep"]
            else:
                self.refused.append(reply.status)
                assert reply.status in {503, 507}, body
                assert reply.status == 507 or reply.headers["retry-after"]
        finally:
            connection.close()

    def deposit_at_last(self, key: str) -> None:
        """Deposit under a key until that is acknowledged."""
        end = time.monotonic() + 60
        while key not in self.acknowledged:
            assert time.monotonic() < end
            self.deposit(key)

    def get(self, target: str) -> tuple[int, bytes]:
        """Ask for a page."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request("GET", target)
            reply = connection.getresponse()
            assert reply.status != 503 or reply.headers["retry-after"]
            return reply.status, reply.read()
        finally:
            connection.close()


def _held(data: Path, keys: list[str]) -> list[str]:
    """Return those of these keys whose items are held with their file."""
    found = []
    with DataDirectory(data, this_machine()).item_store() as item_store:
        for key in keys:
            held = item_store.catalogue.holding_by_key(key)
            if held is not None:
                with item_store.file_store.open(held.forms, held.files[0]) as opened:
                    found += [key] if opened.read() == b"bytes" else []
    return found


@pytest.mark.proves("ARC-08")
@pytest.mark.long
def test_nothing_acknowledged_is_lost_when_archive_and_database_are_started_again(tmp_path: Path) -> None:
    cluster = PostgreSQL(durable=True)
    try:
        cluster.start()
        port, data = free_port(), tmp_path / "a"
        make_by_command(data, port, "--store", cluster.new_database())
        client = _Client(port, Tokens(data).make("t", "2026-01-01T00:00:00Z", [Scope.DEPOSIT]))
        for begin in (0, 100):  # the Archive is started again in between
            with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
                client.deposit(f"{begin}")
                cluster.restart()
                client.deposit(f"{begin + 1}")
                assert client.refused == [], "a database that was only started again costs nobody anything"
                cluster.stop()
                client.deposit(f"{begin + 2}")
                assert client.refused.pop() == 503
                cluster.start()
                # A process that waited too long for it looks a moment later whether it is back.
                client.deposit_at_last(f"{begin + 3}")
                cluster.kill()
                cluster.start()
                client.deposit_at_last(f"{begin + 4}")
                client.refused.clear()
        with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
            assert client.get(client.page)[0] == 302
            cluster.suspend()  # it is there, and answers nothing
            with ThreadPoolExecutor(8) as readers:
                for _ in range(5):
                    assert {status for status, _ in readers.map(client.get, [client.page] * 8)} == {503}
            assert client.get("/-/healthz")[0] == 200
            cluster.resume()
            end = time.monotonic() + 30
            while client.get(client.page)[0] != 302:
                assert time.monotonic() < end
                time.sleep(0.1)
            client.deposit_at_last("last")
        assert len(client.acknowledged) == 9
        shown = ibi("archive", "check", "--data", data)
        assert shown.returncode == 0, shown.stdout + shown.stderr
        assert _held(data, client.acknowledged) == client.acknowledged
    finally:
        cluster.remove()


@pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own can be mounted by root only")
def test_a_full_disk_of_the_database_refuses_deposits_and_loses_none(tmp_path: Path) -> None:
    cluster = PostgreSQL(disk="120m")
    try:
        cluster.start()
        port, data = free_port(), tmp_path / "a"
        make_by_command(data, port, "--store", cluster.new_database())
        client = _Client(port, Tokens(data).make("t", "2026-01-01T00:00:00Z", [Scope.DEPOSIT]))
        with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
            client.deposit("before")
            cluster.fill()
            for number in range(200):
                client.deposit(f"{number}", rights="".join(random.choices("0123456789abcdef", k=3900)))
                if client.refused:
                    break
            assert client.refused.pop() == 507
            assert client.get("/")[0] == 200
            cluster.empty()
            client.deposit("after")
            assert client.refused == []
        assert client.acknowledged[0] == "before"
        assert client.acknowledged[-1] == "after"
        assert _held(data, client.acknowledged) == client.acknowledged
    finally:
        cluster.remove()
