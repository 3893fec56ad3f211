"""Numbers of several processes, and their page as Prometheus or OpenMetrics text (docs/reference/operations.md).

A counter is the sum of all processes that share the data directory, also of those that have ended. So it
never falls, except that it restarts at zero with a version that counts other things (`shared_counters`). A
gauge covers only the processes that run.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from functools import cached_property
from itertools import accumulate, product
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import ibi
from ibi.http.client_address import in_networks, is_readable
from ibi.http.metrics.shared_counters import SharedCounters
from ibi.http.response import NO_STORE, Response

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from prometheus_client.metrics_core import Metric

    from ibi.http.metrics.shared_counters import CounterTotals
    from ibi.http.request import Request

FOLDER: Final = "metrics"
PATH: Final = "/-/metrics"
PROMETHEUS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
LOOPBACK_NETWORKS: Final = ("127.0.0.0/8", "::1/128")
"""The networks that may read the metrics if the settings name none: this machine."""

DURATION_BOUNDS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15),
    *(0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0),
)
"""Seconds up to which a duration falls into one bucket of a histogram; longer ones fall into the last."""

_LOOK_SECONDS = 5.0  # between two looks at what others count
HISTOGRAM: Final = (*map(str, DURATION_BOUNDS), "more", "sum")
"""The names of the numbers of a histogram."""
_FORWARDED: Final = (b"forwarded", b"via", b"x-real-ip")


class Family(NamedTuple):
    """One metric, what it counts, and its labels with their values: a number for each combination of values."""

    name: str
    help: str
    labels: Mapping[str, Sequence[str]] = MappingProxyType({})
    kind: str = "counter"
    of_all: bool = False  # a gauge of which each process knows the total: the maximum is shown, not the sum

    @property
    def parts(self) -> Iterator[str]:
        """The names of its numbers: a histogram has its buckets and its sum."""
        for values in product(*self.labels.values()):
            if self.kind != "histogram":
                yield " ".join(values)
                continue
            yield from (" ".join((*values, part)) for part in HISTOGRAM)


class Families:
    """All metrics of a program; their names begin with `prefix`.

    `read`: gauges that are the same from any process, and are read when a program asks.
    """

    def __init__(self, prefix: str, families: Iterable[Family], read: Iterable[Family] = ()) -> None:
        self.prefix = prefix
        self.all = tuple(families)
        self.read = (
            *read,
            Family("workers", "Processes that answer."),
            Family("info", "The version of the program.", {"version": ()}),
        )
        numbers = [(family, part) for family in self.all for part in family.parts]
        self.names: Final = [f"{family.name} {part}" for family, part in numbers]
        self.gauges: Final = [index for index, (family, _) in enumerate(numbers) if family.kind == "gauge"]

    @cached_property
    def exposed(self) -> frozenset[str]:
        """The names under which Prometheus stores these metrics."""
        ends = {"histogram": ("_bucket", "_count", "_sum")}
        return frozenset(
            f"{self.prefix}_{family.name}{end}"
            for family in (*self.all, *self.read)
            for end in ends.get(family.kind, ("",))
        )

    def begin(self, name: str) -> int:
        """Return the index of the first number of a metric."""
        family = next(each for each in self.all if each.name == name)
        return self.names.index(f"{name} {next(family.parts)}")

    def indexes(self, name: str) -> dict[str, int]:
        """Return the index of each number of a metric, by the values of its labels with blanks between them."""
        return {
            number.partition(" ")[2]: index
            for index, number in enumerate(self.names)
            if number.startswith(f"{name} ")
        }

    def written(self, family: Family, totals: CounterTotals) -> Metric:
        """Return one metric as prometheus-client writes it."""
        from prometheus_client.metrics_core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        name, index = f"{self.prefix}_{family.name}", self.begin(family.name)
        if family.kind == "histogram":
            histogram = HistogramMetricFamily(name, family.help, labels=list(family.labels))
            for values in product(*family.labels.values()):
                *counts, total = totals.sums[index : index + len(HISTOGRAM)]
                # In this format the count of a bucket includes those of all buckets before it.
                buckets = zip((*map(str, DURATION_BOUNDS), "+Inf"), accumulate(counts), strict=True)
                histogram.add_metric(list(values), list(buckets), total)
                index += len(HISTOGRAM)
            return histogram
        kind = GaugeMetricFamily if family.kind == "gauge" else CounterMetricFamily
        metric = kind(name, family.help, labels=list(family.labels))
        for number, values in enumerate(product(*family.labels.values()), index):
            running = [each[number] for each in totals.running]
            total = totals.sums[number]
            if family.kind == "gauge":
                total = max(running, default=0.0) if family.of_all else sum(running)
            metric.add_metric(list(values), total)
        return metric


class Metrics:
    """The numbers of one process, in a file of `folder`. Its methods are for one thread."""

    def __init__(self, folder: Path, families: Families) -> None:
        self._families = families
        self._counters = SharedCounters(folder, families.names, families.gauges)
        self.values = self._counters.values
        """The numbers, to be added to: counting is an addition to shared memory, without lock or system call."""

    def observe(self, begin: int, seconds: float, count: int = 1) -> None:
        """Count durations in the histogram that begins at this index."""
        values = self.values
        values[begin + bisect_left(DURATION_BOUNDS, seconds)] += count
        values[begin + len(DURATION_BOUNDS) + 1] += count * seconds

    def poll(self) -> None:
        """Add what other objects have counted since the last time."""

    def present(self) -> Mapping[str, Mapping[str, float]]:
        """Return the present numbers of `Families.read`: name -> value of the label ("" for none) -> number."""
        return {}

    async def watch(self) -> None:
        """Look every few seconds at what others count, until cancelled."""
        # Without it, other processes would show what one without requests had seen at its last one.
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.poll()

    # Output

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, as prometheus-client wants them."""
        from prometheus_client.metrics_core import GaugeMetricFamily

        self.poll()
        families, totals = self._families, self._counters.totals()
        for family in families.all:
            yield families.written(family, totals)
        present = {
            **self.present(),
            "workers": {"": len(totals.running)},
            "info": {ibi.__version__: 1},
        }
        for family in families.read:
            gauge = GaugeMetricFamily(
                f"{families.prefix}_{family.name}", family.help, labels=list(family.labels)
            )
            for value, number in present.get(family.name, {}).items():
                gauge.add_metric([value] if family.labels else [], number)
            yield gauge

    def text(self, *, open_metrics: bool = False) -> bytes:
        """Write all metrics in the Prometheus text format, version 0.0.4, or as OpenMetrics 1.0.0."""
        from prometheus_client import exposition
        from prometheus_client.openmetrics import exposition as openmetrics

        written: bytes = (openmetrics if open_metrics else exposition).generate_latest(self)
        return written

    def answer(self, request: Request, networks: Sequence[str]) -> Response | None:
        """Answer GET /-/metrics; None for clients outside these networks: for them there is no such page.

        `request` must know the addresses that it came by.
        """
        if not is_inside(request, networks):
            return None
        if OPEN_METRICS.partition(";")[0] in request.header(b"accept"):
            return Response(200, self.text(open_metrics=True), OPEN_METRICS, NO_STORE)
        return Response(200, self.text(), PROMETHEUS_TEXT, NO_STORE)

    def close(self) -> None:
        """Add the last counts of others, and leave the file."""
        self.poll()
        self._counters.close()
        self.values = self._counters.values


def is_inside(request: Request, networks: Sequence[str]) -> bool:
    """Whether all the addresses that a request came by are in these networks; () for LOOPBACK_NETWORKS."""
    # A proxy on this machine that the settings do not name makes every client look local; its headers reveal it. If
    # an entry is no address, only that of the proxy is known, and the client may be any (T24: forged addresses).
    if any(request.headers.get(name) for name in _FORWARDED) or not is_readable(
        request.header(b"x-forwarded-for")
    ):
        return False
    inside = tuple(networks or LOOPBACK_NETWORKS)
    return bool(request.addresses) and all(in_networks(address, inside) for address in request.addresses)
