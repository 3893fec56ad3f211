"""Give items to programs, and find them. Reading needs no token: other Archives copy items so.

A search takes the same query as the search page for people. See note 29: copies and hand-overs.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from ibi.accounts.tokens import Scope
from ibi.api.routes import COUNT, MOMENT, ROOT, TEXT, TRUTH, Route, answer, in_thread, list_of, record, ref
from ibi.archive.model.item import Access, leaving
from ibi.archive.operations.item_facts import item_etag, item_facts, item_headers
from ibi.archive.search.hints import find_hints
from ibi.archive.search.index import IndexNotReady
from ibi.archive.search.search import FACETS, hits, search
from ibi.archive.search.words import (
    LONGEST_TEXT,
    MOST_PAGES,
    NAMES,
    NARROWING,
    ORDERS,
    path_with_query,
    search_query,
)
from ibi.archive.store.item_changes import removal_notice
from ibi.archive.store.tables import history, listings
from ibi.errors import IbiError, ParseError
from ibi.http.conditional import unchanged
from ibi.http.response import NO_STORE, Refusal, Response, link

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.api.routes import Call
    from ibi.archive.model.item import Holding
    from ibi.archive.search.hints import Hint, SearchHints
    from ibi.archive.search.index import SearchIndex
    from ibi.archive.store.tables.catalogue import Catalogue


MOST_ITEMS: Final = 500
"""Items on one page."""

_USUAL_ITEMS: Final = 50
_LONGEST_AFTER: Final = 512  # characters of the name after which a page of the list begins
_FILES: Final = ("files", "target")


class ItemView:
    """The items of an Archive as clients may see them.

    `day` returns the present day: "2026-11-21", UTC; `institution`: the name of this one, by language.
    """

    def __init__(
        self, catalogue: Catalogue, day: Callable[[], str], institution: Mapping[str, str] | None = None
    ) -> None:
        self._catalogue = catalogue
        self._day = day
        self._institution = institution or {}

    def held(self, call: Call) -> Holding:
        """Return the item of the path. Raises NotHeld, Unsettled, Refusal (410) for a removed item."""
        holding = self._catalogue.settled(call.name)
        if holding.deleted:
            raise Refusal(410, removal_notice(holding), item=self._facts(holding, call))
        return holding

    def response(self, holding: Holding, call: Call, status: int = 200) -> Response:
        """Answer with an item, its ETag and its URL."""
        value = self._facts(holding, call)
        return answer(value, status, *item_headers(value))

    def routes(self) -> tuple[Route, ...]:
        """Return the routes that read items."""
        query = {
            "after": {"type": "string", "maxLength": _LONGEST_AFTER},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_ITEMS, "default": _USUAL_ITEMS},
        }
        page = record("next", items=list_of(ref("item")), next=TEXT)
        return (
            Route("GET", "/items", None, in_thread(self._page), "the items, page by page", gives=page, query=query),
            Route(
                "GET", "/items/<ibi>", None, in_thread(self._one), "an item", gives=ref("item"),
                refusals=(304, 404, 410), headers={"if-none-match": TEXT},
            ),
            Route(
                "GET", "/items/<ibi>/history", Scope.READ, in_thread(self._history),
                "what happened to an item", gives=record(history=ref("history")), refusals=(404,),
            ),
        )  # fmt: skip

    def _page(self, call: Call, _value: Any) -> Response:
        query = call.query
        after, limit = query.get("after", ""), query.get("limit", str(_USUAL_ITEMS))
        # int() accepts digits of other scripts, and texts of any length.
        if not (limit.isascii() and limit.isdecimal() and len(limit) < len(str(MOST_ITEMS)) + 1):
            limit = "0"
        if not 1 <= int(limit) <= MOST_ITEMS:
            raise Refusal(400, IbiError("limit is a whole number from 1 to {most}", most=MOST_ITEMS))
        if len(after) > _LONGEST_AFTER:
            raise Refusal(400, IbiError("after is the name of an item"))
        holdings = list(islice(self._catalogue.all(after), int(limit)))
        value: dict[str, Any] = {
            "items": [self._facts(each, call) for each in holdings if not each.unsettled]
        }
        if len(holdings) < int(limit):
            return answer(value)
        words = urlencode({"after": holdings[-1].forms.main.canonical, "limit": limit})
        value["next"] = f"{ROOT}/items?{words}"
        return answer(value, 200, link(value["next"], "next"))

    def _one(self, call: Call, _value: Any) -> Response:
        """Answer with an item, or 304 if the client has its present version."""
        holding = self.held(call)
        value = self._facts(holding, call)
        etag = item_etag(value)
        if unchanged(call.request, etag):
            return Response(304, headers=(("etag", etag), *NO_STORE))
        return answer(value, 200, ("etag", etag))

    def _history(self, call: Call, _value: Any) -> Response:
        """Answer with the history of an item, also of a removed one."""
        holding = self._catalogue.settled(call.name)
        with self._catalogue.reading() as run:
            return answer({"history": [event._asdict() for event in history.events_of(run, holding.number)]})

    def _facts(self, holding: Holding, call: Call) -> dict[str, Any]:
        """Return what the client may see of an item.

        A file list that is not public, and URLs of data that are not open, need the scope `read` (SVC-10: URLs by
        reader).
        """
        reads = call.may(Scope.READ)
        hidden: tuple[str, ...] = ()
        if not reads:
            hidden = () if holding.file_list_public else _FILES
            if holding.access_on(self._day()) is not Access.OPEN:
                hidden = (*_FILES, "url")
        item = leaving(holding, self._institution)
        return item_facts(self._catalogue, item, with_history=reads, hidden=hidden)


_WORDS: Final = {"type": "string", "maxLength": LONGEST_TEXT}
_QUERY: Final[dict[str, dict[str, Any]]] = {
    "text": _WORDS,
    "person": _WORDS,
    "subject": _WORDS,
    "year": {
        "anyOf": [{"type": "integer", "minimum": 1, "maximum": 9999}, {"const": "none"}],
        "description": "none: items without a date",
    },
    "language": {"type": "string", "pattern": "^[A-Za-z]{2}(-[A-Za-z]{2})?$"},
    "kind": {"type": "string", "pattern": "^[A-Za-z]+$"},
    "order": {
        "enum": list(ORDERS),
        "description": "without it, best for a text, else newest; date and title only up to 1,000 items",
    },
    "page": {"type": "integer", "minimum": 1, "maximum": MOST_PAGES, "default": 1},
    "before": COUNT,
}
_ITEM: Final = record(
    ibi=TEXT,
    title=TEXT,
    people=list_of(TEXT),
    year={"type": ["integer", "null"]},
    language={"type": ["string", "null"]},
    kind=TEXT,
    state={"enum": ["Original", "Copy"]},
    timestamp=MOMENT,
    page=TEXT,
)
_FACET: Final = list_of(record(value=TEXT, items=COUNT))
_HINTS: Final = {"description": "if nothing was found: searches that find something"} | record(
    spellings={
        "type": "array",
        "items": record(text=TEXT, count=COUNT, more=TRUTH, search=TEXT),
        "description": "texts one typing error away that find something, those with most items first",
    },
    without={
        "type": "array",
        "items": record(condition={"enum": list(NARROWING)}, count=COUNT, more=TRUTH, search=TEXT),
        "description": "what is found without one of the conditions, the fewest items first",
    },
)
_RESULTS: Final = record(
    "next",
    "hints",
    count=COUNT,
    more={"type": "boolean", "description": "whether there are more than were counted"},
    items=list_of(_ITEM),
    facets={"type": "object", "properties": dict.fromkeys(FACETS, _FACET)},
    exact={"type": "boolean", "description": "whether the facets count all that was found"},
    next={"type": "string", "description": "where the next items are, if there are any"},
    hints=_HINTS,
)
_PROGRESS: Final = record(ready=TRUTH, through=COUNT, items=COUNT)


def search_routes(index: SearchIndex, catalogue: Catalogue) -> tuple[Route, ...]:
    """Return the routes of searches and of the index's progress."""

    def progress(_call: Call, _value: Any) -> Response:
        """Answer whether searches work (`ready`), and that `through` of `items` are in the index."""
        with catalogue.reading() as run:
            items = listings.position(run).items
        try:
            through = index.through()
        except IndexNotReady:
            return answer({"ready": False, "through": 0, "items": items})
        return answer({"ready": True, "through": through, "items": items})

    return (
        Route(
            "GET", "/search", None, in_thread(partial(_found, index, catalogue)),
            "items, by words, person, subject, year, language and kind", gives=_RESULTS, query=_QUERY,
        ),
        Route(
            "GET", "/index", Scope.READ, in_thread(progress), "how far the index for searching is", gives=_PROGRESS
        ),
    )  # fmt: skip


def _found(index: SearchIndex, catalogue: Catalogue, call: Call, _value: Any) -> Response:
    try:
        found = search(
            index, search_query({name: value for name, value in call.query.items() if name in NAMES})
        )
    except ParseError as error:
        raise Refusal(400, error) from None
    except IndexNotReady as error:
        raise Refusal(503, error, ("retry-after", "5")) from None
    value: dict[str, Any] = {
        "count": found.count,
        "more": found.many,
        "items": [each.facts() for each in hits(catalogue, found.entries)],
        "facets": {
            what: [{"value": each.value, "items": each.items} for each in values]
            for what, values in found.facets.items()
        },
        "exact": found.exact,
    }
    if not found.count:
        value["hints"] = _hints(find_hints(index, found.query))
    if found.next is None:
        return answer(value)
    value["next"] = path_with_query(f"{ROOT}/search", found.next)
    return answer(value, 200, link(value["next"], "next"))


def _hints(found: SearchHints) -> dict[str, Any]:
    """Return the hints of a search that found nothing as JSON."""

    def facts(hint: Hint) -> dict[str, Any]:
        return {
            "count": hint.items,
            "more": hint.many,
            "search": path_with_query(f"{ROOT}/search", hint.query),
        }

    return {
        "spellings": [{"text": each.query.text, **facts(each)} for each in found.spellings],
        "without": [{"condition": each.condition, **facts(each)} for each in found.wider],
    }
