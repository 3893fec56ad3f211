"""Answers that come later: in order, on their own connection, given up with it, and waited for by a stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from ibi.http.server.config import Answer
from ibi.http.server.service import Service, listen, run

_EMPTY = b"content-length: 0\r\n\r\n"
Done = Callable[[Answer | None], None]


async def _application(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


class _Stage:
    """A service whose first answer on a connection comes at once, and the others when the test says so."""

    def __init__(self) -> None:
        self.requests: list[tuple[bytes, Done]] = []
        self.stop = asyncio.Event()
        self.serving: asyncio.Task[None]
        self._came = asyncio.Event()
        self.listener = listen("127.0.0.1:0")

    def later(self, target: bytes, _head: object, _peer: str, done: Done) -> bool:
        if target == b"/refused":
            return False
        self.requests.append((target, done))
        self._came.set()
        return True

    async def until_requested(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.requests) < count:
                self._came.clear()
                await self._came.wait()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which one request was answered."""
        reader, writer = await asyncio.open_connection(*self.listener.getsockname()[:2])
        writer.write(_get(b"/first"))
        assert await _status(reader) == 200
        return reader, writer


@asynccontextmanager
async def _stage() -> AsyncIterator[_Stage]:
    stage, ready = _Stage(), asyncio.Event()

    def at_once(_method: bytes, target: bytes, _head: object, _peer: str) -> Answer | None:
        return None if target == b"/declined" else (200, _EMPTY)

    service = Service(_application, at_once=at_once, later=stage.later)
    stage.serving = asyncio.create_task(run([service], [stage.listener], lambda _: ready.set(), stage.stop))
    await ready.wait()
    try:
        yield stage
    finally:
        stage.stop.set()
        await stage.serving


def _get(target: bytes, method: bytes = b"GET") -> bytes:
    return method + b" " + target + b" HTTP/1.1\r\nhost: x\r\n\r\n"


async def _head(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(20):
        return await reader.readuntil(b"\r\n\r\n")


async def _status(reader: asyncio.StreamReader) -> int:
    return int((await _head(reader)).split()[1])


def test_one_connection_gets_its_answers_in_order_and_another_one_waits_for_none_of_them() -> None:
    async def play() -> None:
        async with _stage() as stage:
            reader, writer = await stage.connect()
            other, other_writer = await stage.connect()
            writer.write(_get(b"/a"))
            await stage.until_requested(1)
            writer.write(_get(b"/b") + _get(b"/declined") + _get(b"/c"))
            other_writer.write(_get(b"/d"))
            await stage.until_requested(2)
            assert [target for target, _ in stage.requests] == [b"/a", b"/d"]
            stage.requests[1][1]((201, _EMPTY))
            assert await _status(other) == 201
            stage.requests[0][1]((202, _EMPTY))
            # What came meanwhile is answered at once, or by the application, as ever.
            assert [await _status(reader) for _ in range(4)] == [202, 200, 404, 200]
            writer.write(_get(b"/e"))
            assert await _status(reader) == 200
            writer.write(_get(b"/f"))
            await stage.until_requested(3)
            stage.requests[2][1]((203, _EMPTY))
            assert await _status(reader) == 203
            writer.close()
            other_writer.close()

    asyncio.run(play())


def test_what_is_declined_at_first_or_later_is_answered_as_ever() -> None:
    async def play() -> None:
        async with _stage() as stage:
            reader, writer = await stage.connect()
            writer.write(_get(b"/refused"))
            assert await _status(reader) == 200
            writer.write(_get(b"/a", b"HEAD"))
            assert await _status(reader) == 200
            assert stage.requests == []
            writer.write(_get(b"/a"))
            await stage.until_requested(1)
            writer.write(_get(b"/b"))
            await asyncio.sleep(0.05)
            stage.requests[0][1](None)
            assert [await _status(reader) for _ in range(2)] == [404, 200]
            writer.close()

    asyncio.run(play())


def test_a_client_that_has_left_costs_nothing_and_one_that_sends_no_more_gets_its_answer() -> None:
    async def play() -> None:
        async with _stage() as stage:
            _, gone = await stage.connect()
            reader, writer = await stage.connect()
            gone.write(_get(b"/a"))
            await stage.until_requested(1)
            gone.transport.abort()
            writer.write(_get(b"/b"))
            writer.write_eof()
            await stage.until_requested(2)
            await asyncio.sleep(0.1)
            stage.requests[0][1]((200, _EMPTY))
            stage.requests[1][1]((202, _EMPTY))
            assert await _status(reader) == 202
            async with asyncio.timeout(20):
                assert await reader.read() == b""  # it is closed
            writer.close()

    asyncio.run(play())


def test_a_stop_waits_for_the_answer_and_says_that_it_is_the_last() -> None:
    async def play() -> None:
        async with _stage() as stage:
            reader, writer = await stage.connect()
            writer.write(_get(b"/a"))
            await stage.until_requested(1)
            stage.stop.set()
            await asyncio.sleep(0.5)
            assert not stage.serving.done()
            stage.requests[0][1]((202, _EMPTY))
            head = await _head(reader)
            assert b" 202 " in head
            assert b"connection: close\r\n" in head
            async with asyncio.timeout(20):
                assert await reader.read() == b""
            writer.close()

    asyncio.run(play())
