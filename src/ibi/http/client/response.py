"""What comes back over one connection: one answer after the other, every byte of it counted (threat T10).

The answer must be one plain HTTP/1.1 message: no 1xx before it, nothing compressed, one way of giving its length,
nothing after it. Whatever departs from that ends the connection, for a byte too many could be read as the beginning
of the answer to another request (threat T34).

Short answers are interned: the same bytes mean the same, and are parsed once. Of a hundred Archives that are asked
for an item, ninety-nine send the same few words that they do not know it. Only what has come through the parser is
interned, and only an answer that came whole and alone, after which its connection could carry another request: so it
makes no difference, but for the time, whether an answer is found there.
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
"""Pieces that an answer may come in."""
MOST_LINES = 128
"""Lines of the head of an answer, and after its pieces."""
MOST_HELD = 64 * 1024 * 1024
"""Bytes of unfinished answers of one client; beyond that only small ones are taken."""
SMALL = 16 * 1024
"""Bytes that an answer may have even then."""
LONGEST_REQUESTED_PAUSE: Final = 60
"""Seconds of the longest pause that a peer gets because it asks for one (Retry-After)."""

_PIECE, _PIECE_OF_HEAD = 4096, 1024  # bytes that are taken apart at a time
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


NONE: Final = Reply(0, {}, b"", "")
"""Stands for an answer where there is none yet."""


@lru_cache(maxsize=64)
def _media_type(value: bytes) -> bytes:
    return value.partition(b";")[0].strip().lower()


class ReplyParser:
    """Parses the answers of one connection, one after the other; httptools calls its methods.

    `received`: bytes of the present one that have come; `refusal` is why it cannot be taken, once known. When it is
    whole, `kept_alive` without `surplus` says that the connection may carry another request.
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
        """Return the whole answer; nothing of it stays here, and what comes is the next one."""
        reply = Reply(self._status, self._headers, bytes(self._body), peer)
        self._shared.unfinished -= self._size
        self._next()
        return reply

    def feed(self, data: bytes) -> None:
        """Parse some bytes, in small pieces: after each it is seen whether the answer is still to be taken."""
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
            # The words of the parser in ASCII, without braces, which messages fill in.
            text = str(error) or type(error).__name__
            reason = "".join(c if " " <= c <= "~" and c not in "{}" else "?" for c in text)[:120]
            if self.complete:
                self.surplus = True
            elif self.refusal is None:
                self.refusal = PeerGarbled("the answer is not HTTP: {reason}", reason=reason)
        if self.complete or self.refusal is not None:
            return
        if not self._head_done and self.received > self._head_limit:
            self.refusal = PeerGarbled(
                "the head of the answer is longer than {limit} bytes", limit=self._head_limit
            )
        elif self.received > self._head_limit + 2 * self._body_limit:
            self._refuse_size()  # chunk sizes and trailers are bytes, too

    def end(self) -> None:
        """End the answer: no more bytes will come."""
        if self._until_close and self._head_done and self.refusal is None:
            self.complete = True

    def _refuse_size(self) -> None:
        self.refusal = QueryRefused("the answer is larger than {limit} bytes", limit=self._body_limit)

    # The parser calls these.

    def on_message_begin(self) -> None:
        """Begin an answer; a second one is a byte too many."""
        if self.complete:
            self.surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one line of the head, or one that follows the last piece."""
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
        """Judge the head, which is whole; refuse what may not come."""
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
        # Then only the end of the connection ends the answer.
        self._until_close = framing is None and length is None and status not in {_NO_CONTENT, _NOT_MODIFIED}

    def on_body(self, data: bytes) -> None:
        """Keep some bytes of the body, as far as they may be held."""
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
        elif self._shared.unfinished > MOST_HELD and self._size > SMALL:
            self.refusal = too_large()
        if self.refusal is not None:
            self.drop()

    def on_chunk_header(self) -> None:
        """Count a piece of the body."""
        self._chunks += 1
        if self._chunks > MOST_CHUNKS and self.refusal is None and not self.complete:
            self.refusal = QueryRefused("the answer comes in too many pieces")
            self.drop()

    def drop(self) -> None:
        """Drop what has come of the body."""
        self._shared.unfinished -= self._size
        self._size = 0
        self._body = b""

    def on_message_complete(self) -> None:
        """Note that the answer is whole."""
        if self._head_done and not self.complete and self.refusal is None:
            self.complete = True
            self.kept_alive = self._parser.should_keep_alive()  # only now: the parser forgets it at once


def too_large() -> ResponseNotRead:
    """Return why an answer was not read here, though it is not too large by itself."""
    return ResponseNotRead("too many large answers are coming in at once")


LONGEST: Final = 1_024
"""Bytes of an answer that is interned."""
LONGEST_INTERNED_BODY: Final = 64
"""Bytes of its body: a longer one will hardly come again."""
MOST: Final = 256
"""Interned answers; when there are more, all are dropped."""


class InternedReplies:
    """The short answers of one client, by their bytes."""

    def __init__(self) -> None:
        self._known: dict[bytes, Reply] = {}
        self.find = self._known.get
        """Returns the answer that these bytes are, of whichever peer; None where they were not seen."""

    def put(self, data: bytes, reply: Reply) -> None:
        """Intern an answer: these bytes, and nothing before or after them, were it."""
        if len(data) <= LONGEST and len(reply.body) <= LONGEST_INTERNED_BODY:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[data] = reply


class SharedState:
    """What all connections of one client share. `unfinished`: bytes of answers that have not come whole."""

    def __init__(self) -> None:
        self.unfinished = 0
        self.interned = InternedReplies()
        self.cpu_budget = CpuBudget()
