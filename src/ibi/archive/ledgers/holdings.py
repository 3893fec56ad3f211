"""The names that an Archive answers for, those of removed items too: what its holdings filter is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ibi.archive.catalogue import Run

_COUNT = "SELECT count(*) FROM name"
_PAGE = "SELECT name FROM name WHERE name > :after ORDER BY name LIMIT :most"


def count(run: Run) -> int:
    """How many names there are. No name ever goes, so as long as this is the same number, they are the same."""
    return int(run(_COUNT).fetchone()[0])


def page(run: Run, after: str, most: int) -> list[str]:
    """Some canonical names, from the first one after `after`; [] at the end."""
    return [row[0] for row in run(_PAGE, after, most).fetchall()]
