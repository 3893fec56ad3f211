"""What the resolver does about its Archives by itself: it asks those again that have not confirmed (threat T18).

It also keeps when each was last heard, with one write a minute for all of them together, and looks after those that
were excluded: whoever is excluded and still confirms may not have asked for it (threat T17).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from ibi.errors import ForbiddenAddress, SetupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.identifier.forms import IBI
    from ibi.resolver.confirming import Confirming
    from ibi.resolver.registry import IncludedArchive, Registry
    from ibi.resolver.witness import Witness

ASK_EVERY: Final = 60.0
"""Seconds between two questions to an Archive that has not confirmed."""

WRITE_EVERY: Final = 60.0
"""Seconds between two notes of when Archives were last heard."""

LOOK_AFTER: Final = 3.0
"""Seconds after an exclusion until the Archive is asked whether it is still there."""

_AT_ONCE = 16
_MOST_LOOKS = 256

_log = logging.getLogger(__name__)


class Probation:
    """Included Archives that have not confirmed, excluded ones that still might, and when all were last heard.

    `now` gives POSIX seconds.
    """

    def __init__(
        self, registry: Registry, confirming: Confirming, now: Callable[[], float], witness: Witness
    ) -> None:
        self._registry = registry
        self._confirming = confirming
        self._now = now
        self._witness = witness
        self._heard: dict[str, float] = {}
        self._written: float | None = None
        self._looks: set[asyncio.Task[None]] = set()

    async def ask_again(self) -> None:
        """Ask every included Archive that has not confirmed, once; one process does it for all, every ASK_EVERY."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def ask(archive: IncludedArchive) -> None:
            async with places:
                await self._ask(archive)

        await asyncio.gather(*(ask(each) for each in self._registry.archives() if not each.confirmed))

    async def heard(self, service_ibi: IBI) -> None:
        """Note that an Archive was heard; written at most once a minute, for all together."""
        now = self._now()
        self._heard[service_ibi.canonical] = now
        if self._written is None:
            self._written = now
        elif now - self._written >= WRITE_EVERY:
            await self._write()

    def look_after(self, service_ibi: IBI, change: int) -> None:
        """Ask an Archive that was just excluded by this change whether it is still there, in a few seconds."""
        if len(self._looks) < _MOST_LOOKS:
            look = asyncio.create_task(self._look(service_ibi, change))
            self._looks.add(look)
            look.add_done_callback(self._looks.discard)

    async def close(self) -> None:
        """End what is under way, and keep when Archives were last heard."""
        looks = list(self._looks)
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)
        await self._write()

    async def _ask(self, archive: IncludedArchive) -> None:
        try:
            if not await self._confirming.confirms(archive.service_ibi, archive.address):
                return
            confirmed = await asyncio.to_thread(self._registry.confirm, archive)
        except (ForbiddenAddress, SetupError) as error:
            _log.warning("%s at %s could not be asked: %s", archive.service_ibi, archive.address, error)
            return
        if confirmed:
            ibi = str(archive.service_ibi)
            _log.info("confirmed after all: %s at %s", ibi, archive.address)
            self._witness.note("included", ibi=ibi, address=archive.address, confirmed=1)

    async def _look(self, service_ibi: IBI, change: int) -> None:
        await asyncio.sleep(LOOK_AFTER)
        try:
            known = await asyncio.to_thread(self._registry.entry, service_ibi)
        except SetupError:
            return
        if known is None or known.change != change or known.included is not None:
            return
        if known.confirmed_address and await self._confirming.still_confirms(
            service_ibi, known.confirmed_address
        ):
            _log.warning("%s was excluded, but still answers at %s", service_ibi, known.confirmed_address)
            ibi = str(service_ibi)
            write = self._witness.write
            await asyncio.to_thread(
                write, "excluded", ibi=ibi, address=known.confirmed_address, still_answers=1
            )

    async def _write(self) -> None:
        moments, self._heard, self._written = self._heard, {}, self._now()
        try:
            await asyncio.to_thread(self._registry.heard, moments)
        except SetupError as error:
            _log.warning("when Archives were last heard was not kept: %s", error)
