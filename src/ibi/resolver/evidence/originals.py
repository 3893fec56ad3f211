"""What the evidence shows about originals: alerts of two Originals of one item, and who was seen with each first.

An alert names the Archives that claim the Original. The log has more about the item: which Archive was the first with
it, where it went, which Archive reported it as removed (threats T04 and T05).
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.errors import ParseError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.resolver.evidence.chain import read_line
from ibi.resolver.evidence.pages import canonical_ibi, entry_facts, mentions, read_slice
from ibi.resolver.model.alert import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ibi.resolver.cache.hints import HintCache
    from ibi.resolver.evidence.chain import Entry


MOST_ALERTS: Final = 20
"""Alerts that are read with their evidence at a time."""
ALERTS_BYTES: Final = 16 << 20
"""Bytes of the end of the log in which evidence is looked for."""
MOST_OF_ITEM: Final = 50
"""Entries that are read about one item."""
MOST_CACHED: Final = 4
"""Pages of alerts that are cached."""

_ABOUT_ORIGINALS: Final = frozenset({"original", "migrated", "deleted"})
_BATCH: Final = 5_000  # holders that are given to an index before it has written them


class OriginalsAlert(NamedTuple):
    """One alert: the Archives that claim the Original, and the entries about the item, the earliest first."""

    alert: Entry
    claimants: tuple[str, ...]
    history: tuple[Entry, ...]

    @property
    def item(self) -> str:
        """The item, as it was asked for."""
        return str(self.alert.facts.get("ibi", ""))

    @property
    def first(self) -> Entry | None:
        """The first sight of the Original, as far as the log has it."""
        return next((entry for entry in self.history if entry.what == "original"), None)

    def about(self, archive: str) -> list[Entry]:
        """Return the entries that name one of the Archives."""
        return [entry for entry in self.history if archive in map(str, entry.facts.values())]


class AlertsSlice(NamedTuple):
    """Some alerts, the latest first; `at` and `unread` as of a slice of the log."""

    alerts: Sequence[OriginalsAlert]
    at: int
    unread: int


class OriginalsAlerts:
    """The alerts of two Originals in one log. Not for an event loop."""

    def __init__(self, log: Path) -> None:
        self._log = log
        # To read 16 MiB takes a while: one thread at a time does it, and the result is used until the log has grown.
        self._reading = Lock()
        self._log_version: tuple[int, int, int] | None = None
        self._cache: dict[tuple[int, int], AlertsSlice] = {}

    def read(self, before: int = 0, at: int = 0) -> AlertsSlice:
        """Read the last alerts, starting where a slice of the log would start. Raises OSError."""
        with self._reading:
            version = _version(self._log)  # before it is read: what is written meanwhile is found next time
            if version != self._log_version:
                self._log_version, self._cache = version, {}
            alerts = self._cache.get((before, at))
            if alerts is None:
                if len(self._cache) >= MOST_CACHED:
                    del self._cache[next(iter(self._cache))]
                alerts = self._cache[before, at] = _read_alerts(self._log, before, at)
            return alerts


def alert_facts(each: OriginalsAlert) -> dict[str, Any]:
    """Return an alert as JSON has it."""
    return {
        "ibi": each.item,
        "moment": each.alert.moment,
        "alert": entry_facts(each.alert),
        "first": entry_facts(each.first) if each.first else None,
        "claimants": [
            {"archive": archive, "told": [entry_facts(entry) for entry in each.about(archive)]}
            for archive in each.claimants
        ],
    }


def is_originals_alert(entry: Entry) -> bool:
    """Whether an entry is an alert of two Originals."""
    return entry.what == "alert" and entry.facts.get("kind") == Kind.SUSPECT_ORIGINALS


def _version(log: Path) -> tuple[int, int, int] | None:
    try:
        now = log.stat()
    except FileNotFoundError:
        return None
    return now.st_ino, now.st_size, now.st_mtime_ns


def _read_alerts(log: Path, before: int, at: int) -> AlertsSlice:
    entries, next_at, unread = read_slice(log, is_originals_alert, before, MOST_ALERTS, at=at)
    items = {canonical_ibi(str(entry.facts.get("ibi", ""))) for entry in entries} - {""}
    histories = _histories(log, items) if items else {}
    alerts = []
    for alert in entries:
        claimants = tuple(str(alert.facts.get("archives", "")).split())
        item = canonical_ibi(str(alert.facts.get("ibi", "")))
        alerts.append(OriginalsAlert(alert, claimants, tuple(histories.get(item, ()))))
    return AlertsSlice(alerts, next_at, unread)


def _histories(log: Path, items: Iterable[str]) -> dict[str, list[Entry]]:
    """Read the entries about items at the end of the log, by their canonical names."""
    histories: dict[str, list[Entry]] = {item: [] for item in items}
    words = {item.lower().encode(): item for item in histories}
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - ALERTS_BYTES))
        for line in file:
            lower = line.lower()
            # Compared as bytes first: hardly a line is about one of these items, and a hash and a parser cost far more.
            for word, item in words.items():
                if word in lower and len(histories[item]) < MOST_OF_ITEM:
                    entry = read_line(line)
                    if entry is not None and entry.what in _ABOUT_ORIGINALS and mentions(entry, item):
                        histories[item].append(entry)
    return histories


def rebuild_hints(index: HintCache, entries: Iterable[Entry]) -> int:
    """Fill an index, best an empty one, with the holders of originals; return how many entries named one."""
    # The hints are a cache, and may be lost with their disk. Who was seen first with an original must not be: an
    # Archive that claims it later would be believed (threat T04).
    count = 0
    for entry in entries:
        if entry.what not in {"original", "migrated"}:
            continue
        moved = entry.what == "migrated"
        try:
            item = IBIForms.parse(str(entry.facts.get("ibi")))
            holder = parse_ibi(str(entry.facts.get("to" if moved else "archive")))
        except ParseError:
            continue  # chained correctly, but not written by us
        count += 1
        if moved:
            index.moved(item.canonicals, holder.canonical)
        else:
            index.remember(item.canonicals, original=holder.canonical)
        if count % _BATCH == 0:
            index.settle()
    index.settle()
    return count
