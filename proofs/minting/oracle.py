"""The temporal distributor by its definition, on exact fractions (GEN-30 to GEN-36, GEN-42, GEN-43).

Written from the report's words: nothing of the library is used, and it is slow and plain on purpose. All is in
seconds.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import NamedTuple

G = (Fraction(60), *(Fraction(1, 10**power) for power in range(10)))
"""The granularities, from the coarsest down to a nanosecond (GEN-30)."""


class Drawn(NamedTuple):
    """What a request at some moment gets: the moment of its creation, and the date of its label."""

    creation: Fraction
    date: Fraction


def draw(last: Fraction | None, r: Fraction, now: Fraction) -> Drawn:
    """The next date after `last`, the date of the label before; None where there was none."""
    rounded = on_grid(now, r)
    if last is None:
        before = rounded - r  # GEN-34, GEN-42
        creation = rounded
    else:
        before = on_grid(last, r)  # GEN-43
        creation = max(before + r, rounded)  # GEN-33
    coarsest = next(g for g in G if on_grid(creation, g) > before)  # GEN-35
    return Drawn(creation, on_grid(creation, coarsest))  # GEN-36


def on_grid(moment: Fraction, r: Fraction) -> Fraction:
    """Truncation to the grid of r (GEN-31)."""
    return r * floor(moment / r)
