"""What is asked over HTTP and what goes back: the small change of ASGI that both services use (floor 3).

Requests are looked at raw; every header value that goes out is made visible ASCII first (threat T12).
"""

from __future__ import annotations

import asyncio
import io
import os
import re
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

from ibi.errors import ParseError
from ibi.protocol import vocabulary as words
from ibi.protocol.query_string import read_query

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping

    Send = Callable[[dict[str, Any]], Awaitable[None]]

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
_CHUNK: Final = 512 * 1024  # of a slow reader's file, one of these is in memory
_NO_WAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)  # Linux only
_BODILESS: Final = frozenset({204, 304})
_QUALITY = re.compile(r"\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `path` and `query` are raw, one character for each byte; nothing is decoded yet (threat T27).

    `peer`: the address at the other end of the connection, "" where there is none.
    """

    method: str
    path: str
    query: str
    headers: Mapping[bytes, bytes]
    peer: str = field(default="", kw_only=True)

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
            peer=(scope.get("client") or ("",))[0],
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
    """One answer; its body is bytes, or `size` bytes of an open file from `start` on, or `size` bytes in `parts`.

    The file is closed after sending. `parts` may wait for a disk: they are made in another thread, one at a time.
    `afterwards` is called once it has gone out. Of headers set twice, the first counts; links add up.
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
                await _send_all(_file_parts(self.file, self.start, self.size), self.size, send, receive)
            elif self.parts is not None:
                await _send_all(_made_parts(self.parts), self.size, send, receive)
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
            if name not in seen or name == "link":
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
    return "".join(char if "!" <= char <= "~" and char not in also else _encoded(char) for char in url)


def host_of(address: str) -> str:
    """The host of "host[:port]" in lower case, without brackets and final dot."""
    host = address.lower()
    host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return host.removesuffix(".")


def hosts_of(addresses: Iterable[str]) -> frozenset[str]:
    """The hosts of several addresses."""
    return frozenset(map(host_of, addresses))


async def _send_all(
    parts: AsyncGenerator[bytes, None], size: int, send: Send, receive: Callable[[], Awaitable[Any]] | None
) -> None:
    """Send exactly `size` bytes; what ends early breaks the connection rather than lie."""
    if not size:
        await send({"type": "http.response.body", "body": b""})
        return
    left = size
    gone = asyncio.ensure_future(_gone(receive)) if receive and size > _CHUNK else None
    try:
        async with aclosing(parts):
            async for part in parts:
                left -= len(part)
                await send({"type": "http.response.body", "body": part, "more_body": left > 0})
                if left:  # returns when the part is nearly gone, so that the next one is not read before
                    await send({"type": "http.response.body", "body": b"", "more_body": True})
                    await asyncio.sleep(0)  # others have their turn, also while a fast reader never waits
                if gone is not None and gone.done():
                    return
    finally:
        if gone is not None:
            gone.cancel()
    if left:
        raise io.UnsupportedOperation("a stored file ended too early")


async def _gone(receive: Callable[[], Awaitable[Any]]) -> None:
    """Wait until the reader has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _file_parts(file: BinaryIO, start: int, size: int) -> AsyncGenerator[bytes, None]:
    """A piece of a file; another thread reads what is not in memory, and only that, since it costs more."""
    handle, at, end = file.fileno(), start, start + size
    while at < end:
        most = min(_CHUNK, end - at)
        if _in_memory(handle, at, most):
            part = os.pread(handle, most, at)
        else:
            part = await asyncio.to_thread(os.pread, handle, most, at)
        if not part:
            return
        at += len(part)
        yield part


def _in_memory(handle: int, at: int, size: int) -> bool:
    """Whether both ends of a piece of a file can be read without waiting for a disk, as far as the system tells."""
    if _NO_WAIT is None:
        return False
    try:
        return all(os.preadv(handle, [bytearray(1)], place, _NO_WAIT) for place in {at, at + size - 1})
    except OSError:  # it would have to wait, or the file system cannot tell
        return False


async def _made_parts(parts: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Parts that are made in another thread, one at a time."""
    while part := await asyncio.to_thread(next, parts, b""):
        yield part


def _encoded(char: str) -> str:
    raw = char.encode("latin-1") if char <= "\xff" else char.encode("utf-8", "replace")
    return "".join(f"%{byte:02X}" for byte in raw)


def _written(name: str, value: str) -> tuple[bytes, bytes]:
    """A header whose value ends no header: blanks and visible ASCII."""
    if not (value.isascii() and value.isprintable()):
        value = "".join(char if " " <= char <= "~" else "?" for char in value)
    return name.encode("ascii"), value.encode("ascii")


_READY: Final = {header: _written(*header) for header in (("content-type", PAIRS), *_NEVER_KEPT, *_ALWAYS)}
"""What nearly every answer of a service carries, written once."""
