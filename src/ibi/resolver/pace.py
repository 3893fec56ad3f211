"""Asking many a few at a time, so that nobody else of this process waits until all of them are asked (threat T29).

To ask an Archive takes some hundredths of a millisecond, and a round asks all of them. So the questions of all rounds
that ask everybody stand in one line; a few go out, then the loop sees to whatever else is ready, and so on. While
somebody waits for likely holders, it has a millisecond for that: however many rounds a flood begins, it then never has
more than about half of the process. Where nobody else is there, nothing is held back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

A_TURN: Final = 32
"""Questions that go out at a time."""

REST: Final = 0.001
"""Seconds until the next ones go, while others are there."""

_Step = TypeVar("_Step")


class Pace(Generic[_Step]):
    """The line of one event loop; `go` is called with those whose turn it is, A_TURN at a time at most.

    `others` tells whether anybody waits whose questions do not stand in it.
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
