"""How often items were looked at and fetched, by month and country; and what must not be counted twice.

What must not be counted twice is remembered as marks, out of which nobody can read who the reader was, and for an
hour at most. The key that makes them is of one day, and forgotten after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.archive.catalogue import Run

_KEY = "SELECT content FROM visit_key WHERE day = :day"
_MAKE_KEY = "INSERT INTO visit_key (day, content) VALUES (:day, :content) ON CONFLICT DO NOTHING"
_FORGET_KEYS = "DELETE FROM visit_key WHERE day < :day"
_UNTIL = "SELECT until FROM visit_mark WHERE mark = :mark"
_MARK = (
    "INSERT INTO visit_mark (mark, until) VALUES (:mark, :until)"
    " ON CONFLICT (mark) DO UPDATE SET until = excluded.until WHERE excluded.until > visit_mark.until"
)
_FORGET_KEY = "DELETE FROM visit_key WHERE NOT EXISTS (SELECT 1 FROM visit_mark)"
_FORGET_MARKS = "DELETE FROM visit_mark WHERE until < :now"
_REMEMBERED = "SELECT 1 FROM visit_mark WHERE until < :now LIMIT 1"
_COUNT = (
    "INSERT INTO visits (item, month, country, investigations, unique_investigations, requests, unique_requests)"
    " VALUES (:item, :month, :country, :investigations, :unique_investigations, :requests, :unique_requests)"
    " ON CONFLICT (item, month, country) DO UPDATE SET"
    " investigations = visits.investigations + excluded.investigations,"
    " unique_investigations = visits.unique_investigations + excluded.unique_investigations,"
    " requests = visits.requests + excluded.requests,"
    " unique_requests = visits.unique_requests + excluded.unique_requests"
)
_COUNT_LINKED = (
    "INSERT INTO visits (item, month, country, investigations, unique_investigations, requests, unique_requests)"
    " SELECT number, :month, '', :investigations, :unique_investigations, :requests, :unique_requests"
    " FROM item WHERE number = :number AND url IS NOT NULL"
    " ON CONFLICT (item, month, country) DO UPDATE SET"
    " investigations = visits.investigations + excluded.investigations,"
    " unique_investigations = visits.unique_investigations + excluded.unique_investigations"
)
_SUMS = "sum(investigations), sum(unique_investigations), sum(requests), sum(unique_requests)"
_OF_ITEM = (
    f"SELECT month, country, {_SUMS} FROM visits WHERE item = :item AND month BETWEEN :first AND :last"  # noqa: S608 - made of our own column names
    " GROUP BY month, country ORDER BY month, country"
)
_OF_ALL = (
    f"SELECT month, country, {_SUMS} FROM visits WHERE month BETWEEN :first AND :last"  # noqa: S608 - made of our own column names
    " GROUP BY month, country ORDER BY month, country"
)
_OF_EACH = (
    "SELECT item.number, coalesce(item.rep, item.ibip), visits.month, visits.country, investigations,"
    " unique_investigations, requests, unique_requests"
    " FROM visits JOIN item ON item.number = visits.item"
    " WHERE (visits.item, visits.month, visits.country) > (:number, :month, :country)"
    " AND visits.month BETWEEN :first AND :last ORDER BY visits.item, visits.month, visits.country LIMIT :most"
)
_PAGE = 1000


class Counts(NamedTuple):
    """Four figures of COUNTER. Of requests each is an investigation too."""

    investigations: int = 0
    unique_investigations: int = 0
    requests: int = 0
    unique_requests: int = 0

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(*map(sum, zip(self, other, strict=True)))


class Line(NamedTuple):
    """The figures of one month ("2026-11") and country ("BR"; "" where none is told); `item` is its main name."""

    item: str
    month: str
    country: str
    counts: Counts


def key_of(run: Run, day: str, fresh: bytes) -> bytes:
    """The key of a day ("2026-11-21"): the first one that any process proposed; those of earlier days are gone."""
    run(_FORGET_KEYS, day)
    run(_MAKE_KEY, day, fresh)
    return bytes(run(_KEY, day).fetchone()[0])


def until(run: Run, mark: bytes) -> float:
    """Until when a mark holds (POSIX seconds); 0 if it is not known."""
    row = run(_UNTIL, mark).fetchone()
    return float(row[0]) if row else 0.0


def remember(run: Run, mark: bytes, end: float) -> None:
    """Let a mark hold until a moment."""
    run(_MARK, mark, end)


def forget(run: Run, now: float) -> None:
    """Forget the marks that hold no more, and with the last of them the key that made them."""
    run(_FORGET_MARKS, now)
    run(_FORGET_KEY)


def has_old(run: Run, now: float) -> bool:
    """Whether there are marks to forget."""
    return run(_REMEMBERED, now).fetchone() is not None


def count(run: Run, item: int, month: str, country: str, counts: Counts) -> None:
    """Add to the figures of an item."""
    run(_COUNT, item, month, country, *counts)


def count_linked(run: Run, item: int, month: str, counts: Counts) -> None:
    """Add to the figures of an item, but only if it lives elsewhere."""
    run(_COUNT_LINKED, month, *counts, item)


def of_item(run: Run, item: int, name: str, first: str, last: str) -> list[Line]:
    """The figures of an item, from one month to another."""
    rows = run(_OF_ITEM, item, first, last).fetchall()
    return [Line(name, row[0], row[1], Counts(*row[2:])) for row in rows]


def of_all(run: Run, first: str, last: str) -> list[Line]:
    """The figures of all items together."""
    return [Line("", row[0], row[1], Counts(*row[2:])) for row in run(_OF_ALL, first, last).fetchall()]


class Place(NamedTuple):
    """Where a page of lines ended."""

    number: int = 0
    month: str = ""
    country: str = ""


def page_of_each(run: Run, after: Place, first: str, last: str) -> Iterator[tuple[Place, Line]]:
    """The next lines after a place, item by item; none when there are no more."""
    for number, name, month, country, *counts in run(_OF_EACH, *after, first, last, _PAGE).fetchall():
        yield Place(number, month, country), Line(name, month, country, Counts(*counts))
