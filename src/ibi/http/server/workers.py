"""Serve until a signal comes, in this process or in several workers that share the listening sockets."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import uvloop

from ibi.errors import SetupError
from ibi.http.server.service import CLOSE_SECONDS, STOPPING_SECONDS, AccessLog, listen, run

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from ibi.http.server.service import Service

_log = logging.getLogger("ibi.serving")

_STOPPING = frozenset({signal.SIGTERM, signal.SIGINT})
_SIGNALS = _STOPPING | {signal.SIGHUP}
_SLACK_SECONDS: Final = 0.5
"""How much longer than its parts together the end of a service may take on a busy machine."""


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
    `started` and `stopping` and calls `ready` with the URLs. On SIGHUP services read their settings again.
    Raises SetupError when an address cannot be listened on, and when a child died: then all have been stopped, and a
    supervisor starts the command again.
    """
    listeners = [listen(bind) for bind in binds]
    if access_log:
        make = _with_access_log(make)
    if workers <= 1:
        uvloop.run(_until_signal(make(), listeners, ready))
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # one that comes too early waits for its handler
    # Nothing is ever written: workers read its end when this process has ended, however that was.
    life = os.pipe()
    children = [_fork(make, listeners, ready if number == 0 else None, life) for number in range(workers)]
    for name in _SIGNALS:
        signal.signal(name, lambda name, _: _signal(children, name))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    for listener in listeners:
        listener.close()
    failed = False
    while children:
        child, status = os.wait()
        children.remove(child)
        # The other workers would hide it: all end, and its supervisor may start this process again.
        if status != 0:
            failed = True
            _signal(children, signal.SIGTERM)
    if failed:
        raise SetupError("a worker process ended unexpectedly")


def _with_access_log(make: Callable[[], Sequence[Service]]) -> Callable[[], Sequence[Service]]:
    # The log sees requests in the application, so there is no fast path.
    return lambda: [replace(service, app=AccessLog(service.app), at_once=None) for service in make()]


def _signal(children: Sequence[int], name: int) -> None:
    for child in children:
        os.kill(child, signal.SIGTERM if name in _STOPPING else name)


def _fork(
    make: Callable[[], Sequence[Service]],
    listeners: Sequence[socket.socket],
    ready: Callable[[list[str]], None] | None,
    life: tuple[int, int],
) -> int:
    """Start one worker; returns its process id. Only the one that is `ready` runs `started` and `stopping`."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.close(life[1])
        services = make()
        if ready is None:
            services = [replace(service, started=None, stopping=None) for service in services]
        uvloop.run(_until_signal(services, listeners, ready or (lambda _: None), life[0]))
        status = 0
    except BaseException:
        logging.getLogger("ibi").exception("a worker process failed")
    finally:
        os._exit(status)


async def _until_signal(
    services: Sequence[Service],
    listeners: Sequence[socket.socket],
    ready: Callable[[list[str]], None],
    life: int | None = None,
) -> None:
    """Serve until a signal comes; a worker also until its parent has ended, which is read from `life`."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    longest = STOPPING_SECONDS + max(service.drain_seconds for service in services) + CLOSE_SECONDS

    def end() -> None:
        if life is not None:
            loop.remove_reader(life)  # its end can be read for ever
        if not stop.is_set():
            stop.set()
            _exit_within(longest + _SLACK_SECONDS)

    for name in _STOPPING:
        loop.add_signal_handler(name, end)
    if life is not None:
        loop.add_reader(life, end)
    reloads = [service.reload for service in services if service.reload]
    if reloads:
        loop.add_signal_handler(signal.SIGHUP, lambda: [reload() for reload in reloads])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def tuned(urls: list[str]) -> None:
        tune_garbage_collection()
        ready(urls)

    await run(services, listeners, tuned, stop)


def _exit_within(seconds: float) -> None:
    """End this process after so long at the latest, whatever its threads do."""
    # No thread can be ended from outside, and the interpreter waits for all: a long piece of work in one would keep
    # the process. What it did is then as after a kill.

    def exit_now() -> None:
        _log.warning("the time to stop is over: what was still at work is left as it is")
        os._exit(0)

    timer = threading.Timer(seconds, exit_now)
    timer.daemon = True
    timer.start()


def tune_garbage_collection() -> None:
    """Leave what was made at the start out of garbage collection, and look through everything rarely."""
    gc.collect()
    gc.freeze()
    # While many requests wait, to look through all that they hold takes a tenth of a second, in which no request is
    # answered. The first (else 700) is above what a thousand queries of some objects each make; the last (else 10) is
    # how seldom everything is looked through.
    gc.set_threshold(5_000, 10, 1_000)
