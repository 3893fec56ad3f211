"""IP addresses of the resolvers that an Archive has joined; their counts of readers are believed (T19).

They may ask what has changed, and get shorter notices if they do.
"""

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

REQUESTING_SECONDS: Final = 1200.0
"""Seconds after its last request for changes for which a resolver counts as one that requests them."""
MOST_REQUESTING: Final = 10_000
"""Addresses of clients of which it is known when they last requested changes."""

_HTTP_PORT: Final = 80


class AddressesUnknown(Exception):
    """The addresses of the resolvers have to be looked up first, by `all`."""


class ResolverAddresses:
    """Looks up the addresses of resolvers, given by root URLs; `names` replaces the system's look-up.

    `requests`: when clients last requested changes, by address; shared by all of a process that need it.
    """

    def __init__(
        self, roots: Iterable[str] = (), names: Names | None = None, requests: dict[str, float] | None = None
    ) -> None:
        self._requests = {} if requests is None else requests
        self._hosts = [split_hostport(resolver_address(root)) for root in roots]
        self._names = names or system_names
        self._known: dict[str, frozenset[str]] = {}
        self._looked_at = -KNOWN_SECONDS
        self._one_at_a_time = asyncio.Lock()

    async def all(self) -> frozenset[str]:
        """Return the present addresses of all resolvers, in canonical notation, as far as they are known."""
        async with self._one_at_a_time:
            if time.monotonic() - self._looked_at >= KNOWN_SECONDS:
                try:
                    await asyncio.gather(
                        *(self._look_up(host, port or _HTTP_PORT) for host, port in self._hosts)
                    )
                finally:
                    self._looked_at = time.monotonic()
        return frozenset().union(*self._known.values())

    @property
    def known(self) -> frozenset[str]:
        """The addresses as `all` has found them within a minute. Raises AddressesUnknown."""
        if time.monotonic() - self._looked_at >= KNOWN_SECONDS:
            raise AddressesUnknown
        return frozenset().union(*self._known.values())

    def note_request(self, client: str) -> None:
        """Note that a client at this address requests changes."""
        self._requests.pop(client, None)
        self._requests[client] = time.monotonic()
        if len(self._requests) > MOST_REQUESTING:
            del self._requests[next(iter(self._requests))]

    async def request_changes(self) -> bool:
        """Return whether one of the resolvers has requested changes lately."""
        since = time.monotonic() - REQUESTING_SECONDS
        return any(self._requests.get(each, since) > since for each in await self.all())

    async def _look_up(self, host: str, port: int) -> None:
        literal = canonical_address(host.strip("[]"))
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                found = [(literal, port)] if literal else await self._names(host, port)
        except OSError:  # TimeoutError is one
            return
        self._known[f"{host}:{port}"] = frozenset(filter(None, (canonical_address(ip) for ip, _ in found)))
