"""Parses the answers that come over one connection, one after the other, and counts every byte (T10: huge answers).

An answer must be one plain HTTP/1.1 message: no 1xx before it, not compressed, its length given in one way, nothing
after it. Any other answer ends the connection, because a byte too many could be read as the beginning of the answer
to another request (T34: mixed-up answers).

Short answers are interned: the same bytes mean the same, and are parsed once. Of a hundred Archives that are
asked for an item, ninety-nine send the same few words that they do not know it. An answer is interned only if
the parser accepted it, if it came whole and alone, and if its connection could carry another request. So
interning saves time, and changes nothing else.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

import httptools

from ibi.errors import PeerGarbled, QueryRefused, ResponseNotRead
from ibi.http.client.cpu_budget import CpuBudget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.errors import PeerError


MOST_CHUNKS = 1_024
"""Chunks that an answer may come in."""
MOST_LINES = 128
"""Header lines of an answer, its trailers included."""
MOST_HELD = 64 * 1024 * 1024
"""Bytes of unfinished answers that one client holds; beyond that it reads only small answers."""
SMALL_ANSWER = 16 * 1024
"""Bytes that an answer may have even beyond MOST_HELD."""
LONGEST_REQUESTED_PAUSE: Final = 60
"""Seconds of the longest pause that is granted to a peer that asks for one (Retry-After)."""

_PIECE = 4096  # bytes of a body that are parsed at a time
_PIECE_OF_HEAD = 1024  # bytes of a head that are parsed at a time
_OK = 200
_NO_CONTENT = 204
_NOT_MODIFIED = 304
_LATER = frozenset({429, 503})


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

    @property
    def requested_pause(self) -> int | None:
        """Seconds of Retry-After, at most LONGEST_REQUESTED_PAUSE, where the status is 429 or 503; else None."""
        text = self.headers.get(b"retry-after", b"").strip()
        if self.status not in _LATER or not text:
            return None
        if text.isdigit():
            return min(int(text[:9]), LONGEST_REQUESTED_PAUSE)
        try:  # a date is compared with that of the answer itself
            dates = [parsedate_to_datetime(each.decode("latin-1")) for each in (text, self.headers[b"date"])]
            seconds = (dates[0] - dates[1]).total_seconds()
        except (KeyError, IndexError, TypeError, ValueError, OverflowError):
            return None
        return max(0, min(ceil(seconds), LONGEST_REQUESTED_PAUSE))


NO_REPLY: Final = Reply(0, {}, b"", "")
"""Stands for an answer while there is none yet."""


@lru_cache(maxsize=64)
def _media_type(value: bytes) -> bytes:
    return value.partition(b";")[0].strip().lower()


class ReplyParser:
    """Parses the answers of one connection, one after the other; httptools calls its methods.

    `received`: bytes of the present answer that have come; `refusal`: why it is refused, once known. After a
    whole answer, the connection may carry another request if `kept_alive` is set and `surplus` is not.
    """

    def __init__(self, head_limit: int, body_limit: int, shared: SharedState) -> None:
        self._shared = shared
        self._head_limit = head_limit
        self._body_limit = body_limit
        self._parser = httptools.HttpResponseParser(self)
        self._next()

    def _next(self) -> None:
        self.received = self._size = self._chunks = self._lines = 0
        self._until_close = self.kept_alive = self._head_done = False
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._body: bytes | bytearray = b""
        self.complete = self.surplus = False
        self.refusal: PeerError | None = None

    def take(self, peer: str) -> Reply:
        """Return the whole answer, and begin the next one."""
        reply = Reply(self._status, self._headers, bytes(self._body), peer)
        self._shared.unfinished -= self._size
        self._next()
        return reply

    def feed(self, data: bytes) -> None:
        """Parse bytes in small pieces; stop after the piece that completes the answer, or has it refused."""
        at = 0
        while at < len(data):
            self.surplus = self.complete
            if self.surplus:
                return
            piece = data[at : at + (_PIECE if self._head_done else _PIECE_OF_HEAD)]
            at += len(piece)
            self.received += len(piece)
            try:
                self._parser.feed_data(piece)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
                self._stop_at(error)
            if self.refusal is not None:
                return
            if self.complete:
                continue
            if not self._head_done and self.received > self._head_limit:
                problem = "the head of the answer is longer than {limit} bytes"
                self.refusal = PeerGarbled(problem, limit=self._head_limit)
                return
            if self.received > self._head_limit + 2 * self._body_limit:
                self._refuse_size()  # chunk sizes and trailers are bytes, too
                return

    def _stop_at(self, error: Exception) -> None:
        """Take what the parser refused for surplus bytes, if the answer is complete; otherwise refuse the answer."""
        # The parser's words in ASCII, without braces, which would be taken for the name of a detail.
        text = str(error) or type(error).__name__
        reason = "".join(c if " " <= c <= "~" and c not in "{}" else "?" for c in text)[:120]
        if self.complete:
            self.surplus = True
        elif self.refusal is None:
            self.refusal = PeerGarbled("the answer is not HTTP: {reason}", reason=reason)

    def end(self) -> None:
        """End the answer: no more bytes will come."""
        if self._until_close and self._head_done and self.refusal is None:
            self.complete = True

    def _refuse_size(self) -> None:
        self.refusal = QueryRefused("the answer is larger than {limit} bytes", limit=self._body_limit)

    # The parser calls these.

    def on_message_begin(self) -> None:
        """Begin an answer; the beginning of a second one is surplus."""
        if self.complete:
            self.surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep one header line; count, but do not keep, one trailer."""
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
        """Judge the complete head; refuse an answer that is not plain, or too large."""
        if self.complete or self._head_done:
            return
        self._head_done = True
        headers, status = self._headers, self._parser.get_status_code()
        self._status = status
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
        # Without framing and length, only the end of the connection ends the answer.
        self._until_close = framing is None and length is None and status not in {_NO_CONTENT, _NOT_MODIFIED}

    def on_body(self, data: bytes) -> None:
        """Keep some bytes of the body, or refuse the answer if they are too many."""
        if self.complete or self.refusal is not None:
            return
        if not self._size:
            self._body = data
        elif isinstance(self._body, bytearray):
            self._body += data
        else:
            self._body = bytearray(self._body + data)
        self._size += len(data)
        self._shared.unfinished += len(data)
        if self._size > self._body_limit:
            self._refuse_size()
        elif self._shared.unfinished > MOST_HELD and self._size > SMALL_ANSWER:
            self.refusal = too_large()
        if self.refusal is not None:
            self.drop()

    def on_chunk_header(self) -> None:
        """Count a chunk of the body."""
        self._chunks += 1
        if self._chunks > MOST_CHUNKS and self.refusal is None and not self.complete:
            self.refusal = QueryRefused("the answer comes in too many pieces")
            self.drop()

    def drop(self) -> None:
        """Drop the bytes of the body that have come."""
        self._shared.unfinished -= self._size
        self._size = 0
        self._body = b""

    def on_message_complete(self) -> None:
        """Note that the answer is whole."""
        if self._head_done and not self.complete and self.refusal is None:
            self.complete = True
            self.kept_alive = self._parser.should_keep_alive()  # only now: the parser forgets it at once


def too_large() -> ResponseNotRead:
    """Return the error of an answer that is not too large by itself, but came with too many others."""
    return ResponseNotRead("too many large answers are coming in at once")


LONGEST_INTERNED: Final = 1_024
"""Bytes of the longest answer that is interned."""
LONGEST_INTERNED_BODY: Final = 64
"""Bytes of the longest body that is interned: a longer one will hardly come again."""
MOST_INTERNED: Final = 256
"""Interned answers; when there are more, all are dropped."""


class InternedReplies:
    """The short answers of one client, by their bytes."""

    def __init__(self) -> None:
        self._known: dict[bytes, Reply] = {}
        self.find = self._known.get
        """Returns the answer with these bytes, from any peer; None if it is not interned."""

    def put(self, data: bytes, reply: Reply) -> None:
        """Intern an answer, if it is short; it consisted of exactly these bytes."""
        if len(data) <= LONGEST_INTERNED and len(reply.body) <= LONGEST_INTERNED_BODY:
            if len(self._known) >= MOST_INTERNED:
                self._known.clear()
            self._known[data] = reply


class SharedState:
    """What all connections of one client share. `unfinished`: bytes of answers that are not yet complete."""

    def __init__(self) -> None:
        self.unfinished = 0
        self.interned = InternedReplies()
        self.cpu_budget = CpuBudget()
