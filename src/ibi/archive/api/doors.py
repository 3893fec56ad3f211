"""The doors of an Archive outside /-/api/ that programs use, as the description of its interface tells them.

They are read with GET and need no token. What each of them says, docs/contract.md tells.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ibi.interface.openapi import IBI, told

_HTML: Final = "text/html"
_JSON: Final = "application/json"
_XML: Final = "text/xml"


class Door(NamedTuple):
    """One door: its path, what it gives, in which media types, and the words of its query."""

    path: str
    summary: str
    types: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    others: tuple[int, ...] = ()
    """Further statuses than those of all doors."""


DOORS: Final = (
    Door("/-/item/{ibi}", "what is known of an item", (_HTML, _JSON), ("format", "style", "locale"), (406,)),
    Door(
        "/-/metadata/{ibi}",
        "its metadata, also in formats",
        (_HTML, _JSON),
        ("format", "style", "locale"),
        (406,),
    ),
    Door("/-/files/{ibi}", "the list of its files", (_HTML,), others=(403,)),
    Door("/-/zip/{ibi}", "all its files", ("application/zip",), others=(403,)),
    Door(
        "/-/linkset/{ibi}",
        "its links (RFC 9264)",
        ("application/linkset+json", "application/linkset"),
        ("format",),
    ),
    Door("/-/timegate/{ibi}", "to its edition of a time, by Accept-Datetime (RFC 7089)", others=(302,)),
    Door("/-/timemap/{ibi}", "its editions (RFC 7089)", ("application/link-format", _JSON), ("format",)),
    Door("/-/search", "items that match", (_HTML,), ("text", "person", "year", "language", "kind")),
    Door(
        "/-/feed",
        "what is new (Atom)",
        ("application/atom+xml",),
        ("text", "person", "year", "language", "kind"),
    ),
    Door(
        "/-/oai",
        "harvests (OAI-PMH 2.0)",
        (_XML,),
        ("verb", "metadataPrefix", "identifier", "resumptionToken"),
    ),
    Door("/-/about", "who the Archive is", (_JSON,)),
    Door("/sitemap.xml", "the pages of its items", ("application/xml",)),
    Door("/.well-known/api-catalog", "its interfaces (RFC 9727)", ("application/linkset+json",)),
)


def described() -> dict[str, dict[str, Any]]:
    """The paths of an OpenAPI document that describe them; below the root of the server, not below /-/api."""
    return {door.path: {"servers": [{"url": "/"}], "get": _operation(door)} for door in DOORS}


def _operation(door: Door) -> dict[str, Any]:
    of_item = "{ibi}" in door.path
    statuses = {400, 429, 503, *((404, 410) if of_item else ()), *door.others}
    good = {"200": told(200) | {"content": {kind: {} for kind in door.types}}} if door.types else {}
    words = [{"name": word, "in": "query", "schema": {"type": "string"}} for word in door.query]
    return {
        "operationId": "door-"
        + "-".join(door.path.replace("{ibi}", "").strip("/-").split("/")).replace(".", "-"),
        "summary": door.summary,
        "security": [{}],
        "parameters": [IBI, *words] if of_item else words,
        "responses": good | {str(status): told(status) for status in sorted(statuses)},
    }
