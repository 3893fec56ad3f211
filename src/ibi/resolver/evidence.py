"""The evidence: what happened to a resolver's registry and to originals, in a log that seals itself (threat T42).

| what | facts |
|---|---|
| registered, unregistered, approved, rotated | `ibi` of the Archive's service; `by`: command, form, mail, mirror |
| included | `ibi`; `address` of the Archive; `confirmed`: 1 or 0; `source`: the address that asked for it |
| excluded | `ibi`; `source`; `address` and `still_answers` 1: it was excluded, but is there |
| moved-address | `ibi`; `before`, `address`: the old and the new one; `outcome`: done or held; `source`; `confirmed`; |
| | `allowed`: 1 if an administrator allowed it; `old_answers`: 1 if the old one still confirms |
| original | `ibi`: the forms of an item; `archive` that showed its Original, seen for the first time |
| migrated | `ibi`: the forms of an item; the Original went `from` one Archive `to` another |
| move-allowed | `ibi` of the Archive's service, which may move once; `address` where it wants to; `by` |
| setting | `name` of a setting that was changed; `before`, `after`; `by` |
| deleted | `ibi`: the forms of an item; `archive` that says that it was removed |
| alert | `kind`; `ibi` of the item; `archives` that the alert is about, with blanks between them |
| damage | what a writer found wrong with the log itself; see `ibi.resolver.evidence_files` |
| overflow | `count` of notes that were lost, because too many waited or the disk was full |

Archives are named by the IBI of their service. No fact is a key, a reader's address or the query of a persistent URL:
only the facts above are kept, and whatever follows a question mark is left out.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError
from ibi.resolver.chain import Anchor, Entry, Note, Verdict, read_line
from ibi.resolver.evidence_files import EvidenceFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from ibi.identifier.forms import IBIForms

FILE: Final = "evidence.jsonl"
"""The name of the log in a resolver's data directory."""

LONGEST_FACT: Final = 2_048
"""Characters of a fact; the rest is left out."""

MOST_WAITING: Final = 10_000
"""Notes that wait to be written; more are lost, and counted."""

REPEAT_SECONDS: Final = 3_600
"""For so long the same original, removal or alert is noted once only, by each process."""

FACTS: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(("registered", "unregistered", "approved", "rotated"), frozenset({"ibi", "by"})),
    "included": frozenset({"ibi", "address", "confirmed", "source"}),
    "excluded": frozenset({"ibi", "address", "still_answers", "source"}),
    "moved-address": frozenset(
        {"ibi", "before", "address", "outcome", "source", "confirmed", "allowed", "old_answers"}
    ),
    "move-allowed": frozenset({"ibi", "address", "by"}),
    "setting": frozenset({"name", "before", "after", "by"}),
    "original": frozenset({"ibi", "archive"}),
    "migrated": frozenset({"ibi", "from", "to"}),
    "deleted": frozenset({"ibi", "archive"}),
    "alert": frozenset({"kind", "ibi", "archives"}),
}
"""What others may write down: the names of the facts of each."""

_ONCE = frozenset({"original", "deleted", "alert"})
_AT_ONCE = 1_000  # notes that share a flush
_PAUSE = 0.2  # seconds in which notes gather
_CLOSING = 10.0  # seconds that a stop waits for the disk

_log = logging.getLogger("ibi.resolver.evidence")


class Evidence:
    """The log in one file, `path`, and the head beside it; several processes may write to it at once.

    `now` gives POSIX seconds. To be made in the process that uses it; its methods may be called by any thread.
    `overflow` counts the notes that were lost. Entries are in the order of writing: their moments may differ from it
    by the half second that a note may wait.
    """

    def __init__(self, path: Path, now: Callable[[], float], most: int = MOST_WAITING) -> None:
        self.overflow = 0
        self._files = EvidenceFiles(path)
        self._now = now
        self._most = most
        self._changed = threading.Condition()
        self._waiting: deque[Note] = deque()
        self._said: OrderedDict[tuple[str | int, ...], float] = OrderedDict()
        self._untold = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    def write(self, what: str, **facts: str | int) -> None:
        """Add an entry, durable when this returns. Raises SetupError where it cannot be written.

        Flushes to disk: not for an event loop.
        """
        note = self._note(what, facts)
        try:
            self._files.append([note])
        except OSError as error:
            raise self._unusable("{path} cannot be written: {reason}", error) from None

    def note(self, what: str, **facts: str | int) -> None:
        """Add an entry within half a second, in the background; returns at once.

        What a kill cuts off before that is lost. Where too many wait, or after `close`, it is counted as overflow.
        """
        note = self._note(what, facts)
        key = (what, *note.facts.values()) if what in _ONCE else None
        with self._changed:
            if key is not None and self._is_said(key):
                return
            if self._closed or len(self._waiting) >= self._most:
                self._lose(1)
                return
            if key is not None:
                self._say(key)
            self._waiting.append(note)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="evidence", daemon=True)
                self._thread.start()
            if len(self._waiting) == 1:
                self._changed.notify()  # of the others it hears when its pause is over

    def original(self, forms: IBIForms, archive: str) -> None:
        """Note that an Archive is the first that was seen with the Original of an item."""
        self.note("original", ibi=str(forms), archive=archive)

    def migrated(self, forms: IBIForms, origin: str, destination: str) -> None:
        """Note that the Original of an item went from one Archive to another."""
        self.note("migrated", ibi=str(forms), **{"from": origin, "to": destination})

    def deleted(self, forms: IBIForms, archive: str) -> None:
        """Note that an Archive says that an item was removed."""
        self.note("deleted", ibi=str(forms), archive=archive)

    def alert(self, kind: str, ibi: str, archives: Iterable[str] = ()) -> None:
        """Note an alert about an item and these Archives."""
        self.note("alert", kind=kind, ibi=ibi, archives=" ".join(archives))

    def lines(self) -> Iterator[bytes]:
        """All that is written by now, line by line, as it stands there. Raises SetupError."""
        try:
            yield from self._files.lines()
        except OSError as error:
            raise self._unusable("{path} cannot be read: {reason}", error) from None

    def entries(self) -> Iterator[Entry]:
        """The entries that are written by now, without lines that were changed. Raises SetupError."""
        return (entry for line in self.lines() if (entry := read_line(line)) is not None)

    def verify(self, since: Anchor | None = None) -> Verdict:
        """Read everything and say whether it is as it was written, with the entry `since` in it. Raises SetupError."""
        try:
            return self._files.verify(since)
        except OSError as error:
            raise self._unusable("{path} cannot be read: {reason}", error) from None

    def head(self) -> Anchor:
        """The number and hash of the last entry, for somebody outside to keep. Raises SetupError."""
        try:
            head = self._files.head()
        except OSError as error:
            raise self._unusable("{path} cannot be read: {reason}", error) from None
        if head is None:
            problem = "{path} is missing or damaged, so nobody can tell whether the last entries are there"
            raise SetupError(problem, path=self._files.head_path)
        return head.anchor

    def close(self) -> None:
        """Write what waits, and take no more."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_CLOSING)

    def _note(self, what: str, facts: Mapping[str, str | int]) -> Note:
        known = FACTS.get(what, frozenset())
        if not facts.keys() <= known:  # it must not reach the disk; that it happened should
            _log.error("left out of an entry %s: %s", what, ", ".join(sorted(facts.keys() - known)))
        clean = {
            name: int(fact) if isinstance(fact, int) else _clean(fact)
            for name, fact in facts.items()
            if name in known
        }
        return Note(self._moment(), what, clean)

    def _moment(self) -> str:
        now = self._now()
        return f"{_second(int(now))}.{int(now % 1 * 1000):03}Z"

    def _is_said(self, key: tuple[str | int, ...]) -> bool:
        """Whether the same was noted a short while ago."""
        said = self._said.get(key)
        return said is not None and self._now() - said < REPEAT_SECONDS

    def _say(self, key: tuple[str | int, ...]) -> None:
        self._said[key] = self._now()
        self._said.move_to_end(key)
        if len(self._said) > self._most:
            self._said.popitem(last=False)

    def _lose(self, count: int) -> None:
        self.overflow += count
        self._untold += count

    def _work(self) -> None:
        """Write what waits, batch by batch, until closed."""
        failing = False
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting)
                self._changed.wait_for(lambda: self._closed, _PAUSE)
                batch, untold, closed = self._take(), self._untold, self._closed
            if not batch and not untold:
                return  # only closing leaves nothing to do
            lost = [Note(self._moment(), "overflow", {"count": untold})] if untold else []
            try:
                self._files.append([*lost, *batch])
            except OSError as error:
                if not failing or closed:
                    _log.error("%s cannot be written: %s", self._files.path, error.strerror)
                failing = True
                with self._changed:
                    self._waiting.extendleft(reversed(batch))
                    if closed:
                        self._lose(len(self._waiting))
                        return
            else:
                failing = False
                with self._changed:
                    self._untold -= untold

    def _take(self) -> list[Note]:
        return [self._waiting.popleft() for _ in range(min(_AT_ONCE, len(self._waiting)))]

    def _unusable(self, problem: str, error: OSError) -> SetupError:
        return SetupError(problem, path=error.filename or self._files.path, reason=error.strerror)


@lru_cache(maxsize=4)
def _second(posix: int) -> str:
    """A moment in UTC, to the second: of many notes it is the same."""
    return datetime.fromtimestamp(posix, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _clean(text: str) -> str:
    """What of a fact may be kept: visible ASCII, no query, not too long."""
    kept = text.partition("?")[0][:LONGEST_FACT]
    if kept.isascii() and kept.isprintable():
        return kept
    return "".join(c if " " <= c <= "~" else "." for c in kept)
