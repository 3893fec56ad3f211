"""Redirects that lie ready: what the express lane gives (notes 1 and 2, threat T20).

They lie in the file of `memory`, beside the answers that they were made of, and go with these: whatever drops an
answer or puts another one in its place drops its redirects in the same transaction, and whoever looks finds either
all of it or nothing. So nothing is ever given that an Archive has had forgotten, in whatever process.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

import lmdb

from ibi.resolver import memory_rows, ready_rows
from ibi.resolver.sign import UNKNOWN
from ibi.resolver.write_behind import WriteBehind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.resolver.memory_rows import Answer
    from ibi.resolver.ready_rows import Redirect
    from ibi.resolver.shared_file import Opened, SharedFile

MOST_OF_AN_ANSWER: Final = 32
"""So many redirects are made of one answer, as many as its name has usual spellings; one more takes another's place."""

CLOCK_BACK: Final = 60.0
"""Seconds from the future that are believed: what is younger was heard before the clock was set back."""

_FAULTS = (lmdb.Error, struct.error)
_DIGEST = 8


class Source(NamedTuple):
    """An answer that a redirect was made of: its key in the file of `memory`, and how it was read there."""

    key: bytes
    answer: Answer


class _Waiting(NamedTuple):
    """A redirect that is not in the file yet; without sources, a hint."""

    story: int
    sources: tuple[Source, ...]
    answer: bytes
    thanks: bytes


class Ready:
    """The redirects in a file that `memory` has opened, and closes. `keep` waits for no disk, nor does `find`."""

    def __init__(self, file: SharedFile, most_bytes: int) -> None:
        self._file = file
        self._most = most_bytes
        self.shown = file.sign.numbers
        """The second of these is the state of the file, for whoever found something in that and would give it again."""
        self._state = UNKNOWN  # of the file when something was found last
        self._held: set[bytes] = set()  # Archives that were looked at in that state
        self._behind: WriteBehind[_Waiting] = WriteBehind(
            "ready", self._write, lambda: None, lambda _, new: new
        )

    def find(self, key: bytes, now: float) -> Redirect | None:
        """The redirect under a key, if it may be given at this moment (POSIX seconds).

        One whose story is BY_LANGUAGE is a hint that stands for those under longer keys.
        """
        opened = self._file.opened
        if opened is None or self.shown[0] != opened.epoch:
            return None
        try:
            transaction = opened.environment.begin()
            try:
                row = transaction.get(key, None, opened.tables[2])
                found = None if row is None else ready_rows.read(row, now, now + CLOCK_BACK)
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
            for archive, generation in ready_rows.ARCHIVE.iter_unpack(archives):
                if memory_rows.counts(transaction, opened, archive).generation != generation:
                    return False
            self._held.add(archives)
        return True

    def keep(self, key: bytes, story: int, sources: Sequence[Source], answer: bytes, thanks: bytes) -> None:
        """Have a redirect ready that was made of these answers, as long as they are kept. Returns at once."""
        if len(key) <= ready_rows.LONGEST_KEY and sources:
            size = len(key) + len(answer) + len(thanks) + sum(len(each.answer.body) for each in sources)
            self._behind.put(key, _Waiting(story, tuple(sources), answer, thanks), size)

    def warm(self) -> None:
        """Have the file read from its disk before anybody asks: what is there is given from the first request on."""
        self._file.fetch()

    def close(self) -> None:
        """Write what waits."""
        self._behind.close()

    def _write(self, batch: dict[bytes, _Waiting]) -> int:
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


def _written(transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes, waiting: _Waiting) -> bool:
    """Write one, unless one of its answers was forgotten or has another in its place."""
    archives: dict[bytes, int] = {}
    links = []
    for source in waiting.sources:
        generation = memory_rows.same(transaction, opened, source.key, source.answer)
        if generation is None:
            return False
        archives[source.key[: memory_rows.DIGEST]] = generation
        links.append(source.key + blake2b(key, digest_size=_DIGEST).digest())
    for source, link in zip(waiting.sources, links, strict=True):
        _make_room(transaction, opened, source.key, link)
    heard = max(source.answer.heard for source in waiting.sources)
    fresh_until = min(source.answer.fresh_until for source in waiting.sources)
    row = ready_rows.write(
        heard, fresh_until, waiting.story, list(archives.items()), waiting.answer, waiting.thanks
    )
    transaction.put(key, row, db=opened.tables[2])
    for link in links:
        transaction.put(link, key, db=opened.tables[3])
    return True


def _make_room(transaction: lmdb.Transaction[bytes], opened: Opened, begin: bytes, link: bytes) -> None:
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
