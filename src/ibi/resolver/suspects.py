"""Alerts of two Originals of one item, each with the evidence: who showed the Original first, when, what each said.

The alert names the Archives that claimed it. What the log tells of the item besides (who was the first with it, where
it went, who says that it was removed) is looked for in the last part of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi
from ibi.resolver.alerts import Kind
from ibi.resolver.chain import read_line
from ibi.resolver.log_pages import facts as entry_facts
from ibi.resolver.log_pages import page, tells_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ibi.resolver.chain import Entry

MOST_ALERTS: Final = 20
"""Alerts that are told with their evidence at a time."""
LOOKED_AT: Final = 16 << 20
"""Bytes of the end of the log in which evidence is looked for."""
MOST_OF_ITEM: Final = 50
"""Entries that are told of one item."""

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


def suspects(log: Path, before: int = 0) -> tuple[list[Suspects], int]:
    """The last alerts, the latest first, and the number before which there may be more (0: no more). Raises OSError."""
    found = page(log, is_suspect, before, MOST_ALERTS)
    items = {canonical for entry in found.entries if (canonical := _item(entry))}
    told = _told(log, items) if items else {}
    listed = []
    for alert in found.entries:
        claimants = tuple(str(alert.facts.get("archives", "")).split())
        listed.append(Suspects(alert, claimants, tuple(told.get(_item(alert), ()))))
    return listed, found.before


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
