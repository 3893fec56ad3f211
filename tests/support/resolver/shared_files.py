"""Other processes that share an LMDB file with the test, what such a one sees in it, and ways to damage one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

LOOKS_INTO = """
import json, lmdb, sys
environment = lmdb.Environment(sys.argv[1], map_size=1 << 30, max_dbs=8, create=False)
held = []

def db(transaction, table):
    return environment.open_db(table.encode(), transaction, create=False)

def rows(table):
    with environment.begin() as transaction:
        return transaction.stat(db(transaction, table))["entries"]

def used(*tables):
    with environment.begin() as transaction:
        found = [transaction.stat(db(transaction, table)) for table in tables]
    return sum((s["branch_pages"] + s["leaf_pages"] + s["overflow_pages"]) * s["psize"] for s in found)

def read(table, key):
    with environment.begin() as transaction:
        return transaction.get(bytes.fromhex(key), b"", db(transaction, table)).hex()

def write(table, key, row):
    with environment.begin(write=True) as transaction:
        if row is None:
            transaction.delete(bytes.fromhex(key), db=db(transaction, table))
        else:
            transaction.put(bytes.fromhex(key), bytes.fromhex(row), db=db(transaction, table))

def hold():
    held.append(environment.begin())

def release():
    held.pop().abort()

def readers():
    return environment.readers()

for line in sys.stdin:
    name, *given = json.loads(line)
    print(json.dumps(globals()[name](*given)), flush=True)
"""


class FileInspector:
    """An LMDB file as another process sees it, and changes it: a process may not open one twice."""

    def __init__(self, running: subprocess.Popen[str]) -> None:
        self.running = running

    def rows(self, table: str) -> int:
        """How many rows a table has."""
        return int(self.do("rows", table))

    def used(self, *tables: str) -> int:
        """How many bytes the pages of these tables take."""
        return int(self.do("used", *tables))

    def read(self, table: str, key: bytes) -> bytes:
        """Return a row, b"" where there is none."""
        return bytes.fromhex(self.do("read", table, key.hex()))

    def write(self, table: str, key: bytes, row: bytes | None) -> None:
        """Put a row in the place of what is there; with None, delete it."""
        self.do("write", table, key.hex(), None if row is None else row.hex())

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read all the while, so that no page comes free."""
        self.do("hold")
        yield
        self.do("release")

    def readers(self) -> str:
        """Return the table of those who read, with their process numbers."""
        return str(self.do("readers"))

    def do(self, *words: str | None) -> Any:
        """What the other process does of it."""
        tell(self.running, json.dumps(words))
        return json.loads(read_line(self.running))


@contextmanager
def looking_into(folder: Path) -> Iterator[FileInspector]:
    """Another process that looks into an LMDB file, until the end."""
    with process(LOOKS_INTO, folder) as running:
        yield FileInspector(running)


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
