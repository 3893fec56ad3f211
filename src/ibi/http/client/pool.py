"""The connection pool: looks up names, judges addresses, and keeps connections to each destination open.

A name is looked up once, every address it has is judged, and the connection goes to the address that was judged, so
that no second look-up can lead somewhere else (DNS rebinding, threat T02). A name with one forbidden address is
forbidden altogether.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from errno import (
    EADDRNOTAVAIL,
    ECONNREFUSED,
    ECONNRESET,
    EHOSTUNREACH,
    EMFILE,
    ENETUNREACH,
    ENFILE,
    ENOBUFS,
    ENOMEM,
    ETIMEDOUT,
)
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from ibi.errors import ForbiddenAddress, IbiError, PeerSilent, PeerUnreachable, QueryNotSent
from ibi.http.client.address_policy import HTTP_PORT, HTTPS_PORT, HostPort
from ibi.http.client.connection import Connection
from ibi.http.client.request import USUAL, Destination, Slots, head_of
from ibi.http.client.response import SharedState
from ibi.protocol.pair_list import MAX_BODY

if TYPE_CHECKING:
    from ibi.http.client.address_policy import AddressPolicy, HostLookup
    from ibi.http.client.request import OutgoingRequest

HTTPS: Final = "https://"

_REASONS: Final = {
    ECONNREFUSED: IbiError("Connection refused"),
    ECONNRESET: IbiError("Connection reset by peer"),
    EHOSTUNREACH: IbiError("No route to host"),
    ENETUNREACH: IbiError("Network is unreachable"),
    ETIMEDOUT: IbiError("Connection timed out"),
}
"""What the system says most often, as sentences of ours, which are translated for administrators."""
# This machine lacks descriptors, memory or ports: clients can use these up, and no peer is to blame (T10: huge
# answers).
_OUR_LACK: Final = frozenset({EADDRNOTAVAIL, EMFILE, ENFILE, ENOBUFS, ENOMEM})


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What one client may use."""

    head: int = 16 * 1024
    """Bytes of the head of an answer (T10: huge answers)."""
    body: int = MAX_BODY
    """Bytes of the body of an answer, as of an Archive; more is refused while it comes (T10: huge answers)."""
    target: int = 64 * 1024
    """Bytes of a target (T10: huge answers)."""
    connect: float = 1.0
    """Seconds within which a connection must be made."""
    addresses: int = 4
    """Addresses of one name that are tried (T10: huge answers)."""
    per_peer: int = 32
    """Requests in flight to one address, and connections kept to it (T29: costly requests)."""
    silence: float = 0.5
    """Seconds of silence of an address with `per_peer` requests in flight, after which no further one waits for it."""
    in_all: int = 2_000
    """Requests in flight, and connections open (T29: costly requests)."""
    kept: float = 30.0
    """Seconds without use after which a connection is not used again (T34: mixed-up answers)."""


class ConnectionPool:
    """The connection pool of one client: its destinations, as long as they are needed, and all open connections."""

    def __init__(self, policy: AddressPolicy, host_lookup: HostLookup, limits: ClientLimits) -> None:
        self._policy = policy
        self._host_lookup = host_lookup
        self._limits = limits
        self._shared = SharedState()
        self._known: dict[str, Destination] = {}
        self.find = self._known.get
        """Returns the destination at an address; None if it is not known yet."""
        self._closed = False
        self._context: ssl.SSLContext | None = None
        self.open: set[Connection] = set()

    def at(self, address: str) -> Destination:
        """Return the destination at an address, "host[:port]" or "https://host[:port]".

        Raises ForbiddenAddress for any other text.
        """
        destination = self._known.get(address)
        if destination is None:
            secure = address.startswith(HTTPS)
            where = HostPort.parse(address.removeprefix(HTTPS), HTTPS_PORT if secure else HTTP_PORT)
            head = head_of(where)
            slots = Slots(self._limits.per_peer)
            destination = Destination(address, where, slots, head, head + USUAL, secure=secure)
            self._known[address] = destination
        return destination

    def forget_if_unused(self, destination: Destination) -> None:
        """Drop a destination without requests and connections, so that not every registered address stays."""
        if not destination.slots.taken and not destination.idle and destination.lookup is None:
            self._known.pop(destination.address, None)

    def end(self) -> tuple[list[OutgoingRequest], list[asyncio.Task[list[tuple[str, int]]]]]:
        """Make no further connection; return the requests that wait for a slot, and the look-ups in flight."""
        self._closed = True
        known = self._known.values()
        lookups = [destination.lookup for destination in known if destination.lookup is not None]
        return [outgoing for destination in known for outgoing in destination.slots.waiting], lookups

    async def close_connections(self) -> None:
        """End every connection."""
        gone = [connection.gone for connection in self.open]
        for connection in list(self.open):
            connection.abort()
        await asyncio.gather(*gone)

    # Connections

    async def connect(self, destination: Destination) -> Connection:
        """Judge all addresses of a destination, then connect to the first one that accepts a connection."""
        addresses = await self._addresses(destination)
        for ip, _ in addresses:
            self._policy.check(ip, "" if destination.where.ip else destination.where.host)
        self._make_space()
        problem: IbiError | str = IbiError("it has no address")
        for ip, port in addresses[: self._limits.addresses]:
            try:
                async with asyncio.timeout(self._limits.connect):
                    return await self._connect_to(destination, ip, port)
            except TimeoutError as error:  # at our limit, or the system has given up before
                late = IbiError("no connection within {seconds:g} s", seconds=self._limits.connect)
                problem = _REASONS.get(error.errno or 0, late)
            except OSError as error:
                problem = getattr(error, "verify_message", "") or error.strerror or type(error).__name__
                problem = _REASONS.get(error.errno or 0, problem)
                if error.errno in _OUR_LACK:
                    raise QueryNotSent("no connection can be made here: {reason}", reason=problem) from error
        raise PeerUnreachable(
            "{host} cannot be reached: {reason}", host=str(destination.where), reason=problem
        )

    async def _connect_to(self, destination: Destination, ip: str, port: int) -> Connection:
        def lost(gone: Connection) -> None:
            self.open.discard(gone)
            if gone in destination.idle:
                destination.idle.remove(gone)
                self.forget_if_unused(destination)

        connection = Connection(ip, (self._limits.head, self._limits.body), lost, self._shared)
        tls, name = (self._tls(), destination.where.host) if destination.secure else (None, None)
        connecting = asyncio.get_running_loop().create_connection(
            lambda: connection, ip, port, ssl=tls, server_hostname=name
        )
        transport, _ = await connecting
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

    async def _addresses(self, destination: Destination) -> list[tuple[str, int]]:
        """Return the addresses of a destination: (IP, port) pairs.

        Requests at the same time share one look-up, and wait no longer than their deadlines. So a name server
        that never answers holds up one look-up, not one for every reader.
        """
        if destination.where.ip is not None:
            return [(str(destination.where.ip), destination.where.port)]
        if destination.lookup is None:
            destination.lookup = asyncio.create_task(self._look_up(destination))
            # Retrieve the exception, or asyncio logs it if nothing awaits the look-up any more.
            destination.lookup.add_done_callback(lambda task: task.cancelled() or task.exception())
        lookup = destination.lookup
        try:
            return await asyncio.shield(lookup)
        except asyncio.CancelledError as error:
            if not self._closed or not lookup.cancelled():
                raise  # the caller gives up
            raise PeerSilent("this client is closed") from error

    async def _look_up(self, destination: Destination) -> list[tuple[str, int]]:
        try:
            return await self._host_lookup(destination.where.host, destination.where.port)
        except OSError as error:
            raise PeerUnreachable("the name {host} has no address", host=destination.where.host) from error
        finally:
            destination.lookup = None
            self.forget_if_unused(destination)

    def _tls(self) -> ssl.SSLContext:
        """Return what checks the certificates of peers, by the authorities of this machine (or SSL_CERT_FILE)."""
        if self._context is None:
            self._context = ssl.create_default_context()
        return self._context

    def _make_space(self) -> None:
        """Close one idle connection if the limit of open connections is reached."""
        if len(self.open) < self._limits.in_all:
            return
        for destination in self._known.values():
            if destination.idle:
                destination.idle.popleft().abort()
                return
