"""IP addresses of the resolvers that an Archive has joined; their counts of readers are believed.

They may ask what has changed, and get shorter notices if they do. See T19: forged acknowledgments.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from zlib import crc32

from ibi.archive.membership.membership import resolver_address
from ibi.http.client.address_policy import system_lookup
from ibi.http.client_address import canonical_address
from ibi.protocol.messages import split_hostport
from ibi.runtime.generation_counter import GenerationCounter

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableSequence
    from pathlib import Path

    from ibi.http.client.address_policy import HostLookup

KNOWN_SECONDS: Final = 60.0
"""Seconds for which the addresses of a resolver are cached."""
LOOK_UP_SECONDS: Final = 2.0
"""Seconds that the look-up of a resolver's name may take; after them, its earlier addresses are used."""

REQUESTING_SECONDS: Final = 1200.0
"""Seconds after its last request for changes for which a resolver counts as one that requests them."""

_HTTP_PORT: Final = 80
_MOMENTS: Final = 4096


class RequestTimes:
    """When clients last requested changes, in a file of a folder that all processes share; it may be lost.

    Few addresses share a moment. Then a resolver may get the shorter notices although it does not request changes: it
    misses nothing that it could not miss anyway.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._moments: MutableSequence[int] | memoryview[int] = [0] * _MOMENTS
        if folder is not None:
            with suppress(OSError):
                folder.mkdir(mode=0o700, exist_ok=True)
                self._moments = GenerationCounter(folder / "requests", _MOMENTS).numbers

    def note(self, client: str) -> None:
        """Note that a client at this address requests changes."""
        self._moments[crc32(client.encode()) % _MOMENTS] = int(time.monotonic()) + 1

    def is_recent(self, client: str) -> bool:
        """Return whether a client at this address has requested changes lately."""
        moment = self._moments[crc32(client.encode()) % _MOMENTS] - 1
        return moment >= 0 and -1 <= time.monotonic() - moment < REQUESTING_SECONDS


class AddressesUnknown(Exception):
    """The addresses of the resolvers have to be looked up first, by `all`."""


class ResolverAddresses:
    """Looks up the addresses of resolvers, given by root URLs; `host_lookup` replaces that of this machine.

    `requests`: when clients last requested changes.
    """

    def __init__(
        self,
        roots: Iterable[str] = (),
        host_lookup: HostLookup | None = None,
        requests: RequestTimes | None = None,
    ) -> None:
        self.requests = requests or RequestTimes()
        self._hosts = [split_hostport(resolver_address(root)) for root in roots]
        self._host_lookup = host_lookup or system_lookup
        self._known: dict[str, frozenset[str]] = {}
        self._looked_at = -KNOWN_SECONDS
        self._one_at_a_time = asyncio.Lock()
        self._refreshing: asyncio.Future[frozenset[str]] | None = None

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

    async def request_changes(self) -> bool:
        """Return whether one of the resolvers has requested changes lately; no notice waits for a look-up again."""
        known = frozenset().union(*self._known.values()) or await self.all()
        if time.monotonic() - self._looked_at >= KNOWN_SECONDS:
            self._refreshing = asyncio.ensure_future(self.all())
        return any(map(self.requests.is_recent, known))

    async def _look_up(self, host: str, port: int) -> None:
        literal = canonical_address(host.strip("[]"))
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                found = [(literal, port)] if literal else await self._host_lookup(host, port)
        except OSError:  # TimeoutError is one
            return
        self._known[f"{host}:{port}"] = frozenset(filter(None, (canonical_address(ip) for ip, _ in found)))
