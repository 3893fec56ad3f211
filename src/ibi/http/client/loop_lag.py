"""Event-loop lag: whether this process was late, so that a time-out proves nothing about a server (T37: overload)."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LATE: Final = 0.25  # seconds: if the loop was so late, a time-out proves nothing about the server


class LoopLag:
    """Measures event-loop lag: if the loop was late, time-outs prove nothing about a server (T37: overload).

    A timer fires every quarter of a second, as long as `wanted` returns true; the loop was late if it fires late.
    """

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted
        self.timer: asyncio.TimerHandle | None = None
        """None while nothing is measured."""
        self._late_at = -math.inf

    def begin(self) -> None:
        """Measure from now on; if the loop was late before, that counts for what began before."""
        # Callers call this only if the timer has stopped or is overdue, so that most queries cost no call.
        loop, timer = asyncio.get_running_loop(), self.timer
        if timer is not None:
            if loop.time() > timer.when() + _LATE:
                self._late_at = max(self._late_at, timer.when())
            timer.cancel()
        self.timer = loop.call_later(_LATE, self._on_timer)

    def was_late(self, since: float) -> bool:
        """Whether the loop has been late since `since`, a time of its clock."""
        self._note_lag()
        return self._late_at >= since

    def _on_timer(self) -> None:
        self._note_lag()
        self.timer = None
        if self._wanted():
            self.begin()

    def _note_lag(self) -> None:
        now = asyncio.get_running_loop().time()
        if self.timer is not None and now > self.timer.when() + _LATE:
            self._late_at = now
