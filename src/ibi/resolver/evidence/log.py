"""The evidence: what happened to a resolver's registry and to originals, in a hash chain (T42: missing evidence).

| what | facts |
|---|---|
| registered, unregistered, approved, rotated | `ibi` of the Archive's service; `by`: command, form, mail, proof, |
| | mirror, or account or token and its name |
| included | `ibi`; `address` of the Archive; `confirmed`: 1 or 0; `source`: the address that asked for it |
| excluded | `ibi`; `source`: as above; `end`: a moment or never; with `address` and `still_answers` 1, if the Archive |
| | still confirmed at its address after it had been excluded |
| moved-address | `ibi`; `before`, `address`: the old and the new one; `outcome`: done or held; `source`; `confirmed`; |
| | `allowed`: 1 if an administrator allowed it; `old_answers`: 1 if the old one still confirms |
| original | `ibi`: the forms of an item; `archive` that showed its Original, seen for the first time |
| migrated | `ibi`: the forms of an item; the Original went `from` one Archive `to` another |
| move-allowed | `ibi` of the Archive's service, which may move once; `address` where it wants to; `by` |
| setting | `name` of a setting that was changed; `before`, `after`; `by` |
| deleted | `ibi`: the forms of an item; `archive` that says that it was removed |
| alert | `kind`; `ibi` of the item that was asked for; `archives` that the alert is about; `disputed`: all names of |
| | the item whose original these Archives claim: that item, or its edition or translation that was asked for; |
| | both lists have blanks in between |
| damage | what a writer found wrong with the log itself; see `files` |
| settled | `ibi` of an item, whose alerts of two Originals an administrator has looked into; `by` |
| left-out | `count` of `entries` of a kind about an `archive` that were not written today (`daily_limit`) |
| overflow | `count` of entries that were lost, because too many waited or the disk was full |

Archives are named by the IBI of their service. No fact is a key, a reader's address or the query of a persistent URL:
only the facts above are written, each cut at its first question mark.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from datetime import UTC, datetime
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError
from ibi.resolver.evidence.chain import Anchor, Entry, LogVerification, NewEntry, read_line
from ibi.resolver.evidence.daily_limit import DailyLimit
from ibi.resolver.evidence.kept import log_at
from ibi.runtime.durable_files import setup_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from ibi.identifier.forms import IBIForms


EVIDENCE_FILE: Final = "evidence.jsonl"
"""The name of the log in a resolver's data directory."""

LONGEST_FACT: Final = 2_048
"""Characters of a fact; the rest is left out."""

MOST_WAITING: Final = 10_000
"""Entries that wait; further ones are lost and counted, unless readers cause them again (`_SEEN_AGAIN`)."""

REPEAT_SECONDS: Final = 3_600
"""Seconds in which a process records the same original, removal, alert or held move only once."""

FACTS: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(("registered", "unregistered", "approved", "rotated"), frozenset({"ibi", "by"})),
    "included": frozenset({"ibi", "address", "confirmed", "source"}),
    "excluded": frozenset({"ibi", "address", "still_answers", "source", "end"}),
    "moved-address": frozenset(
        {"ibi", "before", "address", "outcome", "source", "confirmed", "allowed", "old_answers"}
    ),
    "move-allowed": frozenset({"ibi", "address", "by"}),
    "setting": frozenset({"name", "before", "after", "by"}),
    "original": frozenset({"ibi", "archive"}),
    "migrated": frozenset({"ibi", "from", "to"}),
    "deleted": frozenset({"ibi", "archive"}),
    "alert": frozenset({"kind", "ibi", "archives", "disputed"}),
    "settled": frozenset({"ibi", "by"}),
    "left-out": frozenset({"entries", "archive", "count"}),
}
"""The entries that may be written, each with the names of its facts."""

_UNREADABLE = "{path} cannot be read: {reason}"
_ONCE = frozenset({"original", "deleted", "alert", "moved-address"})
_SEEN_AGAIN = frozenset({"original", "migrated"})  # the next reader of the item causes them again
_BATCH = 1_000  # entries that are flushed together
_BATCH_SECONDS = 0.2  # how long a batch is collected
_CLOSING_SECONDS = 10.0  # how long `close` and `flush` wait for the disk

_log = logging.getLogger("ibi.resolver.evidence.log")


class Evidence:
    """The log in one file, `path`, and the head beside it, or in the store that they stand for (`kept`).

    Several processes may write to it at once.

    `now` returns POSIX seconds. Make it in the process that uses it; any thread may call its methods.
    `overflow` counts the entries that were lost. Entries are in the order of writing; an entry of `note` may
    wait half a second, so the moments may be in a slightly different order.
    """

    def __init__(self, path: Path, now: Callable[[], float], most: int = MOST_WAITING) -> None:
        self.overflow = 0
        self._files = log_at(path)
        self._now = now
        self._most = most
        self._changed = threading.Condition()
        self._waiting: deque[tuple[float, str, Mapping[str, str | int]]] = deque()
        self._recent: OrderedDict[tuple[str | int, ...], float] = OrderedDict()
        self._daily = DailyLimit()
        self._writing = 0  # entries in the hands of the thread
        self._written = 0
        self._failing = False
        self._lost_unrecorded = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    def write(self, what: str, **facts: str | int) -> None:
        """Append an entry, which is durable when this returns. Raises SetupError where it cannot be written.

        It flushes to disk, so do not call it in an event loop.
        """
        self.write_if(None, what, **facts)

    def write_if(self, check: Callable[[], None] | None, what: str, **facts: str | int) -> None:
        """Append an entry as `write` does, unless `check`, which is called while no other writes, raises."""
        new = _new_entry(self._now(), what, facts)
        with setup_errors("{path} cannot be written: {reason}", under=self._files.path):
            self._files.append([new], check)

    def note(self, what: str, **facts: str | int) -> bool:
        """Append an entry in the background within half a second; return at once whether it will be written.

        If the process is killed before, the entry is lost. An entry that is not written is counted: beyond the
        `daily_limit` as left out, after `close` as overflow; where too many wait, as overflow too, unless it is one
        that the next reader will cause again.
        """
        # Written once in REPEAT_SECONDS: else a reader could fill the disk with the alerts of one item.
        key = (what, *facts.values()) if what in _ONCE else None
        now = self._now()
        with self._changed:
            if key is not None and now - self._recent.get(key, -inf) < REPEAT_SECONDS:
                return True
            if self._closed or len(self._waiting) >= self._most:
                if self._closed or what not in _SEEN_AGAIN:
                    self._lose(1)
                return False
            if self._daily.full.get(what) and self._daily.refuses(what, facts, now):
                report = self._daily.report(what, facts)
                self._waiting.extend((now, "left-out", each) for each in report)
                self._changed.notify_all()
                return False
            if key is not None:
                self._recent[key] = now
                self._recent.move_to_end(key)
                if len(self._recent) > self._most:
                    self._recent.popitem(last=False)
            self._waiting.append((now, what, facts))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="evidence", daemon=True)
                self._thread.start()
            if len(self._waiting) == 1:
                self._changed.notify_all()  # for the first entry only: the thread takes all that wait
            return True

    def original(self, forms: IBIForms, archive: str) -> bool:
        """Record that an Archive is the first that was seen with the Original of an item.

        On False it is not recorded; the caller must not store it either, so that it is noted again later.
        """
        return self.note("original", ibi=" ".join(forms.words), archive=archive)

    def migrated(self, forms: IBIForms, origin: str, destination: str) -> bool:
        """Record that the Original of an item went from one Archive to another; False as in `original`."""
        return self.note("migrated", ibi=str(forms), **{"from": origin, "to": destination})

    def deleted(self, forms: IBIForms, archive: str) -> bool:
        """Record that an Archive reports an item as removed; False where it is not recorded."""
        return self.note("deleted", ibi=str(forms), archive=archive)

    def alert(self, kind: str, ibi: str, archives: Iterable[str], disputed: Iterable[str]) -> None:
        """Record an alert about an item and Archives; `disputed`: names without a holder from now on."""
        # In one order, as answers come in any: else the same alert would be another one for the next reader.
        about = " ".join(sorted(archives))[:LONGEST_FACT]
        self.note("alert", kind=kind, ibi=ibi, archives=about, disputed=" ".join(disputed))

    def flush(self) -> bool:
        """Wait until all that was noted so far is written, and return whether it is; not in an event loop."""
        with self._changed:
            noted = self._written + self._writing + len(self._waiting)
            self._changed.wait_for(
                lambda: self._failing or self._closed or self._written >= noted, _CLOSING_SECONDS
            )
            return self._written >= noted

    def lines(self) -> Iterator[bytes]:
        """Read the lines of the log, changed ones too. Raises SetupError."""
        with setup_errors(_UNREADABLE, under=self._files.path):
            yield from self._files.lines()

    def entries(self) -> Iterator[Entry]:
        """Read the entries, without lines that were changed. Raises SetupError."""
        return (entry for line in self.lines() if (entry := read_line(line)) is not None)

    def verify(self, anchor: Anchor | None = None) -> LogVerification:
        """Check whether the log is as it was written, with the entry of `anchor` in it. Raises SetupError."""
        with setup_errors(_UNREADABLE, under=self._files.path):
            return self._files.verify(anchor)

    def head(self) -> Anchor:
        """Return the number and hash of the last entry, to be stored elsewhere. Raises SetupError."""
        with setup_errors(_UNREADABLE, under=self._files.path):
            head = self._files.head()
        if head is None:
            problem = "{path} is missing or damaged, so it is not certain that the last entries are there"
            raise SetupError(problem, path=self._files.head_path)
        return head.anchor

    def close(self) -> None:
        """Write the entries that wait; from then on, `note` only counts overflow."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_CLOSING_SECONDS)

    def _lose(self, count: int) -> None:
        self.overflow += count
        self._lost_unrecorded += count

    def _work(self) -> None:
        """Write the entries that wait, batch by batch, until closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting)
                self._changed.wait_for(lambda: self._closed, _BATCH_SECONDS)
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
                lost, closed, self._writing = self._lost_unrecorded, self._closed, len(batch)
            if not batch and not lost:
                return  # closed: otherwise there is a batch
            overflow = [NewEntry(_moment(self._now()), "overflow", {"count": lost})] if lost else []
            try:
                self._files.append([*overflow, *(_new_entry(*each) for each in batch)])
            except (OSError, SetupError) as error:
                # Logged once for a full disk, not five times a second.
                if not self._failing or closed:
                    reason = error.strerror if isinstance(error, OSError) else error
                    _log.error("%s cannot be written: %s", self._files.path, reason)
                with self._changed:
                    self._failing, self._writing = True, 0
                    self._waiting.extendleft(reversed(batch))
                    self._changed.notify_all()
                    if closed:
                        self._lose(len(self._waiting))
                        return
            else:
                with self._changed:
                    self._failing, self._writing = False, 0
                    self._written += len(batch)
                    self._lost_unrecorded -= lost
                    for moment, what, facts in batch:
                        self._daily.count(what, facts, moment)
                    self._changed.notify_all()


def _new_entry(now: float, what: str, facts: Mapping[str, str | int]) -> NewEntry:
    """Make an entry of the facts of a caller; `now` in POSIX seconds."""
    known = FACTS.get(what, frozenset())
    # An unknown fact is a programming error. It is dropped, and the entry written without it: it might be a
    # key or a reader's address, and nothing can be removed from the log.
    if not facts.keys() <= known:
        _log.error("left out of an entry %s: %s", what, ", ".join(sorted(facts.keys() - known)))
    clean = {
        name: int(fact) if isinstance(fact, int) else _clean(fact)
        for name, fact in facts.items()
        if name in known
    }
    return NewEntry(_moment(now), what, clean)


def _moment(now: float) -> str:
    return f"{_second(int(now))}.{int(now % 1 * 1000):03}Z"


# Cached: under load, hundreds of entries have the same second.
@lru_cache(maxsize=4)
def _second(posix: int) -> str:
    return datetime.fromtimestamp(posix, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _clean(text: str) -> str:
    """Reduce a fact to visible ASCII without a query, of LONGEST_FACT characters at most."""
    kept = text.partition("?")[0][:LONGEST_FACT]
    if kept.isascii() and kept.isprintable():
        return kept
    return "".join(c if " " <= c <= "~" else "." for c in kept)
