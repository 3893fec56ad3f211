"""A server whose answers begin at once and have no end, for tests in the time of a false clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from ibi.errors import PeerSilent
from support.clock import run_with_false_clock
from support.stream_server import listening

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
_PAUSE = 0.7
"""Seconds from byte to byte: more often than any limit on silence."""


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_HEAD)
        while not writer.is_closing():
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(_PAUSE)


@asynccontextmanager
async def dripping() -> AsyncIterator[str]:
    """Answer until the end of the block; gives the root URL."""
    async with listening(_drip) as port:
        yield f"http://127.0.0.1:{port}"


def seconds_of(act: Callable[[str], Awaitable[object]]) -> float:
    """How long an act waits for such a server, which is at the address that it is given."""

    async def run() -> float:
        async with dripping() as root:
            began = asyncio.get_running_loop().time()
            with suppress(PeerSilent):
                await act(root)
            seconds = asyncio.get_running_loop().time() - began
        await asyncio.sleep(2 * _PAUSE)  # its answers notice that no client listens
        return seconds

    return run_with_false_clock(run())
