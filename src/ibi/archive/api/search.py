"""Search over HTTP for programs: `GET /-/api/search`, with the same query as the page for people.

`GET /-/api/index` shows how far the index has followed the catalogue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.bodies import Refusal
from ibi.api.routes import COUNT, MOMENT, ROOT, TEXT, TRUTH, Route, answer, in_thread, list_of, record
from ibi.archive.search.search import FACETS, hits, search
from ibi.archive.search.tables import IndexNotReady
from ibi.archive.search.words import LONGEST_TEXT, MOST_PAGES, NAMES, path_with_query, search_query
from ibi.archive.store.tables import listings
from ibi.errors import ParseError
from ibi.http.response import link

if TYPE_CHECKING:
    from ibi.api.routes import Call
    from ibi.archive.search.index import SearchIndex
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.response import Response


_WORDS: Final = {"type": "string", "maxLength": LONGEST_TEXT}
_QUERY: Final[dict[str, dict[str, Any]]] = {
    "text": _WORDS,
    "person": _WORDS,
    "year": {"type": "integer", "minimum": 1, "maximum": 9999},
    "language": {"type": "string", "pattern": "^[A-Za-z]{2}(-[A-Za-z]{2})?$"},
    "kind": {"type": "string", "pattern": "^[A-Za-z]+$"},
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
_FOUND: Final = record(
    "next",
    count=COUNT,
    more={"type": "boolean", "description": "whether there are more than were counted"},
    items=list_of(_ITEM),
    facets={"type": "object", "properties": dict.fromkeys(FACETS, _FACET)},
    exact={"type": "boolean", "description": "whether the facets count all that was found"},
    next={"type": "string", "description": "where the next items are, if there are any"},
)
_PROGRESS: Final = record(ready=TRUTH, through=COUNT, items=COUNT)


def routes(index: SearchIndex, catalogue: Catalogue) -> tuple[Route, ...]:
    """The routes of searches and of the index's progress."""

    def find(call: Call, _value: Any) -> Response:
        return _found(index, catalogue, call)

    def progress(_call: Call, _value: Any) -> Response:
        """`ready`: whether lists and searches are answered; `through` of how many `items` are in the index."""
        with catalogue.reading() as run:
            items = listings.position(run).items
        try:
            through = index.through()
        except IndexNotReady:
            return answer({"ready": False, "through": 0, "items": items})
        return answer({"ready": True, "through": through, "items": items})

    return (
        Route(
            "GET", "/search", None, in_thread(find), "items, by words, person, year, language and kind",
            gives=_FOUND, query=_QUERY,
        ),
        Route(
            "GET", "/index", Scope.READ, in_thread(progress), "how far the index for searching is", gives=_PROGRESS
        ),
    )  # fmt: skip


def _found(index: SearchIndex, catalogue: Catalogue, call: Call) -> Response:
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
    if found.next is None:
        return answer(value)
    value["next"] = path_with_query(f"{ROOT}/search", found.next)
    return answer(value, 200, link(value["next"], "next"))
