"""Heads of requests: where a piece of the bytes ends, which host is meant, and how a request is refused."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from httptools import HttpParserUpgrade, HttpRequestParser

from ibi.http.server.connections import TOO_MANY, Connections
from ibi.http.server.head import (
    Head,
    end_of_piece,
    fault,
    is_host,
    is_request_id,
    read_absolute_form,
    refusal,
)
from ibi.http.server.turns import Turns

HEAD = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "begin", "before", "body_left", "end"),
    [
        (HEAD, 0, b"", 0, len(HEAD)),
        (HEAD + HEAD, 0, b"", 0, len(HEAD)),
        (HEAD + HEAD, len(HEAD), b"", 0, 2 * len(HEAD)),
        (HEAD + b"GET /", len(HEAD), b"", 0, len(HEAD) + 5),
        (b"12345" + HEAD, 0, b"", 5, 5),
        (b"12345" + HEAD, 2, b"", 3, 5),
        (b"123", 0, b"", 5, 3),
        # The blank line may have begun in the bytes before.
        (b"\n" + HEAD, 0, b"\r\n\r", 0, 1),
        (b"\r\n" + HEAD, 0, b"\r\n", 0, 2),
        (b"\n\r\n" + HEAD, 0, b"a\r", 0, 3),
        (b"..\n" + HEAD, 2, b"\r\n\r", 0, 3),
        (b"a: b\r\n\r\n" + HEAD, 0, b"x\r\n", 0, 8),
        (b"no end", 0, b"x\r\n", 0, 6),
    ],
)
def test_a_piece_ends_with_a_head_a_body_or_the_data(
    data: bytes, begin: int, before: bytes, body_left: int, end: int
) -> None:
    assert end_of_piece(data, begin, before, body_left) == end


class Headers:
    """Takes what httptools reads of a head."""

    def __init__(self) -> None:
        self.headers = Head()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        (b"GET / HTTP/1.1\r\nhost: a.example:80\r\n", ""),
        (b"GET / HTTP/1.1\r\nhost: [::1]:80\r\n", ""),
        (b"GET / HTTP/1.1\r\nhost:\r\n", ""),
        (b"GET / HTTP/1.0\r\n", ""),
        (b"GET / HTTP/1.1\r\n", "the request must name one host"),
        (b"GET / HTTP/1.0\r\nhost: a b\r\n", "the request must name one host"),
        (b"GET / HTTP/1.1\r\nhost: a, b\r\n", "the request must name one host"),
        (b"GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n", "the request must name one host"),
        (b"GET / HTTP/1.1\r\nhost: a\r\naccept: b\r\naccept: c\r\n", ""),
        (b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n", ""),
        (
            b"PUT / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 5\r\n",
            "a request for another protocol must have no body",
        ),
        (b"PUT / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 00\r\n", ""),
        (b"CONNECT a:80 HTTP/1.1\r\nhost: a\r\n", ""),
    ],
)
def test_what_is_wrong_with_a_head(head: bytes, problem: str) -> None:
    taker = Headers()
    parser = HttpRequestParser(taker)
    with suppress(HttpParserUpgrade):
        parser.feed_data(head + b"\r\n")
    assert fault(taker.headers, parser) == problem


def test_a_refusal_is_the_last_answer_of_its_connection() -> None:
    assert refusal(408, "the request did not arrive in time") == (
        b"HTTP/1.1 408 Refused\r\ncontent-type: text/plain; charset=utf-8\r\n"
        b"content-length: 35\r\nconnection: close\r\n\r\nthe request did not arrive in time\n"
    )
    assert TOO_MANY == (
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n"
        b"content-length: 37\r\nretry-after: 10\r\nconnection: close\r\n\r\ntoo many connections of your address\n"
    )


@pytest.mark.parametrize(
    ("target", "path", "host"),
    [
        (b"/a?b=http://c", b"/a?b=http://c", b"old"),
        (b"http://a.example", b"/", b"a.example"),
        (b"http://a.example:8080/b/c?d#e", b"/b/c?d#e", b"a.example:8080"),
        (b"http://a.example?d", b"/?d", b"a.example"),
        (b"a/b://c/d", b"a/b://c/d", b"old"),
        (b"*", b"*", b"old"),
    ],
)
def test_a_whole_url_names_its_host(target: bytes, path: bytes, host: bytes) -> None:
    headers = [(b"accept", b"x"), (b"host", b"old")]
    assert read_absolute_form(target, headers) == path
    assert headers == [(b"accept", b"x"), (b"host", host)]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [(b"a" * 128, True), (b"a" * 129, False), (b"", False), (b"A.z_0~-", True), (b"a b", False)],
)
def test_ids_of_requests(text: bytes, is_one: bool) -> None:
    assert (is_request_id(text) is not None) is is_one


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (b"a.example", True),
        (b"[::1]:80", True),
        (b"a:b", False),
        (b"a/b", False),
        (b"::1", False),
        (b":80", True),
    ],
)
def test_hosts(text: bytes, is_one: bool) -> None:
    assert (is_host(text) is not None) is is_one


@pytest.mark.parametrize(
    ("proxies", "peer", "most"),
    [
        (("10.0.0.0/8",), "203.0.113.1", 256),
        (("10.0.0.0/8",), "127.0.0.1", 256),
        (("10.0.0.0/8",), "10.0.0.1", 999),
        (("10.0.0.0/8",), "", 999),
        ((), "203.0.113.1", 256),
        ((), "127.0.0.1", 999),
    ],
)
def test_a_client_may_have_so_many_connections_and_a_proxy_any_number(
    proxies: tuple[str, ...], peer: str, most: int
) -> None:
    known = Connections(lambda: proxies)
    assert [known.enter(peer) for _ in range(999)] == [True] * most + [False] * (999 - most)
    assert known.enter("203.0.113.2")
    for _ in range(999 - most):  # those that were refused end, too
        known.leave(peer)
    assert known.enter(peer) is (most == 999)
    known.leave(peer)
    known.leave(peer)
    assert known.enter(peer)
    for _ in range(most):
        known.leave(peer)
    assert [known.enter(peer) for _ in range(257)] == [True] * 256 + [most == 999]


def test_four_connections_have_their_turn_and_then_the_loop_goes_on() -> None:
    async def main() -> list[str]:
        turns, seen = Turns(), list[str]()
        for number in range(9):
            turns.add(lambda number=number: seen.append(str(number)))  # type: ignore[misc]  # a lambda with a default
        for _ in range(4):
            await asyncio.sleep(0)
            seen.append("|")
        turns.add(lambda: seen.append("last"))
        await asyncio.sleep(0)
        return seen

    assert asyncio.run(main()) == [*"0123|4567|8||", "last"]
