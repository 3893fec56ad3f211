"""The metrics of a resolver at /-/metrics, as Prometheus or OpenMetrics text (docs/reference/operations.md).

A counter is the sum of all processes that share the data directory, also of those that have ended. So it
never falls, except that it restarts at zero with a version that counts other things (`shared_counters`). A
gauge covers only the processes that run. `handlers` counts each resolution, `queries` each query,
`acknowledgments.counter` the resolutions of the fast path.

The names of metrics are promised to operators, so some differ from the words of the code; see that page.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import ibi
from ibi.http.client_address import in_networks, is_readable
from ibi.http.response import NO_STORE, Response
from ibi.resolver.metrics.shared_counters import SharedCounters
from ibi.resolver.model.alert import AlertKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from prometheus_client.metrics_core import Metric

    from ibi.http.request import Request
    from ibi.resolver.metrics.shared_counters import CounterTotals

REDIRECT: Final = "redirect"
"""The outcome of a resolution that is no alert."""
OTHER: Final = "other"
"""The label of values that have no counter of their own."""

FOLDER: Final = "metrics"
PROMETHEUS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
LOOPBACK_NETWORKS: Final = ("127.0.0.0/8", "::1/128")
"""The networks that may read the metrics if the settings name none: this machine."""

DURATION_BOUNDS: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.15,
    0.25,
    0.5,
    1.0,
    2.0,
    3.0,
    5.0,
    10.0,
)
"""Seconds up to which a duration falls into one bucket of a histogram; longer ones fall into the last."""

_POLL_SECONDS: Final = 1.0  # between two reads of the counts of the acknowledgment queues
_LOOK_SECONDS = 5.0  # the same, in a process without clicks
_DROP_REASONS: Final = (
    *("too many waiting", "closing", "too old", "garbled", "silent"),
    *("only prefetched", "no key to thank with", "an older answer", "no longer included"),
    *("found by another resolver", "refused"),
)
_FORWARDED: Final = (b"forwarded", b"via", b"x-real-ip")


class AcknowledgmentCounts(Protocol):
    """Readers whose acknowledgments were delivered, are queued, or were dropped, by reason."""

    delivered: int
    queued: int
    dropped: Counter[str]


class _MetricFamily(NamedTuple):
    """One metric, what it counts, and the values of its label: one number each."""

    name: str
    help: str
    label: str = ""
    values: tuple[str, ...] = ("",)
    kind: str = "counter"
    of_all: bool = False  # a gauge of which each process knows the total: the maximum is shown, not the sum

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of its numbers: a histogram has its buckets and its sum."""
        return (*map(str, DURATION_BOUNDS), "more", "sum") if self.kind == "histogram" else self.values


_FAMILIES: Final = (
    _MetricFamily(
        "resolutions_total",
        "Persistent URLs, by what came of them.",
        "outcome",
        (REDIRECT, *map(str, AlertKind), OTHER),
    ),
    _MetricFamily("rounds_total", "Rounds in which Archives were asked."),
    _MetricFamily(
        "questions_total",
        "Questions to Archives, by what came of them; asleep: not sent.",
        "result",
        ("answered", "silent", "garbled", "asleep", OTHER),
    ),
    _MetricFamily(
        "hints_total",
        "Whether who was asked first held the item.",
        "result",
        ("right", "wrong", "none", OTHER),
    ),
    _MetricFamily(
        "remembered_total",
        "Questions that were not asked, by what was remembered.",
        "answer",
        ("fresh", "stale", "negative", OTHER),
    ),
    _MetricFamily("thanks_delivered_total", "Readers whose Archive was thanked."),
    _MetricFamily(
        "thanks_dropped_total", "Readers whose Archive was not, by reason.", "reason", (*_DROP_REASONS, OTHER)
    ),
    _MetricFamily("thanks_queued", "Readers whose Archive is still to be thanked.", kind="gauge"),
    _MetricFamily(
        "not_kept_total",
        "What was to be written and was lost (too much at once, a full disk), by where it belongs.",
        "where",
        ("answers", "hints", "evidence"),
    ),
    _MetricFamily("in_flight", "Resolutions under way.", kind="gauge"),
    _MetricFamily("archives_included", "Archives that take part.", kind="gauge", of_all=True),
    _MetricFamily("archives_asleep", "Of these, how many are not asked for now.", kind="gauge", of_all=True),
    _MetricFamily("resolution_seconds", "How long resolutions took.", kind="histogram"),
    _MetricFamily("question_seconds", "How long Archives took to answer.", kind="histogram"),
)


_NAMES: Final = [f"{family.name} {part}" for family in _FAMILIES for part in family.parts]
_BEGINS: Final = {family.name: _NAMES.index(f"{family.name} {family.parts[0]}") for family in _FAMILIES}
_IN_FLIGHT: Final = _BEGINS["in_flight"]
_ROUNDS: Final = _BEGINS["rounds_total"]
_RESOLUTION: Final = _BEGINS["resolution_seconds"]
_QUESTION: Final = _BEGINS["question_seconds"]
_DELIVERED: Final = _BEGINS["thanks_delivered_total"]
_QUEUED: Final = _BEGINS["thanks_queued"]
_INCLUDED: Final = _BEGINS["archives_included"]
_SLEEPING: Final = _BEGINS["archives_asleep"]
_GAUGES: Final = [
    _BEGINS[each.name] + part for each in _FAMILIES if each.kind == "gauge" for part in range(len(each.parts))
]


def _indexes(name: str) -> dict[str, int]:
    """Return the index of each value of a family's label."""
    family = next(each for each in _FAMILIES if each.name == name)
    return {value: _BEGINS[name] + number for number, value in enumerate(family.values)}


@dataclass(slots=True)
class _AcknowledgmentSource:
    """An acknowledgment queue, and how many of its counts are counted here already."""

    acknowledgments: AcknowledgmentCounts
    included: Callable[[], int]
    sleeping: Callable[[], int]
    counted: Counter[str] = field(default_factory=Counter)

    def added(self, name: str, count: int) -> int:
        """Return how much has been added since the last call."""
        before, self.counted[name] = self.counted[name], count
        return count - before


class Metrics:
    """The numbers of one process. Its methods are for one thread."""

    def __init__(self, data: Path) -> None:
        self._counters = SharedCounters(data / FOLDER, _NAMES, _GAUGES)
        self._values = self._counters.values
        self._sources: list[_AcknowledgmentSource] = []
        self._polled_at = 0.0
        self._outcomes = _indexes("resolutions_total")
        self._questions = _indexes("questions_total")
        self._hints = _indexes("hints_total")
        self._cached = _indexes("remembered_total")
        self._dropped = _indexes("thanks_dropped_total")
        self._losses: list[tuple[int, Callable[[], int]]] = []  # the index of each number, and what counts it
        self._lost = Counter[int]()

    def follow_losses(
        self, answers: Callable[[], int], hints: Callable[[], int], evidence: Callable[[], int]
    ) -> None:
        """Count from now on the answers, hints and evidence entries that these functions report as lost."""
        self._losses = list(zip(_indexes("not_kept_total").values(), (answers, hints, evidence), strict=True))

    def follow(
        self,
        acknowledgments: AcknowledgmentCounts,
        included: Callable[[], int],
        sleeping: Callable[[], int],
    ) -> None:
        """Add what an acknowledgment queue counts, once a second, or five without clicks (`watch`), until `leave`.

        `included` and `sleeping` return how many Archives are included, and how many of these are not
        asked for now (see `resolve.breaker`).
        """
        self._sources.append(_AcknowledgmentSource(acknowledgments, included, sleeping))

    def leave(self, acknowledgments: AcknowledgmentCounts) -> None:
        """Add the last counts of an acknowledgment queue that is closed."""
        self._poll()
        self._sources = [each for each in self._sources if each.acknowledgments is not acknowledgments]

    async def watch(self) -> None:
        """Look every few seconds at what `follow` and `follow_losses` have named, until cancelled."""
        # Without it, the other processes would show what one without clicks had seen at its last one.
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._poll()

    # Counting happens in every request, so it is an addition to shared memory, without a system call

    def started(self, count: int = 1) -> None:
        """Count resolutions that start."""
        self._values[_IN_FLIGHT] += count

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
        values = self._values
        values[_ROUNDS] += rounds * count
        if hint:
            values[self._hints.get(hint, self._hints[OTHER])] += count
        if cached:
            values[self._cached.get(cached, self._cached[OTHER])] += count
        values[_IN_FLIGHT] -= count
        values[self._outcomes.get(outcome, self._outcomes[OTHER])] += count
        self._observe(_RESOLUTION, seconds, count)
        if now - self._polled_at >= _POLL_SECONDS:
            self._polled_at = now
            self._poll()

    def query_ended(self, result: str, *waits: float) -> None:
        """Count queries that have ended, or one that the circuit breaker did not let out, by their `result`.

        `result`: a value of `questions_total`. `waits`: the seconds that each took, none for one not sent.
        """
        self._values[self._questions.get(result, self._questions[OTHER])] += len(waits) or 1.0
        for seconds, count in Counter(waits).items() if len(waits) > 1 else zip(waits, (1,), strict=False):
            self._observe(_QUESTION, seconds, count)

    def _observe(self, begin: int, seconds: float, count: int = 1) -> None:
        values = self._values
        values[begin + bisect_left(DURATION_BOUNDS, seconds)] += count
        values[begin + len(DURATION_BOUNDS) + 1] += count * seconds

    def _poll(self) -> None:
        """Add what the acknowledgment queues and the stores have counted since the last time."""
        values, queued = self._values, 0
        for each in self._sources:
            values[_INCLUDED], values[_SLEEPING] = each.included(), each.sleeping()
            queued += each.acknowledgments.queued
            values[_DELIVERED] += each.added("delivered", each.acknowledgments.delivered)
            for reason, count in each.acknowledgments.dropped.items():
                values[self._dropped.get(reason, self._dropped[OTHER])] += each.added(reason, count)
        values[_QUEUED] = queued
        for index, lost in self._losses:
            before, self._lost[index] = self._lost[index], lost()
            values[index] += self._lost[index] - before

    # Output

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, as prometheus-client wants them."""
        from prometheus_client.metrics_core import GaugeMetricFamily

        self._poll()
        totals = self._counters.totals()
        for family in _FAMILIES:
            yield _metric(family, totals)
        workers = "Processes that answer."
        yield GaugeMetricFamily("ibi_resolver_workers", workers, value=len(totals.running))
        info = GaugeMetricFamily("ibi_resolver_info", "The version of the program.", labels=["version"])
        info.add_metric([ibi.__version__], 1)
        yield info

    def text(self, *, open_metrics: bool = False) -> bytes:
        """Write all metrics in the Prometheus text format, version 0.0.4, or as OpenMetrics 1.0.0."""
        from prometheus_client import exposition
        from prometheus_client.openmetrics import exposition as openmetrics

        written: bytes = (openmetrics if open_metrics else exposition).generate_latest(self)
        return written

    def answer(self, request: Request, networks: Sequence[str]) -> Response | None:
        """Answer GET /-/metrics; None for clients outside these networks: for them there is no such page."""
        if not _is_inside(request, networks or LOOPBACK_NETWORKS):
            return None
        if OPEN_METRICS.partition(";")[0] in request.header(b"accept"):
            return Response(200, self.text(open_metrics=True), OPEN_METRICS, NO_STORE)
        return Response(200, self.text(), PROMETHEUS_TEXT, NO_STORE)

    def close(self) -> None:
        """Add the last counts of the acknowledgment queues and the stores, and leave the file."""
        self._poll()
        self._counters.close()


def _is_inside(request: Request, networks: Sequence[str]) -> bool:
    """Whether all the addresses that a request came by are in these networks."""
    # A proxy on this machine that the settings do not name makes every client look local; its headers reveal
    # it. If an entry is no address, only that of the proxy is known, and the client may be any (T24).
    if any(request.headers.get(name) for name in _FORWARDED) or not is_readable(
        request.header(b"x-forwarded-for")
    ):
        return False
    return all(in_networks(address, tuple(networks)) for address in request.addresses)


def _metric(family: _MetricFamily, totals: CounterTotals) -> Metric:
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    name, begin = f"ibi_resolver_{family.name}", _BEGINS[family.name]
    if family.kind == "histogram":
        *numbers, total = totals.sums[begin : begin + len(family.parts)]
        # In this format the count of a bucket includes those of all buckets before it.
        buckets = list(zip((*map(str, DURATION_BOUNDS), "+Inf"), accumulate(numbers), strict=True))
        return HistogramMetricFamily(name, family.help, buckets=buckets, sum_value=total)
    kind = GaugeMetricFamily if family.kind == "gauge" else CounterMetricFamily
    metric = kind(name, family.help, labels=[family.label] if family.label else [])
    for index, value in enumerate(family.values, begin):
        numbers = [each[index] for each in totals.running]
        number = totals.sums[index]
        if family.kind == "gauge":
            number = max(numbers, default=0.0) if family.of_all else sum(numbers)
        metric.add_metric([value] if family.label else [], number)
    return metric
