"""One connection to one machine: a request out, an answer in, and again while both sides keep to the rules."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, cast

from ibi.errors import PeerSilent
from ibi.transport.exchange import Answers

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.errors import PeerError
    from ibi.transport.exchange import Held, Reply


class StaleConnection(Exception):
    """A connection kept from an earlier request was closed before any byte of an answer came."""


class Asker(Protocol):
    """Whoever has sent a request is told once what came of it."""

    def heard(self, reply: Reply) -> None:
        """The answer is whole. The connection may carry another request unless it is `closed`."""

    def failed(self, error: PeerError | StaleConnection) -> None:
        """There will be none."""


class Connection(asyncio.Protocol):
    """A connection to `peer` (an IP), for one request after the other.

    `lost` is called once when the connection is gone, and `gone` is then done.
    """

    def __init__(
        self, peer: str, head_limit: int, body_limit: int, lost: Callable[[Connection], None], held: Held
    ) -> None:
        self.peer = peer
        self._answer = Answers(head_limit, body_limit, held)
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._asker: Asker | None = None
        self._used = False
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed = False
        self.idle_since = 0.0

    @property
    def busy(self) -> bool:
        """Whether an answer is awaited."""
        return self._asker is not None

    def ask(self, request: bytes, asker: Asker) -> None:
        """Send a whole request; the asker will be told, but never before this returns.

        Raises StaleConnection where it is closed already. The asker is told of StaleConnection when that turns out
        only now, and the connection has carried a request before; else of PeerGarbled or PeerSilent.
        """
        transport = self._transport
        if transport is None or self.closed or transport.is_closing():
            raise StaleConnection
        self._answer.next()
        self._asker = asker
        transport.write(request)

    def abort(self) -> None:
        """End the connection at once, whatever is still on its way."""
        if not self.closed and self._transport is not None:
            self.closed = True
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop: the connection stands."""
        self._transport = cast("asyncio.Transport", transport)  # asyncio's contract for stream sockets

    def data_received(self, data: bytes) -> None:
        """Called by the event loop: some bytes have come."""
        if self._asker is None:
            self.abort()  # nobody asked
            return
        self._answer.feed(data)
        self._judge()

    def eof_received(self) -> bool:
        """Called by the event loop: the other side will send no more; neither shall we."""
        if self._asker is not None:
            self._answer.end()
            self._judge()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop: the connection is gone, with an error or (None) in good order."""
        self.closed = True
        if self._asker is not None and exc is None:
            self._answer.end()
            self._judge()
        asker, self._asker = self._asker, None
        self.gone.set_result(None)
        self._lost(self)
        if asker is None:
            return
        self._answer.let_go()
        if self._used and not self._answer.begun:
            asker.failed(StaleConnection())
        else:
            asker.failed(PeerSilent("the connection was closed before the end of the answer"))

    def _judge(self) -> None:
        """Give the answer out when it is whole, or say why it cannot be taken."""
        answer, asker = self._answer, self._asker
        if asker is None or not (answer.complete or answer.refusal is not None):
            return
        self._asker = None
        self._used = True
        if answer.refusal is not None:
            self.abort()
            asker.failed(answer.refusal)
            return
        reply = answer.take(self.peer)
        if not answer.reusable:
            self.abort()
        asker.heard(reply)
