"""Labels over HTTP, every one durable: our service on one core, beside arklet, which mints ARKs, on the same core.

The load runs on the other core; what it could do at most is measured against a server that only answers. All cases
work turn about, on one disk. Every label is kept and looked at after its run: one given twice ends the benchmark.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench import arklet
from bench.disk import SyncProbe
from bench.figures import aim, figure, table
from bench.load import Answers, load, post
from bench.processes import NotHere, Server, hold_this_process, run, serving, syncs_during
from bench.turns import turn_about

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bench.scale import Scale

WARM_UP = 0.3  # seconds
GRANULARITY = "0.000001"
_SUBSYSTEM = ("--host", "mint.example.org", "--ip", "150.163.34.243")
_IBI = (sys.executable, "-m", "ibi", "mint")
_SIZES = {1: 150, 8: 12_000, 32: 150, 64: 150}  # bytes of an answer, about, by connections


class Twice(Exception):
    """A label was given a second time."""


@dataclass
class Case:
    """One line of the table. Of each run: labels a second, and the milliseconds an answer took, mostly and at most."""

    name: str
    servers: tuple[Server, ...]
    request: bytes
    connections: int
    labels: Callable[[bytes], list[list[str]]]  # the forms of each label in an answer
    given: set[str]
    rates: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    longest: list[float] = field(default_factory=list)
    syncs: str = ""

    def go(self, seconds: float) -> tuple[int, Answers]:
        """One run, its labels looked at. Returns how many, and the answers."""
        answers = load(self.servers[0].port, self.request, self.connections, seconds)
        labels = [label for body in answers.bodies for label in self.labels(body)]
        forms = [form for label in labels for form in label]
        before = len(self.given)
        self.given.update(forms)
        if len(self.given) - before != len(forms):
            raise Twice(f"{self.name}: a label was given twice")
        return len(labels), answers

    def measure(self, seconds: float) -> None:
        """One run that counts."""
        count, answers = self.go(seconds)
        self.rates.append(count / answers.seconds)
        self.waits.append(answers.wait[0] * 1000)
        self.longest.append(answers.wait[1] * 1000)


def measure(place: Path, scale: Scale) -> None:
    """Measure and print."""
    place.chmod(0o711)  # PostgreSQL runs as another user
    with ExitStack() as stack:
        ours = list(_ours(stack, place, scale))
        theirs = list(_theirs(stack, place, scale))
        hold_this_process()
        print(f"\nmedian of {scale.runs} runs of {_seconds(scale):g} s (least to most)")
        _print_ceiling(place, scale)
        _print_cases(ours, theirs, place, scale)


def _seconds(scale: Scale) -> float:
    return scale(0.05, 0.5, 2.0)


def _print_ceiling(folder: Path, scale: Scale) -> None:
    """What the load reaches against a server that only answers: no case can be faster than that."""
    lines = []
    for connections, size in list(_SIZES.items())[scale(3, 1, 0) : scale(4, 3, 4)]:
        command = [sys.executable, "-m", "bench.load", str(size)]
        with serving(command, folder / f"trivial{connections}.log") as server:
            request = post("/", b"{}", "-")
            rates = [
                load(server.port, request, connections, scale(0.05, 0.3, 0.5)).rate for _ in range(scale.runs)
            ]
        lines.append((f"connections: {connections}; bytes of an answer: {size:,}", figure(rates).text()))
    table(("the load itself, against a server that only answers", "requests a second"), lines)


def _print_cases(ours: list[Case], theirs: list[Case], folder: Path, scale: Scale) -> None:
    cases, latencies = ours + theirs, list[float]()
    for case in cases:
        case.go(WARM_UP)
    with closing(SyncProbe(folder)) as probe:
        turn_about(
            {at: partial(case.measure, _seconds(scale)) for at, case in enumerate(cases)},
            scale.runs,
            lambda: latencies.append(probe.seconds() * 1e6),
        )
    print(
        f"\none sync of this disk (512 bytes in place, fdatasync), turn about: {figure(latencies).text()} µs"
    )
    for case in cases if scale.name == "full" else ours[:1] + ours[-1:]:  # it takes seconds each time
        case.syncs = _syncs(case, folder, _seconds(scale))
    heads = ("who, on one core", "connections", "labels a second", "answer in ms", "99 of 100 in ms")
    table((*heads, "syncs for one label, under strace"), map(_columns, cases))
    aim("labels a second at 100 a request", figure(ours[0].rates), at_least=30_000, decimals=0)
    single = next(case for case in ours if case.connections == 32)
    aim("single labels a second", figure(single.rates), at_least=2_000, decimals=0)
    pairs = [(one, other) for one in ours for other in theirs if _comparable(one, other)]
    ratios = [
        (other.name, str(other.connections), (figure(one.rates) / figure(other.rates)).text(1))
        for one, other in pairs
    ]
    table((f"single labels of ours, r = {GRANULARITY}, are faster than", "connections", "times"), ratios)


def _comparable(one: Case, other: Case) -> bool:
    """Whether two cases ask for single labels over as many connections, and nothing else slows them down."""
    return one.connections == other.connections and "single" in one.name and "auto" not in one.name


def _columns(case: Case) -> tuple[str, ...]:
    waits = [figure(waits).text(1) for waits in (case.waits, case.longest)]
    return case.name, str(case.connections), figure(case.rates).text(), *waits, case.syncs


def _syncs(case: Case, folder: Path, seconds: float) -> str:
    """Syncs for one label. Watched, a server is slower, so this run has no part in the rates."""
    counts = list[int]()
    syncs = syncs_during(lambda: counts.append(case.go(seconds)[0]), case.servers, folder / "strace")
    return "not counted" if syncs is None else f"{syncs / counts[0]:.4f}"


def _ours(stack: ExitStack, folder: Path, scale: Scale) -> Iterable[Case]:
    for granularity in scale((GRANULARITY,), (GRANULARITY,), (GRANULARITY, "auto")):
        data = folder / f"data-{granularity}"
        token = run([*_IBI, "token", "--data", data, "--name", "bench"]).strip()
        options = ("--data", data, *_SUBSYSTEM, "--bind", "127.0.0.1:0", "--granularity", granularity)
        server = stack.enter_context(serving([*_IBI, "serve", *options], folder / f"{granularity}.log"))
        given = set[str]()

        def case(
            name: str,
            connections: int,
            order: bytes,
            *,
            server: Server = server,
            token: str = token,
            given: set[str] = given,
        ) -> Case:
            request = post("/-/api/mint", order, f"Bearer {token}")
            return Case(name, (server,), request, connections, _texts, given)

        if granularity == "auto":
            yield case("single labels, both forms, r = auto", 64, b'{"count":1}')
            continue
        yield case(f"100 labels a request, both forms, r = {granularity}", 8, b'{"count":100}')
        yield case(f"100 labels a request, rep only, r = {granularity}", 8, b'{"count":100,"forms":"rep"}')
        for connections in scale((32,), (1, 32), (1, 32, 64)):
            yield case(f"single labels, both forms, r = {granularity}", connections, b'{"count":1}')


def _texts(body: bytes) -> list[list[str]]:
    return [[label["rep"], *filter(None, [label["ibip"]])] for label in json.loads(body)["labels"]]


def _theirs(stack: ExitStack, folder: Path, scale: Scale) -> Iterable[Case]:
    """Ways to run arklet; none, and a sentence, where it cannot be had."""
    try:
        running = stack.enter_context(
            arklet.arklets(folder, scale(arklet.WAYS[2:], arklet.WAYS[1:], arklet.WAYS))
        )
    except NotHere as lacking:
        print(f"\n{lacking}")
        return
    for one in running:
        print(f"\narklet, {one.name}: {one.durability}")
        given = set[str]()
        for connections in scale((32,), (32,), (1, 32)):
            yield Case(f"arklet, {one.name}", one.servers, one.request, connections, _arks, given)


def _arks(body: bytes) -> list[list[str]]:
    return [[json.loads(body)["ark"]]]
