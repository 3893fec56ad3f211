"""The answer cache, and the negative cache: items that no Archive has.

The worker processes share one file. None of them ever returns an answer after it was forgotten. See note 1: reuse of
answers; T20: answers for one reader; T29: costly requests.

    an answer with a position     is used only while the lease of its Archive runs (`resolver.cache.lease`). The file
                                  holds for each Archive the position up to which it has applied all changes. The
                                  answer is kept only if it has the same position: then it shows the changes that the
                                  file has applied, and no others
    an answer without a position  is used for its `max-age`. It is kept only if no answer of its Archive was forgotten
                                  since its query was sent. Each writing transaction has a number. The file holds for
                                  each Archive the number of the last transaction that forgot an answer, and a new
                                  answer brings the number from before its query (`Snapshot`)
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from msgspec import Struct

from ibi.errors import SetupError
from ibi.protocol.extensions.changes import Validity
from ibi.resolver.cache import rows
from ibi.resolver.cache.lease import LEASE_SECONDS, Moment, apply_reply, lease_age, may_keep
from ibi.resolver.cache.lease_table import LeaseTable, name_slot
from ibi.resolver.cache.rows import CachedAnswer, Snapshot
from ibi.resolver.cache.store import FAULTS, SharedFile, WriteBehind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import lmdb

    from ibi.protocol.extensions.changes import ChangesReply
    from ibi.protocol.pair_list import Value
    from ibi.resolver.cache.store import Opened

MOST_BYTES: Final = 256 * 1024 * 1024
"""Bytes of cached answers; beyond that some are dropped, not always the oldest."""

LONGEST_BODY: Final = 256 * 1024
"""Bytes of the longest answer that is cached."""

STALE_SECONDS: Final = 86_400
"""Seconds for which an expired answer is kept, to be used when its Archive is silent."""

_NO_ARCHIVE = ""  # stands in place of an Archive, for items that no Archive had

# Seconds by which an answer may be newer than the clock; a newer one is not used: the clock was set back.
_CLOCK_BACK = 60.0
_NEVER = Snapshot(-1, -1)

Freshness = Literal["fresh", "unleased", "expired"]
"""When a cached answer may be used: "fresh": now; "unleased": once the lease of its Archive is renewed; "expired": only
if its Archive is silent."""


class LeaseTerms(NamedTuple):
    """What decides how long an answer with a position is used.

    `pairs`: those of the answer; `sent`: when its query was sent; `most`: seconds for which it is used at most.
    `on_change` is called, by the thread that writes, if the file has applied other changes than the answer shows.
    """

    pairs: Mapping[str, Value]
    sent: Moment
    most: float
    on_change: Callable[[], object]


class _PendingAnswer(Struct, eq=False):
    """An answer that is not in the file yet.

    `heard`: when it came. `seconds`: for how long it is used after that; `stale`: for how much longer it is used while
    its Archive is silent. With `terms`, it is used until something changes instead. `snapshot`: the one from before its
    query was sent; `name_version`: the version of its name when it came.
    """

    body: bytes
    heard: float
    seconds: float
    stale: float
    snapshot: Snapshot
    terms: LeaseTerms | None = None
    name_version: int = 0
    _validity: Validity | None = None

    def validity(self) -> Validity | None:
        """Return what the answer says of how long it holds; None if only its `seconds` count."""
        # Read where it is needed, mostly in the thread that writes: the event loop is not kept from other answers.
        if self.terms is not None and self._validity is None:
            self._validity = Validity.of(self.terms.pairs)
            if self._validity is None:
                self.terms = None
        return self._validity

    def answer(self) -> CachedAnswer:
        """Return the answer as it is kept."""
        terms, validity = self.terms, self.validity()
        if terms is None or validity is None:
            until = self.heard + self.seconds
            return CachedAnswer(self.body, self.heard, until, until + self.stale)
        seconds = min(validity.seconds, terms.most)
        until = terms.sent.real + seconds
        return CachedAnswer(self.body, self.heard, until, until + self.stale, terms.sent.boot + seconds)

    def counts(self, opened: Opened, state: rows.ArchiveState, name_version: int) -> bool:
        """Whether it may be used and kept, in this state of its Archive, and with this version of its name."""
        validity = self.validity()
        if validity is None:
            return not self.snapshot.precedes(opened, state)
        # If the version has changed since the answer came, a notice may have named the item: to this process or to
        # another one. A notice does not change the position, which only a reply to a request for changes does.
        if name_version != self.name_version:
            return False
        return may_keep(validity.position, state.position, applying=state.applying)


class AnswerCache:
    """Answers by Archive and question. Only the constructor, `forget…`, `apply`, `flush` and `close` wait for a disk.

    `archive` is always a canonical service IBI; a question is the canonical name of the item, a blank, and
    the rest of the query (see `rows.question`). `path` is a folder for this cache alone, to be opened after a
    fork and once in a process; `now` returns POSIX seconds, `boot` those since the start of the machine, standby
    included (without `boot`, `now` is called in its place). Raises SetupError if the folder is unusable.
    """

    def __init__(
        self,
        path: Path,
        now: Callable[[], float],
        most_bytes: int = MOST_BYTES,
        stale_seconds: float = STALE_SECONDS,
        *,
        boot: Callable[[], float] | None = None,
    ) -> None:
        self.now = now
        """Returns POSIX seconds."""
        self.boot = boot or now
        """Returns the seconds since the start of the machine (`Moment.boot`)."""
        self._most = most_bytes
        self._stale = stale_seconds
        self._file = SharedFile(path, most_bytes, rows.TABLES)
        self.leases = LeaseTable(path.with_name(f"{path.name}.leases"))
        """The leases of the Archives, and the versions on which cached redirects rest."""
        self._sweep_position, self._rests_position = b"", b""  # where the next sweeps begin
        self._behind: WriteBehind[_PendingAnswer] = WriteBehind("answers", self._write, self._tend)

    @property
    def dropped(self) -> int:
        """How many answers this process could not cache: too many waited, forgotten meanwhile, or no file."""
        return self._behind.dropped

    def answer(self, archive: str, question: str) -> CachedAnswer | None:
        """Return the cached answer of an Archive, which is to be used as `freshness` says."""
        key = rows.key_of(archive, question)
        later = self._behind.pending(key)  # before the file is read: it may be written between the two
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
        state = rows.state_of(transaction, opened, key)
        if later is not None and later.counts(opened, state, self._name_version(key)):
            kept: CachedAnswer | None = later.answer()
        else:
            kept = rows.read_answer(transaction, opened, key, state.generation)
        return kept if kept is not None and kept.heard - _CLOCK_BACK <= self.now() < kept.until else None

    def freshness(self, archive: str, question: str, kept: CachedAnswer) -> Freshness:
        """Return whether the cached answer of this Archive to a question may be used."""
        if not kept.leased:
            return "fresh" if self.now() < kept.fresh_until else "expired"
        now = self.moment
        if now.real >= kept.fresh_until or now.boot >= kept.boot_until:
            return "expired"
        if lease_age(self.leases.began(self.leases.slot(archive)), now) == LEASE_SECONDS:
            return "unleased"
        # The answer is read again, after the lease. Another process may have applied a reply between the first reading
        # and this one: it forgets answers first and writes the lease last, so the lease may be newer than `kept`.
        return "fresh" if self.answer(archive, question) == kept else "expired"

    @property
    def moment(self) -> Moment:
        """The present moment by both clocks."""
        return Moment(self.boot(), self.now())

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
        state = self._state(archive)
        return state is not None and not snapshot.precedes(opened, state)

    def position(self, archive: str) -> str:
        """Return the position up to which all changes of an Archive are applied; "" if there is none."""
        state = self._state(archive)
        return "" if state is None else state.position

    def _state(self, archive: str) -> rows.ArchiveState | None:
        opened = self._file.opened
        if opened is None or self._file.counter.numbers[0] != opened.epoch:
            return None
        try:
            with opened.environment.begin() as transaction:
                return rows.state_of(transaction, opened, rows.archive_key(archive))
        except FAULTS:
            return None

    def put(
        self,
        archive: str,
        question: str,
        body: bytes,
        seconds: float,
        snapshot: Snapshot | None = None,
        terms: LeaseTerms | None = None,
    ) -> None:
        """Cache an answer. It is fresh for so many seconds; later it is used only if its Archive is silent.

        Returns at once. `snapshot` is the one from before the Archive was asked, by default one of now. `terms`: of an
        answer with a position, which is used while leases run. An answer longer than LONGEST_BODY is not cached.
        """
        if seconds <= 0 or len(body) > LONGEST_BODY:
            return
        key, taken = rows.key_of(archive, question), self.snapshot() if snapshot is None else snapshot
        stale = 0.0 if archive == _NO_ARCHIVE else self._stale
        # `name_slot`, inlined: this runs for each answer. A test compares the two.
        number = key[rows.DIGEST] << 8 | key[rows.DIGEST + 1]
        version = self.leases.name_versions[number]
        pending = _PendingAnswer(body, self.now(), seconds, stale, taken, terms, version)
        self._behind.put(key, pending, len(key) + len(body))

    def drop(self, archive: str, question: str) -> None:
        """Drop the cached answer of an Archive, because it is not believed (T08: false answers). Returns at once.

        This process does not return it any more, the others until the next batch is written.
        """
        # An expired answer is put in its place: `forget` would wait for the disk, and an Archive that is not
        # believed could cause that with each answer.
        if self.answer(archive, question) is not None:
            key, now = rows.key_of(archive, question), self.now()
            expired = _PendingAnswer(b"", now, seconds=-now, stale=0.0, snapshot=self.snapshot())
            self._behind.put(key, expired, len(key))
            self.leases.change_versions([question.partition(" ")[0]])

    def forget(self, archive: str, name: str | None) -> None:
        """Forget an Archive's answers about the item of this canonical name; with None, all of its answers.

        When this returns, all processes have forgotten them, also after a power cut. It may wait for a disk.
        """
        self._forget(archive, None if name is None else [name], [archive])
        if name is None:  # it was excluded, or is at another address
            self.leases.end(self.leases.slot(archive))

    def forget_changed(self, archive: str, names: Sequence[str] | None) -> None:
        """Forget, as `forget` does, an Archive's answers about these items, and that no Archive has them."""
        self._forget(archive, names, [archive, _NO_ARCHIVE])

    def _forget(self, archive: str, names: Sequence[str] | None, of: Sequence[str]) -> None:
        """Forget the answers of some Archives (`of`) about these names of `archive`; None: about all."""
        about: Sequence[str | None] = names or [None]
        # The versions change twice. Before: an answer that waits to be written is then dropped, and not written after
        # the others were forgotten (`_PendingAnswer.counts`). After: a redirect that another process made of such an
        # answer in between is then not used.
        self.leases.change_versions(names or ())
        self.forget_rows([(each, name) for name in about for each in of])
        if names:
            self.leases.change_versions(names)
        else:
            self.leases.change_archive_version(self.leases.slot(archive))

    def apply(self, archive: str, reply: ChangesReply, sent: Moment, session: int) -> None:
        """Apply a reply to a request for changes; the caller holds the Archive's lock.

        `sent`: when it was sent; `session`: that of its lease then. Raises SetupError if answers cannot be forgotten.
        """
        for _ in apply_reply(reply, sent, _StoredLease(self, archive, session)):
            pass

    def forget_rows(self, changes: Sequence[tuple[str, str | None]], *, applying: str = "") -> bool:
        """Forget answers durably; in the same transaction set the mark `applying` of an Archive, if one is given.

        `changes`: each an Archive and a name, or None for all of its names. Return False if they cannot be forgotten,
        not even by replacing the file.
        """
        if self._file.opened is None or self._file.replaced():
            self._file.mend()
        opened = self._file.opened
        if opened is None:
            self._file.mend(anew=True)  # replaced, because other processes may still be able to read it
            return self._file.opened is not None
        try:
            with opened.writing(self._file.counter) as transaction:
                for archive, name in changes:
                    rows.forget(transaction, opened, archive, name)
                if applying:
                    state = rows.state_of(transaction, opened, rows.archive_key(applying))
                    rows.write_state(transaction, opened, applying, state._replace(applying=True))
            opened.environment.sync()
        except FAULTS as error:  # where one answer cannot be forgotten, the whole file is
            self._file.mend(error, anew=True)
            return self._file.opened is not None
        return True

    def move_to(self, archive: str, position: str) -> None:
        """Write the position up to which all changes of an Archive are applied, and clear the mark `applying`."""

        def move(transaction: lmdb.Transaction[bytes], opened: Opened) -> int:
            state = rows.state_of(transaction, opened, rows.archive_key(archive))
            rows.write_state(transaction, opened, archive, state._replace(applying=False, position=position))
            return 1

        self._file.write(move, rows.evict)

    def is_applying(self, archive: str) -> bool:
        """Whether a reply of this Archive is being applied, or was when a process died."""
        state = self._state(archive)
        return state is None or state.applying

    def is_not_known(self, question: str) -> bool:
        """Whether every Archive said a short while ago that it does not know the item of this question."""
        return self.answer(_NO_ARCHIVE, question) is not None

    def put_not_known(self, question: str, seconds: float, snapshot: Snapshot | None = None) -> None:
        """Cache for so many seconds that no Archive knows the item of this question. Returns at once."""
        self.put(_NO_ARCHIVE, question, b"", seconds, snapshot)

    def flush(self) -> None:
        """Wait until all that was put is written."""
        self._behind.flush()

    def close(self) -> None:
        """Write what waits to be written, and close the file."""
        self._behind.close()
        self._file.close()
        self.leases.close()

    def prefetch(self) -> None:
        """Have the file read from its disk before the first request."""
        self._file.fetch()

    def _name_version(self, key: bytes) -> int:
        """Return the version of the name of an answer."""
        return self.leases.name_versions[name_slot(key[rows.DIGEST :])]

    def _write(self, batch: dict[bytes, _PendingAnswer]) -> int:
        """Write a batch; return how many entries of it were written. Runs in the thread that writes."""
        outdated = list[LeaseTerms]()
        written = self._file.write(partial(self._put_all, batch, outdated), rows.evict)
        for terms in outdated:
            with suppress(RuntimeError):  # the event loop has ended
                terms.on_change()
        return written

    def _put_all(
        self,
        batch: dict[bytes, _PendingAnswer],
        outdated: list[LeaseTerms],
        transaction: lmdb.Transaction[bytes],
        opened: Opened,
    ) -> int:
        """Write the answers of a batch that count; put the terms of all others into `outdated`."""
        written = 0
        for key in sorted(batch):
            pending, state = batch[key], rows.state_of(transaction, opened, key)
            validity = pending.validity()
            if pending.counts(opened, state, self._name_version(key)):
                rests = validity.rests if validity is not None else ()
                replaces = rows.write_answer(
                    transaction, opened, key, pending.answer(), state.generation, rests
                )
                # Two answers with one position are the same. One without a position may be another one than before.
                if replaces and validity is None:
                    self.leases.change_version(key[rows.DIGEST :])
                written += 1
            elif pending.terms is not None:
                outdated.append(pending.terms)
        if opened.used(transaction) > self._most:
            rows.evict(transaction, opened)
        return written

    def _tend(self) -> None:
        """Delete expired rows, a few at a time. Runs in the thread that writes."""
        self._file.tend()
        opened = self._file.opened
        if opened is None:
            return
        now = self.now()
        try:
            with opened.environment.begin() as transaction:
                over, self._sweep_position = rows.find_over(transaction, opened, self._sweep_position, now)
                left, self._rests_position = rows.find_left(transaction, opened, self._rests_position)
            if over or left:
                with opened.writing(self._file.counter) as transaction:
                    rows.clear(transaction, opened, over, left, now)
        except FAULTS as error:
            self._file.mend(error)


class _StoredLease:
    """A `LeaseStore`: the lease of one Archive in an answer cache and its table."""

    def __init__(self, cache: AnswerCache, archive: str, session: int) -> None:
        self._cache, self._archive, self._session = cache, archive, session
        self._slot = cache.leases.slot(archive)

    def position(self) -> str:
        return self._cache.position(self._archive)

    def is_applying(self) -> bool:
        return self._cache.is_applying(self._archive)

    def forget(self, names: Sequence[str] | None) -> None:
        of = (self._archive, _NO_ARCHIVE)
        changes = [(each, name) for name in (names if names is not None else [None]) for each in of]
        if not self._cache.forget_rows(changes, applying=self._archive):
            raise SetupError("cached answers cannot be forgotten")

    def change_versions(self, names: Sequence[str] | None) -> None:
        if names is None:
            self._cache.leases.change_archive_version(self._slot)
        else:
            self._cache.leases.change_versions(names)

    def move_to(self, position: str) -> None:
        self._cache.move_to(self._archive, position)

    def renew(self, sent: Moment) -> None:
        leases = self._cache.leases
        if leases.session(self._slot) == self._session:  # it was neither excluded nor moved meanwhile
            leases.renew(self._slot, sent)
