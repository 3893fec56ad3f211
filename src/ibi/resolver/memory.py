"""What Archives answered and allow to use again, and what nobody had (note 1, threats T20 and T29).

The worker processes share one file. What was forgotten is never answered again, by none of them: each transaction that
writes has a number, and the file has that of the last one in which something of an Archive was forgotten; whatever is
to be kept bears the number from before it was asked for, and is dropped where the other one is higher.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import lmdb

from ibi.resolver import memory_rows as rows
from ibi.resolver.memory_rows import Answer, Counts, Mark
from ibi.resolver.ready import Ready
from ibi.resolver.shared_file import SharedFile
from ibi.resolver.write_behind import WriteBehind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ibi.resolver.shared_file import Opened

MOST_BYTES: Final = 256 * 1024 * 1024
"""So many bytes of answers are kept; beyond that some are dropped, whichever it hits."""

LONGEST_BODY: Final = 256 * 1024
"""Bytes of an answer that is kept."""

STALE_SECONDS: Final = 86_400
"""How long an answer is kept after it could be used as it is, for when its Archive is silent."""

_CLOCK_BACK = (
    60.0  # seconds from the future that are believed: what is younger was kept before the clock was set back
)
_NOBODY = ""  # stands for the Archive where none had the item
_FAULTS = (lmdb.Error, struct.error)
_NEVER = Mark(-1, -1)


class Kept(NamedTuple):
    """An answer, the moment it was kept, and the one until which it may be used as it is (POSIX seconds)."""

    body: bytes
    heard: float
    fresh_until: float


class _Waiting(NamedTuple):
    """An answer that is not in the file yet, and the moment before it was asked for."""

    answer: Answer
    since: Mark


class Memory:
    """Answers by Archive and question. Only `forget` and `forget_nobody` wait for a disk, the constructor and `close`.

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
        self.ready = Ready(self._file, most_bytes)
        """Redirects that were made of these answers, each as long as all of them may be used as they are."""
        self._hand = b""  # where the next round of clearing begins
        self._behind: WriteBehind[_Waiting] = WriteBehind(
            "memory", self._write, self._tend, lambda _, new: new
        )

    @property
    def dropped(self) -> int:
        """How many answers this process could not keep: too many at once, forgotten meanwhile, or no file."""
        return self._behind.dropped

    def answer(self, archive: str, question: str) -> Kept | None:
        """What an Archive answered, if it is kept; past its `fresh_until` only for when that Archive is silent."""
        key = rows.key_of(archive, question)
        later = self._behind.pending(key)  # before the file: it may be written meanwhile
        opened = self._file.opened
        if opened is None or not self._file.is_shown(opened):
            return None
        try:
            with opened.environment.begin() as transaction:
                return self._kept(transaction, opened, key, later)
        except _FAULTS:  # the thread that writes will meet it too, and mend it
            return None

    def answers(self, archives: Sequence[str], question: str) -> dict[str, Kept]:
        """What each of these answered, as `answer`, if anything is kept: one look at the file for all of them."""
        keys = dict(zip(archives, rows.keys_of(archives, question), strict=True))
        waiting = [
            self._behind.pending(key) for key in keys.values()
        ]  # before the file: it may be written meanwhile
        opened = self._file.opened
        if opened is None or not self._file.is_shown(opened):
            return {}
        found = dict[str, Kept]()
        try:
            with opened.environment.begin() as transaction:
                for (archive, key), later in zip(keys.items(), waiting, strict=True):
                    kept = self._kept(transaction, opened, key, later)
                    if kept is not None:
                        found[archive] = kept
        except _FAULTS:  # the thread that writes will meet it too, and mend it
            return {}
        return found

    def _kept(
        self, transaction: lmdb.Transaction[bytes], opened: Opened, key: bytes, later: _Waiting | None
    ) -> Kept | None:
        """What is kept under a key, where `later` waits to be written."""
        counts = rows.counts(transaction, opened, key)
        if later is not None and not later.since.precedes(opened, counts):
            kept: Answer | None = later.answer
        else:
            kept = rows.read(transaction, opened, key, counts.generation)
        if kept is not None and kept.heard - _CLOCK_BACK <= self._now() < kept.until:
            return Kept(kept.body, kept.heard, kept.fresh_until)
        return None

    def mark(self) -> Mark:
        """To be taken before Archives are asked, for `keep`: of what was forgotten meanwhile nothing is kept."""
        opened = self._file.opened
        if opened is None:
            return _NEVER
        try:
            with opened.environment.begin() as transaction:
                return rows.mark(transaction, opened)
        except _FAULTS:
            return _NEVER

    def keep(
        self, archive: str, question: str, body: bytes, seconds: float, since: Mark | None = None
    ) -> None:
        """Keep an answer for so many seconds, and then for when the Archive is silent. Returns at once.

        `since` is the mark taken before the Archive was asked; without it, only what is forgotten from now on counts.
        An answer that is longer than LONGEST_BODY is not kept.
        """
        if len(body) <= LONGEST_BODY:
            self._keep(archive, question, body, seconds, self._stale, since)

    def forget(self, archive: str, name: str | None) -> None:
        """Forget what an Archive said about an item, under this canonical name; with None, all that it said.

        When this returns it is forgotten by all processes, and stays so after a power cut. It may wait for a disk.
        """
        self._forget([(archive, name)])

    def forget_changed(self, archive: str, names: Sequence[str | None]) -> None:
        """Forget what an Archive said about these items, and that nobody has them; as `forget`, all at once."""
        self._forget([(who, name) for name in names for who in (archive, _NOBODY)])

    def _forget(self, told: Sequence[tuple[str, str | None]]) -> None:
        if self._file.opened is None or self._file.replaced():
            self._file.mend()
        opened = self._file.opened
        if opened is None:
            self._file.mend(anew=True)  # others may still be able to read it
            return
        try:
            with opened.writing(self._file.sign) as transaction:
                for archive, name in told:
                    rows.forget(transaction, opened, archive, name)
            opened.environment.sync()
        except _FAULTS as error:  # what cannot be forgotten in part is forgotten as a whole
            self._file.mend(error, anew=True)

    def nobody(self, question: str) -> bool:
        """Whether every Archive said a short while ago that it does not have what this asks for."""
        return self.answer(_NOBODY, question) is not None

    def keep_nobody(self, question: str, seconds: float, since: Mark | None = None) -> None:
        """Keep for so many seconds that nobody has what this asks for. Returns at once."""
        self._keep(_NOBODY, question, b"", seconds, 0.0, since)

    def forget_nobody(self, name: str | None) -> None:
        """Somebody may have this item now; with None, any item. It may wait for a disk, as `forget`."""
        self.forget(_NOBODY, name)

    def close(self) -> None:
        """Write what waits, and give the file back."""
        self._behind.close()
        self.ready.close()
        self._file.close()

    def _keep(
        self, archive: str, question: str, body: bytes, seconds: float, stale: float, since: Mark | None
    ) -> None:
        if seconds <= 0:
            return
        now = self._now()
        answer = Answer(body, now, now + seconds, now + seconds + stale)
        key = rows.key_of(archive, question)
        mark = self.mark() if since is None else since
        self._behind.put(key, _Waiting(answer, mark), len(key) + len(body))

    def _write(self, batch: dict[bytes, _Waiting]) -> int:
        """Write a batch; how many of it were written. Runs in the thread that writes."""
        if self._file.replaced():
            self._file.mend()
        opened = self._file.opened
        if opened is None:
            return 0
        written = 0
        try:
            with opened.writing(self._file.sign) as transaction:
                cursor = transaction.cursor(opened.tables[0])
                for key in sorted(batch):
                    counts: Counts = rows.counts(transaction, opened, key)
                    if not batch[key].since.precedes(opened, counts):
                        rows.undo(transaction, opened, key)
                        rows.write(cursor, key, batch[key].answer, counts.generation)
                        written += 1
                if opened.used(transaction, 0, 1) > self._most:
                    rows.make_room(cursor)
        except (
            lmdb.MapFullError
        ):  # somebody reads for so long that no page comes free: room is made, if it can be
            with suppress(lmdb.Error), opened.writing(self._file.sign) as transaction:
                rows.make_room(transaction.cursor(opened.tables[0]))
            return 0
        except _FAULTS as error:
            self._file.mend(error)
            return 0
        return written

    def _tend(self) -> None:
        """Clear away what is over, a few rows at a time. Runs in the thread that writes."""
        self._file.tend()
        opened = self._file.opened
        if opened is None:
            return
        now = self._now()
        try:
            with opened.environment.begin() as transaction:
                over, self._hand = rows.find_over(transaction, opened, self._hand, now)
            if over:
                with opened.writing(self._file.sign) as transaction:
                    rows.clear(transaction, opened, over, now)
        except _FAULTS as error:
            self._file.mend(error)
