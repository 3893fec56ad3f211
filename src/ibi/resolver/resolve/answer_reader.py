"""Reading what Archives answer: long answers one after the other, and for how long one may be used again (T10).

A list may have some thousand pairs, which take some milliseconds to read and, once read, a megabyte each. So only so
many long answers wait to be read or are in use at once; whatever comes beyond that is not read. That is a limit of
ours, and says nothing of the Archive.
"""

from __future__ import annotations

import asyncio
import re
import weakref
from typing import TYPE_CHECKING, Final

from ibi.errors import IbiError, ParseError, PeerBusy, PeerGarbled, QueryRefused, TextTooLong
from ibi.http.client import too_large
from ibi.protocol import vocabulary as say
from ibi.protocol.url_list import UrlList

if TYPE_CHECKING:
    from ibi.errors import PeerError
    from ibi.http.client import Reply


MOST_UNREAD: Final = 8 * 1024 * 1024
"""Bytes of long answers that wait to be read."""

MOST_READ: Final = 16 * 1024 * 1024
"""Bytes that long lists may take that were read and are still needed, about twelve of the longest."""

LONGEST_LIFETIME: Final = 3600
"""Seconds for which an answer is used again at most, whatever its Archive allows."""

REFUSALS: Final = frozenset({400, 413, 414, 429, 431})
"""Statuses that tell of the query alone: it is odd, too long, or one too many."""

_MAX_AGE = re.compile(r"(?:^|,)\s*max-age=([0-9]{1,9})\s*(?:$|,)", re.ASCII | re.IGNORECASE)
_NEVER = re.compile(r"(?:^|,)\s*(?:no-store|no-cache|private)\b", re.ASCII | re.IGNORECASE)
_OK = 200
_PLAIN = b"text/plain"
_LARGE = 2 * 1024  # bytes of a long answer
_BYTES_OF_A_PAIR = 256  # in a dict, with its name and one short word
_BYTES_OF_A_WORD = 64  # in braces
_MUCH = 64 * 1024  # bytes of a list, read, that is counted


def body_of(reply: Reply) -> bytes:
    """The body of an answer that is one (MSG-10).

    Raises PeerGarbled: PeerBusy where the Archive asks for a pause, QueryRefused where it does not take this query.
    """
    if reply.status != _OK:
        raise failure_of_status(reply, refused=reply.status in REFUSALS)
    if reply.headers.get(b"content-type") != _PLAIN and reply.media_type != _PLAIN:
        raise PeerGarbled("the answer is not text/plain")
    return reply.body


def failure_of_status(reply: Reply, *, refused: bool) -> PeerGarbled:
    """What a status means that is none of an answer; `refused`: whether it tells of the query alone."""
    if (seconds := reply.requested_pause) is not None:
        return asks_for_pause(seconds)
    if refused:
        return QueryRefused("the answer has the status {status}", status=reply.status)
    return PeerGarbled("the answer has the status {status}", status=reply.status)


def asks_for_pause(seconds: int) -> PeerBusy:
    """Return why an Archive or resolver is not asked for so long."""
    return PeerBusy("it asks for a pause of {seconds} s", seconds)


def failure_of(error: PeerError | ParseError) -> IbiError:
    """Return why a reply is no answer, without the reply itself, which a ParseError holds (T10)."""
    if isinstance(error, TextTooLong):
        return QueryRefused(error.problem, **error.details)
    if isinstance(error, ParseError):
        reason = IbiError(error.problem, **error.details)
        return IbiError("the answer is not a pair list: {reason}", reason=reason)
    return error


def lifetime(reply: Reply, answer: UrlList) -> int:
    """For how long an answer may be used again (note 1): its Archive must give max-age and offer a batch key."""
    allowed = reply.headers.get(b"cache-control")
    if allowed is None or not answer.pairs:
        return 0
    control = allowed.decode("latin-1")
    found = _MAX_AGE.search(control)
    if found is None or _NEVER.search(control):
        return 0
    return min(int(found[1]), LONGEST_LIFETIME) if answer.pairs.get(say.ACKNOWLEDGMENT_BATCH) == "yes" else 0


class AnswerReader:
    """Reads the answers of one process."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self.unread = 0
        """Bytes of long answers that wait."""
        self.held = 0
        """Bytes of long lists that are still in use."""

    def at_once(self, body: bytes) -> UrlList | None:
        """Read an answer, if that takes no time; None for a long one. Raises as `read`."""
        if len(body) > _LARGE:
            return None
        answer = UrlList.read(body)
        size = len(answer.pairs) * _BYTES_OF_A_PAIR  # its words are too few to count
        return answer if size <= _MUCH else self._hold(answer, size)

    async def read(self, body: bytes) -> UrlList:
        """Read a long answer. Raises ParseError, and ResponseNotRead where too many long ones are in hand."""
        if self.unread + len(body) > MOST_UNREAD:
            raise too_large()
        self.unread += len(body)
        try:
            async with self._one:
                await asyncio.sleep(0)
                answer = UrlList.read(body)
                self._hold(answer, _size(answer, len(body)))
                await asyncio.sleep(0)
                answer.offered()  # now, or a caller that weighs all answers would delay the others
                answer.relations_of(say.IBI)
                return answer
        finally:
            self.unread -= len(body)

    def _hold(self, answer: UrlList, size: int) -> UrlList:
        """Count a long list, of about so many bytes, until it is no longer in use."""
        if size > _MUCH:
            if self.held + size > MOST_READ:
                raise too_large()
            self.held += size
            weakref.finalize(answer, self._let_go, size)
        return answer

    def _let_go(self, size: int) -> None:
        self.held -= size


def _size(answer: UrlList, body: int) -> int:
    """About how many bytes a list takes that was read from so many."""
    words = sum(len(value) for value in answer.pairs.values() if not isinstance(value, str))
    return body + len(answer.pairs) * _BYTES_OF_A_PAIR + words * _BYTES_OF_A_WORD
