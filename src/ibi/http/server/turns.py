"""Round-robin of connections: those with waiting requests are served a few at a time (T30: slow requests).

A client may send many requests at once (pipelining). If a connection answered all of them in one turn of the event
loop, a new reader would wait for everything that hundreds of connections had sent before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

CONNECTIONS_PER_TURN: Final = 4
"""How many connections with waiting requests are served in one turn of the event loop (T30: slow requests)."""


class Turns:
    """The connections of one event loop that wait for their turn, in order."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` once, after the connections that were added before."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._take)

    def _take(self) -> None:
        for _ in range(min(CONNECTIONS_PER_TURN, len(self._waiting))):
            self._waiting[0]()
            self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._take)
