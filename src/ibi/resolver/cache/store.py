"""An LMDB file that several processes share, for caches that may be lost, never wrong.

A file that cannot be read is moved aside, with one line in the log, and a new one is made. The other processes that
have it open notice that, and open the new one. Each commit is flushed without the page that points to it
(`metasync=False`): a power cut may undo the last commit, but never damages the file. A killed process does not even
undo a commit, and the kernel releases its locks. See T20: answers for one reader; T29: costly requests.

Two numbers in shared memory tell a process, without reading the file, that what it has read may have changed:

    epoch       random, made with each file; a new number means that the file was replaced
    state       epoch + number of the last transaction: 7012 after transaction 12 with the epoch 7000

    Process A reads a redirect at state 7011, and keeps both. Process B drops an answer in transaction 12: it
    publishes 7012 and then commits. A sees 7012 and reads again: perhaps too early, never too late.

Writes go behind: one thread writes entries in batches; entries beyond the limit are dropped and counted.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import struct
import threading
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import lmdb

from ibi.errors import SetupError
from ibi.runtime.durable_files import locked_file, make_folder
from ibi.runtime.generation_counter import UNKNOWN, GenerationCounter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


_log = logging.getLogger("ibi.resolver.cache.store")

SPARE: Final = 64 * 1024 * 1024
"""Bytes that a file may take beyond its entries, for the pages that are being replaced."""

FAULTS: Final = (lmdb.Error, struct.error)
"""Errors of reading or writing: the file cannot be used, or a row of it is malformed."""

_READERS = 1_024  # processes at once, each with its few threads
_EPOCH = b"epoch"
_WRITTEN = b"written"
_DAMAGE = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.InvalidError,
    lmdb.VersionMismatchError,
    lmdb.IncompatibleError,
    lmdb.BadTxnError,  # follows one of the errors above
    lmdb.MemoryError,  # the sizes in its head exceed any memory
    struct.error,  # a malformed row
)


class Opened:
    """The file as this process has it open. `tables` in the order of their names; `about` is of the file itself.

    `epoch`: 62 random bits, so that no state of this file equals one of another.
    """

    def __init__(self, environment: lmdb.Environment, tables: Sequence[str], inode: int) -> None:
        self.environment = environment
        self.inode = inode
        with environment.begin(write=True) as transaction:
            self.about, *self.tables = (
                environment.open_db(name.encode(), transaction) for name in ("about", *tables)
            )
            if transaction.get(_EPOCH, db=self.about) is None:
                transaction.put(_EPOCH, secrets.randbits(62).to_bytes(8, "big"), db=self.about)
            self.epoch = int.from_bytes(transaction.get(_EPOCH, b"", db=self.about), "big")

    @contextmanager
    def writing(self, counter: GenerationCounter) -> Iterator[lmdb.Transaction[bytes]]:
        """Return a transaction that writes, and publish the state that it leaves before its changes can be seen.

        Raises lmdb.Error.
        """
        with self.environment.begin(write=True) as transaction:
            yield transaction
            state = self.epoch + transaction.id()
            # Written in every transaction: LMDB gives the number of an empty transaction to the next one
            # again, so the published state would stand for two contents.
            transaction.put(_WRITTEN, state.to_bytes(8, "big"), db=self.about)
            counter.numbers[1] = state

    def used(self, transaction: lmdb.Transaction[bytes], *numbers: int) -> int:
        """Return the bytes of the pages of these tables, or of all tables, as the transaction sees them."""
        sizes = [transaction.stat(self.tables[number]) for number in numbers or range(len(self.tables))]
        pages = sum(each["branch_pages"] + each["leaf_pages"] + each["overflow_pages"] for each in sizes)
        return pages * sizes[0]["psize"]


class SharedFile:
    """One LMDB file, in a folder with its lock. To be opened after a fork, and once in a process.

    `opened` is None while the file cannot be used; then nothing is cached, and `mend` tries again. `counter`:
    epoch and state, in memory shared by all processes. A process that replaces a damaged file changes the
    epoch first, so no other one uses rows of the old file. Raises SetupError if the folder cannot be used.
    """

    def __init__(self, path: Path, most_bytes: int, tables: Sequence[str]) -> None:
        self._path = path
        self._data = path / "data.mdb"
        self._lock_file = path.with_name(f"{path.name}.door")
        self._map = most_bytes + SPARE
        self._tables = tables
        self._mending = threading.Lock()
        self.opened: Opened | None = None
        try:
            make_folder(path.parent)
            self.counter = GenerationCounter(self._lock_file, 2)
            with locked_file(self._lock_file):
                self.opened = self._open_or_begin_anew()
        except (OSError, lmdb.Error) as error:
            raise SetupError("{path} cannot be used: {reason}", path=path, reason=error) from None

    def write(
        self,
        work: Callable[[lmdb.Transaction[bytes], Opened], int],
        drop: Callable[[lmdb.Transaction[bytes], Opened], None],
    ) -> int:
        """Call `work` in one transaction that writes, and return what it returns: how many entries it wrote.

        Where it fails, nothing is written, and 0 returned; of a full file, `drop` drops some entries.
        """
        if self.replaced():
            self.mend()
        opened = self.opened
        if opened is None:
            return 0
        try:
            with opened.writing(self.counter) as transaction:
                return work(transaction, opened)
        # A reader holds its transaction so long that no page becomes free: drop some rows, if possible.
        except lmdb.MapFullError:
            with suppress(lmdb.Error), opened.writing(self.counter) as transaction:
                drop(transaction, opened)
        except FAULTS as error:
            self.mend(error)
        return 0

    def replaced(self) -> bool:
        """Whether another process moved aside the file that is open here."""
        opened = self.opened  # kept, since another thread may change it meanwhile
        return opened is not None and self._inode() != opened.inode

    def tend(self) -> None:
        """Open the new file where the old one was moved aside; end the transactions of killed readers."""
        opened = self.opened
        if opened is None or self.replaced():
            self.mend()
            return
        try:
            opened.environment.reader_check()
        except lmdb.Error as error:
            self.mend(error)

    def mend(self, error: Exception | None = None, *, anew: bool = False) -> None:
        """Open the file again after an error; make a new one where it is damaged, or where `anew`.

        A thread that is reading the file at this moment gets an lmdb.Error.
        """
        with self._mending:
            if error is None and not anew and self.opened is not None and not self.replaced():
                return  # another thread has opened the new file already
            old, self.opened = self.opened, None
            try:
                with locked_file(self._lock_file):
                    if old is not None:
                        old.environment.close()
                    # Otherwise another process has repaired it already.
                    same = old is None or self._inode() == old.inode
                    if same and self._path.exists() and (anew or isinstance(error, _DAMAGE)):
                        self._rename_damaged(error)
                    self.opened = self._open_or_begin_anew()
            except (OSError, lmdb.Error) as failure:
                if old is not None:  # logged once, not at every attempt
                    _log.error(
                        "%s cannot be used, nothing is remembered until it can: %s", self._path, failure
                    )

    def fetch(self) -> None:
        """Have the kernel read the file into memory in the background."""
        with suppress(OSError), self._data.open("rb") as data:
            os.posix_fadvise(data.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        """Close the file."""
        opened, self.opened = self.opened, None
        if opened is not None:
            opened.environment.close()

    def _open_or_begin_anew(self) -> Opened:
        try:
            return self._open()
        except _DAMAGE as error:
            self._rename_damaged(error)
            return self._open()

    def _open(self) -> Opened:
        make_folder(self._path)  # lmdb would give it the mode of its files, and only root could enter
        environment = lmdb.Environment(
            os.fspath(self._path),
            map_size=self._map,
            metasync=False,
            mode=0o600,
            readahead=False,
            max_readers=_READERS,
            max_dbs=1 + len(self._tables),
        )
        try:
            self._check_length(environment)
            environment.reader_check()
            opened = Opened(environment, self._tables, self._inode())
            self.counter.set(opened.epoch)
            return opened  # noqa: TRY300 - closed where any of it fails
        except BaseException:
            environment.close()
            raise

    def _check_length(self, environment: lmdb.Environment) -> None:
        """Check the length, which LMDB trusts: to read beyond the end kills. Raises CorruptedError."""
        pages = environment.info()["last_pgno"] + 1
        size = self._data.stat().st_size
        if pages * environment.stat()["psize"] <= size:
            return
        # Only now is every page checked: allocated pages at the end that were never used may be missing.
        if self._faults():
            raise lmdb.CorruptedError("the file is too short")

    def _faults(self) -> list[str]:
        """Return the faults of the pages; before lmdb 3, which has no checker, any file counts as faulty."""
        try:
            from lmdb.verify import VerifyError, verify
        except ImportError:
            return ["this lmdb cannot check it"]
        try:
            return list(verify(os.fspath(self._path)))  # type: ignore[no-untyped-call]  # it has no annotations
        except VerifyError as error:
            return [str(error)]

    def _rename_damaged(self, error: Exception | None) -> None:
        self.counter.numbers[1] = UNKNOWN
        self.counter.set(UNKNOWN)
        damaged = self._path.with_name(f"{self._path.name}.damaged")
        shutil.rmtree(damaged, ignore_errors=True)  # only the last one is kept, to save disk space
        self._path.rename(damaged)
        _log.warning(
            "%s is damaged (%s): moved to %s, and replaced by an empty one", self._path, error, damaged.name
        )

    def _inode(self) -> int:
        try:
            return self._data.stat().st_ino
        except OSError:
            return 0


BATCH: Final = 1_000
"""Entries that are written in one transaction at most."""

BETWEEN: Final = 0.2
"""Seconds from one batch to the next, unless a whole batch is waiting."""

MOST_WAITING: Final = 20_000
"""Entries that wait to be written; further ones are dropped."""

MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
"""Bytes of the entries that wait to be written; further ones are dropped."""


def drop_stretch(cursor: lmdb.Cursor[bytes], key_bytes: int, rows: int) -> None:
    """Drop so many rows from a random key on; they are adjacent, so that whole pages become free."""
    if not cursor.set_range(os.urandom(key_bytes)):
        cursor.first()
    for _ in range(rows):
        if not cursor.delete() and not cursor.first():
            return


_TEND = 1.0  # seconds between two calls of `tend`
_LAST_WORDS = 10.0  # seconds for writing the last entries at the end

_Value = TypeVar("_Value")


class WriteBehind(Generic[_Value]):
    """Entries that wait to be written, by key, and the thread that writes them.

    `write` gets a batch and returns how many entries it wrote; `tend` is called about once a second. Both run
    in the thread, which survives their errors. `merge(old, new)` joins entries of one key.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[dict[bytes, _Value]], int],
        tend: Callable[[], None],
        merge: Callable[[_Value, _Value], _Value] = lambda _, new: new,
    ) -> None:
        self._write = write
        self._tend = tend
        self._merge = merge
        self._lock = threading.Lock()
        self._some = threading.Event()  # an entry waits, or `close` was called
        self._many = threading.Event()  # a whole batch waits, or `close` was called
        self._ended = False
        self._waiting: dict[bytes, tuple[_Value, int]] = {}
        self._writing: dict[bytes, _Value] = {}
        self._bytes = 0
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, key: bytes, value: _Value, size: int = 0) -> None:
        """Have an entry written; `size` in bytes. Returns at once."""
        with self._lock:
            known = self._waiting.get(key)
            if known is not None:
                value = self._merge(known[0], value)
            more = size - (known[1] if known else 0)
            if (
                self._ended
                or self._bytes + more > MOST_WAITING_BYTES
                or (known is None and len(self._waiting) >= MOST_WAITING)
            ):
                self.dropped += 1
                return
            self._waiting[key] = value, size
            self._bytes += more
            if known is None:
                self._some.set()
                if len(self._waiting) >= BATCH:
                    self._many.set()

    def pending(self, key: bytes) -> _Value | None:
        """Return an entry that is not written yet. Call it before reading the file, or one may be missed."""
        if not self._waiting and not self._writing:
            return None
        with self._lock:
            written = self._writing.get(key)
            waiting = self._waiting.get(key)
        if waiting is None:
            return written
        return waiting[0] if written is None else self._merge(written, waiting[0])

    def flush(self) -> None:
        """Wait until all entries are written."""
        while self._waiting or self._writing:
            threading.Event().wait(BETWEEN / 20)

    def close(self) -> None:
        """Write the entries that wait, and end the thread."""
        with self._lock:
            self._ended = True
        self._some.set()
        self._many.set()
        self._thread.join(_LAST_WORDS)

    def _run(self) -> None:
        untended = 0.0  # about how many seconds ago `tend` was called
        while True:
            untended += BETWEEN if self._some.wait(_TEND) else _TEND
            batch = self._take()
            if batch:
                written = self._guarded(partial(self._write, batch)) or 0
                with self._lock:
                    self.dropped += len(batch) - written
                    self._writing = {}  # last, so that after `flush` all that was dropped is counted
            elif self._ended and not self._waiting:  # something may have been put since the batch was taken
                return
            if untended >= _TEND:
                untended = 0.0
                self._guarded(self._tend)
            self._many.wait(BETWEEN if batch else 0)

    def _take(self) -> dict[bytes, _Value]:
        with self._lock:
            keys = list(islice(self._waiting, BATCH))
            # Before the entries are removed from `_waiting`, so that `pending` finds them in one of both.
            self._writing = {key: self._waiting[key][0] for key in keys}
            self._bytes -= sum(self._waiting.pop(key)[1] for key in keys)
            if not self._ended:
                if not self._waiting:
                    self._some.clear()
                if len(self._waiting) < BATCH:
                    self._many.clear()
        return self._writing

    def _guarded(self, work: Callable[[], int | None]) -> int | None:
        try:
            return work()
        except Exception:  # noqa: BLE001 - a fault here must not end all caching
            _log.exception("what was to be remembered could not be written")
            return None
