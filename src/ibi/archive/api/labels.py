"""Labels for deposits over HTTP: deposits that wait at the same time share one draw, and hold no thread.

With the granularity "auto" all of them come within a second, however many wait; with a fixed one, what would wait too
long is refused at once (threat T37). Commands and imports draw by themselves, from the same waiting room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.archive.store.data_directory import label_generator, no_name
from ibi.http.response import Refusal
from ibi.identifier.dates import TICKS, granularity_of
from ibi.minting.batcher import LONGEST_WAIT, Busy, LabelBatcher
from ibi.minting.waiting_room import WaitingRoom

if TYPE_CHECKING:
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.identifier.distributor import Batch
    from ibi.identifier.forms import IBIForms
    from ibi.runtime.settings import ArchiveSettings

_OF_ONE_DEPOSIT: Final = 2  # an item, and its metadata as an item of their own


class DepositLabels:
    """The labels of one Archive, in one event loop. `sharers`: the processes that serve it."""

    def __init__(self, directory: DataDirectory, settings: ArchiveSettings, sharers: int = 1) -> None:
        self._directory = directory
        self._settings = settings
        self._sharers = sharers
        self._batcher: LabelBatcher | None = None

    async def draw(self, count: int) -> list[IBIForms]:
        """Mint so many labels; returns when their moments have come.

        Raises Refusal (503, with Retry-After) where that would take too long, MintingError, SetupError.
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

    def _new_batcher(self) -> LabelBatcher:
        generator = label_generator(self._settings)
        if generator is None:
            raise no_name(self._directory.path)
        step = granularity_of(self._settings.granularity)
        directory = self._directory
        entered = _WaitingRoom(directory.path, directory.machine, prefixes=generator.prefixes)
        # At 60 seconds a deposit takes that long: no finer label may be given.
        longest = max(LONGEST_WAIT, _OF_ONE_DEPOSIT * self._sharers * (step or 0) // TICKS)
        return LabelBatcher(entered, generator, step, self._sharers, longest)


class _WaitingRoom(WaitingRoom):
    """A waiting room that is entered and left for each draw, so that no kill between two draws touches its state."""

    def reserve(self, granularity: int, count: int) -> Batch:
        with self:
            return super().reserve(granularity, count)
