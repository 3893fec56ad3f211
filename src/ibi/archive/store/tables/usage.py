"""Usage: visits of items by month and country (COUNTER), and counted acknowledgments.

A visit that must not be counted twice leaves a fingerprint (a `visit_mark`) for at most an hour: a keyed hash that
does not reveal the reader. Each day has its own key, which is deleted after that day. See SVC-20: acknowledgments by
URL key; SVC-21: unguessable URL keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.archive.model.url_key import AcknowledgmentCount
    from ibi.archive.store.tables.catalogue import SqlRunner


_KEY = "SELECT content FROM visit_key WHERE day = :day"
_MAKE_KEY = "INSERT INTO visit_key (day, content) VALUES (:day, :content) ON CONFLICT DO NOTHING"
_FORGET_KEYS = "DELETE FROM visit_key WHERE day < :day"
_EXPIRY = "SELECT until FROM visit_mark WHERE mark = :fingerprint"
_SAVE_FINGERPRINT = (
    "INSERT INTO visit_mark (mark, until) VALUES (:fingerprint, :until)"
    " ON CONFLICT (mark) DO UPDATE SET until = excluded.until WHERE excluded.until > visit_mark.until"
)
_FORGET_KEY = "DELETE FROM visit_key WHERE NOT EXISTS (SELECT 1 FROM visit_mark)"
_DELETE_EXPIRED = "DELETE FROM visit_mark WHERE until < :now"
_ANY_EXPIRED = "SELECT 1 FROM visit_mark WHERE until < :now LIMIT 1"
_ADDED = (
    " ON CONFLICT (item, month, country) DO UPDATE SET"
    " investigations = visits.investigations + excluded.investigations,"
    " unique_investigations = visits.unique_investigations + excluded.unique_investigations,"
    " requests = visits.requests + excluded.requests,"
    " unique_requests = visits.unique_requests + excluded.unique_requests"
)
_COUNT = (
    "INSERT INTO visits (item, month, country, investigations, unique_investigations, requests, unique_requests)"  # noqa: S608 - made of our own column names
    f" VALUES (:item, :month, :country, :investigations, :unique_investigations, :requests, :unique_requests){_ADDED}"
)
_COUNT_LINKED = (
    "INSERT INTO visits (item, month, country, investigations, unique_investigations, requests, unique_requests)"  # noqa: S608 - made of our own column names
    " SELECT number, :month, '', :investigations, :unique_investigations, :requests, :unique_requests"
    f" FROM item WHERE number = :number AND url IS NOT NULL{_ADDED}"
)
_MONTHS = (
    "SELECT month, country, CAST(sum(investigations) AS BIGINT),"
    " CAST(sum(unique_investigations) AS BIGINT), CAST(sum(requests) AS BIGINT),"
    " CAST(sum(unique_requests) AS BIGINT)"
    " FROM visits WHERE month BETWEEN :first AND :last"
)
_BY_MONTH = " GROUP BY month, country ORDER BY month, country"
_OF_ITEM = f"{_MONTHS} AND item = :item{_BY_MONTH}"
_OF_ALL = f"{_MONTHS}{_BY_MONTH}"
_OF_EACH = (
    "SELECT item.number, coalesce(item.rep, item.ibip), visits.month, visits.country, investigations,"
    " unique_investigations, requests, unique_requests"
    " FROM visits JOIN item ON item.number = visits.item"
    " WHERE (visits.item, visits.month, visits.country) > (:number, :month, :country)"
    " AND visits.month BETWEEN :first AND :last ORDER BY visits.item, visits.month, visits.country LIMIT :most"
)
_OF_ITEMS = (
    "SELECT item, CAST(sum(investigations) AS BIGINT), CAST(sum(requests) AS BIGINT) FROM visits"
    " WHERE item > :after AND month BETWEEN :first AND :last GROUP BY item ORDER BY item LIMIT :most"
)
_PAGE = 1000


class UsageCounts(NamedTuple):
    """The four figures of COUNTER. Every request counts as an investigation, too."""

    investigations: int = 0
    unique_investigations: int = 0
    requests: int = 0
    unique_requests: int = 0

    def plus(self, other: UsageCounts) -> UsageCounts:
        """Return the sums of these figures and others."""
        return UsageCounts(*map(sum, zip(self, other, strict=True)))


class UsageRow(NamedTuple):
    """The figures of an item (its main name) in a month ("2026-11") and country ("BR", "" if unknown)."""

    item: str
    month: str
    country: str
    counts: UsageCounts


def key_of_day(run: SqlRunner, day: str, fresh: bytes) -> bytes:
    """Return the key of a day ("2026-11-21"), and delete the keys of earlier days.

    The first caller of a day stores its `fresh` key, so that all processes make the same fingerprints.
    """
    run(_FORGET_KEYS, day=day)
    run(_MAKE_KEY, day=day, content=fresh)
    return bytes(run(_KEY, day=day).fetchone()[0])


def fingerprint_expiry(run: SqlRunner, fingerprint: bytes) -> float:
    """Return when a fingerprint expires (POSIX seconds); 0 if it is unknown."""
    row = run(_EXPIRY, fingerprint=fingerprint).fetchone()
    return float(row[0]) if row else 0.0


def save_fingerprint(run: SqlRunner, fingerprint: bytes, end: float) -> None:
    """Record that a fingerprint expires at `end` (POSIX seconds), unless it expires later already."""
    run(_SAVE_FINGERPRINT, fingerprint=fingerprint, until=end)


def delete_expired_fingerprints(run: SqlRunner, now: float) -> None:
    """Delete the expired fingerprints; if none is left, delete their key, too."""
    run(_DELETE_EXPIRED, now=now)
    run(_FORGET_KEY)


def has_expired_fingerprints(run: SqlRunner, now: float) -> bool:
    """Return whether there are expired fingerprints."""
    return run(_ANY_EXPIRED, now=now).fetchone() is not None


def count_visits(run: SqlRunner, item: int, month: str, country: str, counts: UsageCounts) -> None:
    """Add to the figures of an item in a month and a country."""
    run(_COUNT, item=item, month=month, country=country, **counts._asdict())


def count_linked(run: SqlRunner, item: int, month: str, counts: UsageCounts) -> None:
    """Add to the figures of an item if it is linked; visits of other items are counted when served."""
    run(_COUNT_LINKED, number=item, month=month, **counts._asdict())


def usage_by_month(run: SqlRunner, item: int | None, name: str, first: str, last: str) -> list[UsageRow]:
    """Return the figures of an item, or of all items together (None), from month `first` to month `last`."""
    found = run(_OF_ALL if item is None else _OF_ITEM, item=item, first=first, last=last).fetchall()
    return [UsageRow(name, month, country, UsageCounts(*counts)) for month, country, *counts in found]


class UsagePosition(NamedTuple):
    """The last row of a page: the next page starts after it."""

    number: int = 0
    month: str = ""
    country: str = ""


def usage_page(
    run: SqlRunner, after: UsagePosition, first: str, last: str
) -> Iterator[tuple[UsagePosition, UsageRow]]:
    """Yield the next rows after a position, item by item; none at the end."""
    for number, name, month, country, *counts in run(
        _OF_EACH, **after._asdict(), first=first, last=last, most=_PAGE
    ).fetchall():
        yield UsagePosition(number, month, country), UsageRow(name, month, country, UsageCounts(*counts))


class ItemUsage(NamedTuple):
    """How often one item, by its number in the catalogue, was looked at and fetched."""

    number: int
    views: int
    downloads: int


def usage_of_items(run: SqlRunner, after: int, first: str, last: str) -> list[ItemUsage]:
    """Return the next visited items after the number `after`, in order, with their sums; [] at the end."""
    found = run(_OF_ITEMS, after=after, first=first, last=last, most=_PAGE).fetchall()
    return [ItemUsage(*row) for row in found]


ID_SECONDS: Final = 600
"""Seconds for which the id of an acknowledgment is known. Its key may live for a day, and bring thousands of them."""

_ADD_ONCE = "INSERT INTO thanked (url_key, expires) VALUES (:once, :expires) ON CONFLICT DO NOTHING"
_SO_FAR = "SELECT readers FROM thanked WHERE url_key = :total"
_ADD = (
    "INSERT INTO thanked (url_key, expires, readers) VALUES (:total, :expires, :readers)"
    " ON CONFLICT (url_key) DO UPDATE SET readers = thanked.readers + excluded.readers"
)
_COUNT_ACKNOWLEDGMENTS = "UPDATE item SET thanks = thanks + :readers WHERE number = :number"
_FORGET = "DELETE FROM thanked WHERE expires < :now"


def count_acknowledgments(run: SqlRunner, acknowledgment: AcknowledgmentCount, now: int) -> int:
    """Count an acknowledgment for its item; returns for how many readers it counted. `now`: POSIX seconds.

    0 if it was counted before, or its key has counted for as many readers as it may. Must run in a writing
    transaction, so that no other process counts meanwhile.
    """
    # The row with the sum of a key. No acknowledgment has this identity, because an event id has only digits.
    total = f"{acknowledgment.key} in all"
    found = run(_SO_FAR, total=total).fetchone()
    readers = min(acknowledgment.readers, acknowledgment.most - (found[0] if found else 0))
    # Who has no id, or is not trusted with one, counts once while the key lives.
    has_id = acknowledgment.once != acknowledgment.key
    known_until = min(acknowledgment.expires, now + ID_SECONDS) if has_id else acknowledgment.expires
    if readers < 1 or run(_ADD_ONCE, once=acknowledgment.once, expires=known_until).rowcount < 1:
        return 0
    run(_ADD, total=total, expires=acknowledgment.expires, readers=readers)
    run(_COUNT_ACKNOWLEDGMENTS, readers=readers, number=acknowledgment.number)
    return readers


def is_used_up(run: SqlRunner, acknowledgment: AcknowledgmentCount) -> bool:
    """Return whether the key of an acknowledgment has counted for as many readers as it may."""
    found = run(_SO_FAR, total=f"{acknowledgment.key} in all").fetchone()
    return found is not None and found[0] >= acknowledgment.most


def forget_acknowledgments(run: SqlRunner, now: int) -> None:
    """Delete the acknowledgments that expired before `now` (POSIX seconds): none of them is sent again."""
    run(_FORGET, now=now)
