"""Requests as they are read: bodies, and the form of the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ibi.http.client_address import networks_of, trusted_address
from ibi.http.request import ClientGone, Request, hosts_of, read_body, target_of


def body_of(*messages: dict[str, Any], longest: int) -> bytes | None:
    coming = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(coming)

    return asyncio.run(read_body(receive, longest))


def piece(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_comes_in_pieces_and_ends() -> None:
    assert body_of(piece(b"ab", more=True), piece(b"", more=True), piece(b"c"), longest=3) == b"abc"
    assert body_of({"type": "http.request"}, longest=0) == b""
    assert body_of(piece(b"ab", more=True), piece(b"c"), longest=2) is None


def test_who_goes_away_before_the_end_sends_no_body() -> None:
    with pytest.raises(ClientGone):
        body_of(piece(b"ab", more=True), {"type": "http.disconnect"}, longest=3)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("text/html", "html"), ("application/xhtml+xml", "html"), ("application/json", "json"),
        ("application/problem+json", "json"), ("text/html, application/json", "html"),
        ("text/html;q=0.5, application/json;q=0.6", "json"), ("text/html;q=0.6, application/json;q=0.5", "html"),
        ("", "text"), ("*/*", "text"), ("image/png", "text"), ("text/html;q=0", "text"),
        ("application/json;q=0", "text"),
    ],
)  # fmt: skip
def test_the_form_of_the_answer_is_the_one_that_is_liked_best(accept: str, form: str) -> None:
    assert Request("GET", "/", "", {b"accept": accept.encode()}).form == form


SCOPE: dict[str, Any] = {
    "method": "POST",
    "raw_path": b"/a%20b?of=uvicorn",
    "query_string": b"c=\xe9",
    "headers": [(b"host", b"a.example"), (b"x-twice", b"1"), (b"x-twice", b"2"), (b"x-twice", b"3")],
    "client": ("192.0.2.7", 4711),
    "scheme": "https",
}
FORWARDED = (b"x-forwarded-for", b"198.51.100.1")


def scope(*headers: tuple[bytes, bytes], **more: Any) -> dict[str, Any]:
    return SCOPE | {"headers": [*SCOPE["headers"], *headers]} | more


def test_a_request_is_read_as_it_came() -> None:
    request = Request.of(SCOPE)
    headers = {b"host": b"a.example", b"x-twice": b"1,2,3"}
    assert request == Request("POST", "/a%20b", "c=\xe9", headers, (), "192.0.2.7", secure=True)
    assert (request.target, request.reads) == ("/a%20b?c=\xe9", False)
    assert (request.header(b"x-twice"), request.header(b"absent")) == ("1,2,3", "")
    assert (request.client_address, request.client_key) == ("192.0.2.7", "192.0.2.7")
    plain = Request.of(SCOPE | {"client": None, "scheme": "http", "method": "HEAD", "query_string": b""})
    assert (plain.peer, plain.secure, plain.target, plain.reads) == ("", False, "/a%20b", True)
    assert not Request.of(
        {name: value for name, value in SCOPE.items() if name not in {"client", "scheme"}}
    ).secure


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [(b"/a", "/a", ""), (b"/a?", "/a", ""), (b"/a?b?c", "/a", "b?c"), (b"/\xe9", "/\xe9", "")],
)
def test_a_raw_request_is_a_get(target: bytes, path: str, query: str) -> None:
    request = Request.raw(target, [(b"host", b"a"), (b"host", b"b")], "2001:db8::7")
    assert request == Request("GET", path, query, {b"host": b"a,b"}, peer="2001:db8::7")
    assert request.reads
    assert request.client_key == "2001:0db8:0000:0000"


@pytest.mark.parametrize(
    ("peer", "forwarded", "trusted", "addresses"),
    [
        ("192.0.2.7", b"198.51.100.1", None, ()),
        ("192.0.2.7", b"198.51.100.1", ("192.0.2.0/24",), ("198.51.100.1",)),
        ("192.0.2.7", b"198.51.100.1", (), ("198.51.100.1", "192.0.2.7")),
        ("192.0.2.7", b"10.0.0.1," * 40 + b"198.51.100.1", ("192.0.2.0/24", "10.0.0.0/8"), ("198.51.100.1",)),
        (None, b"198.51.100.1", (), ("198.51.100.1", "127.0.0.1")),
    ],
)
def test_the_addresses_that_a_request_came_by(
    peer: str | None, forwarded: bytes, trusted: tuple[str, ...] | None, addresses: tuple[str, ...]
) -> None:
    networks = None if trusted is None else networks_of(trusted)
    client = None if peer is None else (peer, 4711)
    found = Request.of(scope((FORWARDED[0], forwarded), client=client), networks)
    assert found.addresses == addresses
    last = addresses[-1] if addresses else peer
    assert (found.client_address, found.client_key) == (last, last)
    proxies = () if trusted is None else trusted
    assert found.trusted_address(proxies) == trusted_address(
        peer or "", forwarded.decode(), networks_of(proxies)
    )


@pytest.mark.parametrize(
    ("headers", "prefetched"),
    [({}, False), ({b"purpose": b"prefetch"}, True), ({b"sec-purpose": b"Prefetch;anonymous"}, True),
     ({b"purpose": b"preview"}, False), ({b"x-purpose": b"prefetch"}, False)],
)  # fmt: skip
def test_what_a_browser_prefetches(headers: dict[bytes, bytes], prefetched: bool) -> None:
    assert Request("GET", "/", "", headers).only_prefetched is prefetched


@pytest.mark.parametrize(
    ("query", "has"),
    [("", False), ("servicesubject=inclusion", True), ("a=b&servicesubject=x", True), ("a=servicesubject", False),
     ("servicesubject", True), ("xservicesubject=a", False)],
)  # fmt: skip
def test_whether_a_request_is_a_message(query: str, has: bool) -> None:
    assert Request("GET", "/", query, {}).has_subject is has


@pytest.mark.parametrize(
    ("host", "named"),
    [
        (b"a.example", True), (b"A.example:80", True), (b"a.example.", True), (b"b.example:8080", True),
        (b"b.example", True), (b"other.example", False), (b"other.example:80", False), (b"192.0.2.7", True),
        (b"192.0.2.7:80", True), (b"[2001:db8::7]:80", True), (b"localhost:8080", True), (b"", True),
        (b"192.0.2.7.example", False), (b"a.example.other.example", False),
    ],
)  # fmt: skip
def test_which_hosts_name_us(host: bytes, named: bool) -> None:
    ours = hosts_of(["A.example", "b.example:8080"])
    assert ours == {"a.example", "b.example", "b.example:8080"}
    assert Request("GET", "/", "", {b"host": host}).names(ours) is named
    assert Request("GET", "/", "", {}).names(ours)


def test_the_target_of_a_scope() -> None:
    assert target_of({"raw_path": b"/a", "query_string": b"b=c"}) == b"/a?b=c"
    assert target_of({"raw_path": b"/a", "query_string": b""}) == b"/a"
