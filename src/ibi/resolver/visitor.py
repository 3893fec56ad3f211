"""Who asks, and how: one HTTP request as the resolver looks at it (RES-02). Nothing here is ever sent on but addresses.

The address list is what MSG-25 wants: the reader first, then the proxies, the address of the connection last
(AMB-54). Only the last one is vouched for; proxies that the operator trusts are left out (SETTLED 22).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from ipaddress import IPv4Network, IPv6Network

LONGEST_LIST: Final = 8
"""Addresses that are passed on; what stands further left in a longer list is dropped, it is not vouched for anyway."""

Form = Literal["html", "json", "text"]

_QUALITY = re.compile(r"\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Visitor:
    """One request. `path` and `query` are raw, as received, one character for each byte."""

    method: str
    path: str
    query: str
    host: str
    """The Host header in lower case, "" if there is none."""
    headers: Mapping[bytes, bytes]
    addresses: tuple[str, ...]
    """At least one; the reader first as far as it is known."""

    @classmethod
    def of(cls, scope: Mapping[str, Any], trusted: Sequence[IPv4Network | IPv6Network] = ()) -> Visitor:
        """Read an ASGI scope. `trusted` are the networks of proxies that are believed."""
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            headers[name] = headers[name] + b"," + value if name in headers else value
        peer = (scope.get("client") or ("127.0.0.1", 0))[0]
        return cls(
            method=scope["method"],
            path=scope["raw_path"].decode("latin-1"),
            query=scope["query_string"].decode("latin-1"),
            host=headers.get(b"host", b"").decode("latin-1").lower(),
            headers=headers,
            addresses=client_addresses(peer, headers.get(b"x-forwarded-for", b"").decode("latin-1"), trusted),
        )

    @property
    def source(self) -> str:
        """The last address that is vouched for: whom limits count against."""
        return self.addresses[-1]

    @property
    def reads(self) -> bool:
        """Whether the method is one that only reads."""
        return self.method in {"GET", "HEAD"}

    def header(self, name: bytes) -> str:
        """A header as text, "" if it was not sent."""
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def form(self) -> Form:
        """What the answer to a person or program should look like: HTML for browsers, JSON where it is accepted."""
        best: dict[str, float] = {}
        for part in self.header(b"accept").split(","):
            kind, _, rest = part.partition(";")
            match = next((m for m in map(_QUALITY.fullmatch, rest.split(";")) if m), None)
            best[kind.strip().lower()] = float(match[1]) if match else 1.0
        html = best.get("text/html", 0.0)
        json = max(best.get("application/problem+json", 0.0), best.get("application/json", 0.0))
        if json > html:
            return "json"
        return "html" if html else "text"


def client_addresses(
    peer: str, forwarded: str, trusted: Sequence[IPv4Network | IPv6Network]
) -> tuple[str, ...]:
    """The list of addresses for MSG-25, from the address of the connection and the X-Forwarded-For header.

    Read from the right: what is no address ends the list there (a forged or unreadable claim vouches for nothing).
    """
    read: list[str] = []
    for text in [peer, *(part.strip() for part in reversed(forwarded.split(",")))]:
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
    ip = ip_address(text)
    return any(ip.version == network.version and ip in network for network in networks)
