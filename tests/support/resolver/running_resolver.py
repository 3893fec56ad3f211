"""A whole resolver on a real socket with a real store, and a client that says exactly what it is told to."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ibi.accounts.tokens import Tokens
from ibi.http.client import AddressPolicy
from ibi.http.server.service import Service, listen, run
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import InclusionRequest
from ibi.resolver.acknowledgments.queue import AcknowledgmentQueue
from ibi.resolver.pages.registration import LARGEST_BODY
from ibi.resolver.service import ResolverService
from ibi.runtime.settings import ResolverSettings
from support.checks.description import PATH, description
from support.engines.shared_store import in_wanted_store, opened_registry
from support.resolver.parts import outgoing, stores
from support.scripted_archive import ScriptedArchive, ScriptedArchives

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from ibi.resolver.registry.registry import Registry
    from ibi.resolver.resolve.learning import Knowledge
    from ibi.resolver.service import Stores

KEY = "12345678901234567890"
SERVICE = IBIForms.parse("rep urlib.net/www/2014/03.22.01.53 ibip J8LNKB5R7W/3FUQHC5")
LOOPBACK = ipaddress.ip_network("127.0.0.0/8")


@dataclass(frozen=True)
class Answer:
    """What came back, headers by lower-case name (the last one of each), and the raw head."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    head: str

    @property
    def location(self) -> str | None:
        return self.headers.get("location")


@dataclass
class Running:
    """A resolver that answers at 127.0.0.1:`port`; what it answers in JSON must be as it describes it."""

    port: int
    registry: Registry
    acknowledgments: AcknowledgmentQueue
    service: ResolverService
    stores: Stores
    description: Answer | None = None

    @property
    def knows(self) -> Knowledge:
        return self.stores.knowledge

    async def ask(self, target: str, *headers: str, method: str = "GET", host: str = "urlib.net") -> Answer:
        lines = [
            f"{method} {target} HTTP/1.1",
            *([f"Host: {host}"] if host else []),
            *headers,
            "Connection: close",
        ]
        answer = await self.say(_request(*lines))
        kind = answer.headers.get("content-type", "")
        if kind.startswith("application/") and "json" in kind and method != "HEAD":
            await self._compare(method, target, answer, kind)
        return answer

    async def _compare(self, method: str, target: str, answer: Answer, kind: str) -> None:
        if self.description is None:
            self.description = await self.say(
                _request(f"GET {PATH} HTTP/1.1", "Host: urlib.net", "Connection: close")
            )
        if self.description.status == 200:  # else it has no pages
            described = description(self.description.body)
            described.check(method, target, answer.status, kind, answer.body)

    async def say(self, raw: bytes) -> Answer:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(raw)
            whole = await asyncio.wait_for(reader.read(), 30)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        head, _, body = whole.partition(b"\r\n\r\n")
        text = head.decode("latin-1")
        pairs = (line.partition(": ") for line in text.split("\r\n")[1:])
        return Answer(int(text.split(" ")[1]), {name.lower(): value for name, _, value in pairs}, body, text)

    async def acknowledged(self) -> None:
        """Wait until no acknowledgment is under way."""
        await until(lambda: not self.acknowledgments.queued)


def _request(*lines: str) -> bytes:
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def until(happened: Callable[[], object]) -> None:
    """Wait for what another task or thread brings about."""
    async with asyncio.timeout(30):
        while not happened():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.001)


@asynccontextmanager
async def resolver(
    data: Path,
    archives: Sequence[ScriptedArchive] = (),
    *,
    included: bool = True,
    absent: frozenset[str] = frozenset(),
    addresses: AddressPolicy | None = None,
    trusted: Sequence[Any] = (),
    now: Callable[[], float] = time.time,
    pages: Any = None,
    **settings: Any,
) -> AsyncIterator[Running]:
    """Run one, with these Archives registered (and included) under KEY."""
    registry = opened_registry(in_wanted_store(data), lambda: 1_400_000_000.0)
    for archive in archives:
        enter(registry, archive, included=included)
    async with ScriptedArchives(tuple(archives), absent) as neighbourhood:
        judge = addresses or AddressPolicy(public=[LOOPBACK])
        outside = outgoing(judge, neighbourhood.names)
        kept = stores(registry, data, neighbourhood.names, now)
        given = {"address": "urlib.net", "service": SERVICE, "aliases": ("www.urlib.net",), **settings}
        app = ResolverService(
            ResolverSettings(**given), kept, outside, trusted=trusted, pages=pages, tokens=Tokens(data)
        )
        stop, ready = asyncio.Event(), asyncio.Event()
        listener = listen("127.0.0.1:0")
        port = listener.getsockname()[1]
        service = Service(app, close=app.close, largest_body=LARGEST_BODY)
        serving = asyncio.create_task(run([service], [listener], lambda _: ready.set(), stop))
        await ready.wait()
        try:
            yield Running(port, registry, outside.acknowledgments, app, kept)
        finally:
            stop.set()
            await serving
            kept.close()


def enter(
    registry: Registry, archive: ScriptedArchive, *, included: bool = True, confirmed: bool = True
) -> None:
    """Register an Archive where it is not, and include it as if it had asked."""
    ibi = parse_ibi(archive.service)
    if registry.entry(ibi) is None:
        registry.register(ibi, KEY)
    if included:
        request = InclusionRequest(archive.address, ibi, "192.0.2.1", "1", "admin@archive.example", KEY)
        assert registry.include(request, registry.open_change(ibi), confirmed=confirmed)
