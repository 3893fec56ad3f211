"""One question on its way: waiting for a place, for a connection, for the answer; and the moment when all that ends.

A question costs no task of its own while a connection is at rest for it: whoever waits is called when it is over.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from ibi.errors import NotAsked, PeerError, PeerSilent

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.transport.connection import Connection, StaleConnection
    from ibi.transport.exchange import Reply
    from ibi.transport.peers import Peer

NOWHERE: Final = 0
AT_THE_PEER: Final = 1
INSIDE: Final = 2
"""How many of its two places an errand has: one of those of its peer, and one of all."""


class Door(Protocol):
    """What an errand must know of the client that it belongs to."""

    def renew(self, errand: Errand) -> None:
        """Find it a new connection: the one it had was closed before a word came."""

    def leave(self, errand: Errand, connection: Connection | None) -> None:
        """Take its places back, and a connection that may be used again."""


class Deadline:
    """The moment until which answers are awaited, so many seconds from now; one clock for all that are asked under it.

    To be made for one moment of asking: everybody has the same time.
    """

    __slots__ = ("_clock", "_end", "_loop", "_under_way", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + seconds
        self._clock: asyncio.TimerHandle | None = None
        self._under_way: dict[Errand, None] = {}

    def now(self) -> float:
        """The time of the loop."""
        return self._loop.time()

    def lasts(self, seconds: float = 0.0) -> bool:
        """Whether it is not over, nor will be in so many seconds."""
        return self._end >= self._loop.time() + seconds

    def add(self, errand: Errand) -> None:
        """It will be told when the time is over."""
        if self._clock is None:
            self._clock = self._loop.call_at(self._end, self._over)
        self._under_way[errand] = None

    def remove(self, errand: Errand) -> None:
        """It has ended."""
        self._under_way.pop(errand, None)
        if not self._under_way and self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _over(self) -> None:
        """Those first that were never sent: a place that comes free now is of no use to them."""
        for errand in sorted(self._under_way, key=lambda each: each.places):
            self._loop.call_soon(errand.late)


class Errand:
    """A question of which nobody has heard yet; `done` is called once, with the whole answer or the reason why not."""

    __slots__ = (
        "_done",
        "_door",
        "connecting",
        "connection",
        "deadline",
        "is_fresh",
        "over",
        "peer",
        "places",
        "request",
    )

    def __init__(
        self,
        door: Door,
        peer: Peer[Errand],
        request: bytes,
        deadline: Deadline,
        done: Callable[[Reply | PeerError], None],
    ) -> None:
        self._door = door
        self._done = done
        self.peer = peer
        self.request = request
        self.deadline = deadline
        self.places = NOWHERE
        self.connection: Connection | None = None
        self.connecting: asyncio.Task[Connection] | None = None
        self.is_fresh = False  # its connection was made for it
        self.over = False

    def heard(self, reply: Reply) -> None:
        """The connection calls this: the answer is whole."""
        self._end(reply)

    def failed(self, error: PeerError | StaleConnection) -> None:
        """There will be no answer. A connection kept from before that was closed meanwhile is replaced once."""
        if self.over:
            return
        if isinstance(error, PeerError):
            self._end(error)
        elif self.is_fresh:
            self._end(PeerSilent("the connection was closed before the end of the answer"))
        else:
            self.connection = None
            self._door.renew(self)

    def late(self) -> None:
        """The time is over."""
        if self.places == INSIDE:
            reason = PeerSilent("no whole answer within {seconds:g} s", seconds=self.deadline.seconds)
        else:
            reason = too_many()
        self._end(reason)

    def give_up(self) -> None:
        """Nobody wants the answer any longer, nor hears that there is none. Half an answer ends its connection."""
        self._end(None)

    def _end(self, outcome: Reply | PeerError | None) -> None:
        if self.over:
            return
        self.over = True
        self.deadline.remove(self)
        connection, self.connection = self.connection, None
        if self.connecting is not None:
            self.connecting.cancel()
        if connection is not None and connection.busy:
            connection.abort()
        self._door.leave(self, connection)
        if outcome is not None:
            self._done(outcome)


def too_many() -> NotAsked:
    """Why somebody had no turn."""
    return NotAsked("too many questions to it were waiting here")
