"""Large answers, taken apart a few at a time, so that nobody else of this process waits for all (threat T29).

A list of as many pairs as there may be takes some milliseconds to read, and a round asks hundreds of Archives at once.
So a piece of a large answer comes in its turn; until then nothing more is read from its connection. Who waits for a
small answer does not stand in that line.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from itertools import cycle
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    _Line = deque[tuple[Callable[[bytes | None], None], bytes | None]]

LARGE: Final = 4 * 1024
"""Bytes up to which an answer is taken apart as it comes."""

A_TURN: Final = 0.005
"""Seconds after which nothing large is begun in the same turn of the event loop."""

MOST_WAITING: Final = 16 * 1024 * 1024
"""Bytes of pieces that wait for their turn."""


class Ration:
    """The line of one client. Belongs to the event loop it is first used in. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._left = A_TURN
        self._begun: _Line = deque()
        self._new: _Line = deque()
        self._lines = cycle((self._begun, self._new))
        self._ticking = False
        self.waiting = 0
        """Bytes of pieces in it."""

    def grants(self) -> bool:
        """Whether a piece may be taken apart now, by `spend`; else it has to `queue`."""
        return self._left > 0

    def spend(self, take: Callable[[bytes | None], None], data: bytes | None) -> None:
        """Take a piece apart in the time of this turn."""
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick)
        begun = self._clock()
        take(data)
        self._left -= self._clock() - begun

    def queue(self, take: Callable[[bytes | None], None], data: bytes, *, begun: bool) -> None:
        """Have `take` called with a piece to which nothing was granted, when it is its turn.

        What is `begun` has a line of its own, and every second turn: so fewer large answers are in the making, and
        none waits for ever. Where too many bytes wait, the piece is let go, and `take` is called with None in its
        turn: to refuse an answer takes time, too.
        """
        line = self._begun if begun else self._new
        if self.waiting + len(data) > MOST_WAITING:
            line.append((take, None))
            return
        self.waiting += len(data)
        line.append((take, data))

    def _tick(self) -> None:
        """Another turn of the loop; the next ones come before what has just arrived."""
        self._left = A_TURN
        if not (self._begun or self._new):
            self._ticking = False
            return
        asyncio.get_running_loop().call_soon(self._tick)
        while self._left > 0 and (self._begun or self._new):
            line = next(self._lines)
            if line:
                take, data = line.popleft()
                self.waiting -= len(data or b"")
                self.spend(take, data)
