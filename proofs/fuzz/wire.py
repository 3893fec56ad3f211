"""A connection without a socket: the real protocol of our services, fed with raw bytes, and a judge of its answers."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING, Any, Final, cast

import httptools
from uvicorn.server import ServerState

from ibi.http.server.protocol import Protocol
from ibi.http.server.service import server_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.http.server.service import Service

TIMEOUT: Final = 6.0
"""Seconds that a request may take."""

_TURNS: Final = 30  # of the event loop, after which an application is taken to wait for more of a body
_LINE: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?[\t -~]*"
_HEAD: Final = re.compile(rb"HTTP/1\.1 [1-5][0-9]{2} [ -~]*(?:\r\n%b)*\r\n\r\n" % _LINE)
_INSIDES: Final = (b"Traceback", b'File "/', b"site-packages", b".py:", b"sqlite3.", b"Error(")
"""What no stranger should see of a program."""


class _Protocol(Protocol):
    """The real one; what goes wrong in it, and would look like a request that is none, is kept."""

    fault: BaseException | None = None

    def send_400_response(self, msg: str) -> None:
        """Called while an error of the parser is handled."""
        error = sys.exc_info()[1]
        if isinstance(error, httptools.HttpParserCallbackError):
            behind = error.__context__
            self.fault = behind if _is_ours(behind) else None
        super().send_400_response(msg)

    def leave(self) -> None:
        """Wait for nothing any more."""
        self._stop_waiting()


def _is_ours(error: BaseException | None) -> bool:
    """Whether an error came up in code of ours."""
    trace = error.__traceback__ if error is not None else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and "/src/ibi/" in trace.tb_frame.f_code.co_filename


class _Transport(asyncio.Transport):
    """Where a protocol writes to."""

    def __init__(self, peer: str) -> None:
        super().__init__({"peername": (peer, 40_000), "sockname": ("127.0.0.1", 80)})
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it, unless the connection has ended: then it is dropped."""
        if not self.closed:
            self.written += data

    def close(self) -> None:
        """Nothing more will come."""
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        """Whether nothing more will come."""
        return self.closed

    def pause_reading(self) -> None:
        """Everything has been read."""

    def resume_reading(self) -> None:
        """Everything has been read."""

    def get_write_buffer_size(self) -> int:
        """Everything has been sent."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There are none."""


class SocketlessClient:
    """A client of a service, by connections without sockets."""

    def __init__(self, service: Service) -> None:
        self._config = server_of(service).config
        self._config.load()
        self._state = ServerState()

    async def say(self, pieces: Sequence[bytes], peer: str = "127.0.0.1") -> tuple[bytes, str]:
        """What is answered to these bytes, and what is wrong with how that was done ("" if nothing is)."""
        transport = _Transport(peer)
        protocol = _Protocol(self._config, cast("Any", self._state), {})
        protocol.connection_made(transport)
        for piece in pieces:
            if transport.closed:
                break
            protocol.data_received(piece)
            if len(pieces) > 1:
                await asyncio.sleep(0)
        until = asyncio.get_running_loop().time() + TIMEOUT
        await self._quiet(until, lambda: transport.closed, protocol)
        if not transport.closed:
            protocol.eof_received()
        cycle: Any = protocol.cycle
        waiting = cycle is not None and not (cycle.more_body or cycle.response_complete)
        mute = waiting and not (transport.written or transport.closed)
        protocol.connection_lost(None)
        await self._quiet(until, lambda: False)
        protocol.leave()
        if protocol.fault is not None:
            return bytes(transport.written), f"{type(protocol.fault).__name__} in the protocol"
        if self._state.tasks:
            for task in self._state.tasks:
                task.cancel()
            return bytes(transport.written), "it goes on for ever"
        return bytes(transport.written), "it is never answered" if mute else ""

    async def _quiet(self, until: float, over: Callable[[], bool], protocol: _Protocol | None = None) -> None:
        """Wait until the application has done its work, or waits for more of a body."""
        turns = 0
        while self._state.tasks and not over() and asyncio.get_running_loop().time() < until:
            turns += 1
            if protocol is not None and turns > _TURNS and getattr(protocol.cycle, "more_body", False):
                return
            await asyncio.sleep(0 if turns < 2 * _TURNS else 0.001)


def fault_of(written: bytes, raw: bytes, methods: Sequence[bytes], secrets: Sequence[bytes] = ()) -> str:
    """What is wrong with answers to requests of these methods; "" if nothing is. `secrets` must not stand in them."""
    if written and _HEAD.match(written) is None:
        return f"this is no head of an answer: {written[:60]!r}"
    if written[9:12] == b"500" or b"\r\nHTTP/1.1 500 " in written:
        return "status 500"
    shown = next((each for each in (*_INSIDES, *secrets) if each in written and each not in raw), None)
    if shown is not None:
        return f"an answer shows {shown.decode('latin-1')!r}"
    try:
        if all(
            method in {b"GET", b"POST"} for method in methods
        ):  # an answer to HEAD, or to nothing, has no body
            httptools.HttpResponseParser(None).feed_data(written)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
        return f"the answers are not HTTP: {error}"
    return ""
