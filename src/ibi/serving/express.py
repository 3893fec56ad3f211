"""The express lane: what can be answered without waiting is answered before any task, scope or routing exists.

The service decides on the raw request; what it declines, and all that is unusual about a request or its connection,
goes to the application as ever. Whoever asks cannot tell which of the two has answered.

Answers go out when all that had come in was read. To send one wakes its client, which costs more than the sending;
those that are woken together cost less, and what one connection asked together is answered with one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ibi.serving import receiving

AtOnce = Callable[[bytes, Sequence[tuple[bytes, bytes]], str], tuple[int, bytes] | None]
"""In: the target as it came, the headers (names in lower case), the address of who asks ("" where there is none).
Out: the status and the rest of the answer: header lines, an empty line, the body. None: the application answers."""

MOST_AT_ONCE = 16
"""How many requests of those that came in together are answered before others have their turn."""

_UNUSUAL: Final = frozenset({b"content-length", b"transfer-encoding", b"expect", b"upgrade"})


class Config(receiving.Config):
    """uvicorn's configuration, and what answers without waiting."""

    at_once: AtOnce | None = None


class Protocol(receiving.Protocol):
    """A connection some of whose requests the application never sees."""

    config: Config
    _ready: tuple[int, bytes] | None = None  # the answer to the request that is coming in
    _given = 0  # how many of those that came in together have been answered here
    _unsent = b""

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._given = 0
        super().data_received(data)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's contract is wider than uvicorn's None
        """The client will ask nothing more; what it was to be told goes out before the connection closes."""
        self._send()
        return super().eof_received()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, after the answers to what was."""
        self._send()
        super().send_400_response(msg)

    def on_headers_complete(self) -> None:
        """Let the application begin, unless there is an answer already."""
        self._ready = self._answer_at_once()
        if self._ready is None:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Answer, or let the application go on."""
        if self._ready is None:
            super().on_message_complete()
            return
        (status, rest), self._ready = self._ready, None
        self._stop_waiting()
        self._received = 0
        self._given += 1
        lines = [STATUS_LINE[status]]
        for name, value in self.server_state.default_headers:
            lines += (name, b": ", value, b"\r\n")
        if not self._unsent:
            self.loop.call_soon(self._send)
        self._unsent += b"".join((*lines, rest))
        self.on_response_complete()

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, b""
        if unsent and not self.transport.is_closing():
            self.transport.write(unsent)

    def _refuse(self, status: int, sentence: str) -> None:
        self._send()
        super()._refuse(status, sentence)

    def _answer_at_once(self) -> tuple[int, bytes] | None:
        """The answer to a plain GET on a connection where nothing else is under way or waits to be sent."""
        ask = self.config.at_once
        if (
            ask is None
            or self.parser.get_method() != b"GET"
            or self._given >= MOST_AT_ONCE
            or self._received > receiving.HEAD_BYTES
            or not self.url.startswith(b"/")
            or b"#" in self.url
            or not getattr(self.cycle, "response_complete", True)
            or self.flow.write_paused
            or self.transport.is_closing()
            or self.parser.get_http_version() != "1.1"
            or not self.parser.should_keep_alive()
            or any(name in _UNUSUAL for name, _ in self.headers)
        ):
            return None
        return ask(self.url, self.headers, self.client[0] if self.client else "")
