"""The disk under a benchmark: that it is one, of what kind, and what one sync of it costs."""

from __future__ import annotations

import os
import platform
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_SYNCS = 300
_IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs"}
_BYTES = 512


def add_option(parser: argparse.ArgumentParser) -> None:
    """The one option that every benchmark with a disk has."""
    parser.add_argument(
        "--dir", type=Path, default=Path.cwd().parent, metavar="DIR",
        help="where a temporary directory is made, on a real disk (default: beside the working directory)",
    )  # fmt: skip


@contextmanager
def workplace(parent: Path, *, on_a_disk: bool = True) -> Iterator[Path]:
    """A new directory in `parent`, gone afterwards. Raises SystemExit where it would lie in memory and must not."""
    kind = file_system(parent)
    if on_a_disk and kind in _IN_MEMORY:
        raise SystemExit(
            f"{parent} lies in memory ({kind}): a sync costs nothing there. Give a disk with --dir"
        )
    try:
        made = TemporaryDirectory(prefix="ibi-bench-", dir=parent)
    except OSError as error:
        raise SystemExit(
            f"no directory can be made in {parent}: {error.strerror}. Give one with --dir"
        ) from None
    with made as name:
        yield Path(name)


def file_system(path: Path) -> str:
    """The kind of file system under `path`, as the kernel calls it."""
    place = path.resolve()
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    under = [(len(mount[1]), mount[2]) for mount in mounts if place.is_relative_to(mount[1])]
    longest = max(length for length, _ in under)
    return next(kind for length, kind in reversed(under) if length == longest)


def surroundings(place: Path) -> str:
    """One line: the interpreter, the machine, what else it was doing, and the disk."""
    busy = os.getloadavg()[0]
    return (
        f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}, "
        f"{os.cpu_count()} cores; {busy:.1f} other processes wanted one in the last minute; {file_system(place)}"
    )


class SyncProbe:
    """What one sync costs: 512 bytes written in place in a file of its own, and fdatasync."""

    def __init__(self, folder: Path) -> None:
        self._handle = os.open(folder / "probe", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.pwrite(self._handle, bytes(_BYTES), 0)
        os.fsync(self._handle)

    def seconds(self) -> float:
        """The mean of a few hundred."""
        started = time.perf_counter()
        for at in range(_SYNCS):
            os.pwrite(self._handle, b"%0*d" % (_BYTES, at), 0)
            os.fdatasync(self._handle)
        return (time.perf_counter() - started) / _SYNCS

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)
