"""How many resolutions that make Archives work one reader may have (threat T29); pure.

Each process counts by itself. Only what went over the network is counted: a link that everybody clicks costs nobody
anything.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

MOST_READERS: Final = 20_000
"""Readers who are counted; beyond this those are forgotten who asked longest ago."""


class Budget:
    """Tokens for each reader: `burst` at once, and `rate` a second after that; with a rate of 0 nobody is limited."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, reader: str, now: float) -> float:
        """Seconds until this reader may have something resolved; 0 if now. `now` never goes back."""
        if not self._rate:
            return 0.0
        left = self._now_left(reader, now)
        return 0.0 if left >= 1 else (1 - left) / self._rate

    def spend(self, reader: str, now: float) -> None:
        """Count a resolution that went over the network."""
        if not self._rate:
            return
        self._left[reader] = (self._now_left(reader, now) - 1, now)
        self._left.move_to_end(reader)
        while len(self._left) > MOST_READERS:
            self._left.popitem(last=False)

    def _now_left(self, reader: str, now: float) -> float:
        left, then = self._left.get(reader, (self._burst, now))
        return min(self._burst, left + (now - then) * self._rate)
