"""An Archive with its catalogue in PostgreSQL, beside one with a file: requests, deposits, labels, imports.

All work turn about in one run. The Archive and what it does in its own process are on one core, and with them the
PostgreSQL that is reached by a socket; that of another machine, its network and the load are on the other core.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.answers import CONNECTIONS, ITEM, url_requests
from bench.archive import SERVICE, item
from bench.databases import places
from bench.figures import aim, figure, table
from bench.importing import write_items
from bench.load import load, post
from bench.minting_http import GRANULARITY
from bench.processes import SERVER_CORE, hold_this_process, run, serving, worked
from bench.turns import turn_about
from ibi.archive.store.data_directory import DataDirectory, label_generator
from ibi.identifier.dates import granularity_of
from ibi.minting import Subsystem
from ibi.minting.machine import this_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.databases import CataloguePlace
    from bench.processes import Server
    from bench.questions import Questions
    from bench.scale import Scale

    Cost = tuple[float, float]  # seconds of a processor: of the Archive, and of PostgreSQL

IBI: Final = ("taskset", "-c", str(SERVER_CORE), sys.executable, "-m", "ibi")
WRITERS: Final = (1, 8)
_KEY: Final = "1" * 20
_DEPOSIT: Final = json.dumps({"url": "http://far.example/1"}).encode()
# What is aimed at, of what SQLite does: on the same core, on another one, and with a network in between.
_ANSWERS, _TAKEN_IN, _WRITTEN = (0.6, 0.6, 0.4), 0.75, {1: 0.35, 8: 0.45}


def measure(place: Path, scale: Scale) -> None:
    """Measure URL requests, deposits and labels, and print. Raises NotHere without PostgreSQL or wrk."""
    hold_this_process()
    with ExitStack() as stack:
        sides = stack.enter_context(places(place))
        trips = ", ".join(f"{side.name}: {side.round_trip() * 1e6:,.0f} µs" for side in sides[1:])
        print(f"A round trip to the database takes: {trips}.")
        costs: dict[str, list[Cost]] = {}
        found = _read_and_written(stack, sides, place, scale, costs)
    _print(found, sides)
    print("\nOne URL request, in µs of a processor, which depends less on what else the machine does:")
    table(("a catalogue in", "the Archive", "PostgreSQL", "both, to SQLite"), _costs(costs))


def imports(place: Path, scale: Scale) -> None:
    """Measure imports, and print. Raises NotHere without PostgreSQL."""
    hold_this_process()
    with places(place) as sides:
        _print({"small items taken in": turn_about(_imports(sides, place, scale), scale.runs)}, sides)


def _print(found: Mapping[str, Mapping[str, Sequence[float]]], sides: Sequence[CataloguePlace]) -> None:
    runs = sorted({len(kept) for rates in found.values() for kept in rates.values()})
    print(f"Median of {' or '.join(map(str, runs))} runs (least to most)")
    heads = ("a second", *(side.name for side in sides), *(f"{side.name}, to SQLite" for side in sides[1:]))
    table(heads, [_line(what, rates, sides) for what, rates in found.items()])
    for what, rates in found.items():
        _aims(what, rates, sides)


def _costs(costs: Mapping[str, Sequence[Cost]]) -> Iterator[list[str]]:
    both = {name: figure(sum(cost) for cost in kept) for name, kept in costs.items()}
    first = next(iter(both.values()))
    for name, kept in costs.items():
        parts = [figure(cost[part] * 1e6 for cost in kept).text() for part in (0, 1)]
        yield [name, *parts, (both[name] / first).text(2)]


def _answers(
    server: Server, side: CataloguePlace, questions: Questions, seconds: int, place: Path, costs: list[Cost]
) -> float:
    """Answers a second."""
    servers = (server, side.server)
    before = [worked(each) if each else 0.0 for each in servers]
    rate = questions.closed_loop(server.port, CONNECTIONS, seconds, place)
    after = [worked(each) if each else 0.0 for each in servers]
    here, there = ((late - early) / (rate * seconds) for early, late in zip(before, after, strict=True))
    costs.append((here, there))
    return rate


def _line(what: str, rates: Mapping[str, Sequence[float]], sides: Sequence[CataloguePlace]) -> list[str]:
    figures = [figure(rates[side.name]) for side in sides]
    return [what, *(each.text() for each in figures), *((each / figures[0]).text(2) for each in figures[1:])]


def _aims(what: str, rates: Mapping[str, Sequence[float]], sides: Sequence[CataloguePlace]) -> None:
    for number, side in enumerate(sides[1:]):
        ratio = figure(rates[side.name]) / figure(rates[sides[0].name])
        if what.startswith("URL"):
            wanted = _ANSWERS[number]
        elif side is sides[-1]:
            continue  # nothing is aimed at for writing far away
        else:
            writers = next((each for each in WRITERS if f" {each} " in what), None)
            wanted = _WRITTEN[writers] if writers else _TAKEN_IN
        aim(f"{what}: {side.name}, to SQLite", ratio, at_least=wanted)


def made(side: CataloguePlace, data: Path) -> str:
    """Make an Archive in a place; return the URL of its database, "" for a file."""
    store = side.new()
    words: list[str | Path] = [*IBI, "archive", "init", "--data", data]
    words += ["--address", "127.0.0.1", "--ip", "127.0.0.1"]
    words += ["--service-ibi", SERVICE, "--key", _KEY, "--admin", "admin@archive.example", "--for-trying"]
    words += ["--mint-host", "archive.example", "--granularity", GRANULARITY]
    run([*words, *(["--store", store] if store else [])])
    return store


def _read_and_written(
    stack: ExitStack, sides: Sequence[CataloguePlace], place: Path, scale: Scale, costs: dict[str, list[Cost]]
) -> dict[str, dict[str, list[float]]]:
    """URL requests, deposits and labels of Archives that are served beside each other; `costs`: of URL requests."""
    items, seconds = scale(200, 10_000, 10_000), scale(1, 1, 2)
    questions = url_requests(items, ITEM)
    lines: dict[str, dict[str, Callable[[], float]]] = {}
    for number, side in enumerate(sides):
        data = place / f"served{number}"
        made(side, data)
        take_in(data, [item("small", at) for at in range(items)])
        words = ("archive", "token", "add", "bench", "--data", data, "--scope", "deposit", "--json")
        token = json.loads(run([*IBI, *words]))["token"]
        command = (sys.executable, "-m", "ibi", "archive", "serve", "--data", data, "--bind", "127.0.0.1:0")
        server = stack.enter_context(serving(command, place / f"served{number}.log"))
        questions.check(server.port)
        lines.setdefault(f"URL requests, of {items:,} items", {})[side.name] = partial(
            _answers, server, side, questions, seconds, place, costs.setdefault(side.name, [])
        )
        for writers in WRITERS:
            request = post("/-/api/items", _DEPOSIT, f"Bearer {token}")
            lines.setdefault(f"deposits, {writers} at a time", {})[side.name] = partial(
                _deposits, server.port, request, writers, scale(0.1, 0.5, 2.0)
            )
            lines.setdefault(f"labels, {writers} at a time", {})[side.name] = partial(
                _labels, data, writers, scale(0.1, 0.5, 2.0)
            )
    for runs in lines.values():
        for once in runs.values():
            once()
    for kept in costs.values():
        kept.clear()
    return {
        what: turn_about(runs, scale(1, 9, 9) if what.startswith("URL") else scale.runs)
        for what, runs in lines.items()
    }


def _deposits(port: int, request: bytes, writers: int, seconds: float) -> float:
    return load(port, request, writers, seconds).rate


def _labels(data: Path, writers: int, seconds: float) -> float:
    """Labels a second of a process with so many threads, each of which mints one at a time."""
    words = [sys.executable, "-m", "bench.stores", "mint", data, writers, seconds]
    return float(run(["taskset", "-c", str(SERVER_CORE), *map(str, words)]))


def _imports(sides: Sequence[CataloguePlace], place: Path, scale: Scale) -> dict[str, Callable[[], float]]:
    items = scale(300, 20_000, 100_000)
    lines = place / "import.jsonl"
    write_items(lines, "small", items)

    def once(number: int, side: CataloguePlace) -> float:
        data = place / f"import{number}-{time.monotonic_ns()}"
        made(side, data)
        words = [sys.executable, "-m", "bench.importing", data, lines]
        figures: dict[str, Any] = json.loads(run(["taskset", "-c", str(SERVER_CORE), *map(str, words)]))
        return items / float(figures["seconds"])

    return {side.name: partial(once, number, side) for number, side in enumerate(sides)}


def take_in(data: Path, items: Sequence[dict[str, Any]]) -> None:
    """Import items of JSON into the Archive of a data directory, and index them."""
    path = data.with_suffix(".jsonl")
    path.write_text("".join(f"{json.dumps(each)}\n" for each in items))
    run([*IBI, "archive", "import", "--data", data, "--format", "jsonl", path])
    run([*IBI, "archive", "index", "--data", data])


def _mint(data: Path, writers: int, seconds: float) -> float:
    """Mint one label at a time in each of so many threads; return how many a second."""
    directory = DataDirectory(data, this_machine())
    settings = directory.settings()
    generator = label_generator(settings)
    if generator is None:
        raise SystemExit("this Archive mints nothing")
    given: list[list[str]] = [[] for _ in range(writers)]
    waiting_room = directory.waiting_room(generator.prefixes)
    with Subsystem(waiting_room, generator, granularity_of(settings.granularity)) as subsystem:
        subsystem.mint()
        until = time.perf_counter() + seconds

        def work(mine: list[str]) -> None:
            while time.perf_counter() < until:
                mine.append(str(subsystem.mint()))

        begun = time.perf_counter()
        threads = [threading.Thread(target=work, args=(mine,)) for mine in given]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        took = time.perf_counter() - begun
    labels = [label for mine in given for label in mine]
    if len(set(labels)) != len(labels):
        raise SystemExit("a label was given twice")
    return len(labels) / took


if __name__ == "__main__":
    print(_mint(Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
