"""From listening to the last goodbye: in this process, or in several that share the listening sockets (floor 3)."""

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
from ibi.serving import CLOSE_SECONDS, FAREWELL_SECONDS, listen, run
from ibi.serving.access_log import AccessLog

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from ibi.serving import Service

_STOPPING = frozenset({signal.SIGTERM, signal.SIGINT})
_HEARD = _STOPPING | {signal.SIGHUP}
_SLACK_SECONDS: Final = 0.5
"""How much longer than its parts together the end of a service may take on a busy machine."""

_log = logging.getLogger("ibi.serving")


def serve(
    make: Callable[[], Sequence[Service]],
    binds: Sequence[str],
    ready: Callable[[list[str]], None],
    workers: int = 1,
    *,
    access_log: bool = False,
) -> None:
    """Serve until SIGTERM or Ctrl-C, in this process or in several children that share the listening sockets.

    `make` builds the services, one for each of `binds`, anew in each process; only the first worker runs the hooks
    `started` and `stopping` and tells `ready` the URLs. On SIGHUP those that can look at their settings at once.
    Nobody can end a thread: one that is at work still when the time to stop is over is left with its process, and what
    it did is then as after a kill. Raises SetupError when an address cannot be listened on.
    """
    listeners = [listen(bind) for bind in binds]
    if access_log:
        make = _noting(make)
    if workers <= 1:
        uvloop.run(_until_signal(make(), listeners, ready))
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)  # a word that comes too early waits until it is heard
    life = os.pipe()  # nothing is ever written: its end is read when this process has ended, however that was
    children = [_fork(make, listeners, ready if number == 0 else None, life) for number in range(workers)]
    for name in _HEARD:
        signal.signal(name, lambda name, _: _tell(children, name))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
    for listener in listeners:
        listener.close()
    broken = False
    while children:
        child, status = os.wait()
        children.remove(child)
        if status != 0:  # the others would hide it
            broken = True
            _tell(children, signal.SIGTERM)
    if broken:
        raise SetupError("a worker process ended unexpectedly")


def _noting(make: Callable[[], Sequence[Service]]) -> Callable[[], Sequence[Service]]:
    def lanes_closed(service: Service) -> Service:
        return replace(service, app=AccessLog(service.app), at_once=None, at_once_head=None)

    return lambda: [lanes_closed(service) for service in make()]


def _tell(children: Sequence[int], name: int) -> None:
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
    """Serve until a signal comes; a worker also until whoever started it has ended, which is read from `life`."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    longest = FAREWELL_SECONDS + max(service.drain_seconds for service in services) + CLOSE_SECONDS

    def end() -> None:
        if not stop.is_set():
            stop.set()
            _leave_within(longest + _SLACK_SECONDS)

    for name in _STOPPING:
        loop.add_signal_handler(name, end)
    if life is not None:
        _at_the_end_of(life, loop, end)
    renewing = [service.renew for service in services if service.renew]
    if renewing:
        loop.add_signal_handler(signal.SIGHUP, lambda: [renew() for renew in renewing])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)

    def settled(urls: list[str]) -> None:
        spare_the_old()
        ready(urls)

    await run(services, listeners, settled, stop)


def _leave_within(seconds: float) -> None:
    """End this process after so long at the latest, whatever its threads do, which others would wait for."""

    def leave() -> None:
        _log.warning("the time to stop is over: what was still at work is left as it is")
        os._exit(0)

    leaving = threading.Timer(seconds, leave)
    leaving.daemon = True
    leaving.start()


def _at_the_end_of(life: int, loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    def ended() -> None:
        loop.remove_reader(life)
        stop()

    loop.add_reader(life, ended)


def spare_the_old() -> None:
    """Have garbage searched for where it is: what stands now stands until the end, and what is young dies young.

    While many readers wait, to go through all that they have takes a tenth of a second, in which nobody is answered.
    """
    gc.collect()
    gc.freeze()
    # the first: more than is young at a time, a thousand questions of some objects; else it is 700
    # the last: how seldom everything is gone through; else it is 10
    gc.set_threshold(5_000, 10, 1_000)
