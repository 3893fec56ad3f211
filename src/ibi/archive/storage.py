"""The bytes of items, under DIR/col (threats T21, T22 and T35). The only maker of paths.

    DIR/col/<the four parts of the canonical repository name>/doc/<file>     or <the two parts of the IBIp>
    DIR/staging/…                                                            files that are being taken in

Only canonical names become folders, so that two spellings never become two folders, nor one on a file system that
does not see case. Folders are entered one by one and never through a symbolic link. What is not in the catalogue's
manifest is never served, so a file without its entry harms nobody: files are put here first, then listed.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import mimetypes
import os
import re
import shutil
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote, unquote_to_bytes

from ibi.archive.holding import StoredFile
from ibi.errors import BadItem, SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ibi.identifier.forms import IBIForms

_NAME = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})+")
_LONGEST_PART = 255  # bytes; what file systems take
_LONGEST_NAME = 1024
_REFUSED_BYTES = re.compile(rb"[\x00-\x1f\x7f\\]")
_CHUNK = 1 << 20
_OUR_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TYPES = mimetypes.MimeTypes(filenames=())  # its own table: the same types on every machine
_TYPES_READ_AS = {"application/javascript": "text/javascript", "text/xml": "application/xml"}


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that was copied, hashed and flushed, and waits to be moved to its item."""

    file: StoredFile
    path: Path


def file_parts(name: str) -> tuple[bytes, ...]:
    """The folders and the file that a percent-encoded name means. Raises BadItem for names that are refused.

    Decoded once; no empty, "." or ".." parts, no backslash, no control characters (SVC-13, threat T21).
    """
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise BadItem(
            "the file name {name} is not percent-encoded, as it must stand in a URL; write {proposal}",
            name=name, proposal=quote(name[:_LONGEST_NAME], safe="/%!$&'()*+,;=:@~"),
        )  # fmt: skip
    parts = tuple(unquote_to_bytes(name).split(b"/"))
    for part in parts:
        if part in {b"", b".", b".."} or len(part) > _LONGEST_PART:
            raise BadItem("the file name {name} has an empty, relative or overlong part", name=name)
        if _REFUSED_BYTES.search(part):
            raise BadItem("the file name {name} holds a backslash or a control character", name=name)
    return parts


def media_type(name: str) -> str:
    """What a file is served as, told by the end of its name."""
    guessed, packed = _TYPES.guess_type(name)
    if guessed is None or packed:
        return "application/octet-stream"
    return _TYPES_READ_AS.get(guessed, guessed)


class Storage:
    """The files of one Archive."""

    def __init__(self, data: Path) -> None:
        self._root = data / "col"
        self._staging = data / "staging"

    def make(self) -> None:
        """Make the folders of a new Archive."""
        for folder in (self._root, self._staging):
            folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def ingesting(self) -> Iterator[None]:
        """Hold the right to take files in: one process at a time; what an interrupted one left is removed first.

        Raises SetupError if another process holds it.
        """
        self.make()
        taken = SetupError("another import or deletion is at work in this Archive")
        with alone(self._staging.parent / "ingest.lock", taken):
            for left in self._staging.iterdir():
                left.unlink()
            yield

    def stage(self, forms: IBIForms, name: str, source: Path) -> StagedFile:
        """Copy a regular file in, hash it and flush it; `name` is its name in the item. Raises BadItem."""
        self._parts(forms, name)
        path = self._staging / os.urandom(16).hex()
        try:
            with _open_regular(source) as reader:
                size, digest = _copy(reader, path)
        except OSError as error:
            path.unlink(missing_ok=True)
            if error.errno in _OUR_DISK:
                full = "no file can be kept in {path}: {reason}"
                raise SetupError(full, path=self._staging, reason=error.strerror) from None
            raise BadItem("{path} cannot be read: {reason}", path=source, reason=error.strerror) from None
        return StagedFile(StoredFile(name, size, digest, media_type(name)), path)

    def discard(self, staged: StagedFile) -> None:
        """Forget a staged file."""
        staged.path.unlink(missing_ok=True)

    def place(self, forms: IBIForms, staged: StagedFile) -> None:
        """Move a staged file to its item; durable when this returns. The catalogue must not list it before."""
        *folders, last = self._parts(forms, staged.file.name)
        with self._folder(folders, create=True) as folder:
            os.rename(staged.path, last, dst_dir_fd=folder)
            os.fsync(folder)

    def open(self, forms: IBIForms, file: StoredFile) -> BinaryIO:
        """Open a listed file. Raises OSError if it is not there as it was listed."""
        *folders, last = self._parts(forms, file.name)
        with self._folder(folders) as folder:
            handle = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        opened = open(handle, "rb", buffering=0)  # noqa: PTH123, SIM115 - a descriptor; the caller closes it
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size != file.size:
            opened.close()
            msg = "the stored file is not the one that was listed"
            raise OSError(msg)
        return opened

    def remove(self, forms: IBIForms) -> None:
        """Remove all files of an item, after the catalogue has stopped listing them."""
        *folders, name = self._item(forms)
        with suppress(FileNotFoundError), self._folder(folders) as folder:
            shutil.rmtree(name, dir_fd=folder)

    def _item(self, forms: IBIForms) -> tuple[bytes, ...]:
        return tuple(part.encode() for part in forms.main.canonical.split("/"))

    def _parts(self, forms: IBIForms, name: str) -> tuple[bytes, ...]:
        parts = (*self._item(forms), b"doc", *file_parts(name))
        if any(len(part) > _LONGEST_PART for part in parts):
            raise BadItem("the name {name} is too long for a folder", name=forms.main)
        return parts

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


def _copy(reader: BinaryIO, path: Path) -> tuple[int, str]:
    """Copy to a new file and flush it; returns the size and the SHA-256."""
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as writer:
        while chunk := reader.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            writer.write(chunk)
        writer.flush()
        os.fsync(writer.fileno())
    return size, digest.hexdigest()
