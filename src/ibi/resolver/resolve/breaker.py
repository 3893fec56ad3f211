"""The circuit breakers: an Archive that failed five times in a row is not asked for a while (threat T10); pure.

Nothing here says whether an Archive holds an item. One that sleeps was not asked, and an answer without it is no
proof that no Archive holds what was asked for. Where most Archives sleep, the fault is more likely at our own end, as a
line that was down for a minute; then each is tried again every second, so that all are back as soon as it is mended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from ibi.errors import IbiError

FAILURES: Final = 5
"""So many failures in a row, and an Archive sleeps (docs/threats.md)."""

PAUSE: Final = 30.0
"""Seconds of the first pause; the n-th in a row is n times as long."""

LONGEST_PAUSE: Final = 300.0
"""Seconds that no pause is longer than."""

SOON: Final = 1.0
"""Seconds after which a sleeping Archive is tried again while more than half of all sleep."""


@dataclass(slots=True)
class Circuit:
    """What is known of an Archive that failed and has not been heard since; only the breakers change it.

    `failures`: how many in a row; `why`: the reason of the last one, if it was told; `until`: it sleeps, or slept,
    until that moment (0 where it never did).
    """

    failures: int = 0
    why: IbiError | None = None
    until: float = 0.0
    pauses: int = 0  # how many in a row
    tried: float = 0.0
    probed: bool = False  # one query was let through and has not ended yet


class CircuitBreakers:
    """The Archives that failed since they were last heard. `now` is always in seconds that never go back."""

    def __init__(self) -> None:
        self.troubled: dict[str, Circuit] = {}
        """The state of the Archives that failed and have not answered since; while empty, `begin` is not needed."""
        self.heard_at: dict[str, float] = {}
        """When each Archive was last heard. Of one without trouble, this is all that is to be noted."""
        self._members = 0
        self._counted = (-1.0, False)

    def begin(self, name: str, now: float) -> float | None:
        """Return None if the Archive may be asked; `heard` or `failed` must then tell what came of it.

        Otherwise return the moment until which its circuit is open. After that one caller may ask it, as a probe; for
        all others the circuit stays open until the probe has an end, or for another PAUSE if it never has one.
        While most circuits are open, a probe may go out every SOON.
        """
        troubled = self.troubled.get(name)
        if troubled is None or not troubled.pauses:
            return None
        if now < troubled.until and (now < troubled.tried + SOON or not self._most_sleep(now)):
            return troubled.until
        troubled.probed, troubled.tried = True, now
        troubled.until = now + PAUSE
        return None

    def heard(self, name: str, now: float) -> None:
        """It answered: whatever was held against it is forgotten."""
        self.heard_at[name] = now
        if self.troubled:
            self.troubled.pop(name, None)

    def failed(self, name: str, now: float, why: IbiError | None = None) -> None:
        """It gave no answer that counts. A query sent before the breaker opened, which fails later, adds no pause."""
        troubled = self.troubled.setdefault(name, Circuit())
        troubled.failures += 1
        troubled.why = why or troubled.why
        if troubled.probed or (not troubled.pauses and troubled.failures >= FAILURES):
            troubled.probed, troubled.tried = False, now
            troubled.pauses += not (troubled.pauses and self._most_sleep(now))
            troubled.until = now + min(troubled.pauses * PAUSE, LONGEST_PAUSE)

    def open_until(self, now: float) -> dict[str, float]:
        """The Archives that sleep now, and until when."""
        return {name: troubled.until for name, troubled in self.troubled.items() if now < troubled.until}

    def forget(self, included: Collection[str]) -> None:
        """Keep only what is known of these, who are all: an Archive that comes back later begins well."""
        self._members = len(included)
        self.troubled = {name: known for name, known in self.troubled.items() if name in included}
        self.heard_at = {name: when for name, when in self.heard_at.items() if name in included}

    def _most_sleep(self, now: float) -> bool:
        """Whether more than half of all sleep; counted once a moment, for a round asks about all of them in one."""
        if self._counted[0] != now:
            self._counted = (now, 2 * len(self.open_until(now)) > self._members > 0)
        return self._counted[1]
