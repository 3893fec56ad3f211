"""Forks of this process that end with all that they have started, whatever that does."""

from __future__ import annotations

import ctypes
import os
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

BROKEN: Final = 99
"""The exit status of a fork whose action raised something."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def in_fork(action: Callable[[], int], seconds: float) -> int | None:
    """Do something in a fork of this process; its exit status (negative for a signal), None if it took too long.

    When this returns, the fork has ended, and all processes that come from it. Raises nothing of what the action does.
    """
    # What loses its parent becomes a child of this process; without that, it could not be found.
    _control(_PR_SET_CHILD_SUBREAPER, 1)
    before = _children()
    fork = os.fork()
    if not fork:
        _do(action)
    try:
        return _status(fork, seconds)
    finally:
        while left := _children() - before:
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            for process in left:
                with suppress(ChildProcessError):
                    os.waitpid(process, 0)


def end_with_parent() -> None:
    """Have the kernel kill this process as soon as the one that started it has ended, however that ended."""
    _control(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _do(action: Callable[[], int]) -> None:
    """Do it, and end this process, which does not outlive its parent and is out of reach of its signals."""
    status = BROKEN
    try:
        end_with_parent()
        os.setsid()
        status = action()
    except BaseException:  # noqa: BLE001 - nothing of this process may go on in the code of its parent
        traceback.print_exc()
    finally:
        os._exit(status)


def _status(fork: int, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        process, status = os.waitpid(-1, os.WNOHANG)
        if process == fork:
            return os.waitstatus_to_exitcode(status)
        if not process:
            time.sleep(0.002)
    return None


def _children() -> set[int]:
    found = set[int]()
    for thread in Path("/proc/self/task").iterdir():
        found.update(map(int, (thread / "children").read_text().split()))
    return found


def _control(option: int, value: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
