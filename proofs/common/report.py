"""What a proof has to show for itself: how much was tried, what was seen, and every promise that was broken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

Place = TypeVar("Place")

_SHOWN = 3  # sentences of one kind that are kept; the rest is counted


class Scale(Enum):
    """How much is tried."""

    SHORT = 0
    MEDIUM = 1
    FULL = 2

    def pick(self, short: int, medium: int, full: int) -> int:
        """The number that belongs to this scale."""
        return (short, medium, full)[self.value]


@dataclass
class Report:
    """The figures of one proof.

    `counts`: what was tried and seen, in the order of its first mention. `holds`: the promises that are watched.
    `unshown`: what was left out here, and why.
    """

    name: str
    holds: str
    counts: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    unshown: list[str] = field(default_factory=list)
    violations: int = 0
    _kinds: Counter[str] = field(default_factory=Counter, repr=False)

    def count(self, what: str, by: int = 1) -> None:
        """Add to a figure; adding nothing makes it appear as zero."""
        self.counts[what] += by

    def until_met(self, what: str, most: int, places: Iterable[Place]) -> Iterator[Place]:
        """Places for faults, until `most` were met, as `what` counts them; one that was not is tried once more.

        A busy process may make its calls in other lumps than when they were counted.
        """
        goal = self.counts[what] + most
        for place in places:
            for _ in range(2):
                before = self.counts[what]
                if before >= goal:
                    return
                yield place
                if self.counts[what] > before:
                    break

    def top(self, what: str, value: int) -> None:
        """Keep the greatest value of a figure."""
        self.counts[what] = max(self.counts[what], value)

    def violate(self, sentence: str) -> None:
        """A promise is broken: the proof has failed, whatever else is seen."""
        self.violations += 1
        kind = re.sub(r"\d+", "#", sentence)
        self._kinds[kind] += 1
        if self._kinds[kind] <= _SHOWN:
            self.broken.append(sentence)

    def demand(self, truth: object, sentence: str) -> None:
        """Violate unless it is true."""
        if not truth:
            self.violate(sentence)

    def add(self, other: Report) -> None:
        """Take in the figures of a part."""
        for what, count in other.counts.items():
            self.count(what, count)
        more = other.violations - len(other.broken)
        for sentence in other.broken:
            self.violate(sentence)
        self.violations += more

    @property
    def held(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations
