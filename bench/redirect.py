"""A warm redirect, beside others that give one: nginx from a map, uvicorn with nothing behind it, arklet.

Every server is held on one core, where only one of them is asked at a time, turn about; the load, and the stub Archives
that receive our acknowledgments, are on the other. nginx sends the same headers as we do. Requests have two
headers, or a browser's ten. The last line is the load itself, against a server of this folder that only answers.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from bench import arklet
from bench.cached_redirects import REUSE, resolver, warm
from bench.figures import aim, figure, table
from bench.nginx import headers_of, nginx_map
from bench.open_loop import Waits, open_loop
from bench.processes import NotHere, hold_this_process, serving, worked
from bench.questions import TEN, Questions
from bench.resolving_load import make
from bench.stubs import item_of, stubs, tell
from bench.turns import turn_about

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.figures import Figure
    from bench.processes import Server
    from bench.scale import Scale

ARCHIVES: Final = 100
KEYS: Final = 100_000
"""In the map of nginx, whatever is asked for."""
CONNECTIONS: Final = 32
LOADED: Final = 0.7

_FAST, _SLOW, _BARE, _NEIGHBOUR = (
    "fast path",
    "ordinary path, from the cache",
    "uvicorn alone",
    "nginx, a map",
)


@dataclass
class Case:
    """One line of the table, and what its runs gave."""

    name: str
    server: Server
    questions: Questions
    costs: list[float] = field(default_factory=list)
    """Seconds of a processor for one."""

    def run(self, seconds: int, folder: Path) -> float:
        """Answers a second of one run, each connection asking as soon as it has its answer.

        One that is not counted comes before it where answers come from the in-process cache, since the server has
        been idle since its last turn.
        """
        if self.name == _FAST:
            self.questions.closed_loop(self.server.port, CONNECTIONS, seconds, folder)
        before = worked(self.server)
        rate = self.questions.closed_loop(self.server.port, CONNECTIONS, seconds, folder)
        self.costs.append((worked(self.server) - before) / (rate * seconds))
        return rate

    def wait(self, seconds: float, folder: Path) -> Waits:
        """How long answers take at LOADED of the rate that it reaches at this very moment.

        What else a machine does changes from second to second: seven tenths of what a server reached a minute ago may
        be more than all that it can do now.
        """
        rate = self.questions.closed_loop(self.server.port, CONNECTIONS, 1, folder)
        return open_loop(self.server.port, self.questions, LOADED * rate, seconds)


def measure(place: Path, scale: Scale) -> None:
    """Measure and print. Raises NotHere without wrk or nginx."""
    hold_this_process()
    place.chmod(0o711)  # PostgreSQL runs as another user
    items = scale(200, 10_000, KEYS)
    with ExitStack() as stack:
        cases = list(_cases(stack, place, scale, items))
        for case in cases:
            case.questions.check(case.server.port)
        seconds = scale(1, 1, 3)
        runs = {at: partial(case.run, seconds, place) for at, case in enumerate(cases)}
        near = [at for at, case in enumerate(cases) if case.name in {_FAST, _NEIGHBOUR}]
        found = turn_about({at: runs.pop(at) for at in near}, scale(1, 5, 15))
        found |= turn_about(runs, scale.runs)
        rates = [figure(found[at]) for at in range(len(cases))]
        heard = {at: case for at, case in enumerate(cases) if _is_heard(case)}
        waits = turn_about(
            {at: partial(case.wait, scale(0.1, 1, 3), place) for at, case in heard.items()}, scale.runs
        )
    print(
        f"{items:,} items of {ARCHIVES} Archives, {CONNECTIONS} connections; median of {len(rates[0].runs)} runs of "
        f"{seconds} s (least to most), of those that are further away of {scale.runs}; the fast path has one before "
        "each that is not counted; waiting in milliseconds, from the moment a request was due, at 70 % of the rate in "
        "the second before"
    )
    _tell(cases, rates, waits)


def _is_heard(case: Case) -> bool:
    """Whether it is measured how long it lets one wait: of those that are far away the rate says enough."""
    far = (
        case.name == _BARE
        or "arklet" in case.name
        or (case.name == _NEIGHBOUR and case.questions.headers == TEN)
    )
    return not far


def _tell(cases: list[Case], rates: list[Figure], heard: dict[int, list[Waits]]) -> None:
    base = {len(case.questions.headers): at for at, case in enumerate(cases) if case.name == _NEIGHBOUR}
    lines = []
    for at, (case, rate) in enumerate(zip(cases, rates, strict=True)):
        headers = len(case.questions.headers)
        ratio = _ratio(rate, rates[base[headers]])
        waits = [
            figure(run.within(share) * 1e3 for run in heard[at])
            for share in (0.5, 0.99, 0.999)
            if at in heard
        ]
        cost = figure(case.costs).times(1e6).text(1)
        lines.append(
            (
                case.name,
                str(headers),
                rate.text(),
                ratio.text(2),
                cost,
                *(wait.text(2) for wait in waits or ()),
            )
        )
        if case.name == _FAST:
            aim(f"a warm redirect with {headers} headers, of nginx's map", ratio, at_least=0.8)
            aim(f"a warm redirect with {headers} headers, 99 of 100 within, ms", waits[1], at_most=2)
            _beside_arklet(f"a warm redirect with {headers} headers", rate, cases, rates)
    heads = ("who, on one core", "headers", "redirects a second", "of nginx", "µs of a processor for one")
    table(
        (*heads, "50 of 100 within", "99 of 100", "999 of 1,000"),
        ((*line, *[""] * (8 - len(line))) for line in lines),
    )


def _ratio(one: Figure, other: Figure) -> Figure:
    """Run by run where they worked turn about, else to the median of the other."""
    return one / other if len(one.runs) == len(other.runs) else one.times(1 / other.median)


def _beside_arklet(what: str, rate: Figure, cases: list[Case], rates: list[Figure]) -> None:
    """Keep how many times faster it is than arklet as it ships, and than the fastest way to run it."""
    theirs = {case.name: other for case, other in zip(cases, rates, strict=True) if "arklet" in case.name}
    for name, other in theirs.items():
        if "ships" in name:
            aim(f"{what}, times {name}", _ratio(rate, other), at_least=100, decimals=0)
    if theirs:
        fastest = max(theirs, key=lambda name: theirs[name].median)
        aim(f"{what}, times {fastest} (its fastest)", _ratio(rate, theirs[fastest]), at_least=100, decimals=0)


def _cases(stack: ExitStack, place: Path, scale: Scale, items: int) -> Iterator[Case]:
    around = stack.enter_context(stubs(ARCHIVES, place))
    targets = tuple(
        f"/{item_of(number % ARCHIVES, number, 'h')}" for number in range(max(items, scale(200, KEYS, KEYS)))
    )
    ours = Questions(targets[:items], status=302)
    both = (ours, replace(ours, headers=TEN))
    first, second = _warmed(stack, place, around.port, ours)
    yield from (Case(_FAST, first, questions) for questions in both)
    yield Case(_SLOW, second, ours)
    neighbour = stack.enter_context(nginx_map(place / "nginx", targets, headers_of(first.port, ours)))
    yield from (Case(_NEIGHBOUR, neighbour, questions) for questions in both)
    command = (sys.executable, "-m", "uvicorn", "bench.bare:app", "--port", "0", "--no-access-log")
    bare = stack.enter_context(serving((*command, "--http", "httptools", "--loop", "uvloop"), place / "bare"))
    yield Case(_BARE, bare, ours)
    yield from _arklets(stack, place, scale)
    trivial = stack.enter_context(serving((sys.executable, "-m", "bench.load", "1"), place / "trivial"))
    yield Case("the load itself", trivial, replace(ours, status=200))


def _warmed(stack: ExitStack, place: Path, port: int, questions: Questions) -> tuple[Server, Server]:
    """The same resolver twice, with the fast path and without; both have all these redirects cached."""
    data, twin = place / "resolver", place / "twin"
    data.mkdir()
    make(data, ARCHIVES, port)
    tell(port, REUSE)
    with resolver(data, redirects=len(questions.targets)) as server:
        warm(server.port, questions)
    shutil.copytree(data, twin)
    first = stack.enter_context(resolver(data))
    warm(first.port, questions)  # redirects are in the memory of a process
    return first, stack.enter_context(resolver(twin, fast_path=False))


def _arklets(stack: ExitStack, place: Path, scale: Scale) -> Iterator[Case]:
    """Every way to run arklet."""
    names, ways = scale(200, 5_000, 20_000), scale(arklet.WAYS[2:], arklet.WAYS[::2], arklet.WAYS)
    try:
        running = stack.enter_context(arklet.arklets(place, ways, names))
    except NotHere as lacking:
        print(f"{lacking}\n")
        return
    questions = Questions(tuple(map(arklet.target_of, range(names))), status=302)
    for one in running:
        yield Case(f"arklet, {one.name}", one.web, questions)
