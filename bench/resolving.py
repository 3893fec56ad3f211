"""What a resolution costs: messages, waiting, a fan-out to all, and Archives that hang.

The resolver runs as in operation, in one process on one core; the Archives are those of `bench.stubs`, on the
other core together with the load. Items are asked for as people ask: the n-th most popular one 1/n times as often as
the first (Zipf).
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.fan_out import fan_out
from bench.figures import aim, figure, table
from bench.processes import hold_this_process
from bench.resolving_load import HANGING, ORIGINAL, Work, connection, scene
from bench.stubs import ip_of, item_of, query_of, service_of, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bench.resolving_load import LoadResult, Scene
    from bench.scale import Scale

RUNS: Final = 5
ITEMS: Final = 1_000
BEGUN: Final = 10.0
"""Seconds after Archives have begun to hang that are measured."""
_BUSY: Final = 4
_READERS: Final = 2
_HOW: Final = {"gone": "keep nothing", "copy": "keep a Copy"}
_AIMS: Final = {
    "hints; 5 % migrate, their givers keep nothing": 1.05,
    "first contact, by prefix; 5 % migrate, their givers keep nothing": 1.2,
    "hints; 5 % migrate, their givers keep a Copy": 1.05,
    "first contact, by prefix; 5 % migrate, their givers keep a Copy": 1.5,
}
_ENOUGH: Final = 600.0  # seconds: what is counted ends by itself


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    seconds: float
    samples: int
    clicks: int
    """Of one reader, before the migrations of a table of messages, and as many after them."""
    turns: int
    """Of each client beside the full fan-out, a second or two each."""


TINY: Final = Size(seconds=0.1, samples=5, clicks=10, turns=1)
SHORT: Final = Size(seconds=0.5, samples=200, clicks=100, turns=5)
FULL: Final = Size(seconds=5, samples=2_000, clicks=5_000, turns=9)


def measure(place: Path, scale: Scale, part: str) -> None:
    """Measure and print one of the tables, as a row of `python -m bench`."""
    hold_this_process()
    PARTS[part](place, scale(TINY, SHORT, FULL))


def _messages(place: Path, size: Size) -> None:
    """Questions to Archives for one redirect, however many Archives there are."""
    rows: dict[str, list[str]] = {}
    counts = (10, 100, 1_000)
    for archives in counts:
        for name, results in _kinds(place, archives, size.clicks):
            messages = sum(one.queries for one in results) / sum(one.redirects for one in results)
            rows.setdefault(name, []).append(f"{messages:,.3f}")
            most = _AIMS.get(name)
            if most is not None:
                what = f"questions for one redirect, {archives:,} Archives: {name}"
                aim(what, figure([messages]), at_most=most, decimals=3)
    heads = ("questions for one redirect", *(f"{archives:,} Archives" for archives in counts))
    table(heads, ([name, *found] for name, found in rows.items()))
    print(
        f"\n{2 * _READERS * size.clicks:,} redirects each, {ITEMS:,} items that are known; migrations in the middle, "
        "which both Archives announce; acknowledgments and requests for changes are no questions"
    )


def _kinds(place: Path, archives: int, clicks: int) -> Iterator[tuple[str, tuple[LoadResult, ...]]]:
    known, by_prefix, unknown = Work("n", ITEMS), Work("h", zipf=False), Work("n", zipf=False)

    def play(work: Work, seed: int = 1, most: int = clicks) -> LoadResult:
        return stage.play(work, _ENOUGH, _READERS, seed, most)

    def halves(work: Work, how: str) -> tuple[LoadResult, LoadResult]:
        first = play(work)
        numbers = range(ITEMS) if work.zipf else stage.coming(_READERS * clicks)
        stage.migrate(how, work.letter, numbers)
        return first, play(work, 2)

    for how, keeps in _HOW.items():
        with scene(place, archives, range(ITEMS)) as stage:  # nothing is known of what has migrated before
            yield f"hints; 5 % migrate, their givers {keeps}", halves(known, how)
            tell(stage.stubs.port, "migrated=")
            yield f"first contact, by prefix; 5 % migrate, their givers {keeps}", halves(by_prefix, how)
            if how == "copy":
                tell(stage.stubs.port, "migrated=")
                yield "first contact, nothing known", (play(unknown, most=5),)
                tell(stage.stubs.port, "reuse=60")
                again = play(Work("h", ITEMS)), play(Work("h", ITEMS), 2)
                yield "by prefix; answers may be used again for 60 s", again


def _latency(place: Path, size: Size) -> None:
    """A hinted resolution beside a GET straight to the Archive, turn about, over one connection each."""
    with scene(place, 100, range(ITEMS)) as stage:
        stage.play(Work(items=ITEMS), 1)
        straight, through, adds = [], [], []
        with connection("127.0.0.1", stage.resolver.port) as resolver:
            for number in range(RUNS):
                pairs = [_pair(stage, resolver, number * size.samples + one) for one in range(size.samples)]
                straight.append(statistics.median(pair[0] for pair in pairs))
                through.append(statistics.median(pair[1] for pair in pairs))
                adds.append(through[-1] - straight[-1])
        work = Work(items=ITEMS)
        busy = [stage.play(work, size.seconds, _BUSY, seed) for seed in range(RUNS)]
    heads = ("hinted resolution, 100 Archives", "milliseconds, median")
    lines = {
        "a GET straight to the Archive": straight,
        "the redirect of the resolver": through,
        "what the resolver adds": adds,
    }
    table(heads, ((name, figure(runs).times(1e3).text(2)) for name, runs in lines.items()))
    aim("ms that the resolver adds to a GET straight to the Archive", figure(adds).times(1e3), at_most=0.6)
    rates = figure(result.redirects / result.seconds for result in busy)
    aim("hinted redirects a second", rates, at_least=2_500, decimals=0)
    table(
        (f"hinted resolution, {_BUSY} connections", "figure"),
        [
            ("redirects a second", rates.text()),
            (
                "µs of a processor for one",
                figure(result.processor / result.redirects * 1e6 for result in busy).text(),
            ),
            ("questions for one", figure(result.queries / result.redirects for result in busy).text(2)),
        ],
    )


def _pair(stage: Scene, resolver: Callable[[str, bytes], float], sample: int) -> tuple[float, float]:
    """Seconds of one GET to an Archive, over its own connection, and of one redirect to the same item."""
    number = sample * 7919 % ITEMS
    archive = number % stage.archives
    item = item_of(archive, number)
    with connection(ip_of(archive), stage.stubs.port) as direct:
        question = f"/{service_of(archive)}?{query_of(item)}"
        direct(question, b"200")
        seconds = direct(question, b"200")
    return seconds, resolver(f"/{item}", b"302")


def _fan_out(place: Path, size: Size) -> None:
    """Originals of items not requested before: all Archives are queried and awaited."""
    fan_out(place, min(size.seconds, 2), size.turns)


def _hanging(place: Path, size: Size) -> None:
    """20 of 200 Archives take questions and never answer; asked for are items of the others."""
    kinds = {
        "known items (hints)": Work(items=ITEMS, living=True),
        "first contact, all queried": Work(zipf=False, living=True),
        "original demanded, all waited for": Work(zipf=False, living=True, more=ORIGINAL),
    }
    lines = []
    for name, work in kinds.items():
        with scene(place, 200, range(ITEMS)) as stage:
            stage.play(work, 1)
            well = stage.play(work, 4 * size.seconds)
            tell(stage.stubs.port, f"hanging={HANGING}")
            # The circuits are closed until five answers are overdue, and a probe is.
            before = stage.play(work, min(BEGUN, 20 * size.seconds))
            stage.play(work, 1, connections=8, most=1)
            time.sleep(4)
            after = stage.play(work, 4 * size.seconds)
        aim(f"99 of 100, {name}: 20 hang and sleep, to all well", figure([after.p99 / well.p99]), at_most=1.5)
        if work.more != ORIGINAL:
            aim(
                f"99 of 100, {name}: 20 begin to hang, to all well",
                figure([before.p99 / well.p99]),
                at_most=1.5,
            )
        compared = (f"{one.p99 * 1e3:,.1f} ({one.p99 / well.p99:.2f} times)" for one in (before, after))
        lines.append((name, f"{well.p99 * 1e3:,.1f}", *compared))
    heads = (
        "99 of 100 redirects within, ms",
        "all well",
        f"20 begin to hang, {BEGUN:g} s",
        "20 hang, they sleep",
    )
    table(heads, lines)


PARTS: Final[dict[str, Callable[[Path, Size], None]]] = {
    "messages": _messages,
    "latency": _latency,
    "fan-out": _fan_out,
    "hanging": _hanging,
}
