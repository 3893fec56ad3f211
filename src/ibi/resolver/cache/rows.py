"""The rows of the answer cache: answers, and counts of what was forgotten; how they are cleared, with their redirects.

A row of an answer is named by the digests of Archive, name and question, and a number: a body lies in several rows, so
that none needs more than one page, and pages that come free can be used for anything. Everything here happens in a
transaction of the caller and may raise lmdb.Error, and struct.error where a row is not one.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from ibi.resolver.cache.store import drop_stretch

if TYPE_CHECKING:
    import lmdb

    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.cache.store import Opened


TABLES: Final = ("answers", "counts", "redirects", "leading")
"""The last two: redirects, and which of them were made of which answer."""

MOST_OF_A_NAME: Final = 5_000
"""Rows about one name that are dropped one by one; if there are more, all of that Archive is forgotten."""

DIGEST: Final = 12
"""Bytes that stand for an Archive, a name or a question."""

_KEY = 3 * DIGEST
_ROW_BYTES = 4_000
_SEEN_AT_ONCE = 500
_DROPPED_AT_ONCE = 10_000
_HEAD = struct.Struct(">dddQI")  # heard, fresh until, kept until, generation, length
_CHECKSUM = struct.Struct(">I")  # of the head and the body
_COUNTS = struct.Struct(">QQ")


class CachedAnswer(NamedTuple):
    """A cached answer: its body, and the moments when it was heard, becomes stale, and expires."""

    body: bytes
    heard: float
    fresh_until: float
    until: float


class Counts(NamedTuple):
    """Of one Archive: answers of another `generation` do not count; `forgot` is the last transaction to drop some."""

    generation: int
    forgot: int


class Snapshot(NamedTuple):
    """A moment in the life of a file: all that is written to it later has a higher number."""

    epoch: int
    number: int

    def precedes(self, opened: Opened, counts: Counts) -> bool:
        """Whether something of the Archive was forgotten since, or in another file."""
        return self.epoch != opened.epoch or self.number < counts.forgot


def question(query: UrlRequest) -> str:
    """What tells a query from others about the same item: all but who asks (note 5)."""
    return f"{query.ibi.canonical} {'+'.join(query.verbs.verbs)} {query.file_path}"


@lru_cache(maxsize=4096)  # of names of Archives only, which are few: every look-up needs one
def archive_key(archive: str) -> bytes:
    """The key of the counts of an Archive, with which all its rows begin."""
    return blake2b(archive.encode(), digest_size=DIGEST).digest()


def key_of(archive: str, question: str) -> bytes:
    """The key of an answer: digests of the Archive, of the name (the question's first word) and of the question."""
    text = question.encode()
    name = blake2b(text.partition(b" ")[0], digest_size=DIGEST).digest()
    return archive_key(archive) + name + blake2b(text, digest_size=DIGEST).digest()


def counts(transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes) -> Counts:
    """The counts of an Archive; `key` is its own, or that of one of its answers."""
    row = transaction.get(key[:DIGEST], db=opened.tables[1])
    return Counts(opened.epoch, 0) if row is None else Counts(*_COUNTS.unpack(row))


def read_answer(
    transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes, generation: int
) -> CachedAnswer | None:
    """An answer of this generation; None where there is none, or only a part of one."""
    answers = opened.tables[0]
    row = transaction.get(key + b"\0", db=answers)
    if row is None:
        return None
    heard, fresh, until, born, length = _HEAD.unpack_from(row)
    if born != generation:
        return None
    start = _HEAD.size + _CHECKSUM.size
    more = range(1, min(-(-(start + length) // _ROW_BYTES), 256))
    parts = [transaction.get(key + bytes([number]), b"", db=answers) for number in more]
    body = b"".join([row, *parts])[start:]
    checksum = _CHECKSUM.unpack_from(row, _HEAD.size)[0]
    if len(body) != length or checksum != crc32(body, crc32(row[: _HEAD.size])):
        return None
    return CachedAnswer(body, heard, fresh, until)


def same(
    transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes, answer: CachedAnswer
) -> int | None:
    """The generation under which this very answer is kept and not forgotten; None where it is not."""
    generation = counts(transaction, opened, key).generation
    kept = read_answer(transaction, opened, key, generation)
    known = kept is not None and (kept.body, kept.heard, kept.fresh_until) == answer[:3]
    return generation if known else None


def write_answer(cursor: lmdb.Cursor[bytes], key: bytes, answer: CachedAnswer, generation: int) -> None:
    """Put an answer in the place of an earlier one."""
    _delete(cursor, key)
    head = _HEAD.pack(answer.heard, answer.fresh_until, answer.until, generation, len(answer.body))
    whole = head + _CHECKSUM.pack(crc32(answer.body, crc32(head))) + answer.body
    for number, start in enumerate(range(0, len(whole), _ROW_BYTES)):
        cursor.put(key + bytes([number]), whole[start : start + _ROW_BYTES])


def forget(transaction: lmdb.Transaction[bytes], opened: Opened, archive: str, name: str | None) -> None:
    """Forget what an Archive said, all of it or about one name (or question, of which only the name counts)."""
    key = archive_key(archive)
    generation = counts(transaction, opened, key).generation
    about = key_of(archive, name or "")[: 2 * DIGEST]
    if name is None or not (
        _delete(transaction.cursor(opened.tables[0]), about) and undo(transaction, opened, about)
    ):
        generation += 1
    transaction.put(key, _COUNTS.pack(generation, transaction.id()), db=opened.tables[1])


def undo(transaction: lmdb.Transaction[bytes], opened: Opened, begin: bytes) -> bool:
    """Drop the redirects that were made of answers whose keys begin so; False if there are too many of them."""
    cursor = transaction.cursor(opened.tables[3])
    cursor.set_range(begin)
    for _ in range(MOST_OF_A_NAME):
        if not cursor.key().startswith(begin):
            return True
        transaction.delete(cursor.value(), db=opened.tables[2])
        cursor.delete()
    return not cursor.key().startswith(begin)


def find_over(
    transaction: lmdb.Transaction[bytes], opened: Opened, start: bytes, now: float
) -> tuple[list[bytes], bytes]:
    """Return the keys of expired answers in a few rows from `start` on, and where to go on (b"": at the beginning)."""
    cursor = transaction.cursor(opened.tables[0])
    over = list[bytes]()
    found = cursor.set_range(start) if start else cursor.first()
    for _ in range(_SEEN_AT_ONCE):
        if not found:
            return over, b""
        key = cursor.key()
        if key[_KEY] == 0 and is_over(transaction, opened, key[:_KEY], now):
            over.append(key[:_KEY])
        found = cursor.next()
    return over, cursor.key() if found else b""


def is_over(transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes, now: float) -> bool:
    """Whether an answer will never be given again."""
    row = transaction.get(key + b"\0", db=opened.tables[0])
    if row is None:
        return False
    *_, until, generation, _ = _HEAD.unpack_from(row)
    return bool(until <= now or generation != counts(transaction, opened, key).generation)


def clear(transaction: lmdb.Transaction[bytes], opened: Opened, over: list[bytes], now: float) -> None:
    """Drop answers that were found to be over, and still are."""
    cursor = transaction.cursor(opened.tables[0])
    for key in over:
        if is_over(transaction, opened, key, now):
            _delete(cursor, key)


def evict(transaction: lmdb.Transaction[bytes], opened: Opened) -> None:
    """Drop a stretch of answers that begins anywhere, and ends with a whole one."""
    cursor = transaction.cursor(opened.tables[0])
    drop_stretch(cursor, _KEY, _DROPPED_AT_ONCE)
    while cursor.key() and cursor.key()[_KEY] != 0:
        cursor.delete()


def _delete(cursor: lmdb.Cursor[bytes], begin: bytes) -> bool:
    """Drop all rows whose keys begin so; False if that were too many, and some are left."""
    cursor.set_range(begin)
    for _ in range(MOST_OF_A_NAME):
        if not cursor.key().startswith(begin):
            return True
        cursor.delete()
    return not cursor.key().startswith(begin)
