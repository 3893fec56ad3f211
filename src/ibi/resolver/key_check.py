"""Whether a request brings the right key, at a bounded cost whoever asks (REG-05, threat T16)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.limits import source_of
from ibi.resolver.throttle import Limit

if TYPE_CHECKING:
    from ibi.identifier.forms import IBI
    from ibi.resolver.registry import Registry
    from ibi.resolver.throttle import Throttle

KEY_FAILURES_PER_IBI: Final = 5
KEY_FAILURES_PER_SOURCE: Final = 20
"""Wrong keys in a minute before the next attempt has to wait (docs/threats.md)."""

_BY_IBI = Limit("key of", KEY_FAILURES_PER_IBI, 60.0)
_BY_SOURCE = Limit("key from", KEY_FAILURES_PER_SOURCE, 60.0)
_HASHING_AT_ONCE = 2  # each takes memory and a core
_HASHING_WAITING = 256
_BUSY_SECONDS = 5

_log = logging.getLogger("ibi.resolver.membership")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the key is right; if that was not even looked at, the seconds to wait, and whether for others."""

    right: bool
    wait: int = 0
    busy: bool = False


RIGHT: Final = Verdict(right=True)
WRONG: Final = Verdict(right=False)


class KeyCheck:
    """Compares keys, and sends away who failed too often before that costs any work.

    What is being compared counts as a failure in this process, and for all processes once it is one: so a process that
    is killed leaves nothing counted that was right, and of several each may let one attempt through for each core.
    Failures count for the Archive and for the source. Where an Archive's last accepted request came from, failures
    of others do not count for it: a stranger's guesses do not lock it out.
    """

    def __init__(self, registry: Registry, throttle: Throttle) -> None:
        self._registry = registry
        self._throttle = throttle
        self._hashing = asyncio.Semaphore(_HASHING_AT_ONCE)
        self._under_way: Counter[tuple[Limit, str]] = Counter()
        self._waiting = 0

    async def check(self, service_ibi: IBI, key: str, source: str) -> Verdict:
        """Look at the key of a request from this address. Raises SetupError."""
        names = await asyncio.to_thread(self._names, service_ibi, source)
        wait = self._wait(names)
        if wait:
            return Verdict(right=False, wait=wait)
        if self._waiting >= _HASHING_WAITING:
            return Verdict(right=False, wait=_BUSY_SECONDS, busy=True)
        self._waiting += 1
        try:
            async with self._hashing:
                return await self._compare(service_ibi, key, names)
        finally:
            self._waiting -= 1

    async def _compare(self, service_ibi: IBI, key: str, names: dict[Limit, str]) -> Verdict:
        wait = self._wait(names)  # others may have failed meanwhile
        if wait:
            return Verdict(right=False, wait=wait)
        self._under_way.update(names.items())
        try:
            if await asyncio.to_thread(self._registry.check_key, service_ibi, key):
                return RIGHT
            for limit, name in names.items():
                self._throttle.failed(limit, name)
        finally:
            self._under_way -= Counter(names.items())
        _log.warning(
            "refused a request for %s from %s: not registered, or a wrong key",
            service_ibi.canonical,
            names[_BY_SOURCE],
        )
        return WRONG

    def _names(self, service_ibi: IBI, source: str) -> dict[Limit, str]:
        """What its failures count for."""
        known, origin = self._registry.entry(service_ibi), source_of(source)
        at_home = known is not None and known.source and source_of(known.source) == origin
        ibi = service_ibi.canonical
        return {_BY_IBI: f"{ibi} at {origin}" if at_home else ibi, _BY_SOURCE: origin}

    def _wait(self, names: dict[Limit, str]) -> int:
        seconds = max(self._throttle.wait(*name, self._under_way[name]) for name in names.items())
        return int(seconds) + 1 if seconds else 0
