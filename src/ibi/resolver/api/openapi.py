"""The description of a resolver's HTTP interface (OpenAPI 3.1): GET /-/api/openapi.json.

Persistent URLs themselves, and the messages of the standard, are described by the standard and docs/reference/http.md.
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
from ibi.resolver.model.alert import AlertKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.api.routes import Route

PATH: Final = "/-/api/openapi.json"

TEXT: Final = {"type": "string"}
COUNT: Final = {"type": "integer", "minimum": 0}
_TRUTH: Final = {"type": "boolean"}
_MOMENT: Final = {"type": "string", "format": "date-time"}
_OF_THE_SERVER: Final = (400, 408, 414, 421, 431, 503)
_SHOWN: Final = (PLAIN, HTML)  # what people can ask for, too
_OF_RESOLVING: Final = (404, 409, 410, 429, 502, 508)


def object_schema(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    """Write the schema of an object with these members; all but the required ones may be missing."""
    return {"type": "object", "required": [*required], "properties": properties}


_FORMAT: Final = {
    "name": "format",
    "in": "query",
    "description": "oai_dc: the metadata of its service",
    "schema": {"enum": ["oai_dc"]},
}
_IDENTITY: Final = ("title", "service_ibi", "service", "address", "policy")
SCHEMAS: Final[dict[str, Any]] = {
    "problem": object_schema(
        ["type", "kind", "title", "status", "detail"],
        type=TEXT,
        kind={"enum": [str(kind) for kind in AlertKind]},
        title=TEXT,
        status={"type": "integer"},
        detail=TEXT,
        known=_TRUTH,
        **dict.fromkeys(("instance", "ibi", "timestamp", "leads_to", "first", "contact", "elsewhere"), TEXT),
        about={"type": "array", "items": TEXT},
        alternates={"type": "object", "additionalProperties": TEXT},
        proposals={"type": "array", "items": TEXT},
        near={"type": "array", "items": TEXT},
        claimed_since={"type": "object", "additionalProperties": TEXT},
        removed=object_schema(
            [],
            title=TEXT,
            people=TEXT,
            date=TEXT,
            reason=TEXT,
            replacement=TEXT,
        ),
        fault=object_schema(["start", "end", "caret"], start=COUNT, end=COUNT, caret=TEXT),
        statements={
            "type": "array",
            "items": object_schema(
                ["round", "archive", "says", "sentence", "why"],
                round=COUNT,
                **dict.fromkeys(("archive", "says", "sentence", "why"), TEXT),
            ),
        },
        others={
            "type": "array",
            "items": object_schema(
                ["round", "says", "sentence", "number"], round=COUNT, says=TEXT, sentence=TEXT, number=COUNT
            ),
        },
        archives=object_schema(
            ["asked", "answered", "silent"], asked=COUNT, answered=COUNT, silent={"type": "array"}
        ),
        asked={"type": "object"},
        offer_nothing=COUNT,
        ways={"type": "array", "items": object_schema(["title", "url"], title=TEXT, url=TEXT)},
        slips={"type": "array", "items": TEXT},
        responsible={
            "type": "array",
            "items": object_schema(["service_ibi", "mail"], service_ibi=TEXT, mail=TEXT),
        },
        report=TEXT,
    ),
    "refusal": object_schema(
        ["type", "title", "status", "detail"],
        type=TEXT,
        title=TEXT,
        status={"type": "integer"},
        detail=TEXT,
    ),
    "status": object_schema(
        ["moment", "process_since", "lately_seconds", "line", "archives", "members"],
        moment=_MOMENT,
        process_since=_MOMENT,
        lately_seconds=COUNT,
        line=TEXT,
        archives=object_schema(
            ["included", "confirmed", "heard", "silent", "not_asked", "asleep"],
            **dict.fromkeys(("included", "confirmed", "heard", "silent", "not_asked", "asleep"), COUNT),
        ),
        members={
            "type": "array",
            "items": object_schema(
                ["service_ibi", "address", "standing", "confirmed", "since", "last_heard", "asleep"],
                service_ibi=TEXT,
                title=TEXT,
                title_pt=TEXT,
                address=TEXT,
                standing={"enum": ["heard", "silent", "not asked"]},
                confirmed=_TRUTH,
                since=_MOMENT,
                last_heard={"anyOf": [_MOMENT, {"type": "null"}]},
                asleep=_TRUTH,
                why=TEXT,
            ),
        },
    ),
    "handle": object_schema(
        ["responseCode", "handle"],
        responseCode={"enum": [1, 2, 100, 200]},
        handle=TEXT,
        message=TEXT,
        values={
            "type": "array",
            "items": object_schema(
                ["index", "type", "data", "ttl", "timestamp"],
                index={"type": "integer", "minimum": 1},
                type=TEXT,
                data=object_schema(["format", "value"], format={"const": "string"}, value=TEXT),
                ttl=COUNT,
                timestamp=TEXT,
            ),
        },
    ),
    "explanation": object_schema(
        ["url", "policy", "differences", "original_required", "rounds", "outcome", "milliseconds"],
        url=TEXT,
        policy=TEXT,
        differences={"type": "array", "items": TEXT},
        original_required=_TRUTH,
        rounds={"type": "array", "items": {"type": "object"}},
        outcome={"type": "object", "required": ["status"]},
        milliseconds=COUNT,
        persistence=TEXT,
    ),
    "about": object_schema(
        [*_IDENTITY, "role", "aliases", "differences", "private_archives", "archives", "seconds"],
        role={"const": "resolver"},
        **dict.fromkeys(_IDENTITY, TEXT),
        aliases={"type": "array", "items": TEXT},
        public_url=TEXT,
        differences={"type": "object", "additionalProperties": TEXT},
        admin={"type": ["string", "null"]},
        attestation_key={"type": ["string", "null"]},
        private_archives=_TRUTH,
        archives=COUNT,
        seconds=object_schema(
            ["per_archive", "overall"], per_archive={"type": "number"}, overall={"type": "number"}
        ),
    ),
    "registry": object_schema(["registry", "signature"], registry={"type": "object"}, signature=TEXT),
    "key": object_schema([], service_ibi=TEXT, key=TEXT, challenge=TEXT, at=TEXT, seconds=COUNT),
}
"""The schemas, by name."""


def document(*, registers: bool, publishes: bool, table: Sequence[Route] = ()) -> dict[str, Any]:
    """Describe the whole interface.

    `registers`: whether Archives may apply at /-/register; `publishes`: whether there is a list of Archives; `table`:
    the routes of administrators.
    """
    status = _reads("status", "how the network stands, as far as this process knows", "status", _SHOWN)
    explain = _reads(
        "explain", "how a persistent URL is resolved", "explanation", _SHOWN, _OF_RESOLVING, parameters=[IBI]
    )
    paths = {
        "/-/status": {"get": status},
        "/-/about": {
            "get": _reads(
                "about",
                "who this resolver is",
                "about",
                ("text/html", "application/xml"),
                parameters=[_FORMAT],
            )
        },
        "/-/healthz": {"get": _plain("healthz", "whether the process answers")},
        "/-/readyz": {"get": _plain("readyz", "whether readers should be sent to it")},
        "/-/find": {"get": _find()},
        "/-/explain/{ibi}": {"get": explain},
        "/-/api/handles/{ibi}": {"get": _handles()},
        "/-/timegate/{ibi}": {"get": _times("timegate", "to the edition of a time (RFC 7089)", 302)},
        "/-/timemap/{ibi}": {"get": _times("timemap", "to the list of editions (RFC 7089)", 303)},
        **({} if table else {PATH: {"get": _reads("openapi", "this description", None)}}),
        "/-/api/keys": {"post": _keys()},
    }
    if publishes:
        paths["/-/registry"] = {"get": _reads("registry", "the signed list of its Archives", "registry")}
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


def _operation(name: str, summary: str, responses: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"operationId": name, "summary": summary, **more, "responses": responses}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _refusals(*statuses: int) -> dict[str, Any]:
    """Describe refusals, in the form that Accept asks for; some are sent before the request is routed."""
    content = {PROBLEM: {"schema": _ref("problem")}, PLAIN: {"schema": TEXT}, HTML: {"schema": TEXT}}
    refused = sorted({*_OF_THE_SERVER, *statuses})
    return {str(status): {**described(status), "content": dict(content)} for status in refused}


def _refusals_of_posts(*statuses: int) -> dict[str, Any]:
    """Describe the refusals of a POST, which programs get as JSON."""
    refused = _refusals(*statuses)
    for response in refused.values():
        response["content"][JSON] = {"schema": {"type": "object"}}
    return refused


def _good(schema: str | None, *other: str) -> dict[str, Any]:
    """Describe a good answer: JSON of this schema, or text of the other media types."""
    content = {JSON: {"schema": _ref(schema) if schema else {"type": "object"}}}
    return {"200": {**described(200), "content": content | {kind: {"schema": TEXT} for kind in other}}}


def _reads(
    name: str,
    summary: str,
    schema: str | None,
    other: tuple[str, ...] = (),
    refused: tuple[int, ...] = (),
    **more: Any,
) -> dict[str, Any]:
    return _operation(name, summary, {**_good(schema, *other), **_refusals(*refused)}, **more)


def _plain(name: str, summary: str) -> dict[str, Any]:
    ok = {"200": {**described(200), "content": {PLAIN: {"schema": TEXT}}}}
    return _operation(name, summary, {**ok, **_refusals()})


def _find() -> dict[str, Any]:
    text = {"name": "text", "in": "query", "description": "whatever has an identifier in it", "schema": TEXT}
    found = {"303": described(303), "200": {"description": "a page", "content": {HTML: {}}}}
    return _operation("find", "the persistent URL in a text", {**found, **_refusals()}, parameters=[text])


def _handles() -> dict[str, Any]:
    texts = {"type": "array", "items": TEXT}
    numbers = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 999_999_999}}
    words = {"type": texts, "index": numbers, "pretty": TEXT, "all": TEXT}
    parameters = [IBI, *({"name": name, "in": "query", "schema": words[name]} for name in words)]
    record = {JSON: {"schema": _ref("handle")}}
    failed = {str(status): {**described(status), "content": record} for status in _OF_RESOLVING}
    either = _refusals()
    for status in ("400", "503"):
        either[status]["content"] |= record
    summary = "what is known of an item, as the proxy of the Handle System tells it"
    return _operation("handle", summary, {**_good("handle"), **failed, **either}, parameters=parameters)


def _times(name: str, summary: str, status: int) -> dict[str, Any]:
    responses = {str(status): described(status), **_refusals(*_OF_RESOLVING)}
    return _operation(name, summary, responses, parameters=[IBI])


def _keys() -> dict[str, Any]:
    body = object_schema(["service_ibi"], service_ibi=TEXT, challenge=TEXT)
    return _operation(
        "key",
        "a new key for an Archive that controls its address: first a challenge, then the key",
        {**_good("key"), **_refusals_of_posts(403, 413, 415, 429)},
        requestBody={"required": True, "content": {JSON: {"schema": body}}},
    )


def _register() -> dict[str, Any]:
    fields = ("service_ibi", "address", "mail", "title", "title_pt", "name", "hosts")
    body = object_schema(fields[:3], **dict.fromkeys(fields, TEXT))
    refused = _refusals_of_posts(403, 404, 409, 413, 415, 422, 429)
    return _operation(
        "register",
        "an Archive applies for registration",
        {**_good("key", *_SHOWN), **refused},
        requestBody={"required": True, "content": {"application/x-www-form-urlencoded": {"schema": body}}},
    )
