"""PostgreSQL beside what is measured: a cluster of its own with its own defaults, so every commit is on the disk."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import statistics
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.processes import LOAD_CORE, SERVER_CORE, NotHere, run, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.processes import Server

DELAY: Final = 150
"""Microseconds that the network takes for one way."""

_READY: Final = re.compile("database system is ready to accept connections")
_USER: Final = "ibi"
_ROUND_TRIPS: Final = 500
_NUMBERS: Final = count(1)  # of databases


def postgres_folders() -> list[Path]:
    """Where PostgreSQL's programs are, the last being the best; Debian keeps them out of the way."""
    found = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return [each.parent for each in (*debian, *([Path(found)] if found else ()))]


@contextmanager
def postgres(programs: Path, folder: Path, owner: str = _USER, core: int = SERVER_CORE) -> Iterator[Server]:
    """A new PostgreSQL, reached by a socket in `folder`; never run by root."""
    folder.mkdir()
    user = None
    if os.geteuid() == 0:
        user = "postgres" if "postgres" in {one.pw_name for one in pwd.getpwall()} else "nobody"
        shutil.chown(folder, user)
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    run([programs / "initdb", "-D", folder / "data", "-U", owner, "-A", "trust", "-E", "UTF8"], env, user)
    options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}"]
    command: list[str | Path] = [programs / "postgres", "-D", folder / "data", *options]
    with serving(command, folder.parent / f"{folder.name}.log", _READY, env, user, core) as server:
        yield server


@dataclass
class CataloguePlace:
    """Where the catalogue of an Archive is: a file, or a database of a cluster.

    `address`: what follows the name of a database in its URL, "" for a file.
    """

    name: str
    address: str = ""
    server: Server | None = None

    def new(self) -> str:
        """Return the URL of a new database; "" for a file."""
        if not self.address:
            return ""
        name = f"d{next(_NUMBERS)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, name: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://{_USER}@/{name}?{self.address}"

    def execute(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run statements, each a transaction; return the rows of the last."""
        import psycopg

        with (
            psycopg.connect(self.url(database), autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            for statement in statements:
                cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def round_trip(self) -> float:
        """Return the seconds of a statement that does nothing: the median of many."""
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            times = list[float]()
            for _ in range(_ROUND_TRIPS):
                begun = time.perf_counter()
                connection.execute("SELECT 1").fetchone()
                times.append(time.perf_counter() - begun)
        return statistics.median(times)


@contextmanager
def places(folder: Path) -> Iterator[list[CataloguePlace]]:
    """A file; PostgreSQL by a socket, on the core of the Archive or on the other one; and as on another machine.

    Raises NotHere without PostgreSQL.
    """
    found = postgres_folders()
    if not found:
        raise NotHere("PostgreSQL is not here (Debian package postgresql)")
    folder.chmod(0o711)  # PostgreSQL runs as another user
    with ExitStack() as stack:
        near = stack.enter_context(postgres(found[-1], folder / "near"))
        far = stack.enter_context(postgres(found[-1], folder / "far", core=LOAD_CORE))
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "bench.network",
            folder / "far" / ".s.PGSQL.5432",
            str(DELAY),
        ]
        network = stack.enter_context(serving(command, folder / "network.log", core=LOAD_CORE))
        yield [
            CataloguePlace("SQLite"),
            CataloguePlace("PostgreSQL, same core", f"host={folder / 'near'}", near),
            CataloguePlace("PostgreSQL, another core", f"host={folder / 'far'}", far),
            CataloguePlace(
                f"PostgreSQL, {2 * DELAY / 1000} ms away", f"host=127.0.0.1&port={network.port}", far
            ),
        ]
