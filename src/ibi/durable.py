"""Bytes and names that are still there after a power cut. Everything here raises OSError."""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_UNABLE = frozenset({errno.EINVAL, errno.ENOTSUP})


def make_folder(folder: Path) -> None:
    """Make a folder, for its owner only, where it is not there yet, and those above it; durably."""
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
        if error.errno not in _UNABLE:  # some file systems cannot flush a folder
            raise
    finally:
        os.close(handle)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file for its owner's eyes only: aside, flushed, then moved into place. Its folder is there already."""
    aside = path.with_name(
        f"{path.name}.{secrets.token_hex(8)}.new"
    )  # nobody else writes there, in any thread
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
        aside.replace(path)
    except BaseException:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


def overwrite(handle: int, line: bytes) -> None:
    """Write a line at the beginning of an open file, whole or with an OSError."""
    if os.pwrite(handle, line, 0) != len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
