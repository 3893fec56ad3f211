"""The rows of the answer cache: answers, and counts of what was forgotten; and how rows are dropped.

The key of an answer's row consists of the digests of Archive, name and question, and a number: a body is
split into rows, so that none needs more than one page and any free page can be used. All functions work in a
transaction of the caller, and may raise lmdb.Error, or struct.error for a malformed row.
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
"""`leading`: from an answer to the redirects that were made of it."""

MOST_OF_A_NAME: Final = 5_000
"""Rows about one name that are dropped one by one; if there are more, all of that Archive are forgotten."""

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
    """A cached answer: its body, and the moments when it was heard, becomes stale, and is dropped."""

    body: bytes
    heard: float
    fresh_until: float
    until: float


class Counts(NamedTuple):
    """Of one Archive: the `generation` of its valid answers, and the last transaction that `forgot` any."""

    generation: int
    forgot: int


class Snapshot(NamedTuple):
    """A state of a file: its epoch, and a number; transactions that write to it later have higher ones."""

    epoch: int
    number: int

    def precedes(self, opened: Opened, counts: Counts) -> bool:
        """Whether an answer of the Archive was forgotten after this snapshot, or the file was replaced."""
        return self.epoch != opened.epoch or self.number < counts.forgot


def question(query: UrlRequest) -> str:
    """Return the question of a query: its item, verbs and path, without the reader (note 5)."""
    return f"{query.ibi.canonical} {'+'.join(query.verbs.verbs)} {query.file_path}"


@lru_cache(maxsize=4096)  # every look-up needs a key, and there are few Archives
def archive_key(archive: str) -> bytes:
    """Return the key of an Archive's counts, with which the keys of all its rows begin."""
    return blake2b(archive.encode(), digest_size=DIGEST).digest()


def key_of(archive: str, question: str) -> bytes:
    """Return the key of an answer: digests of Archive, name (the question's first word) and question."""
    text = question.encode()
    name = blake2b(text.partition(b" ")[0], digest_size=DIGEST).digest()
    return archive_key(archive) + name + blake2b(text, digest_size=DIGEST).digest()


def counts(transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes) -> Counts:
    """Return the counts of an Archive; `key` is its own, or that of one of its answers."""
    row = transaction.get(key[:DIGEST], db=opened.tables[1])
    # An Archive without a row is at the first generation of this file, its epoch. Each file has another epoch, so
    # an answer that was read before the file was made anew does not pass for one of this generation.
    return Counts(opened.epoch, 0) if row is None else Counts(*_COUNTS.unpack(row))


def read_answer(
    transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes, generation: int
) -> CachedAnswer | None:
    """Return the answer of this generation; None where there is none, or it is damaged."""
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
    """Return the generation of an answer, if it is still in the file; None if forgotten or replaced."""
    generation = counts(transaction, opened, key).generation
    kept = read_answer(transaction, opened, key, generation)
    known = kept is not None and (kept.body, kept.heard, kept.fresh_until) == answer[:3]
    return generation if known else None


def write_answer(cursor: lmdb.Cursor[bytes], key: bytes, answer: CachedAnswer, generation: int) -> None:
    """Write an answer, in place of an earlier one if there is one."""
    _delete(cursor, key)
    head = _HEAD.pack(answer.heard, answer.fresh_until, answer.until, generation, len(answer.body))
    whole = head + _CHECKSUM.pack(crc32(answer.body, crc32(head))) + answer.body
    for number, start in enumerate(range(0, len(whole), _ROW_BYTES)):
        cursor.put(key + bytes([number]), whole[start : start + _ROW_BYTES])


def forget(transaction: lmdb.Transaction[bytes], opened: Opened, archive: str, name: str | None) -> None:
    """Forget all answers of an Archive, or those about one name (of a question, only the name counts)."""
    key = archive_key(archive)
    generation = counts(transaction, opened, key).generation
    about = key_of(archive, name or "")[: 2 * DIGEST]
    if name is None or not (
        _delete(transaction.cursor(opened.tables[0]), about) and undo(transaction, opened, about)
    ):
        generation += 1
    transaction.put(key, _COUNTS.pack(generation, transaction.id()), db=opened.tables[1])


def undo(transaction: lmdb.Transaction[bytes], opened: Opened, begin: bytes) -> bool:
    """Drop the redirects made of answers whose keys begin so; return False if there are too many."""
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
    """Return the keys of expired answers in some rows from `start` on, and the next start, b"" at the end."""
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
    """Whether an answer will never be used again."""
    row = transaction.get(key + b"\0", db=opened.tables[0])
    if row is None:
        return False
    *_, until, generation, _ = _HEAD.unpack_from(row)
    return bool(until <= now or generation != counts(transaction, opened, key).generation)


def clear(transaction: lmdb.Transaction[bytes], opened: Opened, over: list[bytes], now: float) -> None:
    """Drop those of these answers that will never be used again."""
    cursor = transaction.cursor(opened.tables[0])
    for key in over:
        if is_over(transaction, opened, key, now):
            _delete(cursor, key)


def evict(transaction: lmdb.Transaction[bytes], opened: Opened) -> None:
    """Drop rows of answers from a random key on, and the rest of the last answer."""
    cursor = transaction.cursor(opened.tables[0])
    drop_stretch(cursor, _KEY, _DROPPED_AT_ONCE)
    while cursor.key() and cursor.key()[_KEY] != 0:
        cursor.delete()


def _delete(cursor: lmdb.Cursor[bytes], begin: bytes) -> bool:
    """Drop all rows whose keys begin with `begin`; return False if there are too many, and some are left."""
    cursor.set_range(begin)
    for _ in range(MOST_OF_A_NAME):
        if not cursor.key().startswith(begin):
            return True
        cursor.delete()
    return not cursor.key().startswith(begin)
