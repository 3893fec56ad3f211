"""One question on its way: waiting for a place, for a connection, for the answer; and the moment when all that ends.

A question costs no task of its own while a connection is at rest for it: whoever waits is called when it is over.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from ibi.errors import NotAsked, PeerError, PeerSilent
from ibi.transport.exchange import too_large

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.transport.connection import Connection
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

    To be made for one moment of asking: everybody has the same time. `now` gives the time of the loop; `under_way` are
    the errands that have to be told when the time is over, in order, whenever there are any after `begin`.
    """

    __slots__ = ("_clock", "_end", "_loop", "begun", "now", "seconds", "under_way")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self.begun = self.now()
        self._end = self.begun + seconds
        self._clock: asyncio.TimerHandle | None = None
        self.under_way: dict[Errand, None] = {}

    def lasts(self, seconds: float = 0.0) -> bool:
        """Whether it is not over, nor will be in so many seconds."""
        return self._end >= self.now() + seconds

    def begin(self) -> None:
        """The first of them is under way."""
        self._clock = self._loop.call_at(self._end, self._over)

    def rest(self) -> None:
        """Nobody is."""
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _over(self) -> None:
        """Those first that were never sent: a place that comes free now is of no use to them."""
        for errand in sorted(self.under_way, key=lambda each: each.places):
            self._loop.call_soon(errand.late)


class Errand:
    """A question of which nobody has heard yet; `done` is called once, with the whole answer or the reason why not.

    `is_fresh`: whether its connection was made for it.
    """

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
        self.is_fresh = self.over = False
        under_way = deadline.under_way
        if not under_way:
            deadline.begin()
        under_way[self] = None

    def end(self, outcome: Reply | PeerError | None) -> None:
        """It is over, and `done` is called, but for None: nobody wants to hear."""
        if self.over:
            return
        self.over = True
        under_way = self.deadline.under_way
        del under_way[self]
        if not under_way:
            self.deadline.rest()
        connection, self.connection = self.connection, None
        if self.connecting is not None:
            self.connecting.cancel()
        if connection is not None and connection.asker is not None:
            connection.abort()
        self._door.leave(self, connection)
        if outcome is not None:
            self._done(outcome)

    def stale(self) -> None:
        """The connection was kept from before and closed meanwhile; it is replaced once."""
        if self.over:
            return
        if self.is_fresh:
            self.end(PeerSilent("the connection was closed before the end of the answer"))
        else:
            self.connection = None
            self._door.renew(self)

    def late(self) -> None:
        """The time is over."""
        reason: PeerError
        if self.connection is not None and self.connection.waits:
            reason = too_large()
        elif self.places == INSIDE:
            reason = PeerSilent("no whole answer within {seconds:g} s", seconds=self.deadline.seconds)
        else:
            reason = too_many()
        self.end(reason)

    def give_up(self) -> None:
        """Nobody wants the answer any longer, nor hears that there is none. Half an answer ends its connection."""
        self.end(None)


def too_many() -> NotAsked:
    """Why somebody had no turn."""
    return NotAsked("too many questions to it were waiting here")
