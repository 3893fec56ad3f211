"""What a peer can do to an HTTP answer: the lies, each as the bytes that go over the wire.

Each lie is a function from the true body (a pair list) to pieces of bytes, in order; a lie may have no end. `LIES`
names them as the plays do. A name says what is wrong, so a test that fails names the fault.
"""

from __future__ import annotations

import gzip
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def answer(body: bytes, status: str = "200 OK", media_type: str = "text/plain", *more: str) -> bytes:
    """A whole and honest HTTP answer."""
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {media_type}",
        f"Content-Length: {len(body)}",
        *more,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


def _chunked(*more: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", "Content-Type: text/plain", "Transfer-Encoding: chunked", *more, "", ""]
    return "\r\n".join(lines).encode()


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
    yield answer(gzip.compress(body), "200 OK", "text/plain", "Content-Encoding: gzip")


def _compressed_for_transfer(body: bytes) -> Iterable[bytes]:
    squeezed = gzip.compress(body)
    head = _chunked().replace(b"chunked", b"gzip, chunked")
    yield head + _chunk(squeezed) + b"0\r\n\r\n"


def _early_hints(body: bytes) -> Iterable[bytes]:
    yield b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n" * 8 + answer(body)


def _once(make: Callable[[bytes], bytes]) -> Callable[[bytes], Iterable[bytes]]:
    return lambda body: [make(body)]


LIES: dict[str, Callable[[bytes], Iterable[bytes]]] = {
    # HTTP that is none, or not the HTTP that was asked for
    "not-http": _once(lambda _: b"220 mail.example ESMTP\r\n"),
    "http-0.9": _once(lambda body: body),
    "bare-line-feeds": _once(lambda body: answer(body).replace(b"\r\n", b"\n")),
    "folded-header": _once(lambda body: answer(body, "200 OK", "text/plain", "X-Long: one", "  two")),
    "switch-protocols": _once(
        lambda body: b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: ibi\r\nConnection: upgrade\r\n\r\n" + body
    ),
    "early-hints": _early_hints,
    # lengths
    "two-lengths": _once(
        lambda body: _chunked(f"Content-Length: {len(body)}") + _chunk(body) + b"0\r\n\r\n",
    ),
    "length-twice": _once(lambda body: answer(body, "200 OK", "text/plain", "Content-Length: 5")),
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
    "many-lines": _once(lambda body: answer(body, "200 OK", "text/plain", *(["a:"] * 200))),
    "many-pieces": _once(
        lambda body: _chunked() + b"".join(_chunk(b" ") for _ in range(2000)) + _chunk(body) + b"0\r\n\r\n"
    ),
    # codings
    "compressed": _compressed,
    "compressed-for-transfer": _compressed_for_transfer,
    # an honest message of another kind
    "status-404": _once(lambda body: answer(body, "404 Not Found")),
    "status-500": _once(lambda body: answer(body, "500 Internal Server Error")),
    "status-204": _once(lambda _: b"HTTP/1.1 204 No Content\r\n\r\n"),
    "redirect": _once(lambda _: answer(b"", "302 Found", "text/plain", "Location: http://evil.example/")),
    "html": _once(lambda body: answer(b"<!doctype html><pre>" + body, "200 OK", "text/html")),
    "no-media-type": _once(lambda body: answer(body).replace(b"Content-Type: text/plain\r\n", b"")),
    # a pair list that is none
    "duplicate-pairs": _once(lambda body: answer(body + b"\r\nstate Original\r\nstate Copy")),
    "odd-words": _once(lambda body: answer(body + b"\r\nurl")),
    "open-brace": _once(lambda body: answer(body + b"\r\nibi.metadata {rep example/a/2020/01.01.00.00")),
    "not-ascii": _once(lambda body: answer(body + "\r\ntitle Relatório".encode("latin-1"))),
    "nul": _once(lambda body: answer(body + b"\r\ntitle a\0b")),
    "too-many-pairs": _once(lambda body: answer(body + b"".join(b"\r\np%d v" % n for n in range(5000)))),
}
