"""Figures as they are printed: a median with the least and the most of its runs; lines of a Markdown table; aims."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class Figure:
    """The runs of one measurement, five at least."""

    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the runs."""
        return statistics.median(self.runs)

    def __truediv__(self, other: Figure) -> Figure:
        """The ratio of what was measured side by side, run by run."""
        return Figure(tuple(ours / theirs for ours, theirs in zip(self.runs, other.runs, strict=True)))

    def times(self, factor: float) -> Figure:
        """The same in another unit."""
        return Figure(tuple(run * factor for run in self.runs))

    def text(self, decimals: int = 0) -> str:
        """The median, then the least and the most; one run alone is told as it is."""
        if len(self.runs) == 1:
            return f"{self.median:,.{decimals}f}"
        return (
            f"{self.median:,.{decimals}f} ({min(self.runs):,.{decimals}f} to {max(self.runs):,.{decimals}f})"
        )


def figure(runs: Iterable[float]) -> Figure:
    """The figure of these runs."""
    return Figure(tuple(runs))


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table; all columns but the first to the right."""
    print(f"\n| {' | '.join(heads)} |\n|---|{'---:|' * (len(heads) - 1)}")
    for line in lines:
        print(f"| {' | '.join(line)} |", flush=True)


@dataclass(frozen=True)
class Aim:
    """What a row was to reach, and what it has reached; as texts, but for whether it did."""

    what: str
    aim: str
    reached: str
    held: bool


AIMS: Final[list[Aim]] = []
"""Of the row that this process measures: the summary of the document is made from them."""


def aim(
    what: str,
    reached: Figure,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    decimals: int = 2,
) -> None:
    """Keep what was aimed at; the median decides."""
    low, high = at_least is None or reached.median >= at_least, at_most is None or reached.median <= at_most
    bounds = (("at least", at_least), ("at most", at_most))
    limits = " and ".join(f"{word} {bound:,g}" for word, bound in bounds if bound is not None)
    AIMS.append(Aim(what, limits, reached.text(decimals), low and high))
