"""Limits the entries about one Archive in a day that readers, or a thief of its key, can cause; pure.

A reader may ask a lying Archive for names without end, and each would be the first sight of an original. See T42:
missing evidence.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_A_DAY: Final = 5_000
"""First sights of one Archive's originals in a day (UTC) and process; as many migrations, removals, alerts, held
moves. Further ones are only counted; a sight or a migration may be recorded when it is seen again (T42: missing
evidence)."""

_LIMITED: Final = frozenset({"original", "migrated", "deleted", "alert", "moved-address"})
_DAY: Final = 86_400


class DailyLimit:
    """The limits of one process; each kind of entry has one of its own, so that many sights hide no alert."""

    def __init__(self) -> None:
        self.full: defaultdict[str, set[str]] = defaultdict(set)
        """By kind, the Archives about which no more entries are written today."""
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
        """Whether an entry must be left out; if so, count it.

        An entry about several Archives is written unless all of them are at their limit, so that a lying
        Archive cannot hide entries about others by using up its own limit.
        """
        self._turn(now)
        archives = _archives(facts)
        if not self.full[what].issuperset(archives):
            return False
        self._left_out.update((what, archive) for archive in archives)
        return True

    def report(self, what: str, facts: Mapping[str, str | int]) -> list[dict[str, str | int]]:
        """Return the facts of the entries `left-out`: written for the 1st, 10th, 100th … of the day."""
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
    """Return the Archives that an entry is about."""
    if "archive" in facts:  # nearly always
        return [str(facts["archive"])]
    if "outcome" in facts:  # a held move: `ibi` is of the Archive's service
        return [str(facts["ibi"])]
    texts = (str(facts[name]) for name in ("archives", "from", "to") if name in facts)
    return list(dict.fromkeys(word for text in texts for word in text.split()))
