"""A harvest that continues where the last one ended misses no change, also after the index was built again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from ibi.archive.search import index as index_module
from ibi.archive.search import indexing
from ibi.archive.search.index import FILE, IndexNotReady, SearchIndex
from ibi.archive.search.indexing import DatingBounds, Indexer, read_dating
from ibi.archive.store.item_changes import edit
from ibi.identifier.forms import parse_ibi
from support.archive.archive_fixture import NOW, NewArchive
from support.archive.search_fixture import indexer_of, item

SETTLING = 5


@dataclass
class Harvester:
    """Asks for what has changed since it last asked, and knows the versions of items that it has been told."""

    archive: NewArchive
    part: str = ""
    since: int | None = None
    versions: dict[str, int] = field(default_factory=dict)

    def ask(self) -> None:
        """Raises BeingMade while there is no whole index."""
        moment = self.archive.clock.now - SETTLING
        with closing(SearchIndex(self.archive.data)) as index:
            entries = index.changed((0, 0), self.since, None, self.part, 100_000)
        for entry in entries:
            holding = self.archive.catalogue.holding(parse_ibi(entry.name))
            assert holding is not None
            self.versions[entry.name] = self.version(entry.name)
        self.since = int(moment)

    def version(self, name: str) -> int:
        found = self.archive.catalogue.holding(parse_ibi(name))
        assert found is not None
        with self.archive.catalogue.reading() as run:
            return int(
                run(
                    "SELECT coalesce(max(number), 0) FROM event WHERE item = :item", item=found.number
                ).fetchone()[0]
            )

    @property
    def missed(self) -> list[str]:
        """The items of which it does not know the last version."""
        names = [str(each.forms.main) for each in self.archive.catalogue.all("")]
        return [name for name in names if self.versions.get(name) != self.version(name)]


def lose(archive: NewArchive) -> None:
    """The index is gone: a disk, a hand, another version."""
    for path in archive.data.glob(f"{FILE}*"):
        path.unlink()


def passes(archive: NewArchive, seconds: float) -> None:
    archive.clock.now += seconds


@pytest.fixture
def indexer(archive: NewArchive) -> Iterator[Indexer]:
    archive.load(item(1, "One"), item(2, "Two"))
    with closing(indexer_of(archive)) as made:
        made.bring_up_to_date()
        yield made


@pytest.mark.parametrize("lag", [30, 600, 5 * 3600])
def test_an_import_that_the_index_lagged_behind_is_missed_by_no_harvester(
    archive: NewArchive, indexer: Indexer, lag: int
) -> None:
    harvester = Harvester(archive)
    harvester.ask()
    archive.load(*(item(number, "Late") for number in range(10, 20)))
    passes(archive, lag - 10)
    harvester.ask()  # the index has seen nothing of it
    assert len(harvester.missed) == 10
    passes(archive, 10)
    indexer.bring_up_to_date()
    passes(archive, 20 * lag)
    lose(archive)
    indexer.bring_up_to_date()
    passes(archive, 60)
    harvester.ask()
    assert harvester.missed == []


def test_without_any_knowledge_of_an_index_before_everything_is_told_again(
    archive: NewArchive, indexer: Indexer
) -> None:
    archive.load(item(3, "Three"))
    passes(archive, 7200)
    harvester = Harvester(archive)
    harvester.ask()
    indexer.bring_up_to_date()
    passes(archive, 86_400)
    lose(archive)
    (archive.data / indexing.FILE).unlink()
    indexer.bring_up_to_date()
    harvester.ask()
    assert harvester.missed == []


def test_a_rebuilt_index_repeats_no_old_records_to_a_harvester(archive: NewArchive, indexer: Indexer) -> None:
    passes(archive, 86_400)
    archive.load(*(item(number, "Later") for number in range(10, 20)))
    indexer.bring_up_to_date()
    passes(archive, 86_400)
    for _ in range(2):  # also the second time
        lose(archive)
        indexer.bring_up_to_date()
        with closing(SearchIndex(archive.data)) as index:
            assert index.size(NOW + 86_400 + 1000, None, "") == 0
            assert index.size(None, None, "") == 13
        passes(archive, 86_400)


def test_the_end_of_an_embargo_is_no_earlier_in_an_index_made_anew(
    archive: NewArchive, indexer: Indexer
) -> None:
    day = "2023-11-20"  # some days after now
    archive.load(item(5, "Closed", access="embargoed", embargo=day))
    indexer.bring_up_to_date()
    passes(archive, 86_400)
    harvester = Harvester(archive, "access:open")
    harvester.ask()
    name = str(item(5)["rep"])
    assert name not in harvester.versions
    passes(archive, 10 * 86_400)
    indexer.bring_up_to_date()
    lose(archive)
    indexer.bring_up_to_date()
    passes(archive, 60)
    harvester.ask()
    assert name in harvester.versions


def test_another_description_of_an_item_is_no_earlier_in_an_index_made_anew(
    archive: NewArchive, indexer: Indexer
) -> None:
    teller = str(item(6)["rep"])
    archive.load(
        item(6, "Words about it", contenttype="Metadata", type="Tese"), item(7, metadata_item=teller)
    )
    indexer.bring_up_to_date()
    passes(archive, 86_400)
    harvester = Harvester(archive, "kind:Dissertation")
    harvester.ask()
    assert list(harvester.versions) == [str(item(7)["rep"])]
    passes(archive, 86_400)
    edit(archive.item_store, parse_ibi(teller), {"metadata": {"title": "Others", "type": "mapa"}}, "maria")
    indexer.bring_up_to_date()
    lose(archive)
    indexer.bring_up_to_date()
    passes(archive, 60)
    harvester.part = ""
    harvester.versions.clear()
    harvester.ask()
    assert str(item(7)["rep"]) in harvester.versions


def test_another_catalogue_in_the_place_of_the_first_is_told_anew(
    archive: NewArchive, indexer: Indexer
) -> None:
    assert read_dating(archive.data) == DatingBounds(NOW + 1, 64)
    with closing(SearchIndex(archive.data)) as index:
        size = index.size(None, None, "")
    passes(archive, 86_400)
    indexer.close()
    database = index_module.open_to_write(archive.data / FILE)
    database.execute("UPDATE state SET last_name = 'another.example/w/2020/01.01.00.00'")
    database.close()
    indexer.bring_up_to_date()
    assert read_dating(archive.data) == DatingBounds(NOW + 86_401, 64)
    with closing(SearchIndex(archive.data)) as index:
        assert index.size(NOW + 86_401, None, "") == size


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"floor": "x", "lag": 1}', b"[" * 100_000])
def test_a_file_of_dates_that_is_none_is_as_good_as_none(
    archive: NewArchive, indexer: Indexer, content: bytes
) -> None:
    (archive.data / indexing.FILE).write_bytes(content)
    passes(archive, 1000)
    archive.load(item(3, "Three"))
    indexer.bring_up_to_date()
    lose(archive)
    indexer.bring_up_to_date()
    assert read_dating(archive.data) == DatingBounds(NOW + 1001, 64)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_a_harvester_knows_everything_at_last(
    archive: NewArchive, indexer: Indexer, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Deposits, edits, pauses, harvests, portions of indexing and losses of the index, in any order."""
    monkeypatch.setattr(indexing, "ITEMS", 3)
    chance = random.Random(seed)
    harvester, numbers = Harvester(archive), [1, 2]

    def load() -> None:
        new = [numbers[-1] + each for each in range(1, chance.randrange(2, 9))]
        numbers.extend(new)
        archive.load(*(item(number, "New") for number in new))

    def change() -> None:
        name = parse_ibi(str(item(chance.choice(numbers))["rep"]))
        edit(archive.item_store, name, {"rights": str(chance.random())}, "maria")

    def harvest() -> None:
        try:
            harvester.ask()
        except IndexNotReady:
            return

    def wait() -> None:
        passes(archive, chance.choice((1, 20, 400, 5000, 90_000)))

    deeds: list[Callable[[], object]] = [load, change, harvest, wait, indexer.portion, indexer.portion]
    for _ in range(60):
        chance.choice(deeds)()
        if not chance.randrange(12):
            lose(archive)
        if not chance.randrange(15):
            passes(archive, 60)
            indexer.bring_up_to_date()
            passes(archive, 60)
            harvester.ask()
            assert harvester.missed == []
    indexer.close()
