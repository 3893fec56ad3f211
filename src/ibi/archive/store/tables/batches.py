"""Batches of items: a few queries find the items of a batch that are held; new items are inserted together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ibi.archive.store.tables import change_log, rows
from ibi.archive.store.tables.rows import ITEM, ITEM_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ibi.archive.model.item import Holding
    from ibi.archive.store.tables.catalogue import SqlRunner
    from ibi.archive.store.tables.history import ItemEvent
    from ibi.identifier.forms import IBIForms

Row = tuple[Any, ...]
"""A row of an item: its number, then ITEM_COLUMNS."""

_PLACES = ", ".join(f":{column}" for column in ITEM_COLUMNS)
# CROSS JOIN makes SQLite read the list first, and look up each of its values in the index.
_NUMBERS_OF_NAMES = (
    "SELECT name.name, name.item FROM json_each(:names) AS wanted CROSS JOIN name ON name.name = wanted.value"
)
_NUMBERS_OF_KEYS = (
    "SELECT item.key, item.number FROM json_each(:keys) AS wanted CROSS JOIN item ON item.key = wanted.value"
)
# "oai;" follows every text that begins with "oai:".
_HARVESTED_KEYS = "SELECT key FROM item WHERE key >= 'oai:' AND key < 'oai;'"
_FORMS_OF_KEYS = (
    "SELECT item.key, item.rep, item.ibip FROM json_each(:keys) AS wanted"
    " CROSS JOIN item ON item.key = wanted.value"
)
_ROWS_OF = (
    f"SELECT {ITEM} FROM json_each(:numbers) AS wanted"  # noqa: S608 - made of our own column names
    " CROSS JOIN item ON item.number = wanted.value"
)
_FORMS_OF_NUMBER = "SELECT rep, ibip FROM item WHERE number = :number"
_TITLES = (
    "SELECT number, url, json_extract(metadata, '$.title[0][0]'), json_extract(metadata, '$.date')"
    " FROM item WHERE number > :after AND state <> 'Deleted' AND content_type = 'Data'"
    " ORDER BY number LIMIT :most"
)
_LAST_NUMBER = "SELECT coalesce(max(number), 0) FROM item"
_ADD_ITEM = f"INSERT INTO item (number, {', '.join(ITEM_COLUMNS)}) VALUES (:number, {_PLACES})"  # noqa: S608 - made of our own column names
_ADD_NAME = "INSERT INTO name (name, item, main) VALUES (:name, :item, :main)"
_ADD_EVENT = (
    "INSERT INTO event (item, number, moment, who, what, detail, feed)"
    " VALUES (:item, :number, :moment, :who, :what, :detail, :feed)"
)


def prepare(run: SqlRunner) -> None:
    """Enlarge the cache and the log of this connection, for an import."""
    # Names arrive in random order, so each may be on another page of its table. With the default cache of 2
    # MB, and a checkpoint every 1000 pages, most pages would be written many times.
    run("PRAGMA cache_size = -32768")  # KiB
    run("PRAGMA wal_autocheckpoint = 8000")


def numbers_of_names(run: SqlRunner, names: Sequence[str]) -> dict[str, int]:
    """Return the numbers of the items that bear these canonical names, by name."""
    return dict(run(_NUMBERS_OF_NAMES, names=json.dumps(names)).fetchall())


def numbers_of_keys(run: SqlRunner, keys: Sequence[str]) -> dict[str, int]:
    """Return the numbers of the items that were deposited under these keys, by key."""
    return dict(run(_NUMBERS_OF_KEYS, keys=json.dumps(keys)).fetchall()) if keys else {}


def harvested_keys(run: SqlRunner) -> Iterator[str]:
    """Yield the keys that are identifiers of OAI-PMH: "oai:repository.example:1"."""
    for (key,) in run(_HARVESTED_KEYS).fetchall():
        if key.count(":") > 1:
            yield key


def forms_of_keys(run: SqlRunner, keys: Sequence[str]) -> dict[str, IBIForms]:
    """Return the names of the items that were deposited under these keys, by key."""
    found = run(_FORMS_OF_KEYS, keys=json.dumps(keys)).fetchall()
    return {key: rows.forms_of(rep, ibip) for key, rep, ibip in found}


def forms_of_number(run: SqlRunner, number: int) -> IBIForms:
    """Return the names of the item of this number, which must exist."""
    return rows.forms_of(*run(_FORMS_OF_NUMBER, number=number).fetchone())


def titles(run: SqlRunner, after: int, most: int) -> list[tuple[int, str | None, str | None, str | None]]:
    """Return number, URL, title and dates (JSON) of data items after a number; removed ones are skipped."""
    found: list[tuple[int, str | None, str | None, str | None]] = run(
        _TITLES, after=after, most=most
    ).fetchall()
    return found


def rows_of(run: SqlRunner, numbers: Iterable[int]) -> dict[int, Row]:
    """Return the rows of the items of these numbers, by number."""
    return {row[0]: row for row in run(_ROWS_OF, numbers=json.dumps(list(numbers))).fetchall()}


def add_all(run: SqlRunner, items: Sequence[tuple[Holding, Sequence[str]]], event: ItemEvent) -> range:
    """Add items without files, and `event` as the first event of each; returns their numbers.

    `items`: each item with its canonical names, the main one first. The caller must have checked, in the same
    transaction, that all names and keys are free.
    """
    first = int(run(_LAST_NUMBER).fetchone()[0]) + 1
    numbers = range(first, first + len(items))
    run.many(
        _ADD_ITEM,
        [(number, *rows.item_row(holding)) for number, (holding, _) in zip(numbers, items, strict=True)],
    )
    named = [
        (name, number, not place)
        for number, (_, names) in zip(numbers, items, strict=True)
        for place, name in enumerate(names)
    ]
    # In the order of the table, so that names on the same page are written one after the other.
    named.sort()
    run.many(_ADD_NAME, named)
    detail = rows.write_json(event.detail)
    feed = change_log.log_changes(run, numbers)
    run.many(
        _ADD_EVENT,
        [
            (number, 1, event.moment, event.who, event.what, detail, at)
            for number, at in zip(numbers, feed, strict=True)
        ],
    )
    return numbers
