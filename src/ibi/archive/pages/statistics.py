"""The usage statistics of an Archive, for pages, commands and the JSON interface.

A line covers one month and country: {"month": "2026-11", "country": "BR", "investigations": 12,
"unique_investigations": 9, "requests": 5, "unique_requests": 4}. `country` is absent if it is not known;
`ibi` is present if a report lists each item.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ibi.api.routes import Route, answer, in_thread
from ibi.archive.store.tables import usage
from ibi.archive.store.tables.usage import UsageCounts, UsagePosition
from ibi.errors import ParseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ibi.api.routes import Call
    from ibi.archive.model.item import Holding
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.usage import UsageRow
    from ibi.http.response import Response

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
