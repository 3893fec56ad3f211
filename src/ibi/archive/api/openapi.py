"""The OpenAPI description of an Archive's JSON interface: GET /-/api/openapi.json.

`SCHEMAS` are the JSON Schemas of its bodies, which docs/contract.md explains. `DOCUMENTED_ROUTES` are routes outside
/-/api/ that programs use; they are read with GET and need no token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.api.openapi import IBI, PATH, document, paths, status_response
from ibi.api.routes import Route, answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.api.routes import Call
    from ibi.http.response import Response


_TEXT: Final = {"type": "string"}
_TRUTH: Final = {"type": "boolean"}
_TEXTS: Final = {"type": "object", "additionalProperties": _TEXT}
_MOMENT: Final = {"type": "string", "format": "date-time"}
_NUMBER: Final = {"type": "integer", "minimum": 0}
_STATEMENT: Final = {
    "oneOf": [
        _TEXT,
        {
            "type": "object",
            "properties": {"value": _TEXT, "lang": _TEXT},
            "required": ["value"],
            "additionalProperties": False,
        },
    ]
}
_FILE: Final = {
    "type": "object",
    "properties": {"size": _NUMBER, "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}, "type": _TEXT},
    "required": ["size", "sha256", "type"],
}

# What can be edited.
_FACTS: Final[dict[str, Any]] = {
    "contenttype": {"enum": ["Data", "Metadata"]},
    "language": {"type": "string", "pattern": "^[A-Za-z]{2}(-[A-Za-z]{2})?$"},
    "transferable": _TRUTH,
    "url": {"type": "string", "format": "uri"},
    "target": _TEXT,
    "file_list_public": _TRUTH,
    "next_edition": _TEXT,
    "translations": _TEXTS,
    "metadata_item": _TEXT,
    "metadata": {
        "type": "object",
        "additionalProperties": {"oneOf": [_TEXT, {"type": "array", "items": _STATEMENT}]},
    },
    "formats": _TEXTS,
    "access": {"enum": ["open", "embargoed", "restricted", "closed"]},
    "embargo": {"type": "string", "format": "date"},
    "rights": _TEXT,
    "licence": {"type": "string", "format": "uri"},
}
# What is the item's from its beginning on, and may be given by an administrator.
_OWN: Final[dict[str, Any]] = {
    "rep": _TEXT,
    "ibip": _TEXT,
    "aliases": {"type": "array", "items": _TEXT},
    "key": {"type": "string", "maxLength": 512},
    "state": {"enum": ["Original", "Copy", "Deleted"]},
    "timestamp": _MOMENT,
    "reason": _TEXT,
}
_HISTORY: Final = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"moment": _MOMENT, "who": _TEXT, "what": _TEXT, "detail": {"type": "object"}},
        "required": ["moment", "who", "what", "detail"],
    },
}
_COPY: Final = {
    "type": "object",
    "additionalProperties": True,
    "description": "of a copy: where its original is, and how far it is known to equal it",
}

SCHEMAS: Final[Mapping[str, Any]] = {
    "item": {
        "type": "object",
        "properties": {
            **_OWN,
            **_FACTS,
            "files": {"type": "object", "additionalProperties": _FILE},
            "copy": _COPY,
            "history": _HISTORY,
            "thanks": _NUMBER,
        },
        "required": ["timestamp"],
    },
    "deposit": {
        "type": "object",
        "properties": {
            **_OWN,
            **_FACTS,
            "uploads": {
                **_TEXTS,
                "description": "complete uploads, by the names that their files shall have",
            },
            "edition_of": {**_TEXT, "description": "the item that was the last edition until now"},
            "translation_of": {**_TEXT, "description": "an item in another language"},
            "metadata_of": {**_TEXT, "description": "the item that this one describes"},
            "metadata_as_item": {**_TRUTH, "description": "make the metadata an item of their own"},
        },
        "additionalProperties": False,
    },
    "edit": {
        "type": "object",
        "description": "what changes; null takes a fact away",
        "properties": {name: {"anyOf": [schema, {"type": "null"}]} for name, schema in _FACTS.items()},
        "additionalProperties": False,
    },
    "history": _HISTORY,
    "upload": {
        "type": "object",
        "description": "an upload tells how it stands in headers: Upload-Offset, Upload-Length, Upload-Expires",
    },
    "problem": {
        "type": "object",
        "description": "RFC 9457; detail is a sentence in the reader's language",
        "properties": {"type": _TEXT, "title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT},
        "required": ["type", "title", "status", "detail"],
    },
}
"""By the names under which routes refer to them."""


_HTML: Final = "text/html"
_JSON: Final = "application/json"
_XML: Final = "text/xml"


class DocumentedRoute(NamedTuple):
    """One route: its path, what it serves, in which media types, and the names in its query."""

    path: str
    summary: str
    types: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    others: tuple[int, ...] = ()
    """Statuses besides those of all routes."""


DOCUMENTED_ROUTES: Final = (
    DocumentedRoute(
        "/-/item/{ibi}", "what is known of an item", (_HTML, _JSON), ("format", "style", "locale"), (406,)
    ),
    DocumentedRoute(
        "/-/metadata/{ibi}",
        "its metadata, also in formats",
        (_HTML, _JSON),
        ("format", "style", "locale"),
        (406,),
    ),
    DocumentedRoute("/-/files/{ibi}", "the list of its files", (_HTML,), others=(403,)),
    DocumentedRoute("/-/zip/{ibi}", "all its files", ("application/zip",), others=(403,)),
    DocumentedRoute(
        "/-/linkset/{ibi}",
        "its links (RFC 9264)",
        ("application/linkset+json", "application/linkset"),
        ("format",),
    ),
    DocumentedRoute(
        "/-/timegate/{ibi}", "to its edition of a time, by Accept-Datetime (RFC 7089)", others=(302,)
    ),
    DocumentedRoute(
        "/-/timemap/{ibi}", "its editions (RFC 7089)", ("application/link-format", _JSON), ("format",)
    ),
    DocumentedRoute(
        "/-/search", "items that match", (_HTML,), ("text", "person", "year", "language", "kind")
    ),
    DocumentedRoute(
        "/-/feed",
        "what is new (Atom)",
        ("application/atom+xml",),
        ("text", "person", "year", "language", "kind"),
    ),
    DocumentedRoute(
        "/-/oai",
        "harvests (OAI-PMH 2.0)",
        (_XML,),
        ("verb", "metadataPrefix", "identifier", "resumptionToken"),
    ),
    DocumentedRoute("/-/about", "who the Archive is", (_JSON,)),
    DocumentedRoute("/sitemap.xml", "the pages of its items", ("application/xml",)),
    DocumentedRoute("/.well-known/api-catalog", "its interfaces (RFC 9727)", ("application/linkset+json",)),
)


def describe_routes() -> dict[str, dict[str, Any]]:
    """Describe them as paths of an OpenAPI document; below the root of the server, not below /-/api."""
    return {route.path: {"servers": [{"url": "/"}], "get": _operation(route)} for route in DOCUMENTED_ROUTES}


def _operation(route: DocumentedRoute) -> dict[str, Any]:
    of_item = "{ibi}" in route.path
    statuses = {400, 429, 503, *((404, 410) if of_item else ()), *route.others}
    good = (
        {"200": status_response(200) | {"content": {kind: {} for kind in route.types}}} if route.types else {}
    )
    words = [{"name": word, "in": "query", "schema": {"type": "string"}} for word in route.query]
    return {
        "operationId": "door-"
        + "-".join(route.path.replace("{ibi}", "").strip("/-").split("/")).replace(".", "-"),
        "summary": route.summary,
        "security": [{}],
        "parameters": [IBI, *words] if of_item else words,
        "responses": good | {str(status): status_response(status) for status in sorted(statuses)},
    }


def routes(others: Sequence[Route], version: str) -> tuple[Route, ...]:
    """All other routes, and the one that serves their description, its own included."""

    async def act(_call: Call) -> Response:
        return answer(described)

    own = Route("GET", PATH, None, act, "this description", gives={"type": "object", "required": ["openapi"]})
    described = document(
        "An Archive of identified items",
        "Items, and the administration of the Archive: what librarians do on pages, for programs.",
        version,
        paths((*others, own)) | describe_routes(),
        SCHEMAS,
    )
    return (*others, own)
