"""Acknowledgments: checked at once, counted a moment later, many in one transaction (SVC-20).

Each counts once, and one key for no more readers than it may, also where several processes serve one Archive. Whoever
thanks gets the same reply in any case, so nothing can be learned from it (threat T19).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ibi.archive.ledgers import thanks as ledger
from ibi.archive.website.statistics import count_sent
from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.url_key import Thanks

COUNT_AFTER: Final = 1.0
"""Seconds between hearing the first thanks and counting them."""

MOST_WAITING: Final = 100_000
"""Thanks that wait to be counted; more are lost, and the log says so."""

_log = logging.getLogger(__name__)


class Counting:
    """Counts the acknowledgments of one Archive. `now` gives POSIX seconds. Belongs to one event loop."""

    def __init__(self, catalogue: Catalogue, now: Callable[[], float]) -> None:
        self._catalogue = catalogue
        self._now = now
        self._waiting: dict[str, Thanks] = {}
        self._counting: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def hear(self, thanks: Thanks) -> None:
        """Take an acknowledgment with a key of ours."""
        if thanks.once in self._waiting:
            return
        if len(self._waiting) >= MOST_WAITING:
            _log.warning("an acknowledgment was not counted: too many are waiting")
            return
        self._waiting[thanks.once] = thanks
        if self._counting is None:
            self._counting = asyncio.create_task(self._count_all())

    async def close(self) -> None:
        """Count what waits."""
        self._closing.set()
        if self._counting is not None:
            await self._counting

    async def _count_all(self) -> None:
        while self._waiting:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), COUNT_AFTER)
            waiting, self._waiting = self._waiting, {}
            await asyncio.to_thread(self._count, waiting)
        self._counting = None

    def _count(self, waiting: dict[str, Thanks]) -> None:
        now = self._now()
        try:
            with self._catalogue.writing() as writer:
                for thanks in waiting.values():
                    readers = ledger.count(writer.run, thanks)
                    if readers:
                        count_sent(writer.run, thanks._replace(readers=readers), now)
                ledger.forget(writer.run, int(now))
        except SetupError as error:
            _log.warning("%d acknowledgments were not counted: %s", len(waiting), error)
