"""IP addresses of the resolvers that an Archive has joined; their counts of readers are believed (T19)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from ibi.archive.membership.membership import resolver_address
from ibi.http.client.address import system_names
from ibi.http.client_address import canonical_address
from ibi.protocol.messages import split_hostport

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.http.client.address import Names

KNOWN_SECONDS: Final = 60.0
"""Seconds for which the addresses of a resolver are cached."""
LOOK_UP_SECONDS: Final = 2.0
"""Seconds that the look-up of a resolver's name may take; after them, its earlier addresses are used."""

_HTTP_PORT: Final = 80


class ResolverAddresses:
    """Looks up the addresses of resolvers, given by root URLs; `names` replaces the system's look-up."""

    def __init__(self, roots: Iterable[str] = (), names: Names | None = None) -> None:
        self._hosts = [split_hostport(resolver_address(root)) for root in roots]
        self._names = names or system_names
        self._known: dict[str, frozenset[str]] = {}
        self._looked_at = -KNOWN_SECONDS

    async def all(self) -> frozenset[str]:
        """Return the present addresses of all resolvers, in canonical notation, as far as they are known."""
        if time.monotonic() - self._looked_at >= KNOWN_SECONDS:
            self._looked_at = time.monotonic()
            await asyncio.gather(*(self._look_up(host, port or _HTTP_PORT) for host, port in self._hosts))
        return frozenset().union(*self._known.values())

    async def _look_up(self, host: str, port: int) -> None:
        literal = canonical_address(host.strip("[]"))
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                found = [(literal, port)] if literal else await self._names(host, port)
        except OSError:  # TimeoutError is one
            return
        self._known[f"{host}:{port}"] = frozenset(filter(None, (canonical_address(ip) for ip, _ in found)))
