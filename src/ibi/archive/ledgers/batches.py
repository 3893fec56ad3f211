"""Many items at once: what of a batch is held already, found by one look each, and all that is new written together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ibi.archive import rows
from ibi.archive.rows import ITEM_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ibi.archive.catalogue import Run
    from ibi.archive.holding import Holding
    from ibi.archive.ledgers.history import Event
    from ibi.identifier.forms import IBIForms

Row = tuple[Any, ...]
"""A row of an item: its number, then ITEM_COLUMNS."""

_COLUMNS = ", ".join(f"item.{column}" for column in ITEM_COLUMNS)
_PLACES = ", ".join(f":{column}" for column in ITEM_COLUMNS)
_NUMBERS_OF_NAMES = (
    "SELECT name.name, name.item FROM json_each(:names) AS wanted CROSS JOIN name ON name.name = wanted.value"
)
_NUMBERS_OF_KEYS = (
    "SELECT item.key, item.number FROM json_each(:keys) AS wanted CROSS JOIN item ON item.key = wanted.value"
)
_FORMS_OF_KEYS = (
    "SELECT item.key, item.rep, item.ibip FROM json_each(:keys) AS wanted"
    " CROSS JOIN item ON item.key = wanted.value"
)
_ROWS_OF = (
    f"SELECT item.number, {_COLUMNS} FROM json_each(:numbers) AS wanted"  # noqa: S608 - made of our own column names
    " CROSS JOIN item ON item.number = wanted.value"
)
_LAST_NUMBER = "SELECT coalesce(max(number), 0) FROM item"
_ADD_ITEM = f"INSERT INTO item (number, {', '.join(ITEM_COLUMNS)}) VALUES (:number, {_PLACES})"  # noqa: S608 - made of our own column names
_ADD_NAME = "INSERT INTO name (name, item, main) VALUES (:name, :item, :main)"
_ADD_EVENT = (
    "INSERT INTO event (item, number, moment, who, what, detail)"
    " VALUES (:item, 1, :moment, :who, :what, :detail)"
)


def prepare(run: Run) -> None:
    """Give the connection at hand more room: names come in any order, and each may lie on another page of its table.

    With the usual 2 MB, and the log moved into the database at every 1000 pages, most of them would be written often.
    """
    run("PRAGMA cache_size = -32768")  # KiB
    run("PRAGMA wal_autocheckpoint = 8000")


def numbers_of_names(run: Run, names: Sequence[str]) -> dict[str, int]:
    """The numbers of the items that bear these canonical names, by name."""
    return dict(run(_NUMBERS_OF_NAMES, json.dumps(names)).fetchall())


def numbers_of_keys(run: Run, keys: Sequence[str]) -> dict[str, int]:
    """The numbers of the items that came under these keys, by key."""
    return dict(run(_NUMBERS_OF_KEYS, json.dumps(keys)).fetchall()) if keys else {}


def forms_of_keys(run: Run, keys: Sequence[str]) -> dict[str, IBIForms]:
    """The names of the items that came under these keys, by key."""
    found = run(_FORMS_OF_KEYS, json.dumps(keys)).fetchall()
    return {key: rows.forms_of(rep, ibip) for key, rep, ibip in found}


def rows_of(run: Run, numbers: Iterable[int]) -> dict[int, Row]:
    """The rows of the items of these numbers, by number."""
    return {row[0]: row for row in run(_ROWS_OF, json.dumps(list(numbers))).fetchall()}


def add_all(run: Run, items: Sequence[tuple[Holding, Sequence[str]]], event: Event) -> range:
    """Add items without files, and `event` as the first in the history of each; returns their numbers.

    Each comes with the canonical names that it is found by, its main one first. Only for items of whose names and keys
    the same transaction has seen that they are free.
    """
    first = int(run(_LAST_NUMBER).fetchone()[0]) + 1
    numbers = range(first, first + len(items))
    run.many(
        _ADD_ITEM,
        [(number, *rows.write(holding)) for number, (holding, _) in zip(numbers, items, strict=True)],
    )
    named = [
        (name, number, not place)
        for number, (_, names) in zip(numbers, items, strict=True)
        for place, name in enumerate(names)
    ]
    named.sort()  # as they lie in the table: so neighbours are written together
    run.many(_ADD_NAME, named)
    detail = json.dumps(event.detail, ensure_ascii=False, separators=(",", ":")) if event.detail else None
    run.many(_ADD_EVENT, [(number, event.moment, event.who, event.what, detail) for number in numbers])
    return numbers
