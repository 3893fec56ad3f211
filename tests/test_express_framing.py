"""The express lane's short way begins only where a request does: no body and no blank line is taken for one."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ibi.serving import Service, express, listen, receiving, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ibi.serving.express import Answer

_REDIRECT = 302, b"location: /there\r\ncontent-length: 0\r\n\r\n", None


async def _refuse_early(_scope: Any, _receive: Any, send: Any) -> None:
    """Answers before the body has come, as the JSON interface does with 401."""
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


@asynccontextmanager
async def _lane(asked: list[bytes]) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a service with a lane, whose short way is known after the first answer."""

    def at_once(target: bytes, _head: object, _peer: str) -> Answer:
        asked.append(target)
        return _REDIRECT

    listener, stop = listen("127.0.0.1:0"), asyncio.Event()
    ready = asyncio.Event()
    service = Service(_refuse_early, largest_body=1 << 20, at_once=at_once, at_once_head=at_once)
    serving = asyncio.create_task(run([service], [listener], lambda _: ready.set(), stop))
    await ready.wait()
    reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
    try:
        yield reader, writer
    finally:
        writer.close()
        stop.set()
        await serving


def _get(target: bytes) -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\nhost: x\r\n\r\n"


async def _redirected(reader: asyncio.StreamReader) -> bool:
    return (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 302 ")


def test_what_comes_as_a_body_is_never_answered_as_a_request() -> None:
    async def play() -> list[bytes]:
        asked: list[bytes] = []
        async with _lane(asked) as (reader, writer):
            writer.write(_get(b"/first"))
            assert await _redirected(reader)
            body = _get(b"/smuggled")
            writer.write(b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (3 * len(body)))
            assert (await reader.readuntil(b"\r\n\r\nno")).startswith(b"HTTP/1.1 401 ")
            writer.write(body)
            await writer.drain()
            with pytest.raises(asyncio.IncompleteReadError):  # it is closed, and nothing more is said
                await reader.readexactly(1)
        return asked

    assert asyncio.run(play()) == [b"/first"]


def test_a_blank_line_between_requests_ends_no_busy_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "REQUEST_SECONDS", 0.5)

    async def play() -> list[bytes]:
        asked: list[bytes] = []
        async with _lane(asked) as (reader, writer):
            for number in range(12):
                writer.write(_get(b"/%d" % number))
                assert await _redirected(reader)
                if number == 1:
                    writer.write(b"\r\n")
                await asyncio.sleep(0.1)
        return asked

    assert len(asyncio.run(play())) == 12


def test_what_is_at_hand_is_bounded_also_where_answers_grow() -> None:
    config = express.Config(lambda: None)
    for size in (100, 8_000):
        for number in range(8_000):
            config.keep(b"/%d" % number, 302, bytes(size), lambda _head: True)
            if number % 400 == 0:
                kept = sum(len(rest) for _, rest, _ in config.at_hand.values())
                assert kept <= express.MOST_BYTES_AT_HAND
        assert config.at_hand


def test_what_is_at_hand_stays_while_it_is_full_and_begins_anew_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr(express, "MOST_BYTES_AT_HAND", 10_000)
    config = express.Config(lambda: None)

    def keep(number: int, rest: bytes = b"x") -> bool:
        config.keep(b"/%d" % number, 302, rest, lambda _head: True)
        return b"/%d" % number in config.at_hand

    first = [number for number in range(100) if keep(number)]
    assert first == list(range(len(first)))
    assert 10 < len(first) < 30
    now += express.FULL_SECONDS / 2
    assert not keep(200)
    assert keep(0, b"y")  # another answer takes the place of the one before
    assert config.at_hand[b"/0"][1] == b"y"
    assert len(config.at_hand) == len(first)
    now += express.FULL_SECONDS
    assert keep(200)
    assert list(config.at_hand) == [b"/200"]
    assert [number for number in range(100) if keep(number)] == list(range(len(first) - 1))
