"""What is asked over HTTP and what goes back: the small change of ASGI that both services use (floor 3).

Requests are looked at raw; every header value that goes out is made visible ASCII first (threat T12).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

from ibi.errors import ParseError
from ibi.exchange.long_bodies import file_parts, made_parts, send_all
from ibi.protocol import vocabulary as words
from ibi.protocol.query_string import read_query

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from ibi.exchange.long_bodies import Send

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
_SEVERAL: Final = frozenset({"link", "set-cookie"})
_BODILESS: Final = frozenset({204, 304})
_VISIBLE = re.compile(r"[!-~]*", re.ASCII).fullmatch
_QUALITY = re.compile(r"\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `path` and `query` are raw, one character for each byte; nothing is decoded yet (threat T27).

    `peer`: the address at the other end of the connection, "" where there is none; `secure`: whether it speaks TLS.
    """

    method: str
    path: str
    query: str
    headers: Mapping[bytes, bytes]
    peer: str = field(default="", kw_only=True)
    secure: bool = field(default=False, kw_only=True)

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> Asked:
        """Read an ASGI scope."""
        return cls(
            scope["method"],
            scope["raw_path"].partition(b"?")[0].decode("latin-1"),
            scope["query_string"].decode("latin-1"),
            joined_headers(scope["headers"]),
            peer=(scope.get("client") or ("",))[0],
            secure=scope.get("scheme") == "https",
        )

    @classmethod
    def raw(cls, target: bytes, headers: Iterable[tuple[bytes, bytes]], peer: str) -> Asked:
        """A GET as it came over the wire; `target` begins with a slash, the names of `headers` are in lower case."""
        path, _, query = target.decode("latin-1").partition("?")
        return cls("GET", path, query, joined_headers(headers), peer=peer)

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
    """One answer; its body is bytes, or `size` bytes of an open file from `start` on, or `size` bytes in `parts`.

    The file is closed after sending. `parts` may wait for a disk: they are made in another thread, one at a time.
    `afterwards` is called once it has gone out. Of headers set twice, the first counts; links and cookies add up.
    """

    status: int
    body: bytes = b""
    content_type: str = ""
    headers: Headers = ()
    file: BinaryIO | None = field(default=None, repr=False)
    size: int = 0
    afterwards: Callable[[], None] | None = field(default=None, repr=False)
    start: int = 0
    parts: Iterator[bytes] | None = field(default=None, repr=False)

    def having(self, *headers: tuple[str, str]) -> Response:
        """The same answer with more headers."""
        return replace(self, headers=(*self.headers, *headers))

    def whole(self) -> bytes:
        """Header lines, an empty line and the body, which is bytes; what comes after the status line of HTTP/1.1."""
        lines = [b"%b: %b\r\n" % header for header in self._head()]
        return b"".join((*lines, b"\r\n", self.body))

    async def send(
        self, send: Send, *, head_only: bool, receive: Callable[[], Awaitable[Any]] | None = None
    ) -> None:
        """Send it as ASGI messages; to HEAD without its body.

        With `receive`, from which nothing more must be wanted, a long body ends when its reader goes away.
        """
        try:
            await send({"type": "http.response.start", "status": self.status, "headers": self._head()})
            if head_only:
                await send({"type": "http.response.body", "body": b""})
            elif self.file is not None:
                await send_all(file_parts(self.file, self.start, self.size), self.size, send, receive)
            elif self.parts is not None:
                await send_all(made_parts(self.parts), self.size, send, receive)
            else:
                await send({"type": "http.response.body", "body": self.body})
        finally:
            if self.file is not None:
                self.file.close()
        if self.afterwards is not None:
            self.afterwards()

    def _head(self) -> list[tuple[bytes, bytes]]:
        kind: Headers = (("content-type", self.content_type),) if self.content_type else ()
        length = len(self.body) if self.file is None and self.parts is None else self.size
        size: Headers = () if self.status in _BODILESS else (("content-length", str(length)),)
        written: list[tuple[bytes, bytes]] = []
        seen: set[str] = set()
        for name, value in (*kind, *size, *self.headers, *_ALWAYS):
            if name not in seen or name in _SEVERAL:
                written.append(_READY.get((name, value)) or _written(name, value))
                seen.add(name)
        return written


def redirect(
    location: str, *headers: tuple[str, str], afterwards: Callable[[], None] | None = None
) -> Response:
    """302 to a URL byte for byte (RES-12); never to be kept, since the next reader may be sent elsewhere."""
    kept = ("cache-control", "private, no-store")
    return Response(302, headers=(("location", visible(location)), kept, *headers), afterwards=afterwards)


def pairs(body: bytes, status: int = 200, *headers: tuple[str, str]) -> Response:
    """The answer of a service: a pair list that nobody indexes, nor keeps unless `headers` say so (MSG-10, T38)."""
    return Response(status, body, PAIRS, (*headers, *_NEVER_KEPT))


def link(url: str, relation: str, language: str = "") -> tuple[str, str]:
    """A Link header (RFC 8288); `language` is that of its target."""
    hreflang = f'; hreflang="{language}"' if language else ""
    return ("link", f'<{visible(url, "<>")}>; rel="{relation}"{hreflang}')


def visible(url: str, also: str = "") -> str:
    """A URL in visible ASCII; what is not (and what stands in `also`) is percent-encoded, the rest left alone.

    Texts from the wire have one character for each byte; such a byte stays that byte.
    """
    if _VISIBLE(url) and not (also and any(char in url for char in also)):
        return url  # as nearly all are
    return "".join(char if "!" <= char <= "~" and char not in also else _encoded(char) for char in url)


def host_of(address: str) -> str:
    """The host of "host[:port]" in lower case, without brackets and final dot."""
    host = address.lower()
    host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return host.removesuffix(".")


def hosts_of(addresses: Iterable[str]) -> frozenset[str]:
    """The hosts of several addresses."""
    return frozenset(map(host_of, addresses))


def joined_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Headers by name, in lower case as they come; one that came several times is one list."""
    joined: dict[bytes, bytes] = {}
    for name, value in headers:
        joined[name] = joined[name] + b"," + value if name in joined else value
    return joined


def _encoded(char: str) -> str:
    raw = char.encode("latin-1") if char <= "\xff" else char.encode("utf-8", "replace")
    return "".join(f"%{byte:02X}" for byte in raw)


def _written(name: str, value: str) -> tuple[bytes, bytes]:
    """A header whose value ends no header: blanks and visible ASCII."""
    if not (value.isascii() and value.isprintable()):
        value = "".join(char if " " <= char <= "~" else "?" for char in value)
    return name.encode("ascii"), value.encode("ascii")


_OFTEN: Final = (("content-type", PAIRS), ("content-length", "0"), ("cache-control", "private, no-store"))
_READY: Final = {header: _written(*header) for header in (*_OFTEN, *_NEVER_KEPT, *_ALWAYS)}
"""What nearly every answer of a service carries, or a redirect, written once."""
