"""Clicks as they come, while Archives change items: beside nginx's map of the same names, asked in the same order.

The names are chosen by Zipf's law with exponent 1. The Archives change five items a second, which are chosen evenly. A
share of the clicks goes to names that were never asked for. The resolver and nginx are on one core, where they work
turn about; items change in our turns only, so that nginx has its core for itself. The load and the Archives are on the
other core. `bench.trace_load` says what is measured, and how redirects are compared with the truth.

In the first row, a dictionary behind uvloop takes part (`bench.dictionary`): what any server in Python costs at least.

An hour without clicks is not waited for. What it leaves is made at once: no lease runs (the table that all processes
share says that no request for changes was ever sent; `lease.lease_age` gives the same for that and for an hour), and
the Archives have ended all idle connections. Cached answers live for a day, so an hour ends none of them.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Final

from bench.cached_redirects import resolver, warm
from bench.figures import aim, figure, table
from bench.nginx import headers_of, nginx_map
from bench.open_loop import open_loop
from bench.processes import hold_this_process, serving
from bench.resolving_load import make
from bench.stubs import stubs, tell
from bench.trace_load import ALLOWED, CHANGES, CONNECTIONS, Trace
from bench.turns import turn_about
from ibi.resolver.cache.lease_table import LeaseTable
from ibi.runtime.settings import ResolverSettings

if TYPE_CHECKING:
    from pathlib import Path

    from bench.figures import Figure
    from bench.processes import Server
    from bench.scale import Scale
    from bench.trace_load import Seen, Turn

ARCHIVES: Final = 100
_FASTEST: Final = (
    300_000  # redirects a second that no load reaches here: so many names are ready in each turn
)
_BUCKET: Final = 1024  # bytes, of nginx's table
_FIRST_RATE: Final = 100.0  # clicks a second, one for each Archive
_FIRST_SECONDS: Final = 2.0
_HEADS: Final = (
    "clicks on names asked for the first time",
    "redirects/s",
    "of nginx",
    "µs of a processor for one",
    "nginx's, of ours",
    "the slowest second, of the row",
    "p99 in ms: ours, nginx",
    "queries, requests for changes",
)
_SEEN_HEADS: Final = (
    "clicks on names asked for the first time",
    "compared",
    "on items just changed",
    "changes",
    "led wrong",
    "the last click led to an earlier place, s after the change",
    "p99 in ms: ours, nginx",
)


@dataclass(frozen=True)
class Row:
    """One row: how many clicks there are for each on a name that was never asked for (0: none), and its aim."""

    name: str
    every: int
    at_least: float
    after_an_hour: bool = False


ROWS: Final = (
    Row("0", 0, 0.9),
    Row("0.1 %", 1000, 0.85),
    Row("1 %", 100, 0.65),
    Row("0, an hour after the warming", 0, 0.9, after_an_hour=True),
)


@dataclass(frozen=True)
class Measured:
    """A row, and what its turns gave."""

    row: Row
    ours: list[Turn]
    neighbour: list[Turn]
    least: list[Turn]
    seen: Seen
    neighbours_p99: float
    queries: int
    requests: int


@dataclass
class _Stage:
    """Who takes part. `next`: the number of the first item that was never asked for."""

    trace: Trace
    server: Server
    neighbour: Server
    dictionary: Server
    leases: LeaseTable
    scale: Scale
    next: int

    def measure(self, row: Row) -> Measured:
        """Measure a row, and compare."""
        trace, scale = self.trace, self.scale
        before = trace.queries, trace.requests
        turns = [self._turn(row, run) for run in range(runs_of(scale))]
        ours, theirs, least = iter(turns), iter(turns), iter(turns)
        contenders = {
            "ours": lambda: self._ours(row, next(ours)),
            "nginx": lambda: trace.drive(self.neighbour, *next(theirs)),
        }
        if row is ROWS[0]:
            contenders["dictionary"] = lambda: trace.drive(self.dictionary, *next(least))
        found = turn_about(contenders, len(turns))
        counted = trace.queries - before[0], trace.requests - before[1]
        rate, seconds = compared(scale)
        fresh = self._fresh(row, rate * seconds)
        self._wait_an_hour(row)
        with trace.changing():
            seen = trace.check(self.server, rate, seconds, row.every, fresh)
        neighbours = trace.check(self.neighbour, rate, seconds, row.every, fresh)
        dictionary = found.get("dictionary", [])
        return Measured(
            row, found["ours"], found["nginx"], dictionary, seen, neighbours.waits.within(0.99), *counted
        )

    def _turn(self, row: Row, run: int) -> tuple[int, int, range, int, int]:
        """What both ask in a turn: for how long, how often a fresh name, which; which part of the order."""
        clicks = _FASTEST * seconds_of(self.scale)
        return seconds_of(self.scale), row.every, self._fresh(row, clicks), run * clicks, clicks

    def _ours(self, row: Row, turn: tuple[int, int, range, int, int]) -> Turn:
        self._wait_an_hour(row)
        with self.trace.changing():
            return self.trace.drive(self.server, *turn)

    def _wait_an_hour(self, row: Row) -> None:
        """Leave what an hour without clicks leaves (see above), where a row wants it."""
        if row.after_an_hour:
            self.leases.end_all()
            tell(self.trace.stubs.port, "part=1")

    def _fresh(self, row: Row, clicks: int) -> range:
        """As many items that were never asked for as there may be among so many clicks."""
        first = self.next
        self.next += clicks // row.every + 1 if row.every else 0
        return range(first, self.next)


def seconds_of(scale: Scale) -> int:
    """Seconds of a turn."""
    return scale(2, 3, 4)


def runs_of(scale: Scale) -> int:
    """Turns of each of the two in a row."""
    return scale(1, 5, 10)


def compared(scale: Scale) -> tuple[int, int]:
    """How many clicks a second are compared with the truth, and for how many seconds."""
    return scale((300, 2), (5_000, 8), (5_000, 30))


def measure(place: Path, scale: Scale) -> None:
    """Measure and print. Raises NotHere without wrk or nginx."""
    hold_this_process()
    names = scale(400, 100_000, 1_000_000)
    with ExitStack() as stack:
        stage = _stage(stack, place, scale, names)
        mebibytes = ResolverSettings.read(place / "resolver").redirect_mebibytes
        found = [stage.measure(row) for row in ROWS]
    print(
        f"{names:,} items of {ARCHIVES} Archives, by Zipf's law, {CHANGES} changes a second, a browser's headers, "
        f"{CONNECTIONS} connections; median of {runs_of(scale)} turns of {seconds_of(scale)} s (least to most); a "
        "processor's time is that of all processes of a server; the resolver has "
        f"{mebibytes} MiB for its redirects (`redirect_mebibytes`), half of which is enough for all of them"
    )
    table(_HEADS, map(_line, found))
    least = _costs(found[0].least)
    print(
        f"\nIn the first row, a dictionary behind uvloop took {least.times(1e6).text(1)} µs for one; nginx, of it: "
        f"{(_costs(found[0].neighbour) / least).text(2)}"
    )
    rate, seconds = compared(scale)
    print(
        f"\nThe same, {rate:,} clicks a second for {seconds} s, each redirect compared with where the item was when "
        f"the click was sent; led wrong: elsewhere, and not where it had been within {ALLOWED:g} s before"
    )
    table(_SEEN_HEADS, map(_seen_line, found))
    for each in found:
        _keep_aims(each)


def _stage(stack: ExitStack, place: Path, scale: Scale, names: int) -> _Stage:
    """Have all of them served, and the redirects of all known items cached."""
    around, data = stack.enter_context(stubs(ARCHIVES, place)), place / "resolver"
    data.mkdir()
    make(data, ARCHIVES, around.port)
    tell(around.port, "leased=1")  # before they are asked what has changed
    ours = stack.enter_context(resolver(data, redirects=names))
    tell(around.port, f"notices={ours.port}")
    draws = scale(2_000, 2_500_000, 6_500_000)  # more than in all turns of a row
    trace = Trace(ARCHIVES, names, around, place, draws)
    first = replace(trace.known, targets=trace.known.targets[:ARCHIVES])
    # Until an Archive has said up to which change it is right, none of its answers is cached.
    open_loop(ours.port, first, _FIRST_RATE, ARCHIVES / _FIRST_RATE)
    time.sleep(_FIRST_SECONDS)
    warm(ours.port, trace.known)
    tell(around.port, "counts")  # what the warming cost is none of any row's
    clicks = runs_of(scale) * _FASTEST * seconds_of(scale) + prod(compared(scale))
    fresh = sum(clicks // row.every + runs_of(scale) + 1 for row in ROWS if row.every)
    targets = map(trace.target, range(names + fresh))
    size = scale(1 << 20, 1 << 20, 1 << 22)
    headers = headers_of(ours.port, trace.known)
    neighbour = stack.enter_context(nginx_map(place / "nginx", targets, headers, size, _BUCKET))
    (place / "targets").write_text("\n".join(map(trace.target, range(names))))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    (place / "headers").write_text(f"{lines}content-length: 0\r\n\r\n")
    words = (sys.executable, "-m", "bench.dictionary", place / "targets", place / "headers")
    dictionary = stack.enter_context(serving(words, place / "dictionary.log"))
    return _Stage(trace, ours, neighbour, dictionary, LeaseTable(data / "memory.leases"), scale, names)


def _line(found: Measured) -> tuple[str, ...]:
    ours, theirs = _rates(found.ours), _rates(found.neighbour)
    waits = [figure(turn.p99 for turn in turns).times(1e3).text(2) for turns in (found.ours, found.neighbour)]
    return (
        found.row.name,
        ours.text(),
        (ours / theirs).text(2),
        _costs(found.ours).times(1e6).text(1),
        (_costs(found.neighbour) / _costs(found.ours)).text(2),
        f"{_slowest(found):,.0f}, {_slowest(found) / ours.median:.2f}",
        ", ".join(waits),
        f"{found.queries:,}, {found.requests:,}",
    )


def _seen_line(found: Measured) -> tuple[str, ...]:
    seen = found.seen
    return (
        found.row.name,
        f"{seen.checked:,}",
        f"{seen.recent:,}",
        f"{seen.changes:,}",
        f"{seen.wrong:,}",
        f"{seen.latest:.3f}",
        f"{seen.waits.within(0.99) * 1e3:.2f}, {found.neighbours_p99 * 1e3:.2f}",
    )


def _keep_aims(found: Measured) -> None:
    """Keep what the row was to reach."""
    what = (
        f"clicks on {found.row.name} fresh names"
        if not found.row.after_an_hour
        else "an hour after the warming"
    )
    ours, theirs = _rates(found.ours), _rates(found.neighbour)
    ratios = (ours / theirs, _costs(found.neighbour) / _costs(found.ours))
    less = min(ratios, key=lambda ratio: ratio.median)
    p99 = figure(turn.p99 for turn in found.ours) / figure(turn.p99 for turn in found.neighbour)
    aim(f"{what}: of nginx's map, by rate or by processor", less, at_least=found.row.at_least)
    aim(f"{what}: the slowest second, of the row", figure([_slowest(found) / ours.median]), at_least=0.5)
    aim(f"{what}: p99, times nginx's", p99, at_most=2)
    aim(f"{what}: led wrong for more than {ALLOWED:g} s", figure([found.seen.wrong]), at_most=0, decimals=0)


def _rates(turns: list[Turn]) -> Figure:
    return figure(turn.rate for turn in turns)


def _costs(turns: list[Turn]) -> Figure:
    return figure(turn.cost for turn in turns)


def _slowest(found: Measured) -> float:
    """The fewest redirects of a second of all our turns."""
    return min(each for turn in found.ours for each in turn.seconds)
