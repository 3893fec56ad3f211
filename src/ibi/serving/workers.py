"""From listening to the last goodbye: in this process, or in several that share the listening sockets (floor 3)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import uvloop

from ibi.errors import SetupError
from ibi.serving import listen, run

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from ibi.serving import Service

_STOPPING = frozenset({signal.SIGTERM, signal.SIGINT})


def serve(
    make: Callable[[], Sequence[Service]],
    binds: Sequence[str],
    ready: Callable[[list[str]], None],
    workers: int = 1,
) -> None:
    """Serve until SIGTERM or Ctrl-C, in this process or in several children that share the listening sockets.

    `make` builds the services, one for each of `binds`, anew in each process; only the first worker runs the hooks
    `started` and `stopping` and tells `ready` the URLs. Raises SetupError when an address cannot be listened on.
    """
    listeners = [listen(bind) for bind in binds]
    if workers <= 1:
        uvloop.run(_until_signal(make(), listeners, ready))
        return
    signal.pthread_sigmask(
        signal.SIG_BLOCK, _STOPPING
    )  # a word to stop that comes too early waits until it is heard
    children = [_fork(make, listeners, ready if number == 0 else None) for number in range(workers)]
    for name in _STOPPING:
        signal.signal(name, lambda *_: _tell(children))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    for listener in listeners:
        listener.close()
    broken = False
    while children:
        child, status = os.wait()
        children.remove(child)
        if status != 0:  # the others would hide it
            broken = True
            _tell(children)
    if broken:
        raise SetupError("a worker process ended unexpectedly")


def _tell(children: Sequence[int]) -> None:
    for child in children:
        os.kill(child, signal.SIGTERM)


def _fork(
    make: Callable[[], Sequence[Service]],
    listeners: Sequence[socket.socket],
    ready: Callable[[list[str]], None] | None,
) -> int:
    """Start one worker; returns its process id. Only the one that is `ready` runs `started` and `stopping`."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        services = make()
        if ready is None:
            services = [replace(service, started=None, stopping=None) for service in services]
        uvloop.run(_until_signal(services, listeners, ready or (lambda _: None)))
        status = 0
    except BaseException:
        logging.getLogger("ibi").exception("a worker process failed")
    finally:
        os._exit(status)


async def _until_signal(
    services: Sequence[Service], listeners: Sequence[socket.socket], ready: Callable[[list[str]], None]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in _STOPPING:
        loop.add_signal_handler(name, stop.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    await run(services, listeners, ready, stop)
