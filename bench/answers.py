"""URL requests answered by a served Archive: a second, as its catalogue grows, for small items and for large ones.

The server runs as in operation, on one core; the load asks from the other, each time about another item. The
catalogue is in the memory of the system, as that of an Archive is that is asked all the time, and the index of what can
be found is complete: while a million items that have just come are taken into it, a processor is shared with that.
"""

from __future__ import annotations

import random
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.archive import SERVICE, bring_into_memory, filled, name_of, serve
from bench.figures import Figure, aim, figure, table
from bench.open_loop import open_loop
from bench.processes import hold_this_process, private, serving, worked
from bench.questions import Questions
from bench.turns import turn_about

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench.processes import Server
    from bench.scale import Scale

CONNECTIONS: Final = 16
YARDSTICK: Final = 400
"""Bytes of the answer of the server that the load is weighed against, about as many as ours has."""
AT_MOST: Final = 50_000  # different items asked about in a run
LOADED: Final = 0.7

ITEM, METADATA = "the item", "GetMetadata(oai_dc)"
_HEADS: Final = (
    "catalogue",
    "answers/s",
    "of a trivial server",
    "µs of a processor for one",
    "at 70 %: p50, p99, p99.9 in ms",
    "private MB",
    "bytes of disk for an item",
)


def measure(place: Path, scale: Scale) -> None:
    """Measure and print."""
    hold_this_process()
    many = scale(400, 100_000, 1_000_000)
    sizes = [("small", scale(200, 10_000, 10_000)), ("small", many)]
    sizes += scale([("large", 200)], [], [("large", 10_000), ("large", 100_000)])
    few = sizes[0][1]
    with tempfile.TemporaryDirectory(dir=place) as folder:
        made = [
            (size, items, filled(Path(folder) / f"{size}-{items}", size, items).path) for size, items in sizes
        ]
        lines = [line for each in made for line in _measured(scale, *each, few)]
        costs = _side_by_side(scale, {items: data for size, items, data in made if size == "small"})
    print(f"\n{CONNECTIONS} connections; median of {scale.runs} runs of {scale(1, 1, 3)} s (least to most)")
    table(_HEADS, lines)
    print("\nat 70 %: an open loop of seven tenths of the rate that was reached")
    here, there, grown = costs[few].times(1e6), costs[many].times(1e6), costs[many] / costs[few]
    print(f"\nTurn about, µs of a processor for one of {few:,} and of {many:,} small items:", end=" ")
    print(f"{here.text()} and {there.text()}, {grown.text(2)} times as much")
    aim("a URL request among many items costs, to one among 10,000", grown, at_most=1.25)


def _measured(scale: Scale, size: str, items: int, data: Path, few: int) -> Iterator[tuple[str, ...]]:
    disk = (data / "catalogue.sqlite").stat().st_size / items
    trivial = (sys.executable, "-m", "bench.load", str(YARDSTICK))
    with serving(serve(data), data / "log") as server, serving(trivial, data / "log2") as ceiling:
        for verb in (ITEM, METADATA) if size == "large" else (ITEM,):
            questions = url_requests(items, verb)
            questions.check(server.port)
            rates, cost = _rates(questions, (server, ceiling), data, scale)
            if size == "small" and items > few:
                aim(
                    f"URL requests a second among {items:,} small items", rates[0], at_least=6_000, decimals=0
                )
            yield (
                f"{items:,} {size} items, {verb}",
                rates[0].text(),
                (rates[0] / rates[1]).text(2),
                cost.times(1e6).text(),
                waits(server.port, questions, LOADED * rates[0].median, scale),
                f"{private(server):,.0f}",
                f"{disk:,.0f}",
            )


def _side_by_side(scale: Scale, places: Mapping[int, Path]) -> dict[int, Figure]:
    """Seconds of a processor for an answer of several catalogues, by their sizes, in runs turn about.

    The machine of one minute is another one than that of the next.
    """
    with ExitStack() as servers:
        works: dict[str, Callable[[], float]] = {}
        for items, data in places.items():
            server = servers.enter_context(serving(serve(data), data / "log"))
            works[str(items)] = partial(_cost, server, url_requests(items, ITEM), scale(1, 1, 2), data)
        for work in works.values():
            work()
        found = turn_about(works, scale(3, 9, 15))
    return {items: figure(found[str(items)]) for items in places}


def _cost(server: Server, questions: Questions, seconds: int, data: Path) -> float:
    bring_into_memory(data)
    before = worked(server)
    rate = questions.closed_loop(server.port, CONNECTIONS, seconds, data)
    return (worked(server) - before) / (rate * seconds)


def _rates(
    questions: Questions, servers: tuple[Server, Server], data: Path, scale: Scale
) -> tuple[tuple[Figure, Figure], Figure]:
    """Answers a second of ours and of the trivial server, and seconds of a processor for one of ours."""
    seconds, costs = scale(1, 1, 3), list[float]()
    server, ceiling = servers

    def ours() -> float:
        before = worked(server)
        rate = questions.closed_loop(server.port, CONNECTIONS, seconds, data)
        costs.append((worked(server) - before) / (rate * seconds))
        return rate

    ours()
    costs.clear()
    found = turn_about(
        {"ours": ours, "trivial": lambda: questions.closed_loop(ceiling.port, CONNECTIONS, seconds, data)},
        scale.runs,
        lambda: bring_into_memory(data),
    )
    return (figure(found["ours"]), figure(found["trivial"])), figure(costs)


def waits(port: int, questions: Questions, rate: float, scale: Scale) -> str:
    """How long readers wait when so many come in a second: medians of the runs, in milliseconds."""
    runs = [open_loop(port, questions, rate, scale(0.1, 0.4, 3)) for _ in range(scale.runs)]
    shares = (0.5, 0.99, 0.999)
    return ", ".join(f"{figure(run.within(share) for run in runs).median * 1e3:,.2f}" for share in shares)


def url_requests(items: int, verb: str) -> Questions:
    """URL requests about items by chance of an Archive that has so many; `verb`: ITEM or METADATA."""
    chance, verbs = random.Random(7), f"&parsedibiurl.verblist={verb}" if verb != ITEM else ""
    return Questions(
        tuple(
            f"/{SERVICE}?clientinformation.ipaddress=192.0.2.7"
            f"&parsedibiurl.ibi={name_of(chance.randrange(items))}{verbs}&servicesubject=urlRequest"
            for _ in range(min(AT_MOST, 2 * items))
        )
    )
