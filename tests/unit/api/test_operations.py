"""Operations over HTTP, whole: each answer with its headers, each refusal, and what the description says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ibi.accounts.tokens import Scope
from ibi.api.operations import OperationContext, OperationRunner, check_version, etag_of
from ibi.errors import Conflict
from ibi.http.request import Request
from ibi.http.response import Response
from support.acts.made_up import ONE, PUT, SET, MadeUp, Settings, ThingFields, ThingsContext, read_file

Headers = tuple[tuple[str, str], ...]
NO_STORE: Headers = (("cache-control", "no-store"),)
CHANGED = "this has been changed meanwhile, so nothing was done"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[MadeUp]:
    made = MadeUp(tmp_path)
    yield made
    made.jobs.close()


@pytest.fixture
def token(service: MadeUp) -> str:
    return service.token(Scope.ADMIN)


def reported(response: Response) -> tuple[int, Any, Headers]:
    """Status, value and headers; of a problem, its sentence."""
    value: Any = json.loads(response.body) if response.body else None
    if response.content_type == "application/problem+json":
        assert value["status"] == response.status
        assert value["title"] == HTTPStatus(response.status).phrase
        return response.status, value["detail"], response.headers[:-3]
    return response.status, value, response.headers


def test_what_is_read_has_a_version_and_a_way_to_the_next_page(service: MadeUp, token: str) -> None:
    found: dict[str, Any] = {"things": ["a", "b"], "next": "/-/api/things?least=1"}
    link = ("link", '</-/api/things?least=1>; rel="next"')
    assert reported(service.ask("GET", "/things", token)) == (
        200, found, (("etag", etag_of(found)), link, *NO_STORE),
    )  # fmt: skip
    few = {"things": ["b"]}
    assert reported(service.ask("GET", "/things?least=2", token)) == (
        200, few, (("etag", etag_of(few)), *NO_STORE),
    )  # fmt: skip
    assert reported(service.ask("HEAD", "/things?least=2", token))[0] == 200
    thing = {"name": "a", "size": 1, "words": ["x"]}
    assert reported(service.ask("GET", "/things/a", token)) == (
        200,
        {**thing, "notes": ["a was looked at"]},
        (("etag", etag_of({"size": 1, "words": ["x"]})), ("x-size", "1"), *NO_STORE),
    )
    assert reported(service.ask("GET", "/things/%63", token)) == (404, "there is no thing c", ())


def test_what_is_no_json_is_a_file_to_be_saved(service: MadeUp, token: str) -> None:
    response = service.ask("GET", "/document", token)
    assert (response.status, response.content_type, response.size) == (200, "text/plain", 6)
    assert response.headers == (("content-disposition", 'attachment; filename="all.txt"'), *NO_STORE)
    assert read_file(response) == b"a file"
    saved = (("content-disposition", 'attachment; filename="new.txt"'), *NO_STORE)
    assert service.ask("POST", "/export", token) == Response(200, b"new", "text/plain", saved)


def test_what_is_changed_is_told_with_its_status_and_headers(service: MadeUp, token: str) -> None:
    made = {"name": "é", "words": ["y", "z"], "secret": "a secret of its own", "notes": ["size is the field"]}
    location = (("location", "/-/api/things/é"), *NO_STORE)
    assert reported(service.ask("PUT", "/things/%C3%A9", token, {"size": 3, "words": ["y", "z"]})) == (
        201, made, location,
    )  # fmt: skip
    assert service.things["é"] == {"size": 3, "words": ["y", "z"]}
    assert reported(service.ask("PUT", "/things/é".encode().decode("latin-1"), token))[0] == 201
    assert service.things["é"] == {"size": 0, "words": []}
    assert service.ask("DELETE", "/things/a", token) == Response(204)
    assert "a" not in service.things


@pytest.mark.parametrize(
    ("method", "target", "value", "status", "detail"),
    [
        ("GET", "/things?least=x", None, 422, "least is a whole number from 0 to 9"),
        ("GET", "/things?more=x", None, 422, "there is no field more"),
        ("GET", "/things?least=9", None, 503, "this server cannot answer now; try again later"),
        ("PUT", "/things/a", {"name": "b"}, 422, "there is no field name"),
        ("PUT", "/things/a", {"path": "/x"}, 422, "path is given only on the command line of the server"),
        ("PUT", "/things/a", [], 422, "the body must be a JSON object"),
        ("PUT", "/things/a", {"size": 10}, 422, "size is a whole number from 0 to 9"),
        ("PUT", "/things/%ff", {}, 400, "the path is not UTF-8"),
        ("PATCH", "/settings", {"title": ""}, 422, "a title is needed"),
        ("POST", "/upload", None, 422, "the body must be a JSON object"),
        ("POST", "/upload", {"number": 1}, 422, "the field file is missing"),
        ("POST", "/upload", {"file": "x", "number": 5}, 409, "five is taken"),
    ],
)
def test_what_cannot_be_is_refused(
    service: MadeUp, token: str, method: str, target: str, value: Any, status: int, detail: str
) -> None:
    response = service.ask(method, target, token, value)
    assert (response.status, json.loads(response.body)["detail"]) == (status, detail)


@pytest.mark.parametrize("word", ["things/a", "settings"])
def test_a_change_is_made_of_the_version_that_was_seen(service: MadeUp, token: str, word: str) -> None:
    seen = dict(service.ask("GET", f"/{word}", token).headers)["etag"]
    method, value = ("PUT", {"size": 3}) if word == "things/a" else ("PATCH", {"rate": 3})
    for match in ('"another"', "another", f"{seen[:-1]}"):
        assert reported(service.ask(method, f"/{word}", token, value, if_match=match)) == (412, CHANGED, ())
    for match in ("{}", '"x", W/{}', "*", " * "):
        answer = service.ask(method, f"/{word}", token, value, if_match=match.format(seen))
        assert answer.status in {200, 201}, match
        seen = dict(service.ask("GET", f"/{word}", token).headers)["etag"]
    # What has no version is never the one that was seen.
    assert reported(service.ask("POST", "/upload", token, {"file": "x"}, if_match=seen))[0] == 412


def test_a_version_depends_on_the_value_alone() -> None:
    written = sha256('{"a": "\u00e9?", "b": [1]}'.encode()).hexdigest()[:32]
    assert (
        etag_of({"b": [1], "a": "\u00e9\ud800"}) == etag_of({"a": "\u00e9\ud800", "b": [1]}) == f'"{written}"'
    )


def test_a_version_is_compared_where_there_is_one() -> None:
    check_version("", None)
    check_version("*", None)
    with pytest.raises(Conflict, match=CHANGED):
        check_version(etag_of({}), None)
    context = OperationContext(who="ada", say=str, if_match=etag_of({"a": 1}))
    context.check_match({"a": 1})
    with pytest.raises(Conflict):
        context.check_match({"a": 2})
    assert context.alone() is context


def at_version(service: MadeUp, version: str) -> ThingsContext:
    context = service.context("ada", Request("PATCH", "/", "", {}))
    context.if_match = version
    return context


@pytest.mark.parametrize("is_remote", [False, True])
def test_of_two_changes_of_one_version_the_second_waits_unless_another_machine_is_asked(
    service: MadeUp, *, is_remote: bool
) -> None:
    begun, go_on, version = Event(), Event(), etag_of({"settings": service.settings})

    def slowly(context: ThingsContext, _fields: Settings) -> dict[str, Any]:
        begun.set()
        assert go_on.wait(60)
        context.settings["rate"] = 7.0
        return {"changed": ["rate"]}

    def at_once(context: ThingsContext, _fields: Settings) -> dict[str, Any]:
        return {"rate": context.settings["rate"]}

    first = replace(SET, run=slowly, is_remote=is_remote)
    second = replace(SET, run=at_once)
    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(service.runner.run, first, at_version(service, version), Settings())
        assert begun.wait(60)
        other = threads.submit(service.runner.run, second, at_version(service, version), Settings())
        if is_remote:
            assert other.result(60) == {"rate": 2.0}
        else:
            assert wait([other], 0.05).not_done
        go_on.set()
        assert one.result(60) == {"changed": ["rate"]}
        if not is_remote:
            with pytest.raises(Conflict):
                other.result(60)


def test_where_nothing_shows_the_present_value_a_check_of_its_own_compares(
    tmp_path: Path, service: MadeUp
) -> None:
    checked: list[str] = []

    def check(context: ThingsContext, fields: Any) -> None:
        checked.append(fields.name)
        context.check_match(["this"])

    runner = OperationRunner(tmp_path, (ONE,), service.jobs, {"/things/<word>": check})
    below: Any = replace(PUT, route="PUT /things/<word>/more")
    for operation in (PUT, below):
        with pytest.raises(Conflict):
            runner.run(operation, at_version(service, etag_of(["that"])), ThingFields(name="a"))
        assert (
            runner.run(operation, at_version(service, etag_of(["this"])), ThingFields(name="a")) is not None
        )
    assert checked == ["a"] * 4
    beside: Any = replace(PUT, route="PUT /things/<word>more")
    with pytest.raises(Conflict):
        runner.run(beside, at_version(service, etag_of(["this"])), ThingFields(name="a"))
    assert len(checked) == 4


def test_a_secret_is_not_told_again(service: MadeUp, token: str) -> None:
    first = service.ask("PUT", "/things/c", token, {}, idempotency_key="k")
    assert (first.status, json.loads(first.body)["secret"]) == (201, "a secret of its own")
    assert reported(service.ask("PUT", "/things/c", token, {}, idempotency_key="k"))[:2] == (
        409,
        "this was done already; its secret was shown once, and is not shown again",
    )
    done = service.ask("PATCH", "/settings", token, {"rate": 4}, idempotency_key="l")
    again = service.ask("PATCH", "/settings", token, {"rate": 4}, idempotency_key="l")
    assert (again.status, again.body, again.headers) == (done.status, done.body, done.headers)
    other = service.ask("PATCH", "/settings", token, {"rate": 5}, idempotency_key="l")
    assert (other.status, service.settings["rate"]) == (422, 4)


def test_what_takes_long_is_a_job(service: MadeUp, token: str) -> None:
    response = service.ask("POST", "/count", token)
    facts = json.loads(response.body)
    assert (response.status, response.headers) == (
        202, (("location", f"/-/api/jobs/{facts['id']}"), *NO_STORE),
    )  # fmt: skip
    assert facts == {
        "id": facts["id"], "operation": "count", "who": "admin", "started": "2027-01-15T08:00:00Z", "ended": "",
        "done": 0, "total": None, "state": "running",
    }  # fmt: skip
    service.jobs.close()
    ended = service.jobs.find(facts["id"])
    assert (ended.state, ended.done, ended.total) == ("done", 1, 2)
    assert ended.result == {"count": 2, "notes": ["half of them were counted"]}


def test_each_route_is_described_as_it_is() -> None:
    with_what = {each.pattern + " " + each.method: each for each in MadeUp(Path()).table}
    shown = {
        name: (
            each.scope,
            each.status,
            each.refusals,
            sorted(each.query),
            sorted(each.headers),
            each.shown_once,
        )
        for name, each in with_what.items()
    }
    always, once = (404, 409, 412, 422, 507), ["idempotency-key", "if-match"]
    assert shown == {
        "/things GET": (Scope.READ, 200, (422,), ["lang", "least"], [], ""),
        "/things/<word> GET": (Scope.READ, 200, (422,), [], [], ""),
        "/things/<word> PUT": (Scope.EDIT, 201, (*always, 507), [], once, "secret"),
        "/things/<word> DELETE": (Scope.DELETE, 204, always, [], once, ""),
        "/count POST": (Scope.EDIT, 202, always, [], once, ""),
        "/document GET": (Scope.READ, 200, (422,), [], [], ""),
        "/settings GET": (Scope.READ, 200, (422,), [], [], ""),
        "/settings PATCH": (Scope.ADMIN, 200, always, [], once, ""),
        "/upload POST": (Scope.EDIT, 200, always, [], once, ""),
        "/send POST": (Scope.EDIT, 204, always, ["name"], once, ""),
        "/export POST": (Scope.EDIT, 200, always, [], once, ""),
        "/own GET": (Scope.ADMIN, 200, (422,), [], [], ""),
    }
    takes = {name: sorted(each.takes["properties"]) for name, each in with_what.items() if each.takes}
    assert takes == {
        "/things/<word> PUT": ["secret", "size", "words"],
        "/settings PATCH": ["hosts", "loud", "rate", "title"],
        "/upload POST": ["file", "number", "sure"],
    }
    put, upload = with_what["/things/<word> PUT"].takes, with_what["/upload POST"].takes
    assert put is not None
    assert upload is not None
    assert (put["required"], upload["required"]) == ([], ["file"])
    assert with_what["/things/<word> PUT"].gives == PUT.gives
    assert with_what["/count POST"].gives is not None
    assert with_what["/send POST"].other_bodies == {"application/octet-stream": {"type": "string"}}
