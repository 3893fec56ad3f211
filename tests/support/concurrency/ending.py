"""What a run of tests has started ends with it, also when it is killed: engines, servers, browsers, containers.

The run writes its name into its environment, which all that it starts inherit. A process beside it waits until the run
has ended, by the end of a pipe, and then kills what has this name in its environment or among its words, and the
children of those. So PostgreSQL, which leaves its starter and runs as another user, ends, too, and what stands still.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

VARIABLE = "TESTS_RUN"  # not IBI_…: many tests take these away from what they start
_SECONDS = 20.0  # for which it looks for processes that are being started at that moment


def begin() -> None:
    """Begin a run of this process; a run inside another one ends with both."""
    name = secrets.token_hex(8)
    os.environ[VARIABLE] = "-".join(filter(None, (run_name(), name)))
    # The writing end stays open until this process ends; nothing that it starts inherits it.
    reader, _ = os.pipe()
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", __file__, name],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0)],
        setsid=True,
    )
    os.close(reader)


def pytest_configure(config: Any) -> None:
    """Begin a run when pytest begins; its workers are part of it."""
    if not hasattr(config, "workerinput"):
        begin()


def run_name() -> str:
    """The name of this run, with those of the runs around it before it; "" outside of one."""
    return os.environ.get(VARIABLE, "")


def _marked(name: bytes) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        for part in ("environ", "cmdline"):  # the first one of another user may be closed even to root
            with suppress(OSError):
                if name in (folder / part).read_bytes():
                    yield int(folder.name)


def _with_children(processes: set[int]) -> set[int]:
    """Add the children: a process may have written over its environment, as those of PostgreSQL do."""
    found, new = set[int](), processes
    while new:
        found |= new
        children = set[int]()
        for process in new:
            with suppress(OSError):
                for thread in Path(f"/proc/{process}/task").iterdir():
                    children.update(map(int, (thread / "children").read_text().split()))
        new = children - found
    return found


def _kill_all(name: bytes) -> None:
    end = time.monotonic() + _SECONDS
    while left := _with_children(set(_marked(name))) - {os.getpid()}:
        for process in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > end:
            return
        time.sleep(0.05)


if __name__ == "__main__":
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, signal.SIG_IGN)
    sys.stdin.buffer.read()
    _kill_all(sys.argv[1].encode())
