"""What may be lost and must never be wrong: an LMDB file that several processes share (threats T20 and T29).

A file that cannot be read is moved aside, with one line in the log, and begun anew. The other processes that have it
open notice that, and follow. Each commit is flushed without the page that points to it (`metasync=False`): a power
cut may take back the last one and never damages the file; a killed process cannot even do that, and the locks that it
held are given up by the kernel.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import shutil
import struct
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import lmdb
from lmdb.verify import VerifyError, verify

from ibi.durable import flush_folder, make_folder
from ibi.errors import SetupError
from ibi.resolver.sign import UNKNOWN, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_log = logging.getLogger("ibi.resolver.shared_file")

SPARE: Final = 64 * 1024 * 1024
"""Bytes that a file may take beyond what is kept in it: room for the pages that are being replaced."""

_READERS = 1_024  # processes at once, each with its few threads
_EPOCH = b"epoch"
_WRITTEN = b"written"
_DAMAGE = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.InvalidError,
    lmdb.VersionMismatchError,
    lmdb.IncompatibleError,
    lmdb.BadTxnError,  # what comes after one of these
    lmdb.MemoryError,  # sizes in its head that no memory holds
    struct.error,  # a row that is none of ours
)


class Opened:
    """The file as this process has it open. `tables` in the order of their names.

    `epoch` is a number by chance, made with the file: what counts from there never meets what an older file counted.
    So with the number of a transaction it makes the `state` in which that finds the file, or leaves it.
    """

    def __init__(self, environment: lmdb.Environment, tables: Sequence[str], inode: int) -> None:
        self.environment = environment
        self.inode = inode
        with environment.begin(write=True) as transaction:
            self._about, *self.tables = (
                environment.open_db(name.encode(), transaction) for name in ("about", *tables)
            )
            if transaction.get(_EPOCH, db=self._about) is None:
                transaction.put(_EPOCH, secrets.randbits(62).to_bytes(8, "big"), db=self._about)
            self.epoch = int.from_bytes(transaction.get(_EPOCH, b"", db=self._about), "big")

    def state(self, transaction: lmdb.Transaction[bytes]) -> int:
        """The state of the file that a transaction reads, or writes: no other state of any file has this number."""
        return self.epoch + transaction.id()

    @contextmanager
    def writing(self, sign: Sign) -> Iterator[lmdb.Transaction[bytes]]:
        """A transaction that writes. Before anybody can see what it changes, all see its state as the second number.

        So what was found in a state that is still shown is what would be found now. Each leaves another state, even
        one that changes nothing: else the sign would show one that never comes. Raises lmdb.Error.
        """
        with self.environment.begin(write=True) as transaction:
            yield transaction
            state = self.state(transaction)
            transaction.put(_WRITTEN, state.to_bytes(8, "big"), db=self._about)
            sign.numbers[1] = state

    def used(self, transaction: lmdb.Transaction[bytes], *numbers: int) -> int:
        """How many bytes the pages of these tables take, or of all of them, as the transaction sees them."""
        told = [transaction.stat(self.tables[number]) for number in numbers or range(len(self.tables))]
        pages = sum(each["branch_pages"] + each["leaf_pages"] + each["overflow_pages"] for each in told)
        return pages * told[0]["psize"]


class SharedFile:
    """One LMDB file, as a folder with its lock. To be opened after a fork, and once in a process.

    `opened` is None while the file cannot be used; then nothing is remembered, and `mend` tries again. `sign` shows
    all processes the epoch of the file that is the right one now: it changes before anything is forgotten elsewhere.
    Its second number is the state that the last transaction leaves that was begun with `writing`.
    Raises SetupError where the folder cannot be used at all.
    """

    def __init__(self, path: Path, most_bytes: int, tables: Sequence[str]) -> None:
        self._path = path
        self._data = path / "data.mdb"
        self._map = most_bytes + SPARE
        self._tables = tables
        self._mending = threading.Lock()
        self.opened: Opened | None = None
        try:
            make_folder(path.parent)
            self.sign = Sign(path.with_name(f"{path.name}.door"), 2)
            with self._door():
                self.opened = self._open_or_begin_anew()
        except (OSError, lmdb.Error) as error:
            raise SetupError("{path} cannot be used: {reason}", path=path, reason=error) from None

    def replaced(self) -> bool:
        """Whether another process moved aside the file that is open here."""
        opened = self.opened  # which another thread may change meanwhile
        return opened is not None and self._inode() != opened.inode

    def is_shown(self, opened: Opened) -> bool:
        """Whether what is open here is still the right file, as the sign tells: no call of the system is needed."""
        return self.sign.numbers[0] == opened.epoch

    def tend(self) -> None:
        """Follow to the new file where the old one was moved aside; give up what killed processes were reading."""
        opened = self.opened
        if opened is None or self.replaced():
            self.mend()
            return
        try:
            opened.environment.reader_check()
        except lmdb.Error as error:
            self.mend(error)

    def mend(self, error: Exception | None = None, *, anew: bool = False) -> None:
        """Open the file again after an error; begin it anew where it is damaged, or where the caller says so.

        What another thread reads at this moment ends with an lmdb.Error.
        """
        with self._mending:
            old, self.opened = self.opened, None
            try:
                with self._door():
                    if old is not None:
                        old.environment.close()
                    same = (
                        old is None or self._inode() == old.inode
                    )  # otherwise somebody has seen to it already
                    if same and self._path.exists() and (anew or isinstance(error, _DAMAGE)):
                        self._move_aside(error)
                    self.opened = self._open_or_begin_anew()
            except (OSError, lmdb.Error) as failure:
                if old is not None:  # said once, not at every attempt
                    _log.error(
                        "%s cannot be used, nothing is remembered until it can: %s", self._path, failure
                    )

    def fetch(self) -> None:
        """Ask the kernel to have the file in memory soon; returns at once."""
        with suppress(OSError), self._data.open("rb") as data:
            os.posix_fadvise(data.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        """Give the file back."""
        opened, self.opened = self.opened, None
        if opened is not None:
            opened.environment.close()

    def _open_or_begin_anew(self) -> Opened:
        try:
            return self._open()
        except _DAMAGE as error:
            self._move_aside(error)
            return self._open()

    def _open(self) -> Opened:
        make_folder(self._path)  # lmdb would give it the mode of its files, and nobody but root could enter
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
            self.sign.show(opened.epoch)
            return opened  # noqa: TRY300 - closed where any of it fails
        except BaseException:
            environment.close()
            raise

    def _check_length(self, environment: lmdb.Environment) -> None:
        """LMDB trusts the length of its file, and reading beyond the end kills a process. Raises CorruptedError."""
        pages = environment.info()["last_pgno"] + 1
        size = self._data.stat().st_size
        if pages * environment.stat()["psize"] <= size:
            return
        try:  # pages at the end that were given and never used may be missing; every page is looked at only then
            faults = verify(os.fspath(self._path))  # type: ignore[no-untyped-call]  # it has no annotations
        except VerifyError as error:
            faults = [str(error)]
        if faults:
            raise lmdb.CorruptedError("the file is too short")

    def _move_aside(self, error: Exception | None) -> None:
        self.sign.numbers[1] = UNKNOWN
        self.sign.show(UNKNOWN)
        aside = self._path.with_name(f"{self._path.name}.damaged")
        shutil.rmtree(aside, ignore_errors=True)  # of several only the last is kept: disks have an end
        self._path.rename(aside)
        flush_folder(self._path.parent)
        _log.warning("%s is damaged (%s): moved to %s and begun anew", self._path, error, aside.name)

    def _inode(self) -> int:
        try:
            return self._data.stat().st_ino
        except OSError:
            return 0

    @contextmanager
    def _door(self) -> Iterator[None]:
        """Whoever opens the file or moves it aside does so alone."""
        handle = os.open(self._path.with_name(f"{self._path.name}.door"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
