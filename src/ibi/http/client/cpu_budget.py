"""Limits the time for parsing large answers in one turn of the event loop, so that other requests go on.

The longest list of pairs takes milliseconds to read, and a round asks hundreds of Archives. So pieces of large
answers wait for their turn, and nothing more is read from their connections. Small answers do not wait. See T29:
costly requests.
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
"""Seconds of parsing in one turn of the event loop, after which further pieces wait."""

MOST_WAITING: Final = 16 * 1024 * 1024
"""Bytes of pieces that wait for their turn."""


class CpuBudget:
    """The time that one client spends on large answers in a turn of its event loop. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._left = A_TURN
        self._started: _Queue = deque()
        self._unstarted: _Queue = deque()
        self._queues = cycle((self._started, self._unstarted))
        self._ticking = False
        self.waiting = 0
        """Bytes of the pieces in the queues."""

    def spend(self, parse: Callable[[bytes | None], None], data: bytes | None) -> bool:
        """Parse a piece in the time of this turn; False if no time is left: then the piece has to `queue`."""
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
        """Have `parse` called in its turn with a piece for which `spend` had no time.

        If too many bytes wait, the piece is dropped, and `parse` is called with None, also in its turn,
        because to refuse an answer takes time, too.
        """
        # Answers that are `started` have a queue of their own, which is served every second time: so fewer
        # answers are held unfinished, and none waits for ever.
        queue = self._started if started else self._unstarted
        if self.waiting + len(data) > MOST_WAITING:
            queue.append((parse, None))
            return
        self.waiting += len(data)
        queue.append((parse, data))

    def _tick(self) -> None:
        # Scheduled before anything is parsed, so that waiting pieces go on before new ones.
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
