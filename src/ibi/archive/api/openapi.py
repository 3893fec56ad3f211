"""The description of the JSON interface for programs (OpenAPI 3.1), made from the very table that answers.

GET /-/api/openapi.json
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.api import doors
from ibi.archive.api.routes import ROOT, Route, answer
from ibi.archive.api.schemas import SCHEMAS
from ibi.exchange import PROBLEM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.api.routes import Call, Schema
    from ibi.exchange import Response

_PATH: Final = "/openapi.json"
_JSON: Final = "application/json"
_GOOD: Final = range(200, 300)
_BODILESS: Final = frozenset({303, 304})
_USUAL: Final = (400, 401, 408, 414, 421, 429, 431, 503)
_OF_ALL_WRITING: Final = (413, 415)
_AT_THE_DOOR: Final = frozenset({400, 408, 413, 414, 421, 431, 503})
"""May be said before the interface has been reached, and then not as a problem."""
_PLACE = re.compile(r"<([a-z]+)>")
_PLACES: Final = {
    "ibi": {"description": "an IBI in either form, or an older opaque id; its slashes may stay"},
    "file": {"description": "the name of a file, percent-encoded once; its slashes may stay"},
    "word": {"description": "a name without slashes"},
}
_STATUSES: Final = {
    200: {"description": "as it is now"},
    201: {"description": "it is new"},
    202: {"description": "it has been begun"},
    204: {"description": "done"},
    303: {"description": "somebody else answers"},
    304: {"description": "unchanged"},
    400: {"description": "the request is not what it should be"},
    401: {"description": "a token is missing or unknown"},
    403: {"description": "the token may not"},
    404: {"description": "there is no such thing"},
    405: {"description": "not this method"},
    408: {"description": "it did not arrive in time"},
    409: {"description": "the state of things forbids it"},
    410: {"description": "it was there"},
    411: {"description": "the length is missing"},
    412: {"description": "it was changed meanwhile"},
    413: {"description": "too large"},
    414: {"description": "the address is too long"},
    415: {"description": "of the wrong type"},
    421: {"description": "no Archive of this name is here"},
    422: {"description": "what it says cannot be"},
    428: {"description": "If-Match is missing"},
    429: {"description": "too much at a time"},
    431: {"description": "the head is too large"},
    502: {"description": "another machine failed us"},
    503: {"description": "later, perhaps"},
    507: {"description": "the disk is full"},
}


def routes(others: Sequence[Route], version: str) -> tuple[Route, ...]:
    """All other routes, and the one that describes them, which describes itself too."""

    async def act(_call: Call) -> Response:
        return answer(document)

    own = Route(
        "GET", _PATH, None, act, "this description", gives={"type": "object", "required": ["openapi"]}
    )
    document = describe((*others, own), version)
    document["paths"] |= doors.described()
    return (*others, own)


def describe(table: Sequence[Route], version: str) -> dict[str, Any]:
    """The document. `version`: of the program that answers."""
    paths: dict[str, dict[str, Any]] = {}
    for route in table:
        path = paths.setdefault(_PLACE.sub(r"{\1}", route.pattern), {})
        path[route.method.lower()] = _operation(route)
    for path in paths.values():
        if "parameters" not in path:
            first = next(route for route in table if paths[_PLACE.sub(r"{\1}", route.pattern)] is path)
            path["parameters"] = [_place(name) for name in _PLACE.findall(first.pattern)]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "An Archive of identified items",
            "version": version,
            "description": "Deposit, edition and removal of items, and what programs read of them.",
        },
        "servers": [{"url": ROOT}],
        "paths": paths,
        "components": {
            "schemas": dict(SCHEMAS),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "made with: ibi archive token",
                }
            },
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    words = re.findall(r"[a-z]+", route.pattern)
    operation: dict[str, Any] = {
        "operationId": "-".join([route.method.lower(), *words]),
        "summary": route.summary,
        "security": [{}, {"token": []}] if route.scope is None else [{"token": [route.scope.value]}],
        "responses": _responses(route),
    }
    parameters = [_parameter(name, "query", schema) for name, schema in route.query.items()]
    parameters += [_parameter(name, "header", schema) for name, schema in route.headers.items()]
    if parameters:
        operation["parameters"] = parameters
    bodies = {**({_JSON: route.takes} if route.takes is not None else {}), **route.other_bodies}
    if bodies:
        content = {kind: {"schema": dict(schema)} for kind, schema in bodies.items()}
        operation["requestBody"] = {"content": content}
    return operation


def _responses(route: Route) -> dict[str, Any]:
    statuses = {route.status, *route.refusals, *route.says, *_USUAL}
    if route.scope is not None:
        statuses.add(403)
    if _PLACE.search(route.pattern):
        statuses.add(404)
    if route.method not in {"GET", "HEAD", "OPTIONS"}:
        statuses.update(_OF_ALL_WRITING)
    return {str(status): _response(route, status) for status in sorted(statuses)}


def _response(route: Route, status: int) -> dict[str, Any]:
    told: dict[str, Any] = dict(_STATUSES[status])
    if status in _GOOD:
        if route.gives is not None:
            told["content"] = {_JSON: {"schema": dict(route.gives)}}
    elif status not in _BODILESS and route.method != "HEAD":
        told["content"] = {PROBLEM: {"schema": {"$ref": "#/components/schemas/problem"}}}
        if status in _AT_THE_DOOR:
            told["content"]["text/plain"] = {"schema": {"type": "string"}}
        if status in route.says:
            told["content"][_JSON] = {"schema": dict(route.says[status])}
    return told


def _place(name: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema, **_PLACES[name]}


def _parameter(name: str, where: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "in": where, "schema": dict(schema)}
