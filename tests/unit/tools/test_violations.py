"""The mutants of requirements are read, and what keeps one from proving anything is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutation.violations import Violation, faults, violations

SOURCES = {"src/ibi/a.py": "x = 1\ny = 1\n"}
PROOFS = {"GEN-01": [("tests/test_a.py", "test_one")], "GEN-02": [("tests/test_b.py", "")]}
GOOD = Violation("GEN-01", "src/ibi/a.py", "x = 1", "x = 2", "tests/test_a.py::test_one")


def test_several_mutants_of_a_requirement_are_read_in_order(tmp_path: Path) -> None:
    file = tmp_path / "violations.toml"
    one = 'file = "src/ibi/a.py"\nsource = "x = 1"\ninstead = "x = 2"\ntest = "tests/test_a.py::test_one"\n'
    file.write_text(f"[[GEN-01]]\n{one}\n[[GEN-01]]\n{one.replace('x =', 'y =')}\n[[GEN-02]]\n{one}")
    assert violations(file) == [
        GOOD,
        GOOD._replace(source="y = 1", instead="y = 2"),
        GOOD._replace(requirement="GEN-02"),
    ]


@pytest.mark.parametrize(
    ("violation", "words"),
    [
        (GOOD._replace(source="= 1"), "stands in src/ibi/a.py 2 times"),
        (GOOD._replace(source="z"), "stands in src/ibi/a.py 0 times"),
        (GOOD._replace(file="src/ibi/b.py"), "stands in src/ibi/b.py 0 times"),
        (GOOD._replace(instead="x = 1"), "nothing is changed"),
        (GOOD._replace(test="tests/test_a.py::test_two"), "test_two is not marked with it"),
        (GOOD._replace(requirement="GEN-02"), "test_one is not marked with it"),
        (GOOD._replace(requirement="GEN-03"), "test_one is not marked with it"),
    ],
)
def test_what_proves_nothing_is_told(violation: Violation, words: str) -> None:
    [fault] = faults([violation], SOURCES, PROOFS)
    assert words in fault
    assert fault.startswith(violation.requirement)


def test_a_mark_of_a_whole_file_is_one_of_each_test_in_it() -> None:
    of_file = GOOD._replace(requirement="GEN-02", test="tests/test_b.py::test_any")
    assert list(faults([GOOD, of_file], SOURCES, PROOFS)) == []
