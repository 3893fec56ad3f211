"""Make the description of the JSON interface for programs (OpenAPI 3.1) from its routes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ibi.api.routes import ROOT
from ibi.http.response import PROBLEM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.api.routes import Route

PATH: Final = "/openapi.json"
"""The path of a description, below the root of the interface."""

IBI: Final = {
    "name": "ibi",
    "in": "path",
    "required": True,
    "description": "an IBI in either form, or an older opaque id; its slashes may stay",
    "schema": {"type": "string", "minLength": 1},
}
"""The path parameter for an identifier."""

STATUSES: Final[Mapping[int, Mapping[str, str]]] = {
    200: {"description": "as it is now"},
    201: {"description": "it is new"},
    202: {"description": "it has been begun"},
    204: {"description": "done"},
    302: {"description": "elsewhere"},
    303: {"description": "another service answers"},
    304: {"description": "unchanged"},
    400: {"description": "the request is not what it should be"},
    401: {"description": "a token is missing or unknown"},
    403: {"description": "it may not be done"},
    404: {"description": "there is no such thing"},
    405: {"description": "not this method"},
    406: {"description": "not in such a format"},
    408: {"description": "it did not arrive in time"},
    409: {"description": "the state of things forbids it"},
    410: {"description": "it was removed, or is over"},
    411: {"description": "the length is missing"},
    412: {"description": "it was changed meanwhile"},
    413: {"description": "too large"},
    414: {"description": "the address is too long"},
    415: {"description": "of the wrong type"},
    421: {"description": "no service of this name is here"},
    422: {"description": "what it says cannot be"},
    428: {"description": "If-Match is missing"},
    429: {"description": "too much at a time; Retry-After"},
    431: {"description": "the head is too large"},
    502: {"description": "another machine failed us"},
    503: {"description": "later, perhaps; Retry-After"},
    507: {"description": "the disk is full"},
    508: {"description": "a resolver has asked a resolver"},
}
"""What a status means, at an Archive and at a resolver."""

_JSON: Final = "application/json"
_USUAL: Final = (400, 401, 408, 414, 421, 429, 431, 503)
_BEFORE_ROUTING: Final = frozenset({400, 408, 413, 414, 421, 431, 503})
"""Statuses that the HTTP server may also give before the interface is reached, and then as plain text."""
_PLACE = re.compile(r"<([a-z]+)>")
_PLACES: Final[Mapping[str, Mapping[str, Any]]] = {
    "ibi": IBI,
    "file": IBI | {"name": "file", "description": "the name of a file, percent-encoded once; its slashes may stay"},
    "word": IBI | {"name": "word", "description": "a name without slashes"},
}  # fmt: skip


def status_response(status: int) -> dict[str, Any]:
    """Return the description of a response that has only a status."""
    return dict(STATUSES[status])


def paths(table: Sequence[Route], below: str = "", problem: str = "problem") -> dict[str, dict[str, Any]]:
    """Describe the paths of a table. `below`: prefix of paths; `problem`: name of the schema of refusals."""
    found: dict[str, dict[str, Any]] = {}
    for route in table:
        path = found.setdefault(below + _PLACE.sub(r"{\1}", route.pattern), {})
        path[route.method.lower()] = _operation(route, problem)
        path.setdefault("parameters", [dict(_PLACES[name]) for name in _PLACE.findall(route.pattern)])
    return found


def document(
    title: str,
    text: str,
    version: str,
    found: Mapping[str, Any],
    schemas: Mapping[str, Any],
    server: str = ROOT,
) -> dict[str, Any]:
    """Make the whole document. `version`: that of the program; `server`: the path above all paths."""
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": text},
        "servers": [{"url": server}],
        "paths": dict(found),
        "components": {
            "schemas": dict(schemas),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, problem: str) -> dict[str, Any]:
    words = re.findall(r"[a-z]+", route.pattern)
    # The empty requirement means that a token is possible, but not needed.
    operation: dict[str, Any] = {
        "operationId": "-".join([route.method.lower(), *words]),
        "summary": route.summary,
        "security": [{}, {"token": []}] if route.scope is None else [{"token": [route.scope.value]}],
        "responses": _responses(route, problem),
    }
    parameters = [
        {"name": name, "in": where, "schema": dict(schema)}
        for where, schemas in (("query", route.query), ("header", route.headers))
        for name, schema in schemas.items()
    ]
    if parameters:
        operation["parameters"] = parameters
    bodies = {**({_JSON: route.takes} if route.takes is not None else {}), **route.other_bodies}
    if bodies:
        content = {kind: {"schema": dict(schema)} for kind, schema in bodies.items()}
        operation["requestBody"] = {"content": content}
    return operation


def _responses(route: Route, problem: str) -> dict[str, Any]:
    statuses = {route.status, *route.refusals, *route.says, *_USUAL}
    if route.scope is not None:
        statuses.add(403)
    if _PLACE.search(route.pattern):
        statuses.add(404)
    if route.method not in {"GET", "HEAD", "OPTIONS"}:
        statuses.update((413, 415))
    return {str(status): _response(route, status, problem) for status in sorted(statuses)}


def _response(route: Route, status: int, problem: str) -> dict[str, Any]:
    response: dict[str, Any] = status_response(status)
    if status in range(200, 300):
        if route.gives is not None:
            response["content"] = {_JSON: {"schema": dict(route.gives)}}
    elif status not in {303, 304} and route.method != "HEAD":
        response["content"] = {PROBLEM: {"schema": {"$ref": f"#/components/schemas/{problem}"}}}
        if status in _BEFORE_ROUTING:
            response["content"]["text/plain"] = {"schema": {"type": "string"}}
        if status in route.says:
            response["content"][_JSON] = {"schema": dict(route.says[status])}
    return response
