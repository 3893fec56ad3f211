"""A network of our own resolver and Archives under the host names of the documents; what they say is written down.

Made with the ordinary commands, run by the ordinary assembly in a thread of its own; host names lead to loopback ports
through the parameter `host_lookup` of the transport. Between any two of them stands a relay that listens.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from ibi.app.archive import archive_service
from ibi.app.resolver import resolver_service
from ibi.cli import main
from ibi.http.server.service import listen, run
from ibi.protocol.query_string import read_query
from ibi.runtime.settings import ArchiveSettings, ResolverSettings
from support.network.up import Answer, get
from support.stream_server import StreamServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ibi.http.server.service import Service

KEY = "1234567890"
PLATFORM = "dpi.inpe.br/banon/1998/08.02.08.56"
RESOLVER = "urlib.net"
RESOLVER_SERVICE = "J8LNKB5R7W/3FUQHC5"
LOOPBACK = ipaddress.ip_network("127.0.0.0/8")

_REQUEST = re.compile(rb"GET (\S+) HTTP/1\.1\r\n((?:[^\r\n]+\r\n)*)\r\n")


@dataclass(frozen=True)
class Exchange:
    """One request that crossed the wire, and the body that came back."""

    host: str
    target: str
    head: str
    body: str

    @property
    def pairs(self) -> dict[str, str]:
        return dict(read_query(self.target.partition("?")[2]))

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.target}"


@dataclass
class Peer:
    """One Archive to be made: its host name, service IBI, files of items, and what is different in its settings."""

    host: str
    service: str
    items: tuple[Path, ...] = ()
    ip: str = "127.0.0.1"
    settings: dict[str, object] = field(default_factory=dict)


class OwnNetwork:
    """The running network. `ask` speaks to a host by its name, `heard` is what went over the wire since `forget`.

    The data directories are in `data`: "resolver", and one for each Archive by its host name.
    """

    def __init__(self, data: Path, *peers: Peer) -> None:
        self.data = data
        self._peers = peers
        self._served_by = {str(peer.settings.get("files_address", "")): peer.host for peer in peers}
        self._ports: dict[str, int] = {}
        self._heard: list[Exchange] = []
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Self:
        self.make()
        self._thread.start()
        assert self._ready.wait(60)
        if self._failure is not None:
            raise self._failure
        self.wait_for(self._all_included, "every Archive to be included")
        return self

    def _all_included(self) -> bool:
        # By their addresses: one may have asked twice before another one asked at all.
        return len({each.pairs["archiveaddress"] for each in self.heard("status")}) == len(self._peers)

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def ask(self, host: str, target: str, **headers: str) -> Answer:
        port = self._ports[self._served_by.get(host, host)]
        return get(f"http://127.0.0.1:{port}{target}", host=host, **headers)

    def resolve(self, target: str, **headers: str) -> Answer:
        return self.ask(RESOLVER, target, **headers)

    @property
    def ports(self) -> dict[str, int]:
        """The port at which each host is served, for programs that are told where to find a host."""
        return dict(self._ports)

    def heard(self, subject: str = "") -> list[Exchange]:
        """What crossed the wire, in order; of one subject, or the replies to inclusion requests ("status")."""
        wanted = "inclusionRequest" if subject == "status" else subject
        return [
            each for each in list(self._heard) if not wanted or each.pairs.get("servicesubject") == wanted
        ]

    def forget(self) -> None:
        self._heard.clear()

    def wait_for(self, event: Callable[[], bool], what: str) -> None:
        """Give what happens in the background the time it takes."""
        pause = threading.Event()
        for _ in range(1000):
            if event():
                return
            pause.wait(0.02)
        raise AssertionError(f"waited in vain for {what}")

    # -- making ------------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Make the data directories; a subclass may change them."""
        resolver = self.data / "resolver"
        _do(
            "resolver", "init", "--data", resolver, "--address", RESOLVER, "--service-ibi", RESOLVER_SERVICE,
            "--allow-private-archives",
        )  # fmt: skip
        settings = ResolverSettings.read(resolver)
        replace(settings, request_rate=0.0).write(resolver)  # a test is a busy reader
        for peer in self._peers:
            folder = self.data / peer.host
            _do(
                "archive", "init", "--data", folder, "--address", peer.host, "--ip", peer.ip, "--service-ibi",
                peer.service, "--platform-software", PLATFORM, "--admin", "admin@archive.example",
                "--resolver", f"http://{RESOLVER}", "--key", KEY,
            )  # fmt: skip
            for items in peer.items:
                _do("archive", "import", "--data", folder, items)
            changed = {
                "reuse_seconds": 0,
                **peer.settings,
            }  # the printed answers know nothing of reuse (note 1)
            replace(ArchiveSettings.read(folder), **changed).write(folder)  # type: ignore[arg-type]  # by name
            _do("resolver", "register", "--data", resolver, "--archive-service", peer.service, "--key", KEY)

    # -- running -----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            services: list[Service] = [
                resolver_service(self.data / "resolver", trusted=[LOOPBACK], host_lookup=self._names)
            ]
            services += [
                archive_service(self.data / peer.host, host_lookup=self._names) for peer in self._peers
            ]
            hosts = [RESOLVER, *(peer.host for peer in self._peers)]
            listeners = [listen("127.0.0.1:0") for _ in hosts]
            self._ports = {host: each.getsockname()[1] for host, each in zip(hosts, listeners, strict=True)}
            relays = {host: await self._relay(host) for host in hosts}
            self._relays = {host: relay.port for host, relay in relays.items()}
            await run(services, listeners, lambda _: self._ready.set(), self._stop)
            for relay in relays.values():
                await relay.stop()
        except BaseException as failure:
            self._failure = failure
            self._ready.set()
            raise

    async def _names(self, host: str, _port: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", self._relays[host])]

    async def _relay(self, host: str) -> StreamServer:
        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            inward, outward = await asyncio.open_connection("127.0.0.1", self._ports[host])
            try:
                while request := await _read_head(reader):
                    outward.write(request)
                    head = await _read_head(inward)
                    if not head:
                        break
                    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                    body = await inward.readexactly(int(length[1])) if length else b""
                    self._write_down(host, request, body)
                    writer.write(head + body)
                    await writer.drain()
            finally:
                outward.close()
                writer.close()

        server = StreamServer(pass_on)
        await server.start()
        return server

    def _write_down(self, host: str, request: bytes, body: bytes) -> None:
        match = _REQUEST.fullmatch(request)
        assert match is not None, request
        self._heard.append(
            Exchange(host, match[1].decode("ascii"), match[2].decode("ascii"), body.decode("latin-1"))
        )


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    """Everything up to the empty line; b"" at the end of the connection."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


def _do(*words: object) -> None:
    assert main([str(word) for word in words]) == 0, words
