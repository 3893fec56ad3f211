"""The index is derived from the catalogue: it follows every change, misses none, and is made anew when it is bad."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ibi.archive.model.item import Holding
from ibi.archive.search import index as index_module
from ibi.archive.search import indexing
from ibi.archive.search.index import FILE, VERSION, IndexEntry, IndexNotReady, SearchIndex
from ibi.archive.search.indexing import Indexer
from ibi.archive.search.search import facet_values
from ibi.archive.store.item_changes import edit
from ibi.archive.store.tables import listings
from ibi.errors import SetupError
from ibi.identifier.forms import parse_ibi
from ibi.runtime.durable_files import locked_file
from ibi.runtime.tasks import PeriodicTasks
from support.archive.archive_fixture import NOW, SERVICE, NewArchive
from support.archive.search_fixture import indexed, indexer_of, item, kind_name
from support.checks.refusing_disk import refused_in_turn
from support.concurrency.open_files import open_files
from support.concurrency.threads import switching_often, waits_for


def everything(index: SearchIndex, part: str = "", most: int = 3) -> list[IndexEntry]:
    """All entries of a part, read page by page as a harvester does."""
    found: list[IndexEntry] = []
    after = (0, 0)
    while page := index.changed(after, None, None, part, most):
        found += page
        after = (page[-1].stamp, page[-1].number)
    return found


def names(index: SearchIndex, part: str = "") -> list[str]:
    return sorted(entry.name for entry in everything(index, part))


def change(archive: NewArchive, number: int, **facts: object) -> None:
    edit(archive.item_store, parse_ibi(str(item(number)["rep"])), facts, "maria")


def remove(archive: NewArchive, number: int) -> None:
    with archive.item_store.unit_of_work("maria") as work:
        work.remove(work.get(parse_ibi(str(item(number)["rep"]))))


def test_the_connection_is_given_up_only_when_the_portion_under_way_has_ended(archive: NewArchive) -> None:
    archive.load(item(1, "Um", type="Tese"))
    begun, may_go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def kind_that_waits(_: object) -> str:
        begun.set()
        assert may_go_on.wait(60)
        return "Other"

    indexer = Indexer(archive.catalogue, archive.data, archive.clock.seconds, kind_that_waits, "")
    portion = threading.Thread(target=indexer.bring_up_to_date)

    def close() -> None:
        indexer.close()
        closed.set()

    closing_it = threading.Thread(target=close)
    portion.start()
    assert begun.wait(60)
    closing_it.start()
    assert not closed.wait(0.2)
    may_go_on.set()
    portion.join(60)
    closing_it.join(60)
    assert closed.is_set()
    indexer.close()
    with closing(SearchIndex(archive.data)) as index:
        assert str(item(1)["rep"]) in names(index)


def test_every_item_has_an_entry_and_parts_of_them_are_listed_alone(archive: NewArchive) -> None:
    archive.load(
        item(
            1,
            "Um",
            language="pt-BR",
            type="Tese",
            date="2011-05-02",
            creator=["Câmara, Gilberto", "Banon, G."],
        ),
        item(2, "Two", type="article"),
        item(3, contenttype="Metadata"),
    )
    remove(archive, 2)
    with closing(indexed(archive)) as index:
        assert len(everything(index)) == index.size(None, None, "") == 4
        assert [entry.name for entry in everything(index)].count(str(SERVICE.main)) == 1
        assert index.size(None, None, "kind:JournalArticle") == 1
        assert names(index, "kind:Dissertation") == names(index, "language:pt") == [item(1)["rep"]]
        one = everything(index, "language:pt")[0]
        assert (one.year, one.people, one.kind) == (2011, "Câmara, Gilberto\nBanon, G.", "Dissertation")
        assert (one.content_type, one.removed, one.shown) == ("Data", False, True)
        two, three = everything(index, "kind:JournalArticle")[0], everything(index)[-1]
        assert (two.removed, two.shown) == (True, False)
        assert (three.content_type, three.shown) == ("Metadata", False)
        assert facet_values(index, "language", 9) == [("pt", "", 1)]


def test_entries_are_dated_by_the_second_in_which_they_can_first_be_read(archive: NewArchive) -> None:
    archive.load(item(1, "One"), item(2, "Two"))
    archive.clock.now += 100_000
    with closing(indexed(archive)) as index:
        assert {entry.stamp for entry in everything(index)} == {NOW + 100_001}
        archive.load(item(3, "Three"), item(4, "Four"))
        archive.clock.now += 7
        indexer = indexer_of(archive)
        indexer.bring_up_to_date()
        assert [entry.stamp for entry in everything(index)[-2:]] == [NOW + 100_008] * 2
        archive.clock.now -= 50_000  # a clock that is put back
        change(archive, 1, language="en")
        indexer.bring_up_to_date()
        indexer.close()
        assert {entry.stamp for entry in everything(index)[-3:]} == {NOW + 100_008}
        assert index.earliest() == everything(index)[0].stamp
        last = index.changed((0, 0), NOW + 100_008, None, "", 100)
        assert sorted(entry.name for entry in last) == [item(number)["rep"] for number in (1, 3, 4)]
        assert index.size(NOW + 100_008, None, "") == 3
        assert (
            index.size(None, NOW + 100_007, "") == len(index.changed((0, 0), None, NOW + 100_007, "", 9)) == 2
        )


@pytest.mark.parametrize("forgotten", [False, True])
def test_edits_are_heard_of_even_where_the_feed_has_forgotten_them(
    archive: NewArchive, forgotten: bool
) -> None:
    archive.load(*(item(number, f"Title {number}") for number in range(30)))
    indexer = indexer_of(archive)
    indexer.bring_up_to_date()
    with closing(SearchIndex(archive.data)) as index:
        size = index.size(None, None, "")
        change(archive, 7, language="fr")
        archive.load(*(item(number, f"Title {number}") for number in range(40, 80)))
        remove(archive, 8)
        if forgotten:
            with archive.catalogue.writing() as writer:
                writer.run("DELETE FROM changed WHERE number <= 60")
        indexer.bring_up_to_date()
        assert names(index, "language:fr") == [item(7)["rep"]]
        assert [entry.name for entry in everything(index) if entry.removed] == [item(8)["rep"]]
        assert len(everything(index)) == size + 40
        assert indexer.portion() is False
    indexer.close()


def test_an_import_of_new_items_has_no_old_one_read_again(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.load(item(1, "One"))
    indexer = indexer_of(archive)
    indexer.bring_up_to_date()
    archive.load(*(item(number, "New") for number in range(10, 40)))
    with archive.catalogue.writing() as writer:
        writer.run("DELETE FROM changed WHERE number < 25")
    monkeypatch.setattr(listings, "event_counts", lambda *_: pytest.fail("all items were counted"))
    indexer.bring_up_to_date()
    indexer.close()
    with closing(SearchIndex(archive.data)) as index:
        assert index.size(None, None, "") == 32


def test_who_is_told_of_by_another_item_changes_with_it(archive: NewArchive) -> None:
    teller = item(1, "Primeiro", contenttype="Metadata")
    archive.load(teller, item(2, metadata_item=teller["rep"]))
    indexer = indexer_of(archive)
    indexer.bring_up_to_date()
    with closing(SearchIndex(archive.data)) as index:
        found = "SELECT rowid FROM words WHERE words MATCH ?"
        assert [row[0] for row in index.rows(found, ("primeiro",))] == [3]
        change(archive, 1, metadata={"title": ["Segundo"]})
        indexer.bring_up_to_date()
        assert index.rows(found, ("primeiro",)) == []
        assert [row[0] for row in index.rows(found, ("segundo",))] == [3]
    indexer.close()


def test_counts_follow_what_comes_changes_and_goes(archive: NewArchive) -> None:
    archive.load(
        *(item(number, "T", date="2011", creator=["Silva, Ana"], type="tese") for number in range(3))
    )
    indexer = indexer_of(archive)
    indexer.bring_up_to_date()
    counts = "SELECT what, value, label, items FROM facet WHERE what <> 'kind' AND value <> '' ORDER BY what, value"
    with closing(SearchIndex(archive.data)) as index:
        assert index.rows(counts) == [
            ("letter", "s", "", 3), ("person", "silva ana", "Silva, Ana", 3), ("year", "2011", "", 3),
        ]  # fmt: skip
        change(archive, 0, metadata={"title": ["T"], "date": ["1999"], "creator": ["Silva, Ana"]})
        remove(archive, 1)
        indexer.bring_up_to_date()
        assert index.rows(counts) == [
            ("letter", "s", "", 2), ("person", "silva ana", "Silva, Ana", 2),
            ("year", "1999", "", 1), ("year", "2011", "", 1),
        ]  # fmt: skip
    indexer.close()


def test_there_is_no_index_before_it_is_whole(archive: NewArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "ITEMS", 2)
    archive.load(*(item(number, "T") for number in range(5)))
    indexer = indexer_of(archive)
    with closing(SearchIndex(archive.data)) as index:
        for _ in range(3):
            with pytest.raises(IndexNotReady):
                index.size(None, None, "")
            assert indexer.portion() is True
        assert index.size(None, None, "") == 6
    indexer.close()


def _lost(path: Path) -> None:
    path.unlink()


def _cut(path: Path) -> None:
    os.truncate(path, 5000)


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database\n" * 500)


def _older(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {VERSION - 1}")


def _requested(path: Path) -> None:
    index_module.request_rebuild(path)


@pytest.mark.parametrize("spoil", [_lost, _cut, _garbage, _older, _requested])
def test_an_index_that_is_no_good_is_made_anew_and_readers_follow(
    archive: NewArchive, spoil: Callable[[Path], None]
) -> None:
    archive.load(item(1, "One"), item(2, "Two"))
    with closing(indexed(archive)) as index, closing(SearchIndex(archive.data)) as other:
        assert index.size(None, None, "") == 3
        index.close()
        other.close()
        spoil(archive.data / FILE)
        if spoil is not _requested:
            with pytest.raises(IndexNotReady):
                everything(other)
        indexer = indexer_of(archive)
        indexer.bring_up_to_date()
        assert len(everything(index)) == len(everything(other)) == 3
        change(archive, 1, language="fr")
        indexer.bring_up_to_date()
        assert names(index, "language:fr") == names(other, "language:fr") == [item(1)["rep"]]
        indexer.close()


def test_damage_that_a_reader_meets_under_way_is_told_to_the_writer(archive: NewArchive) -> None:
    archive.load(*(item(number, f"Title {number}") for number in range(50)))
    indexer = indexer_of(archive)
    indexer.bring_up_to_date()
    with closing(SearchIndex(archive.data)) as index:
        assert index.size(None, None, "") == 51
        indexer.close()
        index.close()
        with (archive.data / FILE).open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(4096)
            file.write(b"\xff" * (size - 4096))
        with pytest.raises(IndexNotReady):
            everything(index)
        indexer.bring_up_to_date()
        indexer.close()
        assert len(everything(index)) == 51


def test_damage_where_only_readers_look_is_mended_once_one_of_them_has_met_it(archive: NewArchive) -> None:
    archive.load(*(item(number, f"Title {number}") for number in range(50)))
    with closing(indexed(archive)) as index, closing(indexer_of(archive)) as indexer:
        (page,) = index.rows("SELECT rootpage FROM sqlite_master WHERE name = 'entry'")[0]
        index.close()
        with (archive.data / FILE).open("r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(b"\xff" * 4096)
        assert not indexer.portion()
        indexer.close()
        with pytest.raises(IndexNotReady):
            everything(index)
        indexer.bring_up_to_date()
        assert len(everything(index)) == 51


def test_a_damaged_index_whose_rebuild_cannot_be_requested_is_an_error_and_no_endless_loop(
    archive: NewArchive,
) -> None:
    indexer = indexer_of(archive)
    indexer.bring_up_to_date()
    indexer.close()
    _garbage(archive.data / FILE)
    note = archive.data / index_module.NOTE
    note.symlink_to(archive.data / "missing" / "folder")  # refused for root, too
    with closing(SearchIndex(archive.data)) as index, pytest.raises(IndexNotReady):
        everything(index)
    with pytest.raises(SetupError, match="cannot be used"):
        sum(indexer.portion() for _ in range(3))
    with pytest.raises(SetupError, match="cannot be used"):
        indexer.anew()
    note.unlink()
    indexer.bring_up_to_date()
    indexer.close()


def test_another_catalogue_in_its_place_gets_an_index_of_its_own(
    new_archive: Callable[..., NewArchive],
) -> None:
    first, second = new_archive(), new_archive()
    first.load(item(1, "One"), item(2, "Two"))
    indexed(first).close()
    second.load(item(3, "Three"), item(4, "Four"))
    (first.data / FILE).rename(second.data / FILE)
    with closing(indexed(second)) as index:
        assert names(index) == sorted([str(SERVICE.main), str(item(3)["rep"]), str(item(4)["rep"])])


def test_the_first_process_follows_changes_while_others_read(archive: NewArchive) -> None:
    archive.load(item(1, "One"))
    indexer = indexer_of(archive)
    listed = [indexer.task()]

    async def scenario() -> None:
        running = asyncio.create_task(PeriodicTasks(lambda: listed).run())
        with closing(SearchIndex(archive.data)) as index:
            await _until(lambda: index.size(None, None, "") == 2)
            await asyncio.to_thread(archive.load, item(2, "Two"))
            await _until(lambda: index.size(None, None, "") == 3)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                if holds():
                    return
            except IndexNotReady:
                pass
            await asyncio.sleep(0.02)


def test_an_import_under_way_is_left_in_peace_and_caught_up_with_afterwards(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "BULK", 5)
    monkeypatch.setattr(indexing, "ITEMS", 2)
    indexer = indexer_of(archive)
    look = indexer.task().do

    async def scenario() -> None:
        await look()
        await asyncio.to_thread(archive.load, *(item(number, "New") for number in range(8)))
        await look()
        with closing(SearchIndex(archive.data)) as index:
            assert index.size(None, None, "") == 3
            await look()
            assert index.size(None, None, "") == 9

    asyncio.run(scenario())
    indexer.close()


_READER = """
import sys
from pathlib import Path
from ibi.archive.search.index import SearchIndex
from ibi.archive.search.words import search_query
from ibi.archive.search.search import search
from ibi.archive.search.index import IndexNotReady
index, most = SearchIndex(Path(sys.argv[1])), 0
print("ready", flush=True)
while most < int(sys.argv[2]):
    try:
        found = search(index, search_query({"text": "title"})).count
        assert found >= most, (found, most)
        most = found
    except IndexNotReady:
        pass
index.close()
print(most)
"""


def test_other_processes_read_what_is_there_while_it_is_written(archive: NewArchive) -> None:
    command = [sys.executable, "-c", _READER, str(archive.data), "120"]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"ready\n"
        indexer = indexer_of(archive)
        for begin in range(0, 120, 30):
            archive.load(*(item(number, f"Title {number}") for number in range(begin, begin + 30)))
            indexer.bring_up_to_date()
        indexer.close()
        assert [reader.communicate(timeout=60)[0] for reader in readers] == [b"120\n"] * 2
        assert [reader.returncode for reader in readers] == [0, 0]
    finally:
        for reader in readers:
            reader.kill()
            reader.communicate()


def test_hostile_metadata_only_become_words(archive: NewArchive) -> None:
    archive.load(
        item(
            1,
            "a\x00b\u202e\ud7ff <script> \"quote' -- ; DROP TABLE entry",
            creator=["\u202e", "", "x" * 9000],
        ),
        item(
            2,
            "T",
            date=["no date", "²⁰¹¹", "99999", "0000", "2024-13-99"],
            language=["x" * 5000],
            type=["\x00"],
        ),
    )
    with closing(indexed(archive)) as index:
        one, two = everything(index)[-2:]
        assert one.people == "x" * 200
        assert (two.year, two.language, two.kind) == (2024, "", "Other")


def test_many_items_are_read_by_their_numbers_at_once(archive: NewArchive) -> None:
    archive.load(*(item(number, f"T{number}") for number in range(5)))
    with archive.catalogue.reading() as run:
        found: dict[int, Holding] = listings.holdings(run, [2, 4, 99])
    assert {number: str(holding.forms.main) for number, holding in found.items()} == {
        2: item(0)["rep"], 4: item(2)["rep"],
    }  # fmt: skip


_WAITING_READER = """
import sys
from pathlib import Path
from ibi.archive.search.index import SearchIndex
from ibi.archive.search.index import IndexNotReady
index = SearchIndex(Path(sys.argv[1]))
print("ready", flush=True)
while not Path(sys.argv[2]).exists():
    try:
        index.rows("SELECT max(stamp) FROM entry")
    except IndexNotReady:
        pass
print("done")
"""


def test_who_reads_while_the_index_is_put_into_its_place_finds_it_whole_or_not_at_all(tmp_path: Path) -> None:
    path, end = tmp_path / index_module.FILE, tmp_path / "end"
    command = [sys.executable, "-c", _WAITING_READER, str(tmp_path), str(end)]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"ready\n"
        for _ in range(40):
            with closing(index_module.open_to_write(path)) as database:
                database.execute("INSERT INTO state VALUES (0, 0, '', 0, 0, 0)")
            index_module.remove(path)
        end.touch()
        assert [reader.communicate(timeout=60)[0] for reader in readers] == [b"done\n"] * 2
    finally:
        for reader in readers:
            reader.kill()
            reader.communicate()


def test_a_reader_does_not_close_while_the_index_is_removed(archive: NewArchive) -> None:
    """The last connection to a database removes its log by name, which may be that of the next index by then."""
    archive.load(item(0, "One"))
    with closing(indexed(archive)) as index:
        everything(index)
        closer = threading.Thread(target=index.close)
        with locked_file(index.path.with_name("finding.door")):
            closer.start()
            closer.join(timeout=0.3)
            assert closer.is_alive()
        closer.join(timeout=30)
        assert not closer.is_alive()
        assert everything(index)


def test_processes_that_write_take_turns(archive: NewArchive) -> None:
    archive.load(item(1, "Um"))
    with closing(indexer_of(archive)) as indexer:
        assert waits_for(archive.data / indexing.LOCK, indexer.portion)


def test_readers_see_nothing_of_a_portion_before_its_end(archive: NewArchive) -> None:
    archive.load(item(1, "Um", language="pt"))
    seen = list[object]()
    with closing(indexed(archive)) as index:

        def now_and_looked() -> float:
            seen.append(facet_values(index, "language", 9))
            return archive.clock.seconds()

        archive.load(item(2, "Dois", language="pt"))
        with closing(Indexer(archive.catalogue, archive.data, now_and_looked, kind_name)) as indexer:
            assert indexer.portion()
        assert seen
        assert all(each == [("pt", "", 1)] for each in seen)
        assert facet_values(index, "language", 9) == [("pt", "", 2)]


def test_threads_that_read_never_meet_a_connection_that_another_one_closes(archive: NewArchive) -> None:
    archive.load(item(1, "Um"))
    slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9999) SELECT count(*) FROM n"
    stop, found = threading.Event(), list[object]()

    def read_on() -> None:
        try:
            while not stop.is_set():
                found.append(index.rows(slow))
        except Exception as error:  # noqa: BLE001 - shown below
            found.append(error)

    with closing(indexed(archive)) as index, switching_often():
        readers = [threading.Thread(target=read_on) for _ in range(2)]
        for each in readers:
            each.start()
        while len(found) < 40 and all(each.is_alive() for each in readers):
            index.close()
        stop.set()
        for each in readers:
            each.join()
    assert [each for each in found if each != [(9999,)]] == []


def test_an_index_that_the_disk_refuses_is_one_sentence_and_complete_at_the_next_attempt(
    archive: NewArchive,
) -> None:
    archive.load(item(1, "Um"))

    def begin(number: int) -> tuple[Path, Callable[[], None]]:
        archive.load(item(number + 2, "Outro"))
        for each in archive.data.glob("finding.*"):
            each.unlink()

        def act() -> None:
            with closing(indexer_of(archive)) as indexer:
                indexer.bring_up_to_date()

        return archive.data, act

    for number, (place, act) in enumerate(refused_in_turn(begin), 1):
        with suppress(SetupError):
            act()
        with closing(indexed(archive)) as index:
            assert len(names(index)) == number + 3, place  # one is the Archive service


def test_a_search_that_the_disk_refuses_is_one_sentence_and_the_next_one_is_answered(
    archive: NewArchive,
) -> None:
    archive.load(item(1, "Um"))
    indexed(archive).close()

    def look() -> list[str]:
        with closing(SearchIndex(archive.data)) as index:
            return names(index)

    expected = look()
    for place, act in refused_in_turn(lambda _: (archive.data, look)):
        with suppress(SetupError):
            assert act() == expected, place
        assert look() == expected, place


def test_an_index_that_is_gone_or_was_asked_wrongly_is_not_held_open(archive: NewArchive) -> None:
    with closing(indexed(archive)) as index:
        assert index.rows("SELECT 1") == [(1,)]
        with pytest.raises(sqlite3.OperationalError):
            index.rows("SELECT nothing")
        assert FILE not in open_files(archive.data)
        assert index.rows("SELECT 1") == [(1,)]
        (archive.data / FILE).unlink()
        with pytest.raises(IndexNotReady):
            index.rows("SELECT 1")
        assert [name for name in open_files(archive.data) if name.startswith(FILE)] == []
