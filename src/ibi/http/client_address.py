"""Finds a client's address in X-Forwarded-For, for limits, restricted items and the list of MSG-25 (pure).

    X-Forwarded-For: 203.0.113.7, 198.51.100.1:4711, 10.0.0.2        read from the right

    10.0.0.2        a trusted proxy: skipped
    198.51.100.1    the machine that connected to that proxy: this is the client
    203.0.113.7     what that machine wrote into the header: not believed

Proxies are trusted that `ibi resolver serve` and `ibi archive serve` name with `--trusted-proxy`, and an Archive in its
setting `trusted_proxies`; by default none. If no address is vouched for, `list_addresses` falls back to that of the
connection, and `trusted_address` returns None: such a client may not read restricted items.
The client is the last address that belongs to no trusted proxy: the connection, or such a proxy, vouches for it.
The client itself may have written any address further left. So these open no restricted item, and allow nothing more
(AMB-54, threat T24, decision 0027); they are only passed on.

Nothing else parses the header.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

IPNetwork = IPv4Network | IPv6Network

MOST_ADDRESSES: Final = 8
"""Addresses of one list. Of a longer list the leftmost are dropped, which nothing vouches for."""
_LONGEST_ADDRESS: Final = 64  # characters; the longest address, with brackets and a port, has 53

# An address with the port of a connection, or an IPv6 address in brackets, as some proxies write them.
_WITH_PORT: Final = re.compile(
    r"\[([0-9A-Fa-f:.]{2,45})\](?::[0-9]{1,5})?|([0-9.]{7,15}):[0-9]{1,5}", re.ASCII
)


def read_addresses(peer: str, forwarded: str, proxies: Sequence[IPNetwork]) -> tuple[str, ...]:
    """Return the addresses that a request came by, the vouched one last, without those of trusted proxies.

    `peer` is the address of the connection. The list is empty if no address is vouched for: the connection has none
    that can be read (a Unix socket), or the trusted proxies name none. See note 22: proxies are left out.
    """
    found: list[str] = []
    for text in (peer, *reversed(forwarded.split(","))) if forwarded else (peer,):
        address = _entry(text)
        if address is None:
            break  # an entry that cannot be read vouches for no entry left of it
        if not _within(address, proxies):
            found.append(str(address))
            if len(found) == MOST_ADDRESSES:
                break
    return tuple(reversed(found))


def trusted_address(peer: str, forwarded: str, proxies: Sequence[IPNetwork]) -> str | None:
    """Return the address that a request came from, if one is vouched for; else None."""
    addresses = read_addresses(peer, forwarded, proxies)
    return addresses[-1] if addresses else None


def is_readable(forwarded: str) -> bool:
    """Whether each entry of X-Forwarded-For is an address; true also without the header."""
    return not forwarded or all(_entry(text) is not None for text in forwarded.split(","))


def hides_client(peer: str, forwarded: str, proxies: Sequence[IPNetwork]) -> bool:
    """Whether the trusted proxies name no client because one of them, wrongly configured, wrote no address.

    All clients behind that proxy then count as one, which cannot be seen from outside.
    """
    if is_readable(forwarded) or read_addresses(peer, forwarded, proxies):
        return False
    return is_trusted(peer, proxies)


def list_addresses(peer: str, forwarded: str, proxies: Sequence[IPNetwork]) -> tuple[str, ...]:
    """Return the list of MSG-25: as `read_addresses`, but never empty, since a message must have an address.

    If no address is vouched for, the list has that of the connection; limits then count all requests by such
    a proxy as one client.
    """
    own = _address(peer.partition("%")[0])
    return read_addresses(peer, forwarded, proxies) or (str(own) if own else "127.0.0.1",)


def check_networks(texts: Iterable[str]) -> tuple[str, ...]:
    """Return networks such as "10.0.0.0/8" or "::1" unchanged. Raises SetupError for any other text."""
    checked = tuple(texts)
    for text in checked:
        try:
            ip_network(text, strict=False)
        except ValueError as error:
            raise SetupError("{text} is no address or network: {reason}", text=text, reason=error) from None
    return checked


@lru_cache(maxsize=64)
def networks_of(texts: tuple[str, ...]) -> tuple[IPNetwork, ...]:
    """Read networks that `check_networks` has checked."""
    return tuple(ip_network(text, strict=False) for text in texts)


def in_networks(address: str | None, texts: tuple[str, ...]) -> bool:
    """Whether an address lies in one of these networks; False for a text that is no address."""
    if not texts or address is None:
        return False
    found = _address(address)
    return found is not None and _within(found, networks_of(texts))


def is_trusted(peer: str, proxies: Sequence[IPNetwork]) -> bool:
    """Whether a connection comes from a trusted proxy."""
    own = _address(peer)
    return own is not None and _within(own, proxies)


def canonical_address(text: str) -> str | None:
    """Return an address in its canonical notation; None for a text that is no address."""
    address = _address(text)
    return str(address) if address else None


def is_loopback(host: str) -> bool:
    """Whether a text names this very machine."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


# The same few proxies and readers come again and again: to parse an address costs 2 us, from the cache 0.1.
@lru_cache(maxsize=1024)
def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address, an IPv4-mapped one as IPv4; None for any other text, and for one with a zone."""
    if len(text) > _LONGEST_ADDRESS:
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return None if address.scope_id is not None else address.ipv4_mapped or address
    return address


def _entry(text: str) -> IPv4Address | IPv6Address | None:
    """Read an entry of the header, without the brackets and the port that some proxies write."""
    text = text.strip()
    match = _WITH_PORT.fullmatch(text)
    return _address((match[1] or match[2]) if match else text)


def _within(address: IPv4Address | IPv6Address, networks: Sequence[IPNetwork]) -> bool:
    return any(address in network for network in networks)
