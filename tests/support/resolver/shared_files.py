"""Other processes that share an LMDB file with the test, and ways to damage one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import ibi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SOURCE = Path(ibi.__file__).parents[1]
_PAGE = 4096
_TIMEOUT = 30.0  # seconds

HOLDS_THE_LOCK = """
import lmdb, sys
environment = lmdb.Environment(sys.argv[1], map_size=1 << 30, max_dbs=4)
with environment.begin(write=True):
    print("begun", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def process(code: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    """A Python process that runs `code`; it is killed at the end."""
    command = [sys.executable, "-c", code, *map(str, args)]
    environment = os.environ | {"PYTHONPATH": str(_SOURCE)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def read_line(running: subprocess.Popen[str]) -> str:
    """Return the next line from another process."""
    assert running.stdout is not None
    return running.stdout.readline().strip()


def tell(running: subprocess.Popen[str], line: str = "") -> None:
    """Send a line to another process."""
    assert running.stdin is not None
    running.stdin.write(f"{line}\n")
    running.stdin.flush()


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; fail if it never does."""
    end = time.monotonic() + _TIMEOUT
    while not holds():
        assert time.monotonic() < end, "it never came to pass"
        time.sleep(0.01)


def garbage(folder: Path) -> None:
    """Something that is no LMDB file."""
    (folder / "data.mdb").write_bytes(b"no such thing" * 1000)


def cut(folder: Path) -> None:
    """Half of the file."""
    data = folder / "data.mdb"
    os.truncate(data, data.stat().st_size // 2 // _PAGE * _PAGE)


def empty_pages(folder: Path) -> None:
    """Every page is empty but the two that say where the others begin."""
    with (folder / "data.mdb").open("r+b") as file:
        pages = os.fstat(file.fileno()).st_size // _PAGE
        file.seek(2 * _PAGE)
        file.write(bytes((pages - 2) * _PAGE))


def empty_leaves(folder: Path) -> None:
    """The file can be opened; nothing is where it should be."""
    with (folder / "data.mdb").open("r+b") as file:
        for number in range(2, os.fstat(file.fileno()).st_size // _PAGE):
            page = os.pread(file.fileno(), _PAGE, number * _PAGE)
            leaf = page[10] & 0x02
            if leaf and b"about" not in page and b"epoch" not in page:
                os.pwrite(file.fileno(), bytes(_PAGE), number * _PAGE)
