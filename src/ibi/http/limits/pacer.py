"""A pacer: sends a few queries at a time, and lets the event loop do other work in between (T29: costly requests)."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

T = TypeVar("T")

A_TURN: Final = 32
"""Queries that go out at a time (T29: costly requests)."""

REST: Final = 0.001
"""Seconds until the next queries go out, while any round waits for likely holders (T29: costly requests)."""


class Pacer(Generic[T]):
    """Sends the queries of all rounds that ask every Archive, a few at a time (T29: costly requests).

    To send a query takes some hundredths of a millisecond. While a round waits for likely holders, the loop
    has a millisecond between batches: in any flood of rounds, sending takes about half of the process.

    `go` is called with the queries whose turn it is; `others` returns whether any round waits for likely holders,
    whose queries do not pass through here.
    """

    def __init__(self, go: Callable[[Sequence[T]], None], others: Callable[[], bool]) -> None:
        self._go = go
        self._others = others
        self._waiting: deque[T] = deque()
        self._left = A_TURN
        self._ticking = False

    def add(self, queries: Iterable[T]) -> None:
        """Send queries when it is their turn, which may be at once."""
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick)
        self._waiting.extend(queries)
        self._send_some()

    def _send_some(self) -> None:
        """Send as many queries as are left for this turn of the loop."""
        waiting = self._waiting
        turn = [waiting.popleft() for _ in range(min(self._left, len(waiting)))]
        self._left -= len(turn)
        if turn:
            self._go(turn)

    def _tick(self) -> None:
        """Begin a new turn; have the next one begin later, for as long as queries are sent."""
        self._left = A_TURN
        try:
            self._send_some()
        finally:  # the next queries have their turn even if `go` has failed
            self._ticking = self._left < A_TURN
            if self._ticking and self._others():
                asyncio.get_running_loop().call_later(REST, self._tick)
            elif self._ticking:
                asyncio.get_running_loop().call_soon(self._tick)
