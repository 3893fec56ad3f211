"""What clients of the tests ask for every answer finds whatever is not as an interface describes itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ibi.accounts.tokens import Scope
from ibi.api.openapi import document, paths
from ibi.api.routes import COUNT, TEXT, Call, Route, list_of, record, ref
from ibi.http.response import JSON, PROBLEM, Response
from support.checks.description import Description, description

_MEMBER = record("since", name=TEXT, number=COUNT, since={"type": "string", "format": "date-time"})
_PROBLEM = record(type=TEXT, title=TEXT, status=COUNT, detail=TEXT)
GOOD: dict[str, Any] = {"name": "a", "number": 1, "since": "2026-11-27T12:00:00Z"}
NOT_FOUND = {"type": "about:blank", "title": "Not Found", "status": 404, "detail": "no such member"}


async def _act(_call: Call) -> Response:
    return Response(204)  # it is described, and never asked


@pytest.fixture(scope="module")
def described() -> Description:
    table = (
        Route("GET", "/members", None, _act, "all", gives=record(members=list_of(ref("member")))),
        Route("GET", "/members/<word>", None, _act, "one", gives=ref("member")),
        Route("DELETE", "/members/<word>", Scope.ADMIN, _act, "forget one", status=204),
        Route("GET", "/members/<ibi>/history", None, _act, "of one", gives=list_of(TEXT)),
    )
    schemas = {"member": _MEMBER, "problem": _PROBLEM}
    return description(json.dumps(document("T", "t", "1", paths(table), schemas)).encode())


@pytest.mark.parametrize(
    ("method", "path", "status", "kind", "value"),
    [
        ("GET", "/members", 200, JSON, {"members": [GOOD, {"name": "b", "number": 0}]}),
        ("GET", "/members/a?x=1", 200, JSON, GOOD),
        ("GET", "/members/a.example/b/2020/01.01.00.00/history", 200, JSON, ["added"]),
        ("GET", "/members/a", 404, PROBLEM, NOT_FOUND),
        ("HEAD", "/members/a", 200, JSON, None),
        ("DELETE", "/members/a", 204, "", None),
        ("PUT", "/members/a", 405, PROBLEM, NOT_FOUND),
        ("GET", "/elsewhere", 404, PROBLEM, NOT_FOUND),
        ("GET", "/elsewhere", 200, "text/html", None),
    ],
)
def test_an_answer_as_it_is_described_passes(
    described: Description, method: str, path: str, status: int, kind: str, value: object
) -> None:
    body = b"" if value is None else json.dumps(value).encode()
    described.check(method, f"/-/api{path}", status, kind, body)


@pytest.mark.parametrize(
    ("method", "path", "status", "kind", "value", "fault"),
    [
        ("GET", "/members/a", 200, JSON, {"name": "a"}, "'number' is a required property"),
        ("GET", "/members/a", 200, JSON, {**GOOD, "more": 1}, "'more' was unexpected"),
        ("GET", "/members/a", 200, JSON, {**GOOD, "number": "1"}, "'1' is not of type 'integer'"),
        ("GET", "/members/a", 200, JSON, {**GOOD, "since": "today"}, "'today' is not a 'date-time'"),
        ("GET", "/members", 200, JSON, {"members": [{}]}, r"\$.members\[0\]"),
        ("GET", "/members/a/history", 200, JSON, {}, "is not of type 'array'"),
        ("GET", "/members/a", 200, "text/html", "", "of a type that is not described"),
        ("GET", "/members/a", 201, JSON, GOOD, "of a status that is not described"),
        ("GET", "/members/a", 404, PROBLEM, {**NOT_FOUND, "detail": None}, "None is not of type 'string'"),
        ("PUT", "/members/a", 200, JSON, GOOD, "a method that is not described is allowed"),
        ("GET", "/elsewhere", 404, PROBLEM, {"title": "Not Found"}, "not as described"),
    ],
)
def test_an_answer_that_is_not_as_it_is_described_is_found(
    described: Description, method: str, path: str, status: int, kind: str, value: object, fault: str
) -> None:
    with pytest.raises(AssertionError, match=fault):
        described.check(method, f"/-/api{path}", status, kind, json.dumps(value).encode())
