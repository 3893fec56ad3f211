"""How much one reader may have (threats T29, T30); pure. Both roles count with it, each process by itself.

What counts as one reader is the same everywhere (`source_of`): an address of IPv4, or the /64 of IPv6, which is the
least that one customer gets, and all that tells the machines of one household apart from others. But whoever rents one
server may have a /48 with 65,536 of these, or some addresses of a /24: so what is next to each other is counted
together, too, and all of it may have only a few times as much as one.

A budget fills with time and is spent by what costs something; beyond a certain number of readers, those who asked
longest ago are forgotten, so its memory has an end.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from math import ceil, inf
from typing import Final

MOST_READERS: Final = 20_000
"""Readers who are counted; beyond this those are forgotten who asked longest ago."""
NEIGHBOURS: Final = 8
"""So many times as much as one reader all readers of a /24 of IPv4, or of a /48 of IPv6, may have together."""

_SOURCE_DIGITS: Final = 19  # of a /64, written out with its colons


class Budget:
    """Tokens for each reader: `burst` at once, and `rate` a second after that; with a rate of 0 nobody is limited."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, reader: str, now: float) -> float:
        """Seconds until this reader may have something; 0 if now. `now` never goes back."""
        if not self._rate:
            return 0.0
        left, around = self._left_of(reader, 1, now), self._left_around(reader, now)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        return wait if around >= 1 else max(wait, (1 - around) / (self._rate * NEIGHBOURS))

    def knows(self, reader: str) -> bool:
        """Whether this reader may have to wait: somebody around has spent something, or nothing may be had."""
        return reader in self._left or _around(reader) in self._left or self._burst < 1

    def spend(self, reader: str, now: float, cost: float = 1.0) -> None:
        """Count what costs something; whoever may have it may fall below nothing, and waits the longer for the next."""
        if not self._rate:
            return
        self._take(reader, self._left_of(reader, 1, now) - cost, now)
        if around := _around(reader):
            self._take(around, self._left_of(around, NEIGHBOURS, now) - cost, now)
        while len(self._left) > MOST_READERS:
            self._left.popitem(last=False)

    def left(self, reader: str, now: float) -> float:
        """The tokens that this reader has."""
        return min(self._left_of(reader, 1, now), self._left_around(reader, now))

    def _left_around(self, reader: str, now: float) -> float:
        """The tokens that this reader and its neighbours have together."""
        around = _around(reader)
        return self._left_of(around, NEIGHBOURS, now) if around else inf

    def _take(self, name: str, left: float, now: float) -> None:
        self._left[name] = (left, now)
        self._left.move_to_end(name)

    def _left_of(self, name: str, times: int, now: float) -> float:
        """The tokens that are left of so many times as many as one reader may have."""
        most = self._burst * times
        left, then = self._left.get(name, (most, now))
        return min(most, left + (now - then) * self._rate * times)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request may pass (`wait` is 0 seconds), and the headers that tell its sender how he stands."""

    wait: float
    headers: tuple[tuple[str, str], ...]


class Limit:
    """One limit with a name, which counts sources (`source_of`). `rate` a second, `burst` at once."""

    def __init__(self, name: str, rate: float, burst: int) -> None:
        self._budget = Budget(rate, burst)
        self._name = name
        self._rate = rate
        self._policy = f'"{name}";q={burst};w={ceil(burst / rate)}' if rate else ""

    def ask(self, source: str, now: float, cost: float = 1.0) -> Verdict | None:
        """Let a request pass and count it, or say how long its source has to wait; None where nobody is limited."""
        if not self._rate:
            return None
        wait = self._budget.wait(source, now)
        if not wait:
            self._budget.spend(source, now, cost)
        left = max(0, int(self._budget.left(source, now)))
        later = ceil(wait) if wait else ceil(1 / self._rate)
        told = (("ratelimit-policy", self._policy), ("ratelimit", f'"{self._name}";r={left};t={later}'))
        return Verdict(wait, (*told, ("retry-after", str(later))) if wait else told)


@lru_cache(maxsize=1024)
def _around(source: str) -> str:
    """What a source and its neighbours have in common, up to its last mark; "" for what has no neighbours."""
    return source[: source.rfind(":" if ":" in source else ".") + 1]


@lru_cache(maxsize=1024)
def source_of(address: str) -> str:
    """What counts as one reader, and as one source of attempts; of a text that is no address, the text itself."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        ip = ip.ipv4_mapped or ip
    return ip.exploded[:_SOURCE_DIGITS]


def is_loopback(host: str) -> bool:
    """Whether a text names this very machine."""
    if host == "localhost":
        return True
    try:
        ip = ip_address(host)
    except ValueError:
        return False
    return ((isinstance(ip, IPv6Address) and ip.ipv4_mapped) or ip).is_loopback
