"""Acknowledgments: checked at once, counted a moment later, many in one transaction (SVC-20).

Each urlkey counts once, also where several processes serve one Archive. Whoever thanks gets the same reply in any
case, so nothing can be learned from it (threat T19).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.url_key import Thanked, UrlKeys

COUNT_AFTER: Final = 1.0
"""Seconds between hearing the first thanks and counting them."""

MOST_WAITING: Final = 100_000
"""Thanks that wait to be counted; more are lost, and the log says so."""

_log = logging.getLogger(__name__)


class Thanks:
    """Hears acknowledgments for one Archive. `now` gives POSIX seconds. Belongs to one event loop."""

    def __init__(self, catalogue: Catalogue, keys: UrlKeys, now: Callable[[], float]) -> None:
        self._catalogue = catalogue
        self._keys = keys
        self._now = now
        self._waiting: dict[str, Thanked] = {}
        self._counting: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def hear(self, url_key: str) -> None:
        """Take an acknowledgment if its urlkey is one of ours and still good."""
        thanked = self._keys.read(url_key)
        if thanked is None:
            return
        if len(self._waiting) >= MOST_WAITING:
            _log.warning("an acknowledgment was not counted: too many are waiting")
            return
        self._waiting[url_key] = thanked
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

    def _count(self, waiting: dict[str, Thanked]) -> None:
        try:
            with self._catalogue.writing() as writer:
                for url_key, thanked in waiting.items():
                    writer.thank(url_key, thanked.number, thanked.expires)
                writer.forget_thanked(int(self._now()))
        except SetupError as error:
            _log.warning("%d acknowledgments were not counted: %s", len(waiting), error)
