"""Threads that get in each other's way: started together, switched often, and waiting for a lock file."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import TypeVar

_T = TypeVar("_T")
_SECONDS = 60.0


def together(number: int, work: Callable[[int], _T]) -> list[_T]:
    """Do `work` in so many threads at the same moment, each with its number; raises what one of them raises."""
    start = Barrier(number)

    def run(each: int) -> _T:
        start.wait(_SECONDS)
        return work(each)

    with ThreadPoolExecutor(number) as threads:
        return list(threads.map(run, range(number)))


@contextmanager
def switching_often() -> Iterator[None]:
    """Let the interpreter go from thread to thread thousands of times as often as usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def waiting(path: Path) -> int:
    """How many wait for the lock of a file or a folder at this moment (Linux)."""
    inode = f":{path.stat().st_ino} "
    return sum("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


def until_waiting(path: Path, over: Callable[[], bool] = lambda: False) -> None:
    """Return when one waits for the lock of a file; fails where none does, or where what should wait is `over`."""
    end = time.monotonic() + _SECONDS
    while not waiting(path):
        assert not over(), f"what should wait for {path.name} has ended"
        assert time.monotonic() < end, f"nothing waits for {path.name}"
        time.sleep(0.005)


def waits_for(path: Path, work: Callable[[], _T]) -> _T:
    """Do `work` in a thread while a file or folder is locked here: it must wait until the lock is free."""
    if not path.exists():
        path.touch(mode=0o600)
    held = os.open(path, os.O_RDONLY)
    with ThreadPoolExecutor(1) as threads:
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            done = threads.submit(work)
            until_waiting(path, done.done)
        finally:
            os.close(held)
        return done.result(_SECONDS)
