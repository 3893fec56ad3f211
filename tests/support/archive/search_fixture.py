"""For the tests of search: items that can be found, an index that is up to date, and one that is written directly."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from ibi.archive.search.index import FILE, SearchIndex, open_to_write, transaction
from ibi.archive.search.index_writer import EntryUpdate, IndexState, IndexTransaction
from ibi.archive.search.indexing import Indexer
from ibi.archive.search.words import ItemWords
from ibi.web.formats.record import kind_of
from support.archive.archive_fixture import NewArchive


def kind_name(types: list[str] | object) -> str:
    return kind_of(types).datacite  # type: ignore[arg-type]  # as the assembly gives it


def item(number: int, title: str = "", **more: object) -> dict[str, object]:
    """One line of an import; Dublin Core by its elements, everything else as it is."""
    elements = ("creator", "subject", "description", "date", "type", "language", "identifier")
    metadata = {name: more.pop(name) for name in elements if name in more}
    if title:
        metadata["title"] = title
    minute = f"{number // 3600:02}.{number // 60 % 60:02}.{number % 60:02}"
    line: dict[str, object] = {
        "rep": f"a.example/b/2013/01.01.{minute}",
        "url": f"http://far.example/{number}",
    }
    return line | ({"metadata": metadata} if metadata else {}) | more


def indexer_of(archive: NewArchive) -> Indexer:
    service = str(archive.settings.service.main)
    return Indexer(archive.catalogue, archive.data, archive.clock.seconds, kind_name, service)


def indexed(archive: NewArchive) -> SearchIndex:
    """The index of an Archive, brought up to date; to be closed."""
    indexer = indexer_of(archive)
    indexer.bring_up_to_date()
    indexer.close()
    return SearchIndex(archive.data)


def words(title: str = "", **more: object) -> ItemWords:
    """The words of an item that has a title at most, with these changes."""
    plain = ItemWords(title, (), "", "", "", 0, "", "Other")
    return plain._replace(**more)  # type: ignore[arg-type]  # fields of ours


def update(number: int, of: ItemWords | None = None, **more: object) -> EntryUpdate:
    """The entry of an open data item; it has changed last at the second of its number."""
    plain = EntryUpdate(
        number=number, removed=False, shown=True, content_type="Data", name=f"a.example/{number}",
        modified=number, changed_at=number, events=1, described_by=0, words=of or words(), open=True, embargo="",
    )  # fmt: skip
    return plain._replace(**more)  # type: ignore[arg-type]  # fields of ours


def write_index(folder: Path, *updates: EntryUpdate) -> None:
    """Write entries into the index of a folder, which is made if it is new; their stamps are their last changes."""
    path = folder / FILE
    with closing(open_to_write(path)) as database, transaction(database):
        IndexTransaction(database).put(updates, lambda each: each.changed_at, building=True)
        IndexState(0, 0, "", 0, None, None).keep(database)


def numbered(numbers: Iterable[int], of: ItemWords) -> tuple[EntryUpdate, ...]:
    """Entries of items with the same words."""
    return tuple(update(number, of) for number in numbers)
