"""The door itself: GET, from a checked address, within one deadline, and never more at once than agreed.

A name is looked up once, every address it has is judged, and the connection goes to the address that was judged:
between the look and the step nobody can move the door (DNS rebinding). A name with one forbidden address is
forbidden altogether. Redirects are answers like any other; following them is nobody's business here.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from errno import ECONNRESET
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from typing import TYPE_CHECKING

from ibi.errors import ForbiddenAddress, NotAsked, PeerSilent
from ibi.transport.address import HostPort
from ibi.transport.exchange import Connection, Held, Reply, StaleConnection
from ibi.transport.names import system_names

if TYPE_CHECKING:
    from ibi.transport.address import AddressPolicy

Names = Callable[[str, int], Awaitable[list[tuple[str, int]]]]

#: What marks our requests in the header CDN-Loop (RFC 8586): a resolver refuses requests that carry it, so two
#: resolvers registered as each other's Archives do not talk for ever.
LOOP_NAME = "ibi-resolver"

_TARGET = re.compile(r"/[\x21-\x7e]*", re.ASCII)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\x20-\x7e]*", re.ASCII)
_OURS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "cdn-loop", "te"}
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, times in seconds, counts of requests or connections."""

    head: int = 16 * 1024
    body: int = 256 * 1024
    target: int = 64 * 1024
    connect: float = 1.0
    addresses: int = 4  # of one name that are tried
    per_peer: int = 32  # requests in flight to one address, and connections kept to it
    in_all: int = 2_000  # requests in flight, and connections open
    kept: float = 30.0  # a connection older than this in idleness is not used again


@dataclass(slots=True, eq=False)
class _Peer:
    """Everything known of one address: its connections at rest (the freshest last) and the places left."""

    address: str
    where: HostPort
    places: asyncio.Semaphore
    head: str
    idle: deque[Connection] = field(default_factory=deque)
    asking: int = 0
    lookup: asyncio.Task[list[tuple[str, int]]] | None = None


def _seen(task: asyncio.Task[list[tuple[str, int]]]) -> None:
    """Everybody who asked for this may have given up; what came of it is then nobody's surprise."""
    if not task.cancelled():
        task.exception()


class Client:
    """Asks other machines, one GET at a time; made for many at once. Belongs to the event loop it is first used in."""

    def __init__(
        self, policy: AddressPolicy, names: Names | None = None, limits: Limits | None = None
    ) -> None:
        self._policy = policy
        self._names = names or system_names
        self._limits = limits or Limits()
        self._places = asyncio.Semaphore(self._limits.in_all)
        self._peers: dict[str, _Peer] = {}
        self._open: set[Connection] = set()
        self._tasks: set[asyncio.Task[object]] = set()
        self._closed = False
        self._held = Held()

    async def get(
        self,
        address: str,
        target: str,
        deadline: float,
        headers: Sequence[tuple[str, str]] = (),
        *,
        loop: str = LOOP_NAME,
    ) -> Reply:
        """Ask `address` ("host[:port]") for `target` ("/path?query") and return its whole answer, whatever its status.

        `deadline` is in seconds and covers everything: waiting for a place, the name, the connection, the last byte.
        `loop` is the header CDN-Loop, by which a resolver knows what another one has sent.
        Raises ForbiddenAddress, PeerSilent (NotAsked where no place was free), or PeerGarbled. A connection kept from
        before that the other side had closed meanwhile is replaced once.
        """
        if self._closed:
            raise PeerSilent("this client is closed")
        peer = self._peer(address)
        request = self._request(peer, target, headers, loop)
        peer.asking += 1
        begun = False
        try:
            async with asyncio.timeout(deadline), peer.places, self._places:
                begun = True
                return await self._ask(peer, request)
        except TimeoutError as error:
            if not begun:
                raise NotAsked("too many questions to it were waiting here") from error
            raise PeerSilent("no whole answer within {seconds:g} s", seconds=deadline) from error
        finally:
            peer.asking -= 1
            self._forget_if_unused(peer)

    def keep(self, task: asyncio.Task[object]) -> None:
        """Look after a task that asks through this client and that nobody waits for; `close` ends it."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End what is under way and every connection. Nothing may be asked afterwards."""
        self._closed = True
        lookups = [peer.lookup for peer in self._peers.values() if peer.lookup is not None]
        tasks = [*self._tasks, *lookups]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        gone = [connection.gone for connection in self._open]
        for connection in list(self._open):
            connection.abort()
        await asyncio.gather(*gone)

    # Peers and requests

    def _peer(self, address: str) -> _Peer:
        peer = self._peers.get(address)
        if peer is None:
            where = HostPort.parse(address)
            peer = _Peer(address, where, asyncio.Semaphore(self._limits.per_peer), _head(where))
            self._peers[address] = peer
        return peer

    def _forget_if_unused(self, peer: _Peer) -> None:
        if not peer.asking and not peer.idle and peer.lookup is None:
            self._peers.pop(peer.address, None)

    def _request(self, peer: _Peer, target: str, headers: Sequence[tuple[str, str]], loop: str) -> bytes:
        """The whole request. A fault in it is the caller's, so it is a ValueError."""
        if not _TARGET.fullmatch(target) or len(target) > self._limits.target:
            problem = "a target starts with '/' and has only visible ASCII characters, not too many"
            raise ValueError(problem)
        if not _VALUE.fullmatch(loop):
            problem = f"the header CDN-Loop cannot be {loop!r}"
            raise ValueError(problem)
        more = ""
        for name, value in headers:
            if not _TOKEN.fullmatch(name) or name.lower() in _OURS or not _VALUE.fullmatch(value):
                problem = f"the header {name!r} cannot be sent"
                raise ValueError(problem)
            more += f"{name}: {value}\r\n"
        return f"GET {target} HTTP/1.1\r\n{peer.head}CDN-Loop: {loop}\r\n{more}\r\n".encode("ascii")

    async def _ask(self, peer: _Peer, request: bytes) -> Reply:
        connection = self._take(peer)
        if connection is not None:
            try:
                return await self._exchange(peer, connection, request)
            except StaleConnection:
                pass  # closed between two requests; that is everyone's right
        connection = await self._connect(peer)
        try:
            return await self._exchange(peer, connection, request)
        except StaleConnection as error:
            raise PeerSilent("the connection was closed before the end of the answer") from error

    async def _exchange(self, peer: _Peer, connection: Connection, request: bytes) -> Reply:
        reply = await connection.exchange(request)
        if not connection.closed:
            connection.idle_since = asyncio.get_running_loop().time()
            peer.idle.append(connection)
        return reply

    # Connections

    def _take(self, peer: _Peer) -> Connection | None:
        """A connection at rest that may be used again, or None. What has rested too long is closed on the way."""
        oldest = asyncio.get_running_loop().time() - self._limits.kept
        while peer.idle and peer.idle[0].idle_since < oldest:
            peer.idle.popleft().abort()
        return peer.idle.pop() if peer.idle else None

    async def _connect(self, peer: _Peer) -> Connection:
        """A new connection to the first address of the peer that takes one, all of them judged beforehand."""
        places = await self._addresses(peer)
        for ip, _ in places:
            self._policy.check(ip)
        self._make_room()
        problem = "it has no address"
        for ip, port in places[: self._limits.addresses]:
            try:
                async with asyncio.timeout(self._limits.connect):
                    return await self._connect_to(peer, ip, port)
            except TimeoutError:
                problem = f"no connection within {self._limits.connect:g} s"
            except OSError as error:
                problem = error.strerror or type(error).__name__
        raise PeerSilent("{host} cannot be reached: {reason}", host=str(peer.where), reason=problem)

    async def _connect_to(self, peer: _Peer, ip: str, port: int) -> Connection:
        def lost(gone: Connection) -> None:
            self._open.discard(gone)
            if gone in peer.idle:
                peer.idle.remove(gone)
                self._forget_if_unused(peer)

        connection = Connection(ip, self._limits.head, self._limits.body, lost, self._held)
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: connection, ip, port)
        self._open.add(connection)
        if self._closed:
            connection.abort()
            raise PeerSilent("this client is closed")
        reached = transport.get_extra_info("peername")
        if reached is None:
            connection.abort()
            raise ConnectionResetError(ECONNRESET, "closed at once")
        if ip_address(reached[0]) != ip_address(ip):
            connection.abort()
            raise ForbiddenAddress("the connection to {ip} ended somewhere else", ip=ip)
        return connection

    async def _addresses(self, peer: _Peer) -> list[tuple[str, int]]:
        """Where the peer is: (IP, port) pairs.

        Several who ask at once share one look-up, and wait no longer than they may; so a name that never answers
        holds one look-up, not one for every reader.
        """
        if peer.where.ip is not None:
            return [(str(peer.where.ip), peer.where.port)]
        if peer.lookup is None:
            peer.lookup = asyncio.create_task(self._look_up(peer))
            peer.lookup.add_done_callback(_seen)
        lookup = peer.lookup
        try:
            return await asyncio.shield(lookup)
        except asyncio.CancelledError as error:
            if not self._closed or not lookup.cancelled():
                raise  # it is the caller who gives up
            raise PeerSilent("this client is closed") from error

    async def _look_up(self, peer: _Peer) -> list[tuple[str, int]]:
        try:
            return await self._names(peer.where.host, peer.where.port)
        except OSError as error:
            raise PeerSilent("the name {host} has no address", host=peer.where.host) from error
        finally:
            peer.lookup = None

    def _make_room(self) -> None:
        """Close the connection at rest that is nearest at hand when as many are open as may be."""
        if len(self._open) < self._limits.in_all:
            return
        for peer in self._peers.values():
            if peer.idle:
                peer.idle.popleft().abort()
                return


def _head(where: HostPort) -> str:
    """Every header that we send: whom we mean, and who we are."""
    lines = [
        f"Host: {where}",
        f"User-Agent: {_USER_AGENT}",
        "Accept: text/plain, */*;q=0.1",
        "Accept-Encoding: identity",
        "Connection: keep-alive",
    ]
    return "".join(f"{line}\r\n" for line in lines)


def _user_agent() -> str:
    try:
        return f"ibi/{version('ibi')}"
    except PackageNotFoundError:
        return "ibi"


_USER_AGENT = _user_agent()
