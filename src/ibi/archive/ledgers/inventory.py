"""What an Archive holds, looked at as a whole: items by their state, originals that may go, copies that may lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.protocol.vocabulary import State

if TYPE_CHECKING:
    from ibi.archive.catalogue import Run

_LAGGING = (
    "SELECT count(*), min(copied.since) FROM copied JOIN item ON item.number = copied.item"
    " WHERE item.state = 'Copy' AND copied.since <> ''"
)
_ORIGINALS = (
    "SELECT name.name FROM item JOIN name ON name.item = item.number AND name.main"
    " WHERE item.state = 'Original' AND item.transferable = :transferable AND name.name > :after"
    " ORDER BY name.name LIMIT :most"
)
_PAGE = 500
_STATES = "SELECT state, count(*) FROM item GROUP BY state"


def states(run: Run) -> dict[State, int]:
    """How many items are in each state, 0 where none is."""
    found = {State(state): int(count) for state, count in run(_STATES).fetchall()}
    return {state: found.get(state, 0) for state in State}


def lagging(run: Run) -> tuple[int, str]:
    """How many copies are not known to equal their originals, and since when the first of them is not ("": none)."""
    count, since = run(_LAGGING).fetchone()
    return int(count), since or ""


def originals(run: Run, after: str, *, transferable: bool) -> list[str]:
    """Some canonical names, from the first one after `after`, of originals that may go, or must stay; [] at the end."""
    return [row[0] for row in run(_ORIGINALS, transferable, after, _PAGE).fetchall()]
