"""What is asked over HTTP and what goes back: the small change of ASGI that both services use (floor 3).

Requests are looked at raw; every header value that goes out is made visible ASCII first (threat T12).
"""

from __future__ import annotations

import asyncio
import io
import re
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

from ibi.errors import ParseError
from ibi.protocol import vocabulary as words
from ibi.protocol.query_string import read_query

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"
PAIRS: Final = "text/plain"
PLAIN: Final = "text/plain; charset=utf-8"
PROBLEM: Final = "application/problem+json"

Form = Literal["html", "json", "text"]
Headers = tuple[tuple[str, str], ...]

NO_STORE: Final[Headers] = (("cache-control", "no-store"),)

_ALWAYS: Final[Headers] = (("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"))
_NEVER_KEPT: Final[Headers] = (*NO_STORE, ("x-robots-tag", "noindex, nofollow"))
_CHUNK: Final = 256 * 1024
_QUALITY = re.compile(r"\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `path` and `query` are raw, one character for each byte; nothing is decoded yet (threat T27)."""

    method: str
    path: str
    query: str
    headers: Mapping[bytes, bytes]

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> Asked:
        """Read an ASGI scope; a header that came several times is one list."""
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            headers[name] = headers[name] + b"," + value if name in headers else value
        return cls(
            scope["method"],
            scope["raw_path"].partition(b"?")[0].decode("latin-1"),
            scope["query_string"].decode("latin-1"),
            headers,
        )

    @property
    def target(self) -> str:
        """Path and query as received."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def reads(self) -> bool:
        """Whether the method is one that only reads."""
        return self.method in {"GET", "HEAD"}

    @property
    def only_prefetched(self) -> bool:
        """Whether a browser is only guessing what its reader may want next (threat T38)."""
        return "prefetch" in (self.header(b"purpose") + self.header(b"sec-purpose")).lower()

    @property
    def has_subject(self) -> bool:
        """Whether this is a request to a service; a query that cannot be read counts as one."""
        if words.SERVICE_SUBJECT not in self.query:
            return False
        try:
            return any(name == words.SERVICE_SUBJECT for name, _ in read_query(self.query))
        except ParseError:
            return True

    @property
    def form(self) -> Form:
        """What an answer to a person or program should look like: HTML for browsers, JSON where it is accepted."""
        best: dict[str, float] = {}
        for part in self.header(b"accept").split(","):
            kind, _, rest = part.partition(";")
            match = next((m for m in map(_QUALITY.fullmatch, rest.split(";")) if m), None)
            best[kind.strip().lower()] = float(match[1]) if match else 1.0
        html = max(best.get("text/html", 0.0), best.get("application/xhtml+xml", 0.0))
        json = max(best.get("application/problem+json", 0.0), best.get("application/json", 0.0))
        if json > html:
            return "json"
        return "html" if html else "text"

    def header(self, name: bytes) -> str:
        """A header by its lower-case name, "" if it was not sent."""
        return self.headers.get(name, b"").decode("latin-1")

    def names(self, hosts: frozenset[str]) -> bool:
        """Whether the Host header may name us (threat T26). Numbers and names without a dot belong to no stranger."""
        host = host_of(self.header(b"host"))
        if host in hosts or "." not in host:
            return True
        try:
            ip_address(host)
        except ValueError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Response:
    """One answer; its body is bytes, or an open file of a known size, which is closed after sending.

    `afterwards` is called once it has gone out. Of headers set twice, the first counts; links add up.
    """

    status: int
    body: bytes = b""
    content_type: str = ""
    headers: Headers = ()
    file: BinaryIO | None = field(default=None, repr=False)
    size: int = 0
    afterwards: Callable[[], None] | None = field(default=None, repr=False)

    def having(self, *headers: tuple[str, str]) -> Response:
        """The same answer with more headers."""
        return replace(self, headers=(*self.headers, *headers))

    async def send(self, send: Callable[[dict[str, Any]], Awaitable[None]], *, head_only: bool) -> None:
        """Send it as ASGI messages; to HEAD without its body."""
        try:
            await send({"type": "http.response.start", "status": self.status, "headers": self._written()})
            if self.file is None or head_only:
                await send({"type": "http.response.body", "body": b"" if head_only else self.body})
            else:
                await _send_file(self.file, self.size, send)
        finally:
            if self.file is not None:
                self.file.close()
        if self.afterwards is not None:
            self.afterwards()

    def _written(self) -> list[tuple[bytes, bytes]]:
        kind: Headers = (("content-type", self.content_type),) if self.content_type else ()
        size: Headers = (("content-length", str(self.size if self.file else len(self.body))),)
        written: list[tuple[bytes, bytes]] = []
        seen: set[str] = set()
        for name, value in (*kind, *size, *self.headers, *_ALWAYS):
            if name not in seen or name == "link":
                written.append((name.encode("ascii"), _harmless(value)))
                seen.add(name)
        return written


def redirect(
    location: str, *headers: tuple[str, str], afterwards: Callable[[], None] | None = None
) -> Response:
    """302 to a URL byte for byte (RES-12); never to be kept, since the next reader may be sent elsewhere."""
    kept = ("cache-control", "private, no-store")
    return Response(302, headers=(("location", visible(location)), kept, *headers), afterwards=afterwards)


def pairs(body: bytes, status: int = 200, *headers: tuple[str, str]) -> Response:
    """The answer of a service: a pair list that nobody keeps or indexes (MSG-10, threat T38)."""
    return Response(status, body, PAIRS, (*_NEVER_KEPT, *headers))


def link(url: str, relation: str, language: str = "") -> tuple[str, str]:
    """A Link header (RFC 8288); `language` is that of its target."""
    hreflang = f'; hreflang="{language}"' if language else ""
    return ("link", f'<{visible(url, "<>")}>; rel="{relation}"{hreflang}')


def visible(url: str, also: str = "") -> str:
    """A URL in visible ASCII; what is not (and what stands in `also`) is percent-encoded, the rest left alone.

    Texts from the wire have one character for each byte; such a byte stays that byte.
    """
    return "".join(char if "!" <= char <= "~" and char not in also else _encoded(char) for char in url)


def host_of(address: str) -> str:
    """The host of "host[:port]" in lower case, without brackets and final dot."""
    host = address.lower()
    host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return host.removesuffix(".")


def hosts_of(addresses: Iterable[str]) -> frozenset[str]:
    """The hosts of several addresses."""
    return frozenset(map(host_of, addresses))


async def _send_file(file: BinaryIO, size: int, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    """Send exactly `size` bytes; a file that has become shorter breaks the connection rather than lie."""
    left = size
    while left:
        small = left <= _CHUNK
        chunk = file.read(left) if small else await asyncio.to_thread(file.read, _CHUNK)
        if not chunk:
            msg = "a stored file ended too early"
            raise io.UnsupportedOperation(msg)
        left -= len(chunk)
        await send({"type": "http.response.body", "body": chunk, "more_body": left > 0})
    if not size:
        await send({"type": "http.response.body", "body": b""})


def _encoded(char: str) -> str:
    raw = char.encode("latin-1") if char <= "\xff" else char.encode("utf-8", "replace")
    return "".join(f"%{byte:02X}" for byte in raw)


def _harmless(value: str) -> bytes:
    """A header value that ends no header: blanks and visible ASCII."""
    if value.isascii() and value.isprintable():
        return value.encode("ascii")
    return "".join(char if " " <= char <= "~" else "?" for char in value).encode("ascii")
