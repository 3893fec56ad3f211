"""What takes part in proofs of the resolver: Archives by number, items by number, and who holds which.

Driver, Archives and resolver are processes of their own; what all of them must agree on follows from numbers alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

ADDRESS: Final = "resolver.test"
SERVICE: Final = "J8LNKB5R7W/3FUQHC5"
KEY: Final = "12345678901234567890"
CANARY: Final = "canari7"
"""A word in the headers of every reader that no Archive may ever see."""

ITEMS: Final = "items.example/w/2021/01.01."
"""How the names of items begin that an Archive may hold; what holds them has other prefixes."""
CHAIN: Final = "chain.example/w/2021/01.01."
"""How the names of items begin that each have a next edition."""

CLAIMED: Final = "claimed.example/w/2021/01.01."
"""How the names of items begin whose original one Archive claims, or several, or none."""
KINDS: Final = ("several claims", "one claim", "no claim", "one claim and silence")
"""What there may be of a claimed item; its kind is the number modulo four."""

MOST_ITEMS: Final = 24 * 60 * 60


def host(number: int) -> str:
    """The name of an Archive."""
    return f"a{number}.example"


def ip(number: int) -> str:
    """Where it listens."""
    return f"127.10.0.{number}"


def service(number: int) -> str:
    """The service IBI of an Archive."""
    return f"a{number}.example/service/2020/01.01.00.00"


def item(number: int, beginning: str = ITEMS) -> str:
    """The name of an item."""
    return f"{beginning}{number // 3600:02}.{number // 60 % 60:02}.{number % 60:02}"


def number_of(name: str, beginning: str = ITEMS) -> int | None:
    """The number of an item; None for names of another beginning."""
    parts = name[len(beginning) :].split(".")
    if not name.startswith(beginning) or len(parts) != 3:
        return None
    hours, minutes, seconds = map(int, parts)
    return hours * 3600 + minutes * 60 + seconds


def unknown(chance: random.Random) -> str:
    """A valid name of an item that no Archive holds."""
    prefix = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=12))
    return f"{prefix}.example/r/2019/05.05.{chance.randrange(24):02}.{chance.randrange(60):02}"


@dataclass(frozen=True)
class Holdings:
    """Who holds what: of the Archives 1 to `archives`, from one to three of those who are not `without`."""

    seed: int
    archives: int
    without: frozenset[int] = frozenset()

    def of(self, number: int) -> tuple[int, ...]:
        """The holders of an item; the first one has the original."""
        return _holders(self, number)

    def places(self, number: int) -> set[str]:
        """The URLs at which an item is."""
        return {url(each, item(number)) for each in self.of(number)}


@lru_cache(maxsize=MOST_ITEMS)
def _holders(holdings: Holdings, number: int) -> tuple[int, ...]:
    chance = random.Random(holdings.seed * MOST_ITEMS + number)
    able = [each for each in range(1, holdings.archives + 1) if each not in holdings.without]
    return tuple(chance.sample(able, min(len(able), chance.randint(1, 3))))


@lru_cache(maxsize=MOST_ITEMS)
def claims(seed: int, archives: int, number: int) -> dict[int, str]:
    """What Archives say of a claimed item: its state, or "silent" for no answer at all; the others know nothing.

    Only the first tenth of them is ever silent, and claims nothing: the circuit breaker of an Archive that is
    silent for one item may be open when another one is requested.
    """
    chance = random.Random(f"{seed} {number}")
    kind = KINDS[number % len(KINDS)]
    originals = {"several claims": chance.randint(2, 5), "no claim": 0}.get(kind, 1)
    copies = chance.randint(0 if originals else 1, archives // 10)
    silent = archives // 10
    states = ["Original"] * originals + ["Copy"] * copies
    states_of = dict(zip(chance.sample(range(silent + 1, archives + 1), len(states)), states, strict=True))
    mute = chance.sample(range(1, silent + 1), chance.randint(1, silent)) if kind == KINDS[3] else []
    return states_of | dict.fromkeys(mute, "silent")


def url(number: int, name: str) -> str:
    """Where an Archive shows an item."""
    return f"http://{host(number)}/{name}"
