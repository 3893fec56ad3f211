"""What is read of an index, whole: entries in the order of their changes, faults of its file, and limits of time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from ibi.archive.search import index as index_module
from ibi.archive.search.index import (
    FILE,
    VERSION,
    CpuBudget,
    IndexEntry,
    IndexNotReady,
    SearchIndex,
    SearchTooLong,
    fault_of,
    is_damage,
    open_to_write,
    transaction,
    unusable,
)
from support.archive.search_fixture import update, words, write_index

STAMPS = {1: 10, 2: 10, 3: 9, 4: 20, 5: 20, 6: 30}
REMOVED, HIDDEN, CLOSED = 2, 4, 5
"""Items that are removed, metadata of another, and not open."""
PARTS = {
    "": {1, 2, 3, 4, 5, 6},
    "data": {1, 2, 3, 5, 6},
    "kind:Text": {2, 6},
    "kind:Other": {1, 3, 5},
    "language:pt": {1, 3, 5},
    "language:": {2, 6},
    "access:open": {1, 2, 3, 6},
}


def kind_of(number: int) -> str:
    return "Text" if number in {2, 6} else "Other"


def language_of(number: int) -> str:
    return "pt" if number % 2 else ""


ENTRIES = [
    IndexEntry(
        number, stamp, number == REMOVED, number not in {REMOVED, HIDDEN}, "Metadata" if number == HIDDEN else "Data",
        kind_of(number), language_of(number), 2000 + number, f"a.example/{number}", number, "A\nB",
    )
    for number, stamp in STAMPS.items()
]  # fmt: skip


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SearchIndex]:
    """An index with these entries."""
    made = (
        update(
            each.number,
            words("T", kind=each.kind, language=each.language, year=each.year, people=("A", "B")),
            changed_at=each.stamp, removed=each.removed, shown=each.shown, content_type=each.content_type,
            open=each.number != CLOSED,
        )
        for each in ENTRIES
    )  # fmt: skip
    write_index(tmp_path, *made)
    with closing(SearchIndex(tmp_path)) as found:
        yield found


@pytest.mark.parametrize("part", PARTS)
def test_what_changed_is_told_in_order_between_two_moments(index: SearchIndex, part: str) -> None:
    moments = (None, 9, 10, 11, 20, 31)
    places = ((0, 0), (9, 3), (10, 0), (10, 1), (10, 2), (20, 5), (30, 6))
    of_part = sorted((each for each in ENTRIES if each.number in PARTS[part]), key=lambda each: each[1::-1])
    for first, last in product(moments, moments):
        timely = [
            each for each in of_part if (first or 0) <= each.stamp <= (1 << 60 if last is None else last)
        ]
        assert index.size(first, last, part) == len(timely)
        for after, most in product(places, (1, 9)):
            expected = [each for each in timely if (each.stamp, each.number) > after][:most]
            assert index.changed(after, first, last, part, most) == expected, (first, last, after)


def test_entries_are_found_by_number_and_the_ends_are_known(index: SearchIndex) -> None:
    assert [index.entry_of(each.number) for each in ENTRIES] == ENTRIES
    assert index.entry_of(7) is None
    assert (index.earliest(), index.newest(), index.through()) == (9, 30, 0)


def test_an_index_without_entries_has_no_ends(tmp_path: Path) -> None:
    write_index(tmp_path)
    with closing(SearchIndex(tmp_path)) as index:
        assert (index.earliest(), index.newest(), index.entry_of(1), index.size(None, None, "")) == (
            None,
            None,
            None,
            0,
        )


def test_an_index_is_not_read_before_it_has_all_that_there_was_when_it_was_begun(tmp_path: Path) -> None:
    write_index(tmp_path, update(1))
    with closing(SearchIndex(tmp_path)) as index:
        for built, through, ready in ((5, 4, False), (5, 5, True), (5, 6, True)):
            with closing(sqlite3.connect(tmp_path / FILE)) as database, database:
                database.execute("UPDATE state SET built = ?, through = ?", (built, through))
            index.close()
            if ready:
                assert index.through() == through
                continue
            with pytest.raises(IndexNotReady) as refused:
                index.through()
            sentence = "the list of what is held here is being made; try again in a few seconds"
            assert str(refused.value) == sentence


def test_a_file_of_another_version_and_a_damaged_one_have_a_fault(index: SearchIndex) -> None:
    path = index.path
    assert fault_of(path, 60) is None
    assert fault_of(path.with_name("missing"), 60) is None
    assert not path.with_name("missing").exists()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"PRAGMA user_version = {VERSION + 1}")
    assert str(fault_of(path, 60)) == f"it has version {VERSION + 1}, not {VERSION}"
    index.close()
    with path.open("r+b") as file:
        file.write(b"no database")
    assert str(fault_of(path, 60)) == "it is damaged"


def test_a_file_in_which_a_table_is_damaged_has_a_fault_if_there_is_time_to_find_it(tmp_path: Path) -> None:
    write_index(tmp_path, *(update(number, words("T" * 500)) for number in range(1, 400)))
    path = tmp_path / FILE
    with closing(sqlite3.connect(path)) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entry'").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    assert str(fault_of(path, 60)) == "it is damaged"


def test_what_is_damage_and_what_is_not() -> None:
    errors = (
        sqlite3.DatabaseError, sqlite3.InternalError, sqlite3.DataError, sqlite3.OperationalError,
        sqlite3.ProgrammingError, sqlite3.IntegrityError, sqlite3.NotSupportedError, sqlite3.InterfaceError,
    )  # fmt: skip
    assert [error for error in errors if is_damage(error())] == list(errors[:3])


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("odd"), "odd"),
        (sqlite3.OperationalError("disk I/O error"), "disk I/O error"),
    ],
    ids=str,
)
def test_why_a_file_cannot_be_used_is_told(error: OSError | sqlite3.Error, reason: str) -> None:
    assert str(unusable(Path("/x"), error)) == f"the database /x cannot be used: {reason}"


def broken_off(database: sqlite3.Connection, statement: str) -> None:
    with transaction(database):
        database.execute(statement)
        raise KeyError


def test_a_transaction_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    with closing(open_to_write(tmp_path / FILE)) as one, closing(open_to_write(tmp_path / FILE)) as other:
        insert, found = "INSERT INTO sheet VALUES (1, 1)", "SELECT count(*) FROM sheet"
        with transaction(one):
            one.execute(insert)
            assert other.execute(found).fetchone() == (0,)
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("PRAGMA busy_timeout = 0").connection.execute("BEGIN IMMEDIATE")
        assert other.execute(found).fetchone() == (1,)
        for statement in ("DELETE FROM sheet", "ROLLBACK"):  # as SQLite does of itself when the disk is full
            with pytest.raises(KeyError):
                broken_off(one, statement)
            assert not one.in_transaction
        assert one.execute(found).fetchone() == (1,)


def test_an_index_of_this_version_is_kept_and_another_made_anew_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / FILE
    for version, kept in ((VERSION, 1), (VERSION - 1, 0), (VERSION + 1, 0)):
        with closing(open_to_write(path)) as database:
            database.execute("INSERT OR REPLACE INTO sheet VALUES (1, 1)")
            database.execute(f"PRAGMA user_version = {version}")
        with closing(open_to_write(path)) as database:
            assert database.execute("SELECT count(*) FROM sheet").fetchone() == (kept,)
            assert database.execute("PRAGMA user_version").fetchone() == (VERSION,)
            assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert path.stat().st_mode & 0o777 == 0o600


SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000) SELECT count(*) FROM n"


class Ticking:
    """A clock that goes on by a second whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def thread_time(self) -> float:
        self.now += 1
        return self.now


def test_all_statements_of_a_search_share_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "time", Ticking())
    monkeypatch.setattr(index_module, "STEPS_PER_CHECK", 1000)
    with closing(sqlite3.connect(":memory:")) as database:

        def looks(budget: CpuBudget) -> int:
            """How many statements, of which each one costs a second, are done before the budget is spent."""
            for number in range(100):
                try:
                    with budget.limiting(database):
                        database.execute("SELECT 1").fetchall()
                    with budget.limiting(database):
                        database.execute(SLOW).fetchall()
                except SearchTooLong:
                    return number
            return 100

        slow = Ticking()
        monkeypatch.setattr(index_module, "time", slow)
        with CpuBudget(1e9).limiting(database):
            database.execute(SLOW).fetchall()
        cost = int(slow.now) - 1
        assert cost > 100
        assert looks(CpuBudget(3.0 * (cost + 1) + 0.5)) == 3
        assert database.execute(SLOW).fetchall() == [(20_000,)]  # what comes later is not limited
        with pytest.raises(sqlite3.OperationalError, match="no such column"), CpuBudget(9).limiting(database):
            database.execute("SELECT missing")
