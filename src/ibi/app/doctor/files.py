"""Checks of the files of a data directory that `ibi doctor --fix` can repair; no repair touches an item.

They ask who may read the files, to whom they belong, what was left behind, and whether the search index can be used.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.app.doctor import Finding, fixable, warning
from ibi.archive.search import index
from ibi.archive.search.indexing import FILE as DATES
from ibi.archive.store.data_directory import DataDirectory
from ibi.errors import IbiError, SetupError
from ibi.minting.state import FOLDER as MINTING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ibi.minting.machine import Machine

READABLE_BY_OTHERS: Final = 0o077
SECRETS: Final = ("attestation.key", "catalogue.sqlite", "registry.sqlite", "sessions.sqlite")
"""Files with keys, hashes or sessions, besides settings and lists."""

_LEFT: Final = re.compile(r".+\.[0-9a-f]{16}\.new|(?:checkup|nonce)\.[0-9]+\.new|finding\.sqlite3\.new")
_LEFT_AFTER: Final = 3600.0
"""Seconds after which a file that a command writes under another name counts as left behind."""
_ITEMS: Final = "col"


def check_secrets(data: Path) -> Iterator[Finding]:
    """Check that only the owner can read the files of SECRETS; those that are as they should be give no finding."""
    for name in SECRETS:
        with suppress(FileNotFoundError):
            mode = (data / name).stat(follow_symlinks=False).st_mode
            if stat.S_ISREG(mode) and mode & READABLE_BY_OTHERS:
                yield readable_by_others(data / name)


def readable_by_others(path: Path, *, ours: bool = True) -> Finding:
    """Report that others may read a secret; a file outside of the data directory, not `ours`, is not changed."""
    sentence = "{path} holds secrets, and others may read it"
    found = warning("settings", sentence, "chmod 600 {path}", path=path)
    return fixable(found, partial(_close_to_others, path)) if ours else found


def _close_to_others(path: Path) -> IbiError:
    with _Opened(path) as handle:
        os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) & ~READABLE_BY_OTHERS)
    return IbiError("only its owner can read {path} now", path=path)


class _Opened:
    """Opens a regular file that has no other name: a link could lead root to a file of another user."""

    def __init__(self, path: Path | str, folder: int | None = None) -> None:
        self._path, self._folder = path, folder

    def __enter__(self) -> int:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._handle = os.open(self._path, flags, dir_fd=self._folder)
        state = os.fstat(self._handle)
        if not (stat.S_ISDIR(state.st_mode) or (stat.S_ISREG(state.st_mode) and state.st_nlink == 1)):
            os.close(self._handle)
            raise SetupError("{path} is not a plain file", path=self._path)
        return self._handle

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


def check_owners(data: Path) -> Iterator[Finding]:
    """Check that all files belong to the owner of the folder, because `sudo ibi ...` leaves files that are root's."""
    owner = data.stat()
    others = [path for path, name, folder in _files(data) if _owner(name, folder) not in {None, owner.st_uid}]
    if not others:
        return
    sentence = "files in {data} belong to another user than the folder, such as {path}: {count}"
    remedy = "give them to the user of the service: chown {user}: {path}"
    details = {"data": data, "path": others[0], "count": len(others), "user": _user_name(owner.st_uid)}
    found = warning("settings", sentence, remedy, **details)
    yield fixable(found, partial(_give_to_owner, data)) if os.geteuid() == 0 else found


def _files(data: Path) -> Iterator[tuple[Path, str, int]]:
    """Yield path, name and folder (its open descriptor) of the files and folders that `--fix` may give away.

    Those of items are left out, and those of minting: these count as touched when they are changed from outside.
    """
    left_out = {data / _ITEMS, data / MINTING}
    for folder, folders, names, handle in os.fwalk(data):
        here = data / folder
        folders[:] = [each for each in folders if here / each not in left_out]
        for name in (*folders, *names):
            yield here / name, name, handle


def _owner(name: str, folder: int) -> int | None:
    """Return the number of the user to whom a file belongs; None if it is gone."""
    with suppress(FileNotFoundError):
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid
    return None


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _give_to_owner(data: Path) -> IbiError:
    owner, count = data.stat(), 0
    for _, name, folder in _files(data):
        with suppress(OSError, SetupError), _Opened(name, folder) as file:
            if os.fstat(file).st_uid != owner.st_uid:
                os.fchown(file, owner.st_uid, owner.st_gid)
                count += 1
    return IbiError(
        "files in {data} belong to the owner of the folder again: {count}", data=data, count=count
    )


def check_leftovers(data: Path, now: float) -> Iterator[Finding]:
    """Check for files that commands were writing when they were killed; `now` in POSIX seconds."""
    left = list(_left_behind(data, now))
    if left:
        sentence = "interrupted commands have left files behind, such as {path}: {count}"
        found = warning("disk", sentence, "remove them: rm {path}", path=left[0], count=len(left))
        yield fixable(found, partial(_remove_leftovers, data, now))


def _left_behind(data: Path, now: float) -> Iterator[Path]:
    for path in data.iterdir():
        with suppress(FileNotFoundError):
            state = path.lstat()
            if (
                _LEFT.fullmatch(path.name)
                and stat.S_ISREG(state.st_mode)
                and now - state.st_mtime > _LEFT_AFTER
            ):
                yield path


def _remove_leftovers(data: Path, now: float) -> IbiError:
    left = list(_left_behind(data, now))
    for path in left:
        path.unlink(missing_ok=True)
    return IbiError("files that were left behind are removed: {count}", count=len(left))


def check_index(data: Path, machine: Machine, seconds: float) -> Iterator[Finding]:
    """Check the search index of an Archive: whole, of this version, and not lost; stop reading after `seconds`."""
    path = data / index.FILE
    if path.exists():
        reason = index.fault_of(path, seconds)
    else:  # before an Archive is served for the first time, there is none
        reason = IbiError("it is missing") if (data / DATES).exists() else None
    if reason is not None:
        sentence = "the search index {path} cannot be used: {reason}"
        remedy = "it is made anew when the Archive is served, or by: ibi archive index --data {data}"
        found = warning("database", sentence, remedy, path=path, reason=reason, data=data)
        yield fixable(found, partial(_make_index, data, machine))


def _make_index(data: Path, machine: Machine) -> IbiError:
    """Make the search index anew; a running Archive is only told to do so."""
    from ibi.app.archive import indexer  # late: it is slow, and hardly any checkup needs it

    directory = DataDirectory(data, machine)
    try:
        with (
            directory.serve_lock(),
            directory.catalogue() as catalogue,
            closing(indexer(directory, catalogue)) as making,
        ):
            making.anew()
            making.bring_up_to_date()
    except SetupError:
        index.request_rebuild(data / index.FILE)
        return IbiError("the Archive was told to make its search index anew")
    return IbiError("the search index is made anew")
