"""The holder hints: which Archive held an item last, and which Archive holds its original.

A hint decides which Archive is asked first; a wrong one costs one more query. If the hints are lost, the holders of
originals are read again from the evidence. The worker processes share one file, which the kernel keeps in memory once
for all of them; each process has the names of Archives, and the entries not yet written. See ARC-12: Archives know
where items are; T20: answers for one reader.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

import lmdb

from ibi.resolver.cache.store import FAULTS, SharedFile, WriteBehind, drop_stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from ibi.resolver.cache.store import Opened

MOST_BYTES: Final = 1024 * 1024 * 1024
"""Bytes of hints, about 70 for each item; beyond that some are dropped, not always the oldest."""

_ROW = struct.Struct(">II")  # the numbers of the likely Archive and of the holder of the original; 0: none
_NUMBER = struct.Struct(">I")
_NOTHING = bytes(_ROW.size)
# Added to the number of the likely Archive: it is early; to that of the holder: the original is disputed.
_FLAG: Final = 1 << 31
_REMOVED: Final = 1 << 30  # added to the number of the holder: its holder has removed it
_NUMBERS: Final = _REMOVED - 1
_UNNUMBERED: Final = _NUMBERS  # a number that no Archive gets
_KEY_BYTES: Final = 12  # of the digest of a name
_DROPPED_AT_ONCE = 20_000  # rows that are dropped when the file is full: many more than come in a batch
_COMPLETE = b"complete"  # in the file once it was filled from the evidence to the end


class HolderHint(NamedTuple):
    """The Archives that hold an item, as canonical service IBIs; None where it is not known.

    `likely`: the Archive that answered last. `original`: the Archive that was the first to hold the original, or has
    it since it was moved; "" where several have claimed it, so that none counts as its holder (T05: false claims of
    originals). `early`: whether `likely` answered before an Archive whose service has the item's prefix had been
    heard (T04: a rogue first answer). `removed`: whether the holder of the original has removed the item (note 45:
    filters of holdings).
    """

    likely: str | None
    original: str | None
    early: bool = False
    removed: bool = False

    @property
    def is_disputed(self) -> bool:
        """Whether several Archives have claimed the original."""
        return self.original == ""


class _HintChange(NamedTuple):
    """The row of one item as it is in the file, or the change of it that waits to be written."""

    likely: str | None
    original: str | None
    moved: bool = False
    disputed: bool = False
    early: bool = False
    removed: bool = False

    def then(self, later: _HintChange) -> _HintChange:
        """Merge this change and a later one."""
        # If another Archive becomes the holder, the flag `removed` of the former holder does not go to it.
        another = later.original is not None and (later.moved or self.original is None)
        return _HintChange(
            later.likely or self.likely,
            later.original if another else self.original,
            self.moved or later.moved,
            self.disputed or later.disputed,
            self.early if later.likely is None else later.early,
            later.removed or (self.removed and not another),
        )


_NO_ROW: Final = _HintChange(None, None)


class _ServiceNumbers:
    """The numbers of service IBIs that this process has read; they hold for the file of this epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.names: dict[int, str | None] = {0: None}
        self.numbers: dict[str | None, int] = {None: 0}


class HintCache:
    """Hints about items, by canonical name.

    Only the constructor, `is_complete`, `filling`, `flush` and `close` wait for a disk. `path` is a folder for this
    cache alone, to be opened after a fork and once in a process. `recorded` is called in a thread and returns whether
    the evidence has written all that was noted so far. If not, no new holder is written here, because its entry in
    the evidence may yet be lost. The holder then stays unknown, and the next answer that shows the original records it
    once more (T42: missing evidence). A hint may name an Archive that is no longer included. Raises
    SetupError where the folder cannot be used.
    """

    def __init__(
        self, path: Path, most_bytes: int = MOST_BYTES, recorded: Callable[[], bool] = lambda: True
    ) -> None:
        self._most = most_bytes
        self._recorded = recorded
        self._file = SharedFile(path, most_bytes, ("hints", "services"))
        self._services = _ServiceNumbers(0)
        self._behind: WriteBehind[_HintChange] = WriteBehind(
            "hints", self._write, self._file.tend, _HintChange.then
        )

    @property
    def dropped(self) -> int:
        """How many hints this process could not store: too many at once, or no file to write to."""
        return self._behind.dropped

    def of(self, canonical: str) -> HolderHint:
        """Return the hint of an item."""
        key = _key(canonical)
        pending = self._behind.pending(key)  # a change that is not in the file yet
        row = self._read(key)
        if pending is not None:
            row = row.then(pending)
        return HolderHint(row.likely, "" if row.disputed else row.original, row.early, row.removed)

    def first_holder(self, canonical: str) -> str | None:
        """Return the holder of the original, even where others have claimed it since."""
        key = _key(canonical)
        pending, row = self._behind.pending(key), self._read(key)
        return (row if pending is None else row.then(pending)).original

    def remember(
        self,
        canonicals: Iterable[str],
        *,
        likely: str | None = None,
        original: str | None = None,
        early: bool = False,
    ) -> None:
        """Store who answered for the names of an item, and its holder; a known holder is not replaced."""
        for canonical in canonicals:
            self._behind.put(_key(canonical), _HintChange(likely, original, early=early))

    def moved(self, canonicals: Iterable[str], original: str) -> None:
        """Store that the original has moved to this Archive."""
        for canonical in canonicals:
            self._behind.put(_key(canonical), _HintChange(original, original, moved=True))

    def removed(self, canonicals: Iterable[str], holder: str) -> None:
        """Store that the known holder of the original has removed the item."""
        for canonical in canonicals:
            self._behind.put(_key(canonical), _HintChange(None, holder, removed=True))

    def say_removed(self, canonicals: Iterable[str], service: str) -> None:
        """Store that this Archive says that it removed the item; that does not make it the holder (T04)."""
        for canonical in canonicals:
            self._behind.put(_key(_removal(canonical, service)), _HintChange(None, None, removed=True))

    def says_removed(self, canonical: str, service: str) -> bool:
        """Whether this Archive has said that it removed the item."""
        return self.of(_removal(canonical, service)).removed

    def dispute(self, canonicals: Iterable[str]) -> None:
        """Store that several Archives have claimed the original: from now on none counts as its holder."""
        for canonical in canonicals:
            self._behind.put(_key(canonical), _HintChange(None, None, disputed=True))

    def is_complete(self) -> bool:
        """Whether the file was filled from the evidence to the end (`filling`) since it was begun."""
        opened = self._file.opened
        if opened is None:
            return False
        try:
            with opened.environment.begin(opened.about) as transaction:
                return transaction.get(_COMPLETE) is not None
        except FAULTS as error:
            self._file.mend(error)
            return False

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Record that the file is complete when this ends, unless by an error, or if some of it was lost."""
        begun = self._file.opened, self.dropped
        yield
        self.flush()
        opened = self._file.opened
        if opened is None or (opened, self.dropped) != begun:
            return
        try:
            with opened.environment.begin(opened.about, write=True) as transaction:
                transaction.put(_COMPLETE, b"1")
        except FAULTS as error:
            self._file.mend(error)

    def flush(self) -> None:
        """Wait until all that was put is written."""
        self._behind.flush()

    def close(self) -> None:
        """Write what waits to be written, and close the file."""
        self._behind.close()
        self._file.close()

    def _read(self, key: bytes) -> _HintChange:
        """Read the row of an item from the file; _NO_ROW where there is none."""
        opened = self._file.opened
        if opened is None:
            return _NO_ROW
        hints, services = opened.tables
        try:
            transaction = opened.environment.begin(hints)
            try:
                row = transaction.get(key)
                if row is None:
                    return _NO_ROW
                likely, original = _ROW.unpack(row)
                early = disputed = removed = False
                if (likely | original) & _FLAG or original & _REMOVED:
                    early, disputed, removed = likely >= _FLAG, original >= _FLAG, bool(original & _REMOVED)
                    likely, original = likely & _NUMBERS, original & _NUMBERS
                known = self._known(opened).names
                if likely not in known or original not in known:
                    for number in (likely, original):
                        service = transaction.get(_NUMBER.pack(number), db=services)
                        known[number] = None if service is None else service.decode("utf-8", "replace")
                return _HintChange(
                    known[likely], known[original], disputed=disputed, early=early, removed=removed
                )
            finally:
                transaction.abort()
        except FAULTS:  # the thread that writes will meet it too, and mend it
            return _NO_ROW

    def _known(self, opened: Opened) -> _ServiceNumbers:
        services = self._services
        if services.epoch != opened.epoch:
            services = self._services = _ServiceNumbers(opened.epoch)
        return services

    def _write(self, batch: dict[bytes, _HintChange]) -> int:
        """Write a batch of changes; return how many were written. Runs in the thread that writes."""
        if any(note.original for note in batch.values()) and not self._recorded():
            batch = {key: self._without_holder(key, note) for key, note in batch.items()}
        if self._file.replaced():
            self._file.mend()
        opened = self._file.opened
        if opened is None:
            return 0
        try:
            news = self._news(opened, batch)
            if news:
                self._put(opened, news)
        # A reader holds its transaction so long that no page comes free: drop some, if that can be done.
        except lmdb.MapFullError:
            with suppress(lmdb.Error), opened.environment.begin(write=True) as transaction:
                drop_stretch(transaction.cursor(opened.tables[0]), _KEY_BYTES, _DROPPED_AT_ONCE)
            return 0
        except lmdb.Error as error:
            self._file.mend(error)
            return 0
        return len(batch)

    def _without_holder(self, key: bytes, note: _HintChange) -> _HintChange:
        """Return a change without its holder, and without the removal by one that the file does not have."""
        removed = note.removed and note.original in {None, self._read(key).original}
        return note._replace(original=None, moved=False, removed=removed)

    def _news(self, opened: Opened, batch: dict[bytes, _HintChange]) -> dict[bytes, _HintChange]:
        """Return the changes of a batch that the file lacks; most are there, as most clicks repeat links."""
        hints, services = opened.tables
        numbers = self._known(opened).numbers
        with opened.environment.begin(hints) as transaction:
            for note in batch.values():
                for service in (note.likely, note.original):
                    if service not in numbers and service is not None:
                        found = transaction.get(_key(service), db=services)
                        if found is not None:
                            numbers[service] = _NUMBER.unpack(found)[0]
            return {
                key: note
                for key, note in batch.items()
                if (row := transaction.get(key)) is None or _row(row, note, numbers) != row
            }

    def _put(self, opened: Opened, news: dict[bytes, _HintChange]) -> None:
        hints, services = opened.tables
        known = self._known(opened)
        fresh: dict[str | None, int] = {}
        with opened.environment.begin(hints, write=True) as transaction:
            numbers = dict(known.numbers)
            for note in news.values():
                for service in (note.likely, note.original):
                    if service is not None and service not in numbers:
                        numbers[service] = fresh[service] = _number(transaction, services, service)
            for key in sorted(news):
                transaction.put(key, _row(transaction.get(key, _NOTHING), news[key], numbers))
            if opened.used(transaction) > self._most:
                drop_stretch(transaction.cursor(hints), _KEY_BYTES, _DROPPED_AT_ONCE)
        known.numbers.update(fresh)  # only after the commit are the new numbers certain


def _row(row: bytes, note: _HintChange, numbers: dict[str | None, int]) -> bytes:
    """Return a row with a change applied; if its Archive has no number yet, it equals no row in the file."""
    likely, original = _ROW.unpack(row)
    if note.likely is not None:
        likely = numbers.get(note.likely, _UNNUMBERED) | (_FLAG if note.early else 0)
    disputed = _FLAG if note.disputed else original & _FLAG
    another = note.original is not None and (note.moved or not original & _NUMBERS)
    removed = _REMOVED if note.removed else 0 if another else original & _REMOVED
    if another:
        original = numbers.get(note.original, _UNNUMBERED)
    return _ROW.pack(likely, original & _NUMBERS | disputed | removed)


def _number(transaction: lmdb.Transaction[bytes], services: lmdb._Database, service: str) -> int:
    """Return the number of a service IBI, a new one if it has none. Numbers are never reused."""
    key = _key(service)
    found = transaction.get(key, db=services)
    if found is None:
        found = _NUMBER.pack(transaction.stat(services)["entries"] // 2 + 1)
        transaction.put(key, found, db=services)
        transaction.put(found, service.encode(), db=services)
    return int(_NUMBER.unpack(found)[0])


def _removal(canonical: str, service: str) -> str:
    """Return the name under which an Archive's report of a removal is stored, beside the item's own row."""
    return f"removed {service} {canonical}"


def _key(canonical: str) -> bytes:
    return blake2b(canonical.encode(), digest_size=_KEY_BYTES).digest()
