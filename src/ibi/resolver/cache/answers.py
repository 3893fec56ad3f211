"""Cached answers of Archives, and what no Archive had (note 1, threats T20 and T29).

The worker processes share one file. What was forgotten is never answered again by any of them: each writing transaction
has a number, and for each Archive the file holds the number of the last one in which something of it was forgotten. An
answer bears the number from before it was asked for, and is dropped where the other one is higher.
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
"""Bytes of answers that are kept, and as many of redirects; beyond that some are dropped, not always the oldest."""

LONGEST_BODY: Final = 256 * 1024
"""Bytes of an answer that is kept."""

STALE_SECONDS: Final = 86_400
"""How long an answer is kept after it could be used as it is, for when its Archive is silent."""

_NO_ARCHIVE = ""  # stands for the Archive where none had the item

# How far ahead of the clock the moment of an answer may lie; beyond that, the clock was set back and it is not used.
_CLOCK_BACK = 60.0
_NEVER = Snapshot(-1, -1)


class _PendingAnswer(NamedTuple):
    """An answer that is not in the file yet, and the moment before it was asked for."""

    answer: CachedAnswer
    since: Snapshot


class AnswerCache:
    """Answers by Archive and question. Only the constructor, `forget…` and `close` wait for a disk.

    `archive` is a canonical service IBI; a question is the canonical name of the item, a blank, and what else was
    asked. `path` is a folder of its own, to be opened after a fork and once in a process; `now` gives POSIX seconds.
    Raises SetupError where the folder cannot be used.
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
        """Redirects that were made of these answers, each as long as all of them may be used as they are."""
        self._sweep_position = b""  # where the next sweep begins
        self._behind: WriteBehind[_PendingAnswer] = WriteBehind("memory", self._write, self._tend)

    @property
    def dropped(self) -> int:
        """How many answers this process could not keep: too many at once, forgotten meanwhile, or no file."""
        return self._behind.dropped

    def answer(self, archive: str, question: str) -> CachedAnswer | None:
        """What an Archive answered, if it is kept; past its `fresh_until` only for when that Archive is silent."""
        key = rows.key_of(archive, question)
        later = self._behind.pending(key)  # before the file: it may be written meanwhile
        opened = self._file.opened
        if opened is None or self._file.counter.numbers[0] != opened.epoch:
            return None
        try:
            with opened.environment.begin() as transaction:
                return self._kept(transaction, opened, key, later)
        except FAULTS:  # the thread that writes will meet it too, and mend it
            return None

    def answers(self, archives: Sequence[str], question: str) -> dict[str, CachedAnswer]:
        """What each of these answered, as `answer`, if anything is kept: one look at the file for all of them."""
        rest = rows.key_of("", question)[rows.DIGEST :]
        keys = [rows.archive_key(archive) + rest for archive in archives]
        waiting = [self._behind.pending(key) for key in keys]  # before the file: it may be written meanwhile
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
        """What is kept under a key, where `later` waits to be written."""
        counts = rows.counts(transaction, opened, key)
        if later is not None and not later.since.precedes(opened, counts):
            kept: CachedAnswer | None = later.answer
        else:
            kept = rows.read_answer(transaction, opened, key, counts.generation)
        return kept if kept is not None and kept.heard - _CLOCK_BACK <= self._now() < kept.until else None

    def snapshot(self) -> Snapshot:
        """To be taken before Archives are asked, for `put`: of what was forgotten meanwhile nothing is kept."""
        opened = self._file.opened
        if opened is None:
            return _NEVER
        try:
            with opened.environment.begin() as transaction:
                return Snapshot(opened.epoch, transaction.id())
        except FAULTS:
            return _NEVER

    def unchanged(self, archive: str, since: Snapshot) -> bool:
        """Whether nothing that an Archive said was forgotten since a snapshot, by any process."""
        opened, numbers = self._file.opened, self._file.counter.numbers
        if opened is None or numbers[0] != opened.epoch:
            return False
        if numbers[1] == since.epoch + since.number:  # nothing at all was written
            return True
        try:
            with opened.environment.begin() as transaction:
                return not since.precedes(opened, rows.counts(transaction, opened, rows.archive_key(archive)))
        except FAULTS:
            return False

    def put(
        self, archive: str, question: str, body: bytes, seconds: float, since: Snapshot | None = None
    ) -> None:
        """Keep an answer for so many seconds, and then for when the Archive is silent. Returns at once.

        `since` is the snapshot from before the Archive was asked; without it, only what is forgotten from now counts.
        An answer that is longer than LONGEST_BODY is not kept.
        """
        if seconds <= 0 or len(body) > LONGEST_BODY:
            return
        now, stale = self._now(), 0.0 if archive == _NO_ARCHIVE else self._stale
        answer = CachedAnswer(body, now, now + seconds, now + seconds + stale)
        key = rows.key_of(archive, question)
        snapshot = self.snapshot() if since is None else since
        self._behind.put(key, _PendingAnswer(answer, snapshot), len(key) + len(body))

    def forget(self, archive: str, name: str | None) -> None:
        """Forget what an Archive said about an item, under this canonical name; with None, all that it said.

        When this returns it is forgotten by all processes, and stays so after a power cut. It may wait for a disk.
        """
        self._forget([(archive, name)])

    def forget_changed(self, archive: str, names: Sequence[str | None]) -> None:
        """Forget what an Archive said about these items, and that no Archive has them; as `forget`, all at once."""
        self._forget([(each, name) for name in names for each in (archive, _NO_ARCHIVE)])

    def _forget(self, changes: Sequence[tuple[str, str | None]]) -> None:
        if self._file.opened is None or self._file.replaced():
            self._file.mend()
        opened = self._file.opened
        if opened is None:
            self._file.mend(anew=True)  # others may still be able to read it
            return
        try:
            with opened.writing(self._file.counter) as transaction:
                for archive, name in changes:
                    rows.forget(transaction, opened, archive, name)
            opened.environment.sync()
        except FAULTS as error:  # what cannot be forgotten in part is forgotten as a whole
            self._file.mend(error, anew=True)

    def is_not_known(self, question: str) -> bool:
        """Whether every Archive said a short while ago that it does not have what this asks for."""
        return self.answer(_NO_ARCHIVE, question) is not None

    def put_not_known(self, question: str, seconds: float, since: Snapshot | None = None) -> None:
        """Keep for so many seconds that no Archive has what this asks for. Returns at once."""
        self.put(_NO_ARCHIVE, question, b"", seconds, since)

    def settle(self) -> None:
        """Return when all that is to be kept is written, redirects too."""
        self._behind.settle()
        self.redirects.settle()

    def close(self) -> None:
        """Write what waits, and give the file back."""
        self._behind.close()
        self.redirects.close()
        self._file.close()

    def _write(self, batch: dict[bytes, _PendingAnswer]) -> int:
        """Write a batch; how many of it were written. Runs in the thread that writes."""
        return self._file.write(partial(self._put_all, batch), rows.evict)

    def _put_all(
        self, batch: dict[bytes, _PendingAnswer], transaction: lmdb.Transaction[bytes], opened: Opened
    ) -> int:
        written = 0
        cursor = transaction.cursor(opened.tables[0])
        for key in sorted(batch):
            counts = rows.counts(transaction, opened, key)
            if not batch[key].since.precedes(opened, counts):
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
