"""The files of items in a folder, under DIR/col.

    DIR/col/<the four parts of the canonical repository name>/doc/<file>     or <the two parts of the IBIp>
    DIR/staging/…                                                            files that are being received

Only canonical names become folders: two spellings never have two folders, and two names never share one on a
file system that ignores case. No folder is entered through a symbolic link. Callers look a file up in its item
before it is served (`archive.pages.delivery`).

A file is first staged: copied, hashed, flushed. Then the catalogue lists it, with its name in staging, in one
transaction with all other changes; from then on it can be read. Then it is moved to its place, and the
catalogue lists it as placed. After an interruption, the next staging session that is alone moves the listed
files, and deletes staged files that were never listed (decision 0012).

See T21: paths out of the store; T22: colliding names; T35: faults of disks.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import hashlib
import os
import stat
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from ibi.archive.model.file_names import file_parts, media_type
from ibi.archive.model.item import StoredFile
from ibi.archive.store.file_store import (
    CHUNK,
    ITEM_DEPTHS,
    LONGEST_SIDECAR,
    NOT_KEPT,
    SIDECAR,
    FileStore,
    StagingFile,
    relative_path,
)
from ibi.errors import SetupError
from ibi.runtime.durable_files import flush_folder, locked_file, open_regular, setup_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.rows import ListedFile
    from ibi.identifier.forms import IBIForms

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _StagedOnDisk(StagingFile):
    """A file that is written into staging piece by piece; `handle` is open for writing at its path."""

    def __init__(self, path: Path, handle: int, name: str) -> None:
        self._name = name
        self._digest, self._size = hashlib.sha256(), 0
        self._path = path
        self._file = os.fdopen(handle, "wb")

    def write(self, chunk: bytes | memoryview) -> None:
        """Append some bytes. Raises OSError."""
        self._digest.update(chunk)
        self._size += len(chunk)
        self._file.write(chunk)

    def finish(self) -> StoredFile:
        """Flush the complete file; it is durable when this returns. Raises OSError."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        flush_folder(self._path.parent)
        digest = self._digest.hexdigest()
        return StoredFile(self._name, self._size, digest, media_type(self._name), self._path.name)

    def discard(self) -> None:
        """Delete the file, because it is not needed."""
        with suppress(OSError):  # closing writes what is still buffered, which a full disk refuses again
            self._file.close()
        self._path.unlink(missing_ok=True)


class FolderFiles(FileStore):
    """The files of one Archive in its data directory.

    Only their owner may read them, and a `group`, such as that of a web server.

    Raises SetupError for a group that this machine does not have.
    """

    def __init__(self, data: Path, group: str = "") -> None:
        self._data = data
        self._root = data / "col"
        self._staging = data / "staging"
        self._group = group_number(group) if group else None

    def create_folders(self) -> None:
        """Create the folders of the files; existing ones are closed to other accounts. Raises OSError."""
        for folder in (self._root, self._staging):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(folder, _FOLDER)
            try:
                if os.fstat(handle).st_mode & 0o007:
                    os.fchmod(handle, 0o700)
                self._share(handle, 0o750)
            finally:
                os.close(handle)

    def create_file(self, path: Path) -> int:
        """Create a file for its owner and the group; returns a descriptor for writing. Raises OSError."""
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            self._share(handle, 0o640)
        except OSError:
            os.close(handle)
            raise
        return handle

    @property
    def where(self) -> str:
        """Where the files are, for messages."""
        return str(self._data)

    def make_folder_of(self, path: Path) -> None:
        """Make the folders of a path below DIR/col, durably. Raises OSError."""
        with self._folder(os.fsencode(path.parent.relative_to(self._root)).split(b"/"), create=True):
            pass

    def _share(self, handle: int, mode: int) -> None:
        if self._group is not None and os.fstat(handle).st_gid != self._group:
            os.fchown(handle, -1, self._group)
        if self._group is not None and stat.S_IMODE(os.fstat(handle).st_mode) != mode:
            os.fchmod(handle, mode)

    @contextmanager
    def staging_session(self, catalogue: Catalogue) -> Iterator[None]:
        """Hold the right to stage files. Raises SetupError if the folders cannot be used.

        Several processes may hold it. One that is alone at its start or end cleans up after interruptions.
        """
        with setup_errors(NOT_KEPT, path=self._data):
            self.create_folders()
            lock = os.open(self._data / "ingest.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._clean_up_if_alone(lock, catalogue)
            fcntl.flock(lock, fcntl.LOCK_SH)
            try:
                yield
            finally:
                # The next process tries to clean up again, and reports the error.
                with suppress(SetupError):
                    self._clean_up_if_alone(lock, catalogue)
        finally:
            os.close(lock)

    def stage_stream(self, name: str) -> _StagedOnDisk:
        """Start a file that arrives in pieces. Raises BadItem for its name, SetupError if the disk fails."""
        file_parts(name)
        path = self._staging / os.urandom(16).hex()
        with setup_errors(NOT_KEPT, path=self._data):
            return _StagedOnDisk(path, self.create_file(path), name)

    def discard(self, staged: StoredFile) -> None:
        """Delete a staged file that was not listed."""
        (self._staging / staged.staged).unlink(missing_ok=True)

    def path_of(self, forms: IBIForms, file: StoredFile) -> Path:
        """Return where a listed file is now: in staging, or in its place."""
        if file.staged and (staged := self._staging / file.staged).exists():
            return staged
        return self._root / os.fsdecode(relative_path(forms, file.name))

    def sidecar_path(self, forms: IBIForms) -> Path:
        """Return where the sidecar of an item is."""
        return self._root.joinpath(*forms.main.canonical.split("/"), SIDECAR)

    def read_sidecar(self, forms: IBIForms) -> bytes:
        """Read the sidecar of an item. Raises OSError, also if it is not regular or is too long."""
        return _read_sidecar(self.sidecar_path(forms))

    def write_sidecar(self, forms: IBIForms, text: bytes) -> None:
        """Write the sidecar of an item, or replace it as a whole, durably. Raises SetupError."""
        path = self.sidecar_path(forms)
        temporary = path.with_name(f".{path.name}.new")
        with setup_errors("{path} cannot be written: {reason}", path=path):
            self.make_folder_of(path)
            # An interrupted process may have left it; no other process writes it now.
            with suppress(FileNotFoundError):
                temporary.unlink()
            # Only its owner may read it, even if a web server may read the files: it names who changed the item.
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(path)
            flush_folder(path.parent)

    def sidecars(self) -> Iterator[tuple[str, bytes | OSError]]:
        """Yield the sidecars in the folders of items: two or four folders deep; no links are followed."""
        for above, folders, files in os.walk(self._root):
            here = self._root / above
            folders.sort()
            depth = len(here.relative_to(self._root).parts)
            if SIDECAR in files and depth in ITEM_DEPTHS:
                path = here / SIDECAR
                try:
                    content: bytes | OSError = _read_sidecar(path)
                except OSError as error:
                    content = error
                yield str(path.relative_to(self._root)), content
            if depth >= max(ITEM_DEPTHS):
                folders.clear()

    def put(self, forms: IBIForms, file: StoredFile, source: BinaryIO) -> bool:
        """Write a listed file into its place, not flushed; return False for other bytes. Raises OSError."""
        path = self._root / os.fsdecode(relative_path(forms, file.name))
        self.make_folder_of(path)
        digest = hashlib.sha256()
        with suppress(FileNotFoundError):
            path.unlink()
        with os.fdopen(self.create_file(path), "wb") as writer:
            while chunk := source.read(CHUNK):
                digest.update(chunk)
                writer.write(chunk)
        right = digest.hexdigest() == file.sha256
        if not right:
            path.unlink()
        return right

    def open(self, forms: IBIForms, file: StoredFile) -> BinaryIO:
        """Open a listed file. Raises OSError if it is missing, or not as it was listed."""
        # NONBLOCK: a pipe in the place of a file must not stop the server (T22: colliding names).
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = -1
        if file.staged:
            with suppress(FileNotFoundError):  # it may have been moved meanwhile
                handle = os.open(self._staging / file.staged, flags)
        if handle < 0:
            *folders, last = relative_path(forms, file.name).split(b"/")
            with self._folder(folders) as folder:
                handle = os.open(last, flags, dir_fd=folder)
        found = os.fstat(handle)
        if (regular := stat.S_ISREG(found.st_mode)) and found.st_size == file.size:
            return open(handle, "rb", buffering=0)  # noqa: PTH123 - a descriptor; the caller closes it
        os.close(handle)
        what = "the stored file is not the one that was listed"
        raise OSError(what) if regular else OSError(errno.EISDIR, what)

    @contextmanager
    def placing(self) -> Iterator[Callable[[], None]]:
        """Hold the right to place and remove files; yields what checks that it is still held. Raises OSError."""
        with locked_file(self._data / "settle.lock"):
            yield lambda: None  # a lock of this machine is held until it is released

    def place_files(self, catalogue: Catalogue) -> None:
        """Move listed files to their places, and remove files that are no longer listed.

        One process at a time; after an interruption it can be repeated. Raises SetupError: all listed files
        can still be read then, and a later call continues.
        """
        with setup_errors(NOT_KEPT, path=self._data), self.placing():
            while True:
                # Read before the paths to remove, so that these include all that the staged files replace.
                staged = catalogue.staged_files()
                # Removed first, because a file may replace a folder.
                while paths := catalogue.paths_to_remove():
                    for path in paths:
                        self._remove(path)
                    with catalogue.writing() as writer:
                        for path in paths:
                            writer.cancel_removal(path)
                if not staged:
                    break
                # Read again, because another process may have replaced and deleted some of them meanwhile.
                now = set(catalogue.staged_files())
                self._place(staged := [each for each in staged if each in now])
                with catalogue.writing() as writer:
                    for each in staged:
                        writer.record_placed(each)

    def _place(self, staged: Iterable[ListedFile]) -> None:
        for each in staged:
            *folders, last = relative_path(each.forms, each.file.name).split(b"/")
            with self._folder(folders, create=True) as folder:
                with suppress(FileNotFoundError):
                    # An interrupted process may have moved it already.
                    os.rename(self._staging / each.file.staged, last, dst_dir_fd=folder)
                os.fsync(folder)

    def _remove(self, path: bytes) -> None:
        """Remove a file, and the folders that become empty."""
        parts = path.split(b"/")
        for end in range(len(parts) - 1, -1, -1):  # the file, then its folders, the innermost one first
            try:
                with self._folder(parts[:end]) as folder:
                    if end == len(parts) - 1:
                        os.unlink(parts[end], dir_fd=folder)
                    else:
                        os.rmdir(parts[end], dir_fd=folder)
                    # Else a power cut could restore the file after the catalogue has recorded its removal.
                    os.fsync(folder)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                # The file never reached its place, or was removed before; a folder may have its path by now.
                continue
            except OSError as error:
                if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                    return
                raise

    def _clean_up_if_alone(self, lock: int, catalogue: Catalogue) -> None:
        """Move listed files into place, and delete those that nothing lists, unless another process is staging."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        with setup_errors(NOT_KEPT, path=self._data):
            if any(self._staging.iterdir()):
                _end_unknown_transactions(catalogue)
            self.place_files(catalogue)
            for each in list(self._staging.iterdir()):
                each.unlink()

    @contextmanager
    def _folder(self, parts: list[bytes], *, create: bool = False) -> Iterator[int]:
        """Enter folders one by one; yields the descriptor of the last folder."""
        # By descriptors, so that no folder can be replaced by a link meanwhile (T22: colliding names).
        at = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=at)
                        os.fsync(at)
                inner = os.open(part, _FOLDER, dir_fd=at)
                os.close(at)
                at = inner
                if create:
                    self._share(at, 0o750)
            yield at
        finally:
            os.close(at)


def _end_unknown_transactions(catalogue: Catalogue) -> None:
    """Make sure that no earlier transaction lists a staged file later; call it before staged files are deleted.

    If the COMMIT of a transaction failed, it is not known whether the transaction was committed:

        PostgreSQL    It may still be running. Writing transactions exclude each other, so the one below begins when
                      the earlier one has ended.
        SQLite        It counts as rolled back, but the end of the log may still hold it: then a crash would bring it
                      back. The transaction below overwrites it there.

    Nothing is overwritten by a transaction that writes nothing. So a removal is scheduled, and cancelled.
    """
    with catalogue.writing() as writer:
        writer.schedule_removal(b"")
        writer.cancel_removal(b"")


def group_number(name: str) -> int:
    """Return the number of a group of this machine. Raises SetupError if it has no group of this name."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise SetupError("this machine has no group {name}", name=name) from None


@contextmanager
def exclusive_lock(path: Path, taken: SetupError) -> Iterator[None]:
    """Hold a lock file; forked children hold it, too. Raises `taken` if another process holds it."""
    with ExitStack() as held:
        with setup_errors("{path} cannot be opened: {reason}", path=path):
            try:
                held.enter_context(locked_file(path, fcntl.LOCK_EX | fcntl.LOCK_NB))
            except BlockingIOError:
                raise taken from None
        yield


def _read_sidecar(path: Path) -> bytes:
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > LONGEST_SIDECAR:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return file.read()
