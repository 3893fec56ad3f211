"""What a resolution costs: messages, waiting, a fan-out to all, Archives that hang, and a million hints in memory.

    python -m bench.resolving [--full] [--dir DIR] [--only WHAT ...]

The resolver runs as its keeper runs it, in one process on one core; the Archives are those of `bench.stubs`, on the
other core together with the load. Items are asked for as people ask: the n-th most popular one 1/n times as often as
the first (Zipf). `--full` takes longer runs, and a million hints instead of a tenth of that.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.disk import add_option, surroundings, workplace
from bench.fan_out import fan_out
from bench.figures import figure, table
from bench.processes import hold_this_process
from bench.resolving_load import HANGING, ORIGINAL, Work, connection, scene
from bench.stubs import ip_of, item_of, query_of, service_of, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.resolving_load import Said, Scene

RUNS: Final = 5
ITEMS: Final = 1_000
_BUSY: Final = 4
_ENOUGH: Final = 600.0  # seconds: what is counted ends by itself
_RATE: Final = re.compile(r"Requests/sec:\s+([\d.]+)")
_PRIVATE: Final = re.compile(r"Private_(?:Clean|Dirty):\s+(\d+) kB")


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    seconds: float
    samples: int
    hints: int
    clicks: int
    """Of one reader, in half a table of messages."""


SHORT: Final = Size(seconds=0.5, samples=200, hints=100_000, clicks=200)
FULL: Final = Size(seconds=5, samples=2_000, hints=1_000_000, clicks=5_000)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.resolving", description=__doc__)
    parser.add_argument("--full", action="store_true", help="a million hints, and longer runs")
    parser.add_argument("--only", nargs="+", choices=[*_PARTS], default=[*_PARTS], help="some of the tables")
    add_option(parser)
    args = parser.parse_args()
    hold_this_process()
    with workplace(args.dir) as place:
        print(f"\nResolutions, the resolver on one core, stubs and load on the other\n{surroundings(place)}")
        for part in args.only:
            _PARTS[part](place, FULL if args.full else SHORT)


def _messages(place: Path, size: Size) -> None:
    """Questions to Archives for one redirect, however many Archives there are."""
    rows: dict[str, list[str]] = {}
    counts = (10, 100, 1_000)
    for archives in counts:
        with scene(place, archives, range(ITEMS)) as stage:
            for name, said in _kinds(stage, size.clicks):
                messages = sum(one.asked for one in said) / sum(one.redirects for one in said)
                rows.setdefault(name, []).append(f"{messages:,.3f}")
    heads = ("questions for one redirect", *(f"{archives:,} Archives" for archives in counts))
    table(heads, ([name, *found] for name, found in rows.items()))
    print(f"\n{4 * size.clicks:,} redirects each, {ITEMS:,} items that are known; migrations in the middle")


def _kinds(stage: Scene, clicks: int) -> Iterator[tuple[str, tuple[Said, ...]]]:
    known, by_prefix, unknown = Work("n", ITEMS), Work("h", zipf=False), Work("n", zipf=False)

    def play(work: Work, seed: int = 1, most: int = clicks) -> Said:
        return stage.play(work, _ENOUGH, seed=seed, most=most)

    def halves(work: Work, then: str) -> tuple[Said, Said]:
        first = play(work)
        tell(stage.stubs.port, then)
        return first, play(work, 2)

    yield "hints; 5 % migrate, their givers keep a Copy (aim: 1.05)", halves(known, "migrated=copy")
    tell(stage.stubs.port, "migrated=")
    yield "first contact, by prefix; 5 % migrate as above (aim: 1.5)", halves(by_prefix, "migrated=copy")
    tell(stage.stubs.port, "migrated=")
    yield "hints; 5 % migrate, their givers keep nothing", halves(known, "migrated=gone")
    tell(stage.stubs.port, "migrated=")
    yield (
        "first contact, by prefix; 5 % migrate, their givers keep nothing",
        halves(by_prefix, "migrated=gone"),
    )
    tell(stage.stubs.port, "migrated=")
    yield "first contact, nothing known", (play(unknown, most=5),)
    tell(stage.stubs.port, "reuse=60")
    yield "by prefix; answers may be used again for 60 s", (play(Work("h", ITEMS)), play(Work("h", ITEMS), 2))


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
        "what the resolver adds (aim: 0.6)": adds,
    }
    table(heads, ((name, figure(runs).times(1e3).text(2)) for name, runs in lines.items()))
    table(
        (f"hinted resolution, {_BUSY} connections", "figure"),
        [
            ("redirects a second", figure(said.redirects / said.seconds for said in busy).text()),
            (
                "µs of a processor for one",
                figure(said.processor / said.redirects * 1e6 for said in busy).text(),
            ),
            ("questions for one", figure(said.asked / said.redirects for said in busy).text(2)),
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
    """The original demanded of items that nobody has asked for: all Archives are asked and waited for."""
    fan_out(place, size.seconds)


def _hanging(place: Path, size: Size) -> None:
    """20 of 200 Archives take questions and never answer; asked for are items of the others."""
    kinds = {
        "known items (hints)": Work(items=ITEMS, living=True),
        "first contact, everybody asked": Work(zipf=False, living=True),
        "original demanded, everybody waited for": Work(zipf=False, living=True, more=ORIGINAL),
    }
    lines = []
    for name, work in kinds.items():
        with scene(place, 200, range(ITEMS)) as stage:
            stage.play(work, 1)
            well = stage.play(work, 4 * size.seconds)
            tell(stage.stubs.port, f"hanging={HANGING}")
            before = stage.play(work, 2)  # no answer is overdue yet, so nobody is left alone
            stage.play(work, 1, connections=8, most=1)
            time.sleep(4)
            after = stage.play(work, 4 * size.seconds)
        compared = (f"{one.p99 * 1e3:,.1f} ({one.p99 / well.p99:.2f} times)" for one in (before, after))
        lines.append((name, f"{well.p99 * 1e3:,.1f}", *compared))
    heads = (
        "99 of 100 redirects within, ms",
        "all well",
        "20 hang, just begun",
        "20 hang, they sleep (aim: 1.5)",
    )
    table(heads, lines)


def _memory(place: Path, size: Size) -> None:
    """A worker that has many hints at hand, and has looked up some tens of thousands of them."""
    with scene(place, 100, range(size.hints)) as stage:
        before = _private(stage.resolver.pid)
        said = stage.play(Work(items=size.hints), 2 * size.seconds + 2, _BUSY)
        after = _private(stage.resolver.pid)
    heads = (f"one worker, {size.hints:,} hints", "MB")
    lines = {
        "private memory after its start": before[0],
        f"private memory after {said.redirects:,} redirects (aim: 250)": after[0],
        "private pages of LMDB's files, besides": after[1],
    }
    table(heads, ((name, f"{value / 1e6:,.0f}") for name, value in lines.items()))


def _private(pid: int) -> tuple[int, int]:
    """Bytes that no other process has: without the pages of LMDB's files, and these."""
    own = mapped = 0
    for part in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", Path(f"/proc/{pid}/smaps").read_text()):
        size = 1024 * sum(map(int, _PRIVATE.findall(part)))
        if part.partition("\n")[0].endswith(".mdb"):
            mapped += size
        else:
            own += size
    return own, mapped


_PARTS: Final[dict[str, Callable[[Path, Size], None]]] = {
    "messages": _messages,
    "latency": _latency,
    "fan-out": _fan_out,
    "hanging": _hanging,
    "memory": _memory,
}

if __name__ == "__main__":
    main()
