"""The metrics of a resolver at /-/metrics (docs/reference/operations.md).

`handlers` counts each resolution, `queries` each query, `acknowledgments.counter` the resolutions of the fast path.

The names of metrics are promised to operators, so some differ from the words of the code; see that page.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from ibi.http.metrics import numbers
from ibi.http.metrics.numbers import DURATION_BOUNDS, FOLDER, Families, Family
from ibi.resolver.model.alert import AlertKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REDIRECT: Final = "redirect"
"""The outcome of a resolution that is no alert."""
OTHER: Final = "other"
"""The label of values that have no counter of their own."""

_POLL_SECONDS: Final = 1.0  # between two reads of the counts of acknowledgment queues and stores
_DROP_REASONS: Final = (
    *("too many waiting", "closing", "too old", "garbled", "silent"),
    *("only prefetched", "no key to thank with", "an older answer", "no longer included"),
    *("found by another resolver", "refused"),
)


class AcknowledgmentCounts(Protocol):
    """Readers whose acknowledgments were delivered, are queued, or were dropped, by reason."""

    delivered: int
    queued: int
    dropped: Counter[str]


FAMILIES: Final = Families(
    "ibi_resolver",
    (
        Family(
            "resolutions_total",
            "Persistent URLs, by what came of them.",
            {"outcome": (REDIRECT, *map(str, AlertKind), OTHER)},
        ),
        Family("rounds_total", "Rounds in which Archives were asked."),
        Family(
            "questions_total",
            "Queries to Archives, by result; asleep: not sent, because the circuit is open or the Archive is paused.",
            {"result": ("answered", "silent", "garbled", "asleep", OTHER)},
        ),
        Family(
            "hints_total",
            "Whether the Archives that were asked first held the item.",
            {"result": ("right", "wrong", "none", OTHER)},
        ),
        Family(
            "remembered_total",
            "Queries that were not sent, by the kind of cached answer.",
            {"answer": ("fresh", "stale", "negative", OTHER)},
        ),
        Family("thanks_delivered_total", "Readers whose acknowledgment was delivered."),
        Family(
            "thanks_dropped_total",
            "Readers whose acknowledgment was dropped, by reason.",
            {"reason": (*_DROP_REASONS, OTHER)},
        ),
        Family("thanks_queued", "Readers whose acknowledgment is still to be sent.", kind="gauge"),
        Family(
            "not_kept_total",
            "What was to be written and was lost (too much at once, a full disk), by where it belongs.",
            {"where": ("answers", "hints", "evidence")},
        ),
        Family(
            "disputes_total",
            "Times that two Archives were found to claim one original, told to a reader or not.",
        ),
        Family("in_flight", "Resolutions under way.", kind="gauge"),
        Family("archives_included", "Archives that take part.", kind="gauge", of_all=True),
        Family("archives_asleep", "Of these, how many are not asked for now.", kind="gauge", of_all=True),
        Family("resolution_seconds", "How long resolutions took.", kind="histogram"),
        Family("question_seconds", "How long Archives took to answer.", kind="histogram"),
    ),
)
"""What is counted; a file of another version, which counts other things, is replaced."""

_IN_FLIGHT: Final = FAMILIES.begin("in_flight")
_ROUNDS: Final = FAMILIES.begin("rounds_total")
_RESOLUTION: Final = FAMILIES.begin("resolution_seconds")
_QUESTION: Final = FAMILIES.begin("question_seconds")
_DELIVERED: Final = FAMILIES.begin("thanks_delivered_total")
_DISPUTES: Final = FAMILIES.begin("disputes_total")
_QUEUED: Final = FAMILIES.begin("thanks_queued")
_INCLUDED: Final = FAMILIES.begin("archives_included")
_SUSPENDED: Final = FAMILIES.begin("archives_asleep")


@dataclass(slots=True)
class _AcknowledgmentSource:
    """An acknowledgment queue, and how many of its counts are counted here already."""

    acknowledgments: AcknowledgmentCounts
    included: Callable[[], int]
    suspended: Callable[[], int]
    counted: Counter[str] = field(default_factory=Counter)

    def added(self, name: str, count: int) -> int:
        """Return how much has been added since the last call."""
        before, self.counted[name] = self.counted[name], count
        return count - before


class ResolverMetrics(numbers.Metrics):
    """The numbers of one process. Its methods are for one thread."""

    def __init__(self, data: Path) -> None:
        super().__init__(data / FOLDER, FAMILIES)
        self._sources: list[_AcknowledgmentSource] = []
        self._polled_at = 0.0
        self._outcomes = FAMILIES.indexes("resolutions_total")
        self._questions = FAMILIES.indexes("questions_total")
        self._hints = FAMILIES.indexes("hints_total")
        self._cached = FAMILIES.indexes("remembered_total")
        self._dropped = FAMILIES.indexes("thanks_dropped_total")
        # The index of each number, and what counts it.
        self._of_stores: list[tuple[int, Callable[[], int]]] = []
        self._seen = Counter[int]()

    def follow_stores(
        self,
        answers: Callable[[], int],
        hints: Callable[[], int],
        evidence: Callable[[], int],
        disputes: Callable[[], int],
    ) -> None:
        """Add from now on what these functions count: lost answers, hints and entries of the evidence; disputes."""
        lost = zip(FAMILIES.indexes("not_kept_total").values(), (answers, hints, evidence), strict=True)
        self._of_stores = [*lost, (_DISPUTES, disputes)]

    def follow(
        self,
        acknowledgments: AcknowledgmentCounts,
        included: Callable[[], int],
        suspended: Callable[[], int],
    ) -> None:
        """Add what an acknowledgment queue counts, once a second, or five without clicks (`watch`), until `leave`.

        `included` and `suspended` return how many Archives are included, and how many of these are not
        asked for now (see `resolve.breaker`).
        """
        self._sources.append(_AcknowledgmentSource(acknowledgments, included, suspended))

    def leave(self, acknowledgments: AcknowledgmentCounts) -> None:
        """Add the last counts of an acknowledgment queue that is closed."""
        self.poll()
        self._sources = [each for each in self._sources if each.acknowledgments is not acknowledgments]

    def started(self, count: int = 1) -> None:
        """Count resolutions that start."""
        self.values[_IN_FLIGHT] += count

    def ended(
        self,
        outcome: str,
        seconds: float,
        now: float,
        count: int = 1,
        *,
        rounds: int = 0,
        hint: str = "",
        cached: str = "",
    ) -> None:
        """Count resolutions that end; `outcome`: REDIRECT or the kind of their alert; `now`: the loop's time.

        `rounds`: how many each had. `hint`: whether the likely holder held the item ("right") or not
        ("wrong"), or there was no hint ("none"). `cached`: the kind of cached answer that saved queries
        ("fresh", "stale", "negative"). Empty texts count nothing.
        """
        values = self.values
        values[_ROUNDS] += rounds * count
        if hint:
            values[self._hints.get(hint, self._hints[OTHER])] += count
        if cached:
            values[self._cached.get(cached, self._cached[OTHER])] += count
        values[_IN_FLIGHT] -= count
        values[self._outcomes.get(outcome, self._outcomes[OTHER])] += count
        # As `observe`, inlined: a resolution passes no further module for it.
        values[_RESOLUTION + bisect_left(DURATION_BOUNDS, seconds)] += count
        values[_RESOLUTION + len(DURATION_BOUNDS) + 1] += count * seconds
        if now - self._polled_at >= _POLL_SECONDS:
            self._polled_at = now
            self.poll()

    def query_ended(self, result: str, *waits: float) -> None:
        """Count queries that have ended, or one that the circuit breaker did not let out, by their `result`.

        `result`: a value of `questions_total`. `waits`: the seconds that each took, none for one not sent.
        """
        values = self.values
        values[self._questions.get(result, self._questions[OTHER])] += len(waits) or 1.0
        for seconds, count in Counter(waits).items() if len(waits) > 1 else [(each, 1) for each in waits]:
            values[_QUESTION + bisect_left(DURATION_BOUNDS, seconds)] += count
            values[_QUESTION + len(DURATION_BOUNDS) + 1] += count * seconds

    def poll(self) -> None:
        """Add what the acknowledgment queues and the stores have counted since the last time."""
        values, queued = self.values, 0
        for each in self._sources:
            values[_INCLUDED], values[_SUSPENDED] = each.included(), each.suspended()
            queued += each.acknowledgments.queued
            values[_DELIVERED] += each.added("delivered", each.acknowledgments.delivered)
            for reason, count in each.acknowledgments.dropped.items():
                values[self._dropped.get(reason, self._dropped[OTHER])] += each.added(reason, count)
        values[_QUEUED] = queued
        for index, counted in self._of_stores:
            before, self._seen[index] = self._seen[index], counted()
            values[index] += self._seen[index] - before
