"""Count attempts that failed, such as wrong keys, in the shared store: by all nodes together (T16: guessed keys).

The same as `http.limits.window`, which counts for the processes of one node.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from sqlalchemy import text

from ibi.errors import SetupError
from ibi.http.limits.window import SHORT_WAIT, name_digest
from ibi.runtime.database import transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.http.limits.window import FailureLimit
    from ibi.runtime.shared.store import SharedStore

MOST_FAILURES: Final = 400_000
"""Failures that are counted; beyond this, the oldest are dropped."""
LONGEST_WINDOW: Final = 3_600.0
"""Seconds of the longest limit; failures before it count no more."""

_TIMES: Final = text(
    "SELECT moment FROM wrong_key WHERE name = :name AND moment > :after AND moment <= :now"
    " ORDER BY moment DESC LIMIT :most"
)
_ADD: Final = text("INSERT INTO wrong_key (name, moment) VALUES (:name, :now) RETURNING number")
_FORGET: Final = text("DELETE FROM wrong_key WHERE moment <= :before OR number <= :last")

_log = logging.getLogger(__name__)


class SharedFailures:
    """The failures of names in a store. `now` gives POSIX seconds."""

    is_remote = True

    def __init__(self, store: SharedStore, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now

    def wait(self, limit: FailureLimit, name: str, in_flight: int = 0) -> float:
        """Return how many seconds this name has to wait before its next attempt, as `FailureWindows.wait` does."""
        now = self._now()
        values = {
            "name": name_digest(limit, name),
            "after": now - limit.seconds,
            "now": now,
            "most": limit.most,
        }
        try:
            self._store.check_reached()
            with transaction(self._store.engine) as run:
                times = [row[0] for row in run.execute(_TIMES, values)][::-1]
        except SetupError:  # nothing is registered or included then, either
            return 0.0
        too_many = len(times) + in_flight - limit.most
        if too_many < 0:
            return 0.0
        if too_many >= len(times):
            return SHORT_WAIT
        return max(0.0, float(times[too_many]) + limit.seconds - now)

    def record_failure(self, limit: FailureLimit, name: str) -> None:
        """Count a failure."""
        now = self._now()
        try:
            self._store.check_reached()
            with transaction(self._store.engine) as run:
                number = run.execute(_ADD, {"name": name_digest(limit, name), "now": now}).scalar_one()
                run.execute(_FORGET, {"before": now - LONGEST_WINDOW, "last": number - MOST_FAILURES})
        except SetupError as error:
            _log.error("a failed attempt was not counted: %s", error)

    def close(self) -> None:
        """Do nothing: the store is closed by its owner."""
