"""The usage statistics of an Archive, for pages, commands and the JSON interface.

A line covers one month and country: {"month": "2026-11", "country": "BR", "investigations": 12,
"unique_investigations": 9, "requests": 5, "unique_requests": 4}. `country` is absent if it is not known;
`ibi` is present if a report lists each item.

`UsageReports` sums the last twelve months up for readers: it reads every line of them, so it does so in a thread,
and at most once in `USAGE_SECONDS`.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest
from typing import TYPE_CHECKING, Any, Final

from ibi.api.routes import Route, answer, in_thread
from ibi.archive.model.access import day_of
from ibi.archive.search.search import kinds_of
from ibi.archive.store.tables import usage
from ibi.archive.store.tables.usage import UsageCounts, UsagePosition
from ibi.errors import ParseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ibi.api.routes import Call
    from ibi.archive.model.item import Holding
    from ibi.archive.search.index import SearchIndex
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.usage import ItemUsage, UsageRow
    from ibi.http.response import Response

USAGE_SECONDS: Final = 600.0
"""Seconds after which pages read the numbers of visits again; sooner, each visit would change all pages."""

MONTHS: Final = 12
"""Months that pages show."""

MOST_READ: Final = 20
"""Items of a report that were read most; some of them may have been removed since."""

_MONTH = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])")
_EARLIEST, _LATEST = "0000-01", "9999-12"

_COUNT: Final = {"type": "integer", "minimum": 0}
_LINE: Final = {
    "type": "object",
    "required": ["month", *UsageCounts._fields],
    "properties": {
        "month": {"type": "string", "pattern": r"^\d{4}-\d{2}$"},
        "country": {"type": "string", "pattern": "^[A-Z]{2}$"},
        **dict.fromkeys(UsageCounts._fields, _COUNT),
    },
}
_REPORT: Final = {
    "type": "object",
    "required": ["months"],
    "properties": {"ibi": {"type": "string"}, "months": {"type": "array", "items": _LINE}},
}
_PERIOD: Final = {
    "from": {"type": "string", "description": "the first month: 2026-01"},
    "to": {"type": "string", "description": "the last month: 2026-12"},
}


class Statistics:
    """The statistics of one Archive between two months ("2026-01"; "" for no bound). Raises ParseError."""

    def __init__(self, catalogue: Catalogue, first: str = "", last: str = "") -> None:
        self._catalogue = catalogue
        self._first = _month(first, _EARLIEST)
        self._last = _month(last, _LATEST)

    def of_item(self, holding: Holding) -> list[UsageRow]:
        """Return the lines of one item."""
        with self._catalogue.reading() as run:
            name = str(holding.forms.main)
            return usage.usage_by_month(run, holding.number, name, self._first, self._last)

    def of_all(self) -> list[UsageRow]:
        """Return the lines of all items together."""
        with self._catalogue.reading() as run:
            return usage.usage_by_month(run, None, "", self._first, self._last)

    def of_each(self) -> Iterator[UsageRow]:
        """Yield the lines of every visited item, item by item; they are read page by page."""
        place = UsagePosition()
        while True:
            with self._catalogue.reading() as run:
                page = list(usage.usage_page(run, place, self._first, self._last))
            if not page:
                return
            yield from (line for _, line in page)
            place = page[-1][0]


@lru_cache(maxsize=2)  # each page of an item shows them
def last_months(day: str) -> tuple[str, ...]:
    """Return the last twelve months, the one of a day ("2026-11-28") last: "2025-12" to "2026-11"."""
    present = int(day[:4]) * 12 + int(day[5:7]) - 1
    return tuple(f"{n // 12:04}-{n % 12 + 1:02}" for n in range(present - MONTHS + 1, present + 1))


@dataclass(frozen=True, slots=True)
class UsageReport:
    """How the items of an Archive were used in the last twelve months.

    `months`: from the first with visits to the present one, which has not ended; `read`: how many items were
    looked at or fetched; `most_read`: the most fetched first; `kinds`: fetches by kind, the largest first.
    """

    months: tuple[tuple[str, UsageCounts], ...] = ()
    views: int = 0
    downloads: int = 0
    read: int = 0
    most_read: tuple[ItemUsage, ...] = ()
    kinds: tuple[tuple[str, int], ...] = ()

    @property
    def is_chart(self) -> bool:
        """Whether there are enough months for a chart."""
        return len(self.months) >= LEAST_MONTHS


LEAST_MONTHS: Final = 3
"""Months with visits before a chart says more than figures."""


class UsageReports:
    """The last report on one Archive. `now` returns POSIX seconds; the kinds of items are read from `index`."""

    def __init__(self, catalogue: Catalogue, index: SearchIndex, now: Callable[[], float]) -> None:
        self._catalogue = catalogue
        self._index = index
        self._now = now
        self._read_at = 0.0
        self.latest: UsageReport | None = None
        """The last report, None before the first."""

    @property
    def is_old(self) -> bool:
        """Whether it is time for another report."""
        return self.latest is None or not 0 <= self._now() - self._read_at < USAGE_SECONDS

    def report(self) -> UsageReport:
        """Return a report that is not old. Raises SetupError. It may take a while with very many visits."""
        report = self.latest
        if report is None or self.is_old:
            read_at = self._now()
            report = self.latest = self._read(day_of(read_at))
            self._read_at = read_at
        return report

    def _read(self, day: str) -> UsageReport:
        every = last_months(day)
        first, last = every[0], every[-1]
        with self._catalogue.reading() as run:
            months = by_month(usage.usage_by_month(run, None, "", first, last))
        views = downloads = read = after = 0
        most: list[ItemUsage] = []
        kinds: Counter[str] = Counter()
        while True:
            # Page by page, so that the catalogue is not locked, and other threads come in between.
            with self._catalogue.reading() as run:
                page = usage.usage_of_items(run, after, first, last)
            if not page:
                break
            after = page[-1].number
            read += len(page)
            views += sum(each.views for each in page)
            downloads += sum(each.downloads for each in page)
            most = nlargest(
                MOST_READ, [*most, *page], key=lambda each: (each.downloads, each.views, -each.number)
            )
            kinds.update(self._kinds(page))
        shown = tuple(
            (month, months.get(month, UsageCounts())) for month in every if month >= min(months, default="")
        )
        return UsageReport(
            shown if months else (), views, downloads, read, tuple(most), tuple(kinds.most_common())
        )

    def _kinds(self, page: list[ItemUsage]) -> Counter[str]:
        """Add up the fetches of items by their kinds; of items that are not in the index, none."""
        fetched = {each.number: each.downloads for each in page if each.downloads}
        counts: Counter[str] = Counter()
        if fetched:
            for number, kind in kinds_of(self._index, list(fetched)).items():
                counts[kind] += fetched[number]
        return counts


def write_csv(lines: Iterable[UsageRow]) -> bytes:
    """Write lines as CSV: a header, then month, country and the four figures of each."""
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(("month", "country", *UsageCounts._fields))
    rows.writerows((line.month, line.country, *line.counts) for line in lines)
    return text.getvalue().encode()


def by_month(lines: Iterable[UsageRow]) -> dict[str, UsageCounts]:
    """Add up all countries of a month."""
    months: dict[str, UsageCounts] = {}
    for line in lines:
        months[line.month] = months.get(line.month, UsageCounts()).plus(line.counts)
    return months


def usage_json(line: UsageRow) -> dict[str, Any]:
    """Return a line as a JSON object."""
    named = {"ibi": line.item, "month": line.month, "country": line.country}
    return {name: value for name, value in named.items() if value} | line.counts._asdict()


def routes(catalogue: Catalogue) -> tuple[Route, ...]:
    """Return the routes of the JSON interface for the statistics of an item, and of all items together."""

    def requested(call: Call) -> Statistics:
        return Statistics(catalogue, call.query.get("from", ""), call.query.get("to", ""))

    def of_item(call: Call, _body: Any) -> Response:
        statistics = requested(call)
        holding = catalogue.settled(call.name)
        lines = [usage_json(line._replace(item="")) for line in statistics.of_item(holding)]
        return answer({"ibi": str(holding.forms.main), "months": lines})

    def of_all(call: Call, _body: Any) -> Response:
        return answer({"months": [usage_json(line) for line in requested(call).of_all()]})

    return (
        Route(
            "GET", "/items/<ibi>/statistics", None, in_thread(of_item), "how often an item was visited, by month",
            gives=_REPORT, query=_PERIOD, refusals=(404, 422),
        ),
        Route(
            "GET", "/statistics", None, in_thread(of_all), "how often all items were visited, by month",
            gives=_REPORT, query=_PERIOD, refusals=(422,),
        ),
    )  # fmt: skip


def _month(text: str, otherwise: str) -> str:
    if text and not _MONTH.fullmatch(text):
        raise ParseError("month", text, "a month is written like 2026-01")
    return text or otherwise
