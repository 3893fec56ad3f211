"""How much of what readers can cause is written about one Archive in a day; pure (threat T42).

Any reader may ask a lying Archive for names without end, and each would be the first sight of an original.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_A_DAY: Final = 5_000
"""First sights of originals about one Archive in a day (UTC) and process; as many migrations, removals, and alerts.
Further ones are counted; sights and migrations are tried again when they are seen again (T42)."""

_LIMITED: Final = frozenset({"original", "migrated", "deleted", "alert"})
_DAY: Final = 86_400


class DailyLimit:
    """The limit of one process. Kinds have their own, so that no flood of sights hides an alert."""

    def __init__(self) -> None:
        self.full: defaultdict[str, set[str]] = defaultdict(set)
        """The Archives of which no more entries of a kind are written today."""
        self._day = -1
        self._written = Counter[tuple[str, str]]()
        self._left_out = Counter[tuple[str, str]]()

    def count(self, what: str, facts: Mapping[str, str | int], now: float) -> None:
        """Count an entry that is written at `now` (POSIX seconds)."""
        if what not in _LIMITED:
            return
        self._turn(now)
        for archive in _archives(facts):
            written = self._written[what, archive] = self._written[what, archive] + 1
            if written >= MOST_A_DAY:
                self.full[what].add(archive)

    def refuses(self, what: str, facts: Mapping[str, str | int], now: float) -> bool:
        """Whether an entry is left out; it is counted.

        One about several Archives is written while there is space for one of them: a liar that has used its own up
        hides nothing about others.
        """
        self._turn(now)
        archives = _archives(facts)
        if not self.full[what].issuperset(archives):
            return False
        self._left_out.update((what, archive) for archive in archives)
        return True

    def report(self, what: str, facts: Mapping[str, str | int]) -> list[dict[str, str | int]]:
        """The facts to be written of an entry that was left out: the 1st, 10th, 100th … of the day."""
        counts = {archive: self._left_out[what, archive] for archive in _archives(facts)}
        return [
            {"entries": what, "archive": archive, "count": count}
            for archive, count in counts.items()
            if str(count).rstrip("0") == "1"
        ]

    def _turn(self, now: float) -> None:
        if now // _DAY != self._day:
            self._day = int(now // _DAY)
            for counts in (self.full, self._written, self._left_out):
                counts.clear()


def _archives(facts: Mapping[str, str | int]) -> list[str]:
    """The Archives that an entry is about."""
    if "archive" in facts:  # as nearly all have
        return [str(facts["archive"])]
    texts = (str(facts[name]) for name in ("archives", "from", "to") if name in facts)
    return list(dict.fromkeys(word for text in texts for word in text.split()))
