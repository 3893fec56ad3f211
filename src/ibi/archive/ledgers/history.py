"""The history of items: who did what, and when. Nothing is ever taken out of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ibi.archive.catalogue import Run

_ADD = (
    "INSERT INTO event (item, number, moment, who, what, detail)"
    " SELECT :item, coalesce(max(number), 0) + 1, :moment, :who, :what, :detail FROM event WHERE item = :item"
)
_EVENTS = "SELECT moment, who, what, detail FROM event WHERE item = :item ORDER BY number"


class Event(NamedTuple):
    """Something that happened to an item.

    `moment`: "2026-11-21T23:26:40Z"; `what`: one word such as "deposited"; `detail`: whatever belongs to it.
    """

    moment: str
    who: str
    what: str
    detail: dict[str, Any]


def add(run: Run, item: int, event: Event) -> None:
    """Write down an event of the item of this number."""
    detail = json.dumps(event.detail, ensure_ascii=False, separators=(",", ":")) if event.detail else None
    run(_ADD, item, event.moment, event.who, event.what, detail, item)


def events_of(run: Run, item: int) -> list[Event]:
    """What happened to the item of this number, oldest first."""
    rows = run(_EVENTS, item).fetchall()
    return [Event(moment, who, what, json.loads(detail or "{}")) for moment, who, what, detail in rows]
