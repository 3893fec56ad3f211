"""Try one mutant: write it into the copy, run the tests that reach it until one fails, put the source back."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

import pytest

from mutation.collection import kept_source
from mutation.operators import mutant
from mutation.reach import Reach, in_order, old_lines, read_record
from mutation.sample import Place
from mutation.tree import Tree

TEST_SECONDS: Final = 60
"""A test that takes longer has failed: the mutant may have made it wait for ever."""

FIGURES: Final = "tests/style/test_limits.py::test_the_page_is_current"
"""Compares the constants of modules with the page that lists them, and reaches no line."""

Outcome = Literal["killed", "survived", "unreached", "unfinished", "unsure", "untried"]
"""A test failed, or did not end; none did; no test reaches the line; the time was over while none had failed; a test
failed, and fails without the mutant, too; a survey cannot try it."""
NOT_COLLECTED: Final = "without the mutant, too, some of the tests cannot be collected"


@dataclass(frozen=True)
class Tried:
    """What became of a mutant; as a JSON line, its fields by name."""

    date: str
    commit: str
    seed: int
    area: str
    file: str
    line: int
    kind: str
    before: str
    after: str
    outcome: Outcome
    by: str
    """The test that failed or did not end; "" if none, or if the tests could not be imported any more; why untried."""
    tests: int
    """How many reach the line."""
    seconds: float
    equivalent: str = ""
    """Why no test can notice a survivor, in one line; a person writes it here."""


@dataclass
class Trials:
    """Mutants are tried in one copy, one after the other."""

    tree: Tree
    reach: Reach
    seconds: float
    """How long the tests of one mutant may take in all."""
    more: Sequence[str] = ()
    """Test files that count as reaching every mutant, as they are newer than what was recorded."""
    longest: int = TEST_SECONDS
    """How long one test may take."""
    _sound: set[str] = field(default_factory=set)
    """Tests that were seen to pass without a mutant."""

    def tests(self, place: Place) -> list[str]:
        """The tests that reach a point, `in_order`; before them files of `more`, and for constants FIGURES."""
        file, point = place
        source = (self.tree.root / "src" / file).read_text(encoding="utf-8")
        old = (
            test for test in reaching(self.reach, place, source) if test.partition("::")[0] not in self.more
        )
        figures = [FIGURES] if point.at_import and point.kind == "constant" else []
        return [*figures, *self.more, *in_order(old, self.reach.ended, file)]

    def attempt(self, place: Place) -> tuple[Outcome, str, int]:
        """What became of the mutant at a point, the test that failed, and how many tests reach the point."""
        tests = self.tests(place)
        if not tests:
            return "unreached", "", 0
        file, point = place
        source = (self.tree.root / "src" / file).read_text(encoding="utf-8")
        self.tree.write(f"src/{file}", mutant(source, point.index).source)
        try:
            status, failed = until_one_fails(self.tree, tests, self.seconds, self.longest)
        finally:
            self.tree.write(f"src/{file}", source)
        if status is None:
            return "unfinished", "", len(tests)
        if status == 0:
            return "survived", "", len(tests)
        if self._passes(failed, tests):
            return "killed", failed, len(tests)
        return "unsure", failed or NOT_COLLECTED, len(tests)

    def _passes(self, failed: str, tests: Iterable[str]) -> bool:
        """Whether what failed passes without the mutant; without a test, whether the tests can be imported."""
        if failed in self._sound:
            return True
        words = [failed] if failed else ["--collect-only", *tests]
        status, _ = until_one_fails(self.tree, words, None)
        if failed and status == 0:
            self._sound.add(failed)
        return status == 0


def reaching(reach: Reach, place: Place, source: str) -> set[str]:
    """The tests that reach a point of a source file as it is now; where none reaches the line, those of the module."""
    file, point = place
    lines = old_lines(kept_source(file), source, range(point.statement, point.line + 1))
    found = set[str]() if point.at_import else reach.of_lines(file, lines)
    return found or reach.of_module(file)


def until_one_fails(
    tree: Tree, words: Iterable[str], seconds: float | None, longest: int = TEST_SECONDS
) -> tuple[int | None, str]:
    """The status of pytest, which stops at the first failure, and the test that failed.

    A test that is still at work after `longest` has failed as well: its time-out could not end it, or what a fixture
    started does not end.
    """
    with TemporaryDirectory(prefix="ibi-trial-") as name:
        record = Path(name) / "record"
        record.mkdir()
        arguments = Path(name) / "tests"
        arguments.write_text("\n".join(words), encoding="utf-8")
        options = [
            "-x",
            "-p",
            "no:xdist",
            "-o",
            f"timeout={longest}",
            f"--basetemp={name}/temporary",
        ]
        run = tree.pytest([*options, f"@{arguments}"], record, seconds)
        failed = [
            each.test for file in record.glob("*.jsonl") for each in read_record(file) if not each.passed
        ]
        hung = [
            file.read_text(encoding="utf-8")
            for file in record.glob("*.running")
            if time.time() - file.stat().st_mtime > longest
        ]
        shutil.rmtree(Path(name) / "temporary", ignore_errors=True)
    if run.status is None and hung:
        return pytest.ExitCode.TESTS_FAILED, hung[-1]
    return run.status, failed[-1] if failed else ""


def tried(trials: Trials, place: Place, *, date: str, commit: str, seed: int, area: str) -> Tried:
    """Try the mutant at a point, and tell all of it."""
    file, point = place
    changed = mutant((trials.tree.root / "src" / file).read_text(encoding="utf-8"), point.index)
    began = time.monotonic()
    outcome, by, tests = trials.attempt(place)
    return Tried(
        date, commit, seed, area, file, point.line, point.kind, changed.before, changed.after, outcome, by, tests,
        round(time.monotonic() - began, 1),
    )  # fmt: skip
