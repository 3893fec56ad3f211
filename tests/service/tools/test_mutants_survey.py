"""A survey tries each mutant in a fork of one run of tests, and nothing of a fork outlives it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mutation.operators import points
from mutation.survey import AT_IMPORT, NOT_LOADED, TOO_SLOW, Plan, Planned, surveyed
from mutation.tree import Tree

SAMPLE = """
LIMIT = 5

def larger(a, b):
    return a > b

def waited():
    return "waited"

def said():
    return "said"

def wrong(b):
    return b

def new(c):
    return c

def around(d):
    def inner():
        return d
    return inner

made = around(())
"""
OTHER = "def unseen(e):\n    return e\n"
TESTS = """
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tiny import sample

def test_larger():
    assert sample.larger(2, 1)

def test_waited():
    while sample.waited() is None:
        time.sleep(0.1)

def test_said():
    command = [sys.executable, "-c", "from tiny import sample; print(sample.said())"]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "said\\n"

def test_wrong():
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path("left").write_text(f"{process.pid} {tempfile.mkdtemp()}")
    assert sample.wrong(2) == 3

def test_new(tmp_path):
    assert sample.new(1) == 1
"""
FILE = "tests/unit/tiny/test_sample.py"
RECORDED = {f"{FILE}::test_{name}": 0.01 for name in ("larger", "waited", "wrong", "said")}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    files = {
        "src/tiny/__init__.py": "",
        "src/tiny/sample.py": SAMPLE,
        "src/tiny/other.py": OTHER,
        FILE: TESTS,
        "pytest.ini": "[pytest]\naddopts = -p no:schemathesis -p no:anyio -p no:pyreqwest\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Tree(tmp_path, Path(sys.executable))


def _plan() -> Plan:
    """All mutants, all but the last one with all recorded tests; `test_new` was never recorded."""
    *some, last = points(SAMPLE)
    found = [
        *(Planned("tiny", "tiny/sample.py", point, [0, 1, 2, 3], 4) for point in some),
        Planned("tiny", "tiny/sample.py", last, [], 4),
        *(Planned("tiny", "tiny/other.py", point, [], 0) for point in points(OTHER)),
    ]
    return Plan("2026-11-30", "abc", 1, [*RECORDED], found, RECORDED, {"tiny/sample.py": [FILE]}, 5.0)


def test_each_mutant_is_noticed_or_not_or_not_tried_and_nothing_of_it_is_left(tree: Tree) -> None:
    left_out = list[str]()
    ended = {(one.before, one.kind): (one.outcome, one.by) for one in surveyed(tree, _plan(), left_out)}
    assert ended == {
        ("LIMIT = 5", "constant"): ("untried", AT_IMPORT),
        ("return a > b", "return"): ("killed", f"{FILE}::test_larger"),
        ("return a > b", "comparison"): ("survived", ""),  # it compares no equal ones
        ('return "waited"', "return"): ("killed", f"{FILE}::test_waited"),  # which hung
        ('return "said"', "return"): ("killed", f"{FILE}::test_said"),  # which starts a process
        ("return b", "return"): ("survived", ""),  # the test of it is left out
        ("return c", "return"): ("killed", f"{FILE}::test_new"),
        ("return d", "return"): ("untried", NOT_LOADED),  # a loaded closure would need fewer variables
        ("return inner", "return"): ("untried", TOO_SLOW),  # of the tests that reach it, none is to be run
        ("return e", "return"): ("unreached", ""),
    }
    assert left_out == [f"{FILE}::test_wrong"]
    assert (tree.root / "src/tiny/sample.py").read_text() == SAMPLE
    process, folder = (tree.root / "left").read_text().split()
    assert not Path(folder).exists()
    assert not Path(f"/proc/{process}").exists()


def test_a_survey_that_ends_early_tells_what_pytest_said(tree: Tree) -> None:
    (tree.root / "pytest.ini").write_text("[pytest]\naddopts = --not-an-option\n")
    with pytest.raises(RuntimeError, match="not-an-option"):
        list(surveyed(tree, _plan(), []))
