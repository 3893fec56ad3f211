"""One HTTP response: how both programs answer over ASGI.

Every header value that goes out is visible ASCII (T12: smuggled line ends). A body that is too large for memory is
sent in parts; each part is read only when the one before has nearly gone out.

Entry points: `Response`, and the functions for the usual answers: `redirect`, `pairs`, `link`.
"""

from __future__ import annotations

import asyncio
import errno
import io
import logging
import os
import re
from abc import abstractmethod
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ibi.errors import IbiError, SetupError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

    from ibi.http.request import Request

    Send = Callable[[dict[str, Any]], Awaitable[None]]
    Receive = Callable[[], Awaitable[Any]]
    Handler = Callable[[Request, Receive], Awaitable["Response"]]
    """Answers a request; reads its body, if any, from `Receive`, an ASGI callable."""


HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"
PAIRS: Final = "text/plain"
PLAIN: Final = "text/plain; charset=utf-8"
PROBLEM: Final = "application/problem+json"

Headers = tuple[tuple[str, str], ...]

NO_STORE: Final[Headers] = (("cache-control", "no-store"),)
LATER: Final = ("retry-after", "10")

_ALWAYS: Final[Headers] = (("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"))
_NOT_INDEXED: Final[Headers] = (("x-robots-tag", "noindex, nofollow"),)
_NEVER_CACHED: Final[Headers] = (*NO_STORE, *_NOT_INDEXED)
_SEVERAL: Final = frozenset({"link", "set-cookie"})
_BODILESS: Final = frozenset({204, 304})
_DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
_log = logging.getLogger(__name__)
_VISIBLE = re.compile(r"[!-~]*", re.ASCII).fullmatch
_PRINTABLE: Final = bytes(byte if 0x20 <= byte <= 0x7E else ord("?") for byte in range(256))  # noqa: PLR2004 - ASCII


class RemoteFile(io.RawIOBase):
    """An open file of another machine: it is read in ranges, and has no descriptor.

    `read` waits for that machine, so call it in a thread.
    """

    @abstractmethod
    def range(self, start: int, size: int) -> bytes:
        """Read at most `size` bytes from `start` on. Raises OSError, SetupError."""

    @abstractmethod
    def begin(self, start: int, size: int) -> None:
        """Read the first part of a piece: a fault is known before the answer begins. Raises OSError, SetupError."""

    @abstractmethod
    def parts(self, start: int, size: int) -> AsyncGenerator[bytes, None]:
        """Read a piece of the file, part by part, without a thread; `begin` has read its first part.

        Raises OSError, SetupError.
        """


class Refusal(Exception):
    """Refuses a request: with a status, a reason, more headers, and more members of the problem in JSON."""

    def __init__(self, status: int, why: IbiError, *headers: tuple[str, str], **members: Any) -> None:
        super().__init__(str(why))
        self.status = status
        self.why = why
        self.headers = headers
        self.members = members


def fault_refusal(error: Exception) -> Refusal:
    """Return the refusal for a fault of the server: the log gets all details, the client none."""
    if _is_full(error):
        _log.error("the disk takes no more: %s", error)
        return Refusal(507, SetupError("the disk of this server takes no more at the moment"))
    _log.error(
        "a request could not be answered: %s", error, exc_info=None if isinstance(error, IbiError) else error
    )
    return Refusal(503, IbiError("this server cannot answer now; try again later"), LATER)


def _is_full(error: BaseException | None) -> bool:
    """Return whether an error was caused by a full disk."""
    # SQLAlchemy and our own errors wrap the error of the system.
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            return True
        if (
            getattr(error, "sqlite_errorname", "") == "SQLITE_FULL"
            or getattr(error, "sqlstate", "") == "53100"
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


@dataclass(slots=True)
class Response:
    """One answer; its body is bytes, or `size` bytes of an open file from `start` on, or `size` bytes in `parts`.

    The file is closed after sending, and `afterwards` called. `parts` may wait for a disk: they are made in
    another thread, one at a time. Of a header set twice the first is sent; of links and cookies, all.
    """

    status: int
    body: bytes = b""
    content_type: str = ""
    headers: Headers = ()
    file: BinaryIO | None = None
    size: int = 0
    afterwards: Callable[[], None] | None = None
    start: int = 0
    parts: Iterator[bytes] | None = None

    def having(self, *headers: tuple[str, str]) -> Response:
        """Return the same answer with more headers."""
        # Each page is made so once or twice, and `dataclasses.replace` takes four times as long.
        return Response(
            self.status,
            self.body,
            self.content_type,
            (*self.headers, *headers),
            self.file,
            self.size,
            self.afterwards,
            self.start,
            self.parts,
        )

    def whole(self) -> bytes:
        """Return what follows the status line in HTTP/1.1: header lines, an empty line, `body`."""
        lines = [b"%b: %b\r\n" % header for header in self._head()]
        return b"".join((*lines, b"\r\n", self.body))

    async def send(self, send: Send, *, head_only: bool, receive: Receive | None = None) -> None:
        """Send it as ASGI messages; with `head_only`, without its body.

        With `receive`, a long body stops when the reader disconnects; unread parts of the request are lost.
        """
        try:
            await send({"type": "http.response.start", "status": self.status, "headers": self._head()})
            if head_only:
                await send({"type": "http.response.body", "body": b""})
            elif self.file is not None:
                await send_all(_parts_of(self.file, self.start, self.size), self.size, send, receive)
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
        headers = (*kind, *size, *self.headers, *_ALWAYS)
        names = [name for name, _ in headers if name not in _SEVERAL]
        if len(set(names)) < len(names):
            headers = _first_of_each(headers)
        return [_WRITTEN.get(header) or _written(*header) for header in headers]


def _first_of_each(headers: Headers) -> Headers:
    taken: dict[object, tuple[str, str]] = {}
    for header in headers:
        taken.setdefault(header if header[0] in _SEVERAL else header[0], header)
    return tuple(taken.values())


def redirect(
    location: str, *headers: tuple[str, str], status: int = 302, afterwards: Callable[[], None] | None = None
) -> Response:
    """Redirect to a URL byte for byte (RES-12), not to be cached: the next reader may be sent elsewhere.

    A `cache-control` that is put before it wins (`resolver.cache_policy`).
    """
    never_cached = ("cache-control", "private, no-store")
    return Response(
        status, headers=(("location", visible(location)), never_cached, *headers), afterwards=afterwards
    )


def pairs(body: bytes, status: int = 200, *headers: tuple[str, str], cached: str = "") -> Response:
    """Return a pair list, never indexed, and never cached, or as `cached` says (MSG-10, threat T38)."""
    kept = (("cache-control", cached), *_NOT_INDEXED) if cached else _NEVER_CACHED
    return Response(status, body, PAIRS, (*headers, *kept))


def link(url: str, relation: str, language: str = "") -> tuple[str, str]:
    """Return a Link header (RFC 8288); `language` is that of the linked resource."""
    hreflang = f'; hreflang="{language}"' if language else ""
    return ("link", f'<{visible(url, "<>")}>; rel="{relation}"{hreflang}')


def visible(url: str, also: str = "") -> str:
    """Return a URL in visible ASCII: percent-encode other characters and those in `also`, nothing else.

    Texts from the wire have one character for each byte; such a character is encoded as that byte.
    """
    if _VISIBLE(url) and not any(map(url.__contains__, also)):
        return url  # nearly always
    return "".join(char if "!" <= char <= "~" and char not in also else _encoded(char) for char in url)


def _encoded(char: str) -> str:
    raw = char.encode("latin-1") if char <= "\xff" else char.encode("utf-8", "replace")
    return "".join(f"%{byte:02X}" for byte in raw)


def _written(name: str, value: str) -> tuple[bytes, bytes]:
    """Return a header whose value has only blanks and visible ASCII, and so cannot begin another header."""
    return name.encode("ascii"), value.encode("ascii", "replace").translate(_PRINTABLE)


_COMMON: Final = (
    ("content-type", PAIRS),
    ("content-length", "0"),
    ("cache-control", "private, no-store"),
    ("access-control-allow-origin", "*"),
    ("vary", "Accept"),
)
_WRITTEN: Final = {header: _written(*header) for header in (*_COMMON, *_NEVER_CACHED, *_ALWAYS)}
"""The headers of nearly every answer, encoded once."""


def common(*headers: tuple[str, str]) -> Headers:
    """Return these headers, and encode them once for all answers; for headers that never change."""
    _WRITTEN.update((header, _written(*header)) for header in headers)
    return headers


_CHUNK: Final = 512 * 1024  # a slow reader holds one chunk of its file in memory
_NO_WAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)  # Linux only


async def send_all(
    parts: AsyncGenerator[bytes, None], size: int, send: Send, receive: Receive | None
) -> None:
    """Send exactly `size` bytes; raise if the parts end early, so that the connection breaks."""
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
                if left:
                    # This send returns when the part is nearly gone, so that the next is not read before.
                    await send({"type": "http.response.body", "body": b"", "more_body": True})
                    # Sending to a fast client never waits: other requests must have their turn all the same.
                    await asyncio.sleep(0)
                if gone is not None and gone.done():
                    return
    finally:
        if gone is not None:
            gone.cancel()
    if left:
        raise io.UnsupportedOperation("a stored file ended too early")


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _parts_of(file: BinaryIO, start: int, size: int) -> AsyncGenerator[bytes, None]:
    return file.parts(start, size) if isinstance(file, RemoteFile) else file_parts(file, start, size)


async def file_parts(file: BinaryIO, start: int, size: int) -> AsyncGenerator[bytes, None]:
    """Read a piece of a file, part by part."""
    # Only parts that are not in memory are read by another thread: the switch costs more than the read.
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
    """Whether the system can read both ends of a piece of a file without waiting for a disk."""
    if _NO_WAIT is None:
        return False
    try:
        return all(os.preadv(handle, [bytearray(1)], place, _NO_WAIT) for place in {at, at + size - 1})
    except OSError:  # it would have to wait, or the file system cannot tell
        return False


async def made_parts(parts: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Make parts in another thread, one at a time."""
    while part := await asyncio.to_thread(next, parts, b""):
        yield part
