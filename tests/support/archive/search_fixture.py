"""For the tests of search: items that can be found, and an index that is up to date."""

from __future__ import annotations

from ibi.archive.search.index import SearchIndex
from ibi.archive.search.indexing import Indexer
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
