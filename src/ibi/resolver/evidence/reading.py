"""Reads the evidence by pages, the latest entry first; finds alerts of two originals; rebuilds the hints.

An alert of two Originals of one item names the Archives that claim it. The log has more about the item: which Archive
showed it first, to which one it moved, and which one reported it as removed (T04: a rogue first answer; T05: false
claims of originals).
"""

from __future__ import annotations

from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.errors import ParseError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.resolver.evidence.chain import read_line
from ibi.resolver.evidence.kept import log_at
from ibi.resolver.model.alert import AlertKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from ibi.resolver.cache.hints import HintCache
    from ibi.resolver.evidence.chain import Entry


MOST_ENTRIES: Final = 200
"""Entries on one page of the log."""
SLICE_BYTES: Final = 1 << 20
"""Bytes of the log that are read for one page."""
MOST_ALERTS: Final = 20
"""Alerts on one page, with their evidence."""
ALERTS_BYTES: Final = 16 << 20
"""Bytes at the end of the log in which the evidence for alerts is searched."""
MOST_OF_ITEM: Final = 50
"""Entries that are read about one item."""
MOST_CACHED: Final = 4
"""Pages of alerts that are cached."""

_ABOUT_ORIGINALS: Final = frozenset({"original", "migrated", "deleted"})
_SETTLED: Final = "settled"
_OF_ITEM: Final = _ABOUT_ORIGINALS | {_SETTLED}
_BATCH: Final = 4_000  # entries that are put into the hints before waiting for the disk


class LogSlice(NamedTuple):
    """Some entries, the latest first.

    `at`: how many bytes of the log (in a shared store: lines) come before these, for reading the next page; 0 where
    there is none.
    `unread`: how many lines were skipped because they are damaged.
    """

    entries: list[Entry]
    at: int
    unread: int = 0


def read_slice(
    log: Path,
    wanted: Callable[[Entry], bool],
    before: int = 0,
    most: int = MOST_ENTRIES,
    slice_bytes: int = SLICE_BYTES,
    at: int = 0,
) -> LogSlice:
    """Read the last wanted entries, before the position `at` or with numbers below `before`; 0: of all.

    Raises OSError, SetupError.
    """
    entries: list[Entry] = []
    begin = unread = 0
    # A mebibyte at most is read, since the log may have millions of entries of which few are wanted.
    for begin, line in log_at(log).backwards(before, at, slice_bytes):  # noqa: B007 - the last one is returned
        entry = read_line(line)
        if entry is None:
            unread += 1
        elif wanted(entry):
            entries.append(entry)
            if len(entries) == most:
                break
    return LogSlice(entries, begin, unread)


def entry_filter(what: str, ibi: str) -> Callable[[Entry], bool]:
    """Make a filter for entries of one kind, and about one item or Archive; "" for all. Raises ParseError."""
    canonical = parse_ibi(ibi).canonical if ibi else ""
    return lambda entry: what in {"", entry.what} and (not canonical or mentions(entry, canonical))


def mentions(entry: Entry, canonical: str) -> bool:
    """Whether one of the facts names this item or Archive, in any spelling."""
    texts = (value.split() for value in entry.facts.values() if isinstance(value, str))
    return any(canonical_ibi(word) == canonical for word in chain.from_iterable(texts) if "/" in word)


def entry_facts(entry: Entry) -> dict[str, Any]:
    """Return an entry for JSON, with the same names as in the file."""
    return {**entry._asdict(), "facts": dict(entry.facts)}


def canonical_ibi(text: str) -> str:
    """Return the canonical spelling of an IBI in a fact, "" for another text."""
    try:
        return parse_ibi(text).canonical
    except ParseError:
        return ""


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
        """The entry of the first sight of the Original, None if the log lacks it."""
        return next((entry for entry in self.history if entry.what == "original"), None)

    @property
    def settled(self) -> Entry | None:
        """The entry by which an administrator settled it, None while it is open."""
        return next(
            (each for each in self.history if each.what == _SETTLED and each.number > self.alert.number), None
        )

    def about(self, archive: str) -> list[Entry]:
        """Return the entries that name one of the Archives."""
        return [
            entry
            for entry in self.history
            if entry.what != _SETTLED and archive in map(str, entry.facts.values())
        ]


class AlertsSlice(NamedTuple):
    """Some alerts, the latest first; `at` and `unread` as in `LogSlice`."""

    alerts: Sequence[OriginalsAlert]
    at: int
    unread: int


class OriginalsAlerts:
    """The alerts of two Originals in one log. Blocks, so do not use it in an event loop."""

    def __init__(self, log: Path) -> None:
        self._log = log
        # To read 16 MiB takes a while: one thread does it at a time; cached until the log grows.
        self._reading = Lock()
        self._log_version: object = None
        self._cache: dict[tuple[int, int], AlertsSlice] = {}

    def open_of(self, canonical: str) -> list[OriginalsAlert]:
        """Return those of the last alerts that are about an item, and not settled. Raises OSError."""
        return [
            each
            for each in self.read().alerts
            if each.settled is None and canonical_ibi(each.item) == canonical
        ]

    def read(self, before: int = 0, at: int = 0) -> AlertsSlice:
        """Read the last alerts; `before` and `at` as in `read_slice`. Raises OSError."""
        with self._reading:
            version = log_at(
                self._log
            ).version()  # before reading: entries written meanwhile are found next time
            if version != self._log_version:
                self._log_version, self._cache = version, {}
            alerts = self._cache.get((before, at))
            if alerts is None:
                if len(self._cache) >= MOST_CACHED:
                    del self._cache[next(iter(self._cache))]
                alerts = self._cache[before, at] = _read_alerts(self._log, before, at)
            return alerts


def alert_facts(each: OriginalsAlert) -> dict[str, Any]:
    """Return an alert for JSON."""
    return {
        "ibi": each.item,
        "moment": each.alert.moment,
        "alert": entry_facts(each.alert),
        "first": entry_facts(each.first) if each.first else None,
        "settled": entry_facts(each.settled) if each.settled else None,
        "claimants": [
            {"archive": archive, "told": [entry_facts(entry) for entry in each.about(archive)]}
            for archive in each.claimants
        ],
    }


def _read_alerts(log: Path, before: int, at: int) -> AlertsSlice:
    def wanted(entry: Entry) -> bool:
        return entry.what == "alert" and entry.facts.get("kind") == AlertKind.SUSPECT_ORIGINALS

    entries, next_at, unread = read_slice(log, wanted, before, MOST_ALERTS, at=at)
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
    for line in log_at(log).tail(ALERTS_BYTES):
        lower = line.lower()
        # Compared as bytes first, as few lines are about these items, and parsing costs far more.
        for word, item in words.items():
            # A settlement counts beyond the limit, too, or its alert would stay open.
            if word in lower and (len(histories[item]) < MOST_OF_ITEM or b'"settled"' in line):
                entry = read_line(line)
                if entry is not None and entry.what in _OF_ITEM and mentions(entry, item):
                    histories[item].append(entry)
    return histories


def rebuild_hints(hints: HintCache, entries: Iterable[Entry]) -> int:
    """Fill the hints with the holders of originals; return how many entries named one.

    Holders that the hints have already stay, unless an entry tells that the original moved away from them.
    """
    # The hints are a cache, and may be lost. But which Archive was the first with an original must not be lost: else
    # an Archive that claims it later would be believed (T04: a rogue first answer).
    count = 0
    with hints.filling():
        for number, entry in enumerate(entries, 1):
            count += put_holder(hints, entry)
            if number % _BATCH == 0:
                hints.flush()
    return count


def moved_names(entry: Entry) -> Iterable[str]:
    """Return the canonical names of the item that an entry tells to have moved; () for any other entry."""
    try:
        return IBIForms.parse(str(entry.facts.get("ibi"))).canonicals if entry.what == "migrated" else ()
    except ParseError:
        return ()


def put_holder(hints: HintCache, entry: Entry) -> bool:
    """Put what an entry tells about the holder of an original into the hints; return whether it names one."""
    if entry.what == "alert" and entry.facts.get("kind") == AlertKind.SUSPECT_ORIGINALS:
        disputed = entry.facts.get("disputed")  # older entries lack it
        known = [canonical_ibi(str(entry.facts.get("ibi", "")))]
        hints.dispute(known if disputed is None else str(disputed).split())
    if entry.what not in _ABOUT_ORIGINALS:
        return False
    moved, removed = entry.what == "migrated", entry.what == "deleted"
    try:
        item = IBIForms.parse(str(entry.facts.get("ibi")))
        holder = parse_ibi(str(entry.facts.get("to" if moved else "archive"))).canonical
    except ParseError:
        return False  # in the chain, but not written by this program
    if removed:
        hints.say_removed(item.canonicals, holder)
        if hints.of(item.main.canonical).original == holder:
            hints.removed(item.canonicals, holder)
    elif moved:
        # Where the hints know a later holder, an earlier move must not undo that.
        own = {None, canonical_ibi(str(entry.facts.get("from")))}
        hints.moved([name for name in item.canonicals if hints.first_holder(name) in own], holder)
    else:
        hints.remember(item.canonicals, original=holder)
    return not removed
