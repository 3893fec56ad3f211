"""Which files of a folder would be whole after a power cut: those that were flushed as they are, in flushed folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Flushed:
    """What this process has flushed: size and moment of a file as it was then, or the names in a folder."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], object] = {}

    def note(self, handle: int) -> None:
        """Note what is flushed now."""
        found = os.fstat(handle)
        self._known[found.st_dev, found.st_ino] = _content(Path(f"/proc/self/fd/{handle}"))

    def lacking(self, folder: Path) -> list[str]:
        """The files and folders below a folder, but for locks, that were not flushed as they are now."""
        places = [folder, *(each for each in folder.rglob("*") if each.suffix != ".lock")]
        return sorted(str(each.relative_to(folder)) for each in places if not self._has(each))

    def _has(self, place: Path) -> bool:
        found = place.stat()
        return self._known.get((found.st_dev, found.st_ino)) == _content(place)


def _content(place: Path) -> object:
    found = place.stat()
    return (
        frozenset(each.name for each in place.iterdir())
        if place.is_dir()
        else (found.st_size, found.st_mtime_ns)
    )


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
