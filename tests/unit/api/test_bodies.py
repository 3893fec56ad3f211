"""Bodies of requests: how much is read of them, in which pieces, and in which words others are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ibi.api.bodies import LONGEST_JSON, Body, json_object, read_json
from ibi.api.idempotency import request_digest
from ibi.http.request import ClientGone, Request
from ibi.http.response import Refusal
from support.checks.limits import meet

GONE = "http.disconnect"
MIB = 1 << 20


def body_of(*parts: bytes, longest: int = 100, **headers: str) -> Body:
    """A body that comes in these parts; GONE as the last one for a client that goes away."""
    messages = [
        {"type": GONE}
        if part == GONE.encode()
        else {"type": "http.request", "body": part, "more_body": at < len(parts)}
        for at, part in enumerate(parts, 1)
    ]

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Body(Request("POST", "/", "", named), receive, longest)


async def whole(body: Body, most: int | None = None) -> list[bytes]:
    return [piece async for piece in body.pieces(most)]


def refused(act: Callable[[], Any]) -> tuple[int, str]:
    """The status and the sentence by which something is refused."""
    with pytest.raises(Refusal) as refusal:
        done(act())
    return refusal.value.status, str(refusal.value)


def done(found: object) -> None:
    """Wait for what has to be waited for."""

    async def wait() -> None:
        if isinstance(found, Awaitable):
            await found

    asyncio.run(wait())


@pytest.mark.parametrize(
    ("given", "kind"),
    [("Application/JSON; charset=utf-8", "application/json"), (" text/plain ", "text/plain"), ("", "")],
)
def test_the_type_has_no_parameters(given: str, kind: str) -> None:
    assert body_of(content_type=given).kind == kind


def test_a_body_of_unknown_length_is_refused_where_its_end_must_be_known() -> None:
    body_of(content_length="0").check_announced()
    body_of(transfer_encoding="chunked").check_announced()
    with pytest.raises(Refusal) as refusal:
        body_of().check_announced(("a", "b"))
    assert (refusal.value.status, str(refusal.value), refusal.value.headers) == (
        411,
        "the request does not say how long its body is",
        (("a", "b"),),
    )


def test_pieces_are_gathered_to_a_mebibyte() -> None:
    parts = [b"a" * (MIB - 1), b"b", b"c", b"d" * (2 * MIB), b""]
    pieces = asyncio.run(whole(body_of(*parts, longest=9 * MIB)))
    assert [len(piece) for piece in pieces] == [MIB, 2 * MIB + 1, 0]
    assert b"".join(pieces) == b"".join(parts)


@pytest.mark.parametrize("parts", [1, 3])
def test_so_many_bytes_are_read(parts: int) -> None:
    def take(size: int) -> None:
        asyncio.run(whole(body_of(*[b""] * (parts - 1), b"x" * size)))

    meet(100, take, "the body is too long: at most 100 bytes are read")
    meet(
        7,
        lambda size: asyncio.run(whole(body_of(b"x", b"x" * (size - 1)), 7)),
        "the body is too long: at most 7 bytes are read",
    )
    # Also of a body of which pieces were handed on already.
    big = [b"x" * MIB, b"x" * (MIB + 1)]
    assert refused(lambda: whole(body_of(*big, longest=2 * MIB)))[0] == 413


@pytest.mark.parametrize("length", ["101", "9" * 20, "9" * 5000])
def test_what_is_announced_as_too_long_is_not_read(length: str) -> None:
    assert refused(lambda: whole(body_of(content_length=length))) == (
        413,
        "the body is too long: at most 100 bytes are read",
    )
    assert asyncio.run(whole(body_of(b"x", content_length="100"))) == [b"x"]


@pytest.mark.parametrize(
    ("coding", "is_read"), [("identity", True), ("Identity", True), ("", True), ("gzip", False)]
)
def test_a_compressed_body_is_refused(coding: str, is_read: bool) -> None:
    if is_read:
        assert asyncio.run(whole(body_of(b"x", content_encoding=coding))) == [b"x"]
    else:
        found = refused(lambda: whole(body_of(b"x", content_encoding=coding)))
        assert found == (415, "the body must not be compressed")


@pytest.mark.parametrize(
    ("parts", "pieces"), [([b"ab", b"c", GONE.encode()], [b"abc"]), ([GONE.encode()], [])]
)
def test_what_came_before_the_client_went_away_is_handed_on(parts: list[bytes], pieces: list[bytes]) -> None:
    found: list[bytes] = []

    async def read() -> None:
        async for piece in body_of(*parts).pieces():
            found.append(piece)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(ClientGone):
        asyncio.run(read())
    assert found == pieces


def test_json_is_read_up_to_a_mebibyte() -> None:
    def take(size: int) -> None:
        text = b'"' + b"x" * (size - 2) + b'"'
        found = asyncio.run(body_of(text, content_type="application/json").json())
        assert found == "x" * (size - 2)

    meet(LONGEST_JSON, take, "the body is too long: at most 1048576 bytes are read")
    assert asyncio.run(body_of(b"").json()) is None
    assert asyncio.run(body_of(b"{}", content_type="application/merge-patch+json").json()) == {}


@pytest.mark.parametrize(
    ("act", "status", "sentence"),
    [
        (
            body_of(b"{}", content_type="text/plain").json,
            415,
            "the body must be plain JSON: Content-Type: application/json",
        ),
        (body_of(b"{}").json, 415, "the body must be plain JSON: Content-Type: application/json"),
        (lambda: read_json(b'{"a": 1, "a": 2}'), 400, "a name stands twice in one object"),
        (lambda: read_json(b"{"), 400, "the body is not JSON"),
        (lambda: read_json(b"[" * 100_000), 400, "the body is not JSON"),
        (lambda: read_json(b'"\xff"'), 400, "the body is not JSON"),
        (lambda: json_object([]), 422, "the body must be a JSON object"),
    ],
)
def test_what_is_no_json_is_refused(act: Callable[[], Any], status: int, sentence: str) -> None:
    assert refused(act) == (status, sentence)
    assert json_object({"a": 1}) == {"a": 1}


def test_a_request_is_the_same_whatever_the_order_of_its_members() -> None:
    one = request_digest("POST", "/a", {"b": 1, "a": {"d": 2, "c": 3}})
    assert request_digest("POST", "/a", {"a": {"c": 3, "d": 2}, "b": 1}) == one
    others = [
        ("PUT", "/a", {"b": 1}),
        ("POST", "/b", {"b": 1}),
        ("POST", "/a", {"b": 2}),
        ("POST", "/a", None),
    ]
    assert len({one, *(request_digest(*each) for each in others)}) == 5
