"""Large answers, parsed a few at a time, so that nothing else of this process waits for all of them (threat T29).

A list of as many pairs as there may be takes some milliseconds to read, and a round asks hundreds of Archives at once.
So a piece of a large answer comes in its turn; until then nothing more is read from its connection. Small answers do
not stand in that queue.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from itertools import cycle
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    _Queue = deque[tuple[Callable[[bytes | None], None], bytes | None]]

LARGE: Final = 4 * 1024
"""Bytes up to which an answer is parsed as it comes."""

A_TURN: Final = 0.005
"""Seconds after which no further piece is parsed in the same turn of the event loop."""

MOST_WAITING: Final = 16 * 1024 * 1024
"""Bytes of pieces that wait for their turn."""


class CpuBudget:
    """The budget of one client, turn by turn of its event loop. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._left = A_TURN
        self._started: _Queue = deque()
        self._unstarted: _Queue = deque()
        self._queues = cycle((self._started, self._unstarted))
        self._ticking = False
        self.waiting = 0
        """Bytes of pieces in it."""

    def spend(self, parse: Callable[[bytes | None], None], data: bytes | None) -> bool:
        """Parse a piece in the time of this turn; False where none is left: then it has to `queue`."""
        if self._left <= 0:
            return False
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick)
        before = self._clock()
        parse(data)
        self._left -= self._clock() - before
        return True

    def queue(self, parse: Callable[[bytes | None], None], data: bytes, *, started: bool) -> None:
        """Have `parse` called with a piece to which nothing was granted, when it is its turn.

        Where too many bytes wait, the piece is dropped, and `parse` is called with None in its turn: to refuse an
        answer takes time, too.
        """
        # Answers that are `started` have a queue of their own, and every second turn: so fewer large answers are held
        # unfinished, and none waits for ever.
        queue = self._started if started else self._unstarted
        if self.waiting + len(data) > MOST_WAITING:
            queue.append((parse, None))
            return
        self.waiting += len(data)
        queue.append((parse, data))

    def _tick(self) -> None:
        # Scheduled before anything is parsed: what waits here goes on before what arrives meanwhile.
        self._left = A_TURN
        if not (self._started or self._unstarted):
            self._ticking = False
            return
        asyncio.get_running_loop().call_soon(self._tick)
        while self._left > 0 and (self._started or self._unstarted):
            queue = next(self._queues)
            if queue:
                parse, data = queue.popleft()
                self.waiting -= len(data or b"")
                self.spend(parse, data)
