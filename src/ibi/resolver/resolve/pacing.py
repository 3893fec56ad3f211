"""What keeps the event loop free while many Archives are asked: in which turns queries leave and answers are read.

`Pacer` (threat T29). To send a query takes some hundredths of a millisecond, and a round may ask all Archives. So the
queries of all such rounds stand in one queue; a few are sent, then the loop does whatever else is ready, and so on.
While a round waits for likely holders, the loop has a millisecond for that: however many rounds a flood begins, it then
never takes more than about half of the process. Without other work, nothing is held back.

`LoopLag` (threat T37). Where the event loop itself was late, no Archive is to blame for silence.

`AnswerReader` (threat T10). A list may have some thousand pairs, which take some milliseconds to read and, once read, a
megabyte each. So long answers are read one after the other, and only so many wait for that or are in use at once;
whatever comes beyond that is not read. That is a limit of ours, and says nothing of the Archive. `reuse_seconds` tells
whether an answer may be used again.
"""

from __future__ import annotations

import asyncio
import math
import re
import weakref
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ibi.errors import PeerGarbled
from ibi.http.client import too_large
from ibi.protocol import vocabulary as say
from ibi.protocol.url_list import UrlList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ibi.http.client import Reply


A_TURN: Final = 32
"""Questions that go out at a time."""

REST: Final = 0.001
"""Seconds until the next ones go, while others are there."""

_Step = TypeVar("_Step")


class Pacer(Generic[_Step]):
    """The line of one event loop; `go` is called with those whose turn it is, A_TURN at a time at most.

    `others` tells whether a round waits whose queries are not in it.
    """

    def __init__(
        self, go: Callable[[Sequence[_Step]], None], others: Callable[[], bool] = lambda: True
    ) -> None:
        self._go = go
        self._others = others
        self._line: deque[_Step] = deque()
        self._left = A_TURN
        self._ticking = False

    def add(self, steps: Iterable[_Step]) -> None:
        """Let them go when it is their turn, which may be at once."""
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick)
        self._line.extend(steps)
        self._let_go()

    def _let_go(self) -> None:
        line = self._line
        turn = [line.popleft() for _ in range(min(self._left, len(line)))]
        self._left -= len(turn)
        if turn:
            self._go(turn)

    def _tick(self) -> None:
        """The next ones may go."""
        self._left = A_TURN
        try:
            self._let_go()
        finally:  # whatever became of these, the next ones have their turn
            self._ticking = self._left < A_TURN
            if self._ticking and self._others():
                asyncio.get_running_loop().call_later(REST, self._tick)
            elif self._ticking:
                asyncio.get_running_loop().call_soon(self._tick)


_LATE: Final = 0.25  # seconds: when this loop was so late, a time-out says nothing of the Archive


class LoopLag:
    """Whether the event loop has been late: then time-outs come of this machine, not of others.

    It beats while `wanted` returns true, and stops at the first beat at which it does not.
    """

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted
        self.beat: asyncio.TimerHandle | None = None
        """The next beat; None while it has stopped."""
        self._late_at = -math.inf

    def begin(self) -> None:
        """Beat from now on; what came before does not count."""
        # To be called only where it has stopped or its beat is overdue, so that most queries cost no call.
        if self.beat is not None:
            self.beat.cancel()
        self._next()

    def was_late(self, since: float) -> bool:
        """Whether it has been late since a time of the loop."""
        self._feel()
        return self._late_at >= since

    def _next(self) -> None:
        self.beat = asyncio.get_running_loop().call_later(_LATE, self._again)

    def _again(self) -> None:
        self._feel()
        if self._wanted():
            self._next()
        else:
            self.beat = None

    def _feel(self) -> None:
        now = asyncio.get_running_loop().time()
        if self.beat is not None and now > self.beat.when() + _LATE:
            self._late_at = now


MOST_UNREAD: Final = 8 * 1024 * 1024
"""Bytes of long answers that wait to be read."""

MOST_READ: Final = 16 * 1024 * 1024
"""Bytes that long lists may take that were read and are still needed, about twelve of the longest."""

LONGEST_REUSE: Final = 3600
"""Seconds for which an answer is used again at most, whatever its Archive allows."""

_MAX_AGE = re.compile(r"(?:^|,)\s*max-age=([0-9]{1,9})\s*(?:$|,)", re.ASCII | re.IGNORECASE)
_NEVER = re.compile(r"(?:^|,)\s*(?:no-store|no-cache|private)\b", re.ASCII | re.IGNORECASE)
_OK = 200
_PLAIN = b"text/plain"
_LARGE = 2 * 1024  # bytes of a long answer
_BYTES_OF_A_PAIR = 256  # in a dict, with its name and one short word
_BYTES_OF_A_WORD = 64  # in braces
_MUCH = 64 * 1024  # bytes of a list, read, that is counted


def body_of(reply: Reply) -> bytes:
    """The body of an answer that is one (MSG-10). Raises PeerGarbled."""
    if reply.status != _OK:
        raise PeerGarbled("the answer has the status {status}", status=reply.status)
    if reply.headers.get(b"content-type") != _PLAIN and reply.media_type != _PLAIN:
        raise PeerGarbled("the answer is not text/plain")
    return reply.body


def reuse_seconds(reply: Reply, answer: UrlList) -> int:
    """For how long an answer may be used again (note 1): its Archive must say so twice."""
    allowed = reply.headers.get(b"cache-control")
    if allowed is None or not answer.pairs:
        return 0
    control = allowed.decode("latin-1")
    found = _MAX_AGE.search(control)
    if found is None or _NEVER.search(control):
        return 0
    return min(int(found[1]), LONGEST_REUSE) if answer.pairs.get(say.ACKNOWLEDGMENT_BATCH) == "yes" else 0


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
