"""Servers as their users run them: processes of their own, held on one core, and the syncs they ask for counted."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

SERVER_CORE, LOAD_CORE = 0, 1
_TIMEOUT = 60.0  # seconds for a server to come up or to go
_PRIVATE = re.compile(r"^Private_(?:Clean|Dirty):\s+(\d+) kB", re.MULTILINE)
_SCHEDULED = 2  # the kernel's CPUCLOCK_SCHED: how long a process has had a processor, with all its threads
_READY = re.compile(r"http://127\.0\.0\.1:(\d+)")
_CALLS = re.compile(r"^(?:\s*[\d.]+){3}\s+(\d+).*\b(?:fdatasync|fsync)$", re.MULTILINE)


class NotHere(Exception):
    """A program or package that this machine lacks; the message is a sentence that says so."""


class NotStarted(Exception):
    """A server or a tool of the benchmark does not run; the message has its last words."""


@dataclass(frozen=True)
class Server:
    """A server that runs: where it listens on this machine (0: nowhere), and its first process."""

    port: int
    pid: int


@contextmanager
def serving(
    command: Sequence[str | Path],
    log: Path,
    ready: re.Pattern[str] = _READY,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    core: int = SERVER_CORE,
) -> Iterator[Server]:
    """Start a server on one core and wait until its log has `ready`, whose group, if any, is the port."""
    with log.open("wb") as words:
        process = subprocess.Popen(  # noqa: S603 - our own command
            ["taskset", "-c", str(core), *map(str, command)],  # noqa: S607 - wherever it lies
            stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=env,
            user=user, group=user, extra_groups=[] if user else None,
        )  # fmt: skip
    try:
        yield Server(_port(process, log, ready), process.pid)
    finally:
        process.terminate()
        try:
            process.wait(_TIMEOUT)
        finally:
            process.kill()


def _port(process: subprocess.Popen[bytes], log: Path, ready: re.Pattern[str]) -> int:
    until = time.monotonic() + _TIMEOUT
    while time.monotonic() < until and process.poll() is None:
        if (found := ready.search(log.read_text(errors="replace"))) is not None:
            return int(found[1]) if ready.groups else 0
        time.sleep(0.05)
    raise NotStarted(f"{process.args!r} did not start: {log.read_text(errors='replace')[-2000:]}")


def run(command: Sequence[str | Path], env: Mapping[str, str] | None = None, user: str | None = None) -> str:
    """What a command says. Raises NotStarted where it fails."""
    done = subprocess.run(  # noqa: S603 - our own command
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        env=env,
        timeout=300,
        user=user,
        group=user,
        extra_groups=[] if user else None,
    )
    if done.returncode:
        raise NotStarted(f"{command[0]} failed: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


_PACKAGES = {"nginx": "nginx-light"}


def program(name: str) -> str:
    """Return the path of a program, looking also where Debian installs those for administrators. Raises NotHere."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise NotHere(f"{name} is not here (Debian package {_PACKAGES.get(name, name)})")
    return found


def worked(server: Server) -> float:
    """Seconds for which a server has had a processor so far: what it costs, however busy the machine is."""
    # The kernel's clock of each process: nanoseconds, where /proc/PID/stat has hundredths of a second.
    return sum(time.clock_gettime(~pid << 3 | _SCHEDULED) for pid in _family(server.pid))


def private(server: Server) -> float:
    """MB of memory that only the first process of a server has, without the pages of LMDB's files."""
    maps = Path(f"/proc/{server.pid}/smaps").read_text()
    parts = re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", maps)
    own = (part for part in parts if not part.partition("\n")[0].endswith(".mdb"))
    return sum(int(size) for part in own for size in _PRIVATE.findall(part)) * 1024 / 1e6


def syncs_during(work: Callable[[], object], servers: Sequence[Server], report: Path) -> int | None:
    """How many times the servers asked for a sync while `work` ran, by strace; None where that is not possible.

    Every system call costs the servers more while it is watched: this is for counting, never for a rate.
    """
    if shutil.which("strace") is None:
        return None
    processes = [f"--attach={pid}" for server in servers for pid in _family(server.pid)]
    watcher = subprocess.Popen(  # noqa: S603 - our own command
        ["strace", "-f", "-c", "-o", str(report), "-e", "trace=fdatasync,fsync", *processes],  # noqa: S607 - wherever it lies
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(1)  # it says nowhere when it has attached to all
    if watcher.poll() is not None:
        return None
    work()
    watcher.send_signal(signal.SIGINT)
    watcher.wait(_TIMEOUT)
    return sum(map(int, _CALLS.findall(report.read_text())))


def _family(first: int) -> list[int]:
    """A process and all that descend from it."""
    parents = dict[int, int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it ended meanwhile
    family = [first]
    for member in family:
        family.extend(pid for pid, parent in parents.items() if parent == member)
    return family


def hold_this_process() -> None:
    """Let this process, which makes the load, run on LOAD_CORE alone, away from the servers."""
    os.sched_setaffinity(0, {LOAD_CORE})
