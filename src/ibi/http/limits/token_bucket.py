"""Token buckets: how many costly requests a client may make (pure). Each process counts by itself.

What counts as one client is the same everywhere (`client_key`): an IPv4 address, or all addresses of an IPv6 /64,
because a /64 is the least that one customer gets, for all their machines. But one rented server may come with a /48,
which has 65,536 of these, or with some addresses of a /24. So neighbours, the clients of one /24 or /48, are counted
together as well, and may have only a few times as much as one client. See T29: costly requests; T30: slow requests.

A bucket fills with time, and each costly request takes tokens out. Memory is bounded: the buckets that were
used longest ago are dropped; such a client starts again with a full bucket.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from math import ceil, inf
from typing import Final

MOST_CLIENTS: Final = 20_000
"""Clients that are counted; beyond this, those that spent a token longest ago are dropped."""
NEIGHBOURS: Final = 8
"""How many times as much as one client all clients of a /24 of IPv4, or of a /48 of IPv6, may have together."""

_PREFIX_CHARACTERS: Final = 19  # the length of a /64 prefix, written in full with its colons


class TokenBuckets:
    """Tokens for each client: `burst` at once, and `rate` a second after that; a rate of 0 is no limit."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str, now: float) -> float:
        """Return the seconds until this client may spend a token; 0 if it may now. `now` never goes back."""
        if not self._rate:
            return 0.0
        left, around = self._tokens(client, now)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        return wait if around >= 1 else max(wait, (1 - around) / (self._rate * NEIGHBOURS))

    def knows(self, client: str) -> bool:
        """Whether this client may have to wait: it or a neighbour spent tokens, or `burst` is below 1."""
        return client in self._buckets or _around(client) in self._buckets or self._burst < 1

    def spend(self, client: str, now: float, cost: float = 1.0) -> None:
        """Take `cost` tokens from the buckets of this client and of its neighbourhood."""
        # A bucket may fall below zero: a request is charged after it was admitted, when its cost is known.
        # The next request then waits longer.
        if not self._rate:
            return
        for name, left in zip((client, _around(client)), self._tokens(client, now), strict=True):
            if name:
                self._buckets[name] = (left - cost, now)
                self._buckets.move_to_end(name)
        while len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)

    def left(self, client: str, now: float) -> float:
        """Return the tokens that this client has."""
        return min(self._tokens(client, now))

    def _tokens(self, client: str, now: float) -> tuple[float, float]:
        """Return the tokens that this client has, and those that it and its neighbours have together."""
        most, rate, around = self._burst, self._rate, _around(client)
        left, then = self._buckets.get(client, (most, now))
        own = min(most, left + (now - then) * rate)
        if not around:
            return own, inf
        most, rate = most * NEIGHBOURS, rate * NEIGHBOURS
        left, then = self._buckets.get(around, (most, now))
        return own, min(most, left + (now - then) * rate)


@dataclass(frozen=True, slots=True)
class RateDecision:
    """Whether a request is admitted (`wait` is 0 seconds), and the headers that say how much its client has left."""

    wait: float
    headers: tuple[tuple[str, str], ...]


class RateLimit:
    """One limit with a name, by client (`client_key`): `burst` at once, and `rate` a second after that."""

    def __init__(self, name: str, rate: float, burst: int) -> None:
        self._buckets = TokenBuckets(rate, burst)
        self._name = name
        self._rate = rate
        self._policy = f'"{name}";q={burst};w={ceil(burst / rate)}' if rate else ""

    def admit(self, client: str, now: float, cost: float = 1.0) -> RateDecision | None:
        """Admit a request and count it, or return how long its client has to wait; None where there is no limit."""
        if not self._rate:
            return None
        wait = self._buckets.wait(client, now)
        if not wait:
            self._buckets.spend(client, now, cost)
        left = max(0, int(self._buckets.left(client, now)))
        later = ceil(wait) if wait else ceil(1 / self._rate)
        headers = (("ratelimit-policy", self._policy), ("ratelimit", f'"{self._name}";r={left};t={later}'))
        return RateDecision(wait, (*headers, ("retry-after", str(later))) if wait else headers)


@lru_cache(maxsize=1024)
def _around(client: str) -> str:
    """Return the prefix that a client shares with its neighbours, its /24 or /48; "" if it has none."""
    return client[: client.rfind(":" if ":" in client else ".") + 1]


@lru_cache(maxsize=1024)
def client_key(address: str) -> str:
    """Return the key of the client that an address belongs to; a text that is no address is its own key."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        ip = ip.ipv4_mapped or ip
    return ip.exploded[:_PREFIX_CHARACTERS]
