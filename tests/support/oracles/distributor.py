"""Three oracles for the temporal distributor on exact fractions, sharing nothing with the library.

`Algorithm4`: the program of the 2015 report, line by line. `by_definition`: the mathematical definition of the same
report (GEN-33 to GEN-36), which is said to agree. `distribute_2010`: the draft of December 2010 (GEN-50, GEN-51), kept
for comparison only.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

LADDER = [Fraction(60), *(Fraction(1, 10**power) for power in range(10))]
"""G from the coarsest grid to 10^-9 seconds."""


class Draw(NamedTuple):
    """What one draw gives; all in seconds."""

    creation: Fraction
    previous: Fraction
    granularity: Fraction
    date: Fraction
    wait: Fraction


def cut(moment: Fraction, r: Fraction) -> Fraction:
    """Truncation to the grid r (GEN-31)."""
    return r * (moment // r)


class Algorithm4:
    """The program with its two global variables (GEN-37)."""

    def __init__(self, last_date_for_suffix: Fraction | None = None) -> None:
        self.last_date_for_suffix = last_date_for_suffix

    def run(self, current_date: Fraction, r: Fraction) -> Draw:
        rounded_date = r * (current_date // r)
        if self.last_date_for_suffix is None:
            self.last_date_for_suffix = rounded_date - r
        self.last_date_for_suffix = r * (self.last_date_for_suffix // r)
        previous = self.last_date_for_suffix
        creation_date = max(self.last_date_for_suffix + r, rounded_date)
        delay = creation_date - current_date
        short_date = creation_date
        s = r
        t, chosen = short_date, s
        while self.last_date_for_suffix < short_date:
            before = s
            s = 10 * s
            if s == 10:
                s = Fraction(60)
            t, chosen = short_date, before
            if s > 60:
                break
            short_date = s * (creation_date // s)
        self.last_date_for_suffix = t
        return Draw(creation_date, previous, chosen, t, max(Fraction(0), delay))


def by_definition(last: Fraction | None, current: Fraction, r: Fraction) -> Draw:
    """t'_i, then the largest g in G whose grid date of t'_i is still later than the previous suffix date."""
    rounded = cut(current, r)
    previous = rounded - r if last is None else cut(last, r)
    creation = max(previous + r, rounded)
    coarsest = next(g for g in LADDER if g >= r and cut(creation, g) > previous)
    return Draw(creation, previous, coarsest, cut(creation, coarsest), max(Fraction(0), creation - current))


class Draw2010(NamedTuple):
    """A creation date, the pair handed to the suffix algorithms, and the date they make of it."""

    creation: int
    pair: tuple[int, int]
    date: int


def distribute_2010(requests: list[Fraction]) -> list[Draw2010]:
    """The 2010 variant: granularity of a second, compared with the previous creation date (GEN-50, GEN-51)."""
    draws: list[Draw2010] = []
    previous = 0
    for request in requests:
        creation = int(request) if not draws else max(previous + 1, int(request))
        minute = 60 * (creation // 60)
        draws.append(Draw2010(creation, (creation, previous), minute if previous < minute else creation))
        previous = creation
    return draws
