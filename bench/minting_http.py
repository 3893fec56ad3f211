"""Labels over HTTP, every one durable: our service on one core, beside arklet, which mints ARKs, on the same core.

    python -m bench.minting_http [--dir DIR] [--arklet-python PYTHON]

The load runs on the other core; what it could do at most is measured against a server that only answers. All cases
work turn about, on one disk. Every label is kept and looked at after its run: one given twice ends the benchmark.
Without --arklet-python, arklet is installed from PyPI into an environment of its own; it takes half a minute more.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench import arklet
from bench.disk import SyncProbe, add_option, surroundings, workplace
from bench.figures import figure, table
from bench.load import Answers, load, post
from bench.processes import NotStarted, Server, hold_this_process, run, serving, syncs_during

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

RUNS = 5
SECONDS, WARMING = 1.5, 0.5
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

    def measure(self) -> None:
        """One run that counts."""
        count, answers = self.go(SECONDS)
        self.rates.append(count / answers.seconds)
        self.waits.append(answers.wait[0] * 1000)
        self.longest.append(answers.wait[1] * 1000)


def main() -> None:
    """Print the tables in Markdown."""
    parser = argparse.ArgumentParser(description="labels over HTTP, beside arklet")
    add_option(parser)
    parser.add_argument("--arklet-python", type=Path, metavar="PYTHON", help="of an environment with arklet")
    args = parser.parse_args()
    with workplace(args.dir) as folder, ExitStack() as stack:
        folder.chmod(0o711)  # PostgreSQL runs as somebody else
        print(f"{surroundings(folder)}; median of {RUNS} runs of {SECONDS:g} s (least to most)")
        ours = list(_ours(stack, folder))
        theirs = list(_theirs(stack, folder, args.arklet_python))
        hold_this_process()
        _print_ceiling(folder)
        _print_cases(ours, theirs, folder)


def _print_ceiling(folder: Path) -> None:
    """What the load reaches against a server that only answers: no case can be faster than that."""
    lines = []
    for connections, size in _SIZES.items():
        command = [sys.executable, "-m", "bench.load", str(size)]
        with serving(command, folder / f"trivial{connections}.log") as server:
            rates = [load(server.port, post("/", b"{}", "-"), connections, 0.5).rate for _ in range(RUNS)]
        lines.append((f"connections: {connections}; bytes of an answer: {size:,}", figure(rates).text()))
    table(("the load itself, against a server that only answers", "requests a second"), lines)


def _print_cases(ours: list[Case], theirs: list[Case], folder: Path) -> None:
    cases, latencies = ours + theirs, list[float]()
    for case in cases:
        case.go(WARMING)
    with closing(SyncProbe(folder)) as probe:
        for at in range(RUNS):
            for case in cases[:: -1 if at % 2 else 1]:
                latencies.append(probe.seconds() * 1e6)
                case.measure()
    print(
        f"\none sync of this disk (512 bytes in place, fdatasync), turn about: {figure(latencies).text()} µs"
    )
    for case in cases:
        case.syncs = _syncs(case, folder)
    heads = ("who, on one core", "connections", "labels a second", "answer in ms", "99 of 100 in ms")
    table((*heads, "syncs for one label, under strace"), map(_columns, cases))
    pairs = [(one, other) for one in ours for other in theirs if _alike(one, other)]
    ratios = [
        (other.name, str(other.connections), (figure(one.rates) / figure(other.rates)).text(1))
        for one, other in pairs
    ]
    table((f"single labels of ours, r = {GRANULARITY}, are faster than", "connections", "times"), ratios)


def _alike(one: Case, other: Case) -> bool:
    """Whether two cases ask for single labels over as many connections, and nothing else slows them down."""
    return one.connections == other.connections and "single" in one.name and "auto" not in one.name


def _columns(case: Case) -> tuple[str, ...]:
    waits = [figure(waits).text(1) for waits in (case.waits, case.longest)]
    return case.name, str(case.connections), figure(case.rates).text(), *waits, case.syncs


def _syncs(case: Case, folder: Path) -> str:
    """Syncs for one label. Watched, a server is slower, so this run has no part in the rates."""
    counts = list[int]()
    syncs = syncs_during(lambda: counts.append(case.go(1)[0]), case.servers, folder / "strace")
    return "not counted" if syncs is None else f"{syncs / counts[0]:.4f}"


def _ours(stack: ExitStack, folder: Path) -> Iterable[Case]:
    for granularity in (GRANULARITY, "auto"):
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
        for connections in (1, 32, 64):
            yield case(f"single labels, both forms, r = {granularity}", connections, b'{"count":1}')


def _texts(body: bytes) -> list[list[str]]:
    return [[label["rep"], *filter(None, [label["ibip"]])] for label in json.loads(body)["labels"]]


def _theirs(stack: ExitStack, folder: Path, python: Path | None) -> Iterable[Case]:
    """Every way to run arklet; none, and a sentence, where it cannot be had."""
    try:
        running = stack.enter_context(arklet.arklets(python or arklet.environment(folder / "arklet"), folder))
    except NotStarted as error:
        print(f"\narklet is not measured: {error}")
        return
    for one in running:
        print(f"\narklet, {one.name}: {one.durability}")
        given = set[str]()
        for connections in (1, 32):
            yield Case(f"arklet, {one.name}", one.servers, one.request, connections, _arks, given)


def _arks(body: bytes) -> list[list[str]]:
    return [[json.loads(body)["ark"]]]


if __name__ == "__main__":
    main()
