"""The bytes of items, under DIR/col (threats T21, T22 and T35). The only maker of paths.

    DIR/col/<the four parts of the canonical repository name>/doc/<file>     or <the two parts of the IBIp>
    DIR/staging/…                                                            files that are being taken in

Only canonical names become folders, so that two spellings never become two folders, nor one on a file system that
does not see case. Folders are entered one by one, never through a symbolic link; only what is listed is served.

A file is staged: copied, hashed, flushed. The catalogue lists it, with its name in staging, in one transaction with
all else that changes; from then on it is there, and can be read. Then it is settled: moved to its place, and listed
as placed. Whatever is interrupted is settled by whoever comes next; what was staged and never listed is cleared away.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from ibi.archive.file_names import LONGEST_PART, file_parts, media_type
from ibi.archive.holding import StoredFile
from ibi.errors import BadItem, SetupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ibi.archive.catalogue import Catalogue, Staged
    from ibi.identifier.forms import IBIForms

_CHUNK = 1 << 20
_OUR_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Staging:
    """A file on its way into staging, piece by piece."""

    def __init__(self, folder: Path, name: str) -> None:
        self._name = name
        self._digest, self._size = hashlib.sha256(), 0
        self._path = folder / os.urandom(16).hex()
        self._file = self._path.open("xb")

    def write(self, chunk: bytes | memoryview) -> None:
        """Take in more of it. Raises OSError."""
        self._digest.update(chunk)
        self._size += len(chunk)
        self._file.write(chunk)

    def finish(self) -> StoredFile:
        """All of it has come; durable when this returns. Raises OSError."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        _flush_folder(self._path.parent)
        digest = self._digest.hexdigest()
        return StoredFile(self._name, self._size, digest, media_type(self._name), self._path.name)

    def discard(self) -> None:
        """It will not be needed."""
        self._file.close()
        self._path.unlink(missing_ok=True)


class Storage:
    """The files of one Archive."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._root = data / "col"
        self._staging = data / "staging"

    def make(self) -> None:
        """Make the folders of a new Archive."""
        for folder in (self._root, self._staging):
            folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def working(self, catalogue: Catalogue) -> Iterator[None]:
        """Be one of those who take files in. Whoever finds nobody else at work, when coming or going, clears up.

        Raises SetupError where the folders cannot be used.
        """
        try:
            self.make()
            lock = os.open(self._data / "ingest.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unusable(error) from None
        try:
            self._clear_if_alone(lock, catalogue)
            fcntl.flock(lock, fcntl.LOCK_SH)
            try:
                yield
            finally:
                with suppress(SetupError):  # whoever comes next is told
                    self._clear_if_alone(lock, catalogue)
        finally:
            os.close(lock)

    def stage(self, name: str, source: Path) -> StoredFile:
        """Copy a regular file in, hash it and flush it; `name` is its name in the item. Raises BadItem, SetupError."""
        file_parts(name)
        try:
            reader = _open_regular(source)
        except OSError as error:
            raise BadItem("{path} cannot be read: {reason}", path=source, reason=error.strerror) from None
        with reader:
            staging = self.stage_stream(name)
            try:
                while chunk := reader.read(_CHUNK):
                    staging.write(chunk)
                return staging.finish()
            except OSError as error:
                staging.discard()
                if error.errno in _OUR_DISK:
                    raise self._unusable(error) from None
                raise BadItem("{path} cannot be read: {reason}", path=source, reason=error.strerror) from None
            except BaseException:
                staging.discard()
                raise

    def stage_stream(self, name: str) -> Staging:
        """Begin a file that comes piece by piece. Raises BadItem for its name, SetupError where none can be made."""
        file_parts(name)
        try:
            return Staging(self._staging, name)
        except OSError as error:
            raise self._unusable(error) from None

    def discard(self, staged: StoredFile) -> None:
        """Forget a staged file that was not listed."""
        (self._staging / staged.staged).unlink(missing_ok=True)

    def relative(self, forms: IBIForms, name: str) -> bytes:
        """The path of a file below DIR/col, as it would be seen under /col/, decoded. Raises BadItem."""
        parts = (*(part.encode() for part in forms.main.canonical.split("/")), b"doc", *file_parts(name))
        if any(len(part) > LONGEST_PART for part in parts):
            raise BadItem("the name {name} is too long for a folder", name=forms.main)
        return b"/".join(parts)

    def path_of(self, forms: IBIForms, file: StoredFile) -> Path:
        """Where a listed file lies now."""
        if file.staged and (staged := self._staging / file.staged).exists():
            return staged
        return self._root / os.fsdecode(self.relative(forms, file.name))

    def open(self, forms: IBIForms, file: StoredFile) -> BinaryIO:
        """Open a listed file. Raises OSError if it is not there as it was listed."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = -1
        if file.staged:
            with suppress(FileNotFoundError):  # it has been moved meanwhile
                handle = os.open(self._staging / file.staged, flags)
        if handle < 0:
            *folders, last = self.relative(forms, file.name).split(b"/")
            with self._folder(folders) as folder:
                handle = os.open(last, flags, dir_fd=folder)
        found = os.fstat(handle)
        if (regular := stat.S_ISREG(found.st_mode)) and found.st_size == file.size:
            return open(handle, "rb", buffering=0)  # noqa: PTH123 - a descriptor; the caller closes it
        os.close(handle)
        what = "the stored file is not the one that was listed"
        raise OSError(what) if regular else OSError(errno.EISDIR, what)

    def settle(self, catalogue: Catalogue) -> None:
        """Move what is listed to its place, and remove what is no longer listed. One at a time; can be repeated.

        Raises SetupError, after which all is as listed still, and a later call goes on.
        """
        try:
            with self._settling():
                while True:
                    staged = catalogue.staged()  # before the others: what has to go for these is known then
                    while paths := catalogue.leaving():  # they go first: a file may come where a folder was
                        for path in paths:
                            self._remove(path)
                        with catalogue.writing() as writer:
                            for path in paths:
                                writer.stays(path)
                    if not staged:
                        break
                    now = set(catalogue.staged())  # what was given up since may be gone already
                    self._place(staged := [each for each in staged if each in now])
                    with catalogue.writing() as writer:
                        for each in staged:
                            writer.placed(each)
        except OSError as error:
            raise self._unusable(error) from None

    @contextmanager
    def _settling(self) -> Iterator[None]:
        lock = os.open(self._data / "settle.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _place(self, staged: Iterable[Staged]) -> None:
        for each in staged:
            *folders, last = self.relative(each.forms, each.file.name).split(b"/")
            with self._folder(folders, create=True) as folder:
                with suppress(FileNotFoundError):  # moved before, and interrupted then
                    os.rename(self._staging / each.file.staged, last, dst_dir_fd=folder)
                os.fsync(folder)

    def _remove(self, path: bytes) -> None:
        """Remove a file, and the folders that become empty by it."""
        parts = path.split(b"/")
        for end in range(len(parts) - 1, -1, -1):
            try:
                with self._folder(parts[:end]) as folder:
                    if end == len(parts) - 1:
                        os.unlink(parts[end], dir_fd=folder)
                    else:
                        os.rmdir(parts[end], dir_fd=folder)
                    os.fsync(folder)  # or a power cut brings it back when nobody remembers that it has to go
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                continue  # a file that never came to its place, or was removed before; there may be a folder, or a file
            except OSError as error:
                if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                    return
                raise

    def _clear_if_alone(self, lock: int, catalogue: Catalogue) -> None:
        """Settle what is listed, and remove what was staged and never listed, unless somebody else is at work."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        self.settle(catalogue)
        try:
            if left := list(self._staging.iterdir()):
                catalogue.overtake()
            for each in left:
                each.unlink()
        except OSError as error:
            raise self._unusable(error) from None

    @contextmanager
    def _folder(self, parts: list[bytes], *, create: bool = False) -> Iterator[int]:
        """Enter folders one by one; yields the descriptor of the last."""
        at = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=at)
                        os.fsync(at)
                further = os.open(part, _FOLDER, dir_fd=at)
                os.close(at)
                at = further
            yield at
        finally:
            os.close(at)

    def _unusable(self, error: OSError) -> SetupError:
        return SetupError(
            "no file can be kept in {path}: {reason}", path=self._data, reason=error.strerror or error
        )


@contextmanager
def alone(path: Path, taken: SetupError) -> Iterator[None]:
    """Hold a lock file as long as this process and its children need it. Raises `taken` if another one holds it."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SetupError("{path} cannot be opened: {reason}", path=path, reason=error.strerror) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise taken from None
    try:
        yield
    finally:
        os.close(lock)


def _open_regular(path: Path) -> BinaryIO:
    """Open a file without ever waiting for the other end of a pipe. Raises OSError, and BadItem for no regular file."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise BadItem("{path} is not a regular file", path=path)
    return os.fdopen(handle, "rb")


def _flush_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
