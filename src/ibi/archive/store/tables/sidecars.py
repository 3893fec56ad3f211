"""The table of items that have an item.json beside their files, and of those whose item.json is outdated.

Triggers (`schema/catalogue.sql`) mark an item.json as outdated; `store.sidecars` writes the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.archive.store.tables.rows import ITEM

if TYPE_CHECKING:
    from ibi.archive.model.item import Holding
    from ibi.archive.store.tables.catalogue import SqlRunner

_OWED: Final = (
    f"SELECT {ITEM} FROM sidecar JOIN item ON item.number = sidecar.item"  # noqa: S608 - made of our own column names
    " WHERE sidecar.owed > 0 ORDER BY sidecar.item LIMIT :most"
)
_PAID: Final = "UPDATE sidecar SET owed = 0 WHERE item = :item"
_OWE: Final = (
    "INSERT INTO sidecar (item, owed) VALUES (:item, 1)"
    " ON CONFLICT (item) DO UPDATE SET owed = sidecar.owed + 1"
)
_HAS: Final = "SELECT owed FROM sidecar WHERE item = :item"
_ANY: Final = "SELECT 1 FROM sidecar WHERE owed > 0 LIMIT 1"


def any_outdated(run: SqlRunner) -> bool:
    """Return whether any item.json is out of date."""
    return run(_ANY).fetchone() is not None


def outdated(run: SqlRunner, most: int) -> list[Holding]:
    """Return some of the items whose item.json is out of date."""
    return [run.item_of_row(row) for row in run(_OWED, most=most).fetchall()]


def record_written(run: SqlRunner, item: int) -> None:
    """Record that the item.json of an item agrees with the catalogue, as this transaction sees it."""
    run(_PAID, item=item)


def is_current(run: SqlRunner, item: int) -> bool | None:
    """Return whether the item.json of an item is up to date; None for an item that has none."""
    row = run(_HAS, item=item).fetchone()
    return None if row is None else not row[0]


def record_all_outdated(run: SqlRunner) -> None:
    """Mark every item.json as outdated, so that it is written at the new place of the files."""
    run("UPDATE sidecar SET owed = owed + 1")


def record_outdated(run: SqlRunner, item: int) -> None:
    """Mark the item.json of an item as outdated, even if the item has none yet, so that it is written."""
    run(_OWE, item=item)
