"""A body that is made part by part leaves nothing behind, however its sending ends."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from ibi.http.response import Response, send_all

LONG = 1 << 20


async def _parts(ended: list[bool]) -> AsyncGenerator[bytes, None]:
    try:
        for _ in range(4):
            yield bytes(LONG // 4)
    finally:
        ended.append(True)


def test_what_makes_the_parts_is_closed_where_the_reader_is_gone() -> None:
    async def refuse(_message: dict[str, Any]) -> None:
        raise ConnectionResetError

    async def scenario() -> None:
        ended = list[bool]()
        parts = _parts(ended)
        with pytest.raises(ConnectionResetError):
            await send_all(parts, LONG, refuse, None)
        assert ended == [True]

    asyncio.run(scenario())


def test_waiting_for_a_reader_to_go_ends_with_the_body() -> None:
    waited = list[str]()

    async def wait() -> dict[str, Any]:
        try:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # it never comes
        except asyncio.CancelledError:
            waited.append("cancelled")
            raise

    async def take(_message: dict[str, Any]) -> None:
        await asyncio.sleep(0)

    async def scenario() -> None:
        await send_all(_parts([]), LONG, take, wait)
        await asyncio.sleep(0)
        assert waited == ["cancelled"]

    asyncio.run(scenario())


SIZE = 512 * 1024
"""Bytes of a file that are read at a time."""


async def _sent(response: Response, *, head_only: bool = False) -> list[dict[str, Any]]:
    messages = list[dict[str, Any]]()

    async def take(message: dict[str, Any]) -> None:
        messages.append(message)

    await response.send(take, head_only=head_only)
    return messages


@pytest.mark.parametrize(
    ("start", "size", "parts"),
    [
        (0, 0, [0]),
        (5, 1, [1]),
        (0, SIZE, [SIZE]),
        (3, SIZE + 1, [SIZE, 0, 1]),
        (0, 2 * SIZE + 7, [SIZE, 0, SIZE, 0, 7]),
    ],
)
def test_a_file_is_sent_part_by_part_and_closed(
    tmp_path: Path, start: int, size: int, parts: list[int]
) -> None:
    content = os.urandom(2 * SIZE + 9)
    (tmp_path / "a").write_bytes(content)
    ended = list[bool]()
    file = (tmp_path / "a").open("rb")
    response = Response(200, file=file, size=size, start=start, afterwards=lambda: ended.append(file.closed))
    head, *bodies = asyncio.run(_sent(response))
    assert (head["type"], head["status"]) == ("http.response.start", 200)
    assert (b"content-length", str(size).encode()) in head["headers"]
    assert [len(each["body"]) for each in bodies] == parts
    assert [each.get("more_body", False) for each in bodies] == [True] * (len(parts) - 1) + [False]
    assert b"".join(each["body"] for each in bodies) == content[start : start + size]
    assert ended == [True]


def test_without_a_body_a_file_is_closed_too(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    for response in (
        Response(200, b"content"),
        Response(200, size=7, parts=iter((b"content",))),
        Response(200, size=7, file=(tmp_path / "a").open("rb")),
    ):
        head, body = asyncio.run(_sent(response, head_only=True))
        assert (b"content-length", b"7") in head["headers"]
        assert body == {"type": "http.response.body", "body": b""}
        assert response.file is None or response.file.closed


def test_what_is_made_is_sent_as_it_comes() -> None:
    _, *bodies = asyncio.run(_sent(Response(200, size=3, parts=iter((b"a", b"bc")))))
    assert [(each["body"], each.get("more_body", False)) for each in bodies] == [
        (b"a", True), (b"", True), (b"bc", False),
    ]  # fmt: skip
    _, *bodies = asyncio.run(_sent(Response(200, b"abc")))
    assert bodies == [{"type": "http.response.body", "body": b"abc"}]


@pytest.mark.parametrize("size", [9, SIZE])
def test_a_file_that_is_shorter_than_it_was_breaks_the_connection(tmp_path: Path, size: int) -> None:
    (tmp_path / "a").write_bytes(b"content")
    done = list[bool]()
    file = (tmp_path / "a").open("rb")
    response = Response(200, size=size, file=file, afterwards=lambda: done.append(True))
    with pytest.raises(io.UnsupportedOperation, match="a stored file ended too early"):
        asyncio.run(_sent(response))
    assert (done, file.closed) == ([], True)
    with pytest.raises(io.UnsupportedOperation):
        asyncio.run(_sent(Response(200, size=4, parts=iter((b"abc",)))))


@pytest.mark.parametrize(("size", "looks"), [(SIZE, 0), (SIZE + 1, 2)])
def test_only_of_a_long_body_it_is_seen_that_its_reader_has_gone(size: int, looks: int) -> None:
    async def play() -> tuple[int, int]:
        coming, looked, sent = iter(("http.request", "http.disconnect")), list[str](), list[bytes]()

        async def receive() -> dict[str, Any]:
            looked.append(next(coming))
            return {"type": looked[-1]}

        async def take(message: dict[str, Any]) -> None:
            sent.append(message["body"])
            await asyncio.sleep(0)

        async def parts() -> AsyncGenerator[bytes, None]:
            for _ in range(4):
                yield bytes(size // 4)
            if size % 4:
                yield bytes(size % 4)

        await send_all(parts(), size, take, receive)
        return len(looked), sum(map(len, sent))

    looked, sent = asyncio.run(play())
    assert looked == looks
    assert (sent < size) is bool(looks)


def test_between_two_parts_other_requests_have_their_turn() -> None:
    events = list[object]()

    async def take(message: dict[str, Any]) -> None:
        events.append(len(message["body"]))

    async def parts() -> AsyncGenerator[bytes, None]:
        for _ in range(3):
            yield b"abc"

    async def other() -> None:
        while True:
            events.append("other")
            await asyncio.sleep(0)

    async def play() -> None:
        turns = asyncio.ensure_future(other())
        await asyncio.sleep(0)
        await send_all(parts(), 9, take, None)
        turns.cancel()

    asyncio.run(play())
    assert events == ["other", 3, 0, "other", 3, 0, "other", 3]


@pytest.mark.parametrize("readable", ["both ends", "first end", "neither"])
def test_only_what_is_not_in_memory_is_read_by_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readable: str
) -> None:
    content, looked, read = os.urandom(SIZE + 9), list[tuple[int, int, int]](), list[tuple[int, int, bool]]()
    (tmp_path / "a").write_bytes(content)
    really_read, here = os.pread, threading.get_ident()

    def look(_handle: int, buffers: list[bytearray], place: int, flags: int) -> int:
        if readable == "neither":
            raise BlockingIOError
        looked.append((sum(map(len, buffers)), place, flags))
        return 1 if readable == "both ends" or place in {3, 3 + SIZE} else 0

    def pread(handle: int, size: int, at: int) -> bytes:
        read.append((size, at, threading.get_ident() == here))
        return really_read(handle, size, at)

    monkeypatch.setattr(os, "preadv", look)
    monkeypatch.setattr(os, "pread", pread)
    response = Response(200, file=(tmp_path / "a").open("rb"), size=SIZE + 4, start=3)
    _, *bodies = asyncio.run(_sent(response))
    assert b"".join(each["body"] for each in bodies) == content[3 : SIZE + 7]
    in_memory = readable == "both ends"
    assert read == [(SIZE, 3, in_memory), (4, 3 + SIZE, in_memory)]
    if in_memory:
        assert sorted(looked) == [(1, at, os.RWF_NOWAIT) for at in (3, SIZE + 2, SIZE + 3, SIZE + 6)]
