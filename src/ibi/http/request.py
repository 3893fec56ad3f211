"""One HTTP request as it came, raw: nothing is decoded before it was parsed by a grammar (T27: two readings).

The list of addresses is that of MSG-25: the reader first, then proxies (AMB-54: which address counts). Proxies that
the operator trusts are left out (note 22: proxies are left out). Only the last address is vouched for: it is that of
the connection, or of what connected to a trusted proxy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Literal

from ibi.errors import ParseError
from ibi.http.accept import media_ranges
from ibi.http.client_address import list_addresses, networks_of, trusted_address
from ibi.http.limits.token_bucket import client_key
from ibi.protocol import vocabulary as words
from ibi.protocol.query_string import read_query

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ibi.http.client_address import IPNetwork

Form = Literal["html", "json", "text"]


class ClientGone(Exception):
    """The client went away before its request was complete."""


_LONGEST_CACHED: Final = 256  # characters of a list of addresses
_addresses = lru_cache(maxsize=1024)(list_addresses)


# Never changed, but not frozen: that costs 0.7 us for each request and for each `response.Response`.
@dataclass(slots=True)
class Request:
    """One request. `path` and `query` are raw, one character for each byte; nothing is decoded yet (T27: two readings).

    `addresses`: those that it came by, the reader first if known; empty unless `of` was given `trusted`.
    `peer`: the address at the other end of the connection, "" for none; `secure`: whether by https.
    """

    method: str
    path: str
    query: str
    headers: Mapping[bytes, bytes]
    addresses: tuple[str, ...] = ()
    peer: str = ""
    secure: bool = False

    @classmethod
    def of(cls, scope: Mapping[str, Any], trusted: tuple[IPNetwork, ...] | None = None) -> Request:
        """Read an ASGI scope. `trusted`: the networks of trusted proxies; None: read no addresses."""
        headers = joined_headers(scope["headers"])
        peer = (scope.get("client") or ("",))[0]
        addresses: tuple[str, ...] = ()
        if trusted is not None:
            forwarded = headers.get(b"x-forwarded-for", b"").decode("latin-1")
            # Most requests have the same few addresses. Long lists are not cached: a client can vary them.
            read = _addresses if len(forwarded) <= _LONGEST_CACHED else list_addresses
            addresses = read(peer or "127.0.0.1", forwarded, trusted)
        return cls(
            scope["method"],
            scope["raw_path"].partition(b"?")[0].decode("latin-1"),
            scope["query_string"].decode("latin-1"),
            headers,
            addresses,
            peer,
            scope.get("scheme") == "https",
        )

    @classmethod
    def raw(cls, target: bytes, headers: Iterable[tuple[bytes, bytes]], peer: str) -> Request:
        """Make a request of a raw GET: `target` begins with a slash, header names are in lower case."""
        path, _, query = target.decode("latin-1").partition("?")
        return cls("GET", path, query, joined_headers(headers), peer=peer)

    @property
    def target(self) -> str:
        """Path and query as received."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def client_address(self) -> str:
        """The last address that is vouched for, or that of the connection where no addresses were read."""
        return self.addresses[-1] if self.addresses else self.peer

    @property
    def client_key(self) -> str:
        """The key of the client that `client_address` belongs to; limits count against it."""
        return client_key(self.addresses[-1] if self.addresses else self.peer)

    @property
    def reads(self) -> bool:
        """Whether the method only reads."""
        return self.method in {"GET", "HEAD"}

    @property
    def only_prefetched(self) -> bool:
        """Whether a browser prefetches a page that its reader has not asked for (T38: prefetching)."""
        purposes = self.headers.get(b"purpose", b"") + self.headers.get(b"sec-purpose", b"")
        return b"prefetch" in purposes.lower()

    @property
    def has_subject(self) -> bool:
        """Whether this is a message to a service (its query names a subject); true if it cannot be read."""
        if words.SERVICE_SUBJECT not in self.query:
            return False
        try:
            return any(name == words.SERVICE_SUBJECT for name, _ in read_query(self.query))
        except ParseError:
            return True

    @property
    def form(self) -> Form:
        """The form of the answer, by Accept: JSON if preferred to HTML, HTML if accepted, else text."""
        best = {each.type: each.quality for each in media_ranges(self.header(b"accept"))}
        html = max(best.get("text/html", 0.0), best.get("application/xhtml+xml", 0.0))
        json = max(best.get("application/problem+json", 0.0), best.get("application/json", 0.0))
        if json > html:
            return "json"
        return "html" if html else "text"

    def header(self, name: bytes) -> str:
        """Return a header by its lower-case name, "" if it was not sent."""
        return self.headers.get(name, b"").decode("latin-1")

    def trusted_address(self, proxies: tuple[str, ...]) -> str | None:
        """Return the last address that is vouched for (`trusted_address`); None if none is."""
        return trusted_address(self.peer, self.header(b"x-forwarded-for"), networks_of(proxies))

    def names(self, hosts: frozenset[str]) -> bool:
        """Whether Host may name us (T26): one of `hosts`, or an IP or word, which no site owns in DNS."""
        host = self.headers.get(b"host", b"").decode("latin-1")
        if host in hosts:  # spelled exactly so by most clients
            return True
        host = host_of(host)
        if host in hosts or "." not in host:
            return True
        try:
            ip_address(host)
        except ValueError:
            return False
        return True


def host_of(address: str) -> str:
    """Return the host of "host[:port]" in lower case, without brackets and final dot."""
    host = address.lower()
    host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return host.removesuffix(".")


def hosts_of(addresses: Iterable[str]) -> frozenset[str]:
    """Return the hosts of several addresses, and the addresses themselves, as most requests spell them."""
    spelled = tuple(addresses)
    return frozenset((*map(host_of, spelled), *map(str.lower, spelled)))


async def read_body(receive: Callable[[], Awaitable[Any]], longest: int) -> bytes | None:
    """Read the body of a request; None if it is longer than `longest` bytes. Raises ClientGone."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > longest:
            return None
    return bytes(body)


def target_of(scope: Mapping[str, Any]) -> bytes:
    """Return the target of a request: its raw path, and its query behind "?"."""
    path: bytes = scope["raw_path"]
    query = scope["query_string"]
    return path + b"?" + query if query else path


def joined_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return headers by name (lower case, as they come); the values of a repeated one joined by commas."""
    joined: dict[bytes, bytes] = {}
    for name, value in headers:
        joined[name] = joined[name] + b"," + value if name in joined else value
    return joined
