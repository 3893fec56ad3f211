"""Requests as they are read: bodies, and the form of the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ibi.http.request import ClientGone, Request, read_body


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
