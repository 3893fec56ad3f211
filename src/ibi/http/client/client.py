"""GET from a checked address, within a deadline, with a limit of requests at once.

A redirect is an answer like any other, and not followed.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ibi.errors import PeerError, PeerSilent
from ibi.http.client.address_policy import system_lookup
from ibi.http.client.connection import StaleConnection
from ibi.http.client.pool import ClientLimits, ConnectionPool
from ibi.http.client.request import (
    AT_DESTINATION,
    BOTH,
    LOOP_NAME,
    NO_SLOT,
    Deadline,
    OutgoingRequest,
    Slots,
    more_of,
    too_many,
    written,
)
from ibi.runtime.tasks import cancel_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.http.client.address_policy import AddressPolicy, HostLookup
    from ibi.http.client.connection import Connection
    from ibi.http.client.request import Target
    from ibi.http.client.response import Reply


class Client:
    """Sends GET requests, many at once. Belongs to the event loop in which it is first used."""

    def __init__(
        self, policy: AddressPolicy, host_lookup: HostLookup | None = None, limits: ClientLimits | None = None
    ) -> None:
        self._limits = limits or ClientLimits()
        self._pool = ConnectionPool(policy, host_lookup or system_lookup, self._limits)
        self._find = self._pool.find
        self._slots = Slots(self._limits.in_all)
        self._tasks: set[asyncio.Task[object]] = set()
        self._closed = False

    async def get(
        self,
        address: str,
        target: str,
        deadline: float,
        headers: Sequence[tuple[str, str]] = (),
        *,
        cdn_loop: str = LOOP_NAME,
    ) -> Reply:
        """Ask `address` for `target` ("/path?query"); return the whole answer of any status.

        `address` is "host[:port]", or "https://host[:port]" where the certificate is to be checked.
        `deadline` is in seconds and covers everything: waiting for a slot, the name, the connection, the last
        byte. `cdn_loop` is the header CDN-Loop, by which a resolver recognises requests of another one. Raises
        ForbiddenAddress, PeerSilent (QueryNotSent if no slot was free), or PeerGarbled. If the other side has
        closed a connection that was kept from before, it is replaced once.
        """
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def done(outcome: Reply | PeerError) -> None:
            if answer.done():
                return
            if isinstance(outcome, PeerError):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

        outgoing = self.ask(address, target, Deadline(deadline), done, headers, cdn_loop=cdn_loop)
        try:
            return await answer
        finally:
            outgoing.give_up()

    def ask(
        self,
        address: str,
        target: Target,
        deadline: Deadline,
        done: Callable[[Reply | PeerError], None],
        headers: Sequence[tuple[str, str]] = (),
        *,
        cdn_loop: str = LOOP_NAME,
    ) -> OutgoingRequest:
        """As `get`, but without waiting: `done` is called once, later, with the answer or the error.

        All requests under one `deadline` end at the same time, and share one timer. Raises ForbiddenAddress
        if `address` is no address, QueryNotSent if the destination has no slot free and has been silent for a
        while, and PeerSilent if this client is closed; then `done` is not called.
        """
        if self._closed:
            raise PeerSilent("this client is closed")
        destination = self._find(address) or self._pool.at(address)
        near, all_slots, limits = destination.slots, self._slots, self._limits
        taken, now = near.taken, deadline.now()
        if not taken:
            destination.last_answer = now
        elif taken >= near.most and now - destination.last_answer > limits.silence:
            raise too_many()
        usual = not headers and cdn_loop is LOOP_NAME
        rest = destination.usual if usual else destination.head + more_of(headers, cdn_loop)
        message = written(target, rest, limits.target)
        slots = NO_SLOT
        # Nearly always both slots are free: taken here, they cost no call for each Archive of a thousand.
        if taken < near.most and all_slots.taken < all_slots.most:
            near.taken = taken + 1
            all_slots.taken += 1
            slots = BOTH
        outgoing = OutgoingRequest(self, destination, message, deadline, done, slots)
        deadline.add(outgoing)
        if slots:
            self._send(outgoing, now)
        elif near.acquire(outgoing):
            self._take_second_slot(outgoing)
        return outgoing

    def keep(self, task: asyncio.Task[object]) -> None:
        """Hold a reference to a task that uses this client and that nothing awaits; `close` ends it."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._closed:
            task.cancel()

    async def close(self) -> None:
        """End all requests in flight and every connection. Nothing may be sent afterwards."""
        self._closed = True
        waiting, lookups = self._pool.end()
        for outgoing in (*waiting, *self._slots.waiting):
            outgoing.end(PeerSilent("this client is closed"))
        await cancel_tasks(lookups)
        while self._tasks:  # one that ends may begin another
            ended = [*self._tasks]
            await cancel_tasks(ended)
            self._tasks.difference_update(ended)  # before their callbacks run, which may be after this loop
        await self._pool.close_connections()

    # A request takes a slot of its destination, one of the client and a connection, and gives them back.

    def _take_second_slot(self, outgoing: OutgoingRequest) -> None:
        outgoing.slots = AT_DESTINATION
        if self._slots.acquire(outgoing):
            outgoing.slots = BOTH
            self._send(outgoing, outgoing.deadline.now())

    def _send(self, outgoing: OutgoingRequest, now: float) -> None:
        """Send a request that has both slots, over an idle connection or a new one."""
        idle, oldest = outgoing.destination.idle, now - self._limits.kept
        while idle and idle[0].idle_since < oldest:
            idle.popleft().abort()
        if idle:
            self._send_over(outgoing, idle.pop())  # the freshest, so that unused ones grow old and are closed
        else:
            self.connect(outgoing)

    def _send_over(self, outgoing: OutgoingRequest, connection: Connection) -> None:
        outgoing.connection = connection
        try:
            connection.send(outgoing.message, outgoing)
        except StaleConnection:
            outgoing.replace_connection()

    def connect(self, outgoing: OutgoingRequest) -> None:
        """Make a connection for a request: none is idle, or the idle one had been closed."""
        outgoing.is_fresh = True
        outgoing.connecting = asyncio.create_task(self._pool.connect(outgoing.destination))
        self.keep(outgoing.connecting)
        outgoing.connecting.add_done_callback(partial(self._connected, outgoing))

    def _connected(self, outgoing: OutgoingRequest, task: asyncio.Task[Connection]) -> None:
        outgoing.connecting = None
        if task.cancelled():
            # Without effect if the request has ended: then it has cancelled this task itself.
            outgoing.end(PeerSilent("this client is closed"))
        elif (error := task.exception()) is None:
            connection = task.result()
            if outgoing.ended:
                connection.abort()
                return
            self._send_over(outgoing, connection)
        elif isinstance(error, PeerError):
            outgoing.end(error)
        else:
            host = str(outgoing.destination.where)
            outgoing.end(PeerSilent("{host} cannot be reached: {reason}", host=host, reason="?"))
            raise error

    def finish(self, outgoing: OutgoingRequest, connection: Connection | None) -> None:
        """Take back the slots and the connection of a request that has ended, for requests that wait."""
        destination, all_slots = outgoing.destination, self._slots
        near = destination.slots
        if connection is not None and not connection.closed:
            connection.idle_since = destination.last_answer = outgoing.deadline.now()
            destination.idle.append(connection)
        if outgoing.slots == BOTH and not (all_slots.waiting or near.waiting):  # nearly always
            all_slots.taken -= 1
            near.taken -= 1
        else:
            self._pass_slots_on(outgoing, near)
        if not destination.idle:
            self._pool.forget_if_unused(destination)

    def _pass_slots_on(self, outgoing: OutgoingRequest, near: Slots) -> None:
        if outgoing.slots == BOTH:
            follower = self._slots.release()
            if follower is not None:
                follower.slots = BOTH
                self._send(follower, follower.deadline.now())
        else:
            self._slots.remove(outgoing)
        if outgoing.slots:
            follower = near.release()
            if follower is not None:
                self._take_second_slot(follower)
        else:
            near.remove(outgoing)
