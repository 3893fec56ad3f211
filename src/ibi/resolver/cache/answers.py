"""The answer cache, and the negative cache: items that no Archive has (note 1, threats T20 and T29).

The worker processes share one file. None of them ever returns an answer after it was forgotten: each writing
transaction has a number, and for each Archive the file holds the number of the last transaction that forgot
an answer of it. A new answer carries the number from before its query, and is dropped if that is lower.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.resolver.cache import rows
from ibi.resolver.cache.redirects import RedirectCache
from ibi.resolver.cache.rows import CachedAnswer, Snapshot
from ibi.resolver.cache.store import FAULTS, SharedFile, WriteBehind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import lmdb

    from ibi.resolver.cache.store import Opened

MOST_BYTES: Final = 256 * 1024 * 1024
"""Bytes of cached answers, and as many of redirects; beyond that some are dropped, not always the oldest."""

LONGEST_BODY: Final = 256 * 1024
"""Bytes of the longest answer that is cached."""

STALE_SECONDS: Final = 86_400
"""Seconds for which an expired answer is kept, to be used when its Archive is silent."""

_NO_ARCHIVE = ""  # stands in place of an Archive, for items that no Archive had

# Seconds by which an answer may be newer than the clock; a newer one is not used: the clock was set back.
_CLOCK_BACK = 60.0
_NEVER = Snapshot(-1, -1)


class _PendingAnswer(NamedTuple):
    """An answer that is not in the file yet; `snapshot`: the one from before its query was sent."""

    answer: CachedAnswer
    snapshot: Snapshot


class AnswerCache:
    """Answers by Archive and question. Only the constructor, `forget…`, `flush` and `close` wait for a disk.

    `archive` is always a canonical service IBI; a question is the canonical name of the item, a blank, and
    the rest of the query (see `rows.question`). `path` is a folder for this cache alone, to be opened after a
    fork and once in a process; `now` returns POSIX seconds. Raises SetupError if the folder is unusable.
    """

    def __init__(
        self,
        path: Path,
        now: Callable[[], float],
        most_bytes: int = MOST_BYTES,
        stale_seconds: float = STALE_SECONDS,
    ) -> None:
        self._now = now
        self._most = most_bytes
        self._stale = stale_seconds
        self._file = SharedFile(path, 2 * most_bytes, rows.TABLES)
        self.redirects = RedirectCache(self._file, most_bytes)
        """Redirects that were made of these answers; each holds while all of its answers are fresh."""
        self._sweep_position = b""  # where the next sweep begins
        self._behind: WriteBehind[_PendingAnswer] = WriteBehind("answers", self._write, self._tend)

    @property
    def dropped(self) -> int:
        """How many answers this process could not cache: too many waited, forgotten meanwhile, or no file."""
        return self._behind.dropped

    def answer(self, archive: str, question: str) -> CachedAnswer | None:
        """Return the cached answer of an Archive; after its `fresh_until`, use it only if that is silent."""
        key = rows.key_of(archive, question)
        later = self._behind.pending(key)  # before the file, because it may be written meanwhile
        opened = self._file.opened
        if opened is None or self._file.counter.numbers[0] != opened.epoch:
            return None
        try:
            with opened.environment.begin() as transaction:
                return self._kept(transaction, opened, key, later)
        except FAULTS:  # the thread that writes will meet it too, and mend it
            return None

    def answers(self, archives: Sequence[str], question: str) -> dict[str, CachedAnswer]:
        """Return the cached answers of these Archives, as `answer` does, in one transaction for all."""
        rest = rows.key_of("", question)[rows.DIGEST :]
        keys = [rows.archive_key(archive) + rest for archive in archives]
        waiting = [self._behind.pending(key) for key in keys]  # before the file, as in `answer`
        opened = self._file.opened
        if opened is None or self._file.counter.numbers[0] != opened.epoch:
            return {}
        try:
            with opened.environment.begin() as transaction:
                kept = [self._kept(transaction, opened, *each) for each in zip(keys, waiting, strict=True)]
        except FAULTS:  # the thread that writes will meet it too, and mend it
            return {}
        return {archive: each for archive, each in zip(archives, kept, strict=True) if each is not None}

    def _kept(
        self, transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes, later: _PendingAnswer | None
    ) -> CachedAnswer | None:
        """Return the answer under a key; `later`: the one that waits to be written, if any."""
        counts = rows.counts(transaction, opened, key)
        if later is not None and not later.snapshot.precedes(opened, counts):
            kept: CachedAnswer | None = later.answer
        else:
            kept = rows.read_answer(transaction, opened, key, counts.generation)
        return kept if kept is not None and kept.heard - _CLOCK_BACK <= self._now() < kept.until else None

    def snapshot(self) -> Snapshot:
        """Return a snapshot for `put`, to be taken before the query: what was forgotten since is not put."""
        opened = self._file.opened
        if opened is None:
            return _NEVER
        try:
            with opened.environment.begin() as transaction:
                return Snapshot(opened.epoch, transaction.id())
        except FAULTS:
            return _NEVER

    def unchanged(self, archive: str, snapshot: Snapshot) -> bool:
        """Whether no process has forgotten an answer of this Archive since a snapshot."""
        opened, numbers = self._file.opened, self._file.counter.numbers
        if opened is None or numbers[0] != opened.epoch:
            return False
        if numbers[1] == snapshot.epoch + snapshot.number:  # nothing at all was written
            return True
        try:
            with opened.environment.begin() as transaction:
                counts = rows.counts(transaction, opened, rows.archive_key(archive))
                return not snapshot.precedes(opened, counts)
        except FAULTS:
            return False

    def put(
        self, archive: str, question: str, body: bytes, seconds: float, snapshot: Snapshot | None = None
    ) -> None:
        """Cache an answer: fresh for so many seconds, then for when the Archive is silent. Returns at once.

        `snapshot` is the one from before the Archive was asked, by default one of now. An answer that is
        longer than LONGEST_BODY is not cached.
        """
        if seconds <= 0 or len(body) > LONGEST_BODY:
            return
        now, stale = self._now(), 0.0 if archive == _NO_ARCHIVE else self._stale
        answer = CachedAnswer(body, now, now + seconds, now + seconds + stale)
        key = rows.key_of(archive, question)
        taken = self.snapshot() if snapshot is None else snapshot
        self._behind.put(key, _PendingAnswer(answer, taken), len(key) + len(body))

    def drop(self, archive: str, question: str) -> None:
        """Drop the cached answer of an Archive, because it is not believed (threat T08). Returns at once.

        This process does not return it any more, the others until the next batch is written.
        """
        # An expired answer is put in its place: `forget` would wait for the disk, and an Archive that is not
        # believed could cause that with each answer.
        if self.answer(archive, question) is not None:
            key, expired = rows.key_of(archive, question), CachedAnswer(b"", self._now(), 0.0, 0.0)
            self._behind.put(key, _PendingAnswer(expired, self.snapshot()), len(key))

    def forget(self, archive: str, name: str | None) -> None:
        """Forget an Archive's answers about the item of this canonical name; with None, all of its answers.

        When this returns, all processes have forgotten them, also after a power cut. It may wait for a disk.
        """
        self._forget([(archive, name)])

    def forget_changed(self, archive: str, names: Sequence[str | None]) -> None:
        """Forget, as `forget` does, an Archive's answers about these items, and that no Archive has them."""
        self._forget([(each, name) for name in names for each in (archive, _NO_ARCHIVE)])

    def _forget(self, changes: Sequence[tuple[str, str | None]]) -> None:
        if self._file.opened is None or self._file.replaced():
            self._file.mend()
        opened = self._file.opened
        if opened is None:
            self._file.mend(anew=True)  # replaced, because other processes may still be able to read it
            return
        try:
            with opened.writing(self._file.counter) as transaction:
                for archive, name in changes:
                    rows.forget(transaction, opened, archive, name)
            opened.environment.sync()
        except FAULTS as error:  # where one answer cannot be forgotten, the whole file is
            self._file.mend(error, anew=True)

    def is_not_known(self, question: str) -> bool:
        """Whether every Archive said a short while ago that it does not know the item of this question."""
        return self.answer(_NO_ARCHIVE, question) is not None

    def put_not_known(self, question: str, seconds: float, snapshot: Snapshot | None = None) -> None:
        """Cache for so many seconds that no Archive knows the item of this question. Returns at once."""
        self.put(_NO_ARCHIVE, question, b"", seconds, snapshot)

    def flush(self) -> None:
        """Wait until all that was put is written, redirects too."""
        self._behind.flush()
        self.redirects.flush()

    def close(self) -> None:
        """Write what waits to be written, and close the file."""
        self._behind.close()
        self.redirects.close()
        self._file.close()

    def _write(self, batch: dict[bytes, _PendingAnswer]) -> int:
        """Write a batch; return how many entries of it were written. Runs in the thread that writes."""
        return self._file.write(partial(self._put_all, batch), rows.evict)

    def _put_all(
        self, batch: dict[bytes, _PendingAnswer], transaction: lmdb.Transaction[bytes], opened: Opened
    ) -> int:
        written = 0
        cursor = transaction.cursor(opened.tables[0])
        for key in sorted(batch):
            counts = rows.counts(transaction, opened, key)
            if not batch[key].snapshot.precedes(opened, counts):
                rows.undo(transaction, opened, key)
                rows.write_answer(cursor, key, batch[key].answer, counts.generation)
                written += 1
        if opened.used(transaction, 0, 1) > self._most:
            rows.evict(transaction, opened)
        return written

    def _tend(self) -> None:
        """Delete expired rows, a few at a time. Runs in the thread that writes."""
        self._file.tend()
        opened = self._file.opened
        if opened is None:
            return
        now = self._now()
        try:
            with opened.environment.begin() as transaction:
                over, self._sweep_position = rows.find_over(transaction, opened, self._sweep_position, now)
            if over:
                with opened.writing(self._file.counter) as transaction:
                    rows.clear(transaction, opened, over, now)
        except FAULTS as error:
            self._file.mend(error)
