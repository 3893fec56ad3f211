"""A repeated request is known only where a request begins: no body and no blank line is taken for one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ibi.http.server import protocol
from ibi.http.server.service import Service
from support.servers.one_connection import connection_to

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from ibi.http.server.config import Answer

_REDIRECT = 302, b"location: /there\r\ncontent-length: 0\r\n\r\n"


async def _refuse_early(_scope: Any, _receive: Any, send: Any) -> None:
    """Answers before the body has come, as the JSON interface does with 401."""
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


def _connection(
    targets: list[bytes],
) -> AbstractAsyncContextManager[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a service with a fast path, which is known after the first answer."""

    def at_once(_method: bytes, target: bytes, _head: object, _peer: str) -> Answer:
        targets.append(target)
        return _REDIRECT

    return connection_to(Service(_refuse_early, largest_body=1 << 20, at_once=at_once))


def _get(target: bytes) -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\nhost: x\r\n\r\n"


async def _redirected(reader: asyncio.StreamReader) -> bool:
    return (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 302 ")


def test_what_comes_as_a_body_is_never_answered_as_a_request() -> None:
    async def play() -> list[bytes]:
        targets: list[bytes] = []
        async with _connection(targets) as (reader, writer):
            writer.write(_get(b"/first"))
            assert await _redirected(reader)
            body = _get(b"/smuggled")
            writer.write(b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (3 * len(body)))
            assert (await reader.readuntil(b"\r\n\r\nno")).startswith(b"HTTP/1.1 401 ")
            writer.write(body)
            await writer.drain()
            with pytest.raises(asyncio.IncompleteReadError):  # it is closed, and nothing more is said
                await reader.readexactly(1)
        return targets

    assert asyncio.run(play()) == [b"/first"]


def test_a_blank_line_between_requests_ends_no_busy_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "REQUEST_SECONDS", 0.5)

    async def play() -> list[bytes]:
        targets: list[bytes] = []
        async with _connection(targets) as (reader, writer):
            for number in range(12):
                writer.write(_get(b"/%d" % number))
                assert await _redirected(reader)
                if number == 1:
                    writer.write(b"\r\n")
                await asyncio.sleep(0.1)
        return targets

    assert len(asyncio.run(play())) == 12
