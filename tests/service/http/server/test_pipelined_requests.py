"""Requests that are sent without waiting are answered in order, wherever the bytes of one end and the next begin."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ibi.http.server.protocol import HEAD_BYTES
from ibi.http.server.service import Service, listen, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ibi.http.server.config import Answer

_ANSWER = re.compile(rb"(?s)HTTP/1\.1 (\d+) (?:(?!HTTP/1\.1 ).)*")
_FROM = re.compile(rb"\r\nfrom: (\S+)")
_LAST = b"GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


def _at_once(_method: bytes, target: bytes, _head: object, _peer: str) -> Answer | None:
    if not target.startswith(b"/fast"):
        return None
    body = bytes(1 << 16 if target.startswith(b"/fast/long") else 0)
    return 302, b"from: %b\r\ncontent-length: %d\r\n\r\n%b" % (target, len(body), body)


async def _app(scope: Any, receive: Any, send: Any) -> None:
    while scope["path"] != "/early" and (await receive()).get("more_body"):
        pass
    headers = [(b"from", scope["raw_path"]), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body"})


def _request(method: bytes, target: bytes, more: bytes = b"") -> bytes:
    return b"%b %b HTTP/1.1\r\nhost: x\r\n%b\r\n" % (method, target, more)


@asynccontextmanager
async def _port() -> AsyncIterator[int]:
    listener, stop, ready = listen("127.0.0.1:0"), asyncio.Event(), asyncio.Event()
    service = Service(_app, largest_body=1 << 20, at_once=_at_once)
    serving = asyncio.create_task(run([service], [listener], lambda _: ready.set(), stop))
    await ready.wait()
    try:
        yield listener.getsockname()[1]
    finally:
        stop.set()
        await serving


async def _ask(port: int, first: bytes, rest: bytes, *, answers: int = 1) -> list[str]:
    """Return "status target" of each answer; the rest is sent after so many `answers`, and `first` has been read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    # The answer to a whole request shows that the bytes which were sent together with it have been read, too.
    writer.write(_request(b"GET", b"/fast/0") + first)
    heard = b""
    for _ in range(answers):
        heard += await reader.readuntil(b"\r\n\r\n")
    writer.write(rest)
    writer.write_eof()
    heard += await reader.read()
    writer.close()
    found = [(each[1], _FROM.search(each[0])) for each in _ANSWER.finditer(heard)]
    return [f"{status.decode()} {target[1].decode() if target else ''}".rstrip() for status, target in found]


_CHUNKED = b"transfer-encoding: chunked\r\n"
_BEFORE = {
    "a GET": _request(b"GET", b"/slow"),
    "a HEAD": _request(b"HEAD", b"/slow"),
    "a method that writes": _request(b"POST", b"/slow"),
    "an empty body": _request(b"GET", b"/slow", b"content-length: 0\r\n"),
    "a chunked body": _request(b"GET", b"/slow", _CHUNKED) + b"1\r\nx\r\n0\r\n\r\n",
    "a large body": _request(b"POST", b"/slow", _CHUNKED) + b"1\r\nx\r\n0\r\n\r\n",
    "a trailer": _request(b"POST", b"/slow", _CHUNKED) + b"0\r\na: b\r\n\r\n",
    "Expect": _request(b"GET", b"/slow", b"expect: 100-continue\r\n"),
}
_AFTER = {
    "a fast GET": (_request(b"GET", b"/fast"), ["302 /fast", "200 /last"]),
    "a fast HEAD": (_request(b"HEAD", b"/fast"), ["302 /fast", "200 /last"]),
    "a GET of the application": (_request(b"GET", b"/next"), ["200 /next", "200 /last"]),
    "no host": (b"GET /fast HTTP/1.1\r\n\r\n", ["400"]),
    "no HTTP": (b"\x00\r\n\r\n", ["400"]),
    "too long a head": (_request(b"GET", b"/next", b"a: %b\r\n" % (b"b" * HEAD_BYTES)), ["431"]),
    "too long a body": (_request(b"POST", b"/next", b"content-length: 9999999\r\n"), ["413"]),
}


@pytest.mark.parametrize("before", _BEFORE)
def test_a_request_whose_last_bytes_come_with_the_next_one_is_answered_first(before: str) -> None:
    first = _BEFORE[before]

    async def play() -> None:
        async with _port() as port:
            for after, (second, answers) in _AFTER.items():
                for last in range(5):
                    end = len(first) - last
                    heard = await _ask(port, first[:end], first[end:] + second + _LAST)
                    given = [each for each in heard if each != "100"]
                    assert given == ["302 /fast/0", "200 /slow", *answers], (after, last)

    asyncio.run(play())


_UPGRADE = b"connection: upgrade\r\nupgrade: h2c\r\n"
_SMUGGLED = _request(b"GET", b"/fast/smuggled")
_LENGTH = b"content-length: %d\r\n" % len(_SMUGGLED)
_IN_CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(_SMUGGLED), _SMUGGLED)


@pytest.mark.parametrize(
    "request_with_body",
    [
        _request(b"GET", b"/slow", _UPGRADE + _LENGTH) + _SMUGGLED,
        _request(b"POST", b"/slow", _UPGRADE + _LENGTH) + _SMUGGLED,
        _request(b"POST", b"http://x/slow", _UPGRADE + _LENGTH) + _SMUGGLED,
        _request(b"POST", b"/slow", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" + _LENGTH)
        + _SMUGGLED,
        _request(b"PUT", b"/slow", _UPGRADE + _CHUNKED) + _IN_CHUNKS,
        _request(b"POST", b"/slow", _UPGRADE + _CHUNKED + b"expect: 100-continue\r\n") + _IN_CHUNKS,
    ],
    ids=["a GET", "a length", "an absolute form", "as Java sends it", "chunks", "Expect"],
)
def test_an_offer_of_another_protocol_is_ignored_and_its_body_is_a_body(request_with_body: bytes) -> None:
    async def play() -> None:
        async with _port() as port:
            whole = request_with_body + _LAST
            for end in range(len(whole)):
                heard = await _ask(port, whole[:end], whole[end:])
                assert [each for each in heard if each != "100"] == [
                    "302 /fast/0",
                    "200 /slow",
                    "200 /last",
                ], end

    asyncio.run(play())


@pytest.mark.parametrize(
    ("refused", "status"),
    [
        (_request(b"CONNECT", b"/slow", _LENGTH) + _SMUGGLED, "400"),
        (_request(b"CONNECT", b"/slow", _UPGRADE + _LENGTH) + _SMUGGLED, "400"),
        (b"POST /slow HTTP/1.1\r\n" + _UPGRADE + _LENGTH + b"\r\n" + _SMUGGLED, "400"),
        (_request(b"POST", b"/slow", b"host: y\r\n" + _UPGRADE + _LENGTH) + _SMUGGLED, "400"),
        (_request(b"POST", b"/slow", _UPGRADE + _LENGTH + _CHUNKED) + _SMUGGLED, "400"),
        (_request(b"POST", b"/slow", _UPGRADE + b"content-length: 9999999\r\n") + _SMUGGLED, "413"),
        (_request(b"GET", b"/slow", _UPGRADE + b"content-length: 99999\r\n") + b"x" * 2 * HEAD_BYTES, "431"),
        (
            _request(b"POST", b"/slow", _UPGRADE + _LENGTH + b"a: %b\r\n" % (b"b" * HEAD_BYTES)) + _SMUGGLED,
            "431",
        ),
    ],
    ids=[
        "CONNECT",
        "CONNECT and an offer",
        "no host",
        "two hosts",
        "two lengths",
        "too large",
        "too long",
        "long head",
    ],
)
def test_an_offer_of_another_protocol_lifts_no_limit(refused: bytes, status: str) -> None:
    async def play() -> list[str]:
        async with _port() as port:
            return await _ask(port, b"", refused + _LAST)

    assert asyncio.run(play()) == ["302 /fast/0", status]


def test_a_request_for_another_protocol_without_a_body_is_answered_in_ours() -> None:
    async def play() -> list[str]:
        async with _port() as port:
            return await _ask(port, _request(b"GET", b"/slow", _UPGRADE + b"content-length: 0\r\n"), _LAST)

    assert asyncio.run(play()) == ["302 /fast/0", "200 /slow", "200 /last"]


@pytest.mark.parametrize(
    ("method", "header", "rest"),
    [
        (b"GET", b"content-length: 99999\r\n", b"x" * 2 * HEAD_BYTES),
        (b"GET", _CHUNKED, b"no chunk\r\n\r\n" + _SMUGGLED),
        (b"POST", _CHUNKED, b"no chunk\r\n\r\n" + _SMUGGLED),
        (b"POST", _CHUNKED, b"200000\r\n" + b"x" * 0x200000),
    ],
    ids=["longer than read", "no chunk", "no chunk where bodies may be large", "too large"],
)
def test_a_request_that_was_answered_before_its_body_came_gets_no_second_answer(
    method: bytes, header: bytes, rest: bytes
) -> None:
    async def play() -> list[str]:
        async with _port() as port:
            return await _ask(port, _request(method, b"/early", header), rest, answers=2)

    assert asyncio.run(play()) == ["302 /fast/0", "200 /early"]


def test_who_takes_the_answers_late_gets_all_of_them_in_order() -> None:
    """The server stops where its client takes nothing, also between answers that no task of it gives."""
    targets = [b"/fast/long/%d" % number for number in range(300)]

    async def main() -> bytes:
        async with _port() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"".join(_request(b"GET", each) for each in targets) + _LAST)
            await asyncio.sleep(0.5)
            heard = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            return heard

    assert _FROM.findall(asyncio.run(main())) == [*targets, b"/last"]
