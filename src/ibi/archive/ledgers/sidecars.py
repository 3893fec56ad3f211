"""The ledger of sidecars: which items have an item.json beside their files, and whose is out of date.

Triggers of the catalogue (`schema.SIDECAR_TRIGGERS`) write it; here it is read and settled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.rows import ITEM_COLUMNS

if TYPE_CHECKING:
    from ibi.archive.catalogue import Run
    from ibi.archive.holding import Holding

_COLUMNS: Final = ", ".join(f"item.{column}" for column in ITEM_COLUMNS)
_OWED: Final = (
    f"SELECT sidecar.owed, item.number, {_COLUMNS} FROM sidecar JOIN item ON item.number = sidecar.item"  # noqa: S608 - made of our own column names
    " WHERE sidecar.owed > 0 ORDER BY sidecar.item LIMIT :most"
)
_PAID: Final = "UPDATE sidecar SET owed = 0 WHERE item = :item"
_OWE: Final = (
    "INSERT INTO sidecar (item, owed) VALUES (:item, 1) ON CONFLICT (item) DO UPDATE SET owed = owed + 1"
)
_HAS: Final = "SELECT owed FROM sidecar WHERE item = :item"
_ANY: Final = "SELECT 1 FROM sidecar WHERE owed > 0 LIMIT 1"


class Owed(NamedTuple):
    """An item whose item.json is out of date, and by how many changes."""

    holding: Holding
    changes: int


def is_any_owed(run: Run) -> bool:
    """Whether some item.json is out of date."""
    return run(_ANY).fetchone() is not None


def owed(run: Run, most: int) -> list[Owed]:
    """Some of the items whose item.json is out of date."""
    found = run(_OWED, most).fetchall()
    return [Owed(run.whole(row[1:]), row[0]) for row in found]


def paid(run: Run, item: int) -> None:
    """The item.json of an item tells what the catalogue tells in this transaction."""
    run(_PAID, item)


def has_sidecar(run: Run, item: int) -> bool | None:
    """Whether the item.json of an item is up to date; None for an item that has none."""
    row = run(_HAS, item).fetchone()
    return None if row is None else not row[0]


def owe(run: Run, item: int) -> None:
    """The item.json of an item is not what it should be, or it shall have one."""
    run(_OWE, item)
