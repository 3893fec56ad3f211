"""The history of items (who did what, and when; nothing is ever deleted), and the feed of all events.

Each event is also a change in `change_log`, in the order in which events were committed, and keeps its number there
(`event.feed`), so that a follower who was away for long misses none. The history itself is ordered by item, and does
not show what is new.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ibi.archive.store.tables import change_log
from ibi.archive.store.tables.rows import write_json

if TYPE_CHECKING:
    from ibi.archive.store.tables.catalogue import SqlRunner


_ADD = (
    "INSERT INTO event (item, number, moment, who, what, detail, feed)"
    " SELECT :item, coalesce(max(number), 0) + 1, :moment, :who, :what, :detail, :feed FROM event"
    " WHERE item = :item"
)
_EVENTS = "SELECT moment, who, what, detail FROM event WHERE item = :item ORDER BY number"


class ItemEvent(NamedTuple):
    """Something that happened to an item.

    `moment`: "2026-11-21T23:26:40Z"; `what`: one word such as "deposited"; `detail`: further facts about it.
    """

    moment: str
    who: str
    what: str
    detail: dict[str, Any]


def add_event(run: SqlRunner, item: int, event: ItemEvent) -> None:
    """Add an event to the history of the item of this number, and log that the item has changed."""
    detail, feed = write_json(event.detail), change_log.log_changes(run, [item])[0]
    run(_ADD, item=item, moment=event.moment, who=event.who, what=event.what, detail=detail, feed=feed)


def events_of(run: SqlRunner, item: int) -> list[ItemEvent]:
    """Return the history of the item of this number, oldest event first."""
    rows = run(_EVENTS, item=item).fetchall()
    return [ItemEvent(moment, who, what, json.loads(detail or "{}")) for moment, who, what, detail in rows]


_RECENT = "SELECT item FROM event WHERE feed IS NOT NULL ORDER BY feed DESC LIMIT :most"
_REMOVED = (
    "SELECT name.name FROM json_each(:names) AS wanted JOIN name ON name.name = wanted.value"
    " JOIN item ON item.number = name.item WHERE item.state = 'Deleted'"
)


def recent_items(run: SqlRunner, most: int) -> set[int]:
    """Return the numbers of the items of the last `most` events."""
    return {row[0] for row in run(_RECENT, most=most).fetchall()}


def removed_names(run: SqlRunner, names: list[str]) -> list[str]:
    """Return which of these canonical names belong to removed items."""
    return [row[0] for row in run(_REMOVED, names=json.dumps(names)).fetchall()]


_FEED = "SELECT feed, item, number, moment, what, detail FROM event"
_FEED_AFTER = f"{_FEED} WHERE feed > :after ORDER BY feed LIMIT :most"
_FEED_AT = f"{_FEED} WHERE feed = :at"
_FEED_NOW = f"SELECT coalesce(({change_log.LAST_FEED}), 0), coalesce((SELECT max(number) FROM item), 0) + 1"  # noqa: S608 - our own words
_ITEMS_BELOW = "SELECT number FROM item WHERE number < :below ORDER BY number DESC LIMIT :most"


class FeedEvent(NamedTuple):
    """An event in the feed of all changes: its number there, the number of its item, its number there."""

    feed: int
    item: int
    number: int
    moment: str
    what: str
    detail: str | None


def feed_now(run: SqlRunner) -> tuple[int, int]:
    """Return the number of the last event in the feed, and a number above those of all items that it tells of."""
    last, below = run(_FEED_NOW).fetchone()
    return last, below


def feed_at(run: SqlRunner, at: int) -> FeedEvent | None:
    """Return the event of this number in the feed; None if there is none."""
    row = run(_FEED_AT, at=at).fetchone()
    return FeedEvent(*row) if row else None


def feed_after(run: SqlRunner, after: int, most: int) -> list[FeedEvent]:
    """Return the next events in the order in which they were committed; [] at the end."""
    return [FeedEvent(*row) for row in run(_FEED_AFTER, after=after, most=most).fetchall()]


def items_below(run: SqlRunner, below: int, most: int) -> list[int]:
    """Return the next numbers of items, the newest item first; [] at the end."""
    return [row[0] for row in run(_ITEMS_BELOW, below=below, most=most).fetchall()]


# What happened in another Archive came with the item when it was handed over; it changed nothing here.
_HERE = "json_extract(event.detail, '$.archive') IS NULL"
_ENDS = (
    "SELECT coalesce((SELECT min(feed) FROM event WHERE feed IS NOT NULL), 0),"  # noqa: S608 - our own words
    f" coalesce(({change_log.LAST_FEED}), 0)"
)
_MOMENT_AFTER = f"SELECT moment FROM event WHERE feed > :after AND {_HERE} ORDER BY feed LIMIT 1"  # noqa: S608 - our own words
_BEFORE = (
    "EXISTS (SELECT 1 FROM event AS before WHERE before.item = event.item AND before.number < event.number"
)
_CHANGES_BETWEEN = (
    "SELECT coalesce(item.rep, item.ibip), event.moment, CASE WHEN event.what = 'removed' THEN 'deleted'"  # noqa: S608 - our own words
    f" WHEN {_BEFORE} AND json_extract(before.detail, '$.archive') IS NULL) THEN 'updated' ELSE 'created' END,"
    " CASE WHEN item.state = 'Deleted' THEN '' ELSE item.timestamp END"
    " FROM event JOIN item ON item.number = event.item"
    f" WHERE event.feed > :after AND event.feed <= :last AND {_HERE}"
    " AND item.content_type = 'Data' AND item.unsettled IS NULL AND coalesce(item.rep, item.ibip) <> :service"
    f" AND NOT (item.state = 'Deleted' AND {_BEFORE} AND before.what = 'removed'))"
    " ORDER BY event.feed"
)


class ListedChange(NamedTuple):
    """A change of an item: its main name, as spelled; the moment; "created", "updated" or "deleted".

    `modified`: the timestamp of the item as it is now, "" for a removed one.
    """

    name: str
    moment: str
    what: str
    modified: str


def feed_ends(run: SqlRunner) -> tuple[int, int]:
    """Return the numbers of the first and of the last event in the feed; (0, 0) if there is none."""
    first, last = run(_ENDS).fetchone()
    return int(first), int(last)


def moment_after(run: SqlRunner, after: int) -> str | None:
    """Return when the first event of this Archive behind number `after` of the feed was; None if there is none."""
    row = run(_MOMENT_AFTER, after=after).fetchone()
    return row[0] if row else None


def changes_between(run: SqlRunner, after: int, last: int, service: str) -> list[ListedChange]:
    """Return the changes of data items behind number `after` of the feed, up to number `last`, in their order.

    Left out are the service item of that name, items that are not settled, and what came after a removal.
    """
    rows = run(_CHANGES_BETWEEN, after=after, last=last, service=service).fetchall()
    return [ListedChange(*row) for row in rows]
