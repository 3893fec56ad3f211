"""What a client makes of an answer: members of JSON by their types, refusals by their status and facts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ibi.client.answers import (
    Members,
    NotFound,
    Refused,
    Removed,
    TwoOriginals,
    Unavailable,
    members_of,
    metadata_of,
    refusal,
    refusal_of,
)
from ibi.client.transport import JSON, PROBLEM, Client, Reply
from ibi.errors import PeerGarbled, SetupError

HOST = "urlib.example"
GARBLED = f"the answer of {HOST} cannot be understood"


def reply(status: int = 200, body: bytes = b"{}", kind: str = JSON, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(f"https://{HOST}/x", status, {"content-type": kind, **named}, body)


@pytest.mark.parametrize(
    ("given", "kind"), [("Text/HTML ; charset=utf-8", "text/html"), ("application/json", JSON), ("", "")]
)
def test_the_media_type_of_an_answer(given: str, kind: str) -> None:
    assert reply(kind=given).kind == kind
    assert Reply("", 200, {}, b"").kind == ""


@pytest.mark.parametrize(
    ("text", "status"),
    [("404", 404), ("100", 100), ("599", 599), ("600", 0), ("099", 0), ("4040", 0), ("40", 0), ("", 0)],
)
def test_the_outcome_that_an_explanation_tells(text: str, status: int) -> None:
    assert reply(ibi_outcome=text).outcome == status
    assert reply().outcome == 0


NOON, LATER = "Sun, 22 Nov 2026 12:00:00 GMT", "Sun, 22 Nov 2026 12:01:30 GMT"


@pytest.mark.parametrize(
    ("after", "date", "seconds"),
    [
        ("7", "", 7),
        (" 7 ", "", 7),
        ("0", "", 0),
        ("999999999", "", 999_999_999),
        ("1000000000", "", None),
        ("-1", "", None),
        (LATER, NOON, 90.0),
        (NOON, NOON, 0.0),
        (NOON, LATER, 0.0),
        (LATER, "", None),
        (LATER, "Sun, 22 Nov 2026 12:00:00 -0000", None),  # without a time zone
        ("soon", NOON, None),
        ("", NOON, None),
    ],
)
def test_when_a_server_may_be_asked_again(after: str, date: str, seconds: float | None) -> None:
    found = reply(retry_after=after, date=date) if date else reply(retry_after=after)
    assert found.retry_after == seconds
    assert reply().retry_after is None


VALUES: dict[str, tuple[Any, Any, list[Any]]] = {
    "text": ("a", "", [7, True, [], {}]),
    "number": (7, None, ["7", 7.0, True, []]),
    "texts": (["a", "b"], (), ["a", 7, {}, ["a", 7], [None]]),
}
"""Method -> what it takes, what a missing one is, and what is refused."""


@pytest.mark.parametrize("method", VALUES)
def test_a_member_has_its_type_or_is_missing(method: str) -> None:
    good, missing, bad = VALUES[method]
    read = getattr(Members({"good": good, "null": None}, HOST), method)
    assert read("good") == (tuple(good) if isinstance(good, list) else good)
    assert read("null") == read("absent") == missing
    for value in bad:
        with pytest.raises(PeerGarbled, match=GARBLED):
            getattr(Members({"x": value}, HOST), method)("x")


def test_objects_inside_of_objects() -> None:
    members = Members({"one": {"a": "b"}, "many": [{"a": "c"}, {}], "null": None}, HOST)
    assert members.members("one").text("a") == "b"
    assert [each.text("a") for each in members.list("many")] == ["c", ""]
    assert members.members("null").all == members.members("absent").all == {}
    assert members.list("null") == members.list("absent") == []
    bad: list[tuple[str, Any]] = [
        ("members", []), ("members", "a"), ("list", {}), ("list", ["a"]), ("list", [None]),
    ]  # fmt: skip
    for name, value in bad:
        with pytest.raises(PeerGarbled, match=GARBLED):
            getattr(Members({"x": value}, HOST), name)("x")
    with pytest.raises(PeerGarbled, match=GARBLED):
        members.members("one").members("a")
    for value in ([], "a", None, 7):
        with pytest.raises(PeerGarbled, match=GARBLED):
            Members(value, HOST)


@pytest.mark.parametrize("status", [200, 201, 299])
def test_the_json_of_an_answer_that_succeeded(status: int) -> None:
    assert members_of(reply(status, b'{"a": "b"}'), HOST).text("a") == "b"
    faulty = (reply(status, kind="text/plain"), reply(status, b"{"), reply(status, b"[]"))
    for each in (*faulty, reply(status, b"[" * 100_000)):
        with pytest.raises(PeerGarbled, match=GARBLED):
            members_of(each, HOST)


@pytest.mark.parametrize("status", [199, 300, 404])
def test_any_other_status_is_a_refusal(status: int) -> None:
    for read in (members_of, metadata_of):
        with pytest.raises(Refused, match=f"{HOST} answers with the status {status}"):
            read(reply(status), HOST)


def test_metadata_come_with_their_type_and_where_they_are() -> None:
    found = metadata_of(reply(200, b"@book{", "application/x-bibtex; charset=utf-8"), HOST)
    assert found == (b"@book{", "application/x-bibtex; charset=utf-8", f"https://{HOST}/x")
    assert metadata_of(Reply("u", 200, {}, b""), HOST) == (b"", "", "u")
    with pytest.raises(Refused):
        metadata_of(reply(204), HOST)


@pytest.mark.parametrize(
    ("status", "kind", "made"),
    [
        (400, "", Refused), (404, "", NotFound), (410, "", Removed), (429, "", Unavailable), (503, "", Unavailable),
        (409, "", Refused), (409, "other", Refused), (409, "suspect-originals", TwoOriginals),
        (404, "suspect-originals", NotFound),
    ],
)  # fmt: skip
def test_which_error_a_refusal_is(status: int, kind: str, made: type[Refused]) -> None:
    error = refusal(HOST, status, {"kind": kind, "title": "No"}, 7)
    assert (type(error), error.status, error.kind, error.retry_after) == (made, status, kind, 7)


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"title": "No", "detail": "not here"}, "not here"),
        ({"title": "No"}, "No"),
        ({"title": "No", "detail": "not here", "kind": "removed"}, "No. not here"),
        ({"title": "No {x}", "detail": "{}"}, "{}"),
        ({"title": 7, "detail": ["a"]}, f"{HOST} answers with the status 400"),
        ({}, f"{HOST} answers with the status 400"),
    ],
)
def test_in_which_words_a_refusal_is_told(facts: dict[str, Any], line: str) -> None:
    error = refusal_of(reply(400, json.dumps(facts).encode(), PROBLEM, retry_after="3"), HOST)
    assert (str(error), error.facts, error.retry_after) == (line, facts, 3)


def test_a_problem_that_cannot_be_read_is_no_refusal_and_what_is_none_has_no_facts() -> None:
    assert refusal_of(reply(400, b"{", "text/html"), HOST).facts == {}
    for body in (b"{", b"[]"):
        with pytest.raises(PeerGarbled, match=GARBLED):
            refusal_of(reply(400, body, PROBLEM), HOST)


@pytest.mark.parametrize(
    ("facts", "moment"),
    [
        ({"item": {"timestamp": "2026"}, "timestamp": "2025"}, "2026"),
        ({"item": {}, "timestamp": "2025"}, ""),
        ({"item": "x", "timestamp": "2025"}, "2025"),
        ({"timestamp": 2025}, ""),
        ({}, ""),
    ],
)
def test_when_an_item_was_removed(facts: dict[str, Any], moment: str) -> None:
    error = refusal(HOST, 410, facts)
    assert isinstance(error, Removed)
    assert error.moment == moment


@pytest.mark.parametrize(
    ("about", "archives"), [(["a", 7, "", None, "b"], ("a", "b")), ("a", ()), (None, ()), ({"a": 1}, ())]
)
def test_which_archives_claim_an_original(about: object, archives: tuple[str, ...]) -> None:
    error = refusal(HOST, 409, {"kind": "suspect-originals", "about": about})
    assert isinstance(error, TwoOriginals)
    assert error.archives == archives


@pytest.mark.parametrize(
    ("url", "root", "host"),
    [
        ("http://urlib.net/", "http://urlib.net", "urlib.net"),
        ("http://urlib.net", "http://urlib.net", "urlib.net"),
        ("https://A.example:8443/x/", "https://A.example:8443/x", "a.example"),
        ("http://[::1]:80/", "http://[::1]:80", "::1"),
    ],
)
def test_the_root_of_a_server(url: str, root: str, host: str) -> None:
    with Client(url) as client:
        assert (client.root, client.host) == (root, host)


@pytest.mark.parametrize(
    "url",
    ["", "urlib.net", "ftp://a", "http://", "http:///x", "http://a:99999", "http://a:b", "http://a b", "http://a/?q",
     "http://a/é", "http://a/\n", "http://[::1"],
)  # fmt: skip
def test_what_is_no_root_is_one_sentence(url: str) -> None:
    with pytest.raises(SetupError) as refused:
        Client(url)
    assert str(refused.value) == f"the root URL of a server is like http://urlib.net/; not {url}"


@pytest.mark.parametrize("token", ["", "a b", "a\n", "é", "\x7f"])
def test_what_is_no_token_is_one_sentence(token: str) -> None:
    with pytest.raises(SetupError, match="the token has characters that no token has"):
        Client("http://urlib.net/", token)
    Client("http://urlib.net/", "!~").close()
