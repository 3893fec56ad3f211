"""One connection to one machine: a request out, an answer in, every byte of it counted.

The answer must be one plain HTTP/1.1 message: no 1xx before it, nothing compressed, one way of telling its length,
nothing after it. Whatever departs from that ends the connection, for a byte too many could be read as the beginning
of the answer to somebody else's request.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import httptools

from ibi.errors import PeerGarbled, PeerSilent

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_CHUNKS = 1_024
"""Pieces that an answer may come in (docs/threats.md)."""
MOST_LINES = 128
"""Lines of the head of an answer."""
MOST_HELD = 64 * 1024 * 1024
"""Bytes of unfinished answers of one client; beyond that only small ones are taken."""
SMALL = 16 * 1024
"""Bytes that an answer may have even then."""

_PIECE, _PIECE_OF_HEAD = 4096, 1024  # bytes that are taken apart at a time
_OK = 200
_NO_CONTENT = 204
_NOT_MODIFIED = 304


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer: `headers` by lower-case name (several of one name joined by ", "), `peer` the IP that gave it."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    peer: str

    @property
    def media_type(self) -> bytes:
        """The type without its parameters, in lower case: b"text/plain"; b"" when none was given."""
        return self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


class StaleConnection(Exception):
    """A connection kept from an earlier request was closed before any byte of an answer came."""


class Held:
    """How many bytes of unfinished answers there are, of all connections that share this."""

    def __init__(self) -> None:
        self.bytes = 0


class _Answer:
    """One answer in the making; the callbacks of the parser. `refusal` is why it cannot be taken, once known."""

    def __init__(self, head_limit: int, body_limit: int, held: Held) -> None:
        self._held = held
        self._chunks = self._lines = 0
        self._head_limit = head_limit
        self._body_limit = body_limit
        self._parser = httptools.HttpResponseParser(self)
        self._received = 0
        self._until_close = False
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = bytearray()
        self.head_done = False
        self.complete = False
        self.surplus = False
        self._kept_alive = False
        self.refusal: PeerGarbled | None = None

    @property
    def begun(self) -> bool:
        return self._received > 0

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another request after this answer."""
        return self.complete and not self.surplus and self._kept_alive

    def feed(self, data: bytes) -> None:
        """Some bytes have come; after each small piece of them it is seen whether the answer is still to be taken."""
        at = 0
        while at < len(data) and self.refusal is None:
            if self.complete:
                self.surplus = True
                return
            piece = _PIECE if self.head_done else _PIECE_OF_HEAD
            self._feed(data[at : at + piece])
            at += piece

    def _feed(self, data: bytes) -> None:
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.complete and self.refusal is None:
                self.refusal = PeerGarbled("the answer is not HTTP: {reason}", reason=_plain(error))
        if self.complete or self.refusal is not None:
            return
        if not self.head_done and self._received > self._head_limit:
            self.refusal = PeerGarbled(
                "the head of the answer is longer than {limit} bytes", limit=self._head_limit
            )
        elif (
            self._received > self._head_limit + 2 * self._body_limit
        ):  # chunk sizes and trailers are bytes too
            self._refuse_size()

    def end(self) -> None:
        """No more bytes will come."""
        if self._until_close and self.head_done and self.refusal is None:
            self.complete = True

    def _refuse_size(self) -> None:
        self.refusal = PeerGarbled("the answer is larger than {limit} bytes", limit=self._body_limit)

    # The parser calls these.

    def on_message_begin(self) -> None:
        if self.complete:
            self.surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.head_done:
            return  # a trailer, or the head of something nobody asked for
        self._lines += 1
        if self._lines > MOST_LINES:
            self.refusal = PeerGarbled("the head of the answer has more than {limit} lines", limit=MOST_LINES)
            return
        key = name.lower()
        self.headers[key] = self.headers[key] + b", " + value if key in self.headers else value

    def on_headers_complete(self) -> None:
        if self.complete or self.head_done:
            return
        self.head_done = True
        self.status = self._parser.get_status_code()
        self._until_close = self._weigh_head()

    def _weigh_head(self) -> bool:
        """Refuse what may not come; tell whether only the end of the connection ends the answer."""
        headers = self.headers
        coding = headers.get(b"content-encoding", b"identity").strip().lower()
        framing = headers.get(b"transfer-encoding")
        length = headers.get(b"content-length")
        if self.status < _OK:
            self.refusal = PeerGarbled("the status {status} is not that of an answer", status=self.status)
        elif coding not in {b"", b"identity"}:
            self.refusal = PeerGarbled("the answer is compressed, though this was refused beforehand")
        elif framing is not None and (length is not None or framing.strip().lower() != b"chunked"):
            self.refusal = PeerGarbled("the answer tells its length in two ways")
        elif length is not None and int(length) > self._body_limit:
            self._refuse_size()
        return framing is None and length is None and self.status not in {_NO_CONTENT, _NOT_MODIFIED}

    def on_body(self, data: bytes) -> None:
        if self.complete or self.refusal is not None:
            return
        self.body += data
        self._held.bytes += len(data)
        if len(self.body) > self._body_limit:
            self._refuse_size()
        elif self._held.bytes > MOST_HELD and len(self.body) > SMALL:
            self.refusal = PeerGarbled("too many large answers are coming in at once")
        if self.refusal is not None:
            self.let_go()

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks > MOST_CHUNKS and self.refusal is None and not self.complete:
            self.refusal = PeerGarbled("the answer comes in too many pieces")
            self.let_go()

    def let_go(self) -> None:
        """It is no longer in the making."""
        self._held.bytes -= len(self.body)
        self.body = bytearray()

    def on_message_complete(self) -> None:
        if self.head_done and not self.complete and self.refusal is None:
            self.complete = True
            self._kept_alive = self._parser.should_keep_alive()  # only now: the parser forgets it at once


def _plain(error: Exception) -> str:
    """The parser's own words, in ASCII and without the quotes of another language's exceptions."""
    text = str(error) or type(error).__name__
    return "".join(c if " " <= c <= "~" and c not in "{}" else "?" for c in text)[:120]


class Connection(asyncio.Protocol):
    """A connection to `peer` (an IP). One `exchange` at a time; `idle` when it may serve another.

    `lost` is called once when the connection is gone, and `gone` is then done.
    """

    def __init__(
        self, peer: str, head_limit: int, body_limit: int, lost: Callable[[Connection], None], held: Held
    ) -> None:
        self.peer = peer
        self._limits = (head_limit, body_limit, held)
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._answer: _Answer | None = None
        self._done: asyncio.Future[Reply] | None = None
        self._used = False
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed = False
        self.idle_since = 0.0

    async def exchange(self, request: bytes) -> Reply:
        """Send a whole request and wait for its whole answer.

        Raises PeerGarbled, PeerSilent, or StaleConnection when a used connection turns out to have been closed.
        Cancelled, it ends the connection: half an answer is nobody's.
        """
        transport = self._transport
        if transport is None or self.closed or transport.is_closing():
            raise StaleConnection
        answer = self._answer = _Answer(*self._limits)
        self._done = asyncio.get_running_loop().create_future()
        transport.write(request)
        try:
            return await self._done
        finally:
            if not self._done.done() or self._done.cancelled():
                self.abort()
            answer.let_go()
            self._answer = self._done = None
            self._used = True

    def abort(self) -> None:
        """End the connection at once, whatever is still on its way."""
        if not self.closed and self._transport is not None:
            self.closed = True
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop: the connection stands."""
        self._transport = cast("asyncio.Transport", transport)  # asyncio's contract for stream sockets

    def data_received(self, data: bytes) -> None:
        """Called by the event loop: some bytes have come."""
        answer = self._answer
        if answer is None or answer.complete:
            self.abort()  # nobody asked
            return
        answer.feed(data)
        self._judge(answer)

    def eof_received(self) -> bool:
        """Called by the event loop: the other side will send no more; neither shall we."""
        if self._answer is not None:
            self._answer.end()
            self._judge(self._answer)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop: the connection is gone, with an error or (None) in good order."""
        self.closed = True
        answer, done = self._answer, self._done
        if answer is not None and done is not None and not done.done():
            if exc is None:
                answer.end()
            if answer.complete:
                self._judge(answer)
            elif self._used and not answer.begun:
                done.set_exception(StaleConnection())
            else:
                done.set_exception(PeerSilent("the connection was closed before the end of the answer"))
        self.gone.set_result(None)
        self._lost(self)

    def _judge(self, answer: _Answer) -> None:
        """Give the answer out when it is whole, or say why it cannot be taken."""
        done = self._done
        if done is None or done.done():
            return
        if answer.refusal is not None:
            done.set_exception(answer.refusal)
            self.abort()
        elif answer.complete:
            done.set_result(Reply(answer.status, answer.headers, bytes(answer.body), self.peer))
            if not answer.reusable:
                self.abort()
