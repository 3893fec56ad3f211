"""Each refusal of the JSON interface whole: its status, its sentence and its headers; which route answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.api.dispatch import Api
from ibi.api.routes import Call, Route, answer, list_of, record, ref
from ibi.errors import (
    AlreadyHeld,
    BadField,
    BadItem,
    ClockError,
    Conflict,
    HoldingError,
    IbiError,
    LostState,
    MintingNotAllowed,
    NotHeld,
    ParseError,
    PeerError,
    PeerSilent,
    SetupError,
    Unsettled,
)
from ibi.http.request import ClientGone, Request
from ibi.http.response import Refusal, Response

Headers = tuple[tuple[str, str], ...]
Act = Callable[[Call], Awaitable[Response]]
ALWAYS: Headers = (("cache-control", "no-store"), ("content-language", "en"), ("vary", "accept-language"))


async def _nothing() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


def ask(api: Api, method: str, path: str, query: str = "", **headers: str) -> Response:
    known = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return asyncio.run(api.answer(Request(method, f"/-/api{path}", query, known), _nothing))


def raising(error: BaseException) -> Act:
    async def act(_call: Call) -> Response:
        raise error

    return act


def problem(response: Response) -> tuple[int, str, str, Headers]:
    """Status, title, detail and headers of a problem."""
    assert response.content_type == "application/problem+json"
    body = json.loads(response.body)
    assert body["type"] == "about:blank"
    assert body["status"] == response.status
    return response.status, body["title"], body["detail"], response.headers


LATER: Headers = (("retry-after", "10"),)
UNPROCESSABLE = HTTPStatus(422).phrase
"""Its name is another one in Python 3.13."""


@pytest.mark.parametrize(
    ("error", "status", "title", "detail", "headers"),
    [
        (BadField("bad {name}", name="x"), 422, UNPROCESSABLE, "bad x", ()),
        (NotHeld("x"), 404, "Not Found", "x", ()),
        (AlreadyHeld("x"), 409, "Conflict", "x", ()),
        (Conflict("x"), 412, "Precondition Failed", "x", ()),
        (BadItem("x"), 422, UNPROCESSABLE, "x", ()),
        (Unsettled("x"), 503, "Service Unavailable", "x", ()),
        (HoldingError("x"), 409, "Conflict", "x", ()),
        (ParseError("IBIp", "te\ud800xt", "x"), 422, UNPROCESSABLE, "te?xt: x", ()),
        (PeerError("x"), 502, "Bad Gateway", "x", ()),
        (PeerSilent("x"), 502, "Bad Gateway", "x", ()),
        (IbiError("x"), 400, "Bad Request", "x", ()),
        (SetupError("/secret"), 503, "Service Unavailable", "this server cannot answer now; try again later", LATER),
        (KeyError("secret"), 503, "Service Unavailable", "this server cannot answer now; try again later", LATER),
        (LostState("/secret"), 503, "Service Unavailable", "no label can be given now; ask again later", LATER),
        (ClockError("secret"), 503, "Service Unavailable", "no label can be given now; ask again later", LATER),
        (MintingNotAllowed("secret"), 503, "Service Unavailable",
         "this Archive has no name to mint under; its administrator can give it one", ()),
        (asyncio.CancelledError(), 503, "Service Unavailable", "this server is stopping; ask again later", LATER),
        (Refusal(429, IbiError("x"), ("retry-after", "3")), 429, "Too Many Requests", "x", (("retry-after", "3"),)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)  # fmt: skip
def test_each_error_is_a_problem_with_its_status(
    tmp_path: Path, error: BaseException, status: int, title: str, detail: str, headers: Headers
) -> None:
    api = Api([Route("GET", "/x", None, raising(error), "x")], Tokens(tmp_path), 100)
    assert problem(ask(api, "GET", "/x")) == (status, title, detail, (*headers, *ALWAYS))


def test_a_refusal_may_tell_more_and_is_in_the_language_of_the_client(tmp_path: Path) -> None:
    error = Refusal(409, NotHeld("there is no such page here"), where="/x")
    api = Api([Route("GET", "/x", None, raising(error), "x")], Tokens(tmp_path), 100)
    response = ask(api, "GET", "/x", accept_language="pt-BR")
    assert json.loads(response.body) == {
        "type": "about:blank", "title": "Conflict", "status": 409, "where": "/x",
        "detail": "esta página não existe aqui",
    }  # fmt: skip
    assert ("content-language", "pt-BR") in response.headers


def test_a_client_that_has_gone_gets_nothing(tmp_path: Path) -> None:
    api = Api([Route("GET", "/x", None, raising(ClientGone()), "x")], Tokens(tmp_path), 100)
    assert ask(api, "GET", "/x") == Response(400)


async def named(call: Call) -> Response:
    return answer([call.request.method, call.token_name, dict(call.values)], 202, ("x", "y"))


def test_what_is_answered_is_not_stored(tmp_path: Path) -> None:
    api = Api([Route("GET", "/x/<word>", None, named, "x")], Tokens(tmp_path), 100)
    response = ask(api, "GET", "/x/a%2Fb")
    assert (response.status, json.loads(response.body)) == (202, ["GET", "", {"word": "a%2Fb"}])
    assert response.content_type == "application/json"
    assert response.headers == (("x", "y"), ("cache-control", "no-store"))


@pytest.fixture
def guarded(tmp_path: Path) -> tuple[Api, dict[str, str]]:
    """An interface with a route for each of three scopes, and tokens by name."""
    tokens = Tokens(tmp_path)
    made = {
        scope: tokens.make(scope, "2026-11-22T10:00:00Z", [Scope(scope)])
        for scope in ("read", "edit", "admin")
    }
    routes = [
        Route("GET", "/x", Scope.READ, named, "x"),
        Route("PUT", "/x", Scope.EDIT, named, "x"),
        Route("GET", "/open", None, named, "x"),
        Route("DELETE", "/only", None, named, "x"),
        Route("PATCH", "/up/x", None, named, "x"),
    ]
    return Api(routes, tokens, 100, tunnel="/up"), made


def test_a_route_needs_a_token_with_its_scope(guarded: tuple[Api, dict[str, str]]) -> None:
    api, made = guarded
    none = "this needs a token: Authorization: Bearer TOKEN"
    assert problem(ask(api, "PUT", "/x")) == (
        401, "Unauthorized", none, (("www-authenticate", "Bearer"), *ALWAYS),
    )  # fmt: skip
    challenge = 'Bearer error="insufficient_scope", scope="edit"'
    assert problem(ask(api, "PUT", "/x", authorization=f"Bearer {made['read']}")) == (
        403, "Forbidden", "this needs a token with the scope edit", (("www-authenticate", challenge), *ALWAYS),
    )  # fmt: skip
    for header in ("Bearer x", "Basic x", made["read"]):
        for path in ("/x", "/open"):
            assert problem(ask(api, "GET", path, authorization=header)) == (
                401, "Unauthorized", "this token is unknown, or was revoked",
                (("www-authenticate", 'Bearer error="invalid_token"'), *ALWAYS),
            )  # fmt: skip
    for name in ("edit", "admin"):
        response = ask(api, "PUT", "/x", authorization=f"bearer  {made[name]} ")
        assert json.loads(response.body) == ["PUT", name, {}]


def test_a_method_that_a_path_does_not_have_is_refused_with_those_that_it_has(
    guarded: tuple[Api, dict[str, str]],
) -> None:
    api, _ = guarded
    for method, path, offered in (
        ("POST", "/x", "GET, HEAD, PUT"),
        ("HEAD", "/only", "DELETE"),
        ("GET", "/only", "DELETE"),
    ):
        assert problem(ask(api, method, path)) == (
            405, "Method Not Allowed", f"only {offered} are understood here", (("allow", offered), *ALWAYS),
        )  # fmt: skip
    assert json.loads(ask(api, "HEAD", "/open").body)[0] == "HEAD"
    assert problem(ask(api, "GET", "/nowhere"))[:3] == (404, "Not Found", "there is no such page here")


def test_a_post_stands_for_another_method_where_that_is_allowed_alone(
    guarded: tuple[Api, dict[str, str]],
) -> None:
    api, _ = guarded
    assert ask(api, "POST", "/up/x", x_http_method_override="patch").status == 202
    assert ask(api, "POST", "/up/x").status == 405
    assert ask(api, "PUT", "/up/x", x_http_method_override="PATCH").status == 405
    assert ask(api, "POST", "/only", x_http_method_override="DELETE").status == 405


def test_of_two_routes_the_one_with_more_fixed_characters_answers(tmp_path: Path) -> None:
    def saying(word: str) -> Act:
        async def act(_call: Call) -> Response:
            return answer(word)

        return act

    patterns = ["/items/<ibi>", "/items/<ibi>/files", "/items/<ibi>/files/<file>", "/items/all"]
    api = Api([Route("GET", each, None, saying(each), "x") for each in patterns], Tokens(tmp_path), 100)
    for path, pattern in (
        ("/items/all", "/items/all"),
        ("/items/a.b/c/2013/01.01", "/items/<ibi>"),
        ("/items/a.b/c/2013/01.01/files", "/items/<ibi>/files"),
        ("/items/x/y/files/files/z", "/items/<ibi>/files/<file>"),
        ("/items/x/y", "/items/<ibi>"),
    ):
        assert json.loads(ask(api, "GET", path).body) == pattern, path
        assert api.knows(f"/-/api{path}")
    assert not api.knows("/items/all")


def test_one_token_changes_so_many_things_at_once(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    made = [tokens.make(name, "2026-11-22T10:00:00Z", [Scope.ADMIN]) for name in ("a", "b")]
    ended = asyncio.Event()

    async def wait(_call: Call) -> Response:
        await ended.wait()
        return Response(204)

    routes = [Route(method, "/x", Scope.ADMIN, wait, "x") for method in ("GET", "PUT")]
    api = Api(routes, tokens, 100)

    async def send(method: str, token: str) -> Response:
        request = Request(method, "/-/api/x", "", {b"authorization": f"Bearer {token}".encode()})
        return await api.answer(request, _nothing)

    async def scenario() -> tuple[Response, list[Response]]:
        under_way = [asyncio.create_task(send("PUT", made[0])) for _ in range(32)]
        under_way += [asyncio.create_task(send(*each)) for each in (("GET", made[0]), ("PUT", made[1]))]
        await asyncio.sleep(0)
        refused = await send("PUT", made[0])
        ended.set()
        return refused, [*await asyncio.gather(*under_way), await send("PUT", made[0])]

    refused, answered = asyncio.run(scenario())
    assert problem(refused) == (
        429, "Too Many Requests",
        "too much is requested at a time with this token; wait for what is under way",
        (("retry-after", "1"), *ALWAYS),
    )  # fmt: skip
    assert [response.status for response in answered] == [204] * 35


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", {}),
        ("a=1&b=%C3%A9&c", {"a": "1", "b": "é", "c": ""}),
        ("a=1&a=1", "a word of the query stands twice"),
        ("a=%FF", "the query is not UTF-8"),
    ],
)
def test_the_words_of_a_query_stand_once_and_are_utf8(tmp_path: Path, query: str, words: Any) -> None:
    async def act(call: Call) -> Response:
        return answer(call.query)

    api = Api([Route("GET", "/x", None, act, "x")], Tokens(tmp_path), 100)
    response = ask(api, "GET", "/x", query)
    if isinstance(words, dict):
        assert json.loads(response.body) == words
    else:
        assert problem(response)[:3] == (400, "Bad Request", words)


def test_schemas_are_written_whole() -> None:
    assert record("b", a={"type": "string"}, b=ref("item")) == {
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"type": "string"}, "b": {"$ref": "#/components/schemas/item"}},
    }
    assert list_of({}, maxItems=3) == {"type": "array", "items": {}, "maxItems": 3}
