"""HTTP answers as bytes: honest ones, and the lies, which are what a peer can do to an answer.

Each lie is a function from the true body (a pair list) to pieces of bytes, in order; a lie may have no end. `LIES`
names them as the plays do. A name says what is wrong, so a test that fails names the fault.
"""

from __future__ import annotations

import gzip
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


LAST_CHUNK = b"0\r\n\r\n"


def answer(body: bytes, *lines: str, status: str = "200 OK", kind: str = "text/plain") -> bytes:
    """A whole and honest HTTP answer; `lines` are further lines of its head, `kind` its media type."""
    head = (f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *lines, "", "")
    return "\r\n".join(head).encode() + body


def chunked(body: bytes, *lines: str, coding: str = "chunked") -> bytes:
    """The same in one chunk."""
    return _chunked(*lines, coding=coding) + _chunk(body) + LAST_CHUNK


def _chunked(*lines: str, coding: str = "chunked") -> bytes:
    """The head of an answer in chunks."""
    head = ("HTTP/1.1 200 OK", "Content-Type: text/plain", f"Transfer-Encoding: {coding}", *lines, "", "")
    return "\r\n".join(head).encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _endless_body(_: bytes) -> Iterable[bytes]:
    yield _chunked()
    yield from itertools.repeat(_chunk(b"archiveaddress a.example " * 400))


def _endless_head(_: bytes) -> Iterable[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    yield from itertools.repeat(b"X-More: " + b"m" * 900 + b"\r\n")


def _endless_trailers(body: bytes) -> Iterable[bytes]:
    yield _chunked() + _chunk(body) + b"0\r\n"
    yield from itertools.repeat(b"X-More: " + b"m" * 900 + b"\r\n")


def _compressed(body: bytes) -> Iterable[bytes]:
    yield answer(gzip.compress(body), "Content-Encoding: gzip")


def _compressed_for_transfer(body: bytes) -> Iterable[bytes]:
    yield chunked(gzip.compress(body), coding="gzip, chunked")


def _early_hints(body: bytes) -> Iterable[bytes]:
    yield b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n" * 8 + answer(body)


def _once(make: Callable[[bytes], bytes]) -> Callable[[bytes], Iterable[bytes]]:
    return lambda body: [make(body)]


LIES: dict[str, Callable[[bytes], Iterable[bytes]]] = {
    # HTTP that is none, or not the HTTP that was asked for
    "not-http": _once(lambda _: b"220 mail.example ESMTP\r\n"),
    "http-0.9": _once(lambda body: body),
    "bare-line-feeds": _once(lambda body: answer(body).replace(b"\r\n", b"\n")),
    "folded-header": _once(lambda body: answer(body, "X-Long: one", "  two")),
    "switch-protocols": _once(
        lambda body: b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: ibi\r\nConnection: upgrade\r\n\r\n" + body
    ),
    "early-hints": _early_hints,
    # lengths
    "two-lengths": _once(
        lambda body: _chunked(f"Content-Length: {len(body)}") + _chunk(body) + LAST_CHUNK,
    ),
    "length-twice": _once(lambda body: answer(body, "Content-Length: 5")),
    "negative-length": _once(lambda body: answer(body).replace(b"Content-Length: ", b"Content-Length: -")),
    "bad-chunk": _once(lambda body: _chunked() + b"xyz\r\n" + body + b"\r\n0\r\n\r\n"),
    "cut-off": _once(lambda body: answer(body)[:-7]),
    "closes-after-head": _once(lambda body: answer(body).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"),
    "promises-a-gigabyte": _once(
        lambda body: (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000000000\r\n\r\n" + body
        )
    ),
    "endless-body": _endless_body,
    "endless-head": _endless_head,
    "endless-trailers": _endless_trailers,
    "many-lines": _once(lambda body: answer(body, *(["a:"] * 200))),
    "many-pieces": _once(
        lambda body: _chunked() + b"".join(_chunk(b" ") for _ in range(2000)) + _chunk(body) + LAST_CHUNK
    ),
    # codings
    "compressed": _compressed,
    "compressed-for-transfer": _compressed_for_transfer,
    # an honest message of another kind
    "status-404": _once(lambda body: answer(body, status="404 Not Found")),
    "status-500": _once(lambda body: answer(body, status="500 Internal Server Error")),
    "status-204": _once(lambda _: b"HTTP/1.1 204 No Content\r\n\r\n"),
    "redirect": _once(lambda _: answer(b"", "Location: http://evil.example/", status="302 Found")),
    "html": _once(lambda body: answer(b"<!doctype html><pre>" + body, kind="text/html")),
    "no-media-type": _once(lambda body: answer(body).replace(b"Content-Type: text/plain\r\n", b"")),
    # a pair list that is none
    "duplicate-pairs": _once(lambda body: answer(body + b"\r\nstate Original\r\nstate Copy")),
    "odd-words": _once(lambda body: answer(body + b"\r\nurl")),
    "open-brace": _once(lambda body: answer(body + b"\r\nibi.metadata {rep example/a/2020/01.01.00.00")),
    "not-ascii": _once(lambda body: answer(body + "\r\ntitle Relatório".encode("latin-1"))),
    "nul": _once(lambda body: answer(body + b"\r\ntitle a\0b")),
    "too-many-pairs": _once(lambda body: answer(body + b"".join(b"\r\np%d v" % n for n in range(5000)))),
}
