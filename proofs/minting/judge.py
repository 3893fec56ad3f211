"""The judge: hears every label that gets out, and knows all that it has heard."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from proofs.minting.reading import moment_of_ibip, moment_of_rep

if TYPE_CHECKING:
    from collections.abc import Callable

    from proofs.common.report import Report


class Judge:
    """Labels as the world outside sees them: lines with both forms. What is wrong with them goes into the report.

    `clock` is the right time, in ticks. `latest` is the latest moment that any label named.
    """

    def __init__(self, report: Report, clock: Callable[[], int] = time.time_ns) -> None:
        self._report = report
        self._clock = clock
        self._reps: set[str] = set()
        self._ibips: set[str] = set()
        self._last_of: dict[str, int] = {}
        self.latest = 0
        report.count("labels", 0)
        report.count("duplicates", 0)

    @property
    def heard(self) -> int:
        """How many labels so far."""
        return len(self._reps)

    def hear(self, source: str, text: bytes, later_than: int = 0) -> list[int]:
        """Whole lines from one process, in their order; the moments they name.

        `later_than`: what the world had seen when this process asked; all that it gets is later (GEN-38).
        """
        now = self._clock()
        moments = [self._hear_one(source, line, later_than) for line in text.decode("ascii").splitlines()]
        if moments and max(moments) > now:
            self._report.violate(f"{source}: a label of {max(moments)} was out at {now}, before its moment")
        return moments

    def _hear_one(self, source: str, line: str, later_than: int) -> int:
        rep, ibip = line.split(" ")
        moment = moment_of_rep(rep)
        if moment_of_ibip(ibip) != moment:
            self._report.violate(f"{source}: the forms name two moments: {line}")
        if rep in self._reps or ibip in self._ibips:
            self._report.count("duplicates")
            self._report.violate(f"{source}: given twice: {line}")
        if moment <= max(self._last_of.get(source, 0), later_than):
            self._report.violate(f"{source}: {line} does not come after what was seen before")
        self._reps.add(rep)
        self._ibips.add(ibip)
        self._last_of[source] = moment
        self.latest = max(self.latest, moment)
        self._report.count("labels")
        return moment
