"""Plays on one connection: a service that answers as its targets say, and what a play comes to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ibi.http.server.config import Answer
from ibi.http.server.service import Service
from support.servers.played import played

LARGEST = 100_000
"""Bytes of the largest body."""


class Hooks:
    """A service whose targets say how it answers; `heard` is what it was asked."""

    def __init__(self) -> None:
        self.heard = list[str]()

    def at_once(self, method: bytes, target: bytes, _head: object, peer: str) -> Answer | None:
        self.heard.append(f"at once {method.decode()} {target.decode()} of {peer}")
        return _answer(302, target) if target.startswith(b"/fast") else None

    def repeat(self, target: bytes, _head: object) -> Answer | None:
        self.heard.append(f"repeat {target.decode('latin-1')}")
        return _answer(303, target) if target.startswith(b"/fast/again") else None

    def later(
        self, target: bytes, _head: object, peer: str, answered: Callable[[Answer | None], None]
    ) -> bool:
        self.heard.append(f"later {target.decode()} of {peer}")
        if not target.startswith(b"/later"):
            return False
        answer = None if target.endswith(b"never") else _answer(200, target)
        asyncio.get_running_loop().call_later(3, answered, answer)
        return True

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["raw_path"].decode()
        self.heard.append(f"app {scope['method']} {path}")
        _, kind, *seconds = path.split("/")
        if kind == "wait":
            await asyncio.sleep(int(seconds[0]))
        if kind not in {"early", "drip"} and not await self._read(receive):
            return
        body = b"ab" if kind == "drip" else b""
        headers = [(b"from", scope["raw_path"]), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for byte in body:
            await send({"type": "http.response.body", "body": bytes([byte]), "more_body": True})
            await asyncio.sleep(3)
        await send({"type": "http.response.body"})

    async def _read(self, receive: Any) -> bool:
        size, message = 0, {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            if message["type"] == "http.disconnect":
                second = round(asyncio.get_running_loop().time() - 1_000, 3)
                self.heard.append(f"client gone at {second:g}")
                return False
            size += len(message["body"])
        self.heard.append(f"{size} bytes")
        return True


def _answer(status: int, target: bytes) -> Answer:
    return status, b"from: %b\r\ncontent-length: 0\r\n\r\n" % target


class Play(NamedTuple):
    """The steps of a client (see `support.servers.played`), what came of them when, and what the service heard."""

    name: str
    steps: tuple[bytes | float | str, ...]
    seen: str
    heard: str = ""
    hooks: bool = False
    """Whether the service has `repeat` and `later`, too."""
    largest: int = LARGEST
    stopping: bool = False
    """Whether it is stopping from the beginning."""


def outcome(play: Play) -> tuple[str, str]:
    hooks = Hooks()
    more: dict[str, Any] = {"repeat": hooks.repeat, "later": hooks.later} if play.hooks else {}
    service = Service(hooks.app, largest_body=play.largest, at_once=hooks.at_once, **more)
    events = played(service, play.steps, stopping=play.stopping)
    return "; ".join(f"{moment:g} {what}" for moment, what in events), "; ".join(hooks.heard)


def all_of(*plays: Play) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("play", plays, ids=[play.name for play in plays])


def get(target: str, *lines: str, method: str = "GET") -> bytes:
    return "\r\n".join((f"{method} {target} HTTP/1.1", "host: x", *lines, "", "")).encode()


def post(size: int, target: str = "/a", *lines: str) -> bytes:
    return get(target, f"content-length: {size}", *lines, method="POST")


FAST = get("/fast")
WAIT = get("/wait/3")
CHUNKED = get("/a", "transfer-encoding: chunked", method="POST")
LATE = "408, connection: close, the request did not arrive in time"
TOO_LARGE = "413, connection: close, the body of the request is too large"
TOO_LONG = "431, connection: close, the request is too long"
HEAD_TOO_LONG = "431, connection: close, the head of the request is too long"
NOT_HTTP = "400, connection: close, Invalid HTTP request received."
"""What an answer is in short: its status, headers and body."""
FIRST_ID = "x-request-id: 0000000000000001"
