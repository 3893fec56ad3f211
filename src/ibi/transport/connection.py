"""One connection to one machine: a request out, an answer in, and again while both sides keep to the rules."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, cast

from ibi.errors import PeerSilent
from ibi.transport.alike import Alike
from ibi.transport.exchange import NONE, Answers, Held, too_large
from ibi.transport.ration import LARGE, Ration

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.errors import PeerError
    from ibi.transport.exchange import Reply


class StaleConnection(Exception):
    """A connection kept from an earlier request was closed before any byte of an answer came."""


class Asker(Protocol):
    """Whoever has sent a request is told once what came of it."""

    def end(self, outcome: Reply | PeerError) -> None:
        """The answer is whole, or there will be none. Another request may be sent unless `closed`."""

    def stale(self) -> None:
        """The connection was kept from before, and closed meanwhile (StaleConnection)."""


class Common:
    """What all connections of one client share."""

    def __init__(self) -> None:
        self.held = Held()
        self.alike = Alike()
        self.ration = Ration()


class Connection(asyncio.Protocol):
    """A connection to `peer` (an IP), for one request after the other.

    `asker` is who waits for an answer now; `waits`, whether something of it has come that was not taken apart yet.
    `lost` is called once when the connection is gone, and `gone` is then done.
    """

    def __init__(
        self,
        peer: str,
        limits: tuple[int, int],
        lost: Callable[[Connection], None],
        common: Common,
    ) -> None:
        self.peer = peer
        self._answer = Answers(*limits, common.held)
        self._alike = common.alike
        self._ration = common.ration
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._used = False
        self._known = self._reply = NONE
        self.asker: Asker | None = None
        self.waits = False
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed = False
        self.idle_since = 0.0

    def ask(self, request: bytes, asker: Asker) -> None:
        """Send a whole request; the asker will be told, but never before this returns.

        Raises StaleConnection where it is closed already. The asker is told of that when it turns out only now, and
        the connection has carried a request before; else of PeerGarbled or PeerSilent.
        """
        transport = self._transport
        if transport is None or self.closed or transport.is_closing():
            raise StaleConnection
        self.asker = asker
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
        asker, answer = self.asker, self._answer
        if asker is None:
            self.abort()  # nobody asked
            return
        if not answer.received and (known := self._alike.find(data)) is not None:
            if known is not self._known:
                self._known, self._reply = known, known._replace(peer=self.peer)
            self.asker = None
            self._used = True
            asker.end(self._reply)
            return
        if answer.received + len(data) <= LARGE:
            answer.feed(data)
            self._judge(data)
        elif self._ration.grants():
            self._ration.spend(self._take, data)
        elif self._transport is not None:
            self._transport.pause_reading()
            self.waits = True
            self._ration.queue(self._take_late, data, begun=bool(answer.received))

    def _take(self, data: bytes | None) -> None:
        """Take a piece of a large answer apart; None where too much waited, so that it cannot be read."""
        asker = self.asker
        if data is not None:
            self._answer.feed(data)
            self._judge(data)
        elif asker is not None:
            self.asker = None
            self._answer.let_go()
            self.abort()
            asker.end(too_large())

    def _take_late(self, data: bytes | None) -> None:
        """It had to wait for its turn."""
        self.waits = False
        if not self.closed and self._transport is not None:  # else whoever asked has given up
            self._transport.resume_reading()
            self._take(data)

    def eof_received(self) -> bool:
        """Called by the event loop: the other side will send no more; neither shall we."""
        if self.asker is not None:
            self._answer.end()
            self._judge()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop: the connection is gone, with an error or (None) in good order."""
        self.closed = True
        if self.asker is not None and exc is None:
            self._answer.end()
            self._judge()
        asker, self.asker = self.asker, None
        if not self.gone.done():  # whoever waited for it may have been cancelled
            self.gone.set_result(None)
        self._lost(self)
        if asker is None:
            return
        self._answer.let_go()
        if self._used and not self._answer.received:
            asker.stale()
        else:
            asker.end(PeerSilent("the connection was closed before the end of the answer"))

    def _judge(self, data: bytes = b"") -> None:
        """Give the answer out when it is whole, or say why it cannot be taken; `data` came last."""
        answer, asker = self._answer, self.asker
        if asker is None or not (answer.complete or answer.refusal is not None):
            return
        self.asker = None
        self._used = True
        if answer.refusal is not None:
            answer.let_go()
            self.abort()
            asker.end(answer.refusal)
            return
        reusable, alone = answer.reusable, answer.received == len(data)
        reply = answer.take(self.peer)
        if not reusable:
            self.abort()
        elif alone:
            self._alike.keep(data, reply)
        asker.end(reply)
