"""A server of streams that leaves no connection open when it stops, however late that came."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from ssl import SSLContext

    Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None] | None]

_TURNS = 5
"""Turns of the event loop in which a connection that is being accepted is made."""


class _Stream(asyncio.StreamReaderProtocol):
    def __init__(self, serve: Serve, streams: set[_Stream]) -> None:
        super().__init__(asyncio.StreamReader(), serve)
        self._streams = streams
        self.lost = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._streams.add(self)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._streams.discard(self)
        self.lost.set_result(None)


class StreamServer:
    """Calls `serve` for each connection, as `asyncio.start_server` does. `port` is known once it has started."""

    def __init__(self, serve: Serve, ip: str = "127.0.0.1", port: int = 0) -> None:
        self.port = port
        self._serve = serve
        self._ip = ip
        self._streams: set[_Stream] = set()
        self._server: asyncio.Server

    async def start(self, ssl: SSLContext | None = None) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Stream(self._serve, self._streams), self._ip, self.port, ssl=ssl
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Listen no longer, and end every connection."""
        self._server.close()
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        streams = list(self._streams)
        for stream in streams:
            stream.transport.abort()
        await asyncio.gather(*(stream.lost for stream in streams))


@asynccontextmanager
async def listening(serve: Serve, ip: str = "127.0.0.1", ssl: SSLContext | None = None) -> AsyncIterator[int]:
    """Serve until the end of the block; gives the port."""
    server = StreamServer(serve, ip)
    await server.start(ssl)
    try:
        yield server.port
    finally:
        await server.stop()
