"""The list of items in the administration: in an order, narrowed down, page by page, and as CSV.

Each page costs a bounded amount: at most MOST_LOOKED_AT items are looked at for it.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

from ibi.archive.model.item import Access
from ibi.archive.search import search as looking
from ibi.archive.search.words import MOST_PAGES, search_query
from ibi.archive.store.tables import listings
from ibi.archive.store.tables.listings import ItemStanding
from ibi.http.response import NO_STORE, Response
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ibi.archive.model.item import Holding
    from ibi.archive.search.index import SearchIndex
    from ibi.archive.store.tables.catalogue import Catalogue

PAGE: Final = 25
"""Items on one page: with many more, a page would weigh more than 30 KB with its style sheets."""
MOST_LOOKED_AT: Final = 20_000
"""Items that are looked at for one page; if too few of them are wanted, the page is short and leads on."""
MOST_EXPORTED: Final = 10_000
"""Items in one CSV file."""
ORDERS: Final = ("-added", "added", "-changed", "changed", "name", "-name")
"""The orders of a list, the usual one first; "-" begins the reverse ones."""
COLUMNS: Final = (
    "name",
    "title",
    "people",
    "kind",
    "language",
    "state",
    "access",
    "embargo",
    "added",
    "changed",
)
"""The columns of a list as CSV."""

_BLOCK: Final = 500
_LAST: Final = 1 << 62
_MOST_DIGITS: Final = 18  # digits of a row number in the query, which always fit into an integer of SQLite
_LONGEST: Final = 512  # characters of a field of the query
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_FILE: Final = ("content-disposition", 'attachment; filename="items.csv"')


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """Which items are listed. `text`: words; "" is no condition; `after`: the place where the page begins."""

    text: str = ""
    state: str = ""
    access: str = ""
    order: str = ORDERS[0]
    after: str = ""

    @classmethod
    def read(cls, values: Mapping[str, str]) -> ItemQuery:
        """Make a query of decoded parameters; unknown values are no conditions."""

        def one_of(name: str, known: Sequence[str], usual: str) -> str:
            return values[name] if values.get(name) in known else usual

        return cls(
            values.get("name", "").strip()[:_LONGEST],
            one_of("state", [each.value for each in ItemState], ""),
            one_of("access", [each.value for each in Access], ""),
            one_of("order", ORDERS, ORDERS[0]),
            values.get("after", "")[:_LONGEST],
        )

    @property
    def is_narrow(self) -> bool:
        """Whether some items are left out."""
        return bool(self.text or self.state or self.access)

    def query_string(self, **changes: str) -> str:
        """Return the query of a URL, "?name=...", with these changes; "" for the whole list."""
        new = replace(self, **changes)
        values = {"name": new.text, "state": new.state, "access": new.access, "after": new.after}
        values |= {} if new.order == ORDERS[0] else {"order": new.order}
        text = urlencode({name: value for name, value in values.items() if value})
        return f"?{text}" if text else ""


class ListedItem(NamedTuple):
    """One item of a list."""

    holding: Holding
    standing: ItemStanding


@dataclass(frozen=True, slots=True)
class ItemsPage:
    """A page of the list; `after`: where the next one begins, "" at the end."""

    items: Sequence[ListedItem]
    query: ItemQuery = ItemQuery()
    after: str = ""

    @property
    def wanted(self) -> str:
        """The words or the name that were typed."""
        return self.query.text


class ItemList:
    """Lists the items of a catalogue; `index` finds words, and knows the order of changes."""

    def __init__(self, catalogue: Catalogue, index: SearchIndex) -> None:
        self._catalogue = catalogue
        self._index = index

    def page(self, query: ItemQuery, most: int = PAGE) -> ItemsPage:
        """Return one page. Raises ParseError, SetupError; IndexNotReady if the order or the words need the index."""
        found: list[int] = []
        after, looked_at = "", 0
        for block in self._blocks(query):
            with self._catalogue.reading() as run:
                chosen = listings.choose(run, [number for _, number in block], query.state, query.access)
            for key, number in block:
                if len(found) == most:
                    return self._shown(found, query, after)
                after = key
                if number in chosen:
                    found.append(number)
            looked_at += len(block)
            if looked_at >= MOST_LOOKED_AT:
                return self._shown(found, query, after)
        return self._shown(found, query, "")

    def csv(self, query: ItemQuery) -> Response:
        """Return the first MOST_EXPORTED items of a list as a file to save. Raises like `page`."""
        items, after = list[ListedItem](), query.after
        while len(items) < MOST_EXPORTED:
            page = self.page(replace(query, after=after), _BLOCK)
            items += page.items
            after = page.after
            if not after:
                break
        return csv_file(items)

    def of(self, numbers: Sequence[int]) -> list[ListedItem]:
        """Return the items of these numbers, in this order, without unknown ones."""
        with self._catalogue.reading() as run:
            held, standing = listings.holdings(run, numbers), listings.standings(run, numbers)
        return [ListedItem(held[each], standing[each]) for each in numbers if each in held]

    def _shown(self, numbers: Sequence[int], query: ItemQuery, after: str) -> ItemsPage:
        return ItemsPage(self.of(numbers), query, after)

    def _blocks(self, query: ItemQuery) -> Iterator[list[tuple[str, int]]]:
        """Yield (place, number) of items in order, block by block; a page after the item begins at its place."""
        if query.text:
            return self._with_words(query)
        return self._by_change(query) if "changed" in query.order else self._in_order(query)

    def _in_order(self, query: ItemQuery) -> Iterator[list[tuple[str, int]]]:
        after: str | int = query.after
        if "added" in query.order:
            number = row_number(query.after)
            after = number if number is not None else _LAST if query.order == "-added" else 0
        elif query.order == "-name":
            after = after or chr(0x10FFFF)
        while True:
            with self._catalogue.reading() as run:
                block = listings.numbers_in_order(run, query.order, after, _BLOCK)
            yield block
            if len(block) < _BLOCK:
                return
            after = block[-1][1] if "added" in query.order else block[-1][0]

    def _by_change(self, query: ItemQuery) -> Iterator[list[tuple[str, int]]]:
        latest_first = query.order == "-changed"
        stamp, number = map(row_number, query.after.partition(".")[::2])
        after = (_LAST, 0) if latest_first else (0, 0)
        if stamp is not None and number is not None:
            after = stamp, number
        while True:
            block = looking.numbers_by_change(self._index, after, _BLOCK, latest_first=latest_first)
            yield [(f"{changed}.{item}", item) for changed, item in block]
            if len(block) < _BLOCK:
                return
            after = block[-1]

    def _with_words(self, query: ItemQuery) -> Iterator[list[tuple[str, int]]]:
        """Yield the items with these words, the best first; the place is the number of items before it."""
        done = row_number(query.after) or 0
        place = 0
        wanted = search_query({"text": query.text})
        for _ in range(MOST_PAGES):
            found = looking.search(self._index, wanted)
            block = [(str(place + at), each.number) for at, each in enumerate(found.entries, 1)]
            place += len(block)
            yield [each for each in block if int(each[0]) > done]
            if found.next is None:
                return
            wanted = found.next


def row_number(text: str) -> int | None:
    """Return a number that a row of a table can have; None for any other text, also for a number that is too large."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def csv_file(items: Sequence[ListedItem]) -> Response:
    """Write items as CSV (RFC 4180), to be saved."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(map(_row, items))
    # With a byte order mark, because spreadsheets would else take UTF-8 for something else.
    body = text.getvalue().encode("utf-8-sig", "replace")
    return Response(200, body, "text/csv; charset=utf-8", (_FILE, *NO_STORE))


def _row(each: ListedItem) -> list[str]:
    holding, values = each.holding, each.holding.metadata or {}

    def texts(element: str) -> str:
        return "; ".join(value for value, _ in values.get(element, ()))

    title = next((value for value, _ in values.get("title", ())), "")
    access = "" if holding.deleted else holding.access.value
    row = [
        str(holding.forms.main),
        title,
        texts("creator"),
        texts("type"),
        holding.language or "",
        holding.state.value,
        access,
        holding.embargo,
        each.standing.added,
        each.standing.changed,
    ]
    return [_inert(text) for text in row]


def _inert(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
