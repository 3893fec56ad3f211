"""Counts acknowledgments, many in one transaction (SVC-20: acknowledgments by URL key).

The keys have been checked before. Each acknowledgment counts once, and the acknowledgments of one key count no more
readers than its limit, also if several processes serve one Archive (T19: forged acknowledgments).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Final

from ibi.archive.pages.visits import count_linked_readers
from ibi.archive.service.messages import TRUSTED, AcknowledgmentRecord
from ibi.archive.store.tables import usage
from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.archive.membership.resolver_addresses import ResolverAddresses
    from ibi.archive.model.url_key import AcknowledgmentCount
    from ibi.archive.store.tables.catalogue import Catalogue

COUNT_AFTER: Final = 1.0
"""Seconds between the first pending acknowledgment and the transaction that counts it."""

MOST_WAITING: Final = 100_000
"""Pending acknowledgments; more are dropped, with a line in the log."""

_log = logging.getLogger(__name__)


class AcknowledgmentCounter:
    """Counts the acknowledgments of one Archive. `now` returns POSIX seconds. Belongs to one event loop.

    `joined`: the addresses of the resolvers that the Archive has joined.
    """

    def __init__(self, catalogue: Catalogue, now: Callable[[], float], joined: ResolverAddresses) -> None:
        self._catalogue = catalogue
        self._now = now
        self._joined = joined
        self.record = AcknowledgmentRecord(now)
        """The acknowledgments that do not count."""
        self._pending: dict[tuple[str, str | None], AcknowledgmentCount] = {}
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many acknowledgments are pending."""
        return len(self._pending)

    def add(self, acknowledgment: AcknowledgmentCount) -> None:
        """Add an acknowledgment of a trusted client to the pending ones, if it is not there yet."""
        self._add(acknowledgment, TRUSTED)

    def add_of(self, acknowledgment: AcknowledgmentCount, client: str | None) -> None:
        """Add an acknowledgment that counts more than one reader only if its client is a joined resolver."""
        self._add(acknowledgment, client)

    def _add(self, acknowledgment: AcknowledgmentCount, client: str | None) -> None:
        # Resolvers repeat an acknowledgment without a reply; the table would drop the repetition only later.
        if (acknowledgment.once, client) in self._pending:
            return
        if len(self._pending) >= MOST_WAITING:
            _log.warning("an acknowledgment was not counted: too many are waiting")
            return
        self._pending[acknowledgment.once, client] = acknowledgment
        self.record.is_busy = len(self._pending) >= MOST_WAITING
        if self._task is None:
            self._task = asyncio.create_task(self._run(), context=Context())  # it goes on for other requests

    async def close(self) -> None:
        """Count the pending acknowledgments."""
        self._closing.set()
        if self._task is not None:
            await self._task
        self.record.log()

    async def _run(self) -> None:
        """Count the pending acknowledgments, in batches, until none is pending."""
        while self._pending:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), COUNT_AFTER)
            pending, self._pending = self._pending, {}
            self.record.is_busy = False
            try:
                trusted = {TRUSTED, *await self._joined.all()}
                batch = [each if of in trusted else each.of_stranger for (_, of), each in pending.items()]
                # In a thread, because the transaction waits for the disk and for other writers.
                used_up = await asyncio.to_thread(self._count, batch)
                for (_, client), given, counted in zip(pending, pending.values(), batch, strict=True):
                    # A key is used up when it has counted the readers that it may: as many as it was made for, or
                    # one if the client is not trusted. So a client that is not trusted uses it up, too, if it
                    # reports several readers, of whom one is counted.
                    if counted.key in used_up or (counted is not given and given.readers > 1):
                        self.record.use_up(counted, client)
            except Exception:  # noqa: BLE001 - a fault of ours must not end the counting of later ones
                _log.exception("%d acknowledgments were not counted", len(pending))
        self._task = None

    def _count(self, batch: Sequence[AcknowledgmentCount]) -> set[str]:
        """Count a batch in one transaction; returns the keys that have reached their limit of readers."""
        now = self._now()
        used_up: set[str] = set()
        try:
            with self._catalogue.writing() as writer:
                for acknowledgment in batch:
                    readers = usage.count_acknowledgments(writer.run, acknowledgment, int(now))
                    if readers < acknowledgment.readers and usage.is_used_up(writer.run, acknowledgment):
                        used_up.add(acknowledgment.key)
                    if readers:
                        count_linked_readers(writer.run, acknowledgment._replace(readers=readers), now)
                # An expired key is refused before it comes here, and none is sent again after ten minutes.
                usage.forget_acknowledgments(writer.run, int(now))
        except SetupError as error:
            _log.warning("%d acknowledgments were not counted: %s", len(batch), error)
        return used_up
