"""P-F2: both services are sent requests of every kind, most by a connection without a socket, some by real ones.

Whatever comes: an answer that is HTTP, no status 500, nothing of our insides, no unexpected error, nothing that
goes on for ever.
"""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from proofs.common.report import Report, Scale
from proofs.fuzz.asking import Request, RequestMaker
from proofs.fuzz.services import World, world
from proofs.fuzz.wire import SocketlessClient, fault_of

if TYPE_CHECKING:
    from ibi.http.server.service import Service

NAME: Final = "P-F2"
HOLDS: Final = "an answer in HTTP, no status 500, no fault in a log, nothing of our insides, nothing for ever"

_TOGETHER: Final = 32
_FIRST, _NEXT = 0.4, 0.05  # seconds: how long the first word over a socket is waited for, and the next one
_PLACES: Final = {"ibi": "<ibi>", "file": "<path>", "word": "<word>"}


def prove(scale: Scale, seed: int) -> Report:
    """Send each service so many requests."""
    report = Report(NAME, HOLDS)
    asyncio.run(_prove(report, seed, scale.pick(500, 40_000, 1_000_000), scale.pick(60, 2_000, 20_000)))
    return report


async def _prove(report: Report, seed: int, requests: int, by_socket: int) -> None:
    async with world() as both:
        routes = await _routes(both)
        for name, service, port in (
            ("resolver", both.resolver, both.ports[0]),
            ("archive", both.archive, both.ports[1]),
        ):
            chance = random.Random(f"{seed} {name}")
            maker = RequestMaker(chance, resolver=name == "resolver", routes=routes, token=both.token)
            trial = Trial(report, name, service, both)
            await trial.run(maker, requests)
            await trial.run_by_socket(maker, port, by_socket)
    for fault in both.faults.taken():
        report.violate(f"at the end: {fault}")


class Trial:
    """One service, to which requests are sent."""

    def __init__(self, report: Report, name: str, service: Service, both: World) -> None:
        self._report = report
        self._name = name
        self._client = SocketlessClient(service)
        self._faults = both.faults
        self._secrets = [str(both.folder).encode(), both.token.encode()]

    async def run(self, maker: RequestMaker, requests: int) -> None:
        """Send so many, each on a connection of its own."""
        for _ in range(requests):
            request = maker.request()
            written, fault = await self._client.say(request.pieces, request.peer)
            self._judge(request, written, fault)
        self._report.count("requests", requests)

    async def run_by_socket(self, maker: RequestMaker, port: int, requests: int) -> None:
        """Send so many over real sockets, some at a time."""
        for at in range(0, requests, _TOGETHER):
            batch = [maker.request() for _ in range(min(_TOGETHER, requests - at))]
            for request, written in zip(
                batch, await asyncio.gather(*(_say(port, each.pieces) for each in batch)), strict=True
            ):
                self._judge(request, written, "")
        self._report.count("by sockets", requests)

    def _judge(self, request: Request, answer: bytes, fault: str) -> None:
        fault = fault or fault_of(answer, request.raw, request.methods, self._secrets)
        heard = self._faults.taken()
        self._report.count(f"answers {answer[9:10].decode('ascii', 'replace')}xx" if answer else "no answers")
        for each in [*([fault] if fault else []), *heard]:
            self._report.violate(f"{self._name}: {each}: {request.raw!r:.300}")


async def _say(port: int, pieces: list[bytes]) -> bytes:
    """What a service answers over a socket, until it says nothing for a moment; it may wait for more of the request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    written = b""
    try:
        with suppress(ConnectionError, TimeoutError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            async with asyncio.timeout(_FIRST):
                written = await reader.read(1 << 22)
            while written:
                async with asyncio.timeout(_NEXT):
                    more = await reader.read(1 << 22)
                if not more:
                    break
                written += more
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    return written


async def _routes(both: World) -> list[str]:
    """The paths of the JSON interface, as it describes them."""
    raw = b"GET /-/api/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    written, _ = await SocketlessClient(both.archive).say([raw])
    paths = json.loads(written.partition(b"\r\n\r\n")[2])["paths"]
    found = []
    for path in paths:
        for name, rule in _PLACES.items():
            path = path.replace(f"{{{name}}}", rule)  # noqa: PLW2901 - one place after the other is filled
        found.append(path)
    return found
