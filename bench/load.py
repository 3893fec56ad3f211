"""The load of the HTTP benchmarks: one request again and again over several connections, and every answer kept.

    python -m bench.load BYTES

is the server against which the load itself is weighed: it answers at once, with a body of so many bytes.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import uvloop

_TIMEOUT = 20  # seconds for the last answers of a run
_END = b"\r\n\r\n"


class Refused(Exception):
    """The server did not answer with success: there is no figure."""


@dataclass
class Answers:
    """The answers of one run, from the first request to the last answer, in seconds."""

    seconds: float = 0.0
    bodies: list[bytes] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.bodies) / self.seconds

    @cached_property
    def wait(self) -> tuple[float, float]:
        """How long an answer took: the median, and what 99 of 100 did not exceed, in seconds."""
        return statistics.median(self.waits), statistics.quantiles(self.waits, n=100)[98]


def load(port: int, request: bytes, connections: int, seconds: float) -> Answers:
    """Send `request` to a port of this machine over so many connections, each as soon as it has its answer.

    Raises Refused for an answer that is no success, and TimeoutError when the last answers do not come.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_load(port, request, connections, seconds))


def post(path: str, body: bytes, authorization: str) -> bytes:
    """The bytes of a POST request with a JSON body."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {authorization}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _load(port: int, request: bytes, connections: int, seconds: float) -> Answers:
    run = _Run(port, request, connections, seconds)
    async with asyncio.timeout(seconds + _TIMEOUT):
        for _ in range(connections):
            run.connect()
        await run.over
    run.answers.seconds = time.perf_counter() - run.started
    return run.answers


class _Run:
    """What the connections of one run share."""

    def __init__(self, port: int, request: bytes, connections: int, seconds: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self.loop.create_future()
        self.port, self.request, self.busy = port, request, connections
        self.answers = Answers()
        self.started = time.perf_counter()
        self.until = self.started + seconds
        self._connecting = set[asyncio.Task[object]]()

    def connect(self) -> None:
        """One more connection; it sends at once."""
        task = self.loop.create_task(
            self.loop.create_connection(lambda: _Client(self), "127.0.0.1", self.port)
        )
        self._connecting.add(task)
        task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[object]) -> None:
        self._connecting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """The run is worth nothing."""
        if not self.over.done():
            self.over.set_exception(error)

    def done(self) -> None:
        """One connection has its last answer."""
        self.busy -= 1
        if not self.busy and not self.over.done():
            self.over.set_result(None)


class _Client(asyncio.Protocol):
    """One connection: a request out, its answer in, and again; a new one where the server closes it."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._heard = b""
        self._waiting = True
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def _send(self) -> None:
        self._heard, self._waiting, self._sent = b"", True, time.perf_counter()
        self._transport.write(self._run.request)

    def data_received(self, data: bytes) -> None:
        self._heard = heard = self._heard + data if self._heard else data
        end = heard.find(_END)
        if end < 0:
            return
        head = heard[:end].lower()
        at = head.find(b"\r\ncontent-length:")
        size = int(head[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else -1
        if len(heard) - end - 4 < size:
            return
        if not head.startswith(b"http/1.1 2") or size < 0:
            self._run.fail(Refused(heard.decode(errors="replace")))
            self._transport.close()
            return
        self._answered(heard[end + 4 :], closing=b"\r\nconnection: close" in head)

    def _answered(self, body: bytes, *, closing: bool) -> None:
        run, now = self._run, time.perf_counter()
        run.answers.bodies.append(body)
        run.answers.waits.append(now - self._sent)
        self._waiting = False
        if now >= run.until:
            self._transport.close()
            run.done()
        elif closing:
            self._transport.close()
            run.connect()
        else:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting:
            self._run.fail(exc or ConnectionResetError("the server closed a connection without an answer"))


class _Trivial(asyncio.Protocol):
    """Whatever comes is a request, and its answer is always the same."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, _data: bytes) -> None:
        self._transport.write(self._answer)


async def _serve(size: int) -> None:
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * size
    server = await asyncio.get_running_loop().create_server(lambda: _Trivial(answer), "127.0.0.1", 0)
    print(f"ready http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as _runner:
        _runner.run(_serve(int(sys.argv[1])))
