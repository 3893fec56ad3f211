"""The redirect cache of one process: redirects for the fast path.

A redirect rests on answers of Archives, and on the names of the items that these are about. It may be used while all
these answers may be used, and while nothing has changed: each name and each Archive has a version in shared memory
(`resolver.cache.lease_table`), and the versions must be those with which the redirect was made. So a change changes
one number, and the redirects that do not rest on it stay. See note 1: reuse of answers; note 2: acknowledgments; T20:
answers for one reader; T35: faults of disks.

An entry with the outcome BY_LANGUAGE is no redirect: it is looked up again, with the Accept-Language.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from ibi.resolver.cache.lease import LEASE_SECONDS, lease_age
from ibi.resolver.cache.lease_table import name_slot
from ibi.resolver.cache.rows import name_digest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.resolver.cache.lease import Moment
    from ibi.resolver.cache.lease_table import LeaseTable

MOST_NAMES: Final = 4
"""Names, or Archives, on which a cached redirect may rest; one more, and it is not cached."""

MOST_SHARED: Final = 10_000
"""Sets of Archives, each with its version, and parts of responses that entries share; then they are noted anew."""

BY_LANGUAGE: Final = 255
"""The outcome number of an entry that stands for entries with the Accept-Language in their key."""

CLOCK_BACK: Final = 60.0
"""Seconds by which the clock may be set back after an entry was made, and the entry can still be used."""

# Bytes that an entry takes beside the bytes of its key, `first` and acknowledgment: the struct (128), the heads of
# these three (41 each), its numbers (five of 32), and some 60 that the allocator and the dict add.
_OVERHEAD: Final = 470
_FURTHER: Final = 150  # bytes for each further name

# What acknowledgments have in common. Of the rest, most stands in the response.
_WORDS: Final = (
    b" clientinformation.ipaddress=0.0.0.0&contenttype=Data&ibi=rep%20&servicesubject=acknowledgment&state=Original"
    b"&url=http://&url.persistent=http://&urlkey="
)
_LINK: Final = b"\r\nlink: "
_WINDOW: Final = -12  # zlib: 4 KiB, without a header
# zlib: level and memLevel. The window and the memLevel that are usual (-15, 8) take ten times as long.
_LEVEL, _MEMORY = 9, 4


_Shared = TypeVar("_Shared", bound=tuple[object, ...])

ArchiveVersion = tuple[int, int, bool]
"""An Archive on whose answers a redirect rests: its slot, its version then, and whether by its lease.

No NamedTuple, which takes longer to unpack, at each click.
"""


class Versions(NamedTuple):
    """What a redirect rests on. `name_slot`, `name_version`: the slot of its first name, and the version in it then.

    `further_names`: the same of its other names.
    """

    name_slot: int
    name_version: int
    further_names: tuple[tuple[int, int], ...]
    archives: tuple[ArchiveVersion, ...]


class ReaderCount(Protocol):
    """Where the readers of a redirect are counted (`acknowledgments.counter`)."""

    readers: int


class CachedRedirect(Struct, eq=False, gc=False):
    """A response, and everything that must be unchanged before it may be sent again.

    `first`, `rest`: what `split_response` returned. `reader_count`: where its readers are counted now, if anywhere.
    `outcome`: the number by which the metrics count it. `acknowledgment`: what `packed` returned, b"" where there is no
    URL key. `checksum`: another one when the target leads elsewhere. `digest`: that of the settings and the included
    Archives for which it was made. `since`, `until`: it holds between these POSIX seconds; `boot_until`: until then by
    the other clock (`Moment`). The others are those of `Versions`.
    """

    # A process has some 150,000 of these. So the first name has two numbers instead of a pair, which would take 56
    # bytes more, and the collector of cycles has nothing to look at.

    first: bytes
    rest: tuple[bytes, ...]
    outcome: int
    acknowledgment: bytes
    checksum: int
    digest: bytes
    since: float
    until: float
    boot_until: float
    name_slot: int
    name_version: int
    further_names: tuple[tuple[int, int], ...]
    archives: tuple[ArchiveVersion, ...]
    reader_count: ReaderCount | None = None

    def response(self, target: bytes) -> bytes:
        """Return the response, without its first lines, for the target that it was made for."""
        return self.first + target.join(self.rest)

    def message(self, target: bytes) -> str:
        """Return the service and the query of its acknowledgment, "" where there is no URL key."""
        if not self.acknowledgment:
            return ""
        reader = zlib.decompressobj(_WINDOW, _WORDS + self.response(target))
        return reader.decompress(self.acknowledgment).decode("ascii")


def split_response(response: bytes, target: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """Split a response in two: up to its header Link; and the rest, in parts between which the target stands.

    The parts are the same for most redirects, so they are kept once, and a redirect takes half of the memory.
    """
    at = response.find(_LINK)
    at = len(response) if at < 0 else at
    return response[:at], tuple(response[at:].split(target))


def packed(message: str, response: bytes) -> bytes:
    """Return what `CachedRedirect.message` reads, for the same response: a tenth of the length."""
    writer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zdict=_WORDS + response)
    return writer.compress(message.encode("ascii")) + writer.flush()


class RedirectCache:
    """The redirects of one process, by target. `leases`: what all processes share; `most_bytes`: of memory, about.

    There are two halves. A full one becomes the older one, which is dropped when the newer one is full again; what is
    found in the older one moves into the newer one.
    """

    def __init__(self, leases: LeaseTable, most_bytes: int) -> None:
        self.leases = leases
        self._most = most_bytes // 2
        self.newer: dict[bytes, CachedRedirect] = {}
        """The newer half, for a caller that looks up so often that a method call costs too much."""
        self.older: dict[bytes, CachedRedirect] = {}
        self._bytes = 0
        self._shared: dict[Any, Any] = {}
        """What entries have in common, once: each tuple leads to itself."""
        self.suspended_slots: frozenset[int] = frozenset()
        """The slots of Archives whose redirects are suspended: they are unreliable."""

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

    def resize(self, most_bytes: int) -> None:
        """Take so many bytes at most from now on; drop all redirects if that is another number."""
        if self._most != most_bytes // 2:
            self._most = most_bytes // 2
            self.newer, self.older, self._bytes, self._shared = {}, {}, 0, {}

    def __len__(self) -> int:
        return len(self.newer) + len(self.older)

    def versions(self, names: Iterable[str], archives: Iterable[tuple[str, bool]]) -> Versions | None:
        """Return what a redirect rests on, as it is now.

        `names`: canonical. `archives`: canonical service IBIs, each with whether its answer has a position, so that it
        is used by a lease. None if it would rest on more than MOST_NAMES, or on none. Call it before the answers of the
        redirect are read.
        """
        places = {name_slot(name_digest(name)) for name in names}
        services = dict(archives)
        if not places or max(len(places), len(services)) > MOST_NAMES:
            return None
        slots = {service: self.leases.slot(service) for service in services}
        of_names, of_archives = self.leases.name_versions, self.leases.archive_versions
        found = tuple([(slots[each], of_archives[slots[each]], services[each]) for each in services])
        (first, version), *further = [(place, of_names[place]) for place in places]
        return Versions(first, version, tuple(further), self.shared(found))

    def shared(self, found: _Shared) -> _Shared:
        """Return an equal tuple of another entry if there is one, so that it is kept once."""
        if len(self._shared) >= MOST_SHARED:  # the versions of Archives change again and again
            self._shared.clear()
        kept: _Shared = self._shared.setdefault(found, found)
        return kept

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
        of_names, of_archives = self.leases.name_versions, self.leases.archive_versions
        if of_names[redirect.name_slot] != redirect.name_version:
            return False
        for place, version in redirect.further_names:
            if of_names[place] != version:
                return False
        suspended = self.suspended_slots
        for slot, version, _ in redirect.archives:  # noqa: SIM110 - a generator takes longer
            if of_archives[slot] != version or slot in suspended:
                return False
        return True

    def suspend(self, archives: Iterable[str]) -> None:
        """Suspend the redirects that rest on answers of these (canonical service IBIs), and no others."""
        self.suspended_slots = frozenset(map(self.leases.slot, archives))

    def suspends(self, archive: str) -> bool:
        """Whether redirects that rest on answers of this Archive are suspended."""
        return bool(self.suspended_slots) and self.leases.slot(archive) in self.suspended_slots


def _size(key: bytes, redirect: CachedRedirect) -> int:
    """Return the bytes that an entry takes."""
    texts = len(key) + len(redirect.first) + len(redirect.acknowledgment)
    return texts + _OVERHEAD + _FURTHER * len(redirect.further_names)
