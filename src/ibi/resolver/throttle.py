"""How often a key may be guessed (threat T16): failures are counted before the next one costs any work."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW: Final = 60.0
"""Seconds after which a failure is forgotten."""

_MOST_NAMES = 20_000  # beyond this the names that failed longest ago are forgotten: memory has an end


class Throttle:
    """At most `limit` failures for one name in a minute. `clock` gives seconds that never go back."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, name: str) -> float:
        """How many seconds this name has to wait before its next attempt; 0 if it may try now."""
        moments = self._recent(name)
        if len(moments) < self._limit:
            return 0.0
        return max(0.0, moments[0] + WINDOW - self._clock())

    def failed(self, name: str) -> None:
        """Count a failure; an attempt under way is counted so too, until `succeeded`."""
        moments = self._failures.setdefault(name, deque())
        moments.append(self._clock())
        self._failures.move_to_end(name)
        while len(self._failures) > _MOST_NAMES:
            self._failures.popitem(last=False)

    def succeeded(self, name: str) -> None:
        """Take back the last failure of this name."""
        moments = self._recent(name)
        if moments:
            moments.pop()
        if not moments:
            self._failures.pop(name, None)

    def _recent(self, name: str) -> deque[float]:
        moments = self._failures.get(name, deque())
        oldest = self._clock() - WINDOW
        while moments and moments[0] <= oldest:
            moments.popleft()
        return moments
