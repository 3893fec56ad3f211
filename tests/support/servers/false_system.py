"""A system whose processes are a script: what `serve` does with its workers, moment by moment, without any process."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ibi.http.server import service_manager, workers

End = tuple[float, int, int]
"""When a process ends, its number, and its status as `os.wait` gives it."""
Signal = tuple[float, signal.Signals]
FIRST = 1001
"""The number of the first worker; each later one has the next."""


class _Step(NamedTuple):
    at: float
    what: int
    status: int | None = None
    """Of a process; None for a signal."""


class Listener:
    """A listening socket."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def close(self) -> None:
        self._note("listen no more")


class FalseSystem:
    """Time goes on only while the parent waits; `events` is what happened, with the seconds since the beginning."""

    def __init__(self, script: list[End | Signal]) -> None:
        self.now = 0.0
        self.events = list[str]()
        self._script = sorted((_Step(*each) for each in script), key=lambda each: each.at)
        self._handlers: dict[int, Any] = {}
        self._running = list[int]()
        self._started = 0

    def put_in_place(self, patch: pytest.MonkeyPatch) -> None:
        for module, name, value in (
            (os, "fork", self._fork), (os, "wait", self._wait), (os, "waitpid", self._look), (os, "kill", self._kill),
            (signal, "signal", self._handlers.__setitem__), (signal, "pthread_sigmask", lambda *_: None),
            (signal, "setitimer", lambda _, *seconds: self.note(f"timer {seconds}")),
            (time, "monotonic", lambda: self.now), (time, "sleep", self._sleep),
            (resource, "setrlimit", lambda *_: None), (workers, "listen", lambda _: Listener(self.note)),
            (service_manager, "notify_stopping", lambda: self.note("stopping")),
        ):  # fmt: skip
            patch.setattr(module, name, value)

    def note(self, what: str) -> None:
        self.events.append(f"{self.now:g} {what}")

    def _fork(self) -> int:
        number = FIRST + self._started
        self._started += 1
        self._running.append(number)
        self.note(f"start {number}")
        return number

    def _wait(self) -> tuple[int, int]:
        while True:
            step = self._script.pop(0)
            self.now = max(self.now, step.at)
            if step.status is not None:
                return self._end(step.what, step.status)
            self._handlers[step.what](step.what, None)

    def _end(self, number: int, status: int) -> tuple[int, int]:
        if number in self._running:
            self._running.remove(number)
        return number, status

    def _look(self, which: int, how: int) -> tuple[int, int]:
        assert (which, how) == (-1, os.WNOHANG)
        if not self._running:
            raise ChildProcessError
        step = self._script[0] if self._script else None
        if step is None or step.status is None or step.at > self.now:
            return 0, 0
        self._script.pop(0)
        return self._end(step.what, step.status)

    def _sleep(self, seconds: float) -> None:
        self.now = round(self.now + seconds, 6)
        while self._script and self._script[0].status is None and self._script[0].at <= self.now:
            name = self._script.pop(0).what
            self._handlers[name](name, None)

    def _kill(self, number: int, name: signal.Signals) -> None:
        self.note(f"{signal.Signals(name).name} to {number}")
        if number not in self._running:
            raise ProcessLookupError
        if name == signal.SIGTERM and all(each.what != number for each in self._script):
            self._script.append(_Step(self.now + 0.5, number, 0))
            self._script.sort(key=lambda each: each.at)
