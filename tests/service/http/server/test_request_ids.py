"""X-Request-ID: taken from the client or made, given back, and in each line that is logged for the request."""

from __future__ import annotations

import asyncio
import io
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ibi.http.server.service import AccessLog, Service, listen, run
from ibi.runtime.logging import JSONLines, TextLines
from ibi.runtime.tasks import run_to_completion

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ibi.http.server.config import Answer

_log = logging.getLogger("ibi.of_this_test")


async def _app(_scope: Any, _receive: Any, send: Any) -> None:
    _log.info("handled")
    await asyncio.create_task(_further())
    await asyncio.to_thread(_log.info, "in a thread")
    await run_to_completion(_log.info, "in a thread to its end")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def _further() -> None:
    _log.info("in a task")


def _at_once(_method: bytes, target: bytes, _head: object, _peer: str) -> Answer | None:
    _log.info("at once")
    return (302, b"location: /there\r\ncontent-length: 0\r\n\r\n") if target == b"/cached" else None


class Connection:
    """One connection to a service that answers /cached at once, and all else by an application."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, target: str, given: str = "", method: str = "GET") -> list[str]:
        """The IDs in an answer."""
        line = f"X-Request-ID: {given}\r\n" if given else ""
        self._writer.write(f"{method} {target} HTTP/1.1\r\nhost: x\r\n{line}\r\n".encode("latin-1"))
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        if target != "/cached":
            assert await self._reader.readexactly(2) == b"ok"
        lines = [line.partition(": ") for line in head.split("\r\n")]
        return [value for name, _, value in lines if name.lower() == "x-request-id"]


@asynccontextmanager
async def _serving(app: Any = _app) -> AsyncIterator[Connection]:
    listener, stop, ready = listen("127.0.0.1:0"), asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(
        run([Service(app, at_once=_at_once)], [listener], lambda _: ready.set(), stop)
    )
    await ready.wait()
    reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()
        stop.set()
        await serving


@pytest.fixture(params=[TextLines])
def written(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """What is logged, in text or JSON."""
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(request.param())
    logger = logging.getLogger("ibi")
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(handler)
    logger.setLevel(before)


def test_an_id_is_in_the_answer_and_in_each_line_of_its_request_alone(written: io.StringIO) -> None:
    async def play() -> None:
        async with _serving(AccessLog(_app)) as connection:
            assert await connection.ask("/x", "gate~7.a_B-9") == ["gate~7.a_B-9"]
            assert await connection.ask("/cached") == []

    asyncio.run(play())
    lines = [line.partition("INFO ")[2] for line in written.getvalue().splitlines()]
    names = [line.rpartition(": ")[0] for line in lines]
    assert [line.rpartition(": ")[2] for line in lines[1:5]] == [
        "handled", "in a task", "in a thread", "in a thread to its end",
    ]  # fmt: skip
    # The fast path is asked first, before and after the request with the ID: no line of its own has one.
    of_request = ["ibi.of_this_test [gate~7.a_B-9]"] * 4 + ["ibi.access [gate~7.a_B-9]"]
    assert names == ["ibi.of_this_test", *of_request, "ibi.of_this_test"]


@pytest.mark.parametrize("given", ["", "a" * 129, "a b", "a,b", 'a"b', "caf\xe9", "a:b", "a/b", "%0a"])
def test_without_an_id_that_may_be_taken_each_request_gets_a_new_one(given: str) -> None:
    async def play() -> list[str]:
        async with _serving() as connection:
            return [name for _ in range(2) for name in await connection.ask("/x", given, "POST")]

    first, second = asyncio.run(play())
    assert first != second
    assert {len(first), len(second)} == {16}
    assert int(first, 16) >= 0


def test_what_is_read_shows_no_made_id_as_answers_at_once_have_none(written: io.StringIO) -> None:
    async def play() -> list[str]:
        async with _serving() as connection:
            return await connection.ask("/x")

    assert asyncio.run(play()) == []
    assert written.getvalue().count(" [") == 4


def test_an_answer_at_once_gives_back_the_id_of_its_own_request_and_makes_none() -> None:
    async def play() -> list[list[str]]:
        async with _serving() as connection:
            return [
                await connection.ask("/cached", given, method)
                for method in ("GET", "HEAD")
                for given in ("one", "two", "two", "", "", "three", "b d", "a" * 128)
            ]

    of_each = [["one"], ["two"], ["two"], [], [], ["three"], [], ["a" * 128]]
    assert asyncio.run(play()) == of_each * 2


@pytest.mark.parametrize("written", [JSONLines], indirect=True)
def test_in_json_it_is_a_member_of_its_own(written: io.StringIO) -> None:
    async def play() -> None:
        async with _serving() as connection:
            await connection.ask("/x", "one")

    asyncio.run(play())
    assert written.getvalue().count('"request_id": "one"') == 4


@pytest.mark.parametrize("given", ["12345678901234567890", "1234567890-12", "203.0.113.7", "of-203.0.113.7"])
def test_what_looks_like_a_key_or_an_address_is_given_back_but_not_logged(
    written: io.StringIO, given: str
) -> None:
    async def play() -> list[str]:
        async with _serving() as connection:
            return await connection.ask("/x", given)

    assert asyncio.run(play()) == [given]
    assert written.getvalue().count("***") == 4
    assert given not in written.getvalue()
