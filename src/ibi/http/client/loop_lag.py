"""Whether the event loop has been late, so that a time-out says nothing of the server that was asked (threat T37)."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LATE: Final = 0.25  # seconds: when this loop was so late, a time-out says nothing of the server


class LoopLag:
    """Whether the event loop has been late: then this machine caused the time-outs, and no server is to blame (T37).

    It beats while `wanted` returns true, and stops at the first beat at which it does not.
    """

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted
        self.beat: asyncio.TimerHandle | None = None
        """The next beat; None while it has stopped."""
        self._late_at = -math.inf

    def begin(self) -> None:
        """Beat from now on; what came before does not count."""
        # To be called only where it has stopped or its beat is overdue, so that most queries cost no call.
        if self.beat is not None:
            self.beat.cancel()
        self.beat = asyncio.get_running_loop().call_later(_LATE, self._on_beat)

    def was_late(self, since: float) -> bool:
        """Whether it has been late since a time of the loop."""
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
