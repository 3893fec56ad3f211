"""What a figure was measured on: the machine, and the versions of all that took part."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import arklet
from bench.databases import postgres_folders
from bench.processes import LOAD_CORE, SERVER_CORE

if TYPE_CHECKING:
    from collections.abc import Iterable

_OURS: Final = (
    *(
        "uvicorn",
        "uvloop",
        "httptools",
        "lmdb",
        "SQLAlchemy",
        "Jinja2",
        "cryptography",
        "aiohttp",
        "pyreqwest",
    ),
)
_THEIRS: Final = ("arklet", "Django", "gunicorn", "psycopg2-binary", "psycopg", "psycopg2")
_PROGRAMS: Final = (("nginx", "-v"), ("wrk", "-v"), ("postgres", "--version"), ("strace", "-V"))
_NUMBER: Final = re.compile(r"\d+\.\d[\w.+-]*")
_WATCH: Final = """import gc, os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
gc.disable()
clock = time.perf_counter
last, end, gaps = clock(), clock() + 0.5, []
while last < end:
    now = clock()
    if now - last > 0.0003:
        gaps.append(now - last)
    last = now
print(len(gaps), sum(gaps), max(gaps, default=0))
"""
"""Half a second of looking at the clock: how often more than 0.3 ms were missing, how much, the longest."""
_ASK: Final = """import sys
from importlib.metadata import PackageNotFoundError, version
for name in sys.argv[1:]:
    try:
        print(name, version(name))
    except PackageNotFoundError:
        pass
"""


def machine() -> str:
    """The processor, how many of it, memory, kernel, and how busy it is; takes half a second."""
    cpu = re.search(r"^model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{platform.machine()}, {os.cpu_count()} cores ({cpu[1] if cpu else 'unknown'}), {memory:.0f} GiB, "
        f"{platform.system()} {platform.release()}; {os.getloadavg()[0]:.1f} other processes wanted a core just "
        f"before; {_held_up()}"
    )


def _held_up() -> str:
    """What the machine itself takes away from a program that never waits: nothing on it waits less than that."""
    watching = [
        subprocess.Popen([sys.executable, "-c", _WATCH, str(core)], stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
        for core in (SERVER_CORE, LOAD_CORE)
    ]
    outputs = [each.communicate()[0].split() for each in watching]
    times = sum(int(count) for count, _, _ in outputs)
    lost, longest = (
        sum(float(lost) for _, lost, _ in outputs),
        max(float(longest) for _, _, longest in outputs),
    )
    return (
        f"in one second of theirs, loops that only look at the clock were held up {times} times, {lost * 1e3:.0f} ms "
        f"in all, {longest * 1e3:.1f} ms the longest"
    )


def versions() -> dict[str, str]:
    """The version of each program and package that is here."""
    found = {platform.python_implementation(): platform.python_version(), "SQLite": sqlite3.sqlite_version}
    for name in _OURS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found | dict(_programs()) | dict(_of_arklet())


def _programs() -> Iterable[tuple[str, str]]:
    folders = [os.environ.get("PATH", os.defpath), "/usr/sbin", *map(str, postgres_folders())]
    for name, option in _PROGRAMS:
        path = shutil.which(name, path=os.pathsep.join(folders))
        if path is None:
            continue
        finished = subprocess.run([path, option], capture_output=True, text=True, check=False)  # noqa: S603 - their own word
        found = _NUMBER.search(finished.stdout + finished.stderr)
        if found is not None:
            yield name, found[0]


def _of_arklet() -> Iterable[tuple[str, str]]:
    python = arklet.FOLDER / "bin" / "python"
    if python.exists():
        finished = subprocess.run([python, "-c", _ASK, *_THEIRS], capture_output=True, text=True, check=False)  # noqa: S603 - our own command
        for line in finished.stdout.splitlines():
            name, _, number = line.partition(" ")
            yield name, number
