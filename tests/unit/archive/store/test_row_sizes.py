"""Whatever may be long in the row of an item counts, so that no event loop reads a long one (T29: costly requests)."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from ibi.archive.model.item import Holding, MetadataValue, StoredFile
from ibi.archive.store.tables.rows import FILE_CHARACTERS, item_row, read_item_row, size_of_row
from ibi.identifier.forms import IBIForms
from ibi.identifier.legacy import LegacyId

if TYPE_CHECKING:
    from collections.abc import Mapping

MANY: Final = 100
ITEM: Final = Holding(
    forms=IBIForms.parse("rep a.example/b/2010/01.01.00.00"), timestamp="2026-01-01T00:00:00Z"
)
LONG: Final[Mapping[str, object]] = {
    "aliases": (LegacyId.parse("6qtX3pFwXQZ3r59YCT/GUKUk"),) * MANY,
    "files": tuple(StoredFile(f"{number}.txt", 1, "", "text/plain") for number in range(MANY)),
    "translations": {f"x-{number}": ITEM.forms for number in range(MANY)},
    "metadata": {"title": tuple(MetadataValue(f"Title {number}") for number in range(MANY))},
    "formats": {f"format{number}": "http://far.example/" for number in range(MANY)},
    "institution": {f"x-{number}": "An institute" for number in range(MANY)},
}
"""Each field of an item that is a list or a mapping, with many values."""


def test_each_list_and_mapping_of_an_item_counts_in_the_size_of_its_row() -> None:
    lists = {each.name for each in fields(Holding) if str(each.type).startswith(("tuple", "Mapping"))}
    assert lists == set(LONG)
    empty = size_of_row((1, *item_row(ITEM)))
    for name, values in LONG.items():
        long = replace(ITEM, **{name: values})  # type: ignore[arg-type]  # by name
        row = (1, *item_row(long))
        assert size_of_row(row) >= empty + MANY * (FILE_CHARACTERS if name == "files" else 10), name
        if name != "files":
            assert getattr(read_item_row(row, ()), name) == values, name
