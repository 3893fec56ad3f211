"""An Archive's store in the models: contents, the log of changes, and what was true lately.

A version of an item is the number of the change that made it; no two changes ever have the same number, so that two
contents are equal only if one is the other, put back.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from proofs.leases import product
from proofs.leases.product import NO_ITEM, Log, number_of, position_text

Versions = tuple[int, ...]
"""The versions of the items, by number."""

Question = tuple[int, ...]
"""The items that are looked up for an answer: the one in question, then those on which the answer rests."""


class Store(NamedTuple):
    """What an Archive has written: the versions of its items, and its log, which is never empty."""

    versions: Versions
    log: Log

    @property
    def position(self) -> str:
        """The last position."""
        return self.log[-1][0]


class ArchiveState(NamedTuple):
    """An Archive: its store, former ones that may come back, and which versions were true how many ticks ago.

    `ended`: (ticks, versions), sorted.
    """

    store: Store
    past: tuple[Store, ...] = ()
    ended: tuple[tuple[int, Versions], ...] = ()


def new_archive(items: int) -> ArchiveState:
    """Return an Archive with so many items."""
    return ArchiveState(Store((0,) * items, ((position_text(1, 0), NO_ITEM),)))


class Archives(NamedTuple):
    """How Archives behave in one world.

    `log`: how many changes a log has at most; `page`: how many changes are in one reply; `back`: whether former stores
    may come back. `by_number`: they look for a position by its number alone. `passes_over`: a position that is not in
    the log counts as older than all of it.
    """

    log: int
    page: int
    back: bool
    by_number: bool = False
    passes_over: bool = False

    def changed(self, archive: ArchiveState, item: int, word: int) -> ArchiveState:
        """Return an Archive after the change of an item, or of all by a change without an item."""
        versions, log = archive.store
        after = (*versions[:item], word, *versions[item + 1 :])
        if item == NO_ITEM:
            after = (word,) * len(versions)
        entry = position_text(number_of(log[-1][0]) + 1, word), item
        return self._replaced(archive, Store(after, (*log, entry)[-self.log :]))

    def restored(self, archive: ArchiveState, past: int, word: int) -> ArchiveState:
        """Return an Archive after a tool has put back a former store: it clears the log first."""
        former = archive.past[past]
        entry = position_text(number_of(former.position) + 1, word), NO_ITEM
        return self._replaced(archive, Store(former.versions, (entry,)))

    def rolled_back(self, archive: ArchiveState, past: int) -> ArchiveState:
        """Return an Archive after its file system was rolled back, which it does not notice."""
        return self._replaced(archive, archive.past[past])

    def _replaced(self, archive: ArchiveState, store: Store) -> ArchiveState:
        former, past = archive.store, archive.past
        ended = archive.ended
        if store.versions != former.versions:
            others = [each for each in ended if each[1] not in {former.versions, store.versions}]
            ended = tuple(sorted([(0, former.versions), *others]))
        if self.back and former not in past:
            past = (*past, former)
        return ArchiveState(store, past, ended)

    def body(self, archive: ArchiveState, after: str, word: int) -> bytes:
        """Return the reply to a request for changes."""
        log = archive.store.log
        known = any(position == after for position, _ in log)
        if not known and after:
            same = [position for position, _ in log if number_of(position) == number_of(after)]
            if same and self.by_number:
                after, known = same[0], True
            known |= self.passes_over
        return product.reply_body(after, word, known, log, self.page)


def content(versions: Versions, question: Question) -> Versions:
    """Return what an answer shows."""
    return tuple([versions[each] for each in question])


def is_true(archive: ArchiveState, question: Question, shown: Versions) -> bool:
    """Whether an answer is true now."""
    return content(archive.store.versions, question) == shown


def was_true(archive: ArchiveState, question: Question, shown: Versions, ticks: int) -> bool:
    """Whether an answer is true, or was within so many ticks."""
    if is_true(archive, question, shown):
        return True
    return any(age <= ticks and content(versions, question) == shown for age, versions in archive.ended)


def aged(archive: ArchiveState, ticks: int) -> ArchiveState:
    """Return an Archive one tick later; what ended more than `ticks` ago is forgotten."""
    if not archive.ended:
        return archive
    ended = tuple([(age + 1, versions) for age, versions in archive.ended if age < ticks])
    return archive._replace(ended=ended)


START_WORD: Final = 1
"""The word of the first change in a world."""
