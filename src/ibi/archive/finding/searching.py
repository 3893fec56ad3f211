"""Searching over HTTP as programs do it: `GET /-/api/search`, with the words of the page for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.archive.finding import results
from ibi.archive.finding.question import LONGEST_TEXT, MOST_PAGES, NAMES, asked_path, question_of
from ibi.archive.finding.search import FACETS, search
from ibi.archive.finding.tables import BeingMade
from ibi.errors import ParseError
from ibi.exchange import link
from ibi.interface.refusal import Refusal
from ibi.interface.routes import ROOT, Route, answer, in_thread

if TYPE_CHECKING:
    from ibi.archive.catalogue import Catalogue
    from ibi.archive.finding.index import Index
    from ibi.exchange import Response
    from ibi.interface.routes import Call

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer", "minimum": 0}
_WORDS: Final = {"type": "string", "maxLength": LONGEST_TEXT}
_QUERY: Final[dict[str, dict[str, Any]]] = {
    "text": _WORDS,
    "person": _WORDS,
    "year": {"type": "integer", "minimum": 1, "maximum": 9999},
    "language": {"type": "string", "pattern": "^[A-Za-z]{2}(-[A-Za-z]{2})?$"},
    "kind": {"type": "string", "pattern": "^[A-Za-z]+$"},
    "page": {"type": "integer", "minimum": 1, "maximum": MOST_PAGES, "default": 1},
    "before": _NUMBER,
}
_ITEM: Final = {
    "type": "object",
    "properties": {
        "ibi": _TEXT,
        "title": _TEXT,
        "people": {"type": "array", "items": _TEXT},
        "year": {"type": ["integer", "null"]},
        "language": {"type": ["string", "null"]},
        "kind": _TEXT,
        "state": {"enum": ["Original", "Copy"]},
        "timestamp": {"type": "string", "format": "date-time"},
        "page": _TEXT,
    },
    "required": ["ibi", "title", "people", "year", "language", "kind", "state", "timestamp", "page"],
}
_VALUES: Final = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"value": _TEXT, "items": _NUMBER},
        "required": ["value", "items"],
    },
}
_FOUND: Final = {
    "type": "object",
    "properties": {
        "count": _NUMBER,
        "more": {"type": "boolean", "description": "whether there are more than were counted"},
        "items": {"type": "array", "items": _ITEM},
        "facets": {"type": "object", "properties": dict.fromkeys(FACETS, _VALUES)},
        "exact": {"type": "boolean", "description": "whether the facets count all that was found"},
        "next": {"type": "string", "description": "where the next items are, if there are any"},
    },
    "required": ["count", "more", "items", "facets", "exact"],
}


def routes(index: Index, catalogue: Catalogue) -> tuple[Route, ...]:
    """The table of searching."""

    def find(call: Call, _value: Any) -> Response:
        try:
            question = question_of({name: value for name, value in call.query.items() if name in NAMES})
            found = search(index, question)
        except ParseError as error:
            raise Refusal(400, error) from None
        except BeingMade as error:
            raise Refusal(503, error, ("retry-after", "5")) from None
        value = results.facts(found, results.results(catalogue, found.entries))
        if found.next is None:
            return answer(value)
        value["next"] = asked_path(f"{ROOT}/search", found.next)
        return answer(value, 200, link(value["next"], "next"))

    return (
        Route(
            "GET", "/search", None, in_thread(find), "items, by words, person, year, language and kind",
            gives=_FOUND, query=_QUERY,
        ),
    )  # fmt: skip
