"""Which files of a folder would be whole after a power cut: those that were flushed as they are, in flushed folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_Content = frozenset[str] | tuple[int, int]
"""The names in a folder; size and moment of a file."""


class Flushed:
    """What this process has flushed, as it was then."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], _Content] = {}

    def note(self, handle: int) -> None:
        """Note what is flushed now."""
        found = os.fstat(handle)
        self._known[found.st_dev, found.st_ino] = _content(Path(f"/proc/self/fd/{handle}"))

    def lacking(self, folder: Path, *, moments: bool = True) -> list[str]:
        """The files and folders below a folder, but for locks, that were not flushed as they are now.

        `moments`: False where the moment of a file is set after it was flushed.
        """
        places = [folder, *(each for each in folder.rglob("*") if not _is_lock(each))]
        return sorted(
            str(each.relative_to(folder)) for each in places if not self._has(each, moments=moments)
        )

    def _has(self, place: Path, *, moments: bool) -> bool:
        found = place.stat()
        known, now = self._known.get((found.st_dev, found.st_ino)), _content(place)
        if not (now[0] if isinstance(now, tuple) else now):
            return True  # its name, which is in another folder, is all that there is of it
        if isinstance(known, tuple) and isinstance(now, tuple):
            return known == now if moments else known[0] == now[0]
        return isinstance(known, frozenset) and isinstance(now, frozenset) and now <= known


def _is_lock(place: Path) -> bool:
    return "lock" in place.name.split(".")


def _content(place: Path) -> _Content:
    if place.is_dir():
        return frozenset(each.name for each in place.iterdir() if not _is_lock(each))
    found = place.stat()
    return found.st_size, found.st_mtime_ns


@contextmanager
def flushes() -> Iterator[Flushed]:
    """Watch what is flushed, until the end of the block."""
    flushed = Flushed()

    def noting(flush: Callable[[int], None]) -> Callable[[int], None]:
        def noted(handle: int) -> None:
            flush(handle)
            flushed.note(handle)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, noting(getattr(os, name)))
        yield flushed
