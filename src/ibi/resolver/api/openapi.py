"""The description of a resolver's HTTP interface (OpenAPI 3.1): GET /-/api/openapi.json.

Persistent URLs themselves, and the messages of the standard, are described by the standard and docs/contract.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ibi
from ibi.api.openapi import IBI
from ibi.api.openapi import document as openapi_document
from ibi.api.openapi import paths as paths_of
from ibi.api.openapi import status_response as described
from ibi.api.routes import ROOT
from ibi.http.response import HTML, JSON, PLAIN, PROBLEM
from ibi.resolver.model.alert import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.api.routes import Route

PATH: Final = "/-/api/openapi.json"

_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_TRUTH: Final = {"type": "boolean"}
_MOMENT: Final = {"type": "string", "format": "date-time"}
_OF_THE_SERVER: Final = (400, 408, 414, 421, 431, 503)
_OF_RESOLVING: Final = (404, 409, 410, 429, 502, 508)


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


SCHEMAS: Final[dict[str, Any]] = {
    "problem": _object(
        ["type", "kind", "title", "status", "detail"],
        type=_TEXT,
        kind={"enum": [str(kind) for kind in Kind]},
        title=_TEXT,
        status={"type": "integer"},
        detail=_TEXT,
        archives=_object(
            ["asked", "answered", "silent"], asked=_COUNT, answered=_COUNT, silent={"type": "array"}
        ),
        asked={"type": "object"},
        offer_nothing=_COUNT,
        ways={"type": "array", "items": _object(["title", "url"], title=_TEXT, url=_TEXT)},
        slips={"type": "array", "items": _TEXT},
        responsible={
            "type": "array",
            "items": _object(["service_ibi", "mail"], service_ibi=_TEXT, mail=_TEXT),
        },
        report=_TEXT,
    ),
    "refusal": _object(
        ["type", "title", "status", "detail"],
        type=_TEXT,
        title=_TEXT,
        status={"type": "integer"},
        detail=_TEXT,
    ),
    "status": _object(
        ["moment", "process_since", "lately_seconds", "line", "archives", "members"],
        moment=_MOMENT,
        process_since=_MOMENT,
        lately_seconds=_COUNT,
        line=_TEXT,
        archives=_object(
            ["included", "confirmed", "heard", "silent", "not_asked", "asleep"],
            **dict.fromkeys(("included", "confirmed", "heard", "silent", "not_asked", "asleep"), _COUNT),
        ),
        members={
            "type": "array",
            "items": _object(
                ["service_ibi", "address", "standing", "confirmed", "since", "last_heard", "asleep"],
                service_ibi=_TEXT,
                address=_TEXT,
                standing={"enum": ["heard", "silent", "not asked"]},
                confirmed=_TRUTH,
                since=_MOMENT,
                last_heard={"anyOf": [_MOMENT, {"type": "null"}]},
                asleep=_TRUTH,
                why=_TEXT,
            ),
        },
    ),
    "handle": _object(
        ["responseCode", "handle"],
        responseCode={"enum": [1, 2, 100, 200]},
        handle=_TEXT,
        message=_TEXT,
        values={
            "type": "array",
            "items": _object(
                ["index", "type", "data", "ttl", "timestamp"],
                index={"type": "integer", "minimum": 1},
                type=_TEXT,
                data=_object(["format", "value"], format={"const": "string"}, value=_TEXT),
                ttl=_COUNT,
                timestamp=_TEXT,
            ),
        },
    ),
    "explanation": _object(
        ["url", "policy", "differences", "original_required", "rounds", "outcome", "milliseconds"],
        url=_TEXT,
        policy=_TEXT,
        differences={"type": "array", "items": _TEXT},
        original_required=_TRUTH,
        rounds={"type": "array", "items": {"type": "object"}},
        outcome={"type": "object", "required": ["status"]},
        milliseconds=_COUNT,
        persistence=_TEXT,
    ),
    "about": _object(["role", "service_ibi", "address", "policy"], role={"const": "resolver"}),
    "registry": _object(["registry", "signature"], registry={"type": "object"}, signature=_TEXT),
    "key": _object([], service_ibi=_TEXT, key=_TEXT, challenge=_TEXT, at=_TEXT, seconds=_COUNT),
}
"""By name."""


def document(*, registers: bool, publishes: bool, table: Sequence[Route] = ()) -> dict[str, Any]:
    """Describe the whole interface.

    `registers`: whether Archives may apply at /-/register; `publishes`: whether there is a list of Archives; `table`:
    the routes of administrators.
    """
    paths = {
        "/-/status": {
            "get": _reads("status", "how the network stands, as far as this process knows", "status")
        },
        "/-/about": {"get": _reads("about", "who this resolver is", "about", ())},
        "/-/healthz": {"get": _plain("healthz", "whether the process answers")},
        "/-/readyz": {"get": _plain("readyz", "whether readers should be sent to it")},
        "/-/find": {"get": _find()},
        "/-/explain/{ibi}": {
            "get": _about_item("explain", "how a persistent URL is resolved", "explanation")
        },
        "/-/api/handles/{ibi}": {"get": _handles()},
        "/-/timegate/{ibi}": {"get": _times("timegate", "to the edition of a time (RFC 7089)", 302)},
        "/-/timemap/{ibi}": {"get": _times("timemap", "to the list of editions (RFC 7089)", 303)},
        **({} if table else {PATH: {"get": _reads("openapi", "this description", None, ())}}),
        "/-/api/keys": {"post": _keys()},
    }
    if publishes:
        paths["/-/registry"] = {"get": _reads("registry", "the signed list of its Archives", "registry", ())}
    if registers:
        paths["/-/register"] = {"post": _register()}
    return openapi_document(
        "A resolver of persistent identifiers",
        "Where items are today, how that was found out, how the network stands, and who may take part.",
        ibi.__version__,
        {**paths, **paths_of(table, ROOT, "refusal")},
        SCHEMAS,
        "/",
    )


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _refusals(*statuses: int) -> dict[str, Any]:
    """Describe problems, in the form of the request's Accept; some are answered before the request is routed."""
    content = {PROBLEM: {"schema": _ref("problem")}, PLAIN: {"schema": _TEXT}, HTML: {"schema": _TEXT}}
    refused = sorted({*_OF_THE_SERVER, *statuses})
    return {str(status): {**described(status), "content": content} for status in refused}


def _good(schema: dict[str, Any] | None, *other: str) -> dict[str, Any]:
    content = {JSON: {"schema": schema or {"type": "object"}}, **{kind: {"schema": _TEXT} for kind in other}}
    return {"200": {**described(200), "content": content}}


def _reads(
    name: str, summary: str, schema: str | None, other: tuple[str, ...] = (PLAIN, HTML)
) -> dict[str, Any]:
    responses = {**_good(_ref(schema) if schema else None, *other), **_refusals()}
    return {"operationId": name, "summary": summary, "responses": responses}


def _plain(name: str, summary: str) -> dict[str, Any]:
    ok = {"200": {**described(200), "content": {PLAIN: {"schema": _TEXT}}}}
    return {"operationId": name, "summary": summary, "responses": {**ok, **_refusals()}}


def _about_item(name: str, summary: str, schema: str) -> dict[str, Any]:
    responses = {**_good(_ref(schema), PLAIN, HTML), **_refusals(*_OF_RESOLVING)}
    return {"operationId": name, "summary": summary, "parameters": [IBI], "responses": responses}


def _find() -> dict[str, Any]:
    text = {"name": "text", "in": "query", "description": "whatever has an identifier in it", "schema": _TEXT}
    found = {"303": described(303), "200": {"description": "a page", "content": {HTML: {}}}}
    summary = "the persistent URL in a text"
    return {
        "operationId": "find",
        "summary": summary,
        "parameters": [text],
        "responses": {**found, **_refusals()},
    }


def _handles() -> dict[str, Any]:
    texts = {"type": "array", "items": _TEXT}
    numbers = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 999_999_999}}
    parameters = [
        IBI,
        {"name": "type", "in": "query", "schema": texts},
        {"name": "index", "in": "query", "schema": numbers},
        {"name": "pretty", "in": "query", "schema": _TEXT},
    ]
    failed = {
        str(status): {**described(status), "content": {JSON: {"schema": _ref("handle")}}}
        for status in _OF_RESOLVING
    }
    either = _refusals()
    for status in ("400", "503"):
        either[status]["content"] = {**either[status]["content"], JSON: {"schema": _ref("handle")}}
    return {
        "operationId": "handle",
        "summary": "what is known of an item, as the proxy of the Handle System tells it",
        "parameters": parameters,
        "responses": {**_good(_ref("handle")), **failed, **either},
    }


def _times(name: str, summary: str, status: int) -> dict[str, Any]:
    there = {str(status): described(status)}
    return {
        "operationId": name,
        "summary": summary,
        "parameters": [IBI],
        "responses": {**there, **_refusals(*_OF_RESOLVING)},
    }


def _keys() -> dict[str, Any]:
    body = _object(["service_ibi"], service_ibi=_TEXT, challenge=_TEXT)
    refused = _refusals(403, 413, 415, 429)
    for response in refused.values():
        response["content"] = {**response["content"], JSON: {"schema": {"type": "object"}}}
    return {
        "operationId": "key",
        "summary": "a new key for an Archive that controls its address: first a challenge, then the key",
        "requestBody": {"required": True, "content": {JSON: {"schema": body}}},
        "responses": {**_good(_ref("key")), **refused},
    }


def _register() -> dict[str, Any]:
    fields = ("service_ibi", "address", "mail", "name", "hosts")
    body = _object(["service_ibi", "address", "mail"], **dict.fromkeys(fields, _TEXT))
    form = {"application/x-www-form-urlencoded": {"schema": body}}
    refused = _refusals(403, 404, 409, 413, 415, 422, 429)
    for response in refused.values():
        response["content"] = {**response["content"], JSON: {"schema": {"type": "object"}}}
    return {
        "operationId": "register",
        "summary": "an Archive applies for registration",
        "requestBody": {"required": True, "content": form},
        "responses": {**_good(_ref("key"), PLAIN, HTML), **refused},
    }
