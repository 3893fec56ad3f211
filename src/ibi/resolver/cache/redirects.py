"""The redirect cache of one process: redirects for the fast path (notes 1 and 2, threats T20, T35).

A redirect may be used while all answers that it was made of may be used, and while the counters of all names that it
rests on, and the generations of its Archives, are what they were when it was made (`resolver.cache.lease_table`): so a
change elsewhere disturbs no redirect, and nothing has to be deleted.

An entry with the outcome BY_LANGUAGE is no redirect: it is looked up again, with the Accept-Language.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ibi.resolver.cache.lease import LEASE_SECONDS, lease_age
from ibi.resolver.cache.lease_table import counter_of
from ibi.resolver.cache.rows import name_digest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.resolver.cache.lease import Moment
    from ibi.resolver.cache.lease_table import LeaseTable

MOST_BYTES: Final = 96 * 1024 * 1024
"""Bytes of the redirects of one process."""

MOST_NAMES: Final = 4
"""Names, or Archives, on which a cached redirect may rest; one more, and it is not cached."""

MOST_SHARED: Final = 10_000
"""Sets of Archives, each with its generations, that entries of the redirect cache share; then they are noted anew."""

BY_LANGUAGE: Final = 255
"""The outcome number of an entry that stands for entries with the Accept-Language in their key."""

CLOCK_BACK: Final = 60.0
"""Seconds by which the clock may go back without an entry being unusable: it holds from then before it was made."""

_OVERHEAD: Final = 450  # bytes that an entry takes in memory beside its key, response and acknowledgment


ArchiveCheck = tuple[int, int, bool]
"""An Archive on whose answers a redirect rests: its slot, its generation then, and whether by its lease.

No NamedTuple, which takes longer to unpack, at each click.
"""


class CachedRedirect(Struct, eq=False):
    """A response, and everything that must be unchanged before it may be sent again.

    `outcome`: the number by which the metrics count it. `acknowledgment`: the service and the query of the message that
    belongs to it, b"" where there is no URL key. `check`: differs when the target leads elsewhere. `digest`: that of
    the settings and the included Archives for which it was made. `since`, `until`: it holds between these POSIX
    seconds; `boot_until`: until then by the other clock (`Moment`). `counters`: of each name, which counter it has, and
    the number in it then.
    """

    response: bytes
    outcome: int
    acknowledgment: bytes
    check: int
    digest: bytes
    since: float
    until: float
    boot_until: float
    counters: tuple[tuple[int, int], ...]
    archives: tuple[ArchiveCheck, ...]


class RedirectCache:
    """The redirects of one process, by target. `leases`: what all processes share.

    There are two halves. A full one becomes the older one, which is dropped when the newer one is full again; what is
    found in the older one moves into the newer one.
    """

    def __init__(self, leases: LeaseTable, most_bytes: int = MOST_BYTES) -> None:
        self.leases = leases
        self._most = most_bytes // 2
        self.newer: dict[bytes, CachedRedirect] = {}
        """The newer half, for a caller that looks up so often that a method call costs too much."""
        self.older: dict[bytes, CachedRedirect] = {}
        self._bytes = 0
        self._shared: dict[tuple[ArchiveCheck, ...], tuple[ArchiveCheck, ...]] = {}
        """What entries have in common, once."""
        self.withheld: frozenset[int] = frozenset()
        """The slots of Archives whose redirects are withheld: they are unreliable."""

    def get(self, key: bytes) -> CachedRedirect | None:
        """Return the redirect under a key, whether or not it may be used."""
        found = self.newer.get(key)
        if found is None and self.older:
            found = self.older.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: bytes, redirect: CachedRedirect) -> None:
        """Cache a redirect."""
        before = self.newer.get(key)
        grown = _size(key, redirect) - (_size(key, before) if before else 0)
        if self._bytes + grown > self._most:
            self.older, self.newer, self._bytes = self.newer, {}, 0
            grown = _size(key, redirect)
        self.newer[key] = redirect
        self._bytes += grown

    def clear(self) -> None:
        """Drop all redirects."""
        self.newer, self.older, self._bytes = {}, {}, 0

    def __len__(self) -> int:
        return len(self.newer) + len(self.older)

    def checks(
        self, names: Iterable[str], archives: Iterable[tuple[str, bool]]
    ) -> tuple[tuple[tuple[int, int], ...], tuple[ArchiveCheck, ...]] | None:
        """Return what a redirect rests on, as it is now: canonical names, and services with whether by their lease.

        None if it would rest on more than MOST_NAMES. Call it before the answers of the redirect are read.
        """
        numbers = {counter_of(name_digest(name)) for name in names}
        services = dict(archives)
        if max(len(numbers), len(services)) > MOST_NAMES:
            return None
        slots = {service: self.leases.slot(service) for service in services}
        counters, generations = self.leases.counters, self.leases.generations
        found = tuple([(slots[each], generations[slots[each]], services[each]) for each in services])
        if len(self._shared) >= MOST_SHARED:  # Archives change their generations again and again
            self._shared.clear()
        return (
            tuple([(number, counters[number]) for number in numbers]),
            self._shared.setdefault(found, found),
        )

    def seconds_left(self, redirect: CachedRedirect, now: Moment) -> float:
        """Return for how long a redirect may be used from now on if nothing changes; 0 if it may not be used."""
        left = self.life_left(redirect, now)
        if left <= 0 or not self.is_unchanged(redirect):
            return 0.0
        return left

    def life_left(self, redirect: CachedRedirect, now: Moment) -> float:
        """Return how many seconds are left of the answers that a redirect rests on, and of their leases."""
        if now.real < redirect.since:  # the clock was set back
            return 0.0
        left = min(redirect.until - now.real, redirect.boot_until - now.boot)
        for slot, _, leased in redirect.archives:
            if leased:
                left = min(left, LEASE_SECONDS - lease_age(self.leases.began(slot), now))
        return left

    def is_unchanged(self, redirect: CachedRedirect) -> bool:
        """Whether nothing that a redirect rests on has changed. Call it after its leases were read."""
        counters, generations = self.leases.counters, self.leases.generations
        for number, value in redirect.counters:
            if counters[number] != value:
                return False
        withheld = self.withheld
        for slot, generation, _ in redirect.archives:
            if generations[slot] != generation or slot in withheld:
                return False
        return True

    def withhold(self, archives: Iterable[str]) -> None:
        """Withhold the redirects that rest on answers of these (canonical service IBIs), and no others."""
        self.withheld = frozenset(map(self.leases.slot, archives))

    def withholds(self, archive: str) -> bool:
        """Whether redirects that rest on answers of this Archive are withheld."""
        return bool(self.withheld) and self.leases.slot(archive) in self.withheld


def _size(key: bytes, redirect: CachedRedirect) -> int:
    """Return the bytes that an entry takes."""
    return len(key) + len(redirect.response) + len(redirect.acknowledgment) + _OVERHEAD
