"""The cached redirects of the fast path (notes 1 and 2, threat T20).

They are in the file of the answer cache, beside the answers that they were made of: the transaction that drops or
replaces an answer drops its redirects too. So no process ever gives a redirect after its Archive had it dropped.

Those that one process has given lately it finds in a dictionary, by target, without a look into the file. This never
decides whether a redirect may be sent once more: the fast path does, by what stands in the entry.
"""

from __future__ import annotations

import struct
import time
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

import lmdb
from msgspec import Struct

from ibi.resolver.cache import rows
from ibi.resolver.cache.store import WriteBehind
from ibi.runtime.generation_counter import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.http.server.protocol import Answer
    from ibi.resolver.cache.rows import CachedAnswer, CachedRedirect
    from ibi.resolver.cache.store import Opened, SharedFile


MOST_BYTES: Final = 96 * 1024 * 1024
"""Bytes that targets and their redirects take in one process, some 100,000 of them; what comes then is not put in."""

FULL_SECONDS: Final = 60.0
"""How long it stays as it is when it is full, before it is emptied: readers ask for other things after a while."""

_OVERHEAD: Final = 450  # bytes that an entry takes in memory besides


class RecentRedirect(Struct, eq=False):
    """An answer, and all that must be unchanged for it to be sent once more. There may be many: it is small.

    `key` of the redirect, `outcome` and `check` as it is counted. `policy` by which it was cached, with its `digest` at
    that time. `language`: the Accept-Language that it is for, None where it is for any. `state` of the cache file.
    `since`, `until`: POSIX seconds.
    """

    answer: Answer
    key: bytes
    outcome: int
    check: int
    policy: object
    digest: bytes
    language: bytes | None
    state: int
    since: float
    until: float


class InProcessCache:
    """The recent redirects of one process."""

    def __init__(self) -> None:
        self._entries: dict[bytes, RecentRedirect] = {}
        self.get = self._entries.get
        """The redirect that was given for a target."""
        self._bytes = 0
        self._full_until = 0.0  # by the monotonic clock; 0 while it is not full

    def put(self, target: bytes, redirect: RecentRedirect) -> None:
        """Put a redirect in unless the cache is full; empty the cache when it has been full for a while."""
        before = self._entries.get(target)
        grown = _size(target, redirect) - (_size(target, before) if before else 0)
        if self._bytes + grown > MOST_BYTES:
            # The oldest is not dropped: a client that asks for more names in turn than fit would find none.
            now = time.monotonic()
            self._full_until = self._full_until or now + FULL_SECONDS
            if now < self._full_until:
                return
            self._entries.clear()
            self._bytes, self._full_until, grown = 0, 0.0, _size(target, redirect)
        self._bytes += grown
        self._entries[target] = redirect

    def __len__(self) -> int:
        return len(self._entries)


def _size(target: bytes, redirect: RecentRedirect) -> int:
    """Return the bytes that an entry takes; the key holds the target, too."""
    return 2 * len(target) + len(redirect.answer[1]) + _OVERHEAD


MOST_OF_AN_ANSWER: Final = 32
"""The most redirects made of one answer: a name has about as many usual spellings. One more replaces another."""

CLOCK_BACK: Final = 60.0
"""Seconds from the future that are believed: what is younger was heard before the clock was set back."""

_FAULTS = (lmdb.Error, struct.error)
_DIGEST = 8


class Source(NamedTuple):
    """An answer that a redirect was made of: its key in the cache file, and how it was read there."""

    key: bytes
    answer: CachedAnswer


class _PendingRedirect(NamedTuple):
    """A redirect that is not in the file yet; without sources, a hint."""

    outcome: int
    sources: tuple[Source, ...]
    answer: bytes
    acknowledgment: bytes


class RedirectCache:
    """The redirects in a file that the answer cache opened and closes. Neither `put` nor `find` waits for a disk."""

    def __init__(self, file: SharedFile, most_bytes: int) -> None:
        self._file = file
        self._most = most_bytes
        self.shown = file.sign.numbers
        """The second of these is the state of the file: while it is unchanged, what was found in it still holds."""
        self._state = UNKNOWN  # of the file when something was found last
        self._held: set[bytes] = set()  # Archives that were looked at in that state
        self._behind: WriteBehind[_PendingRedirect] = WriteBehind(
            "ready", self._write, lambda: None, lambda _, new: new
        )

    def find(self, key: bytes, now: float) -> CachedRedirect | None:
        """The redirect under a key, if it may be given at this moment (POSIX seconds).

        One whose outcome is BY_LANGUAGE is a hint that stands for those under longer keys.
        """
        opened = self._file.opened
        if opened is None or self.shown[0] != opened.epoch:
            return None
        try:
            transaction = opened.environment.begin()
            try:
                row = transaction.get(key, None, opened.tables[2])
                found = None if row is None else rows.read_redirect(row, now, now + CLOCK_BACK)
                if found is not None and self._hold(transaction, opened, found[1]):
                    return found[0]
            finally:
                transaction.abort()
        except _FAULTS:  # the thread that writes will meet it too, and mend it
            pass
        return None

    def state(self) -> int:
        """The state of the file in which the last redirect was found, if it is still the same; else UNKNOWN."""
        return self._state if self.shown[1] == self._state else UNKNOWN

    def _hold(self, transaction: lmdb.Transaction[bytes], opened: Opened, archives: bytes) -> bool:
        """Whether of none of these Archives everything was forgotten since."""
        state = opened.epoch + transaction.id()
        if state != self._state:
            self._state = state
            self._held.clear()
        if archives not in self._held:
            for archive, generation in rows.ARCHIVE.iter_unpack(archives):
                if rows.counts(transaction, opened, archive).generation != generation:
                    return False
            self._held.add(archives)
        return True

    def put(
        self, key: bytes, outcome: int, sources: Sequence[Source], answer: bytes, acknowledgment: bytes
    ) -> None:
        """Cache a redirect that was made of these answers, as long as they are cached. Returns at once."""
        if len(key) <= rows.LONGEST_KEY and sources:
            size = (
                len(key) + len(answer) + len(acknowledgment) + sum(len(each.answer.body) for each in sources)
            )
            self._behind.put(key, _PendingRedirect(outcome, tuple(sources), answer, acknowledgment), size)

    def prefetch(self) -> None:
        """Read the file from its disk before the first request."""
        self._file.fetch()

    def close(self) -> None:
        """Write what waits."""
        self._behind.close()

    def _write(self, batch: dict[bytes, _PendingRedirect]) -> int:
        """Write those whose answers are still kept; how many. Runs in the thread that writes."""
        opened = self._file.opened
        if opened is None or self._file.replaced():
            return 0
        written = 0
        try:
            with opened.writing(self._file.sign) as transaction:
                for key in sorted(batch):
                    written += _written(transaction, opened, key, batch[key])
                if opened.used(transaction, 2, 3) > self._most:  # they come again with those who ask
                    _clear(transaction, opened)
        except lmdb.MapFullError:
            with suppress(lmdb.Error), opened.writing(self._file.sign) as transaction:
                _clear(transaction, opened)
            return 0
        except _FAULTS as error:
            self._file.mend(error)
            return 0
        return written


def _written(
    transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes, waiting: _PendingRedirect
) -> bool:
    """Write one, unless one of its answers was forgotten or has another in its place."""
    archives: dict[bytes, int] = {}
    links = []
    for source in waiting.sources:
        generation = rows.same(transaction, opened, source.key, source.answer)
        if generation is None:
            return False
        archives[source.key[: rows.DIGEST]] = generation
        links.append(source.key + blake2b(key, digest_size=_DIGEST).digest())
    for source, link in zip(waiting.sources, links, strict=True):
        _evict_one(transaction, opened, source.key, link)
    heard = max(source.answer.heard for source in waiting.sources)
    fresh_until = min(source.answer.fresh_until for source in waiting.sources)
    row = rows.write_redirect(
        heard, fresh_until, waiting.outcome, list(archives.items()), waiting.answer, waiting.acknowledgment
    )
    transaction.put(key, row, db=opened.tables[2])
    for link in links:
        transaction.put(link, key, db=opened.tables[3])
    return True


def _evict_one(transaction: lmdb.Transaction[bytes], opened: Opened, begin: bytes, link: bytes) -> None:
    """Where enough redirects were made of one answer, drop the one that comes behind `link`: whichever that is."""
    cursor = transaction.cursor(opened.tables[3])
    cursor.set_range(begin)
    for _ in range(MOST_OF_AN_ANSWER):
        if not cursor.key().startswith(begin) or cursor.key() == link:
            return
        cursor.next()
    cursor.set_range(link)
    if not cursor.key().startswith(begin):
        cursor.set_range(begin)
    transaction.delete(cursor.value(), db=opened.tables[2])
    cursor.delete()


def _clear(transaction: lmdb.Transaction[bytes], opened: Opened) -> None:
    for table in opened.tables[2:4]:
        transaction.drop(table, delete=False)
