"""An open-loop load: requests go out when their time has come, whether or not earlier ones have been answered.

How long one waits is counted from the moment when it was due, so that a server that stops for a while is charged with
all who would have come meanwhile (no "coordinated omission", as with loads whose connections wait for their answers).
This load works without any event loop, on a core of its own, and does not sleep between requests that follow closely.
"""

from __future__ import annotations

import gc
import itertools
import select
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.processes import NotStarted
from bench.questions import length

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.questions import Questions

CONNECTIONS: Final = 64
_TIMEOUT: Final = 20.0  # seconds for one answer
_PIECE: Final = 1 << 18
_NAP: Final = 0.002  # seconds: when the next request is further away, the load sleeps until short of it


@dataclass(frozen=True)
class Waits:
    """How long the answers of one run took from the moment their requests were due, in order of size, in seconds."""

    sorted: tuple[float, ...]

    def within(self, share: float) -> float:
        """Seconds that this share of all answers did not exceed."""
        return self.sorted[min(int(share * len(self.sorted)), len(self.sorted) - 1)]


def open_loop(port: int, questions: Questions, rate: float, seconds: float, timeout: float = 20) -> Waits:
    """Ask so many questions a second, at equal distances. Raises NotStarted for an answer that is not as it must be.

    `timeout`: seconds, after the last request, within which all answers must have come.
    """
    return Asking(port, itertools.cycle(questions.requests()), questions.answer).go(rate, seconds, timeout)


class Asking:
    """One run, and its connections, which are opened as they are needed.

    `requests`: the bytes of one after the other, as many as may be asked. `expected`: how each answer begins.
    `heard`: called with the number of the request, when it was sent, and the first bytes of its answer.
    """

    def __init__(
        self,
        port: int,
        requests: Iterator[bytes],
        expected: bytes,
        heard: Callable[[int, float, bytes], object] | None = None,
    ) -> None:
        self._waits = list[float]()
        self._port, self._requests, self._expected, self._heard = port, requests, expected, heard
        self._responses = dict[int, _Response]()
        self._free = list[_Response]()
        self._lines: ExitStack
        self._poll: select.epoll

    def go(self, rate: float, seconds: float, timeout: float = 20) -> Waits:
        """Ask, as `open_loop` does."""
        collecting = gc.isenabled()
        gc.disable()
        with ExitStack() as self._lines, select.epoll() as self._poll:
            try:
                self._go(rate, max(int(rate * seconds), 1), seconds + timeout)
            finally:
                if collecting:
                    gc.enable()
        return Waits(tuple(sorted(self._waits)))

    def _go(self, rate: float, count: int, most_seconds: float) -> None:
        """Ask so many times, and hear the answers. Raises NotStarted where they do not come."""
        clock, waits, free, heard, sent = time.perf_counter, self._waits, self._free, self._heard, 0
        begin, gap = clock() + 0.01, 1 / rate
        while len(waits) < count:
            now = clock()
            while sent < count and begin + sent * gap <= now:
                if not free and not self._connect():
                    break
                response = free.pop()
                response.line.send(next(self._requests))
                response.number, response.due, response.sent = sent, begin + sent * gap, now
                sent += 1
            ahead = begin + sent * gap - now if sent < count else _NAP
            for number, _ in self._poll.poll(ahead - _NAP / 2 if ahead > _NAP else 0):
                response = self._responses[number]
                if response.more():
                    waits.append(clock() - response.due)
                    free.append(response)
                    if heard is not None:
                        heard(response.number, response.sent, response.first)
            if now > begin + most_seconds:
                raise NotStarted(f"{count - len(waits)} answers did not come")

    def _connect(self) -> bool:
        """Open one more connection, unless there are as many as there may be."""
        if len(self._responses) >= CONNECTIONS:
            return False
        line = self._lines.enter_context(socket.create_connection(("127.0.0.1", self._port), _TIMEOUT))
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.setblocking(False)  # noqa: FBT003 - the standard library's own
        self._poll.register(line.fileno(), select.EPOLLIN)
        self._responses[line.fileno()] = response = _Response(line, self._expected)
        self._free.append(response)
        return True


class _Response:
    """The answer on one connection, as far as it has been received."""

    def __init__(self, line: socket.socket, expected: bytes) -> None:
        self.line = line
        self.number = 0
        self.due = self.sent = 0.0
        self.first = b""  # bytes of the whole answer, as far as they came together with its head
        self._expected = expected
        self._begun = b""  # until its head is here
        self._missing = 0  # bytes, after that
        self._usual = (
            0  # bytes of an answer: most are as long as the one before, and need not be looked through
        )

    def more(self) -> bool:
        """Take what has come; whether the answer is whole. Raises NotStarted where it is not as it must be."""
        data = self.line.recv(_PIECE)
        if not data:
            raise NotStarted("the server closed a connection within an answer")
        if self._missing:
            self._missing -= len(data)
            return not self._missing
        if self._begun or len(data) != self._usual:
            data = self._begun + data
            size = length(data)
            if not size:
                self._begun = data
                return False
            self._begun, self._usual, self._missing = b"", size, size - len(data)
        if not data.startswith(self._expected):
            raise NotStarted(f"an answer was not as it must be: {data[:500]!r}")
        self.first = data
        return not self._missing
