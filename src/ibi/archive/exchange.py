"""What is asked over HTTP, and what goes back: the small change of ASGI."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"
PAIRS: Final = "text/plain"
PLAIN: Final = "text/plain; charset=utf-8"
PROBLEM: Final = "application/problem+json"

Headers = tuple[tuple[str, str], ...]

NO_STORE: Final[Headers] = (("cache-control", "no-store"),)

_ALWAYS: Final[Headers] = (("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"))
_CHUNK: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `path` and `query` are raw, one character for each byte; nothing is decoded yet (T27)."""

    method: str
    path: str
    query: str
    headers: Mapping[bytes, bytes]

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> Asked:
        """The request of an ASGI scope."""
        raw_path = scope.get("raw_path") or scope["path"].encode("latin-1", "replace")
        return cls(
            scope["method"],
            raw_path.partition(b"?")[0].decode("latin-1"),
            scope["query_string"].decode("latin-1"),
            dict(scope["headers"]),
        )

    @property
    def target(self) -> str:
        """Path and query as received."""
        return f"{self.path}?{self.query}" if self.query else self.path

    def header(self, name: bytes) -> str:
        """A header by its lower-case name, "" if it is absent."""
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def form(self) -> str:
        """What suits the asker: "html" for browsers, "json" where only that is accepted, else "plain"."""
        accept = self.header(b"accept").lower()
        if "text/html" in accept or "application/xhtml+xml" in accept:
            return "html"
        return "json" if "json" in accept else "plain"


@dataclass(frozen=True, slots=True)
class Response:
    """One answer; its body is bytes, or an open file of a known size, which is closed after sending."""

    status: int
    body: bytes = b""
    content_type: str = ""
    headers: Headers = ()
    file: BinaryIO | None = field(default=None, repr=False)
    size: int = 0

    def having(self, *headers: tuple[str, str]) -> Response:
        """The same answer with more headers; of headers set twice, the first counts."""
        return replace(self, headers=(*self.headers, *headers))

    async def send(self, send: Callable[[dict[str, Any]], Awaitable[None]], *, head_only: bool) -> None:
        """Send it as ASGI messages; to HEAD without its body."""
        size = self.size if self.file else len(self.body)
        kind: Headers = (("content-type", self.content_type),) if self.content_type else ()
        values: dict[str, str] = {}
        for name, value in (*kind, ("content-length", str(size)), *self.headers, *_ALWAYS):
            values.setdefault(name, value)
        headers = [(name.encode("ascii"), _harmless(value)) for name, value in values.items()]
        try:
            await send({"type": "http.response.start", "status": self.status, "headers": headers})
            if self.file is None or head_only:
                await send({"type": "http.response.body", "body": b"" if head_only else self.body})
            else:
                await _send_file(self.file, self.size, send)
        finally:
            if self.file is not None:
                self.file.close()


def redirect(location: str, query: str = "") -> Response:
    """302 to a URL byte for byte, and to query pairs behind it (AMB-48); never to be kept (RES-12)."""
    if query:
        url, mark, fragment = location.partition("#")
        location = f"{url}{'&' if '?' in url else '?'}{query}{mark}{fragment}"
    visible = "".join(char if "!" <= char <= "~" else f"%{ord(char):02X}" for char in location)
    return Response(302, headers=(("location", visible), ("cache-control", "private, no-store")))


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


def _harmless(value: str) -> bytes:
    """A header value that ends no header: blanks and visible ASCII (T12)."""
    if value.isascii() and value.isprintable():
        return value.encode("ascii")
    return "".join(char if " " <= char <= "~" else "?" for char in value).encode("ascii")
