"""How requests arrive: uvicorn's protocol with limits on sizes and on patience (threat T30).

A head, and the body of a method that only reads, share one small limit and a few seconds. The body of a method that
writes may be as large as its service says, and take its time, but it must keep coming. While the application does not
read on, neither do we, and nobody is told to hurry.
"""

from __future__ import annotations

import asyncio
from typing import Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 16 * 1024
"""The longest request line and headers together; more is answered with 431."""
REQUEST_SECONDS = 10
"""How long a client may take to send a whole request, or the head of one whose body may be large."""
BODY_PAUSE_SECONDS = 10
"""How long nothing of a large body may come."""
BODY_GRACE_SECONDS = 60
"""How long a large body may come slowly; after that, see SLOWEST_BODY."""
SLOWEST_BODY = 1024
"""Bytes a second, on average, that a large body must bring."""
LINGER_SECONDS = 2
"""How long the rest of a body that nobody wants is thrown away, so that the client comes to read the answer."""

_WRITING: Final = frozenset({b"POST", b"PUT", b"PATCH", b"DELETE"})
_TOO_LARGE: Final = 413
_FRAMING: Final = 8  # bytes around one byte of a chunked body that are no attack


class Config(uvicorn.Config):
    """uvicorn's configuration, and how large the body of a method that writes may be: bytes, 0 where none is."""

    largest_body: int = 0


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, which by itself waits for ever for an endless request."""

    config: Config
    _received = 0  # bytes of the request that is coming in; of one with a large body, those after its head
    _body: int | None = None  # bytes of a large body that came; None while none is coming
    _waiting: asyncio.TimerHandle | None = None
    _listened = _silent = _seen = (
        0.0  # seconds of listening to a body, and of hearing nothing; what had been heard
    )
    _close_after = False  # the client wants no further answer
    _refused = False
    _before: object = None  # what was being answered when the request that is coming in began
    _afterwards: tuple[int, str] | None = None  # what this request is told when those before it are answered

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, unless it is too much."""
        if self._refused:
            return
        self._received += len(data)
        super().data_received(data)
        if not self._received or self.transport.is_closing():
            return
        more = 0 if self._body is None else _FRAMING * self._body
        if self._received > HEAD_BYTES + more:
            self._refuse(431, "the request is too long")
        elif self._waiting is None:  # a request that came as a whole was never waited for
            self._wait()

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's contract is wider than uvicorn's None
        """The client will ask nothing more; it still gets the answer that it waits for."""
        self._close_after = True
        return self._body is None and not getattr(self.cycle, "response_complete", True)

    def on_message_begin(self) -> None:
        """Another request begins."""
        self._before = self.cycle
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Let the application begin, unless head or body are too large."""
        self.url = _with_path(self.url)
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES:
            self._refuse(431, "the head of the request is too long")
            return
        largest = self.config.largest_body
        if not largest or self.parser.get_method() not in _WRITING:
            super().on_headers_complete()
        elif self._announced() > largest:
            self._refuse(_TOO_LARGE, "the body of the request is too large")
        else:
            super().on_headers_complete()
            if (
                not self.cycle.keep_alive
            ):  # uvicorn would close at once, and the answer be lost with what is unread
                self.cycle.keep_alive, self._close_after = True, True
            self._begin_body()

    def on_body(self, body: bytes) -> None:
        """Hand a piece on, unless it is one too many."""
        if self._refused or self.transport.is_closing():
            return
        if self._body is not None:
            self._body += len(body)
            if self._body > self.config.largest_body:
                self._refuse(_TOO_LARGE, "the body of the request is too large")
                return
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there as a whole."""
        if self._refused:
            return
        self._stop_waiting()
        self._received, self._body = 0, None
        if not self.transport.is_closing():
            super().on_message_complete()
            self._leave_if_wished()

    def on_response_complete(self) -> None:
        """The answer has gone; if the body has not come as a whole, nobody wants the rest."""
        super().on_response_complete()
        if self._body is not None and self.cycle.response_complete:
            self._linger()
        if self._afterwards is not None and self.cycle.response_complete:
            refusal, self._afterwards, self._refused = self._afterwards, None, False
            self._refuse(*refusal)
        self._leave_if_wished()

    def send_400_response(self, msg: str) -> None:
        """What came is no request; of what comes after one that was refused, nobody is told anything."""
        if self._refused:
            return
        if self._earlier_are_waiting():
            self._refuse(400, msg)
        else:
            super().send_400_response(msg)

    def _announced(self) -> int:
        """The size that the head promises; 0 where it does not say."""
        length = next((value for name, value in self.headers if name == b"content-length"), b"0")
        return int(length) if length.isdigit() else 0

    def _begin_body(self) -> None:
        self._received, self._body = 0, 0
        self._listened = self._silent = self._seen = 0.0
        self._stop_waiting()
        self._waiting = self.loop.call_later(1, self._look)

    def _look(self) -> None:
        """Once a second: whether the body keeps coming, as far as we listen."""
        self._waiting = self.loop.call_later(1, self._look)
        if self._body is None or self.flow.read_paused or self.cycle.waiting_for_100_continue:
            return
        self._listened += 1
        self._silent = self._silent + 1 if self._seen == self._received else 0
        self._seen = self._received
        slow = self._listened > BODY_GRACE_SECONDS and self._body < SLOWEST_BODY * self._listened
        if slow or self._silent >= BODY_PAUSE_SECONDS:
            self._refuse(408, "the request did not arrive in time")

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(
            REQUEST_SECONDS, self._refuse, 408, "the request did not arrive in time"
        )

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _refuse(self, status: int, sentence: str) -> None:
        if self._refused:
            return
        self._stop_waiting()
        if self.transport.is_closing():
            return
        if self._earlier_are_waiting():
            self._afterwards, self._refused = (status, sentence), True
            return
        if self._body is not None and self.cycle.response_started:
            self.transport.close()
            return
        head = f"HTTP/1.1 {status} Refused\r\ncontent-type: text/plain; charset=utf-8\r\n"
        size = f"content-length: {len(sentence) + 1}\r\nconnection: close\r\n\r\n"
        self.transport.write(f"{head}{size}{sentence}\n".encode())
        if self._body is None and status != _TOO_LARGE:
            self.transport.close()
            return
        self._refused = True
        if self.cycle is not None:  # whoever reads the body learns that the client is gone
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._linger()

    def _earlier_are_waiting(self) -> bool:
        return self.cycle is self._before and not getattr(self.cycle, "response_complete", True)

    def _linger(self) -> None:
        self._stop_waiting()
        self.flow.resume_reading()
        self._waiting = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _leave_if_wished(self) -> None:
        if self._close_after and self._body is None and self.cycle.response_complete:
            self.transport.close()


def _with_path(url: bytes) -> bytes:
    """An absolute form without a path means "/" (RFC 9110 4.2.3, RFC 9112 3.2.2)."""
    if url.startswith(b"/") or b"://" not in url:
        return url
    place, mark, query = url.partition(b"?")
    return b"%b/%b%b" % (place, mark, query) if place.count(b"/") == 2 else url  # noqa: PLR2004 - those of "://"
