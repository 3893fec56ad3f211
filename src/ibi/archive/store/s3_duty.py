"""The periodic task of an Archive whose files are in an S3 store: places files, and removes what no item lists.

A deposit that broke off leaves both: listed files that are not in their places yet, and objects that no item lists.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.archive.store.s3_files import S3Files
from ibi.runtime.tasks import PeriodicTask

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.store.file_store import FileStore
    from ibi.archive.store.tables.catalogue import Catalogue

EVERY: Final = 60.0
"""Seconds between two looks for listed files that are not in their places."""

_REMOVE_EVERY: Final = 6 * 3600.0
_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class ObjectDuty:
    """Places listed files, and removes old objects that no item lists. `now` returns POSIX seconds."""

    catalogue: Catalogue
    file_store: S3Files
    now: Callable[[], float]
    _removed_at: float = 0.0

    async def portion(self) -> None:
        """Place what waits, and a few times a day remove what is not listed. Raises SetupError."""
        await asyncio.to_thread(self.file_store.place_files, self.catalogue)
        if self.now() >= self._removed_at + _REMOVE_EVERY:
            count = await asyncio.to_thread(self.file_store.remove_old_unlisted, self.catalogue, self.now())
            self._removed_at = self.now()
            if count:
                _log.info("%d objects that no item lists were removed", count)


def object_task(catalogue: Catalogue, file_store: FileStore, now: Callable[[], float]) -> PeriodicTask:
    """Return the periodic task."""
    assert isinstance(file_store, S3Files)  # noqa: S101 - only an Archive with such a store has the task
    return PeriodicTask("objects", EVERY, ObjectDuty(catalogue, file_store, now).portion)
