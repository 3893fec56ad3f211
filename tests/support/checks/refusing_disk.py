"""A disk that refuses one call after the other, each at the place in the source from which it comes."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

_T = TypeVar("_T")
_CALLS = frozenset(
    {
        "open",
        "os.mkdir",
        "os.rename",
        "os.link",
        "os.remove",
        "os.rmdir",
        "os.listdir",
        "os.scandir",
        "os.chmod",
    }
)


class CallSite(NamedTuple):
    """Where a call of the disk comes from."""

    call: str
    file: str
    line: int


class _Watch:
    """What is called below a folder; the first call from the place `refused` fails, or each of them."""

    def __init__(self, folder: Path, refused: CallSite | None, *, always: bool) -> None:
        self.folder = f"{folder}/"
        self.refused = refused
        self.always = always
        self.places: dict[CallSite, None] = {}

    def called(self, call: str, path: str) -> None:
        if not f"{path}/".startswith(self.folder):
            return
        frame = sys._getframe(1)
        while "/src/ibi/" not in frame.f_code.co_filename:
            if frame.f_back is None:
                return  # a call of the test itself
            frame = frame.f_back
        place = CallSite(call, frame.f_code.co_filename.rpartition("/src/")[2], frame.f_lineno)
        first = place not in self.places
        self.places[place] = None
        if (first or self.always) and place == self.refused:
            if call == "sqlite3.connect":
                raise sqlite3.OperationalError("unable to open database file")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


_watching: list[_Watch] = []


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if not _watching or event not in _CALLS or not isinstance(arguments[0], str | bytes):
        return
    path = os.fsdecode(arguments[0])
    if path.startswith("file://"):  # of SQLite
        path = path.removeprefix("file://").partition("?")[0]
    # A path that is not absolute is below an open folder.
    _watching[0].called(event, str(Path(_watching[0].folder, path)))


sys.addaudithook(_hear)


@contextmanager
def _watched(folder: Path, refused: CallSite | None, *, always: bool = False) -> Iterator[_Watch]:
    flush = os.fsync
    watch = _Watch(folder, refused, always=always)

    def fsync(handle: int) -> None:
        watch.called("os.fsync", str(Path(f"/proc/self/fd/{handle}").readlink()))
        flush(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        _watching.append(watch)
        try:
            yield watch
        finally:
            _watching.clear()


def refused_in_turn(
    make: Callable[[int], tuple[Path, Callable[[], _T]]], *, always: bool = False
) -> Iterator[tuple[CallSite, Callable[[], _T]]]:
    """Yield each place, with the act in which the disk refuses its first call from there: ENOSPC.

    `always`: it refuses each call from there. `make` prepares the act of this number: the folder whose disk refuses,
    and the act. One more is done to learn the places.
    """
    folder, act = make(0)
    with _watched(folder, None) as watch:
        act()
    assert watch.places, "the disk was not used"
    for number, place in enumerate(watch.places, 1):
        folder, act = make(number)

        def refusing(folder: Path = folder, act: Callable[[], _T] = act, place: CallSite = place) -> _T:
            with _watched(folder, place, always=always):
                return act()

        yield place, refusing
