"""Turns of connections: those with waiting requests go on a few at a time (threat T30).

A client may send many requests at once. If each connection answered all of its requests in one turn of the
event loop, a new reader would wait for all that hundreds of connections have sent before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

CONNECTIONS_PER_TURN: Final = 4
"""How many connections with waiting requests go on in one turn of the event loop (T30)."""


class Turns:
    """The connections of one event loop that wait for their turn, in order."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, go_on: Callable[[], None]) -> None:
        """Have `go_on` called once, when the connections before have had their turn."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._take)

    def _take(self) -> None:
        for _ in range(min(CONNECTIONS_PER_TURN, len(self._waiting))):
            self._waiting[0]()
            self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._take)
