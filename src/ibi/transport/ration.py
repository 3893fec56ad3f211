"""Large answers, taken apart a few at a time, so that nobody else of this process waits for all (threat T29).

A list of as many pairs as there may be takes some milliseconds to read, and a round asks hundreds of Archives at once.
So a piece of a large answer comes in its turn; until then nothing more is read from its connection. Who waits for a
small answer does not stand in that line.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from ibi.transport.exchange import MOST_HELD

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.transport.exchange import Held

LARGE: Final = 4 * 1024
"""Bytes up to which an answer is taken apart as it comes."""

A_TURN: Final = 256 * 1024
"""Bytes that are taken apart in one turn of the event loop; a piece counts for all that has come of its answer."""


class Ration:
    """The line of one client; pieces that wait count as held. Belongs to the event loop it is first used in."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._left = A_TURN
        self._line: deque[tuple[Callable[[bytes], None], bytes, int]] = deque()
        self._ticking = False

    def grants(self, come: int) -> bool:
        """Whether a piece may be taken apart now, where so many bytes of its answer have come.

        It may where too much is held already: then it will be refused, and that takes no time.
        """
        if come <= LARGE:
            return True
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick)
        if self._left <= 0 and self._held.bytes <= MOST_HELD:
            return False
        self._left -= come
        return True

    def wait(self, take: Callable[[bytes], None], data: bytes, come: int) -> None:
        """Call `take` with a piece to which nothing was granted, when it is its turn."""
        self._held.bytes += len(data)
        self._line.append((take, data, come))

    def _tick(self) -> None:
        """Another turn of the loop; the next ones come before what has just arrived."""
        self._left = A_TURN
        if not self._line:
            self._ticking = False
            return
        asyncio.get_running_loop().call_soon(self._tick)
        while self._line and self._left > 0:
            take, data, come = self._line.popleft()
            self._held.bytes -= len(data)
            self._left -= come
            take(data)
