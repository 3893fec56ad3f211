"""One connection on which several requests come, at once or one after the other: each is answered, and it goes on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ibi.http.server.connections import TOO_MANY, Connections
from ibi.http.server.head import refusal
from ibi.http.server.protocol import HEAD_BYTES, MOST_PER_TURN
from ibi.http.server.service import Service
from ibi.http.server.turns import Turns
from support.servers.one_connection import connection_to

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from ibi.http.server.config import Answer

LONG = 20.0
"""Seconds that an answer may take."""


def _at_once(_method: bytes, target: bytes, _head: object, _peer: str) -> Answer | None:
    return (302, b"from: %b\r\ncontent-length: 0\r\n\r\n" % target) if target.startswith(b"/fast") else None


async def _app(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    headers = [(b"from", scope["raw_path"]), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body"})


def _connection() -> AbstractAsyncContextManager[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    return connection_to(Service(_app, largest_body=1 << 20, at_once=_at_once))


def _request(method: bytes, target: bytes, more: bytes = b"") -> bytes:
    return b"%b %b HTTP/1.1\r\nhost: x\r\n%b\r\n" % (method, target, more)


async def _answers(reader: asyncio.StreamReader, count: int) -> list[str]:
    """The targets of the next answers."""
    async with asyncio.timeout(LONG):
        heads = [await reader.readuntil(b"\r\n\r\n") for _ in range(count)]
    return [head.partition(b"from: ")[2].partition(b"\r\n")[0].decode() for head in heads]


@pytest.mark.parametrize("kind", ["fast", "slow"])
@pytest.mark.parametrize("at_once", [1, 2, MOST_PER_TURN, MOST_PER_TURN + 1, 3 * MOST_PER_TURN])
def test_after_requests_that_came_together_further_ones_are_answered_and_nothing_waits(
    kind: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = list[int]()
    add = Turns.add

    def counted(self: Turns, go_on: Any) -> None:
        turns.append(1)
        add(self, go_on)

    monkeypatch.setattr(Turns, "add", counted)

    async def play() -> None:
        async with _connection() as (reader, writer):
            for time in range(3):
                targets = [f"/{kind}/{time}/{number}" for number in range(at_once)]
                writer.write(b"".join(_request(b"GET", each.encode()) for each in targets))
                assert await _answers(reader, at_once) == targets
                # Held bytes ask for a turn again and again; here none are held any more.
                before = len(turns)
                for _ in range(20):
                    await asyncio.sleep(0)
                assert len(turns) == before

    asyncio.run(play())


@pytest.mark.parametrize("size", [0, 1, HEAD_BYTES, 1 << 19])
@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_after_a_body_the_next_request_is_answered(framing: str, size: int) -> None:
    body = b"x" * size
    chunks = (b"%x\r\n%b\r\n" % (size, body) if size else b"") + b"0\r\n\r\n"
    sent = {
        "length": _request(b"POST", b"/a", b"content-length: %d\r\n" % size) + body,
        "chunks": _request(b"POST", b"/a", b"transfer-encoding: chunked\r\n") + chunks,
    }[framing]

    async def play() -> None:
        async with _connection() as (reader, writer):
            for _ in range(2):
                writer.write(sent + _request(b"GET", b"/fast") + sent)
                assert await _answers(reader, 3) == ["/a", "/fast", "/a"]

    asyncio.run(play())


def test_the_first_byte_of_the_next_request_waits_with_its_others() -> None:
    """It would else be parsed while the request before is under way, and the next answer would come first."""
    go_on = asyncio.Event()

    async def waiting_app(scope: Any, receive: Any, send: Any) -> None:
        await go_on.wait()
        await _app(scope, receive, send)

    async def play() -> None:
        service = Service(waiting_app, largest_body=1 << 20, at_once=_at_once)
        async with connection_to(service) as (reader, writer):
            following = _request(b"GET", b"/fast")
            for method in (b"GET", b"POST"):
                go_on.clear()
                writer.write(_request(method, b"/slow") + following[:1])
                await asyncio.sleep(0.05)
                writer.write(following[1:])
                await asyncio.sleep(0.05)
                go_on.set()
                assert await _answers(reader, 2) == ["/slow", "/fast"]

    asyncio.run(play())


def test_a_head_may_be_as_long_as_the_limit_and_no_longer() -> None:
    async def heard(size: int) -> bytes:
        around = len(_request(b"GET", b"/slow", b"a: \r\n"))
        request = _request(b"GET", b"/slow", b"a: %b\r\n" % (b"b" * (size - around)))
        assert len(request) == size
        async with _connection() as (reader, writer), asyncio.timeout(LONG):
            writer.write(request)
            return (await reader.readuntil(b"\r\n\r\n"))[:12]

    assert asyncio.run(heard(HEAD_BYTES)) == b"HTTP/1.1 200"
    assert asyncio.run(heard(HEAD_BYTES + 1)) == b"HTTP/1.1 431"


def test_the_service_is_told_from_which_address_a_client_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    peers, open_now = list[str](), list[str]()

    def at_once(_method: bytes, target: bytes, _head: object, peer: str) -> Answer | None:
        peers.append(peer)
        return _at_once(b"", target, None, "")

    def later(_target: bytes, _head: object, peer: str, _answer: object) -> bool:
        peers.append(peer)
        return False

    def enter(_: Connections, peer: str) -> bool:
        open_now.append(peer)
        return True

    monkeypatch.setattr(Connections, "enter", enter)
    monkeypatch.setattr(Connections, "leave", lambda _, peer: open_now.remove(peer))

    async def play() -> None:
        async with connection_to(Service(_app, at_once=at_once, later=later)) as (reader, writer):
            for target in (b"/fast/1", b"/fast/2", b"/slow"):  # the second one repeats the first
                writer.write(_request(b"GET", target))
                assert await _answers(reader, 1) == [target.decode()]
            assert open_now == ["127.0.0.1"]
        assert open_now == []

    asyncio.run(play())
    assert len(peers) >= 4
    assert set(peers) == {"127.0.0.1"}


def test_a_client_with_too_many_connections_is_told_so_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ibi.http.server.connections.MOST_CONNECTIONS", 2)
    service = Service(_app, at_once=_at_once, proxies=lambda: ("10.0.0.0/8",))

    async def play() -> None:
        async with connection_to(service) as (reader, writer), asyncio.timeout(LONG):
            address = writer.get_extra_info("peername")[:2]
            second, of_second = await asyncio.open_connection(*address)
            of_second.write(_request(b"GET", b"/fast"))
            assert await _answers(second, 1) == ["/fast"]
            refused, of_refused = await asyncio.open_connection(*address)
            assert await refused.read() == TOO_MANY
            for each, to in ((reader, writer), (second, of_second)):
                to.write(_request(b"GET", b"/slow"))
                assert await _answers(each, 1) == ["/slow"]
            for to in (of_second, of_refused):
                to.close()

    asyncio.run(play())


@pytest.mark.parametrize(
    "beginning", [b"", b"GET /fast HTTP/1.1\r\nhost: x\r\n", b"POST /a HTTP/1.1\r\nhost"]
)
def test_a_client_that_sends_no_whole_request_in_time_is_told_so(
    beginning: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibi.http.server.protocol.REQUEST_SECONDS", 0.1)

    async def play() -> bytes:
        async with _connection() as (reader, writer), asyncio.timeout(LONG):
            writer.write(beginning)
            return await reader.read()

    assert asyncio.run(play()) == refusal(408, "the request did not arrive in time")
