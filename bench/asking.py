"""The questions of a full fan-out, asked by HTTP clients alone: what a resolver that does nothing else could reach.

    python -m bench.asking CLIENT PORT SECONDS

CLIENT is `ours` (the door of the resolver), `pyreqwest` or `aiohttp`; at PORT are the Archives of `bench.stubs`. Some
rounds are under way at the same time, and each asks ARCHIVES Archives the question that a resolver would ask, and
waits for all answers. Printed: questions a second, and seconds of a processor for one.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Final

import uvloop

from bench.stubs import ip_of, item_of, query_of, service_of

ARCHIVES: Final = 100
ROUNDS_AT_ONCE: Final = 4
SECONDS: Final = 3.0  # for one answer

Get = Callable[[int, str], Awaitable[bytes]]


class _Wrong(Exception):
    """An answer that is none: there is no figure."""


async def ours(port: int, rounds: Callable[[Get], Awaitable[None]]) -> None:
    """The door through which our resolver asks."""
    from ibi.transport import AddressPolicy, Client

    client = Client(AddressPolicy(allow_private=True))

    async def get(archive: int, target: str) -> bytes:
        reply = await client.get(f"{ip_of(archive)}:{port}", target, SECONDS)
        return reply.body if reply.status == 200 else b"?"

    await rounds(get)
    await client.close()


async def pyreqwest(port: int, rounds: Callable[[Get], Awaitable[None]]) -> None:
    """A client written in Rust."""
    from datetime import timedelta

    builder = import_module("pyreqwest.client").ClientBuilder()  # only where it happens to be installed
    async with builder.timeout(timedelta(seconds=SECONDS)).http1_only().no_proxy().build() as client:

        async def get(archive: int, target: str) -> bytes:
            reply = await client.get(f"http://{ip_of(archive)}:{port}{target}").build().send()
            body = await reply.bytes()
            return bytes(body) if reply.status == 200 else b"?"

        await rounds(get)


async def aiohttp(port: int, rounds: Callable[[Get], Awaitable[None]]) -> None:
    """The client that most people take."""
    from aiohttp import ClientSession, ClientTimeout, TCPConnector

    session = ClientSession(connector=TCPConnector(limit=0), timeout=ClientTimeout(total=SECONDS))
    async with session:

        async def get(archive: int, target: str) -> bytes:
            async with session.get(f"http://{ip_of(archive)}:{port}{target}") as reply:
                body = await reply.read()
                return body if reply.status == 200 else b"?"

        await rounds(get)


CLIENTS: Final = {"ours": ours, "pyreqwest": pyreqwest, "aiohttp": aiohttp}


async def _ask(client: str, port: int, seconds: float) -> dict[str, float]:
    numbers, paths = itertools.count(), [f"/{service_of(archive)}" for archive in range(ARCHIVES)]
    figures = dict[str, float]()

    async def one_round(get: Get) -> None:
        number = next(numbers)
        query = query_of(item_of(number % ARCHIVES, number))
        answers = await asyncio.gather(
            *(get(archive, f"{path}?{query}") for archive, path in enumerate(paths))
        )
        if sum(map(bool, answers)) != 1 or b"?" in answers:
            raise _Wrong(answers)

    async def rounds(get: Get) -> None:
        await asyncio.gather(*(one_round(get) for _ in range(2 * ROUNDS_AT_ONCE)))  # connections are opened
        gc.collect()
        gc.freeze()  # what was imported is never looked through again, as in a server
        done, begun, worked = 0, time.perf_counter(), time.process_time()

        async def repeatedly() -> None:
            nonlocal done
            while time.perf_counter() < begun + seconds:
                await one_round(get)
                done += ARCHIVES

        await asyncio.gather(*(repeatedly() for _ in range(ROUNDS_AT_ONCE)))
        figures["rate"] = done / (time.perf_counter() - begun)
        figures["processor"] = (time.process_time() - worked) / done

    await CLIENTS[client](port, rounds)
    return figures


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as _runner:
        print(json.dumps(_runner.run(_ask(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))))
