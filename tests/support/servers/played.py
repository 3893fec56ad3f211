"""One connection to a service without a network: the clock is false, and all that happens to it is written down."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from ibi.http.server.protocol import Protocol
from ibi.http.server.service import Service, server_of
from support.clock import run_with_false_clock

PEER = "192.0.2.7"
Events = list[tuple[float, str]]
"""The seconds since the connection was made, and what was written or done then."""


class _Socket:
    """What the system knows of the connection: the bytes in a pipe are those that the loop has not read yet."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._pipe = os.pipe()

    def fileno(self) -> int:
        return self._pipe[0]

    def getsockname(self) -> tuple[str, int]:
        return "192.0.2.1", 80

    def getpeername(self) -> tuple[str, int]:
        return PEER, 4711

    def put(self, data: bytes) -> None:
        os.write(self._pipe[1], data)

    def take(self) -> None:
        os.read(self._pipe[0], 100)

    def getsockopt(self, *_: Any) -> Any:
        raise OSError

    def setsockopt(self, *_: Any) -> None:
        self._note("what is unsent is dropped")

    def close(self) -> None:
        for each in self._pipe:
            os.close(each)


class _Near(asyncio.Transport):
    """The near end; what comes while reading is paused waits, as it does in the system."""

    def __init__(self, events: Events) -> None:
        self.socket = _Socket(self.note)
        super().__init__({"socket": self.socket})
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._events = events
        self._coming = list[bytes]()
        self._reading = True
        self.protocol: Protocol
        self.closing = False
        self.unsent = 0

    def note(self, what: str) -> None:
        self._events.append((round(self._loop.time() - self._began, 3), what))

    def come(self, data: bytes = b"") -> None:
        self._coming += [data] if data else []
        while self._coming and self._reading and not self.closing:
            self.protocol.data_received(self._coming.pop(0))

    def write(self, data: Any) -> None:
        if data:
            self.note(bytes(data).decode())

    def close(self) -> None:
        self._end("closed")

    def abort(self) -> None:
        self._end("aborted")

    def go(self) -> None:
        self._end("gone")

    def _end(self, how: str) -> None:
        if not self.closing:
            self.closing = True
            self.note(how)
            self._loop.call_soon(self.protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self._reading = False
        self.note("paused")

    def resume_reading(self) -> None:
        self._reading = True
        self.note("resumed")
        self._loop.call_soon(self.come)

    def get_write_buffer_size(self) -> int:
        return self.unsent


class Client:
    """The far end of the connection; its methods without an underscore are the steps of a play."""

    def __init__(self, service: Service, events: Events, *, stopping: bool) -> None:
        server = server_of(service)
        server.config.load()
        server.server_state.default_headers = [(b"date", b"today")]
        config: Any = server.config
        self._config = config
        self._config.request_numbers = count(1)
        if stopping:
            self._config.stop()
        self._near = _Near(events)
        loop = asyncio.get_running_loop()
        self._protocol = Protocol(self._config, server.server_state, {}, loop)
        self._near.protocol = self._protocol
        self._protocol.connection_made(self._near)

    async def play(self, steps: Iterable[bytes | float | str]) -> None:
        """Bytes come, so many seconds pass, or a method of this name is called."""
        for step in steps:
            if isinstance(step, bytes):
                self._near.come(step)
            elif isinstance(step, str):
                getattr(self, step)()
            else:
                await _pass(step)

    def finish(self) -> None:
        if not self._near.closing:
            self._near.note("still open")
            self._protocol.connection_lost(None)
        self._near.socket.close()

    def ends(self) -> None:
        """Send no more; the near end is closed unless it still has something to answer."""
        if not self._protocol.eof_received():
            self._near.close()

    def goes(self) -> None:
        """Close the connection."""
        self._near.go()

    def takes_nothing(self) -> None:
        """Take no answer for now."""
        self._near.unsent = 100_000
        self._protocol.pause_writing()

    def takes_all(self) -> None:
        """Take what waits."""
        self._near.unsent = 0
        self._protocol.resume_writing()

    def has_sent(self) -> None:
        """Have a byte on its way, which the system has and the loop has not read."""
        self._near.socket.put(b"x")

    def is_read(self) -> None:
        """Have nothing on its way."""
        self._near.socket.take()

    def stop(self) -> None:
        """Have the service stop, as its server does."""
        self._config.stop()
        self._protocol.shutdown()

    def look(self) -> None:
        """Have the server look at its connections, as it does every five seconds."""
        self._protocol.end_if_stuck(asyncio.get_running_loop().time())


async def _pass(seconds: float) -> None:
    """Let so many seconds pass; with 0, let everything happen that needs no waiting."""
    for _ in range(20):
        await asyncio.sleep(0)
    await asyncio.sleep(seconds)


def played(service: Service, steps: Iterable[bytes | float | str], *, stopping: bool = False) -> Events:
    """What happened on a connection, in short, while the steps were taken and in ninety seconds after them."""
    events: Events = []

    async def play() -> None:
        client = Client(service, events, stopping=stopping)
        await client.play(steps)
        await _pass(90)
        client.finish()

    run_with_false_clock(play())
    return [(moment, _in_short(what)) for moment, what in events]


def _in_short(written: str) -> str:
    """Each answer in a text by its status, its headers that differ, and its body."""
    first, *answers = written.split("HTTP/1.1 ")
    shown = [first] if first else []
    for answer in answers:
        head, _, body = answer.partition("\r\n\r\n")
        status, *lines = head.split("\r\n")
        lines = [line for line in lines if not line.startswith(("date: today", "content-"))]
        shown.append(", ".join((status[:3], *lines, *([body.strip()] if body else []))))
    return " | ".join(shown)
