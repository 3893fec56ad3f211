"""Trying mutants: what a test reaches is seen in every process; a mutant is killed where a test notices it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mutation.collection import kept, measure
from mutation.operators import Point, points
from mutation.reach import Reach
from mutation.tree import Tree
from mutation.trial import FIGURES, NOT_COLLECTED, Trials
from mutation.violations import Violation, attempt

SOURCE = "def larger(a, b):\n    return a > b\n"
TESTS = """
import subprocess
import sys
import time

import pytest
from sample import larger


def test_itself():
    assert larger(2, 1)
    assert not larger(1, 2)


@pytest.fixture(scope="module")
def said_by_another_process():
    command = [sys.executable, "-c", "import sample; print(sample.larger(2, 1))"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_that_asks_first(said_by_another_process):
    assert said_by_another_process == "True\\n"


def test_that_asks_later(said_by_another_process):
    assert said_by_another_process


def test_of_something_else():
    pass


def test_that_always_fails():
    assert not larger(2, 1)


def test_that_does_not_end():
    while larger(2, 1) is None:
        try:
            time.sleep(0.1)
        except BaseException:
            pass
"""
FILE = "test_sample.py"
REACHES = {
    f"{FILE}::test_{name}" for name in ("itself", "that_asks_first", "that_asks_later", "that_does_not_end")
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "tree/src").mkdir(parents=True)
    (tmp_path / "tree/src/sample.py").write_text(SOURCE)
    (tmp_path / "tree" / FILE).write_text(TESTS)
    (tmp_path / "tree/pytest.ini").write_text(
        "[pytest]\naddopts = -p no:schemathesis -p no:anyio -p no:pyreqwest\n"
    )
    return Tree(tmp_path / "tree", Path(sys.executable))


def test_tests_that_reach_a_line_are_known_in_whatever_process_it_runs(tree: Tree, tmp_path: Path) -> None:
    run = measure(tree, ["-p", "no:xdist"], tmp_path / "kept")
    assert run.status == 1, run.output
    reach = kept(tmp_path / "kept")
    assert {each.test for each in reach.ended if not each.passed} == {f"{FILE}::test_that_always_fails"}
    assert reach.of_lines("sample.py", [2]) == REACHES


def _point(kind: str) -> Point:
    return next(point for point in points(SOURCE) if point.kind == kind)


def test_the_page_of_limits_tries_the_constants_of_modules_first(tree: Tree) -> None:
    (tree.root / "src/sample.py").write_text("MOST = 5\n\n\ndef larger(a):\n    return a > 6\n")
    trials = Trials(tree, Reach([], lambda _: {}, {}), 60.0)
    found = points((tree.root / "src/sample.py").read_text())
    tests = {point.line: trials.tests(("sample.py", point)) for point in found if point.kind == "constant"}
    assert tests == {1: [FIGURES], 5: []}


def test_a_mutant_is_killed_survives_or_proves_nothing(tree: Tree) -> None:
    def attempt(kind: str, test: str) -> tuple[str, str, int]:
        reach = Reach([], lambda _: {1: [f"{FILE}::{test}"]}, {})
        trials = Trials(tree, reach, 60.0, more=[f"{FILE}::{test}"])
        return trials.attempt(("sample.py", _point(kind)))

    itself, fails = f"{FILE}::test_itself", f"{FILE}::test_that_always_fails"
    assert attempt("return", "test_itself") == ("killed", itself, 1)
    assert attempt("comparison", "test_itself") == ("survived", "", 1)  # it compares no equal ones
    assert attempt("comparison", "test_that_always_fails") == ("unsure", fails, 1)
    assert attempt("return", "test_that_is_not_there") == ("unsure", NOT_COLLECTED, 1)
    assert (tree.root / "src/sample.py").read_text() == SOURCE


def test_a_mutant_is_killed_by_a_test_that_does_not_end_but_not_by_one_that_only_has_too_little_time(
    tree: Tree,
) -> None:
    test = f"{FILE}::test_that_does_not_end"
    reach = Reach([], lambda _: {}, {})
    hung = Trials(tree, reach, 8.0, more=[test], longest=2).attempt(("sample.py", _point("return")))
    short = Trials(tree, reach, 8.0, more=[test], longest=60).attempt(("sample.py", _point("return")))
    assert (hung, short) == (("killed", test, 1), ("unfinished", "", 1))


def test_a_marked_test_notices_the_mutant_of_its_requirement_or_not(tree: Tree) -> None:
    sound = set[str]()

    def outcome(instead: str, test: str) -> str:
        violation = Violation("GEN-01", "src/sample.py", "a > b", instead, f"{FILE}::test_{test}")
        return attempt(tree, violation, sound)

    assert outcome("a < b", "itself") == "killed"
    assert outcome("a >= b", "itself") == "survived"  # it compares no equal ones
    assert outcome("a < b", "of_something_else") == "survived"
    assert outcome("a >= b", "that_always_fails") == "unsure"
    assert outcome("a < b", "that_is_not_there") == "unsure"
    assert sound == {f"{FILE}::test_itself"}
    assert (tree.root / "src/sample.py").read_text() == SOURCE
