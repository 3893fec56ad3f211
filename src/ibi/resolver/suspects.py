"""Alerts of two Originals of one item, each with the evidence: who showed the Original first, when, what each said.

The alert names the Archives that claimed it. What the log tells of the item besides (who was the first with it, where
it went, who says that it was removed) is looked for in the last part of the log, which takes a while: one at a time
does it, and what was found is remembered until something is written there.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi
from ibi.resolver.alerts import Kind
from ibi.resolver.chain import read_line
from ibi.resolver.log_pages import facts as entry_facts
from ibi.resolver.log_pages import page, tells_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ibi.resolver.chain import Entry

MOST_ALERTS: Final = 20
"""Alerts that are told with their evidence at a time."""
LOOKED_AT: Final = 16 << 20
"""Bytes of the end of the log in which evidence is looked for."""
MOST_OF_ITEM: Final = 50
"""Entries that are told of one item."""
MOST_REMEMBERED: Final = 4
"""Pages of alerts that are remembered."""

_TELLING: Final = frozenset({"original", "migrated", "deleted"})


class Suspects(NamedTuple):
    """One alert: the Archives that claim the Original, and what the log tells of the item, the earliest first."""

    alert: Entry
    claimants: tuple[str, ...]
    told: tuple[Entry, ...]

    @property
    def item(self) -> str:
        """The item, as it was asked for."""
        return str(self.alert.facts.get("ibi", ""))

    @property
    def first(self) -> Entry | None:
        """Who was seen first with the Original, as far as the log tells."""
        return next((entry for entry in self.told if entry.what == "original"), None)

    def said(self, archive: str) -> list[Entry]:
        """What is told of one of the Archives."""
        return [entry for entry in self.told if archive in map(str, entry.facts.values())]


def is_suspect(entry: Entry) -> bool:
    """Whether an entry is such an alert."""
    return entry.what == "alert" and entry.facts.get("kind") == Kind.SUSPECT_ORIGINALS


class Found(NamedTuple):
    """Some alerts, the latest first; `at` and `unread` as of a page of the log."""

    alerts: Sequence[Suspects]
    at: int
    unread: int


class Suspicions:
    """The alerts of one log. Not for an event loop."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._looking = Lock()
        self._mark: tuple[int, int, int] | None = None
        self._known: dict[tuple[int, int], Found] = {}

    def found(self, before: int = 0, at: int = 0) -> Found:
        """The last of them, of the entries that a page of the log would begin with. Raises OSError."""
        with self._looking:
            mark = _mark(self._log)  # before it is read: what is written meanwhile is found next time
            if mark != self._mark:
                self._mark, self._known = mark, {}
            found = self._known.get((before, at))
            if found is None:
                if len(self._known) >= MOST_REMEMBERED:
                    del self._known[next(iter(self._known))]
                found = self._known[before, at] = _found(self._log, before, at)
            return found


def _mark(log: Path) -> tuple[int, int, int] | None:
    try:
        now = log.stat()
    except FileNotFoundError:
        return None
    return now.st_ino, now.st_size, now.st_mtime_ns


def _found(log: Path, before: int, at: int) -> Found:
    found = page(log, is_suspect, before, MOST_ALERTS, at=at)
    items = {canonical for entry in found.entries if (canonical := _item(entry))}
    told = _told(log, items) if items else {}
    listed = []
    for alert in found.entries:
        claimants = tuple(str(alert.facts.get("archives", "")).split())
        listed.append(Suspects(alert, claimants, tuple(told.get(_item(alert), ()))))
    return Found(listed, found.at, found.unread)


def facts(each: Suspects) -> dict[str, Any]:
    """An alert as programs are told of it."""
    return {
        "ibi": each.item,
        "moment": each.alert.moment,
        "alert": entry_facts(each.alert),
        "first": entry_facts(each.first) if each.first else None,
        "claimants": [
            {"archive": archive, "told": [entry_facts(entry) for entry in each.said(archive)]}
            for archive in each.claimants
        ],
    }


def _told(log: Path, items: Iterable[str]) -> dict[str, list[Entry]]:
    """What the end of the log tells of items, by their canonical names."""
    told: dict[str, list[Entry]] = {item: [] for item in items}
    words = {item.lower().encode(): item for item in told}
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - LOOKED_AT))
        for line in file:
            low = line.lower()
            for word, item in words.items():  # before anything is computed: nearly no line is one of these
                if word in low and len(told[item]) < MOST_OF_ITEM:
                    entry = read_line(line)
                    if entry is not None and entry.what in _TELLING and tells_of(entry, item):
                        told[item].append(entry)
    return told


def _item(alert: Entry) -> str:
    """The canonical name of the item of an alert, "" where the log has no name there."""
    try:
        return parse_ibi(str(alert.facts.get("ibi", ""))).canonical
    except ParseError:
        return ""
