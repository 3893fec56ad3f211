"""A network between a program and its database: a proxy that passes all bytes on, a while later.

    python -m bench.network SOCKET MICROSECONDS

listens on a port of this machine and leads to a Unix socket. `netem` would do it without a process, but needs a module
of the kernel that many machines lack.
"""

from __future__ import annotations

import ctypes
import select
import socket
import sys
import time
from collections import deque
from typing import Final

_TIMER_SLACK: Final = 29  # PR_SET_TIMERSLACK: by default the kernel wakes a process up to 50 µs late
_MOST: Final = 1 << 18


class _Way:
    """One direction of a connection: what has come in, and when it goes out."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source, self.target = source, target
        self.under_way: deque[tuple[float, bytes]] = deque()

    def pass_on(self, now: float) -> None:
        """Send what is due."""
        while self.under_way and self.under_way[0][0] <= now:
            self.target.sendall(self.under_way.popleft()[1])


def main(path: str, delay: float) -> None:
    """Pass on, for ever; `delay`: seconds for each way."""
    ctypes.CDLL(None).prctl(_TIMER_SLACK, 1, 0, 0, 0)
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"ready http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    ways: dict[socket.socket, _Way] = {}
    while True:
        due = min((way.under_way[0][0] for way in ways.values() if way.under_way), default=None)
        wait = None if due is None else max(0.0, due - time.perf_counter())
        for each in select.select([listening, *ways], [], [], wait)[0]:
            if each is listening:
                _connect(listening, path, ways)
            elif each in ways:
                _receive(each, ways, delay)
        now = time.perf_counter()
        for way in list(ways.values()):
            try:
                way.pass_on(now)
            except OSError:
                _close(way, ways)


def _connect(listening: socket.socket, path: str, ways: dict[socket.socket, _Way]) -> None:
    client, _ = listening.accept()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    ways |= {client: _Way(client, server), server: _Way(server, client)}


def _receive(source: socket.socket, ways: dict[socket.socket, _Way], delay: float) -> None:
    try:
        data = source.recv(_MOST)
    except OSError:
        data = b""
    if data:
        ways[source].under_way.append((time.perf_counter() + delay, data))
    else:
        _close(ways[source], ways)


def _close(way: _Way, ways: dict[socket.socket, _Way]) -> None:
    for end in (way.source, way.target):
        ways.pop(end, None)
        end.close()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) / 1e6)
