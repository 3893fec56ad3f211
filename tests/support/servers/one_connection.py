"""One connection to a service that is served for the time of a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ibi.http.server.service import Service, listen, run


@asynccontextmanager
async def connection_to(
    service: Service,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Serve a service on a free port, and yield the two sides of a connection to it."""
    listener, stop, ready = listen("127.0.0.1:0"), asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(run([service], [listener], lambda _: ready.set(), stop))
    await ready.wait()
    reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
    try:
        yield reader, writer
    finally:
        writer.close()
        stop.set()
        await serving
