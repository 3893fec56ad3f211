"""A fast first look at mutants: one run of pytest collects the tests, and tries each mutant in a fork of itself.

`trial` starts Python, pytest and the imports anew for each mutant, which takes ten seconds and more; a fork has all of
that, and takes less than one: it gives the loaded functions the changed code (`loaded`), and runs tests until one fails
(`forks`). Only near and fast tests are run, so what none of them notices may be noticed by others.

Mutants are tried in the process of the tests. A server or a command that a test starts reads the changed file, too, but
the tests that start one rarely are fast enough; and what runs at import is not tried. `trial` does both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from mutation.operators import Point
from mutation.reach import Reach, in_order, nearness
from mutation.sample import Place
from mutation.tree import LEFT_OUT, Tree
from mutation.trial import TEST_SECONDS, Tried, reaching

FOLDER: Final = "IBI_MUTATION_SURVEY"
"""The variable of the environment that names the folder in which a survey works: see `forks`."""
SPARE_SECONDS: Final = 10.0
"""Seconds that the tests of a mutant may take beyond three times what was measured; then they hang."""
UNIT: Final = "tests/unit/"

AT_IMPORT: Final = "at import"
NOT_LOADED: Final = "not in the code of a function that is loaded"
TOO_SLOW: Final = "only slow tests reach it, or such as were not wanted"
"""Why a mutant was not tried."""

FAILS_ANYWAY: Final = "each test that reaches it fails without it, too"
OUTSIDE: Final = "the process ended, or hung, between two tests"
"""Why nothing is sure of one that was tried."""


@dataclass(frozen=True)
class Planned:
    """A mutant that is to be tried."""

    area: str
    file: str
    point: Point
    tests: Sequence[int]
    """The tests to run, in this order: their places in `Plan.names`."""
    reaching: int
    """How many tests reach it, these among them."""


@dataclass(frozen=True)
class Plan:
    """All that the process needs which tries mutants."""

    date: str
    commit: str
    seed: int
    names: Sequence[str]
    """The node ids of the tests to run."""
    planned: Sequence[Planned]
    recorded: Mapping[str, float]
    """Test -> its seconds when tests were recorded; what is not here is new."""
    near: Mapping[str, Sequence[str]]
    """Source file -> the test files whose place says that they test it: new tests in these are run, too."""
    seconds: float
    """How long the tests of one mutant may take, as they were measured."""
    spare_seconds: float = SPARE_SECONDS

    def files(self, root: Path) -> list[str]:
        """The test files to collect, of those that are still below `root`."""
        named = {name.partition("::")[0] for name in self.names}
        return sorted(file for file in named.union(*self.near.values()) if (root / file).is_file())

    def text(self) -> str:
        """As `read_plan` reads it."""
        return json.dumps(asdict(self))


def read_plan(text: str) -> Plan:
    """A plan from its text."""
    data = json.loads(text)
    planned = [Planned(**{**each, "point": Point(**each["point"])}) for each in data.pop("planned")]
    return Plan(planned=planned, **data)


def within(tests: Iterable[str], seconds: Mapping[str, float], most: float) -> list[str]:
    """Of tests in this order, those that take at most so many seconds in all; one that is too slow is passed over."""
    total, found = 0.0, list[str]()
    for test in tests:
        if total + seconds[test] <= most:
            total += seconds[test]
            found.append(test)
    return found


def planned(
    chosen: Sequence[tuple[str, Place]],
    sources: Mapping[str, str],
    reach: Reach,
    seconds: float,
    *,
    unit: bool,
) -> tuple[list[str], list[Planned]]:
    """The names of all tests to run, and the mutants, of which those at import have none.

    `chosen`: mutants, each with its area; `sources`: file, named as below `src` -> text; `unit`: only tests of UNIT.
    """
    names, found = dict[str, int](), list[Planned]()
    measured = {each.test: each.seconds for each in reach.ended}
    for area, (file, point) in chosen:
        tests = set() if point.at_import else reaching(reach, (file, point), sources[file])
        ordered = in_order((test for test in tests if _is_wanted(test, unit=unit)), reach.ended, file)
        numbers = [names.setdefault(test, len(names)) for test in within(ordered, measured, seconds)]
        found.append(Planned(area, file, point, numbers, len(tests)))
    return list(names), found


def near_tests(files: Iterable[str], tests: Iterable[str], *, unit: bool) -> dict[str, list[str]]:
    """Source file (named as below `src`) -> the test files (as in the checkout) that are near it."""
    wanted = [test for test in tests if not test.startswith(LEFT_OUT) and _is_wanted(test, unit=unit)]
    return {file: [test for test in wanted if nearness(test, file)] for file in files}


def _is_wanted(test: str, *, unit: bool) -> bool:
    return not unit or test.startswith(UNIT)


def surveyed(tree: Tree, plan: Plan, left_out: list[str]) -> Iterator[Tried]:
    """Try all mutants of a plan in a copy, each told as soon as it was tried.

    The tests that do not pass without a mutant either are added to `left_out` in the end. Raises RuntimeError, with
    what pytest wrote, where it ended before the plan.
    """
    with TemporaryDirectory(prefix="ibi-survey-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)  # PostgreSQL runs as another user
        (folder / "plan").write_text(plan.text(), encoding="utf-8")
        results = folder / "results"
        results.touch()
        (folder / "left-out").touch()
        words = ["-p", "no:xdist", "-p", "mutation.forks", "-o", f"timeout={TEST_SECONDS}"]
        ended = 0
        with tree.started([*words, *plan.files(tree.root)], folder / "record", {FOLDER: name}) as process:
            for line in _lines(results, lambda: process.poll() is not None):
                ended += 1
                yield Tried(**json.loads(line))
        if ended < len(plan.planned):
            raise RuntimeError((folder / "record/output").read_text(encoding="utf-8", errors="replace"))
        left_out += sorted({*(folder / "left-out").read_text(encoding="utf-8").splitlines()})


def _lines(file: Path, is_whole: Callable[[], bool]) -> Iterator[str]:
    """The lines of a file that another process writes, as they come, until it has ended."""
    with file.open(encoding="utf-8") as read:
        part = ""
        while True:
            whole = is_whole()
            *lines, part = (part + read.read()).split("\n")
            yield from lines
            if whole:
                return
            time.sleep(0.1)
