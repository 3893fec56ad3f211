"""The bytes of a request that goes out, and the slots for which requests wait."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

import ibi
from ibi.errors import PeerSilent
from ibi.http.client.address_policy import HostPort
from ibi.http.client.request import USUAL, OutgoingRequest, Slots, head_of, more_of, target_part, written

BAD_TARGET = "a target starts with '/' and has only visible ASCII characters, not too many"


def test_the_whole_of_a_request() -> None:
    assert written("/a?b", head_of(HostPort("a.example", 8080, None)) + USUAL, 100).decode().split(
        "\r\n"
    ) == [
        "GET /a?b HTTP/1.1",
        "Host: a.example:8080",
        f"User-Agent: ibi/{ibi.__version__}",
        "Accept: text/plain, */*;q=0.1",
        "Accept-Encoding: identity",
        "Connection: keep-alive",
        "CDN-Loop: ibi-resolver",
        "",
        "",
    ]


@pytest.mark.parametrize("target", ["/45678", (target_part("/4"), target_part("?678"))])
def test_a_target_may_be_as_long_as_the_limit_and_no_longer(target: object) -> None:
    given = cast("str", target)
    assert written(given, b"", 6) == (b"GET /45678" if isinstance(target, str) else b"GET /4?678")
    with pytest.raises(ValueError, match="a target starts with") as refused:
        written(given, b"", 5)
    assert str(refused.value) == BAD_TARGET


@pytest.mark.parametrize("target", ["", "a", "/a b", "/\x7f", "/\u00e9", "/a\r\n", "http://a.example/"])
def test_a_target_that_could_hold_another_request_is_refused(target: str) -> None:
    with pytest.raises(ValueError, match="a target starts with"):
        written(target, b"", 100)


def test_further_headers_come_after_the_mark_against_circles() -> None:
    assert more_of([("accept", "a/b"), ("X-A", "")], "x") == b"CDN-Loop: x\r\naccept: a/b\r\nX-A: \r\n\r\n"


@pytest.mark.parametrize(
    ("name", "value", "loop", "problem"),
    [
        ("Host", "a", "x", "the header 'Host' cannot be sent"),
        ("te", "a", "x", "the header 'te' cannot be sent"),
        ("a b", "a", "x", "the header 'a b' cannot be sent"),
        ("", "a", "x", "the header '' cannot be sent"),
        ("a", "a\r\nb: c", "x", "the header 'a' cannot be sent"),
        ("a", "\u00e9", "x", "the header 'a' cannot be sent"),
        ("a", "b", "x\n", r"the header CDN-Loop cannot be 'x\\n'"),
    ],
)
def test_a_header_that_could_hold_another_is_refused(name: str, value: str, loop: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}$"):
        more_of([(name, value)], loop)


def test_slots_go_to_those_that_wait_in_order() -> None:
    slots = Slots(1)
    first, second, third = (cast("OutgoingRequest", object()) for _ in range(3))
    assert slots.acquire(first)
    assert not slots.acquire(second)
    assert not slots.acquire(third)
    assert list(slots.waiting) == [second, third]


def test_the_outcome_of_a_request_comes_once_and_none_of_one_that_is_given_up() -> None:
    finished, removed, outcomes = list[Any](), list[Any](), list[Any]()
    client: Any = SimpleNamespace(finish=lambda request, _: finished.append(request))
    deadline: Any = SimpleNamespace(remove=removed.append)
    silent = PeerSilent("it is silent")
    for outcome in (silent, None):
        request = OutgoingRequest(client, cast("Any", None), b"", deadline, outcomes.append)
        request.end(outcome)
        request.end(silent)
    assert (len(finished), len(removed), outcomes) == (2, 2, [silent])
