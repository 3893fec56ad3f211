"""An Archive says what has changed there, and what is remembered of it is dropped (note 46).

Believed is only who speaks from where the Archive is: from the address of its server that it gave when it switched
itself on (`archiveip`), or from one that its own address leads to. Whoever lies can only have something asked again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from ibi.errors import ForbiddenAddress
from ibi.protocol.replies import ChangeReceived, RequestError
from ibi.resolver.membership import REFUSED, Outcome
from ibi.transport import HostPort

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ipaddress import IPv4Address, IPv6Address

    from ibi.protocol.notification import ChangeNotification
    from ibi.resolver.memory import Memory
    from ibi.resolver.registry import IncludedArchive
    from ibi.resolver.visitor import Visitor
    from ibi.transport.client import Names

MOST_A_SECOND: Final = 10
"""Notices of one Archive that are heard in a second, by each process."""

KNOWN_SECONDS: Final = 60.0
"""How long it is remembered which addresses an Archive has."""

LOOK_UP_SECONDS: Final = 2.0

_RECEIVED: Final = Outcome(200, ChangeReceived().body())
_TOO_MANY: Final = Outcome(429, RequestError("too many notices").body(), retry_after=1)


class Notices:
    """Hears what Archives say has changed. `archives` gives the included ones, `names` looks host names up."""

    def __init__(
        self, archives: Callable[[], Sequence[IncludedArchive]], memory: Memory, names: Names
    ) -> None:
        self._archives = archives
        self._memory = memory
        self._names = names
        self._heard: dict[str, deque[float]] = {}
        self._places: dict[str, tuple[float, asyncio.Future[frozenset[str]]]] = {}

    async def answer(self, request: ChangeNotification, visitor: Visitor) -> Outcome:
        """Forget what a notice names, for all processes; or say why not."""
        service = request.service_ibi.canonical
        archive = next((each for each in self._archives() if each.service_ibi.canonical == service), None)
        if archive is None or not await self._is_there(archive, visitor.source):
            return REFUSED
        if self._too_many(service):
            return _TOO_MANY
        names: list[str | None] = [name.canonical for name in request.changed]
        await asyncio.to_thread(self._memory.forget_changed, service, names or [None])
        return _RECEIVED

    def _too_many(self, service: str) -> bool:
        now = asyncio.get_running_loop().time()
        moments = self._heard.setdefault(service, deque(maxlen=MOST_A_SECOND))
        if len(moments) == MOST_A_SECOND and now - moments[0] < 1:
            return True
        moments.append(now)
        return False

    async def _is_there(self, archive: IncludedArchive, source: str) -> bool:
        """Whether an Archive may speak from this address."""
        with suppress(ValueError):
            if _plain(archive.ip) == _plain(source):
                return True
        return str(_plain(source)) in await self._addresses(archive.address)

    async def _addresses(self, address: str) -> frozenset[str]:
        """Where an Archive's address leads; several who ask at once share one look-up."""
        now = asyncio.get_running_loop().time()
        known = self._places.get(address)
        if known is None or now - known[0] > KNOWN_SECONDS:
            self._places = {
                each: place for each, place in self._places.items() if now - place[0] <= KNOWN_SECONDS
            }
            known = self._places[address] = now, asyncio.ensure_future(self._look_up(address))
        return await asyncio.shield(known[1])

    async def _look_up(self, address: str) -> frozenset[str]:
        try:
            where = HostPort.parse(address)
            if where.ip is not None:
                return frozenset({str(where.ip)})
            async with asyncio.timeout(LOOK_UP_SECONDS):
                found = await self._names(where.host, where.port)
            return frozenset(str(_plain(ip)) for ip, _ in found)
        except (ForbiddenAddress, OSError, ValueError):
            return frozenset()


def _plain(text: str) -> IPv4Address | IPv6Address:
    """An address, IPv4 also where it is written as IPv6. Raises ValueError for a text that is none."""
    ip = ip_address(text.partition("%")[0])
    return (ip.ipv4_mapped or ip) if ip.version == 6 else ip  # noqa: PLR2004 - IPv6
