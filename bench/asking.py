"""The questions of a full fan-out, asked by HTTP clients alone: what a resolver that does nothing else could reach.

    python -m bench.asking CLIENT PORT SECONDS

CLIENT is `ours` (the client of the resolver, as the resolver uses it), `awaited` (the same, with a task for each
question), `pyreqwest` or `aiohttp`; at PORT are the Archives of `bench.stubs`. Some rounds are under way at the same
time, and each asks ARCHIVES Archives the question that a resolver would ask, waits for all answers, and reads each of
them as a resolver must: status, media type, and the URL list with its limits. Our own client also judges addresses,
counts bytes and header lines, and limits how many requests run; the others do none of that. Printed: questions a
second, and seconds of a processor for one.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Final

import uvloop

from bench.stubs import ip_of, item_of, query_of, service_of
from ibi.errors import PeerError
from ibi.http.client import AddressPolicy, Client, Deadline, Reply
from ibi.http.server.workers import tune_garbage_collection
from ibi.protocol.url_list import UrlList

ARCHIVES: Final = 100
ROUNDS_AT_ONCE: Final = 4
SECONDS: Final = 3.0  # for one answer

Ask = Callable[[list[str]], Awaitable[list[UrlList]]]
"""Ask each Archive its target, and read what it says."""
Get = Callable[[int, str], Awaitable[UrlList]]


class _Wrong(Exception):
    """An answer that is none: there is no figure."""


def _read(status: int, media_type: str, body: bytes) -> UrlList:
    if status != 200 or media_type.partition(";")[0].strip().lower() != "text/plain":
        raise _Wrong(status, media_type)
    return UrlList.read(body)


def _each(get: Get) -> Ask:
    async def ask(targets: list[str]) -> list[UrlList]:
        return await asyncio.gather(*(get(archive, target) for archive, target in enumerate(targets)))

    return ask


async def ours(port: int, rounds: Callable[[Ask], Awaitable[None]]) -> None:
    """Our resolver's client, with callbacks."""
    client = Client(AddressPolicy(allow_private=True))
    addresses = [f"{ip_of(archive)}:{port}" for archive in range(ARCHIVES)]

    async def ask(targets: list[str]) -> list[UrlList]:
        answers = list[UrlList]()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def hear(reply: Reply | PeerError) -> None:
            if not isinstance(reply, Reply):
                raise reply
            answers.append(_read(reply.status, reply.media_type.decode(), reply.body))
            if len(answers) == len(targets):
                done.set_result(None)

        deadline = Deadline(SECONDS)
        for address, target in zip(addresses, targets, strict=True):
            client.ask(address, target, deadline, hear)
        await done
        return answers

    await rounds(ask)
    await client.close()


async def awaited(port: int, rounds: Callable[[Ask], Awaitable[None]]) -> None:
    """The same client, with a task for each request."""
    client = Client(AddressPolicy(allow_private=True))

    async def get(archive: int, target: str) -> UrlList:
        reply = await client.get(f"{ip_of(archive)}:{port}", target, SECONDS)
        return _read(reply.status, reply.media_type.decode(), reply.body)

    await rounds(_each(get))
    await client.close()


async def pyreqwest(port: int, rounds: Callable[[Ask], Awaitable[None]]) -> None:
    """A client written in Rust."""
    from datetime import timedelta

    builder = import_module("pyreqwest.client").ClientBuilder()
    async with builder.timeout(timedelta(seconds=SECONDS)).http1_only().no_proxy().build() as client:

        async def get(archive: int, target: str) -> UrlList:
            reply = await client.get(f"http://{ip_of(archive)}:{port}{target}").build().send()
            return _read(reply.status, reply.headers["content-type"], bytes(await reply.bytes()))

        await rounds(_each(get))


async def aiohttp(port: int, rounds: Callable[[Ask], Awaitable[None]]) -> None:
    """The client that most people take."""
    from aiohttp import ClientSession, ClientTimeout, TCPConnector

    session = ClientSession(connector=TCPConnector(limit=0), timeout=ClientTimeout(total=SECONDS))
    async with session:

        async def get(archive: int, target: str) -> UrlList:
            async with session.get(f"http://{ip_of(archive)}:{port}{target}") as reply:
                return _read(reply.status, reply.headers["Content-Type"], await reply.read())

        await rounds(_each(get))


CLIENTS: Final = {"ours": ours, "awaited": awaited, "pyreqwest": pyreqwest, "aiohttp": aiohttp}


async def _ask(client: str, port: int, seconds: float) -> dict[str, float]:
    numbers, paths = itertools.count(), [f"/{service_of(archive)}" for archive in range(ARCHIVES)]
    figures = dict[str, float]()

    async def one_round(ask: Ask) -> None:
        number = next(numbers)
        query = query_of(item_of(number % ARCHIVES, number))
        answers = await ask([f"{path}?{query}" for path in paths])
        if len(answers) != ARCHIVES or sum(map(bool, answers)) != 1:
            raise _Wrong(answers)

    async def rounds(ask: Ask) -> None:
        await asyncio.gather(*(one_round(ask) for _ in range(2 * ROUNDS_AT_ONCE)))  # connections are opened
        tune_garbage_collection()  # garbage is searched for as in our server
        done, begun, worked = 0, time.perf_counter(), time.process_time()

        async def repeatedly() -> None:
            nonlocal done
            while time.perf_counter() < begun + seconds:
                await one_round(ask)
                done += ARCHIVES

        await asyncio.gather(*(repeatedly() for _ in range(ROUNDS_AT_ONCE)))
        figures["rate"] = done / (time.perf_counter() - begun)
        figures["processor"] = (time.process_time() - worked) / done

    await CLIENTS[client](port, rounds)
    return figures


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as _runner:
        print(json.dumps(_runner.run(_ask(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))))
