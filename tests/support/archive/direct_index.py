"""Search indexes that are written directly: what an Archive would have in its catalogue, tests say in a line."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from ibi.archive.search import index as index_module
from ibi.archive.search.index_writer import EntryUpdate, IndexState, IndexTransaction
from ibi.archive.search.words import ItemWords


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
    path = folder / index_module.FILE
    with closing(index_module.open_to_write(path)) as database, index_module.transaction(database):
        IndexTransaction(database).put(updates, lambda each: each.changed_at, building=True)
        IndexState(0, 0, "", 0, None, None).keep(database)


def numbered(numbers: Iterable[int], of: ItemWords) -> tuple[EntryUpdate, ...]:
    """Entries of items with the same words."""
    return tuple(update(number, of) for number in numbers)
