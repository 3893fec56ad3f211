"""The catalogue as the event loop reads it: an item of which very much is said is left to a thread.

To take such an item apart, and to make a page of it, takes up to seconds, in which nobody else would be answered.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from ibi.archive import rows
from ibi.archive.catalogue import Catalogue, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.holding import Holding

LARGE: Final = 1 << 16
"""Characters that are said of an item, and a few for each of its files, which the loop still reads."""


class TooLarge(Exception):
    """An item has to be read where nobody waits for it."""


class SparingCatalogue(Catalogue):
    """Reads the database of another one over a connection of its own; raises TooLarge for a large item."""

    def __init__(self, beside: Catalogue) -> None:
        self.engine = (
            beside.engine
        )  # whose version was looked at, and whose other connections must not be given up
        self._lock = threading.RLock()
        self._reader = None
        self._for_driver = beside._for_driver  # noqa: SLF001 - one of our own kind

    def close(self) -> None:
        """Give the connection back; to be done before the other one is closed, and with it the database."""
        with self._lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def _run(self, cursor: Any) -> Run:
        return _SparingRun(cursor, self._for_driver)


class _SparingRun(Run):
    __slots__ = ()

    def whole(self, row: Sequence[Any]) -> Holding:
        if rows.size_of(row) > LARGE:
            raise TooLarge
        return super().whole(row)
