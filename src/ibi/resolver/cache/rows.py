"""The rows of the answer cache: answers, what they rest on, and the state of each Archive; and how rows are dropped.

    answers     Archive, name, question, number     a part of an answer
    states      Archive                             what was forgotten, and the position of its lease
    rests       Archive, name, name, question       an answer that rests on the first name, too: it is about the second

In keys, digests stand for all but numbers. A body is split into rows, so that none needs more than one page and any
free page can be used. All functions work in a transaction of the caller, and may raise lmdb.Error, or struct.error for
a malformed row.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from ibi.resolver.cache.store import drop_stretch

if TYPE_CHECKING:
    from collections.abc import Iterable

    import lmdb

    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.cache.store import Opened


TABLES: Final = ("answers", "states", "rests")
"""In the order of `Opened.tables`."""

DIGEST: Final = 12
"""Bytes that stand for an Archive, a name or a question."""

MOST_OF_A_NAME: Final = 5_000
"""Rows about one name that are dropped one by one; if there are more, all of that Archive are forgotten."""

_KEY = 3 * DIGEST
_ROW_BYTES = 4_000  # of an answer: a longer one takes several rows
_SEEN_AT_ONCE = 500  # rows that are looked at in one transaction
_DROPPED_AT_ONCE = 10_000  # rows that are dropped when the file is full
# Heard, fresh until, the same by the boot clock, kept until, generation, length.
_HEAD = struct.Struct(">ddddQI")
_CHECKSUM = struct.Struct(">I")  # of the head and the body
_STATE = struct.Struct(">QQ?")  # followed by the position


class CachedAnswer(NamedTuple):
    """A cached answer: its body, and the moments when it was heard, becomes stale, and is dropped.

    `leased`: whether it may be used only while the lease of its Archive runs. Then it becomes stale by the clock since
    the start of the machine (`Moment.boot`), too: at `boot_until`. The clock of another start says nothing of it.
    """

    body: bytes
    heard: float
    fresh_until: float
    until: float
    boot_until: float = 0.0

    @property
    def leased(self) -> bool:
        """Whether it may be used only while the lease of its Archive runs."""
        return self.boot_until > 0


class ArchiveState(NamedTuple):
    """The state of one Archive: the `generation` of its valid answers, the last transaction that `forgot` any.

    `applying`, `position`: see `cache.lease`.
    """

    generation: int
    forgot: int
    applying: bool = False
    position: str = ""


class Snapshot(NamedTuple):
    """A state of a file: its epoch, and a number; transactions that write to it later have higher ones."""

    epoch: int
    number: int

    def precedes(self, opened: Opened, state: ArchiveState) -> bool:
        """Whether an answer of the Archive was forgotten after this snapshot, or the file was replaced."""
        return self.epoch != opened.epoch or self.number < state.forgot


def question(query: UrlRequest) -> str:
    """Return the question of a query: its item, verbs and path, without the reader (note 5: no question twice)."""
    return f"{query.ibi.canonical} {'+'.join(query.verbs.verbs)} {query.file_path}"


@lru_cache(maxsize=4096)  # every look-up needs a key, and there are few Archives
def archive_key(archive: str) -> bytes:
    """Return the key of an Archive's state, with which the keys of all its rows begin."""
    return blake2b(archive.encode(), digest_size=DIGEST).digest()


def key_of(archive: str, question: str) -> bytes:
    """Return the key of an answer: digests of Archive, name (the question's first word) and question."""
    text = question.encode()
    name = blake2b(text.partition(b" ")[0], digest_size=DIGEST).digest()
    return archive_key(archive) + name + blake2b(text, digest_size=DIGEST).digest()


def name_digest(name: str) -> bytes:
    """Return the digest that stands for a canonical name."""
    return blake2b(name.encode(), digest_size=DIGEST).digest()


def state_of(transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes) -> ArchiveState:
    """Return the state of an Archive; `key` is its own, or that of one of its answers."""
    row = transaction.get(key[:DIGEST], db=opened.tables[1])
    # An Archive without a row is at the first generation of this file, its epoch. Each file has another epoch, so
    # an answer that was read before the file was made anew does not pass for one of this generation.
    if row is None:
        return ArchiveState(opened.epoch, 0)
    generation, forgot, applying = _STATE.unpack_from(row)
    return ArchiveState(generation, forgot, applying, row[_STATE.size :].decode("latin-1"))


def write_state(
    transaction: lmdb.Transaction[bytes], opened: Opened, archive: str, state: ArchiveState
) -> None:
    """Write the state of an Archive."""
    row = _STATE.pack(*state[:3]) + state.position.encode("ascii")
    transaction.put(archive_key(archive), row, db=opened.tables[1])


def read_answer(
    transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes, generation: int
) -> CachedAnswer | None:
    """Return the answer of this generation; None where there is none, or it is damaged."""
    answers = opened.tables[0]
    row = transaction.get(key + b"\0", db=answers)
    if row is None:
        return None
    heard, fresh, boot, until, born, length = _HEAD.unpack_from(row)
    if born != generation:
        return None
    start = _HEAD.size + _CHECKSUM.size
    more = range(1, min(-(-(start + length) // _ROW_BYTES), 256))
    parts = [transaction.get(key + bytes([number]), b"", db=answers) for number in more]
    body = b"".join([row, *parts])[start:]
    checksum = _CHECKSUM.unpack_from(row, _HEAD.size)[0]
    if len(body) != length or checksum != crc32(body, crc32(row[: _HEAD.size])):
        return None
    return CachedAnswer(body, heard, fresh, until, boot)


def write_answer(
    transaction: lmdb.Transaction[bytes],
    opened: Opened,
    key: bytes,
    answer: CachedAnswer,
    generation: int,
    rests: Iterable[str] = (),
) -> bool:
    """Write an answer, which rests on further canonical names; return whether it replaces an earlier one."""
    cursor = transaction.cursor(opened.tables[0])
    replaces = _delete(cursor, key) > 0
    head = _HEAD.pack(
        answer.heard, answer.fresh_until, answer.boot_until, answer.until, generation, len(answer.body)
    )
    whole = head + _CHECKSUM.pack(crc32(answer.body, crc32(head))) + answer.body
    for number, start in enumerate(range(0, len(whole), _ROW_BYTES)):
        cursor.put(key + bytes([number]), whole[start : start + _ROW_BYTES])
    for name in rests:
        transaction.put(key[:DIGEST] + name_digest(name) + key[DIGEST:], b"", db=opened.tables[2])
    return replaces


def forget(transaction: lmdb.Transaction[bytes], opened: Opened, archive: str, name: str | None) -> None:
    """Forget all answers of an Archive, or those about one name and those that rest on it."""
    key = archive_key(archive)
    state = state_of(transaction, opened, key)
    generation = state.generation
    if name is None or not _forget_about(transaction, opened, key + name_digest(name)):
        generation += 1
    state = state._replace(generation=generation, forgot=transaction.id())
    write_state(transaction, opened, archive, state)


def _forget_about(transaction: lmdb.Transaction[bytes], opened: Opened, about: bytes) -> bool:
    """Delete the answers about a name and those that rest on it; return False if they are too many."""
    answers, rests = transaction.cursor(opened.tables[0]), transaction.cursor(opened.tables[2])
    if _delete(answers, about) == MOST_OF_A_NAME:
        return False
    rests.set_range(about)
    for _ in range(MOST_OF_A_NAME):
        if not rests.key().startswith(about):
            return True
        _delete(answers, about[:DIGEST] + rests.key()[2 * DIGEST :])
        rests.delete()
    return False


def find_over(
    transaction: lmdb.Transaction[bytes], opened: Opened, start: bytes, now: float
) -> tuple[list[bytes], bytes]:
    """Return the keys of expired answers in some rows from `start` on, and the next start, b"" at the end."""
    over = list[bytes]()
    keys, next_start = _some_keys(transaction.cursor(opened.tables[0]), start)
    for key in keys:
        if key[_KEY] == 0 and is_over(transaction, opened, key[:_KEY], now):
            over.append(key[:_KEY])
    return over, next_start


def find_left(
    transaction: lmdb.Transaction[bytes], opened: Opened, start: bytes
) -> tuple[list[bytes], bytes]:
    """Return the keys in `rests` of answers that are gone, among some keys from `start` on, and the next start."""
    keys, next_start = _some_keys(transaction.cursor(opened.tables[2]), start)
    return [key for key in keys if _is_left(transaction, opened, key)], next_start


def _is_left(transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes) -> bool:
    """Whether the answer of a key in `rests` is gone."""
    return transaction.get(key[:DIGEST] + key[2 * DIGEST :] + b"\0", db=opened.tables[0]) is None


def _some_keys(cursor: lmdb.Cursor[bytes], start: bytes) -> tuple[list[bytes], bytes]:
    keys = list[bytes]()
    found = cursor.set_range(start) if start else cursor.first()
    while found and len(keys) < _SEEN_AT_ONCE:
        keys.append(cursor.key())
        found = cursor.next()
    return keys, cursor.key() if found else b""


def is_over(transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes, now: float) -> bool:
    """Whether an answer will never be used again."""
    row = transaction.get(key + b"\0", db=opened.tables[0])
    if row is None:
        return False
    *_, until, generation, _ = _HEAD.unpack_from(row)
    return bool(until <= now or generation != state_of(transaction, opened, key).generation)


def clear(
    transaction: lmdb.Transaction[bytes], opened: Opened, over: list[bytes], left: list[bytes], now: float
) -> None:
    """Drop those of the answers `over` that will never be used again, and the keys `left` in `rests`."""
    for key in left:  # if such an answer has come meanwhile, it is looked at again here
        if _is_left(transaction, opened, key):
            transaction.delete(key, db=opened.tables[2])
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


def _delete(cursor: lmdb.Cursor[bytes], begin: bytes) -> int:
    """Drop the rows whose keys begin with `begin`, at most MOST_OF_A_NAME; return how many."""
    cursor.set_range(begin)
    for count in range(MOST_OF_A_NAME):
        if not cursor.key().startswith(begin):
            return count
        cursor.delete()
    return MOST_OF_A_NAME
