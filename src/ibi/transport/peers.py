"""Peers and the connections to them: names looked up, addresses judged, what stands kept warm.

A name is looked up once, every address it has is judged, and the connection goes to the address that was judged:
between the look and the step nobody can move the door (DNS rebinding). A name with one forbidden address is
forbidden altogether.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from errno import ECONNRESET
from ipaddress import ip_address
from typing import TYPE_CHECKING, Generic, TypeVar

from ibi.errors import ForbiddenAddress, PeerSilent
from ibi.transport.address import HostPort
from ibi.transport.connection import Common, Connection
from ibi.transport.crowd import Crowd
from ibi.transport.request import USUAL, head_of

if TYPE_CHECKING:
    from ibi.transport.address import AddressPolicy

_Who = TypeVar("_Who")

Names = Callable[[str, int], Awaitable[list[tuple[str, int]]]]


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, times in seconds, counts of requests or connections."""

    head: int = 16 * 1024
    body: int = 256 * 1024
    target: int = 64 * 1024
    connect: float = 1.0
    addresses: int = 4  # of one name that are tried
    per_peer: int = 32  # requests in flight to one address, and connections kept to it
    patience: float = (
        0.5  # as many are in flight, and nothing was heard for so long: nobody else need wait for it
    )
    in_all: int = 2_000  # requests in flight, and connections open
    kept: float = 30.0  # a connection older than this in idleness is not used again


@dataclass(slots=True, eq=False)
class Peer(Generic[_Who]):
    """Everything known of one address: its connections at rest (the freshest last) and who asks it."""

    address: str
    where: HostPort
    crowd: Crowd[_Who]
    head: bytes
    usual: bytes
    """All that stands after the target, where a request has no headers of its own."""
    heard: float = 0.0  # when it answered last, or was asked while nothing was in flight
    idle: deque[Connection] = field(default_factory=deque)
    lookup: asyncio.Task[list[tuple[str, int]]] | None = None


def _seen(task: asyncio.Task[list[tuple[str, int]]]) -> None:
    """Everybody who asked for this may have given up; what came of it is then nobody's surprise."""
    if not task.cancelled():
        task.exception()


class Peers(Generic[_Who]):
    """The peers of one client that are asked or have connections, and all connections that are open."""

    def __init__(self, policy: AddressPolicy, names: Names, limits: Limits) -> None:
        self._policy = policy
        self._names = names
        self._limits = limits
        self._common = Common()
        self._known: dict[str, Peer[_Who]] = {}
        self.find = self._known.get
        """The one at an address, if it is known already."""
        self._closed = False
        self.open: set[Connection] = set()

    def at(self, address: str) -> Peer[_Who]:
        """The one at an address, "host[:port]". Raises ForbiddenAddress for what is none."""
        peer = self._known.get(address)
        if peer is None:
            where = HostPort.parse(address)
            head = head_of(where)
            peer = Peer(address, where, Crowd[_Who](self._limits.per_peer), head, head + USUAL)
            self._known[address] = peer
        return peer

    def forget_if_unused(self, peer: Peer[_Who]) -> None:
        """Nothing need be known of one that nobody asks and that has no connection."""
        if not peer.crowd.taken and not peer.idle and peer.lookup is None:
            self._known.pop(peer.address, None)

    def end(self) -> tuple[list[_Who], list[asyncio.Task[list[tuple[str, int]]]]]:
        """No connection is made any more; who waits for a place at a peer, and the names that are looked up."""
        self._closed = True
        known = self._known.values()
        lookups = [peer.lookup for peer in known if peer.lookup is not None]
        return [errand for peer in known for errand in peer.crowd.waiting], lookups

    async def hang_up(self) -> None:
        """End every connection."""
        gone = [connection.gone for connection in self.open]
        for connection in list(self.open):
            connection.abort()
        await asyncio.gather(*gone)

    # Connections

    async def connect(self, peer: Peer[_Who]) -> Connection:
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

    async def _connect_to(self, peer: Peer[_Who], ip: str, port: int) -> Connection:
        def lost(gone: Connection) -> None:
            self.open.discard(gone)
            if gone in peer.idle:
                peer.idle.remove(gone)
                self.forget_if_unused(peer)

        connection = Connection(ip, (self._limits.head, self._limits.body), lost, self._common)
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: connection, ip, port)
        self.open.add(connection)
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

    async def _addresses(self, peer: Peer[_Who]) -> list[tuple[str, int]]:
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

    async def _look_up(self, peer: Peer[_Who]) -> list[tuple[str, int]]:
        try:
            return await self._names(peer.where.host, peer.where.port)
        except OSError as error:
            raise PeerSilent("the name {host} has no address", host=peer.where.host) from error
        finally:
            peer.lookup = None
            self.forget_if_unused(peer)

    def _make_room(self) -> None:
        """Close the connection at rest that is nearest at hand when as many are open as may be."""
        if len(self.open) < self._limits.in_all:
            return
        for peer in self._known.values():
            if peer.idle:
                peer.idle.popleft().abort()
                return
