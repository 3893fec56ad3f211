"""Since when Archives claim the original of an item, as far as the evidence tells (T05: false claims of originals)."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError
from ibi.resolver.evidence.chain import read_line
from ibi.resolver.evidence.kept import log_at
from ibi.resolver.evidence.reading import canonical_ibi, mentions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ibi.resolver.evidence.chain import Entry

CLAIMS_BYTES: Final = 4 << 20
"""Bytes at the end of the log in which claims are looked for."""
READ_EVERY: Final = 5.0
"""Seconds between two readings: alerts of other items are shown without the moments meanwhile."""
MOST_ITEMS: Final = 200
"""Items whose claims are remembered."""

_CLAIMING: Final = {"original": "archive", "migrated": "to", "alert": "archives"}
"""Entry that tells of a claim -> its fact that names who claims."""


class ClaimTimes:
    """The claims in one log. `of` blocks, so do not call it in an event loop; `clock` returns seconds."""

    def __init__(self, log: Path, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._reading = Lock()
        self._read_at = -READ_EVERY
        self._known: OrderedDict[str, tuple[float, dict[str, str]]] = OrderedDict()

    def of(self, canonical: str) -> Mapping[str, str] | None:
        """Return when each Archive was first seen to claim the original of an item; None if it is not known now.

        Archives are named by the canonical IBIs of their services. An alert costs no more than one reading in
        READ_EVERY seconds, however many there are.
        """
        with self._reading:
            now = self._clock()
            read_at, claims = self._known.get(canonical, (None, None))
            if read_at is not None and now - read_at < READ_EVERY:
                return claims
            if now - self._read_at < READ_EVERY:
                return claims
            self._read_at = now
            try:
                claims = _claims(self._log, canonical)
            except (OSError, SetupError):
                return claims
            self._known[canonical] = now, claims
            self._known.move_to_end(canonical)
            if len(self._known) > MOST_ITEMS:
                self._known.popitem(last=False)
            return claims


def _claims(log: Path, canonical: str) -> dict[str, str]:
    """Read the first claim of each Archive at the end of the log. Raises OSError, SetupError."""
    word, claims = canonical.lower().encode(), dict[str, str]()
    for line in log_at(log).tail(CLAIMS_BYTES):
        # Compared as bytes first: few lines are about this item, and parsing costs far more.
        entry = read_line(line) if word in line.lower() else None
        if entry is not None and entry.what in _CLAIMING and mentions(entry, canonical):
            for name in _claimants(entry):
                claims.setdefault(name, entry.moment)
    return claims


def _claimants(entry: Entry) -> list[str]:
    named = str(entry.facts.get(_CLAIMING[entry.what], "")).split()
    return [name for name in map(canonical_ibi, named) if name]
