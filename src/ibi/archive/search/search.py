"""Searches of the index, each at a bounded cost for any query and any number of items.

Items with all words in the title come first, then items with all words in title, people, subjects and year, then
all other items; in each group the newest first. The last word may be the beginning of a word, unless very
many items have that word itself, or very many words begin with it. Lists of a year or person: newest first.
Only a bounded number of found items is ordered by date or title; a search that finds more keeps the usual order.

A hit shows the present facts of the catalogue, even if the entry in the index is older.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from ibi.archive.search.index import COLUMNS, CpuBudget, SearchTooLong, entry
from ibi.archive.search.words import MOST_PAGES, NO_YEAR, PER_PAGE, fold, has_words, match_expression
from ibi.archive.store.tables import listings
from ibi.errors import ParseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ibi.archive.model.item import Holding, MetadataValue
    from ibi.archive.search.index import IndexEntry, SearchIndex
    from ibi.archive.search.words import SearchQuery
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.protocol.vocabulary import ItemState


LOOKED_AT: Final = PER_PAGE * MOST_PAGES
"""Items at most that are ranked, and counted by year, language, kind, person and subject."""

LONGEST_LOOK: Final = 0.25
"""Seconds of processor time for finding the items of one search."""
LONGEST_RANKING: Final = 0.1
"""Seconds of processor time for ranking them."""

_BETTER: Final = ("title", "title people subject")
_SORTED: Final = ("newest", "date", "title")
_LAST_TITLE: Final = chr(0x10FFFF)
FACETS: Final = ("year", "language", "kind", "person", "subject")
_MOST_VALUES: Final = 12  # values of a facet beside the results

_NEWEST: Final = (
    "SELECT rowid FROM words WHERE words MATCH :match AND rowid < :before ORDER BY rowid DESC LIMIT :most"
)
_ENTRIES: Final = f"SELECT {COLUMNS} FROM entry WHERE number IN (SELECT value FROM json_each(:numbers))"  # noqa: S608 - our own columns
_YEARS_OF: Final = "SELECT number, year FROM entry WHERE number IN (SELECT value FROM json_each(:numbers))"
_TITLES_OF: Final = (
    "SELECT rowid, substr(title, 1, 100) FROM words WHERE rowid IN (SELECT value FROM json_each(:numbers))"
)
_COUNTED: Final = (
    "SELECT year, language, kind, people, subjects FROM entry"
    " WHERE number IN (SELECT value FROM json_each(:numbers))"
)
_KINDS_OF: Final = "SELECT number, kind FROM entry WHERE number IN (SELECT value FROM json_each(:numbers))"
_ITEMS_OF: Final = "SELECT items FROM facet WHERE what = :what AND value = :value"
_SHOWN: Final = "SELECT coalesce(sum(items), 0) FROM facet WHERE what = 'kind'"
_LISTED: Final = "SELECT value, label, items FROM facet WHERE what = :what AND value > '' ORDER BY"
_LATEST_FIRST, _BY_LETTER, _MOST_FIRST = "value DESC", "value", "items DESC, value"
_SUBJECTS: Final = (
    "SELECT value, label, items FROM facet WHERE what = 'subject' AND items > 0"
    " ORDER BY items DESC LIMIT :most"
)
_PEOPLE: Final = (
    "SELECT value, label, items FROM facet WHERE what = 'person' AND value >= :letter AND value > :after"
    # char(1114111) is the last character: the range ends after all values that begin with the letter.
    " AND value < :letter || char(1114111) ORDER BY value LIMIT :most"
)
_END: Final = 1 << 62
_LATEST: Final = (
    "SELECT stamp, number FROM entry WHERE (stamp, number) < (:stamp, :number)"
    " ORDER BY stamp DESC, number DESC LIMIT :most"
)
_EARLIEST: Final = (
    "SELECT stamp, number FROM entry WHERE (stamp, number) > (:stamp, :number)"
    " ORDER BY stamp, number LIMIT :most"
)

NEWS: Final = f"SELECT {COLUMNS} FROM entry WHERE shown ORDER BY stamp DESC, number DESC LIMIT :most"  # noqa: S608 - our own columns
"""The statement that selects the shown items that changed last."""


class FacetValue(NamedTuple):
    """A value by which items can be listed, its label ("": the value itself), and its number of items."""

    value: str
    label: str
    items: int


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The results of a search.

    `entries`: the entries of its page, best first; `count`: the number of items found, or, if there are
    `many` more, of items looked at; `facets`: counts of these items by year, language, kind, person and
    subject;
    `next`: the search for the next page, None at the end; `order`: the one that the items are in; `orders`:
    those that they can be in.
    """

    query: SearchQuery
    entries: tuple[IndexEntry, ...]
    count: int
    many: bool
    facets: Mapping[str, tuple[FacetValue, ...]]
    next: SearchQuery | None
    order: str = "newest"
    orders: tuple[str, ...] = ("newest",)

    @property
    def exact(self) -> bool:
        """Whether the facets count every item that was found."""
        return not self.many and self.count <= LOOKED_AT and not self.query.before


def search(index: SearchIndex, query: SearchQuery) -> SearchResults:
    """Search the index. Raises ParseError, IndexNotReady and SetupError."""
    known = _is_known(index, query.person)
    match = match_expression(query, known=known, begun=False) if has_words(query) else ""
    if not match:
        return SearchResults(query, (), 0, many=False, facets={}, next=None)
    budget = CpuBudget(LONGEST_LOOK)
    with _in_time(query):
        if not query.text:
            newest = _newest(index, match, budget, query.before or _END)
            many = len(newest) > LOOKED_AT
            orders = ("newest",) if many else _SORTED
            if query.before or query.order not in orders or query.order == "newest":
                return replace(_newest_first(index, query, newest[:LOOKED_AT], many=many), orders=orders)
            return _numbered(index, query, _in_order(index, query.order, newest), query.order, orders)
        begun, everything = _all(index, query, match, budget, known=known)
    orders = ("best", *(("newest",) if len(everything) > LOOKED_AT else _SORTED))
    if query.order in orders and query.order != "best":
        return _numbered(index, query, _in_order(index, query.order, everything), query.order, orders)
    best = _best_first(index, query, everything, known=known, begun=begun)
    return _numbered(index, query, best, "best", orders)


def count(index: SearchIndex, query: SearchQuery, budget: CpuBudget) -> int:
    """Count what a search finds, at most LOOKED_AT and one more; the budget is shared. Raises SearchTooLong."""
    known = _is_known(index, query.person)
    match = match_expression(query, known=known) if has_words(query) else ""
    return len(_newest(index, match, budget)) if match else 0


def _numbered(
    index: SearchIndex, query: SearchQuery, numbers: list[int], order: str, orders: tuple[str, ...]
) -> SearchResults:
    """Return one of the pages, which have numbers, of items in this order."""
    ranked = numbers[:LOOKED_AT]
    end = query.page * PER_PAGE
    more = len(ranked) > end  # never after page MOST_PAGES
    return SearchResults(
        query,
        _entries(index, ranked[end - PER_PAGE : end]),
        len(ranked),
        many=len(numbers) > LOOKED_AT,
        facets=_facets(index, query, ranked),
        next=replace(query, page=query.page + 1) if more else None,
        order=order,
        orders=orders,
    )


def _in_order(index: SearchIndex, order: str, numbers: list[int]) -> list[int]:
    """Return items, given newest first, in one of the orders besides the best match."""
    if order == "newest":
        return numbers
    values = {"numbers": json.dumps(numbers)}
    if order == "date":
        years = dict(index.rows(_YEARS_OF, values))
        return sorted(numbers, key=lambda number: -years.get(number, 0))
    titles = {number: fold(title) for number, title in index.rows(_TITLES_OF, values)}
    # Without a title they come last.
    return sorted(numbers, key=lambda number: titles.get(number) or _LAST_TITLE)


def _all(
    index: SearchIndex, query: SearchQuery, match: str, budget: CpuBudget, *, known: bool
) -> tuple[bool, list[int]]:
    """Return whether the last word was taken as the beginning of a word, and the items found.

    It is not if very many items have the word itself, or very many words begin with it. Raises SearchTooLong.
    """
    found = _newest(index, match, budget)
    wider = match_expression(query, known=known, begun=len(found) <= LOOKED_AT)
    if wider == match:
        return False, found
    try:
        return True, _newest(index, wider, budget)
    except SearchTooLong:
        if not found:
            raise
        return False, found


def _best_first(
    index: SearchIndex, query: SearchQuery, everything: list[int], *, known: bool, begun: bool
) -> list[int]:
    """Return the items with the words in the title first, then among title, people and subjects, then the others."""
    numbers: dict[int, None] = {}
    budget = CpuBudget(LONGEST_RANKING)
    for columns in _BETTER if len(everything) > 1 else ():
        better = match_expression(query, known=known, begun=begun, only=columns)
        try:
            numbers |= dict.fromkeys(_newest(index, better, budget))
        except SearchTooLong:
            # The other items stay in the order of time.
            break
        if len(numbers) > LOOKED_AT:
            break
    return list(numbers | dict.fromkeys(everything))


def newest(index: SearchIndex, query: SearchQuery, most: int) -> tuple[IndexEntry, ...]:
    """Return, for the feed of a search, the items that changed last among the newest items found."""
    if not has_words(query):
        return ()
    known = _is_known(index, query.person)
    match = match_expression(query, known=known, begun=False)
    with _in_time(query):
        _begun, numbers = _all(index, query, match, CpuBudget(LONGEST_LOOK), known=known)
    found = _entries(index, numbers[:LOOKED_AT])
    return tuple(sorted(found, key=lambda each: (each.stamp, each.number), reverse=True)[:most])


def facet_values(index: SearchIndex, what: str, most: int) -> list[FacetValue]:
    """Return the values by which the shown items can be listed.

    `what`: "year", the latest first; "letter" (the first letters of people's names), in order; "language" or
    "kind", the most frequent first.
    """
    order = _LATEST_FIRST if what == "year" else _BY_LETTER if what == "letter" else _MOST_FIRST
    statement = f"{_LISTED} {order} LIMIT :most"
    return [FacetValue(*row) for row in index.rows(statement, {"what": what, "most": most})]


def subjects(index: SearchIndex, most: int) -> list[FacetValue]:
    """Return the most frequent subjects of the shown items, the most frequent first, from an index of their own."""
    return [FacetValue(*row) for row in index.rows(_SUBJECTS, {"most": most})]


def kinds_of(index: SearchIndex, numbers: Sequence[int]) -> dict[int, str]:
    """Return the kinds of these items, by number; items that are not in the index are left out."""
    return dict(index.rows(_KINDS_OF, {"numbers": json.dumps(numbers)}))


def count_shown(index: SearchIndex) -> int:
    """Return how many items readers find: each is counted in exactly one kind."""
    return int(index.rows(_SHOWN)[0][0])


def undated(index: SearchIndex) -> int:
    """Return how many shown items have no date."""
    rows = index.rows(_ITEMS_OF, {"what": "year", "value": ""})
    return int(rows[0][0]) if rows else 0


def people(index: SearchIndex, letter: str, after: str, most: int) -> list[FacetValue]:
    """Return at most `most` people whose names begin with `letter`, one or more, in order, those after `after`."""
    return [FacetValue(*row) for row in index.rows(_PEOPLE, {"letter": letter, "after": after, "most": most})]


def numbers_by_change(
    index: SearchIndex, after: tuple[int, int], most: int, *, latest_first: bool
) -> list[tuple[int, int]]:
    """Return the next (stamp, number) in the order of the last change, of removed items too; [] at the end."""
    statement = _LATEST if latest_first else _EARLIEST
    rows = index.rows(statement, {"stamp": after[0], "number": after[1], "most": most})
    return [(stamp, number) for stamp, number in rows]


def _is_known(index: SearchIndex, person: str) -> bool:
    """Return whether a person is listed under exactly this name; False for one word, which may fit many."""
    key = fold(person) if person else ""
    return " " in key and bool(index.rows(_ITEMS_OF, {"what": "person", "value": key}))


def _newest_first(
    index: SearchIndex, query: SearchQuery, numbers: Sequence[int], *, many: bool
) -> SearchResults:
    """Return one page of a list, newest first; a list is not ranked, and may have any number of pages."""
    count = _items_of(index, query)
    return SearchResults(
        query,
        _entries(index, numbers[:PER_PAGE]),
        len(numbers) if count is None else count,
        many=many and count is None,
        facets=_facets(index, query, numbers),
        next=replace(query, before=numbers[PER_PAGE - 1]) if len(numbers) > PER_PAGE else None,
    )


def _items_of(index: SearchIndex, query: SearchQuery) -> int | None:
    """Return how many items a list has; None if it has several conditions."""
    if query.conditions != 1:
        return None
    what = next((each for each in ("subject", "year", "language", "kind") if getattr(query, each)), "")
    if not what:
        return None
    value = fold(query.subject) if what == "subject" else getattr(query, what)
    if what == "year":
        value = "" if query.year == NO_YEAR else f"{query.year:04}"
    rows = index.rows(_ITEMS_OF, {"what": what, "value": value})
    return int(rows[0][0]) if rows else None


def _newest(index: SearchIndex, match: str, budget: CpuBudget, before: int = _END) -> list[int]:
    """Find matching items, newest first, at most LOOKED_AT and one more. Raises SearchTooLong."""
    values = {"match": match, "before": before, "most": LOOKED_AT + 1}
    return [row[0] for row in index.rows(_NEWEST, values, budget)]


@contextmanager
def _in_time(query: SearchQuery) -> Iterator[None]:
    """Turn SearchTooLong into a ParseError with advice for the reader."""
    try:
        yield
    except SearchTooLong:
        problem = "this search takes too long: write the words whole, or use fewer or rarer ones"
        raise ParseError("text", query.text or query.person, problem) from None


def _entries(index: SearchIndex, numbers: Sequence[int]) -> tuple[IndexEntry, ...]:
    rows = index.rows(_ENTRIES, {"numbers": json.dumps(numbers)})
    found = {row[0]: entry(row) for row in rows}
    return tuple(found[number] for number in numbers if number in found)


def _facets(
    index: SearchIndex, query: SearchQuery, numbers: Sequence[int]
) -> dict[str, tuple[FacetValue, ...]]:
    """Count these items by year, language, kind, person and subject, but not by conditions of the search."""
    rows = index.rows(_COUNTED, {"numbers": json.dumps(numbers)})
    years, languages, kinds, people, subjects = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    found = {
        "year": Counter({f"{year:04}": items for year, items in Counter(years).items() if year}),
        "language": Counter(languages),
        "kind": Counter(kinds),
        "person": Counter("\n".join(filter(None, people)).split("\n")),
        "subject": Counter("\n".join(filter(None, subjects)).split("\n")),
    }
    facets = {}
    for what, counter in found.items():
        common = [
            FacetValue(value, "", items) for value, items in counter.most_common(_MOST_VALUES + 1) if value
        ]
        if what == "year":
            common.sort(reverse=True)
        if common and not getattr(query, what):
            facets[what] = tuple(common[:_MOST_VALUES])
    return facets


class SearchHit(NamedTuple):
    """One item of a result: its entry in the index, and the present facts of the catalogue.

    `metadata`: its Dublin Core, its own or that of its metadata item.
    """

    entry: IndexEntry
    holding: Holding
    metadata: Mapping[str, tuple[MetadataValue, ...]]

    @property
    def titles(self) -> tuple[MetadataValue, ...]:
        """Its titles."""
        return self.metadata.get("title", ())

    @property
    def abstracts(self) -> tuple[MetadataValue, ...]:
        """Its abstracts."""
        return self.metadata.get("description", ())

    @property
    def state(self) -> ItemState:
        """Whether it is an original or a copy."""
        return self.holding.state

    @property
    def timestamp(self) -> str:
        """The moment of its last update."""
        return self.holding.timestamp

    @property
    def name(self) -> str:
        """Its main name."""
        return self.entry.name

    @property
    def people(self) -> list[str]:
        """The names of its authors and contributors."""
        return self.entry.people.split("\n") if self.entry.people else []

    @property
    def page(self) -> str:
        """The path of its page at this Archive."""
        return page_of(self.name)

    def facts(self) -> dict[str, Any]:
        """Return the hit as JSON for programs; its title is the first one, "" if it has none."""
        return {
            "ibi": self.name,
            "title": self.titles[0].value if self.titles else "",
            "people": self.people,
            "year": self.entry.year or None,
            "language": self.entry.language or None,
            "kind": self.entry.kind,
            "state": self.state.value,
            "timestamp": self.timestamp,
            "page": self.page,
        }


def page_of(name: str) -> str:
    """Return the path of the page of an item."""
    return f"/-/item/{quote(name, safe='/:@.-_~!$&()*+,;=')}"


def hits(catalogue: Catalogue, entries: Sequence[IndexEntry]) -> tuple[SearchHit, ...]:
    """Return the items of these entries, in their order, except items removed since. Raises SetupError."""
    with catalogue.reading() as run:
        held = listings.holdings(run, [each.number for each in entries])
    found = []
    for each in entries:
        holding = held.get(each.number)
        if holding is None or holding.deleted:
            continue
        metadata = holding.metadata
        if metadata is None and holding.metadata_item is not None:
            described_by = catalogue.holding(holding.metadata_item.main)
            metadata = described_by.metadata if described_by and not described_by.unsettled else None
        found.append(SearchHit(each, holding, metadata or {}))
    return tuple(found)
