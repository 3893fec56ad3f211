"""The constants of the model: measured ones, with their row in bench/RESULTS.md, and assumed ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

MICROSECONDS: Final = 1e-6
MEBIBYTE: Final = 1024 * 1024
DAY: Final = 86_400.0

REPEATED_CLICK: Final = 13.2 * MICROSECONDS
"""Seconds of a core for a redirect of the fast path (row `trace`, no fresh names)."""
CACHED_CLICK: Final = 285.0 * MICROSECONDS
"""Seconds of a core for one of the ordinary path, from a cached answer (row `redirect`)."""
QUERY_CLICK: Final = 313.0 * MICROSECONDS
"""Seconds of a core for one that asks an Archive, the question included (row `hinted`)."""
FAN_OUT_QUESTION: Final = 19.1 * MICROSECONDS
"""Seconds of a core for a question of a fan-out to 500 Archives (row `fan-out-sizes`)."""
CHANGES_QUESTION: Final = 64.4 * MICROSECONDS
"""Seconds of a core for a single request for changes: a question among few (row `fan-out-sizes`, 10 Archives)."""
ARCHIVE_ANSWER: Final = 194.0 * MICROSECONDS
"""Seconds of an Archive's core for an answer (row `answers`)."""
PROCESS_BYTES: Final = 90e6
"""Private memory of a resolver process with 10 Archives (row `archives`)."""
ARCHIVE_BYTES: Final = (105e6 - 90e6) / (1_000 - 10)
"""Private memory of a process for one more Archive (row `archives`, 10 and 1,000 Archives)."""
HINT_BYTES: Final = 456e6 / 10_000_000
"""Disk for a hint (row `hints`, 10,000,000 of them)."""
ANSWER_BYTES: Final = 1_800.0
"""Disk for a cached answer of 700 bytes at a random place of the file (8,000 of them, measured for this page)."""
REDIRECT_BYTES: Final = MEBIBYTE * 96 / 150_000
"""Memory for a cached redirect (row `trace`: the default of 96 MiB is enough for 150,000)."""
FILTER_BYTES: Final = 10 / 8
"""Bytes of a holdings filter for one name, with one false yes among a hundred."""

LEASE: Final = 60.0
RENEWED_AFTER: Final = 45.0
"""Seconds after which an answer that is used renews the lease (`resolver.cache.lease`)."""
REQUESTED_EVERY: Final = 900.0
"""Seconds after which an Archive is asked for changes in any case (`resolver.cache.change_requests.ASK_EVERY`)."""
BUSY: Final = 0.7
"""The share of its cores that a node may use in the mean."""


@dataclass(frozen=True)
class World:
    """What is asked of the resolver. `years` since the first item moved; `down`, `moved`: shares."""

    archives: int = 100_000
    names: int = 1_000_000_000
    clicks: float = 10_000.0
    moved_a_year: float = 0.01
    years: int = 5
    down: float = 0.01

    @property
    def moved(self) -> float:
        """The share of names that are not where their prefix says."""
        return 1 - (1 - self.moved_a_year) ** self.years


@dataclass(frozen=True)
class Node:
    """A node: its cores, and the sizes of its caches in bytes; `redirects` in each of `processes`.

    `widens`: whether all Archives are asked when the likely holder is silent.
    """

    name: str
    cores: int = 2
    processes: int = 2
    redirects: float = 96 * MEBIBYTE
    answers: float = 256 * MEBIBYTE
    hints: float = 1024 * MEBIBYTE
    widens: bool = True


AS_SHIPPED: Final = Node("as shipped")
LARGE: Final = Node(
    "larger caches", redirects=1024 * MEBIBYTE, answers=64 * 1024 * MEBIBYTE, hints=64 * 1024 * MEBIBYTE
)
NARROW: Final = replace(LARGE, name="larger caches, no fan-out for silent holders", widens=False)
NODES: Final = (AS_SHIPPED, LARGE, NARROW)
