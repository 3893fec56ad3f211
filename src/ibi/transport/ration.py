"""Large answers, taken apart a few at a time, so that nobody else of this process waits for all (threat T29).

A list of as many pairs as there may be takes some milliseconds to read, and a round asks hundreds of Archives at once.
So a piece of a large answer comes in its turn; until then nothing more is read from its connection. Who waits for a
small answer does not stand in that line.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

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
        self._line: deque[tuple[Callable[[bytes | None], None], bytes | None]] = deque()
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

        What is `begun` comes first, so that few large answers are in the making. Where too many bytes wait, the piece
        is let go, and `take` is called with None in its turn: to refuse an answer takes time, too.
        """
        if self.waiting + len(data) > MOST_WAITING:
            self._line.append((take, None))
            return
        self.waiting += len(data)
        if begun:
            self._line.appendleft((take, data))
        else:
            self._line.append((take, data))

    def _tick(self) -> None:
        """Another turn of the loop; the next ones come before what has just arrived."""
        self._left = A_TURN
        if not self._line:
            self._ticking = False
            return
        asyncio.get_running_loop().call_soon(self._tick)
        while self._line and self._left > 0:
            take, data = self._line.popleft()
            self.waiting -= len(data or b"")
            self.spend(take, data)
