"""What one process of a service does around serving: from its settings to the moment by which it has to end."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import uvloop

from ibi.errors import SetupError
from ibi.http.server import service_manager, workers
from ibi.http.server.service import AccessLog, Service

LIMITS = (1024, 4096)


@pytest.fixture(autouse=True)
def _same_handlers() -> Iterator[None]:
    before = {name: signal.getsignal(name) for name in (*SIGNALS, signal.SIGALRM)}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


class Ended(BaseException):
    """A process ended itself."""


class World:
    """What the process does to the world outside, in order; `script` is what happens while it serves."""

    def __init__(self, patch: pytest.MonkeyPatch, script: Sequence[signal.Signals] = ()) -> None:
        self.done = list[Any]()
        self.services = list[Service]()
        self._script = script
        self._patch = patch
        for module, name, value in (
            (workers, "listen", lambda bind: f"listener of {bind}"), (workers, "run", self._serve),
            (uvloop, "run", asyncio.run), (os, "_exit", self._exit), (threading, "Timer", self._timer),
            (gc, "collect", self._note("collect")), (gc, "freeze", self._note("freeze")),
            (gc, "set_threshold", self._note("threshold")), (signal, "pthread_sigmask", self._note("mask")),
            (resource, "getrlimit", lambda _: LIMITS), (resource, "setrlimit", self._note("limit")),
            (service_manager, "notify_ready", self._note("tell ready")),
            (service_manager, "notify_stopping", self._note("tell stopping")),
            (service_manager, "notify_reloading", self._reloading),
        ):  # fmt: skip
            patch.setattr(module, name, value)

    def _note(self, what: str) -> Callable[..., None]:
        return lambda *values: self.done.append((what, *values))

    def _exit(self, status: int) -> None:
        self.done.append(("exit", status))
        raise Ended

    def _timer(self, seconds: float, action: Callable[[], None]) -> threading.Thread:
        self.done.append(("timer", seconds))
        thread = threading.Thread(target=action)
        thread.start = lambda: self.done.append(("timer runs", thread.daemon, action))  # type: ignore[method-assign]  # it must not run
        return thread

    @contextmanager
    def _reloading(self) -> Iterator[None]:
        self.done.append("reloading")
        yield
        self.done.append("reloaded")

    def become_worker(self, number: int = 0) -> None:
        """Have this process be the worker of this number; its parent never goes on."""
        turns, (life, end) = iter([7] * number + [0]), os.pipe()
        self._patch.setattr(os, "fork", lambda: next(turns))
        self._patch.setattr(
            os, "pipe", lambda: (life, os.dup(end))
        )  # the parent has the other end, and lives
        self._patch.setattr(signal, "setitimer", lambda *_: None)

    async def _serve(self, services: Any, listeners: Any, ready: Any, stop: asyncio.Event) -> None:
        self.services = services
        self.done.append(("serve", listeners))
        ready(["http://a.example:1"])
        for name in self._script:
            signal.raise_signal(name)
            await asyncio.sleep(0.01)
            self.done.append(("stop", stop.is_set()))


async def _hook() -> None:
    """Do nothing."""


def service(done: list[Any], drain_seconds: int = 7) -> Service:
    return Service(
        "app", _hook, _hook, at_once=lambda *_: None, later=lambda *_: False, drain_seconds=drain_seconds,
        reload=lambda: done.append("reload"),
    )  # fmt: skip


BEGUN = [("limit", resource.RLIMIT_NOFILE, (4096, 4096))]
SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
TUNED = [("collect",), ("freeze",), ("threshold", 5_000, 10, 1_000)]


def served(listeners: list[str]) -> list[Any]:
    return [("mask", signal.SIG_UNBLOCK, SIGNALS), ("serve", listeners), *TUNED]


def test_one_process_serves_until_a_signal_and_ends_in_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        world = World(patch, [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
        done = world.done
        made = [service(done), service(done, 20)]
        workers.serve(lambda: made, ["a:1", "b:2"], lambda urls: done.append(("ready", urls)))
    exit_now = done[-4][2]
    assert done == [
        *BEGUN, *served(["listener of a:1", "listener of b:2"]),
        ("ready", ["http://a.example:1"]), ("tell ready", ["http://a.example:1"]),
        "reloading", "reload", "reload", "reloaded", ("stop", False),
        ("tell stopping",), ("timer", 2.0 + 20 + 3.5 + 0.5), ("timer runs", True, exit_now), ("stop", True),
        ("tell stopping",), ("stop", True),
    ]  # fmt: skip
    assert world.services is made
    with monkeypatch.context() as patch:
        World(patch)  # so that this process goes on
        with pytest.raises(Ended):
            exit_now()
    assert caplog.messages == ["the time to stop is over: what was still at work is left as it is"]


def test_an_access_log_sees_each_request_and_a_socket_that_stays_open_needs_no_farewell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        world = World(patch)
        workers.serve(lambda: [service(world.done)], ["a:1"], lambda _: None, access_log=True)
        (logged,) = world.services
        workers.serve(lambda: [service(world.done)], ["a:1", "fd://3"], lambda _: None)
        (staying,) = world.services
    assert isinstance(logged.app, AccessLog)
    assert (logged.at_once, logged.later, logged.stopping) == (None, None, _hook)
    assert (staying.app, staying.started, staying.stopping) == ("app", _hook, None)
    assert staying.at_once is not None


def test_the_limit_of_open_files_stays_where_it_cannot_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise ValueError

    with monkeypatch.context() as patch:
        world = World(patch)
        patch.setattr(resource, "setrlimit", refuse)
        workers.serve(lambda: [service(world.done)], ["a:1"], lambda _: None)
    assert world.done[:4] == served(["listener of a:1"])[:4]


@pytest.mark.parametrize("number", [0, 1])
def test_a_worker_serves_and_ends_and_only_the_first_speaks(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        world = World(patch, [signal.SIGHUP, signal.SIGTERM])
        done = world.done
        world.become_worker(number)
        with pytest.raises(Ended):
            workers.serve(lambda: [service(done)], ["a:1"], lambda urls: done.append(("ready", urls)), 2)
    hook = None if number else _hook
    assert [(each.started, each.stopping) for each in world.services] == [(hook, hook)]
    spoken = [("ready", ["http://a.example:1"]), ("tell ready", ["http://a.example:1"])]
    reloads = ["reload"] if number else ["reloading", "reload", "reloaded"]
    runs = done[-3]
    assert done == [
        *BEGUN, ("mask", signal.SIG_BLOCK, SIGNALS), *served(["listener of a:1"]), *([] if number else spoken),
        *reloads, ("stop", False), ("timer", 2.0 + 7 + 3.5 + 0.5), runs, ("stop", True), ("exit", 0),
    ]  # fmt: skip
    assert runs[:2] == ("timer runs", True)


def test_a_worker_that_cannot_begin_says_why_and_ends_with_a_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Sequence[Service]:
        raise SetupError("this cannot begin")

    with monkeypatch.context() as patch:
        world = World(patch)
        world.become_worker()
        with pytest.raises(Ended):
            workers.serve(broken, ["a:1"], lambda _: None, 2)
    assert world.done[-1] == ("exit", 1)
    assert caplog.messages == ["a worker process failed"]
    assert "this cannot begin" in caplog.text
