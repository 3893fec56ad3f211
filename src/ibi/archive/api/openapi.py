"""The OpenAPI description of an Archive's JSON interface: GET /-/api/openapi.json.

`SCHEMAS` are the JSON Schemas of its bodies, which docs/reference/http.md explains. `DOCUMENTED_ROUTES` are routes
outside /-/api/ for programs; they answer GET and need no token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.api.openapi import IBI, PATH, document, paths, status_response
from ibi.api.operations import body_of
from ibi.api.routes import COUNT, MOMENT, TEXT, Route, answer, list_of, record, ref
from ibi.archive.model.item_fields import ITEM_FIELDS
from ibi.archive.operations import items

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.api.routes import Call
    from ibi.http.response import Response


_FILE: Final = record(size=COUNT, sha256={"type": "string", "pattern": "^[0-9a-f]{64}$"}, type=TEXT)

_HISTORY: Final = list_of(record(moment=MOMENT, who=TEXT, what=TEXT, detail={"type": "object"}))
_COPY: Final = {
    "type": "object",
    "additionalProperties": True,
    "description": "of a copy: where its original is, and how far it is known to equal it",
}

SCHEMAS: Final[Mapping[str, Any]] = {
    "item": {
        "type": "object",
        "properties": {
            "rep": TEXT,
            "ibip": TEXT,
            "key": {"type": "string", "maxLength": 512},
            "timestamp": MOMENT,
            **{each.name: each.schema for each in ITEM_FIELDS},
            "files": {"type": "object", "additionalProperties": _FILE},
            "copy": _COPY,
            "history": _HISTORY,
            "thanks": COUNT,
        },
        "required": ["timestamp"],
    },
    items.DEPOSIT.name: body_of(items.DEPOSIT),
    items.EDIT.name: {"description": "what changes; null takes a fact away", **body_of(items.EDIT)},
    "history": _HISTORY,
    "upload": {
        "type": "object",
        "description": "an upload tells how it stands in headers: Upload-Offset, Upload-Length, Upload-Expires",
    },
    "problem": {
        "description": "RFC 9457; detail is a sentence in the reader's language",
        **record(
            "item", type=TEXT, title=TEXT, status={"type": "integer"}, detail=TEXT,
            item={"description": "what is left of a removed item", **ref("item")},
        ),
    },
}  # fmt: skip
"""Name by which routes refer to it -> JSON Schema."""


_HTML: Final = "text/html"
_JSON: Final = "application/json"
_LINKSET: Final = "application/linkset+json"


class DocumentedRoute(NamedTuple):
    """One route: its path, a summary, the media types of its answers, and the names in its query."""

    path: str
    summary: str
    types: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    others: tuple[int, ...] = ()
    """Statuses besides those of all routes."""


_OF_PAGES: Final = ("format", "style", "locale")
_OF_SEARCHES: Final = ("text", "person", "year", "language", "kind")

DOCUMENTED_ROUTES: Final = (
    DocumentedRoute("/-/item/{ibi}", "what is known of an item", (_HTML, _JSON), _OF_PAGES, (406,)),
    DocumentedRoute(
        "/-/metadata/{ibi}", "its metadata, also in formats", (_HTML, _JSON, "*/*"), _OF_PAGES, (302, 406)
    ),
    DocumentedRoute("/-/files/{ibi}", "the list of its files", (_HTML,), others=(403,)),
    DocumentedRoute("/-/zip/{ibi}", "all its files", ("application/zip",), others=(403,)),
    DocumentedRoute("/-/linkset/{ibi}", "its links (RFC 9264)", (_LINKSET, "application/linkset"), ("format",)),
    DocumentedRoute("/-/timegate/{ibi}", "to its edition of a time, by Accept-Datetime (RFC 7089)", others=(302,)),
    DocumentedRoute(
        "/-/timemap/{ibi}", "its editions (RFC 7089)", ("application/link-format", _JSON), ("format",)
    ),
    DocumentedRoute("/-/search", "items that match", (_HTML,), _OF_SEARCHES),
    DocumentedRoute("/-/feed", "what is new (Atom)", ("application/atom+xml",), _OF_SEARCHES),
    DocumentedRoute(
        "/-/oai", "harvests (OAI-PMH 2.0)", ("text/xml",),
        ("verb", "metadataPrefix", "identifier", "resumptionToken"),
    ),
    DocumentedRoute("/-/about", "who the Archive is", (_JSON,)),
    DocumentedRoute("/sitemap.xml", "the pages of its items", ("application/xml",)),
    DocumentedRoute("/.well-known/resourcesync", "what can be synchronized (ResourceSync)", ("application/xml",)),
    DocumentedRoute("/-/resourcesync/changelist.xml", "the lists of its changes (ResourceSync)", ("application/xml",)),
    DocumentedRoute("/.well-known/api-catalog", "its interfaces (RFC 9727)", (_LINKSET,)),
)  # fmt: skip


def _operation(route: DocumentedRoute) -> dict[str, Any]:
    of_item = "{ibi}" in route.path
    statuses = {400, 429, 503, *((404, 410) if of_item else ()), *route.others}
    content: dict[str, Any] = {"content": {kind: {} for kind in route.types}}
    good = {"200": status_response(200) | content} if route.types else {}
    words = [{"name": word, "in": "query", "schema": TEXT} for word in route.query]
    path = route.path.replace("{ibi}", "").strip("/-")
    return {
        "operationId": f"door-{path.replace('/', '-').replace('.', '-')}",
        "summary": route.summary,
        "security": [{}],
        "parameters": [IBI, *words] if of_item else words,
        "responses": good | {str(status): status_response(status) for status in sorted(statuses)},
    }


def routes(others: Sequence[Route], version: str) -> tuple[Route, ...]:
    """Return the other routes, and a route that serves the description of all routes, including its own."""

    async def act(_call: Call) -> Response:
        return answer(described)

    own = Route("GET", PATH, None, act, "this description", gives={"type": "object", "required": ["openapi"]})
    # These paths are relative to the root of the server, not to /-/api.
    documented = {
        route.path: {"servers": [{"url": "/"}], "get": _operation(route)} for route in DOCUMENTED_ROUTES
    }
    described = document(
        "An Archive of identified items",
        "Items, and the administration of the Archive: what librarians do on pages, for programs.",
        version,
        paths((*others, own)) | documented,
        SCHEMAS,
    )
    return (*others, own)
