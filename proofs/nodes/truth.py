"""What readers may be told, what was acknowledged, and which failures a kill excuses; all of it in memory."""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proofs.nodes.asking import Reply

LEASE: Final = 62.0
"""Seconds after which no reader of a resolver is led by an outdated answer."""

_SMALLEST, _LARGEST, _HUGE = 10, 40_000, 1_400_000  # bytes; more than 1 MiB is not received in memory


@dataclass
class Version:
    """Where an item led from some moment between `begun` and `acknowledged` on, None if that is not known yet."""

    place: str
    begun: float
    acknowledged: float | None = None


class Links:
    """The linked items, whose places one editor changes."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self.versions = [[Version(place(number, 0), 0.0, 0.0)] for number in range(count)]

    def begin(self, number: int, moment: float) -> str:
        """Begin an edit; return the new place."""
        with self._lock:
            of_item = self.versions[number]
            of_item.append(Version(place(number, len(of_item)), moment))
            return of_item[-1].place

    def acknowledge(self, number: int, moment: float) -> None:
        """The edit that was begun last is acknowledged."""
        with self._lock:
            self.versions[number][-1].acknowledged = moment

    def allowed(self, number: int, reply: Reply, age: float = 0.0) -> list[str]:
        """The places that an answer may have; `age`: seconds for which an outdated one may be used."""
        with self._lock:
            of_item = list(self.versions[number])
        later: list[Version | None] = [*of_item[1:], None]
        return [
            each.place
            for each, after in zip(of_item, later, strict=True)
            if each.begun <= reply.ended
            and (after is None or after.acknowledged is None or after.acknowledged + age >= reply.begun)
        ]


def place(number: int, version: int) -> str:
    """Where an item leads in a version."""
    return f"http://far.example/{version}/{number}"


def name(number: int) -> str:
    """The name of a linked item."""
    return f"nodes.example/item-{number}/2020/01.01.00.00"


@dataclass(frozen=True)
class Deposited:
    """An acknowledged deposit: its key, and its two names."""

    key: str
    rep: str
    ibip: str

    @property
    def files(self) -> dict[str, bytes]:
        """Its files."""
        return files_of(self.key)


def files_of(key: str) -> dict[str, bytes]:
    """The files of the deposit with a key: name -> bytes."""
    seed = hashlib.sha256(key.encode()).digest()
    files = {"a.bin": _bytes(seed, _SMALLEST + int.from_bytes(seed[:4]) % _LARGEST)}
    if seed[4] % 3 == 0:
        files["b/c d.bin"] = _bytes(seed[::-1], _SMALLEST + seed[5])
    if seed[6] % 32 == 0:
        files["large.bin"] = _bytes(seed[8:], _HUGE)
    return files


def _bytes(seed: bytes, size: int) -> bytes:
    return hashlib.shake_128(seed).digest(size)


class Acknowledged:
    """The deposits that were acknowledged, and those whose outcome is not known."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.deposits: list[Deposited] = []
        self.begun: set[str] = set()
        self._keys: dict[str, str] = {}

    def begin(self, key: str) -> None:
        """A deposit is sent."""
        with self._lock:
            self.begun.add(key)

    def write_down(self, made: Deposited) -> str | None:
        """Write down an acknowledged deposit; return a key whose deposit has one of the same names already."""
        with self._lock:
            self.deposits.append(made)
            for each in filter(None, (made.rep, made.ibip)):
                other = self._keys.setdefault(each, made.key)
                if other != made.key:
                    return other
        return None


class Kills:
    """The moments of kills of each service."""

    def __init__(self) -> None:
        self._moments: list[tuple[str, list[float]]] = []

    @contextmanager
    def kill(self, service: str) -> Iterator[None]:
        """Something of a service is killed in this block."""
        span = [time.monotonic(), float("inf")]
        self._moments.append((service, span))
        try:
            yield
        finally:
            span[1] = time.monotonic()

    def excuse(self, services: Iterable[str], reply: Reply) -> int | None:
        """Return the number of the kill during which a request was in flight, None if there was none."""
        for number, (service, (begun, ended)) in reversed(list(enumerate(self._moments))):
            if service in services and reply.begun <= ended and begun <= reply.ended:
                return number
        return None
