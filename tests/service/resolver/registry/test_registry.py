"""The registry, in a real SQLite file that several processes share."""

from __future__ import annotations

import inspect
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import MetaData, Table

import ibi.resolver
from ibi.errors import NotHeld, ParseError, SetupError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import InclusionRequest, is_key
from ibi.resolver.model.archive import Move
from ibi.resolver.registry.database import metadata
from ibi.resolver.registry.keys import hash_key, is_weak_key, strong_key
from ibi.resolver.registry.registrations import MOST_APPLICATIONS
from ibi.resolver.registry.registry import MIGRATIONS, Registry
from ibi.runtime.database import check_version, migrate, open_engine, upgrade
from support.checks.full_disk import files_of_at_most
from support.concurrency.threads import switching_often
from support.engines.shared_store import on_both_stores, opened_registry
from support.new_databases import migrate_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SERVICE = parse_ibi("sid.inpe.br/mtc-m21/2012/06.05.15.34.39")
OTHER = parse_ibi("dpi.inpe.br/banon/1999/01.09.22.14")
REQUEST = InclusionRequest(
    "mtc-m21.sid.inpe.br",
    SERVICE,
    "150.163.34.239",
    "2014:11.09.02.16.15",
    "admin@archive.example",
    "1234567890",
)
NOON = 1_400_000_000.0


def opened(path: Path, clock: Callable[[], float] = lambda: NOON) -> Registry:
    engine = open_engine(path)
    migrate(engine, MIGRATIONS)
    return Registry(engine, clock)


OF_FILES = {"test_where_the_disk_is_full_nothing_is_registered_and_the_registry_goes_on_afterwards"}
"""It limits the files of this process; the disk of a PostgreSQL is another process' matter."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on both stores, unless it looks at the file itself."""
    named = inspect.signature(metafunc.function).parameters
    on_both_stores(metafunc, but="path" in named or metafunc.function.__name__ in OF_FILES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registry.sqlite"


@pytest.fixture
def registry(data: Path) -> Iterator[Registry]:
    registry = opened_registry(data, lambda: NOON)
    yield registry
    registry.close()


def include(registry: Registry, request: InclusionRequest = REQUEST, *, confirmed: bool = True) -> bool:
    return registry.include(request, registry.open_change(request.service_ibi), confirmed=confirmed)


@pytest.mark.proves("REG-02", "REG-05")
def test_a_registered_archive_is_not_asked_before_it_is_included(registry: Registry) -> None:
    registry.register(SERVICE, "1234567890")
    assert registry.archives() == ()
    assert include(registry)
    (archive,) = registry.archives()
    assert (str(archive.service_ibi), archive.address) == (str(SERVICE), "mtc-m21.sid.inpe.br")
    assert archive.confirmed


def test_where_the_disk_is_full_nothing_is_registered_and_the_registry_goes_on_afterwards(
    registry: Registry,
) -> None:
    registry.register(SERVICE, "1234567890")
    with (
        files_of_at_most(0),
        pytest.raises(SetupError, match=r"\Athe registry cannot be written now\Z"),
    ):
        registry.register(OTHER, "1234567890")
    assert [str(each.service_ibi) for each in registry.registered()] == [str(SERVICE)]
    registry.register(OTHER, "1234567890")
    assert len(registry.registered()) == 2


def test_a_registry_that_is_no_database_any_more_cannot_be_read(path: Path, registry: Registry) -> None:
    registry.close()
    path.write_bytes(b"no database " * 1000)
    with pytest.raises(SetupError, match=r"\Athe registry cannot be read now\Z"):
        registry.registered()
    assert not registry.ready()


def test_two_hundred_applications_wait_and_no_more(path: Path, registry: Registry) -> None:
    assert registry.apply(SERVICE, "a.example", "a@b.example")
    with closing(sqlite3.connect(path)) as database, database:
        # Made of the first one, as each key takes long to hash.
        cursor = database.execute("SELECT * FROM archives")
        (first,), names = cursor.fetchall(), [column[0] for column in cursor.description]
        rows = [
            [f"a.example/a{n}/2026/01.02.03.04" if name in {"service_ibi", "spelling"} else value
             for name, value in zip(names, first, strict=True)]
            for n in range(MOST_APPLICATIONS - 2)
        ]  # fmt: skip
        places = ", ".join("?" * len(names))
        database.executemany(f"INSERT INTO archives VALUES ({places})", rows)  # noqa: S608 - question marks
    assert registry.apply(OTHER, "b.example", "b@b.example")
    late = parse_ibi("late.example/a/2026/01.02.03.04")
    assert registry.apply(late, "c.example", "c@b.example") is None
    assert len(registry.registered()) == MOST_APPLICATIONS == 200
    registry.refuse(OTHER)
    assert registry.apply(late, "c.example", "c@b.example")


def test_the_tables_of_the_code_are_those_that_the_migrations_make(path: Path) -> None:
    engine, made = open_engine(path), MetaData()
    migrate(engine, MIGRATIONS)
    made.reflect(engine)
    engine.dispose()

    def columns(table: Table) -> dict[str, tuple[str, bool | None, bool]]:
        return {
            each.name: (str(each.type), each.nullable, each.primary_key)  # as SQL names the types
            for each in table.columns
        }

    assert set(metadata.tables) == set(made.tables) - {"alembic_version"}
    for name, table in metadata.tables.items():
        assert columns(table) == columns(made.tables[name])


@pytest.mark.proves("REG-02")
def test_only_registered_archives_can_be_included(registry: Registry) -> None:
    assert not include(registry)
    assert registry.archives() == ()


@pytest.mark.proves("REG-02", "REG-07")
def test_the_registration_survives_exclusion(registry: Registry) -> None:
    registry.register(SERVICE, "1234567890")
    include(registry)
    assert registry.exclude(SERVICE, registry.open_change(SERVICE))
    assert registry.archives() == ()
    assert registry.check_key(SERVICE, "1234567890")
    (known,) = registry.registered()
    assert known.included is None
    assert include(registry)


@pytest.mark.proves("REG-08", "ARC-10")
def test_a_second_inclusion_replaces_the_address_and_the_other_attributes(registry: Registry) -> None:
    registry.register(SERVICE, "1234567890")
    include(registry)
    moved = InclusionRequest(
        "m21.example:8080", SERVICE, "192.0.2.7", "2", "root@archive.example", "1234567890"
    )
    assert include(registry, moved, confirmed=False)
    (archive,) = registry.archives()
    assert (archive.address, archive.ip, archive.confirmed) == ("m21.example:8080", "192.0.2.7", False)
    assert (archive.platform_version, archive.admin_mail) == ("2", "root@archive.example")


@pytest.mark.proves("REG-07", "ARC-12")
def test_who_is_excluded_is_away_until_it_is_back_gone_for_good_or_away_for_too_long(path: Path) -> None:
    now = [NOON]
    registry = opened(path, lambda: now[0])
    registry.register(SERVICE, "1234567890")
    record: list[str] = []

    def exclude(end: str = "") -> None:
        change = registry.open_change(SERVICE)
        assert registry.exclude(SERVICE, change, end=end, record=lambda: record.append(end))

    def away(seconds: float = 60) -> list[float | None]:
        registry.archives()
        return [each.back_at for each in registry.away(seconds).values()]

    exclude()
    assert away() == []  # it was never here
    include(registry)
    assert away() == []
    exclude("2014-05-13T16:54:00Z")
    assert away() == [1_400_000_040.0]
    now[0] += 59
    exclude()  # said again, it is away since the first time
    assert away() == [None]
    now[0] += 1
    assert (away(), away(61)) == ([], [None])
    include(registry)
    exclude("never")
    assert away() == []
    exclude()  # an older word that is replayed
    assert away() == []
    include(registry)
    exclude()
    assert away() == [None]
    registry.unregister(SERVICE)
    assert away() == []
    assert record == ["", "2014-05-13T16:54:00Z", "", "never", "", ""]
    registry.close()


def test_an_exclusion_that_the_evidence_does_not_take_is_none(registry: Registry) -> None:
    def fail() -> None:
        raise SetupError("the disk is full")

    registry.register(SERVICE, "1234567890")
    include(registry)
    with pytest.raises(SetupError):
        registry.exclude(SERVICE, registry.open_change(SERVICE), record=fail)
    assert len(registry.archives()) == 1


@pytest.mark.proves("AMB-35")
def test_of_two_changes_under_way_the_later_one_wins(registry: Registry) -> None:
    registry.register(SERVICE, "1234567890")
    slow = registry.open_change(SERVICE)
    quick = registry.open_change(SERVICE)
    assert registry.exclude(SERVICE, quick)
    assert not registry.include(REQUEST, slow, confirmed=True)
    assert registry.archives() == ()


@pytest.mark.proves("GEN-13", "REG-05")
def test_an_archive_is_one_and_the_same_in_any_case_of_its_name(registry: Registry) -> None:
    registry.register(SERVICE, "1234567890")
    shouted = parse_ibi(str(SERVICE).upper())
    assert registry.check_key(shouted, "1234567890")
    with pytest.raises(SetupError):
        registry.register(shouted, "1234567891")


@pytest.mark.proves("MSG-21", "REG-01")
def test_a_key_is_made_when_none_is_given_and_cannot_be_guessed(registry: Registry) -> None:
    key = registry.register(SERVICE)
    assert is_key(key)
    assert not is_weak_key(key)
    assert registry.check_key(SERVICE, key)
    assert len({strong_key() for _ in range(100)}) == 100


@pytest.mark.proves("MSG-21", "REG-01")
def test_a_ten_digit_key_is_taken_and_known_to_be_weak(registry: Registry) -> None:
    assert registry.register(SERVICE, "1234567890") == "1234567890"
    assert is_weak_key("1234567890")
    assert not is_weak_key("1234567890-1234567890")


@pytest.mark.parametrize(
    "key", ["123456789", "", "abcdefghij", "1234567890-", "１２３４５６７８９０", "1234567890\n"]
)
@pytest.mark.proves("MSG-21")
def test_what_is_no_key_is_refused_and_not_repeated(registry: Registry, key: str) -> None:
    with pytest.raises(ParseError) as caught:
        registry.register(SERVICE, key)
    assert not key.strip() or key not in str(caught.value)


@pytest.mark.proves("REG-05")
def test_a_wrong_key_and_an_unknown_archive_are_the_same_no(registry: Registry) -> None:
    registry.register(SERVICE, "1234567890")
    assert not registry.check_key(SERVICE, "1234567891")
    assert not registry.check_key(OTHER, "1234567890")


@pytest.mark.proves("REG-08")
def test_no_key_stands_in_the_database_files(registry: Registry, path: Path) -> None:
    key = registry.register(SERVICE)
    include(registry)
    for file in path.parent.iterdir():
        assert key.encode() not in file.read_bytes()


@pytest.mark.proves("REG-08")
def test_registering_twice_with_the_same_key_changes_the_hosts_only(registry: Registry) -> None:
    registry.register(SERVICE, "1234567890")
    registry.register(SERVICE, "1234567890", ["Files.example", "a.example"])
    include(registry)
    assert registry.archives()[0].url_hosts == ("a.example", "files.example")
    with pytest.raises(SetupError, match="registered already"):
        registry.register(SERVICE)


@pytest.mark.parametrize(
    "host", ["", "a b", "http://a.example", "a.example/x", "a.example:80", "é.example", "-a", "a\n"]
)
def test_what_is_no_host_is_refused(registry: Registry, host: str) -> None:
    with pytest.raises(ParseError):
        registry.register(SERVICE, "1234567890", [host])


def test_unregistering_forgets_the_archive_at_once(registry: Registry) -> None:
    registry.register(SERVICE, "1234567890")
    include(registry)
    registry.unregister(SERVICE)
    assert registry.archives() == ()
    assert registry.registered() == []
    with pytest.raises(NotHeld, match="not registered"):
        registry.unregister(SERVICE)


@pytest.mark.proves("REG-02")
def test_what_another_process_registers_is_seen_at_the_next_look(registry: Registry, path: Path) -> None:
    assert registry.archives() == ()
    program = (
        "import sys; from pathlib import Path; from ibi.runtime.database import open_engine\n"
        "from ibi.identifier.forms import parse_ibi; from ibi.resolver.registry.registry import Registry\n"
        "from ibi.protocol.messages import InclusionRequest\n"
        "registry = Registry(open_engine(Path(sys.argv[1])), lambda: 0.0); ibi = parse_ibi(sys.argv[2])\n"
        "registry.register(ibi, '1234567890')\n"
        "request = InclusionRequest('a.example', ibi, '192.0.2.1', '1', 'admin@archive.example', '1234567890')\n"
        "assert registry.include(request, registry.open_change(ibi), confirmed=True)\n"
    )
    source = str(next(iter(ibi.resolver.__path__)).removesuffix("/ibi/resolver"))
    subprocess.run(
        [sys.executable, "-c", program, str(path), str(OTHER)], check=True, env={"PYTHONPATH": source}
    )
    assert [archive.address for archive in registry.archives()] == ["a.example"]


def test_a_change_without_the_generation_counter_is_seen_a_second_later(path: Path) -> None:
    engine = open_engine(path)
    migrate(engine, MIGRATIONS)
    moments = [NOON]
    registry = Registry(engine, lambda: moments[-1])
    registry.register(SERVICE, "1234567890")
    include(registry)
    assert len(registry.archives()) == 1
    editor = sqlite3.connect(path, isolation_level=None)
    editor.execute("UPDATE archives SET included = 0")
    editor.close()
    for later in (1.0, -3_600.0):  # also where the clock was set back
        moments.append(NOON + later)
        assert registry.archives() == ()
    registry.close()


def test_where_the_generation_counter_cannot_be_made_archives_are_registered_all_the_same(path: Path) -> None:
    path.with_name(f"{path.name}-sign").mkdir()
    registry = opened(path)
    registry.register(SERVICE, "1234567890")
    include(registry)
    assert [str(each.service_ibi) for each in registry.archives()] == [str(SERVICE)]
    registry.close()


def test_a_set_that_has_not_changed_is_not_read_again(registry: Registry) -> None:
    registry.register(SERVICE, "1234567890")
    include(registry)
    assert registry.archives() is registry.archives()


def test_readers_do_not_wait_for_a_writer(registry: Registry, path: Path) -> None:
    registry.register(SERVICE, "1234567890")
    include(registry)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    assert len(registry.archives()) == 1
    assert registry.ready()
    assert registry.check_key(SERVICE, "1234567890")
    writer.close()


def test_when_the_database_is_gone_the_last_known_set_holds(registry: Registry, path: Path) -> None:
    registry.register(SERVICE, "1234567890")
    include(registry)
    known = registry.archives()
    registry.register(OTHER, "1234567890")  # a change, so that the database is read again
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE archives")
    assert registry.archives() == known
    assert not registry.ready()


def test_a_database_of_another_version_is_refused(path: Path) -> None:
    engine = open_engine(path)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('9999')")
    with pytest.raises(SetupError, match="another version"):
        check_version(engine, MIGRATIONS)
    engine.dispose()


VERSIONS = sorted(path.stem[:4] for path in (MIGRATIONS / "versions").glob("0*.py"))


@pytest.mark.parametrize("version", VERSIONS[1:-1])
def test_a_registry_of_an_older_version_keeps_its_archives(
    path: Path, tmp_path: Path, registry: Registry, version: str
) -> None:
    """What today's program has registered is copied into tables as that version made them, column by column."""
    registry.register(SERVICE, "1234567890")
    include(registry)
    held = registry.archives()
    older_path = tmp_path / "older.sqlite"
    engine = open_engine(older_path)
    migrate_to(engine, MIGRATIONS, f"registry_{version}")
    engine.dispose()
    with closing(sqlite3.connect(older_path)) as older, older:
        older.execute("ATTACH ? AS today", (str(path),))
        for table in ("archives", "moves"):
            columns = ", ".join(row[1] for row in older.execute(f"PRAGMA main.table_info({table})"))
            older.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM today.{table}")  # noqa: S608 - names of columns
    engine = open_engine(older_path)
    upgrade(engine, MIGRATIONS)
    check_version(engine, MIGRATIONS)
    engine.dispose()
    with closing(opened(older_path)) as migrated:
        assert migrated.archives() == held
        assert migrated.check_key(SERVICE, "1234567890")


@pytest.mark.proves("REG-08")
def test_a_registry_of_the_first_version_keeps_its_archives(path: Path) -> None:
    engine = open_engine(path)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE archives (service_ibi VARCHAR PRIMARY KEY, spelling VARCHAR NOT NULL,"
            " key_hash VARCHAR NOT NULL, url_hosts VARCHAR NOT NULL, registered_at VARCHAR NOT NULL,"
            " included BOOLEAN NOT NULL, confirmed BOOLEAN NOT NULL, address VARCHAR, ip VARCHAR,"
            " protocol VARCHAR, platform_version VARCHAR, admin_mail VARCHAR, changed_at VARCHAR,"
            " change INTEGER NOT NULL)"
        )
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('registry_0001')")
        connection.exec_driver_sql(
            "INSERT INTO archives VALUES (?, ?, ?, '', '2026-01-01T00:00:00Z', 1, 1, 'old.example', '192.0.2.1',"
            " 'HTTP', '1', 'admin@archive.example', '2026-01-02T00:00:00Z', 7)",
            (SERVICE.canonical, str(SERVICE), hash_key("1234567890")),
        )
    engine.dispose()
    upgrade(engine, MIGRATIONS)
    check_version(engine, MIGRATIONS)
    registry = opened(path)
    (archive,) = registry.archives()
    assert (archive.address, archive.confirmed, archive.included_at) == ("old.example", True, 1_767_312_000.0)
    known = registry.entry(SERVICE)
    assert known is not None
    assert (known.applied, known.confirmed_address, known.change) == (False, "old.example", 7)
    assert registry.check_key(SERVICE, "1234567890")
    assert include(registry)
    registry.close()


def test_no_change_begins_with_a_key_that_was_rotated_since_it_was_compared(registry: Registry) -> None:
    registry.register(SERVICE, "1234567890")
    before = registry.entry(SERVICE)
    assert before is not None
    assert registry.open_change(SERVICE, key_hash=before.key_hash)
    registry.rotate(SERVICE)
    assert not registry.open_change(SERVICE, key_hash=before.key_hash)
    assert registry.open_change(SERVICE)


def test_a_change_that_was_under_way_when_the_key_was_rotated_comes_to_nothing(registry: Registry) -> None:
    registry.register(SERVICE, "1234567890")
    change = registry.open_change(SERVICE)
    registry.rotate(SERVICE)
    assert not registry.include(REQUEST, change, confirmed=True)
    assert registry.archives() == ()
    assert include(registry)
    change = registry.open_change(SERVICE)
    registry.rotate(SERVICE)
    assert not registry.exclude(SERVICE, change)
    assert len(registry.archives()) == 1


def test_a_refused_application_leaves_no_move_behind(registry: Registry, path: Path) -> None:
    """An Archive may be unregistered, and apply anew, while a move of it waits for a decision."""
    service = parse_ibi("a.example/b/2020/01.01.00.00")
    registry.apply(service, "new.example", "admin@a.example")
    registry.hold_move(service, Move("new.example", "192.0.2.2", 0.0))
    registry.refuse(service)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM moves").fetchone() == (0,)


@pytest.mark.parametrize("reading", ["archives", "entry"])
def test_threads_that_read_never_meet_a_connection_that_another_one_closes(
    registry: Registry, path: Path, reading: str
) -> None:
    registry.register(SERVICE, "1234567890")
    include(registry)
    other, stop, found = opened(path), threading.Event(), list[object]()

    def read() -> object:
        # What another process writes has to be read again.
        other.open_change(SERVICE)
        return len(registry.archives()) if reading == "archives" else registry.entry(SERVICE) is not None

    def read_on() -> None:
        try:
            while not stop.is_set():
                found.append(read())
        except Exception as error:  # noqa: BLE001 - shown below
            found.append(error)

    readers = [threading.Thread(target=read_on) for _ in range(2)]
    with switching_often():
        for each in readers:
            each.start()
        while len(found) < 40 and all(each.is_alive() for each in readers):
            registry.close()
        stop.set()
        for each in readers:
            each.join()
    other.close()
    assert set(found) == {1}
