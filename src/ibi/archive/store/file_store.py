"""What an Archive needs of the place of its items' files: a folder (`files`), or a bucket of an S3 store (`s3_files`).

A file is first staged: received, hashed, durable. Then the catalogue lists it, with its name in staging, in one
transaction with all other changes; from then on it can be read. At last it is put into its place, and listed as
placed. After an interruption the next process does what is left (decisions 0012 and 0056).
"""

from __future__ import annotations

import errno
import os
import stat
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, BinaryIO, Final

from ibi.archive.model.file_names import LONGEST_PART, file_parts
from ibi.errors import BadItem, SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ibi.archive.model.item import StoredFile
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.identifier.forms import IBIForms

CHUNK: Final = 1 << 20
NOT_KEPT: Final = "no file can be kept in {path}: {reason}"
SIDECAR: Final = "item.json"
"""The name of the file with the facts of an item, beside its files (`sidecars`)."""

LONGEST_SIDECAR: Final = 256 << 20
"""Bytes of the longest sidecar that is read: an item may have many files and a long history."""
ITEM_DEPTHS: Final = frozenset({2, 4})
"""The numbers of path parts in an IBIp and in a uniform repository name."""

_OUR_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})


class StagingFile(ABC):
    """A file that is received piece by piece."""

    @abstractmethod
    def write(self, chunk: bytes | memoryview) -> None:
        """Append some bytes. Raises OSError."""

    @abstractmethod
    def finish(self) -> StoredFile:
        """Make the complete file durable, before this returns. Raises OSError, SetupError."""

    @abstractmethod
    def discard(self) -> None:
        """Delete the file, because it is not needed."""


class FileStore(ABC):
    """The files of one Archive. Its methods may wait for a disk, or for another machine if it `is_remote`."""

    is_remote: bool = False
    """Whether opening or reading a file waits for another machine: then the event loop must not do it."""

    @abstractmethod
    def create_folders(self) -> None:
        """Make what is needed before the first file can be kept. Raises OSError, SetupError."""

    @abstractmethod
    def staging_session(self, catalogue: Catalogue) -> AbstractContextManager[None]:
        """Hold the right to stage files. Raises SetupError."""

    @abstractmethod
    def stage_stream(self, name: str) -> StagingFile:
        """Start a file that arrives in pieces; `name` is its name in the item. Raises BadItem, SetupError."""

    @abstractmethod
    def discard(self, staged: StoredFile) -> None:
        """Delete a staged file that was not listed. Raises OSError; never waits for another machine."""

    @abstractmethod
    def open(self, forms: IBIForms, file: StoredFile) -> BinaryIO:
        """Open a listed file: with a descriptor, or as a `RemoteFile`.

        Raises OSError if it is missing, or not as it was listed; SetupError if the place cannot be used now.
        """

    @abstractmethod
    def placing(self) -> AbstractContextManager[Callable[[], None]]:
        """Hold the right to place and remove files, and to replace sidecars: one process of all nodes has it at a time.

        Yields a function that raises SetupError if the right was lost meanwhile. Raises OSError, SetupError.
        """

    @abstractmethod
    def place_files(self, catalogue: Catalogue) -> None:
        """Put listed files into their places, and remove files that are no longer listed. Raises SetupError.

        It can be repeated: all listed files can be read before and after, and a later call continues.
        """

    @abstractmethod
    def put(self, forms: IBIForms, file: StoredFile, source: BinaryIO) -> bool:
        """Write a listed file into its place, for a restoration or a move; return False for other bytes.

        A file that is there already may be replaced by the same bytes. Raises OSError, SetupError.
        """

    @abstractmethod
    def read_sidecar(self, forms: IBIForms) -> bytes:
        """Read the sidecar of an item. Raises OSError if it is missing, SetupError."""

    @abstractmethod
    def write_sidecar(self, forms: IBIForms, text: bytes) -> None:
        """Write the sidecar of an item, or replace it as a whole, durably. Raises SetupError."""

    @abstractmethod
    def sidecars(self) -> Iterator[tuple[str, bytes | OSError]]:
        """Yield every sidecar: its path for messages, and its content, or why it cannot be read."""

    def signed_url(self, forms: IBIForms, file: StoredFile) -> str:
        """Return a URL from which a reader may fetch a placed file for some minutes; "" if there is none."""
        del forms, file
        return ""

    def stage(self, name: str, source: Path) -> StoredFile:
        """Copy a regular file into staging, hashed and durable. Raises BadItem, SetupError.

        `name` is its name in the item.
        """
        file_parts(name)
        try:
            reader = open_source(source)
        except OSError as error:
            raise BadItem("{path} cannot be read: {reason}", path=source, reason=error.strerror) from None
        with reader:
            staging = self.stage_stream(name)
            try:
                while chunk := reader.read(CHUNK):
                    staging.write(chunk)
                return staging.finish()
            except OSError as error:
                staging.discard()
                if error.errno in _OUR_DISK:
                    reason = error.strerror or error
                    raise SetupError(NOT_KEPT, path=self.where, reason=reason) from None
                raise BadItem("{path} cannot be read: {reason}", path=source, reason=error.strerror) from None
            except BaseException:
                staging.discard()
                raise

    @property
    @abstractmethod
    def where(self) -> str:
        """Where the files are, for messages."""


def relative_path(forms: IBIForms, name: str) -> bytes:
    """Return the path of a file below DIR/col: bytes, in which the %-escapes of its name are decoded.

    Only canonical names become folders: two spellings never have two folders, and two names never share one on
    a file system that ignores case. Raises BadItem.
    """
    parts = (*(part.encode() for part in forms.main.canonical.split("/")), b"doc", *file_parts(name))
    if any(len(part) > LONGEST_PART for part in parts):
        raise BadItem("the name {name} is too long for a folder", name=forms.main)
    return b"/".join(parts)


def open_source(path: Path) -> BinaryIO:
    """Open a regular file, without waiting. Raises OSError, and BadItem for other files such as a pipe."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise BadItem("{path} is not a regular file", path=path)
    return os.fdopen(handle, "rb")
