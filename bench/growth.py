"""What becomes slower as a resolver knows more items, or more Archives: redirects, memory, start-up.

All sizes stand side by side, each a resolver of its own that is held on one core, and are asked turn about; the stub
Archives and the load are on the other. Warm: cached redirects of items from all over the hints. Hinted: each
redirect is a question to the Archive that a hint names, every time about another item.
"""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.cached_redirects import REUSE, resolver, warm
from bench.figures import aim, figure, table
from bench.processes import SERVER_CORE, NotStarted, Server, hold_this_process, private, worked
from bench.questions import Questions
from bench.resolving_load import ORIGINAL, learn, make
from bench.stubs import item_of, stubs, tell
from bench.turns import turn_about

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.figures import Figure
    from bench.scale import Scale

CONNECTIONS: Final = 16
ROUNDS_AT_ONCE: Final = 4
_MOST_QUESTIONS: Final = 200_000  # a second: no item is asked for twice
_ARCHIVES: Final = 100
_MILLION: Final = 1_000_000
_TIMEOUT: Final = 30.0  # seconds for a start
_WARM: Final = "warm redirects a second"


@dataclass(frozen=True)
class Case:
    """One size: its resolver, its questions while answers may not be reused, and those with a cached redirect."""

    server: Server
    hinted: Questions
    warm: Questions


def hints(place: Path, scale: Scale) -> None:
    """Grow with the hints. Raises NotHere without wrk."""
    hold_this_process()
    sizes = scale((100, 1_000), (10_000, 1_000_000), (10_000, 100_000, 1_000_000, 10_000_000))
    with ExitStack() as stack:
        around = stack.enter_context(stubs(_ARCHIVES, place))
        folders = _learned(place, around.port, sizes)
        starts = turn_about({size: partial(_start, folder) for size, folder in folders.items()}, scale.runs)
        cases = {
            size: _case(stack.enter_context(resolver(folder)), size, _ARCHIVES, scale)
            for size, folder in folders.items()
        }
        ready = _ready(cases, around.port, place, scale)
        lines, memory = [], figure([private(cases[min(sizes[-1], _MILLION)].server)])
        for size, case in cases.items():
            start, ratio = figure(starts[size]), ready[size] / ready[sizes[0]]
            disk = (folders[size] / "hints" / "data.mdb").stat().st_size / 1e6
            lines.append(
                (f"{size:,}", ready[size].text(), ratio.text(2), f"{private(case.server):,.0f}", start.text(2),
                 f"{disk:,.0f}")
            )  # fmt: skip
    most, loss = min(sizes[-1], _MILLION), ready[sizes[-1]] / ready[sizes[0]]
    aim(f"a warm redirect among {sizes[-1]:,} hints, of one among {sizes[0]:,}", loss, at_least=0.85)
    aim(f"MB that only one worker has, {most:,} hints", memory, at_most=250, decimals=0)
    aim(f"seconds to `ready`, {most:,} hints", figure(starts[most]), at_most=1.5)
    _say(scale)
    heads = ("hints", _WARM, "of the smallest", "private MB", "seconds to `ready`", "MB of hints on disk")
    table(heads, lines)


def archives(place: Path, scale: Scale) -> None:
    """Grow with the Archives. Raises NotHere without wrk."""
    hold_this_process()
    sizes = scale((2, 5), (10, 1_000), (10, 30, 100, 300, 1_000))
    with ExitStack() as stack:
        around = stack.enter_context(stubs(sizes[-1], place))
        cases = dict[int, Case]()
        for size in sizes:
            folder = place / f"archives-{size}"
            folder.mkdir()
            make(folder, size, around.port)
            learn(folder, size, range(20_000), "n")
            cases[size] = _case(stack.enter_context(resolver(folder)), 20_000, size, scale)
        hinted = _rates({size: (case.server, case.hinted) for size, case in cases.items()}, place, scale)
        aim(f"hinted redirects a second, {sizes[0]:,} Archives", hinted[sizes[0]], at_least=2_500, decimals=0)
        ready = _ready(cases, around.port, place, scale)
        lines = [
            (f"{size:,}", ready[size].text(), (ready[size] / ready[sizes[0]]).text(2), hinted[size].text(),
             (hinted[size] / hinted[sizes[0]]).text(2), f"{private(case.server):,.0f}")
            for size, case in cases.items()
        ]  # fmt: skip
    _say(scale)
    heads = ("Archives", _WARM, "of the fewest", "hinted redirects a second", "of the fewest", "private MB")
    table(heads, lines)


def fan_out(place: Path, scale: Scale) -> None:
    """Demand originals of items not requested before, so that all Archives are queried. Raises NotHere."""
    hold_this_process()
    sizes, seconds = scale((2, 5), (10, 100, 500), (10, 100, 500)), scale(1, 1, 5)
    with ExitStack() as stack:
        around = stack.enter_context(stubs(sizes[-1], place))
        servers = dict[int, Server]()
        for size in sizes:
            folder = place / f"all-{size}"
            folder.mkdir()
            make(folder, size, around.port)
            servers[size] = stack.enter_context(resolver(folder))
        fresh, costs = itertools.count(1_000_000), {size: list[float]() for size in sizes}

        def demand(size: int) -> float:
            numbers = list(itertools.islice(fresh, _MOST_QUESTIONS * seconds // size))
            questions = _questions(numbers, size, ORIGINAL)
            before = worked(servers[size])
            rate = size * questions.closed_loop(servers[size].port, ROUNDS_AT_ONCE, seconds, place)
            costs[size].append((worked(servers[size]) - before) / (rate * seconds))
            return rate

        for size in sizes:
            _questions([1], size, ORIGINAL).check(servers[size].port)
        rates = turn_about({size: partial(demand, size) for size in sizes}, scale.runs)
    print(f"{ROUNDS_AT_ONCE} connections; median of {scale.runs} runs of {seconds} s (least to most)")
    heads = ("Archives, all asked for each redirect", "questions a second", "redirects a second")
    lines = [
        (
            f"{size:,}",
            figure(runs).text(),
            figure(runs).times(1 / size).text(1),
            figure(costs[size]).times(1e6).text(1),
        )
        for size, runs in rates.items()
    ]
    table((*heads, "µs of a processor for one question"), lines)


def _say(scale: Scale) -> None:
    print(f"{CONNECTIONS} connections; median of {scale.runs} runs of {scale(1, 1, 3)} s (least to most)")


def _learned(place: Path, port: int, sizes: tuple[int, ...]) -> dict[int, Path]:
    """A resolver for each size; each is a copy of the one before that has learned more."""
    folders, known, before = dict[int, Path](), 0, place / "hints-0"
    before.mkdir()
    make(before, _ARCHIVES, port)
    for size in sizes:
        folder = folders[size] = place / f"hints-{size}"
        shutil.copytree(before, folder)
        begun = time.perf_counter()
        learn(folder, _ARCHIVES, range(known, size), "n")
        seconds = time.perf_counter() - begun
        print(f"{size - known:,} hints learned in {seconds:,.0f} s  ", file=sys.stderr, flush=True)
        known, before = size, folder
    return folders


def _case(server: Server, items: int, archives: int, scale: Scale) -> Case:
    chance, few = random.Random(5), scale(50, 2_500, 20_000)
    numbers = [chance.randrange(items) for _ in range(min(items, scale(100, 50_000, 500_000)))]
    ready = range(0, items, max(1, items // few))
    return Case(server, _questions(numbers, archives), _questions(itertools.islice(ready, few), archives))


def _questions(numbers: Iterable[int], archives: int, more: str = "") -> Questions:
    return Questions(tuple(f"/{item_of(number % archives, number)}{more}" for number in numbers), status=302)


def _ready(cases: dict[int, Case], port: int, place: Path, scale: Scale) -> dict[int, Figure]:
    """Redirects a second from the redirect cache."""
    tell(port, REUSE)
    for case in cases.values():
        warm(case.server.port, case.warm)
    return _rates({size: (case.server, case.warm) for size, case in cases.items()}, place, scale)


def _rates(servers: dict[int, tuple[Server, Questions]], place: Path, scale: Scale) -> dict[int, Figure]:
    """Redirects a second, all sizes turn about."""

    def rate(size: int) -> float:
        server, questions = servers[size]
        return questions.closed_loop(server.port, CONNECTIONS, scale(1, 1, 3), place)

    for server, questions in servers.values():
        questions.check(server.port)
    found = turn_about({size: partial(rate, size) for size in servers}, scale.runs)
    return {size: figure(runs) for size, runs in found.items()}


def _start(folder: Path) -> float:
    """Seconds from the command to the word that all is ready, the files being in the memory of the system."""
    for path in folder.glob("*/data.mdb"):
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
    serve = ("-m", "ibi", "resolver", "serve", "--data", str(folder), "--bind", "127.0.0.1:0")
    command = ["taskset", "-c", str(SERVER_CORE), sys.executable, *serve]
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:  # noqa: S603 - our own command
        assert process.stdout is not None  # noqa: S101 - it was asked for
        output = b""
        for line in process.stdout:
            output += line
            if line.startswith(b"ready "):
                break
        seconds = time.perf_counter() - begun
        process.terminate()
        process.wait(_TIMEOUT)
    if b"ready " not in output:
        raise NotStarted(f"a resolver did not start: {output[-2000:].decode(errors='replace')}")
    return seconds
