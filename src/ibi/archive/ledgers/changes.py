"""Which items had events of late, in the order in which these were committed; a trigger on the history writes it.

Only the last 10,000 are kept. The history itself is kept by item and by clock, and neither tells what is new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ibi.archive.catalogue import Run

_NEWEST = "SELECT coalesce(max(number), 0) FROM changed"
_OLDEST = "SELECT coalesce(min(number), 1) FROM changed"
_NAMES = (
    "SELECT DISTINCT name.name FROM changed JOIN name ON name.item = changed.item"
    " WHERE changed.number > :after AND changed.number <= :last LIMIT :most"
)


def newest(run: Run) -> int:
    """The number of the last event, 0 before the first."""
    return int(run(_NEWEST).fetchone()[0])


def names(run: Run, after: int, last: int, most: int) -> list[str] | None:
    """The canonical names of the items with an event after this one, up to the last; None if they are too many.

    None too where not all events since are known any more.
    """
    if run(_OLDEST).fetchone()[0] > after + 1:
        return None
    found = [row[0] for row in run(_NAMES, after, last, most + 1).fetchall()]
    return found if len(found) <= most else None
