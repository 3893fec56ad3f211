"""Whether the event loop has been late, so that a time-out proves nothing about a server (threat T37)."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LATE: Final = 0.25  # seconds: if the loop was so late, a time-out proves nothing about the server


class LoopLag:
    """Finds out whether the event loop has been late: then this machine, no server, caused time-outs (T37).

    A timer, the beat, is renewed while `wanted` returns true; the loop was late if a beat comes late.
    """

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted
        self.beat: asyncio.TimerHandle | None = None
        """The next beat; None while it has stopped."""
        self._late_at = -math.inf

    def begin(self) -> None:
        """Measure from now on, whatever came before."""
        # Callers call this only if the beat has stopped or is overdue, so that most queries cost no call.
        if self.beat is not None:
            self.beat.cancel()
        self.beat = asyncio.get_running_loop().call_later(_LATE, self._on_beat)

    def was_late(self, since: float) -> bool:
        """Whether the loop has been late since `since`, a time of its clock."""
        self._feel()
        return self._late_at >= since

    def _on_beat(self) -> None:
        self._feel()
        self.beat = None
        if self._wanted():
            self.begin()

    def _feel(self) -> None:
        now = asyncio.get_running_loop().time()
        if self.beat is not None and now > self.beat.when() + _LATE:
            self._late_at = now
