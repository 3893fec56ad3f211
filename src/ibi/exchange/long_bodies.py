"""Bodies that are larger than what should be in memory: sent in parts, none of which is read before its time."""

from __future__ import annotations

import asyncio
import io
import os
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

    Send = Callable[[dict[str, Any]], Awaitable[None]]

_CHUNK: Final = 512 * 1024  # of a slow reader's file, one of these is in memory
_NO_WAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)  # Linux only


async def send_all(
    parts: AsyncGenerator[bytes, None], size: int, send: Send, receive: Callable[[], Awaitable[Any]] | None
) -> None:
    """Send exactly `size` bytes; what ends early breaks the connection rather than lie."""
    if not size:
        await send({"type": "http.response.body", "body": b""})
        return
    left = size
    gone = asyncio.ensure_future(_gone(receive)) if receive and size > _CHUNK else None
    try:
        async with aclosing(parts):
            async for part in parts:
                left -= len(part)
                await send({"type": "http.response.body", "body": part, "more_body": left > 0})
                if left:  # returns when the part is nearly gone, so that the next one is not read before
                    await send({"type": "http.response.body", "body": b"", "more_body": True})
                    await asyncio.sleep(0)  # others have their turn, also while a fast reader never waits
                if gone is not None and gone.done():
                    return
    finally:
        if gone is not None:
            gone.cancel()
    if left:
        raise io.UnsupportedOperation("a stored file ended too early")


async def _gone(receive: Callable[[], Awaitable[Any]]) -> None:
    """Wait until the reader has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def file_parts(file: BinaryIO, start: int, size: int) -> AsyncGenerator[bytes, None]:
    """A piece of a file; another thread reads what is not in memory, and only that, since it costs more."""
    handle, at, end = file.fileno(), start, start + size
    while at < end:
        most = min(_CHUNK, end - at)
        if _in_memory(handle, at, most):
            part = os.pread(handle, most, at)
        else:
            part = await asyncio.to_thread(os.pread, handle, most, at)
        if not part:
            return
        at += len(part)
        yield part


def _in_memory(handle: int, at: int, size: int) -> bool:
    """Whether both ends of a piece of a file can be read without waiting for a disk, as far as the system tells."""
    if _NO_WAIT is None:
        return False
    try:
        return all(os.preadv(handle, [bytearray(1)], place, _NO_WAIT) for place in {at, at + size - 1})
    except OSError:  # it would have to wait, or the file system cannot tell
        return False


async def made_parts(parts: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Parts that are made in another thread, one at a time."""
    while part := await asyncio.to_thread(next, parts, b""):
        yield part
