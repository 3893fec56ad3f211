"""How far the index has come along with its catalogue, and what that tells about what is still to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import sqlite3

    from ibi.archive.ledgers.numbered import Standing

_STATE: Final = "SELECT built, through, last_name, told, told_items, again FROM state"
_FORGET: Final = "DELETE FROM state"
_KEEP: Final = "INSERT INTO state VALUES (?, ?, ?, ?, ?, ?)"


class State(NamedTuple):
    """How far the index has come.

    `built`: the last item when it began; `through`: up to which item all are in, and its name;
    `told`: up to which event all are in, and what the last item was then, None where only some events of a look are
    in; `again`: up to which item events have been counted and compared, None if nothing needs that.
    """

    built: int
    through: int
    last_name: str
    told: int
    told_items: int | None
    again: int | None

    @classmethod
    def read(cls, database: sqlite3.Connection) -> State | None:
        """What the index says of itself, None for one that has just been begun."""
        row = database.execute(_STATE).fetchone()
        return cls(*row) if row else None

    def keep(self, database: sqlite3.Connection) -> None:
        """Write it down."""
        database.execute(_FORGET)
        database.execute(_KEEP, self)

    def is_at(self, standing: Standing) -> bool:
        """Whether all that has happened to the catalogue is in."""
        told = (self.told, self.told_items) == (standing.events, standing.items)
        return told and self.through == standing.items and self.again is None

    def having_heard(self, standing: Standing) -> State:
        """No feed needs to be read where all events since were the first ones of new items.

        Each new item has its first event in the transaction in which it comes: so as many events as new items are
        these. Where some of the others are forgotten, all that is known has to be compared.
        """
        everything = self._replace(told=standing.events, told_items=standing.items)
        if self.told_items is not None and standing.events - self.told == standing.items - self.told_items:
            return everything
        if standing.oldest > self.told + 1:
            return everything._replace(again=0)
        return self
