"""Whether this process keeps time: where it does not, nobody else is to blame for silence (threat T37)."""

from __future__ import annotations

import asyncio
import math
from typing import Final

_LATE: Final = 0.25  # seconds: when this loop was so late, a time-out says nothing of the Archive


class Pulse:
    """Whether the event loop has been late: then time-outs come of this machine, not of others."""

    def __init__(self) -> None:
        self._beat: asyncio.TimerHandle | None = None
        self._wanted = False
        self._late_at = -math.inf

    def begin(self, now: float) -> None:
        """Feel it from now on, which is a time of the loop."""
        self._wanted = True
        if self._beat is None:
            self._next()
        elif now > self._beat.when():  # what came before is not its concern
            self._beat.cancel()
            self._next()

    def end(self) -> None:
        """Nothing is waited for; the next beat is the last one, unless it begins again before."""
        self._wanted = False

    def was_late(self, since: float) -> bool:
        """Whether it has been late since a time of the loop."""
        self._feel()
        return self._late_at >= since

    def _next(self) -> None:
        self._beat = asyncio.get_running_loop().call_later(_LATE, self._again)

    def _again(self) -> None:
        self._feel()
        if self._wanted:
            self._next()
        else:
            self._beat = None

    def _feel(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._beat is not None and now > self._beat.when() + _LATE:
            self._late_at = now
