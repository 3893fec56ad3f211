"""Notices of change from Archives: the cached answers about the changed items are dropped (note 46: notices of change).

A notice is a hint: then the Archive is asked what has changed (`resolver.cache.change_requests`), even if the notice
came from elsewhere and nothing else is done for it. After a notice that was accepted, the Archive is asked first for
the items that the notice names.

A notice is accepted from the IP address that the Archive gave when it switched itself on (`archiveip`), and
from the IP addresses that its own address leads to.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from ibi.protocol.replies import ChangeReceived, RequestError
from ibi.resolver.members.confirmation import ip_addresses, plain_ip
from ibi.resolver.members.inclusion import REFUSED, MemberReply

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.http.client.address_policy import HostLookup
    from ibi.http.request import Request
    from ibi.protocol.messages import ChangeNotification
    from ibi.resolver.cache.change_requests import ChangesRequester
    from ibi.resolver.model.archive import Archive
    from ibi.resolver.resolve.learning import Knowledge

MOST_PER_SECOND: Final = 10
"""Notices of one Archive in a second whose names each process drops at once; for more, it requests all changes."""

ADDRESS_CACHE_SECONDS: Final = 60.0
"""How long the addresses of an Archive are cached."""

PASSED_ON_SECONDS: Final = 0.5
"""Seconds between two notices that were not accepted and are told to other nodes."""

_RECEIVED: Final = MemberReply(200, ChangeReceived().body())
_TOO_MANY: Final = MemberReply(429, RequestError("too many notices").body(), retry_after=1)


class TellNodes(Protocol):
    """Tells other nodes of a notice about an Archive's items: canonical names, or None for all; it blocks."""

    def __call__(self, service: str, names: Sequence[str] | None, *, accepted: bool) -> None:
        """Tell them; `accepted`: whether the notice is from where the Archive is."""


class NoticeReceiver:
    """Answers notices of change. `archives` returns the included Archives.

    `knowledge` learns from them who is asked first, and what was removed; `changes` asks the Archive. `tell` tells
    other nodes of a notice.
    """

    def __init__(
        self,
        archives: Callable[[], Sequence[Archive]],
        knowledge: Knowledge,
        host_lookup: HostLookup,
        changes: ChangesRequester,
        tell: TellNodes | None = None,
    ) -> None:
        self._changes = changes
        self._tell = tell
        self._passed_on_at: dict[str, float] = {}
        self._archives = archives
        self._knowledge = knowledge
        self._host_lookup = host_lookup
        self._accepted: dict[str, deque[float]] = {}
        self._addresses: dict[str, tuple[float, asyncio.Future[frozenset[str]]]] = {}

    async def answer(self, request: ChangeNotification, sender: Request) -> MemberReply:
        """Drop cached answers that a notice names, for all processes; or refuse it."""
        service = request.service_ibi.canonical
        archive = next((each for each in self._archives() if each.service_ibi.canonical == service), None)
        if archive is None:
            return REFUSED
        if not await self._is_from(archive, sender.client_address):
            self._changes.wake(archive)
            await self._tell_nodes(service, None, accepted=False)
            return REFUSED
        if self._too_many(service):
            return await self._catch_up(archive, request)
        if request.removed:
            self._knowledge.note_removed(request.removed, service)
        names = [name.canonical for name in request.changed]
        gone = {name.canonical for name in request.removed}
        self._knowledge.note_changed([name for name in names if name not in gone], service)
        await asyncio.to_thread(self._knowledge.cache.forget_changed, service, names or None)
        self._changes.refresh(archive)
        await self._tell_nodes(service, names or None, accepted=True)
        return _RECEIVED

    async def _catch_up(self, archive: Archive, request: ChangeNotification) -> MemberReply:
        """Request all changes of an Archive that sends many notices: one request serves all that come meanwhile.

        Each notice costs a transaction. When an Archive has a positive reply, its notice must already hold for the next
        reader: at a hand-over, it says that the original has moved.
        """
        await self._tell_nodes(request.service_ibi.canonical, None, accepted=False)
        # A reply to a request for changes does not say which items were removed; so the notice is to be sent again.
        return _RECEIVED if await self._changes.catch_up(archive) and not request.removed else _TOO_MANY

    async def _tell_nodes(self, service: str, names: Sequence[str] | None, *, accepted: bool) -> None:
        """Have the other nodes ask the Archive, too; for a notice that anyone may have sent, twice a second at most."""
        if self._tell is None:
            return
        now = asyncio.get_running_loop().time()
        if not accepted and now - self._passed_on_at.get(service, -inf) < PASSED_ON_SECONDS:
            return
        self._passed_on_at[service] = now
        await asyncio.to_thread(partial(self._tell, service, names, accepted=accepted))

    def _too_many(self, service: str) -> bool:
        now = asyncio.get_running_loop().time()
        moments = self._accepted.setdefault(service, deque(maxlen=MOST_PER_SECOND))
        if len(moments) == MOST_PER_SECOND and now - moments[0] < 1:
            return True
        moments.append(now)
        return False

    async def _is_from(self, archive: Archive, source: str) -> bool:
        """Whether a notice from this address is from the Archive."""
        # No key is needed: a false notice only makes this resolver ask an Archive again. A false removal is told
        # to no reader, only to that Archive if it comes back from a backup (decision 0039).
        sender = plain_ip(source)
        if not sender:
            return False
        return sender == plain_ip(archive.ip) or sender in await self._ips_of(archive.address)

    async def _ips_of(self, address: str) -> frozenset[str]:
        """Return the IP addresses of an Archive's address, cached."""
        # The cache holds futures: notices that come during a look-up wait for it and start no other. `shield`
        # keeps the look-up running for them if one of them is cancelled.
        now = asyncio.get_running_loop().time()
        cached = self._addresses.get(address)
        if cached is None or now - cached[0] > ADDRESS_CACHE_SECONDS:
            self._addresses = {
                each: entry
                for each, entry in self._addresses.items()
                if now - entry[0] <= ADDRESS_CACHE_SECONDS
            }
            look_up = asyncio.ensure_future(ip_addresses(address, self._host_lookup))
            cached = self._addresses[address] = now, look_up
        return await asyncio.shield(cached[1])
