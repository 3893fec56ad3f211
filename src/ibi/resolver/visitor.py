"""Who asks, and how: one HTTP request as the resolver looks at it (RES-02). Nothing here is ever sent on but addresses.

The address list is what MSG-25 wants: the reader first, then the proxies, the address of the connection last
(AMB-54). Only the last one is vouched for; proxies that the operator trusts are left out (note 22).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, Final

from ibi.exchange import Asked
from ibi.limits import source_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from ipaddress import IPv4Network, IPv6Network

LONGEST_LIST: Final = 8
"""Addresses that are passed on; what stands further left in a longer list is dropped, it is not vouched for anyway."""
_LONGEST_ADDRESS: Final = 64  # characters; with a zone it may be longer, and means nothing here


@dataclass(frozen=True, slots=True)
class Visitor(Asked):
    """One request, and the addresses it came by: at least one, the reader first as far as it is known."""

    addresses: tuple[str, ...]

    @classmethod
    def of(cls, scope: Mapping[str, Any], trusted: Sequence[IPv4Network | IPv6Network] = ()) -> Visitor:
        """Read an ASGI scope. `trusted` are the networks of proxies that are believed."""
        asked = Asked.of(scope)
        peer = (scope.get("client") or ("127.0.0.1", 0))[0]
        addresses = client_addresses(peer, asked.header(b"x-forwarded-for"), trusted)
        return cls(asked.method, asked.path, asked.query, asked.headers, addresses)

    @property
    def source(self) -> str:
        """The last address that is vouched for: whom limits count against."""
        return self.addresses[-1]

    @property
    def origin(self) -> str:
        """What counts as one source."""
        return source_of(self.source)


def client_addresses(
    peer: str, forwarded: str, trusted: Sequence[IPv4Network | IPv6Network]
) -> tuple[str, ...]:
    """The list of addresses for MSG-25, from the address of the connection and the X-Forwarded-For header.

    Read from the right: what is no address ends the list there (a forged or unreadable claim vouches for nothing).
    """
    read: list[str] = []
    claims = [part.strip() for part in reversed(forwarded.split(","))] if forwarded else []
    for text in [peer, *claims]:
        ip = _address(text)
        if ip is None:
            if not read and text == peer:
                continue  # a Unix socket: there is no address of the connection
            break
        if not _in(ip, trusted):
            read.append(ip)
        if len(read) == LONGEST_LIST:
            break
    return tuple(reversed(read)) or (_address(peer) or "127.0.0.1",)


def _address(text: str) -> str | None:
    """An address in its canonical text; None for anything else, ports and zones included."""
    return _canonical(text) if len(text) <= _LONGEST_ADDRESS else None


@lru_cache(maxsize=1024)
def _canonical(text: str) -> str | None:
    try:
        ip = ip_address(text)
    except ValueError:
        return None
    if isinstance(ip, IPv6Address):
        if ip.scope_id is not None:
            return None
        ip = ip.ipv4_mapped or ip
    return str(ip)


def _in(text: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    if not networks:
        return False
    ip = ip_address(text)
    return any(ip.version == network.version and ip in network for network in networks)
