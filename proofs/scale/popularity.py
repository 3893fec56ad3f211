"""How often names are asked for, and how often a cache has them: Zipf's law and two approximations.

Names are put into groups of nearly equal popularity, so that a thousand million names take some hundred numbers.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAMMA: Final = 0.5772156649
_SINGLE: Final = 100  # the most popular names are groups of their own
_GROWTH: Final = 1.05  # of the last rank of a group to that of the next


class Group(NamedTuple):
    """`names` names, each of which gets this share of all clicks."""

    names: int
    share: float


def zipf(names: int) -> list[Group]:
    """Return the groups of so many names, of which the n-th gets 1/n as many clicks as the first."""
    harmonic = _harmonic(names)
    groups = [Group(1, 1 / rank / harmonic) for rank in range(1, min(names, _SINGLE) + 1)]
    last = len(groups)
    while last < names:
        end = min(names, max(last + 1, int(last * _GROWTH)))
        count = end - last
        groups.append(Group(count, (_harmonic(end) - _harmonic(last)) / count / harmonic))
        last = end
    return groups


def _harmonic(number: int) -> float:
    if number <= _SINGLE:
        return sum(1 / each for each in range(1, number + 1))
    return log(number) + _GAMMA + 1 / (2 * number)


def stay(groups: Sequence[Group], clicks: float, capacity: float) -> float:
    """Return after how many seconds without a click a name leaves a cache of so many names (Che's approximation).

    The cache drops what was not used for the longest time. `clicks` in a second. Infinity if all names fit.
    """
    if capacity >= sum(group.names for group in groups):
        return float("inf")
    low, high = 0.0, 1e12
    for _ in range(200):
        middle = (low + high) / 2
        held = sum(group.names * (1 - exp(-clicks * group.share * middle)) for group in groups)
        low, high = (middle, high) if held < capacity else (low, middle)
    return low


def hits(groups: Sequence[Group], clicks: float, capacity: float, lifetime: float) -> float:
    """Return the share of clicks that find their name in a cache of so many names.

    `lifetime`: seconds from when it was put there until it ends, however often it is used.
    """
    after = stay(groups, clicks, capacity)
    found = 0.0
    for number, share in groups:
        rate = clicks * share
        kept = 1 - exp(-rate * after)
        # A name that is put again as soon as it is wanted is found `rate * lifetime` times before it ends.
        found += number * share * kept * rate * lifetime / (1 + rate * lifetime)
    return found


def distinct(groups: Sequence[Group], clicks: float, seconds: float) -> float:
    """Return how many names are asked for at least once within so many seconds."""
    return sum(group.names * (1 - exp(-clicks * group.share * seconds)) for group in groups)
