"""Reads the answers of Archives, long ones one after the other; decides for how long an answer is cached.

A list may have some thousand pairs. To read it takes some milliseconds, and then it occupies a megabyte. So only some
long answers may wait or be in use; others are not read, through no fault of the Archive. See T10: slow or huge answers.
"""

from __future__ import annotations

import asyncio
import re
import weakref
from typing import TYPE_CHECKING, Final

from ibi.errors import IbiError, ParseError, PeerBusy, PeerGarbled, QueryRefused, TextTooLong
from ibi.http.client import too_large
from ibi.protocol import vocabulary
from ibi.protocol.url_list import UrlList

if TYPE_CHECKING:
    from ibi.errors import PeerError
    from ibi.http.client import Reply


MOST_UNREAD: Final = 8 * 1024 * 1024
"""Bytes of long answers that wait to be read; further ones are not read."""

MOST_READ: Final = 16 * 1024 * 1024
"""Bytes of memory for the long lists that were read and are still in use, about twelve of the longest."""

LONGEST_LIFETIME: Final = 3600
"""Seconds for which an answer is reused at most, even if its Archive allows more."""

REFUSALS: Final = frozenset({400, 413, 414, 429, 431})
"""Statuses that blame the query and say nothing of the Archive: malformed, too long, or too many queries."""

_MAX_AGE = re.compile(r"(?:^|,)\s*max-age=([0-9]{1,9})\s*(?:$|,)", re.ASCII | re.IGNORECASE)
_NEVER = re.compile(r"(?:^|,)\s*(?:no-store|no-cache|private)\b", re.ASCII | re.IGNORECASE)
_OK = 200
_PLAIN = b"text/plain"
_LARGE = 2 * 1024  # an answer of more bytes is long
_BYTES_OF_A_PAIR = 256  # in a dict, with its name and one short word
_BYTES_OF_A_WORD = 64  # of a value that has several words
_MUCH = 64 * 1024  # a list that takes more bytes in memory counts towards MOST_READ


def body_of(reply: Reply) -> bytes:
    """Return the body of a reply, if the reply is an answer: status 200 and text/plain (MSG-10: a plain pair list).

    Raises PeerBusy if the Archive asks for a pause, QueryRefused if it refuses this query, or PeerGarbled.
    """
    if reply.status != _OK:
        raise failure_of_status(reply, refused=reply.status in REFUSALS)
    if reply.headers.get(b"content-type") != _PLAIN and reply.media_type != _PLAIN:
        raise PeerGarbled("the answer is not text/plain")
    return reply.body


def failure_of_status(reply: Reply, *, refused: bool) -> PeerGarbled:
    """Return the error for a status that no answer has; `refused`: whether it blames the query alone."""
    if (seconds := reply.requested_pause) is not None:
        return asks_for_pause(seconds)
    if refused:
        return QueryRefused("the answer has the status {status}", status=reply.status)
    return PeerGarbled("the answer has the status {status}", status=reply.status)


def asks_for_pause(seconds: int) -> PeerBusy:
    """Return the error for an Archive or resolver that asks for a pause of so many seconds."""
    return PeerBusy("it asks for a pause of {seconds} s", seconds)


def failure_of(error: PeerError | ParseError) -> IbiError:
    """Return why a reply is no answer; a ParseError is replaced, since it holds the whole reply (T10: slow answers)."""
    if isinstance(error, TextTooLong):
        return QueryRefused(error.problem, **error.details)
    if isinstance(error, ParseError):
        reason = IbiError(error.problem, **error.details)
        return IbiError("the answer is not a pair list: {reason}", reason=reason)
    return error


def lifetime(reply: Reply, answer: UrlList) -> int:
    """Return the seconds for which an answer may be reused (note 1: reuse of answers).

    0 unless the answer has both max-age and the pair `ACKNOWLEDGMENT_BATCH`.
    """
    allowed = reply.headers.get(b"cache-control")
    if allowed is None or not answer.pairs:
        return 0
    control = allowed.decode("latin-1")
    found = _MAX_AGE.search(control)
    if found is None or _NEVER.search(control):
        return 0
    is_reusable = answer.pairs.get(vocabulary.ACKNOWLEDGMENT_BATCH) == "yes"
    return min(int(found[1]), LONGEST_LIFETIME) if is_reusable else 0


class AnswerReader:
    """Reads the answers of one process."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self.unread = 0
        """Bytes of the long answers that wait to be read."""
        self.held = 0
        """Bytes of memory of the long lists that are still in use."""

    def at_once(self, body: bytes) -> UrlList | None:
        """Read a short answer; return None for a long one. Raises as `read`."""
        if len(body) > _LARGE:
            return None
        answer = UrlList.read(body)
        size = len(answer.pairs) * _BYTES_OF_A_PAIR  # its words are too few to count
        return answer if size <= _MUCH else self._hold(answer, size)

    async def read(self, body: bytes) -> UrlList:
        """Read a long answer. Raises ParseError, and ResponseNotRead where too many wait or are in use."""
        if self.unread + len(body) > MOST_UNREAD:
            raise too_large()
        self.unread += len(body)
        try:
            async with self._one:
                await asyncio.sleep(0)
                answer = UrlList.read(body)
                self._hold(answer, _size(answer, len(body)))
                await asyncio.sleep(0)
                answer.offered()  # cached now: to compute it for all answers at once would block the loop
                answer.relations_of(vocabulary.IBI)
                return answer
        finally:
            self.unread -= len(body)

    def _hold(self, answer: UrlList, size: int) -> UrlList:
        """Count a list of about `size` bytes, if it is long, until it is no longer in use."""
        if size > _MUCH:
            if self.held + size > MOST_READ:
                raise too_large()
            self.held += size
            weakref.finalize(answer, self._let_go, size)
        return answer

    def _let_go(self, size: int) -> None:
        self.held -= size


def _size(answer: UrlList, body: int) -> int:
    """Return about how many bytes a list takes in memory that was read from a body of `body` bytes."""
    words = sum(len(value) for value in answer.pairs.values() if not isinstance(value, str))
    return body + len(answer.pairs) * _BYTES_OF_A_PAIR + words * _BYTES_OF_A_WORD
