"""One connection to one machine: request and answer, again and again while both sides keep to HTTP/1.1."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, cast

from ibi.errors import PeerSilent
from ibi.http.client.cpu_budget import LARGE
from ibi.http.client.response import NO_REPLY, ReplyParser, too_large

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.errors import PeerError
    from ibi.http.client.response import Reply, SharedState


class StaleConnection(Exception):
    """A connection kept from an earlier request was closed before any byte of an answer came."""


class ReplyConsumer(Protocol):
    """The sender of a request; exactly one of these methods is called, once."""

    def end(self, outcome: Reply | PeerError) -> None:
        """Take the whole answer or the error. The connection may be used again unless it is `closed`."""

    def replace_connection(self) -> None:
        """Send the request again: the connection was kept from before, and had been closed (StaleConnection)."""


class Connection(asyncio.Protocol):
    """A connection to `peer` (an IP), for one request after the other.

    `consumer` waits for an answer; `is_waiting`: whether bytes of that answer have come that are not parsed
    yet. `lost` is called once when the connection is gone, and `gone` is then done. `idle_since`: when it came to be
    idle, by the clock of the loop.
    """

    def __init__(
        self,
        peer: str,
        limits: tuple[int, int],
        lost: Callable[[Connection], None],
        shared: SharedState,
    ) -> None:
        self.peer = peer
        self._answer = ReplyParser(*limits, shared)
        self._interned = shared.interned
        self._cpu_budget = shared.cpu_budget
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._used = False
        self._known = self._reply = NO_REPLY
        self.consumer: ReplyConsumer | None = None
        self.is_waiting = False
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed = False
        self.idle_since = 0.0

    def send(self, message: bytes, consumer: ReplyConsumer) -> None:
        """Send a whole request; the consumer is called later, never before this returns.

        Raises StaleConnection if the connection is closed already. If that turns out only after sending, the
        consumer has to replace a used connection; of a fresh one it gets PeerGarbled or PeerSilent.
        """
        transport = self._transport
        if transport is None or self.closed or transport.is_closing():
            raise StaleConnection
        self.consumer = consumer
        transport.write(message)

    def abort(self) -> None:
        """End the connection at once, whatever is still on its way."""
        if not self.closed and self._transport is not None:
            self.closed = True
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport. Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)  # asyncio's contract for stream sockets

    def data_received(self, data: bytes) -> None:
        """Find the interned answer with these bytes, or parse or queue them. Called by the event loop."""
        consumer, answer = self.consumer, self._answer
        if consumer is None:
            self.abort()  # bytes that answer no request (T34: mixed-up answers)
            return
        # Of a hundred Archives ninety-nine send the same bytes. They are parsed once, and for the same peer
        # the tuple is made once, too (23 us a query instead of 30).
        if not answer.received and (known := self._interned.find(data)) is not None:
            if known is not self._known:
                self._known, self._reply = known, known._replace(peer=self.peer)
            self.consumer = None
            self._used = True
            consumer.end(self._reply)
            return
        if answer.received + len(data) <= LARGE:
            answer.feed(data)
            self._finish_if_whole(data)
        elif not self._cpu_budget.spend(self._parse, data) and self._transport is not None:
            self._transport.pause_reading()
            self.is_waiting = True
            self._cpu_budget.queue(self._parse_in_turn, data, started=bool(answer.received))

    def _parse(self, data: bytes | None) -> None:
        """Parse a piece of a large answer; for None, refuse the answer, because too many bytes wait."""
        consumer = self.consumer
        if data is not None:
            self._answer.feed(data)
            self._finish_if_whole(data)
        elif consumer is not None:
            self.consumer = None
            self._answer.drop()
            self.abort()
            consumer.end(too_large())

    def _parse_in_turn(self, data: bytes | None) -> None:
        self.is_waiting = False
        if not self.closed and self._transport is not None:  # else the request was given up
            self._transport.resume_reading()
            self._parse(data)

    def eof_received(self) -> bool:
        """End the answer: the other side will send no more. Called by the event loop."""
        if self.consumer is not None:
            self._answer.end()
            self._finish_if_whole()
        return False

    def connection_lost(self, _exc: Exception | None) -> None:
        """Called by the event loop when the connection is gone, for whatever reason."""
        self.closed = True
        consumer, self.consumer = self.consumer, None
        if not self.gone.done():  # a cancelled `close_connections` has cancelled it, too
            self.gone.set_result(None)
        self._lost(self)
        if consumer is None:
            return
        self._answer.drop()
        if self._used and not self._answer.received:
            consumer.replace_connection()
        else:
            consumer.end(PeerSilent("the connection was closed before the end of the answer"))

    def _finish_if_whole(self, data: bytes = b"") -> None:
        """Pass the answer on if it is whole, or the error if it was refused; `data` are the last bytes."""
        answer, consumer = self._answer, self.consumer
        if consumer is None or not (answer.complete or answer.refusal is not None):
            return
        self.consumer = None
        self._used = True
        if answer.refusal is not None:
            answer.drop()
            self.abort()
            consumer.end(answer.refusal)
            return
        reusable, alone = answer.kept_alive and not answer.surplus, answer.received == len(data)
        reply = answer.take(self.peer)
        if not reusable:
            self.abort()
        elif alone:
            self._interned.put(data, reply)
        consumer.end(reply)
