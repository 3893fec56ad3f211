"""Files and names that are still there after a power cut, lock files, and files that are safe to open.

Everything here raises OSError, which `setup_errors` turns into SetupError.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO


_UNABLE = frozenset({errno.EINVAL, errno.ENOTSUP})


@contextmanager
def setup_errors(problem: str, *, under: Path | None = None, **details: object) -> Iterator[None]:
    """Turn an OSError into a SetupError: the sentence `problem`, filled with these details and `{reason}`.

    With `under`, `{path}` is the file that the error names, or `under` if it names none.
    """
    try:
        yield
    except OSError as error:
        if under is not None:
            details["path"] = error.filename or under
        raise SetupError(problem, **details, reason=error.strerror or error) from None


@contextmanager
def locked_file(path: Path, how: int = fcntl.LOCK_EX) -> Iterator[int]:
    """Hold a lock file, made if it is missing; yield its descriptor. `how` is the operation of `fcntl.flock`."""
    # Opened for each lock: a lock belongs to the open file, so threads and forks exclude each other, too.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, how)
        yield handle
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder, for its owner only, and the missing ones above it, durably; one that exists stays."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for each in missing:
        flush_folder(each.parent)


def flush_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some file systems cannot flush a folder; there the name is as durable as it can be.
        if error.errno not in _UNABLE:
            raise
    finally:
        os.close(handle)


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file, by default for its owner: under another name, flushed, renamed. Its folder exists."""
    # A random name, so that no two threads or processes write into the same file.
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    flush_folder(path.parent)


def overwrite(handle: int, line: bytes, at: int = 0) -> None:
    """Write a line into an open file, at its beginning or after so many bytes, whole or with an OSError."""
    if os.pwrite(handle, line, at) != len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def open_regular(path: Path | str, *, follow: bool = False) -> BinaryIO:
    """Open a regular file for reading, unbuffered; a link only with `follow`. Raises OSError otherwise."""
    # Without O_NONBLOCK, opening a pipe that was put there would wait for its other end for ever.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(handle, "rb", buffering=0)
