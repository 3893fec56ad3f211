"""Mint labels for deposits over HTTP: deposits that wait at the same time share a draw, and need no thread.

With the granularity "auto" all labels come within a second. With a fixed one, a deposit that would wait too long is
refused at once (T37: overload). Commands and imports draw from the same waiting room by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.archive.store.data_directory import label_generator, minting_row, no_name
from ibi.http.response import Refusal
from ibi.identifier.dates import TICKS, granularity_of
from ibi.minting.batcher import LONGEST_WAIT, STALL_SECONDS, Busy, LabelBatcher
from ibi.minting.waiting_room import WaitingRoom

if TYPE_CHECKING:
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.identifier.distributor import Batch
    from ibi.identifier.forms import IBIForms
    from ibi.minting.state_row import StateRow
    from ibi.runtime.settings import ArchiveSettings

_OF_ONE_DEPOSIT: Final = 2  # labels: of an item, and of its metadata as another item


class DepositLabels:
    """Mints the labels of one Archive in one event loop. `sharers`: how many processes serve the Archive."""

    def __init__(self, directory: DataDirectory, settings: ArchiveSettings, sharers: int = 1) -> None:
        self._directory = directory
        self._settings = settings
        self._sharers = sharers
        self._batcher: LabelBatcher | None = None
        self._row: StateRow | None = None

    async def draw(self, count: int) -> list[IBIForms]:
        """Mint `count` labels; return when their moments have come.

        Raises Refusal (503, with Retry-After) if that would take too long, MintingError, SetupError.
        """
        if not count:
            return []
        if self._batcher is None:
            self._batcher = self._new_batcher()
        try:
            batches = await self._batcher.draw(count)
        except Busy as busy:
            raise Refusal(503, busy.why, ("retry-after", str(busy.seconds))) from None
        return [self._batcher.generator.label(date) for batch in batches for date in batch]

    def close(self) -> None:
        """Close the connections to a database that nodes share; no draw is under way."""
        if self._row is not None:
            self._row.close()

    def _new_batcher(self) -> LabelBatcher:
        generator = label_generator(self._settings)
        if generator is None:
            raise no_name(self._directory.path)
        step = granularity_of(self._settings.granularity)
        directory = self._directory
        row = self._row = minting_row(directory.path)
        # With a row, there is no file that says which processes mint: nothing is to be entered and left.
        kind = _WaitingRoom if row is None else WaitingRoom
        entered = kind(directory.path, directory.machine, prefixes=generator.prefixes, state=row)
        # At 60 seconds, the labels of a single deposit take longer than LONGEST_WAIT.
        longest = max(LONGEST_WAIT, _OF_ONE_DEPOSIT * self._sharers * (step or 0) // TICKS)
        # How many nodes draw from a row is not known.
        stall = STALL_SECONDS if row is None else longest
        return LabelBatcher(entered, generator, step, self._sharers, longest, stall)


class _WaitingRoom(WaitingRoom):
    """A waiting room that is entered and left for each draw, so that a kill between draws is harmless."""

    def reserve(self, granularity: int, count: int) -> Batch:
        with self:
            return super().reserve(granularity, count)
