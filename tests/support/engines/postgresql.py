"""A real PostgreSQL for tests: a cluster of its own in its own folder, started and ended by the test that uses it.

It listens on a free port of this machine and on a socket. As root it runs as the user that its package has made.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from pwd import getpwnam
from typing import IO, Any

from support.concurrency.ending import run_name
from support.ports import free_port

_USER = "postgres"
# Hundreds of databases come and go, and they may lie in the memory of the machine.
_QUICK = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off", "max_wal_size": "128MB"}


def programs() -> Path | None:
    """The folder of the programs of the newest PostgreSQL of this machine, which are not on the PATH; or None.

    `IBI_POSTGRESQL` names another one, such as that of a release that Debian does not have yet.
    """
    if chosen := os.environ.get("IBI_POSTGRESQL"):
        return Path(chosen)
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    return found[-1] if found else None


class PostgreSQL:
    """One cluster. `durable`: it flushes what it has committed, which only tests that kill it need.

    `connections`: how many it takes. `disk`: the size of a disk of its own, such as "150m", which `fill` fills; as root
    only.
    """

    def __init__(self, *, durable: bool = False, disk: str = "", connections: int = 60) -> None:
        bin_folder = programs()
        assert bin_folder is not None, "PostgreSQL is not installed"
        self._bin = bin_folder
        # Not in pytest's folder: that is closed to other users, and the path of a socket must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="ibi-pg-"))
        self.port = free_port()
        self._connections = connections
        self._settings = {} if durable else _QUICK
        self._started = False
        self._count = 0
        self._templates: set[str] = set()
        if os.geteuid() == 0:
            shutil.chown(self.folder, _USER, _USER)
        self._disk = self._mounted(disk) if disk else None
        self._run(
            "initdb", "-D", self._data, "-A", "trust", "-U", "ibi", "--no-locale", "-E", "UTF8", "--no-sync"
        )

    def start(self) -> None:
        """Start it, and return when it answers. After a kill, its orphans may take seconds to end."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "max_connections": str(self._connections),
            **self._settings,
        }
        # A word of each of its processes, by which they are found and ended.
        settings["cluster_name"] = run_name()
        words = " ".join(f"-c {name}={value}" for name, value in settings.items())
        end = time.monotonic() + 30
        while True:
            options, log = f"-p {self.port} -k {self.folder} {words}", self.folder / "log"
            try:
                self._run("pg_ctl", "-D", self._data, "-w", "-l", log, "-o", options, "start")
            except subprocess.CalledProcessError:
                if time.monotonic() > end:
                    raise AssertionError(log.read_text()) from None
                if not self._started and log.exists() and "Address already in use" in log.read_text():
                    self.port = free_port()  # no URL has told the other one yet
                time.sleep(0.2)
            else:
                self._started = True
                return

    def stop(self, mode: str = "fast") -> None:
        """Stop it as an operator does; `mode` "immediate" leaves it to recover at its next start."""
        self._run("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def restart(self) -> None:
        """Stop and start it: every connection is closed."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Kill its first process, as the kernel does that has no memory left."""
        os.kill(self._processes()[0], signal.SIGKILL)

    def suspend(self) -> None:
        """Let all its processes stand still: it is there, and answers nothing."""
        for process in self._processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)

    def resume(self) -> None:
        """Let its processes go on."""
        for process in self._processes():
            with suppress(ProcessLookupError):  # a process of a connection may have ended
                os.kill(process, signal.SIGCONT)

    def remove(self) -> None:
        """End it, and remove all it has."""
        with suppress(OSError):
            self.resume()
        with suppress(subprocess.CalledProcessError):
            self.stop("immediate")
        if self._disk is not None:
            self._disk.kill()
            self._disk.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def fill(self) -> None:
        """Fill its disk."""
        self._on_its_disk(
            "sh", "-c", f"cat /dev/zero > {self.folder}/fill 2> /dev/null; test -s {self.folder}/fill"
        )

    def empty(self) -> None:
        """Undo `fill`."""
        self._on_its_disk("rm", f"{self.folder}/fill")

    def url(self, database: str, *, user: str = "ibi") -> str:
        """The URL of a database, by the port."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def socket_url(self, database: str) -> str:
        """The URL of a database, by the socket."""
        return f"postgresql://ibi@/{database}?host={self.folder}&port={self.port}"

    def new_database(self, template: str = "template0") -> str:
        """Make a database, a copy of `template`, to which no client may be connected; return its URL."""
        self._count += 1
        name = f"d{self._count}"
        # By files: half as long as by its log, where nothing is flushed.
        how = "STRATEGY FILE_COPY" if self._settings else ""
        self.execute(f'CREATE DATABASE {name} TEMPLATE "{template}" {how}')
        return self.url(name)

    def template(self, name: str, fill: Callable[[str], None]) -> str:
        """The name of a database for `new_database`, which `fill` (given its URL) fills once in this cluster."""
        name = f"template_{name}"
        if name not in self._templates:
            self.execute(f"CREATE DATABASE {name}")
            fill(self.url(name))
            self._templates.add(name)
        return name

    def drop(self, url: str) -> None:
        """Remove a database that `new_database` has made; connections to it end."""
        self.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement by itself; return its rows."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _processes(self) -> list[int]:
        """The first process of the cluster, and those that it has started."""
        first = int((self._data / "postmaster.pid").read_text().split("\n")[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [first, *map(int, children)]

    def _mounted(self, size: str) -> subprocess.Popen[str]:
        """Mount a disk in the memory for processes that are started in this one's namespace; it holds it."""
        options = f"size={size},mode=755,uid={getpwnam(_USER).pw_uid}"
        script = f"mount -t tmpfs -o {options} tmpfs {self.folder} && echo mounted && exec sleep infinity"
        holder = subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "mounted\n"
        holder.stdout.close()
        return holder

    def _on_its_disk(self, *words: str, output: IO[bytes] | None = None) -> None:
        inside = ["nsenter", "-t", str(self._disk.pid), "-m", "--"] if self._disk is not None else []
        subprocess.run([*inside, *words], check=True, stdout=output, stderr=output, cwd="/")

    def _run(self, program: str, *arguments: object) -> None:
        as_user: list[str] = []
        if os.geteuid() == 0:
            as_user = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--init-groups", "--"]
        # The server inherits the output of pg_ctl: a pipe would never end.
        with (self.folder / f"{program}.out").open("wb") as output:
            self._on_its_disk(*as_user, str(self._bin / program), *map(str, arguments), output=output)
