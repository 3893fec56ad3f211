"""What is written into an index, whole: entries, words, counts, sheets; and how far it follows the catalogue."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from ibi.archive.model.item import Access
from ibi.archive.search import index as index_module
from ibi.archive.search import indexing
from ibi.archive.search.index import SearchIndex
from ibi.archive.search.index_writer import SHEET, EntryUpdate, IndexState, IndexTransaction
from ibi.archive.search.indexing import DatingBounds, note_lag, read_dating
from ibi.archive.search.words import PRIVATE
from ibi.archive.store.tables.listings import CataloguePosition
from support.archive.archive_fixture import NOW, NewArchive
from support.archive.search_fixture import indexer_of, item, numbered, update, words

WHOLE = words(
    "Sensoriamento", people=("Câmara, Gilberto", "Silva, Ana", "Costa, C."), all_people="Câmara Silva Costa",
    subject="Rivers 10.1/x", abstract="About", year=812, language="pt", kind="Text", subjects=("Rivers", "Water"),
)  # fmt: skip
FACETS = "SELECT what, value, label, items FROM facet ORDER BY what, value"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(index_module.open_to_write(tmp_path / index_module.FILE)) as made:
        yield made


def put(database: sqlite3.Connection, *updates: EntryUpdate, building: bool = False) -> int:
    return IndexTransaction(database).put(updates, lambda each: each.changed_at + 5, building=building)


def test_an_entry_is_written_with_its_words_its_counts_and_its_sheet(database: sqlite3.Connection) -> None:
    assert put(database, update(7, WHOLE, events=3, described_by=9, open=False, embargo="2030-01-01")) == 5
    assert database.execute("SELECT * FROM entry").fetchall() == [
        (7, 12, 0, 1, "Data", "Text", "pt", 812, "a.example/7", 7, "Câmara, Gilberto\nSilva, Ana\nCosta, C.", 3, 9, 0,
         "2030-01-01", "Rivers\nWater"),
    ]  # fmt: skip
    found = database.execute("SELECT rowid, title, people, subject, abstract, marks FROM words").fetchall()
    ((number, title, people, subject, abstract, listed),) = found
    assert (number, title, people) == (7, "Sensoriamento", "Câmara Silva Costa")
    assert (subject, abstract) == ("Rivers 10.1/x", "About")
    assert [word[:2] for word in listed.split()] == [f"{PRIVATE}{letter}" for letter in "kpppssyl"]
    assert database.execute(FACETS).fetchall() == [
        ("kind", "Text", "", 1), ("language", "pt", "", 1), ("letter", "c", "", 1), ("letter", "s", "", 1),
        ("person", "camara gilberto", "Câmara, Gilberto", 1), ("person", "costa c", "Costa, C.", 1),
        ("person", "silva ana", "Silva, Ana", 1), ("subject", "rivers", "Rivers", 1), ("subject", "water", "Water", 1),
        ("year", "0812", "", 1),
    ]  # fmt: skip
    assert database.execute("SELECT * FROM sheet").fetchall() == [(1, 7)]


def test_an_entry_takes_the_place_of_the_one_before_in_all_counts(database: sqlite3.Connection) -> None:
    put(database, *numbered((1, 2), WHOLE))
    put(database, update(1, words("Other", kind="Image"), changed_at=50), update(3, words("No"), shown=False))
    facets = {(what, value): items for what, value, _, items in database.execute(FACETS)}
    assert facets == {
        ("kind", "Text"): 1, ("kind", "Image"): 1, ("language", "pt"): 1, ("language", ""): 1, ("letter", "c"): 1,
        ("letter", "s"): 1, ("person", "camara gilberto"): 1, ("person", "costa c"): 1, ("person", "silva ana"): 1,
        ("subject", "rivers"): 1, ("subject", "water"): 1, ("year", "0812"): 1, ("year", ""): 1,
    }  # fmt: skip
    assert database.execute("SELECT rowid, title FROM words ORDER BY rowid").fetchall() == [
        (1, "Other"), (2, "Sensoriamento"),
    ]  # fmt: skip
    put(database, *(update(number, shown=False, removed=True) for number in (1, 2, 3)))
    assert database.execute(FACETS).fetchall() == database.execute("SELECT * FROM words").fetchall() == []
    put(database, update(1, WHOLE))  # shown again
    assert database.execute("SELECT items FROM facet").fetchall() == [(1,)] * 10


def test_stamps_never_go_back_once_there_are_readers_and_the_greatest_lag_is_told(
    database: sqlite3.Connection,
) -> None:
    stamps = "SELECT number, stamp FROM entry ORDER BY number"
    assert put(database) == 0
    assert put(database, update(1, changed_at=100), update(2, changed_at=40), building=True) == 5
    assert database.execute(stamps).fetchall() == [(1, 105), (2, 45)]
    assert put(database, update(3, changed_at=40), building=True) == 5
    assert put(database, update(4, changed_at=90), update(5, changed_at=100)) == 15
    assert database.execute(stamps).fetchall() == [(1, 105), (2, 45), (3, 45), (4, 105), (5, 105)]
    # Of two updates of one item the last one counts.
    assert put(database, update(1, changed_at=100), update(1, changed_at=300)) == 5
    assert database.execute(stamps).fetchall()[0] == (1, 305)


def test_a_sheet_has_so_many_numbers_and_the_newest_moment_of_what_is_shown_or_was_known(
    database: sqlite3.Connection,
) -> None:
    sheets = "SELECT number, modified FROM sheet ORDER BY number"
    put(
        database,
        *(update(number, modified=number) for number in (1, SHEET, SHEET + 1, 2 * SHEET, 2 * SHEET + 1)),
    )
    put(database, update(3 * SHEET + 1, shown=False))
    assert database.execute(sheets).fetchall() == [(1, SHEET), (2, 2 * SHEET), (3, 2 * SHEET + 1)]
    put(database, update(2, modified=5), update(SHEET + 1, modified=10**6, shown=False, removed=True))
    assert database.execute(sheets).fetchall() == [(1, SHEET), (2, 10**6), (3, 2 * SHEET + 1)]


def test_entries_are_looked_up_by_what_they_depend_on(database: sqlite3.Connection) -> None:
    embargoes = {1: "2030-01-02", 2: "2030-01-01", 3: "", 4: "2029-12-31"}
    put(database, *(update(n, events=n + 1, described_by=n % 3, embargo=day) for n, day in embargoes.items()))
    transaction = IndexTransaction(database)
    assert transaction.events_of([1, 3, 9]) == {1: 2, 3: 4}
    assert sorted(transaction.described_by([1, 7])) == [1, 4]
    assert transaction.described_by([0]) == []
    assert sorted(transaction.embargo_over("2030-01-01", 9)) == [2, 4]
    assert len(transaction.embargo_over("2030-01-01", 1)) == 1
    assert transaction.embargo_over("2029-12-30", 9) == []


def test_a_state_is_kept_in_place_of_the_one_before(database: sqlite3.Connection) -> None:
    assert IndexState.read(database) is None
    for state in (IndexState(1, 2, "a", 3, None, None), IndexState(4, 5, "b", 6, 7, 8)):
        state.keep(database)
        assert IndexState.read(database) == state
    assert database.execute("SELECT count(*) FROM state").fetchone() == (1,)


STATE = IndexState(built=5, through=8, last_name="a", last_event=20, items_then=8, recheck_after=None)


def test_an_index_is_up_to_date_only_with_all_items_and_all_events() -> None:
    for changes in (
        {}, {"through": 7}, {"last_event": 19}, {"items_then": 7}, {"items_then": None}, {"recheck_after": 0},
    ):  # fmt: skip
        assert STATE._replace(**changes).is_up_to_date_with(CataloguePosition(20, 1, 8)) is not bool(
            changes
        ), changes


@pytest.mark.parametrize(
    ("state", "position", "changes"),
    [
        # As many events as new items: no other item has changed.
        (STATE, CataloguePosition(23, 1, 11), {"last_event": 23, "items_then": 11}),
        (STATE, CataloguePosition(20, 1, 8), {}),
        (STATE, CataloguePosition(24, 1, 11), {}),
        (STATE, CataloguePosition(24, 21, 11), {}),  # the log reaches back to the event after the last one
        (STATE, CataloguePosition(24, 22, 11), {"last_event": 24, "items_then": 11, "recheck_after": 0}),
        (STATE, CataloguePosition(23, 23, 11), {"last_event": 23, "items_then": 11}),
        (STATE._replace(items_then=None), CataloguePosition(23, 1, 11), {}),
        (STATE._replace(items_then=None), CataloguePosition(23, 22, 11),
         {"last_event": 23, "items_then": 11, "recheck_after": 0}),
    ],
)  # fmt: skip
def test_the_feed_is_skipped_where_it_has_nothing_to_tell_or_no_longer_tells_it(
    state: IndexState, position: CataloguePosition, changes: dict[str, int]
) -> None:
    expected = state._replace(**changes)  # type: ignore[arg-type]  # none of them is the name
    assert state.after_new_items(position) == expected


@pytest.mark.parametrize(
    ("lag", "noted"), [(0, 64), (64, 64), (65, 128), (128, 128), (129, 256), (1000, 1024), (1025, 2048)]
)
def test_a_lag_is_noted_as_a_power_of_two_and_only_if_it_is_greater(
    tmp_path: Path, lag: int, noted: int
) -> None:
    path = tmp_path / indexing.FILE
    note_lag(tmp_path, lag)
    assert not path.exists()  # nothing is known of an earlier index
    path.write_text('{"floor": 7, "lag": 64}')
    note_lag(tmp_path, lag)
    assert read_dating(tmp_path) == DatingBounds(7, noted)
    assert json.loads(path.read_text()) == {"floor": 7, "lag": noted}
    path.write_text('{"floor": 7, "lag": 3}')
    note_lag(tmp_path, min(lag, 4))
    assert read_dating(tmp_path) == DatingBounds(7, 64 if lag else 3)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"floor": 1}', '{"floor": "x", "lag": 1}', '{"floor": 1e999, "lag": 1}']
)
def test_what_is_no_file_of_dates_tells_nothing(tmp_path: Path, text: str) -> None:
    assert read_dating(tmp_path) is None
    (tmp_path / indexing.FILE).write_text(text)
    assert read_dating(tmp_path) is None


def entries(archive: NewArchive) -> list[tuple[object, ...]]:
    """(Number, removed, shown, open, embargo, described by, stamp - now) of each entry."""
    with closing(SearchIndex(archive.data)) as index:
        rows = index.rows(
            "SELECT number, removed, shown, open, embargo, described_by, stamp FROM entry ORDER BY number"
        )
        return [(*row[:6], row[6] - NOW) for row in rows]


def test_who_is_open_and_who_is_shown_follows_from_the_item(archive: NewArchive) -> None:
    teller = item(7, "Told", contenttype="Metadata")
    archive.load(
        *(
            item(number, access=access.value)
            for number, access in enumerate(Access, 1)
            if access != Access.EMBARGOED
        ),
        item(5, access="embargoed", embargo="2023-11-15"),
        teller,
        item(8, metadata_item=teller["rep"]),
    )
    with closing(indexer_of(archive)) as indexer:
        indexer.bring_up_to_date()
        plain = entries(archive)
        assert [each[:6] for each in plain] == [
            (1, 0, 0, 0, "", 0), (2, 0, 1, 1, "", 0), (3, 0, 1, 0, "", 0), (4, 0, 1, 0, "", 0),
            (5, 0, 1, 0, "2023-11-15", 0), (6, 0, 0, 1, "", 0), (7, 0, 1, 1, "", 6),
        ]  # fmt: skip
        assert not indexer.portion()
        archive.clock.now += 86_400
        assert indexer.portion()
        assert entries(archive) == [each if each[0] != 5 else (5, 0, 1, 1, "", 0, 86_401) for each in plain]
        assert not indexer.portion()
        assert indexer.through == 7


@pytest.mark.parametrize(("count", "items"), list(product((1, 2, 3, 4), (1, 2, 3))))
def test_portions_have_so_many_items_and_the_last_one_is_told(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch, count: int, items: int
) -> None:
    monkeypatch.setattr(indexing, "ITEMS", items)
    archive.load(*(item(number, "T") for number in range(1, count + 1)))
    with closing(indexer_of(archive)) as indexer:
        portions = 0
        while indexer.portion():
            portions += 1
            assert indexer.through == min(portions * items, count + 1)
        assert portions == -(-(count + 1) // items)
