"""Serve until a signal comes, in this process or in several workers that share the listening sockets.

The service manager (systemd) is told what happens: by the first worker when the service is ready and when it has
read its settings again, by the first process when the service stops.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import mmap
import os
import resource
import signal
import threading
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import uvloop

from ibi.errors import SetupError
from ibi.http.server import service_manager
from ibi.http.server.service import CLOSE_SECONDS, STOPPING_SECONDS, AccessLog, is_passed, listen, run

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from ibi.http.server.service import Service

_log = logging.getLogger("ibi.serving")

_STOPPING = frozenset({signal.SIGTERM, signal.SIGINT})
_SIGNALS = _STOPPING | {signal.SIGHUP}
_SLACK_SECONDS: Final = 0.5
"""Seconds that the end of a service may take on a busy machine beyond the time of all its parts together."""


STEADY_SECONDS: Final = 5.0
"""Seconds: a worker that ends sooner after its start counts as one that has ended at once."""
_MOST_QUICK_ENDS: Final = 6
"""How often in a row the same worker must end at once for the service to give up."""
_FIRST_DELAY: Final = 0.1
"""Seconds before a worker that has ended at once is started again; twice as long each time."""
_HEARD_SECONDS: Final = 1.0  # after which a signal to the parent is heard at the latest
_LOOK_SECONDS: Final = 0.05  # between two looks for workers that have ended or are to be started


def serve(
    make: Callable[[], Sequence[Service]],
    binds: Sequence[str],
    ready: Callable[[list[str]], None],
    workers: int = 1,
    *,
    access_log: bool = False,
) -> None:
    """Serve until SIGTERM or Ctrl-C, in this process or in several children that share the listening sockets.

    `make` builds the services, one for each of `binds`, in each process; only the first worker runs the hooks
    `started` and `stopping`, and `ready` is called once, with the URLs. On SIGHUP services read their settings again.
    A worker that ends is started again. If another process keeps a socket open, the hooks `stopping` do not run:
    the service is not away, because requests wait for the next process. Raises SetupError if an address cannot be
    listened on, if a worker fails at the start, and if one ends at once again and again; all workers have been
    stopped then.
    """
    _allow_many_files()
    listeners = [listen(bind) for bind in binds]
    if access_log:
        make = _with_access_log(make)
    if any(map(is_passed, binds)):
        make = _staying(make)

    def announce(urls: list[str]) -> None:
        ready(urls)
        service_manager.notify_ready(urls)

    if workers <= 1:
        uvloop.run(_until_signal(make(), listeners, announce, speaks=True))
        return
    _Workers(make, listeners, announce, workers).run()


@dataclass(slots=True)
class _Worker:
    """One worker: the process that runs it now (0: none), and how often in a row it has ended at once."""

    first: bool
    child: int = 0
    started_at: float = 0.0
    quick_ends: int = 0
    start_at: float | None = 0.0
    """When it is to be started, by the monotonic clock; None while it runs, and when all stop."""


class _Workers:
    """The workers of a service, each of which is started again when it ends unasked. The parent answers nothing."""

    def __init__(
        self,
        make: Callable[[], Sequence[Service]],
        listeners: Sequence[socket.socket],
        ready: Callable[[list[str]], None],
        count: int,
    ) -> None:
        self._make = make
        self._listeners = listeners
        self._ready = ready
        self._workers = [_Worker(first=number == 0) for number in range(count)]
        # Never written to: workers read the end of the pipe when this process has ended, for any reason.
        self._life = os.pipe()
        self._is_ready = mmap.mmap(-1, 1)  # shared: a first worker that is started again is ready silently
        self._stopping = False
        self._failed = False

    def run(self) -> None:
        """Keep the workers running until all have stopped. Raises SetupError if one has failed."""
        began = time.monotonic()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # one that comes too early waits for its handler
        for name in _SIGNALS:
            signal.signal(name, lambda name, _: self._pass_on(name))
        # Python would handle a signal that comes just before `os.wait` begins only when a worker has ended: the timer
        # interrupts the wait. Workers have no timer, because a fork does not inherit it.
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, _HEARD_SECONDS, _HEARD_SECONDS)
        while True:
            self._start_due()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            waiting = any(each.start_at is not None for each in self._workers)
            if not waiting and not any(each.child for each in self._workers):
                break
            child, status = _ended(look=waiting)
            signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
            # As the first process of a container, it also gets the ends of processes that it did not start.
            worker = next((each for each in self._workers if child and each.child == child), None)
            if worker is not None:
                self._note_end(worker, status, at_start=time.monotonic() - began < STEADY_SECONDS)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self._failed:
            raise SetupError("a worker process ended unexpectedly")

    def _pass_on(self, name: int) -> None:
        """Pass a signal on to all workers; after one to stop, start no worker and close the sockets."""
        if name in _STOPPING:
            service_manager.notify_stopping()
            self._stopping = True
            for worker in self._workers:
                worker.start_at = None
            for listener in self._listeners:
                listener.close()
        for worker in self._workers:
            if worker.child:
                with suppress(ProcessLookupError):  # it has ended by itself, which is not noted yet
                    os.kill(worker.child, signal.SIGTERM if name in _STOPPING else name)

    def _start_due(self) -> None:
        """Start the workers whose time has come; signals are blocked."""
        for worker in self._workers:
            if worker.start_at is not None and worker.start_at <= time.monotonic():
                worker.start_at, worker.started_at = None, time.monotonic()
                worker.child = self._fork(first=worker.first)

    def _note_end(self, worker: _Worker, status: int, *, at_start: bool) -> None:
        """Plan the restart of a worker that has ended, or stop all; signals are blocked."""
        ended, worker.child = worker.child, 0
        if self._stopping:
            self._failed = self._failed or status != 0
            return
        now = time.monotonic()
        quick = now - worker.started_at < STEADY_SECONDS
        worker.quick_ends = worker.quick_ends + 1 if quick else 0
        # A worker that fails while the service starts would fail again.
        if worker.quick_ends >= _MOST_QUICK_ENDS or (at_start and status != 0 and os.WIFEXITED(status)):
            self._failed = True
            self._pass_on(signal.SIGTERM)
            return
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {status >> 8}"
        _log.warning("worker process %d ended (%s): another one is started", ended, how)
        worker.start_at = now + (_FIRST_DELAY * 2 ** (worker.quick_ends - 1) if quick else 0)

    def _fork(self, *, first: bool) -> int:
        """Start one worker; returns its process id. Only the `first` runs `started` and `stopping`."""
        child = os.fork()
        if child:
            return child
        status = 1
        try:
            os.close(self._life[1])
            services = self._make()
            if not first:
                services = [replace(service, started=None, stopping=None) for service in services]
            ready = self._announce if first else lambda _: None
            uvloop.run(_until_signal(services, self._listeners, ready, self._life[0], speaks=first))
            status = 0
        except BaseException:
            logging.getLogger("ibi").exception("a worker process failed")
        finally:
            os._exit(status)

    def _announce(self, urls: list[str]) -> None:
        if not self._is_ready[0]:
            self._is_ready[0] = 1
            self._ready(urls)


def _ended(*, look: bool) -> tuple[int, int]:
    """Return the id and status of a child that has ended; with `look`, (0, 0) after a moment if none has."""
    if not look:
        return os.wait()
    child = status = 0
    with suppress(ChildProcessError):  # no child runs: all wait to be started
        child, status = os.waitpid(-1, os.WNOHANG)
    if not child:
        time.sleep(_LOOK_SECONDS)
    return child, status


def _allow_many_files() -> None:
    """Raise the limit of open files and connections (by default a thousand) to the system's maximum (T30)."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _with_access_log(make: Callable[[], Sequence[Service]]) -> Callable[[], Sequence[Service]]:
    # The log wraps the application, which the fast path would bypass.
    return lambda: [
        replace(service, app=AccessLog(service.app), at_once=None, later=None) for service in make()
    ]


def _staying(make: Callable[[], Sequence[Service]]) -> Callable[[], Sequence[Service]]:
    return lambda: [replace(service, stopping=None) for service in make()]


async def _until_signal(
    services: Sequence[Service],
    listeners: Sequence[socket.socket],
    ready: Callable[[list[str]], None],
    life: int | None = None,
    *,
    speaks: bool,
) -> None:
    """Serve until a signal comes or, in a worker, until its parent has ended, which closes `life`.

    `speaks`: whether this process tells the service manager that the service has read its settings again.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    longest = STOPPING_SECONDS + max(service.drain_seconds for service in services) + CLOSE_SECONDS

    def end() -> None:
        if life is not None:
            loop.remove_reader(life)  # the end of the pipe stays readable for ever
        else:
            service_manager.notify_stopping()
        if not stop.is_set():
            stop.set()
            _exit_within(longest + _SLACK_SECONDS)

    for name in _STOPPING:
        loop.add_signal_handler(name, end)
    if life is not None:
        loop.add_reader(life, end)
    reloads = [service.reload for service in services if service.reload]
    if reloads:
        loop.add_signal_handler(signal.SIGHUP, partial(_reload_all, reloads, speaks=speaks))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def tuned(urls: list[str]) -> None:
        tune_garbage_collection()
        ready(urls)

    await run(services, listeners, tuned, stop)


def _reload_all(reloads: Sequence[Callable[[], None]], *, speaks: bool) -> None:
    with service_manager.notify_reloading() if speaks else nullcontext():
        for reload in reloads:
            reload()


def _exit_within(seconds: float) -> None:
    """End this process after `seconds` at the latest, whatever its threads do."""
    # No thread can be ended from outside, and the interpreter waits for all of them, so a thread with long
    # work would keep the process. That work is left as after a kill.

    def exit_now() -> None:
        _log.warning("the time to stop is over: what was still at work is left as it is")
        os._exit(0)

    timer = threading.Timer(seconds, exit_now)
    timer.daemon = True
    timer.start()


def tune_garbage_collection() -> None:
    """Exclude all objects made at the start from garbage collection, and make full collections rare."""
    gc.collect()
    gc.freeze()
    # While many requests wait, a full collection takes a tenth of a second, in which no request is answered. None is
    # needed: pages and answers have no cycles, so they are freed without it (bench/PROFILES.md).
    # The first number (by default 700) exceeds the objects that a thousand queries make, a few each; the last
    # (by default 10) is how many collections of the middle generation come before a full one.
    gc.set_threshold(5_000, 10, 1_000)
