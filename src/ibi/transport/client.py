"""The door itself: GET, from a checked address, within one deadline, and never more at once than agreed.

Redirects are answers like any other; following them is nobody's business here.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ibi.errors import PeerError, PeerSilent
from ibi.transport.connection import StaleConnection
from ibi.transport.crowd import Crowd
from ibi.transport.errand import AT_THE_PEER, INSIDE, Deadline, Errand, too_many
from ibi.transport.names import system_names
from ibi.transport.peers import Limits, Names, Peers
from ibi.transport.request import LOOP_NAME, more_of, written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.transport.address import AddressPolicy
    from ibi.transport.connection import Connection
    from ibi.transport.exchange import Reply
    from ibi.transport.request import Target

__all__ = ["LOOP_NAME", "Client", "Limits", "Names"]


class Client:
    """Asks other machines, one GET at a time; made for many at once. Belongs to the event loop it is first used in."""

    def __init__(
        self, policy: AddressPolicy, names: Names | None = None, limits: Limits | None = None
    ) -> None:
        self._limits = limits or Limits()
        self._peers: Peers[Errand] = Peers(policy, names or system_names, self._limits)
        self._find = self._peers.find
        self._crowd: Crowd[Errand] = Crowd(self._limits.in_all)
        self._tasks: set[asyncio.Task[object]] = set()
        self._closed = False

    async def get(
        self,
        address: str,
        target: str,
        deadline: float,
        headers: Sequence[tuple[str, str]] = (),
        *,
        loop: str = LOOP_NAME,
    ) -> Reply:
        """Ask `address` ("host[:port]") for `target` ("/path?query") and return its whole answer, whatever its status.

        `deadline` is in seconds and covers everything: waiting for a place, the name, the connection, the last byte.
        `loop` is the header CDN-Loop, by which a resolver knows what another one has sent.
        Raises ForbiddenAddress, PeerSilent (NotAsked where no place was free), or PeerGarbled. A connection kept from
        before that the other side had closed meanwhile is replaced once.
        """
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def done(outcome: Reply | PeerError) -> None:
            if answer.done():
                return
            if isinstance(outcome, PeerError):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

        errand = self.ask(address, target, Deadline(deadline), done, headers, loop=loop)
        try:
            return await answer
        finally:
            errand.give_up()

    def ask(
        self,
        address: str,
        target: Target,
        deadline: Deadline,
        done: Callable[[Reply | PeerError], None],
        headers: Sequence[tuple[str, str]] = (),
        *,
        loop: str = LOOP_NAME,
    ) -> Errand:
        """As `get`, but without waiting: `done` is called once, later, with the answer or the reason why there is none.

        All that are asked under one `deadline` have the same time, and cost one clock. Raises ForbiddenAddress for
        what is no address at all, NotAsked where so many wait already for one that says nothing, and PeerSilent where
        this client is closed; then `done` is not called.
        """
        if self._closed:
            raise PeerSilent("this client is closed")
        peer = self._find(address) or self._peers.at(address)
        crowd, inside, limits = peer.crowd, self._crowd, self._limits
        taken, now = crowd.taken, deadline.now()
        if not taken:
            peer.heard = now
        elif taken >= crowd.most and now - peer.heard > limits.patience:
            raise too_many()
        end = peer.usual if not headers and loop is LOOP_NAME else peer.head + more_of(headers, loop)
        errand = Errand(self, peer, written(target, end, limits.target), deadline, done)
        if taken < crowd.most and inside.taken < inside.most:  # nobody has to wait, nearly always
            crowd.taken = taken + 1
            inside.taken += 1
            self._set_off(errand, now)
        elif crowd.enter(errand):
            self._next_place(errand)
        return errand

    def keep(self, task: asyncio.Task[object]) -> None:
        """Look after a task that asks through this client and that nobody waits for; `close` ends it."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End what is under way and every connection. Nothing may be asked afterwards."""
        self._closed = True
        waiting, lookups = self._peers.end()
        for errand in (*waiting, *self._crowd.waiting):
            errand.end(PeerSilent("this client is closed"))
        tasks = [*self._tasks, *lookups]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._peers.hang_up()

    # Errands

    def _next_place(self, errand: Errand) -> None:
        """It has a place at its peer."""
        errand.places = AT_THE_PEER
        if self._crowd.enter(errand):
            self._set_off(errand, errand.deadline.now())

    def _set_off(self, errand: Errand, now: float) -> None:
        """It has both places."""
        errand.places = INSIDE
        idle, oldest = errand.peer.idle, now - self._limits.kept
        while idle and idle[0].idle_since < oldest:
            idle.popleft().abort()
        if idle:
            errand.connection = connection = idle.pop()
            try:
                connection.ask(errand.request, errand)
            except StaleConnection:
                errand.stale()
        else:
            self.renew(errand)

    def _use(self, errand: Errand, connection: Connection) -> None:
        errand.connection = connection
        try:
            connection.ask(errand.request, errand)
        except StaleConnection:
            errand.stale()

    def renew(self, errand: Errand) -> None:
        """Make a connection for an errand: none is at rest, or the one that was had been closed."""
        errand.is_fresh = True
        errand.connecting = asyncio.create_task(self._peers.connect(errand.peer))
        self.keep(errand.connecting)
        errand.connecting.add_done_callback(partial(self._connected, errand))

    def _connected(self, errand: Errand, task: asyncio.Task[Connection]) -> None:
        errand.connecting = None
        if task.cancelled():
            errand.end(PeerSilent("this client is closed"))  # unless it is over, and cancelled this itself
        elif (error := task.exception()) is None:
            connection = task.result()
            if errand.over:
                connection.abort()
                return
            self._use(errand, connection)
        elif isinstance(error, PeerError):
            errand.end(error)
        else:
            errand.end(
                PeerSilent("{host} cannot be reached: {reason}", host=str(errand.peer.where), reason="?")
            )
            raise error

    def leave(self, errand: Errand, connection: Connection | None) -> None:
        """An errand is over: whoever waits for its places has them now."""
        peer, inside = errand.peer, self._crowd
        crowd = peer.crowd
        if connection is not None and not connection.closed:
            connection.idle_since = peer.heard = errand.deadline.now()
            peer.idle.append(connection)
        if errand.places == INSIDE and not (inside.waiting or crowd.waiting):  # nobody waits, nearly always
            inside.taken -= 1
            crowd.taken -= 1
        else:
            self._make_way(errand, crowd)
        if not peer.idle:
            self._peers.forget_if_unused(peer)

    def _make_way(self, errand: Errand, crowd: Crowd[Errand]) -> None:
        if errand.places == INSIDE:
            follower = self._crowd.leave()
            if follower is not None:
                self._set_off(follower, follower.deadline.now())
        else:
            self._crowd.forget(errand)
        if errand.places:
            follower = crowd.leave()
            if follower is not None:
                self._next_place(follower)
        else:
            crowd.forget(errand)
