"""The redirect cache: redirects for the fast path (notes 1 and 2, threat T20).

They are in the file of the answer cache, beside the answers that they were made of: the transaction that
drops or replaces an answer drops its redirects too. So none is returned after one of its answers was dropped.

A redirect is one row, read with one look-up (threats T20, T35):

    head        a checksum; when its answers were heard; when they expire; the outcome; the number of Archives
    Archives    for each, its key (12 bytes), and the generation under which its answers are kept
    answer      the rest of the response: header lines and an empty line
    acknowledgment      a checksum, and the acknowledgment to be sent; empty where there is no URL key

A row with the outcome BY_LANGUAGE is no redirect: it is looked up again, with the Accept-Language.
"""

from __future__ import annotations

import struct
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from ibi.resolver.cache import rows
from ibi.resolver.cache.store import FAULTS, WriteBehind
from ibi.runtime.generation_counter import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import lmdb

    from ibi.resolver.cache.rows import CachedAnswer
    from ibi.resolver.cache.store import Opened, SharedFile


MOST_OF_AN_ANSWER: Final = 32
"""Redirects made of one answer: a name has about as many usual spellings. One more replaces another."""

CLOCK_BACK: Final = 60.0
"""Seconds by which an entry may be later than the clock; a later one is not used: the clock was set back."""

LONGEST_KEY: Final = 500
"""Bytes of a key; LMDB takes a few more."""

BY_LANGUAGE: Final = 255
"""The outcome number of a row that stands for rows with the Accept-Language in their key."""

_DIGEST = 8
# `rows.archive_key`, and the generation of that Archive's answers.
_ARCHIVE: Final = struct.Struct(">12sQ")
_CHECKSUM: Final = struct.Struct(">I")
# Checksum, heard, fresh until, outcome, Archives, bytes of the answer.
_HEAD: Final = struct.Struct(">IddBBH")

CachedRedirect = tuple[bytes, int, int, bytes]
"""A redirect that may be sent: the response, its outcome number for the metrics, the checksum of its row, and
the row. A tuple and no class, because one is made for each redirect that is sent."""


class SourceAnswer(NamedTuple):
    """An answer that a redirect was made of, as it was read in the cache file under this key."""

    key: bytes
    answer: CachedAnswer


class PendingRedirect(NamedTuple):
    """A redirect that is not in the file yet. `sources`: the cached answers that it rests on, at least one."""

    outcome: int
    sources: tuple[SourceAnswer, ...]
    answer: bytes
    acknowledgment: bytes


class RedirectCache:
    """The redirects in a file that the answer cache opened and closes. Neither `put` nor `find` waits for a disk."""

    def __init__(self, file: SharedFile, most_bytes: int) -> None:
        self._file = file
        self._most = most_bytes
        self.file_numbers = file.counter.numbers
        """The second number is the state of the file: while it is unchanged, rows read before still hold."""
        self._state = UNKNOWN  # of the file when `find` last found a row
        self._held: set[bytes] = set()  # the Archives that were found valid in that state
        self._withheld: frozenset[bytes] = frozenset()
        self.on_withheld: Callable[[], object] = lambda: None
        """Called after each call of `withhold`."""
        self._behind: WriteBehind[PendingRedirect] = WriteBehind("redirects", self._write, lambda: None)

    def find(self, key: bytes, now: float) -> CachedRedirect | None:
        """Return the redirect under a key, if it may be sent at the moment `now` (POSIX seconds).

        With the outcome BY_LANGUAGE it is no redirect, but stands for those under longer keys.
        """
        opened = self._file.opened
        if opened is None or self.file_numbers[0] != opened.epoch:
            return None
        try:
            transaction = opened.environment.begin()
            try:
                row = transaction.get(key, None, opened.tables[2])
                found = None if row is None else read_redirect(row, now, now + CLOCK_BACK)
                if found is not None and self._hold(transaction, opened, found[1]):
                    return found[0]
            finally:
                transaction.abort()
        except FAULTS:  # the thread that writes will meet it too, and mend it
            pass
        return None

    def withhold(self, archives: Iterable[str]) -> None:
        """Withhold the redirects that rest on answers of these (canonical service IBIs), and no others."""
        self._withheld = frozenset(map(rows.archive_key, archives))
        self._held.clear()
        self.on_withheld()

    def withholds(self, archive: str) -> bool:
        """Whether redirects that rest on answers of this Archive are withheld."""
        return bool(self._withheld) and rows.archive_key(archive) in self._withheld

    def state(self) -> int:
        """Return the state of the file when the last redirect was found, if unchanged; else UNKNOWN."""
        return self._state if self.file_numbers[1] == self._state else UNKNOWN

    def _hold(self, transaction: lmdb.Transaction[bytes], opened: Opened, archives: bytes) -> bool:
        """Whether none of these Archives is withheld, and all have the generation that the redirect has."""
        state = opened.epoch + transaction.id()
        if state != self._state:
            self._state = state
            self._held.clear()
        if archives not in self._held:
            for archive, generation in _ARCHIVE.iter_unpack(archives):
                if (
                    archive in self._withheld
                    or rows.counts(transaction, opened, archive).generation != generation
                ):
                    return False
            self._held.add(archives)
        return True

    def put(
        self, key: bytes, outcome: int, sources: Sequence[SourceAnswer], answer: bytes, acknowledgment: bytes
    ) -> None:
        """Cache a redirect that was made of these answers, as long as they are cached. Returns at once."""
        if len(key) <= LONGEST_KEY and sources:
            bodies = sum(len(each.answer.body) for each in sources)
            size = len(key) + len(answer) + len(acknowledgment) + bodies
            self._behind.put(key, PendingRedirect(outcome, tuple(sources), answer, acknowledgment), size)

    def prefetch(self) -> None:
        """Have the file read from its disk before the first request."""
        self._file.fetch()

    def flush(self) -> None:
        """Wait until all that was put is written."""
        self._behind.flush()

    def close(self) -> None:
        """Write what waits to be written."""
        self._behind.close()

    def _write(self, batch: dict[bytes, PendingRedirect]) -> int:
        return self._file.write(partial(self._put_all, batch), _clear)

    def _put_all(
        self, batch: dict[bytes, PendingRedirect], transaction: lmdb.Transaction[bytes], opened: Opened
    ) -> int:
        written = sum([put_redirect(transaction, opened, key, batch[key]) for key in sorted(batch)])
        if opened.used(transaction, 2, 3) > self._most:  # the next requests put them in again
            _clear(transaction, opened)
        return written


def put_redirect(
    transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes, waiting: PendingRedirect
) -> bool:
    """Write a redirect, unless one of its answers was forgotten or replaced."""
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
    middle = b"".join(_ARCHIVE.pack(*each) for each in archives.items()) + waiting.answer
    head = _HEAD.pack(0, heard, fresh_until, waiting.outcome, len(archives), len(waiting.answer))
    signed = head[_CHECKSUM.size :] + middle
    checksums = _CHECKSUM.pack(crc32(signed)), _CHECKSUM.pack(crc32(waiting.acknowledgment))
    row = b"".join((checksums[0], signed, checksums[1], waiting.acknowledgment))
    transaction.put(key, row, db=opened.tables[2])
    for link in links:
        transaction.put(link, key, db=opened.tables[3])
    return True


def _evict_one(transaction: lmdb.Transaction[bytes], opened: Opened, begin: bytes, link: bytes) -> None:
    """Drop one redirect of an answer that has MOST_OF_AN_ANSWER: the next by key, so any of them."""
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


def read_redirect(row: bytes, now: float, latest: float) -> tuple[CachedRedirect, bytes] | None:
    """Read a redirect, and its Archives, each as `_ARCHIVE`; None where it has expired or is damaged.

    An answer that was heard after the moment `latest` is not used. Raises struct.error if `row` is none.
    """
    checksum, heard, fresh_until, outcome, archives, length = _HEAD.unpack_from(row)
    start = _HEAD.size + _ARCHIVE.size * archives
    end = start + length
    if now >= fresh_until or heard > latest or crc32(row[_CHECKSUM.size : end]) != checksum:
        return None
    return (row[start:end], outcome, checksum, row), row[_HEAD.size : start]


def fresh_until(row: bytes) -> float:
    """Return the moment until which the redirect of a row may be sent (POSIX seconds)."""
    return float(_HEAD.unpack_from(row)[2])


def acknowledgment_of(row: bytes) -> bytes | None:
    """Return the acknowledgment that belongs to a redirect; None if it is damaged."""
    archives, length = _HEAD.unpack_from(row)[4:]
    start = _HEAD.size + _ARCHIVE.size * archives + length
    acknowledgment = row[start + _CHECKSUM.size :]
    return acknowledgment if _CHECKSUM.unpack_from(row, start)[0] == crc32(acknowledgment) else None
