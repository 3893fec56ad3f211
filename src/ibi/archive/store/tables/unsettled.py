"""Unsettled originals: restored from a backup, they may have moved or been removed since (decision 0039)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ibi.archive.store.tables.catalogue import SqlRunner

_UNSETTLE: Final = "UPDATE item SET unsettled = :moment WHERE state = 'Original' AND number <> :service"
_COUNT: Final = "SELECT count(*) FROM item WHERE unsettled IS NOT NULL"
_SOME: Final = (
    "SELECT item.number, name.name FROM item JOIN name ON name.item = item.number AND name.main"
    " WHERE item.unsettled IS NOT NULL AND item.number > :after ORDER BY item.number LIMIT :most"
)


class UnsettledItem(NamedTuple):
    """The number and the canonical main name of an unsettled original."""

    number: int
    name: str


def unsettle_originals(run: SqlRunner, moment: str, service: int) -> None:
    """Mark every original as unsettled, except the item number `service`; `moment`: that of the backup."""
    run(_UNSETTLE, moment=moment, service=service)


def count_unsettled(run: SqlRunner) -> int:
    """Count the originals that are not settled."""
    return int(run(_COUNT).fetchone()[0])


def some_unsettled(run: SqlRunner, after: int, most: int) -> list[UnsettledItem]:
    """Return at most `most` unsettled originals with numbers above `after`, in order; [] at the end."""
    return [UnsettledItem(*row) for row in run(_SOME, after=after, most=most).fetchall()]
