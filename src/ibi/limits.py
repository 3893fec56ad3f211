"""How much one reader may have (threats T29, T30); pure. Both roles count with it, each process by itself.

Who counts as one reader is for each role to say: an Archive counts networks (`network_of`), a resolver an address of
IPv4 or the /64 that one customer of IPv6 has (`ibi.resolver.visitor.origin_of`).

A budget fills with time and is spent by what costs something; beyond a certain number of readers, those who asked
longest ago are forgotten, so its memory has an end.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from math import ceil
from typing import Final

MOST_READERS: Final = 20_000
"""Readers who are counted; beyond this those are forgotten who asked longest ago."""

_IPV4_DIGITS: Final = 3  # of a network /24
_IPV6_DIGITS: Final = 14  # of a network /48, written out with its colons


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
        left = self.left(reader, now)
        return 0.0 if left >= 1 else (1 - left) / self._rate

    def spend(self, reader: str, now: float, cost: float = 1.0) -> None:
        """Count what costs something; whoever may have it may fall below nothing, and waits the longer for the next."""
        if not self._rate:
            return
        self._left[reader] = (self.left(reader, now) - cost, now)
        self._left.move_to_end(reader)
        while len(self._left) > MOST_READERS:
            self._left.popitem(last=False)

    def left(self, reader: str, now: float) -> float:
        """The tokens that this reader has."""
        left, then = self._left.get(reader, (self._burst, now))
        return min(self._burst, left + (now - then) * self._rate)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request may pass (`wait` is 0 seconds), and the headers that tell its sender how he stands."""

    wait: float
    headers: tuple[tuple[str, str], ...]


class Limit:
    """One limit with a name, which counts by networks (`network_of`). `rate` a second, `burst` at once."""

    def __init__(self, name: str, rate: float, burst: int) -> None:
        self._budget = Budget(rate, burst)
        self._name = name
        self._rate = rate
        self._policy = f'"{name}";q={burst};w={ceil(burst / rate)}' if rate else ""

    def ask(self, network: str, now: float, cost: float = 1.0) -> Verdict | None:
        """Let a request pass and count it, or say how long its network has to wait; None where nobody is limited."""
        if not self._rate:
            return None
        wait = self._budget.wait(network, now)
        if not wait:
            self._budget.spend(network, now, cost)
        left = max(0, int(self._budget.left(network, now)))
        later = ceil(wait) if wait else ceil(1 / self._rate)
        told = (("ratelimit-policy", self._policy), ("ratelimit", f'"{self._name}";r={left};t={later}'))
        return Verdict(wait, (*told, ("retry-after", str(later))) if wait else told)


def network_of(address: str) -> str | None:
    """What counts as one reader of an Archive: the /24 of an IPv4 address, the /48 of an IPv6 one.

    None for whom nothing is counted: this machine itself, and whoever has no address.
    """
    try:
        ip = ip_address(address)
    except ValueError:
        return None
    if isinstance(ip, IPv6Address):
        ip = ip.ipv4_mapped or ip
    if ip.is_loopback:
        return None
    if isinstance(ip, IPv6Address):
        return ip.exploded[:_IPV6_DIGITS]
    return ".".join(str(ip).split(".")[:_IPV4_DIGITS])
