"""The items by their numbers, for whoever keeps something of his own about all of them and goes along with changes.

Numbers are given in the order in which items come, and none is ever given twice.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.rows import ITEM_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.archive.catalogue import Run
    from ibi.archive.holding import Holding

_COLUMNS: Final = ", ".join(f"item.{column}" for column in ITEM_COLUMNS)
_STANDING: Final = (
    "SELECT (SELECT coalesce(max(number), 0) FROM changed), (SELECT coalesce(min(number), 1) FROM changed),"
    " (SELECT coalesce(max(number), 0) FROM item)"
)
_EVENTS: Final = "(SELECT coalesce(max(number), 0) FROM event WHERE event.item = item.number)"
_FACTS: Final = (
    f"item.number, {_EVENTS},"  # noqa: S608 - made of our own column names
    " (SELECT moment FROM event WHERE event.item = item.number ORDER BY number DESC LIMIT 1),"
    " coalesce(item.rep, item.ibip), item.state, item.content_type, item.timestamp, item.language, item.metadata,"
    " item.metadata_item, item.access, item.embargo, item.url IS NOT NULL OR item.file_count > 0"
)
_AFTER: Final = f"SELECT {_FACTS} FROM item WHERE item.number > :after ORDER BY item.number LIMIT :most"  # noqa: S608 - made of our own column names
_SOME: Final = f"SELECT {_FACTS} FROM json_each(:numbers) AS wanted JOIN item ON item.number = wanted.value"  # noqa: S608 - made of our own column names
_COUNTS: Final = (
    f"SELECT item.number, {_EVENTS} FROM item WHERE item.number > :after ORDER BY item.number LIMIT :most"  # noqa: S608 - made of our own column names
)
_CHANGED: Final = "SELECT DISTINCT item FROM changed WHERE number > :after AND number <= :last ORDER BY item"
_WHOLE: Final = (
    f"SELECT item.number, {_COLUMNS} FROM json_each(:numbers) AS wanted"  # noqa: S608 - made of our own column names
    " JOIN item ON item.number = wanted.value"
)
_NAME: Final = "SELECT coalesce(rep, ibip) FROM item WHERE number = :number"


class Standing(NamedTuple):
    """Where a catalogue stands at one moment: the last event (0: none), the oldest still told, the last item."""

    events: int
    oldest: int
    items: int


class Facts(NamedTuple):
    """What lists tell of an item. `events`: how many it has had, `moment`: that of the last, None without any.

    `name`: the main one, as spelled; `metadata`: Dublin Core as JSON, or None; `metadata_item`: the forms of the item
    that tells its metadata, or None; `has_data`: whether it has files, or lives at a URL.
    """

    number: int
    events: int
    moment: str | None
    name: str
    state: str
    content_type: str
    timestamp: str
    language: str | None
    metadata: str | None
    metadata_item: str | None
    access: str
    embargo: str | None
    has_data: bool


def standing(run: Run) -> Standing:
    """Where the catalogue stands."""
    return Standing(*run(_STANDING).fetchone())


def facts_after(run: Run, after: int, most: int) -> list[Facts]:
    """Some items in the order of their numbers, from the first one after `after`; [] at the end."""
    return [Facts(*row) for row in run(_AFTER, after, most).fetchall()]


def facts_of(run: Run, numbers: Iterable[int]) -> list[Facts]:
    """The items of these numbers, in any order."""
    return [Facts(*row) for row in run(_SOME, json.dumps(list(numbers))).fetchall()]


def event_counts(run: Run, after: int, most: int) -> list[tuple[int, int]]:
    """(number, how many events) of some items, from the first one after `after`; [] at the end."""
    return [(number, count) for number, count in run(_COUNTS, after, most).fetchall()]


def changed(run: Run, after: int, last: int) -> list[int]:
    """The numbers of the items that had an event after this one, up to the last: as far as that is still known."""
    return [row[0] for row in run(_CHANGED, after, last).fetchall()]


def name_of(run: Run, number: int) -> str | None:
    """The main name of the item of this number, as spelled; None if there is none."""
    row = run(_NAME, number).fetchone()
    return row[0] if row else None


def holdings(run: Run, numbers: Iterable[int]) -> dict[int, Holding]:
    """All facts of the items of these numbers, by number; what there is not is left out."""
    found = run(_WHOLE, json.dumps(list(numbers))).fetchall()
    return {row[0]: run.whole(row) for row in found}
