"""What comes back over one connection: one answer after the other, every byte of it counted.

The answer must be one plain HTTP/1.1 message: no 1xx before it, nothing compressed, one way of telling its length,
nothing after it. Whatever departs from that ends the connection, for a byte too many could be read as the beginning
of the answer to somebody else's request.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import httptools

from ibi.errors import NotRead, PeerGarbled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.errors import PeerError

MOST_CHUNKS = 1_024
"""Pieces that an answer may come in (docs/threats.md)."""
MOST_LINES = 128
"""Lines of the head of an answer, and after its pieces."""
MOST_HELD = 64 * 1024 * 1024
"""Bytes of unfinished answers of one client; beyond that only small ones are taken."""
SMALL = 16 * 1024
"""Bytes that an answer may have even then."""

_PIECE, _PIECE_OF_HEAD = 4096, 1024  # bytes that are taken apart at a time
_OK = 200
_NO_CONTENT = 204
_NOT_MODIFIED = 304


class Reply(NamedTuple):
    """A whole answer: `headers` by lower-case name (several of one name joined by ", "), `peer` the IP that gave it."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes
    peer: str

    @property
    def media_type(self) -> bytes:
        """The type without its parameters, in lower case: b"text/plain"; b"" when none was given."""
        return _media_type(self.headers.get(b"content-type", b""))


NONE: Final = Reply(0, {}, b"", "")
"""Stands for an answer where there is none yet."""


@lru_cache(maxsize=64)
def _media_type(value: bytes) -> bytes:
    return value.partition(b";")[0].strip().lower()


class Held:
    """How many bytes of unfinished answers there are, of all connections that share this."""

    def __init__(self) -> None:
        self.bytes = 0


class Answers:
    """The answers of one connection, one after the other; the callbacks of its parser, which lives as long.

    `received`: bytes of the present one that have come; `refusal` is why it cannot be taken, once known.
    """

    def __init__(self, head_limit: int, body_limit: int, held: Held) -> None:
        self._held = held
        self._head_limit = head_limit
        self._body_limit = body_limit
        self._parser = httptools.HttpResponseParser(self)
        self._next()

    def _next(self) -> None:
        """Nothing has come of the next answer."""
        self.received = self._size = self._chunks = self._lines = 0
        self._until_close = self._kept_alive = self._head_done = False
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._body: bytes | bytearray = b""
        self.complete = self.surplus = False
        self.refusal: PeerError | None = None

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another request after this answer."""
        return self.complete and not self.surplus and self._kept_alive

    def take(self, peer: str) -> Reply:
        """The whole answer; nothing of it stays here, and what comes is the next one."""
        reply = Reply(self._status, self._headers, bytes(self._body), peer)
        self.let_go()
        self._next()
        return reply

    def feed(self, data: bytes) -> None:
        """Some bytes have come; after each small piece of them it is seen whether the answer is still to be taken."""
        if len(data) <= _PIECE_OF_HEAD:
            self._feed(data)
            return
        at = 0
        while at < len(data) and self.refusal is None:
            if self.complete:
                self.surplus = True
                return
            piece = _PIECE if self._head_done else _PIECE_OF_HEAD
            self._feed(data[at : at + piece])
            at += piece

    def _feed(self, data: bytes) -> None:
        self.received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self.complete:
                self.surplus = True
            elif self.refusal is None:
                self.refusal = PeerGarbled("the answer is not HTTP: {reason}", reason=_plain(error))
        if self.complete or self.refusal is not None:
            return
        if not self._head_done and self.received > self._head_limit:
            self.refusal = PeerGarbled(
                "the head of the answer is longer than {limit} bytes", limit=self._head_limit
            )
        elif (
            self.received > self._head_limit + 2 * self._body_limit
        ):  # chunk sizes and trailers are bytes too
            self._refuse_size()

    def end(self) -> None:
        """No more bytes will come."""
        if self._until_close and self._head_done and self.refusal is None:
            self.complete = True

    def _refuse_size(self) -> None:
        self.refusal = PeerGarbled("the answer is larger than {limit} bytes", limit=self._body_limit)

    # The parser calls these.

    def on_message_begin(self) -> None:
        """Another answer begins, or this one."""
        if self.complete:
            self.surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """One line of the head, or one that follows the last piece."""
        if self.complete or self.refusal is not None:
            return
        self._lines += 1
        if self._lines > MOST_LINES:
            self.refusal = PeerGarbled("the answer has more than {limit} lines of headers", limit=MOST_LINES)
            return
        if self._head_done:
            return
        key, headers = name.lower(), self._headers
        headers[key] = headers[key] + b", " + value if key in headers else value

    def on_headers_complete(self) -> None:
        """The head is whole."""
        if self.complete or self._head_done:
            return
        self._head_done = True
        self._status = self._parser.get_status_code()
        self._until_close = self._weigh_head()

    def _weigh_head(self) -> bool:
        """Refuse what may not come; tell whether only the end of the connection ends the answer."""
        headers, status = self._headers, self._status
        coding = headers.get(b"content-encoding")
        framing = headers.get(b"transfer-encoding")
        length = headers.get(b"content-length")
        if status < _OK:
            self.refusal = PeerGarbled("the status {status} is not that of an answer", status=status)
        elif coding is not None and coding.strip().lower() not in {b"", b"identity"}:
            self.refusal = PeerGarbled("the answer is compressed, though this was refused beforehand")
        elif framing is not None and (length is not None or framing.strip().lower() != b"chunked"):
            self.refusal = PeerGarbled("the answer tells its length in two ways")
        elif length is not None and int(length) > self._body_limit:
            self._refuse_size()
        return framing is None and length is None and status not in {_NO_CONTENT, _NOT_MODIFIED}

    def on_body(self, data: bytes) -> None:
        """Some bytes of the body."""
        if self.complete or self.refusal is not None:
            return
        if not self._size:
            self._body = data
        elif isinstance(self._body, bytearray):
            self._body += data
        else:
            self._body = bytearray(self._body + data)
        self._size += len(data)
        self._held.bytes += len(data)
        if self._size > self._body_limit:
            self._refuse_size()
        elif self._held.bytes > MOST_HELD and self._size > SMALL:
            self.refusal = too_large()
        if self.refusal is not None:
            self.let_go()

    def on_chunk_header(self) -> None:
        """A piece of the body begins."""
        self._chunks += 1
        if self._chunks > MOST_CHUNKS and self.refusal is None and not self.complete:
            self.refusal = PeerGarbled("the answer comes in too many pieces")
            self.let_go()

    def let_go(self) -> None:
        """It is no longer in the making."""
        self._held.bytes -= self._size
        self._size = 0
        self._body = b""

    def on_message_complete(self) -> None:
        """The answer is whole."""
        if self._head_done and not self.complete and self.refusal is None:
            self.complete = True
            self._kept_alive = self._parser.should_keep_alive()  # only now: the parser forgets it at once


def too_large() -> NotRead:
    """Why an answer was not read here, though it is none too large by itself."""
    return NotRead("too many large answers are coming in at once")


def _plain(error: Exception) -> str:
    """The parser's own words, in ASCII and without the quotes of another language's exceptions."""
    text = str(error) or type(error).__name__
    return "".join(c if " " <= c <= "~" and c not in "{}" else "?" for c in text)[:120]
