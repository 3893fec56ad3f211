"""The address of a service as text, and the addresses that must never be contacted.

An Archive names its own address (MSG-20: the eight pairs), so the holder of a registration key could direct the
resolver to machines of the resolver's own network. Two tables judge every address, literal or resolved, at every
connection: that of `ssrfguard` and the one below. Neither is trusted alone. See T01: private addresses; T02: changing
addresses.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ssrfguard import Policy, SSRFGuardError

from ibi.errors import ForbiddenAddress, IbiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    HostLookup = Callable[[str, int], Awaitable[list[tuple[str, int]]]]
    """Looks up the addresses and ports of a host. Raises OSError where there are none."""


IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_LONGEST_HOST = 253  # characters of a host name
_HIGHEST_PORT = 65_535
HTTP_PORT, HTTPS_PORT = 80, 443

# hostport of RFC 2396, 3.2.2: the last label starts with a letter, so that no spelling of a number ("127.1",
# "0x7f.1", "2130706433") can pass as a name. A final dot, which that grammar allows, means the same name.
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)*[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?\.?", re.ASCII)
_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_NUMBERS = re.compile(r"[0-9.]+", re.ASCII)

# Ports where something other than a Web server listens: browsers' own list, then databases, queues and control
# planes, which would take a request for commands or give away what they hold.
_BAD_PORTS = frozenset(
    int(port)
    for port in (
        "1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117"
        " 119 123 135 137 138 139 143 161 179 389 427 445 465 512 513 514 515 526 530 531 532 540 548 554 556 563"
        " 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668"
        " 6669 6679 6697 10080"
        " 1433 1434 1521 2181 2375 2376 2379 2380 3306 3389 5432 5672 5984 6379 6380 6432 9042 9092 9200 9300 10250"
        " 10255 11211 15672 16379 26257 26379 27017 27018 27019 28015 33060"
    ).split()
)


def _networks(*texts: str) -> tuple[IPNetwork, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


# `allow_private` admits these: this machine and the networks of an organisation. Addresses that no Archive
# can have stay refused: link-local ones (the metadata services of clouds), multicast, "this network".
_PRIVATE = _networks(
    "127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "::1/128", "fc00::/7"
)

# Networks that `is_global` of older Pythons wrongly calls global, or whose addresses contain another address.
_REFUSED = _networks(
    "0.0.0.0/8",
    "192.0.0.0/24",
    "192.88.99.0/24",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
    "5f00::/16",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LOW_WORD = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class HostPort:
    """The address of a service, `hostport` of RFC 2396: "mtc-m16c.sid.inpe.br", "192.0.2.7:8080", "[::1]:80".

    `host` is in lower case, without brackets and final dot; `ip` is the literal address, or None for a name. See
    MSG-03: an Archive's address.
    """

    host: str
    port: int
    ip: IPAddress | None

    @classmethod
    def parse(cls, text: str, usual: int = HTTP_PORT) -> HostPort:
        """Read `host[:port]`; the port is the `usual` one when absent.

        Raises ForbiddenAddress for anything else (user information, percent signs, letters outside ASCII, numbers
        spelled in other ways, zone identifiers) and for ports that belong to other services.
        """
        if not text.isascii():
            raise ForbiddenAddress("the address {address!r} has characters outside ASCII", address=text)
        host, colon, port = _split(text.lower())
        if colon and not (_PORT.fullmatch(port) and int(port) <= _HIGHEST_PORT):
            raise ForbiddenAddress("the address {address!r} has no valid port after the colon", address=text)
        number = int(port) if colon else usual
        if number in _BAD_PORTS:
            raise ForbiddenAddress("port {port} belongs to another kind of service", port=number)
        ip = _literal(host)
        if ip is None and not (len(host) <= _LONGEST_HOST and _NAME.fullmatch(host)):
            raise ForbiddenAddress(
                "the address {address!r} is not a host with an optional port", address=text
            )
        return cls(host.strip("[]").removesuffix("."), number, ip)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == HTTP_PORT else f"{host}:{self.port}"


def _split(text: str) -> tuple[str, str, str]:
    """Split "[::1]:80" into the host with its brackets, the colon if any, and the port."""
    if text.startswith("["):
        inside, bracket, rest = text.partition("]")
        return inside + bracket, rest[:1], rest[1:]
    return text.partition(":")


def _literal(host: str) -> IPAddress | None:
    try:
        if host.startswith("[") and host.endswith("]") and "%" not in host:
            return ipaddress.IPv6Address(host[1:-1])
        return ipaddress.IPv4Address(host) if _NUMBERS.fullmatch(host) else None
    except ValueError:
        return None


class AddressPolicy:
    """Which addresses may be contacted at all.

    `allow_private`: also this machine and private networks (an operator's own decision, and `ibi up`).
    `public`: networks that are allowed whatever the tables say (tests declare a part of 127.0.0.0/8).
    """

    def __init__(self, *, allow_private: bool = False, public: Sequence[IPNetwork] = ()) -> None:
        self.allow_private = allow_private
        self._open = (*public, *(_PRIVATE if allow_private else ()))
        self._guard = Policy()
        self._verdict = lru_cache(maxsize=4096)(self._judge)

    def check(self, ip: str, name: str = "") -> None:
        """Return if `ip` (an address as text, no brackets) may be contacted; raise ForbiddenAddress if not.

        `name`: the host name that leads there, if one was given; the error then does not contain the address.
        """
        reason = self._verdict(ip)
        # The error may reach a stranger, who must not learn addresses in our own network (T01: private addresses).
        if reason is not None and name:
            raise ForbiddenAddress("{name} leads to an address that must not be contacted", name=name)
        if reason is not None:
            raise ForbiddenAddress("the address {ip} must not be contacted: {reason}", ip=ip, reason=reason)

    def _judge(self, text: str) -> IbiError | None:
        try:
            ip = _carried(ipaddress.ip_address(text))
        except ValueError:
            return IbiError("it is not an IP address")
        if _within(ip, self._open):
            return None
        if _within(ip, _REFUSED):
            return IbiError("it is reserved, or hides another address")
        if not ip.is_global or ip.is_multicast:
            return IbiError("it is not public")
        try:
            self._guard.check_address(ip)
        except SSRFGuardError as refusal:
            return IbiError("it is not public: {reason}", reason=refusal)
        return None


def _within(ip: IPAddress, networks: Sequence[IPNetwork]) -> bool:
    return any(ip in network for network in networks)


def _carried(ip: IPAddress) -> IPAddress:
    """Return the IPv4 address inside an IPv4-mapped or NAT64 address; any other address as it is.

    Raises ValueError for an address bound to one network interface ("fe80::1%eth0"): it means nothing elsewhere.
    """
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip.scope_id is not None:
        raise ValueError
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    return ipaddress.IPv4Address(int(ip) & _LOW_WORD) if ip in _NAT64 else ip


async def system_lookup(host: str, port: int) -> list[tuple[str, int]]:
    """Look up the addresses of a host with the resolver of this machine. Raises OSError when there are none."""
    answer: Future[list[tuple[str, int]]] = Future()
    answer.set_running_or_notify_cancel()  # so that the thread ends without an error if its caller gives up

    def look() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
            answer.set_result(list(dict.fromkeys((str(place[0]), int(place[1])) for *_, place in found)))
        except (OSError, UnicodeError) as error:
            answer.set_exception(error if isinstance(error, OSError) else OSError(str(error)))

    # A daemon thread for each look-up: in a pool, a name server that never answers would hold up every other
    # name, and the end of the process.
    threading.Thread(target=look, name=f"name {host}", daemon=True).start()
    return await asyncio.wrap_future(answer)
