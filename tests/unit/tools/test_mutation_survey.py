"""A survey runs near, fast tests, and gives loaded functions their changed code; what it cannot try it says."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import mutants
from mutation.loaded import caches_of, changed_codes, live_functions, replaced
from mutation.operators import points
from mutation.reach import Ended, Reach
from mutation.survey import Plan, near_tests, planned, read_plan, within
from mutation.trial import Outcome, Tried

FILE = "/nowhere/sample.py"
SOURCE = """
LIMIT = 5

def shown(function):
    def wrapper(a):
        return str(function(a))
    return wrapper

@shown
def small(a):
    return a < 3

class Kept:
    def both(self, a, b):
        return [each and b for each in a]

def around(a):
    def inner():
        return a
    return inner

made = around(1)
"""


@pytest.fixture
def loaded() -> dict[str, Any]:
    """The names of a module that was run once."""
    names: dict[str, Any] = {}
    exec(compile(SOURCE, FILE, "exec"), names)  # noqa: S102 - our own text
    return names


def _change(old: str, new: str) -> int:
    """Give the loaded functions the code of a changed text; how many got it."""
    assert SOURCE.count(old) == 1
    found = replaced(changed_codes(SOURCE, SOURCE.replace(old, new), FILE), live_functions())
    for function, code in found:
        function.__code__ = code
    return len(found)


@pytest.mark.parametrize(
    ("old", "new", "use", "results"),
    [
        ("a < 3", "a <= 3", lambda names: names["small"](3), ("False", "True")),
        ("str(function(a))", "[function(a)]", lambda names: names["small"](1), ("True", [True])),
        ("each and b", "each or b", lambda names: names["Kept"]().both([0], 1), ([0], [1])),
    ],
    ids=["a function behind its decorator", "what the decorator has made", "a method"],
)
def test_loaded_functions_get_the_changed_code(
    loaded: dict[str, Any], old: str, new: str, use: Callable[[dict[str, Any]], object], results: object
) -> None:
    before = use(loaded)
    assert _change(old, new)
    assert (before, use(loaded)) == results


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 5", "LIMIT = 6"),
        ("        return a\n    return inner", "        return None\n    return inner"),
    ],
    ids=["at import", "a variable of the function around it is not used any more"],
)
def test_what_no_loaded_function_can_be_given_is_known(loaded: dict[str, Any], old: str, new: str) -> None:
    assert _change(old, new) == 0
    assert loaded["made"]() == 1


def test_code_that_only_moves_to_another_line_does_not_differ() -> None:
    moved = SOURCE.replace("LIMIT = 5\n", "LIMIT = 5\n\n\n")
    assert changed_codes(SOURCE, moved, FILE) == []


def test_the_caches_of_functions_of_a_folder_are_found() -> None:
    @cache
    def kept(a: int) -> int:
        return a

    assert kept in caches_of(Path(__file__).parent)
    assert kept not in caches_of(Path(__file__).parent / "other")


def test_tests_are_chosen_in_their_order_while_there_is_time_and_slow_ones_are_left_out() -> None:
    seconds = {"a": 1.0, "slow": 3.0, "b": 1.0, "c": 0.5}
    assert within(["a", "slow", "b", "c"], seconds, 2.0) == ["a", "b"]
    assert within(["slow", "c", "b"], seconds, 3.5) == ["slow", "c"]


AREA = "tiny"
TEXT = "LIMIT = 5\ndef f(a):\n    return a\n"
UNIT, SERVICE, SLOW = (
    "tests/unit/tiny/test_a.py::test",
    "tests/service/tiny/test_a.py::test",
    "tests/unit/t.py::slow",
)


def _plan(*, unit: bool) -> Plan:
    ended = [
        Ended(UNIT, 0.2, True, (), False),
        Ended(SERVICE, 0.1, True, (), False),
        Ended(SLOW, 9.0, True, (), False),
    ]
    reach = Reach(ended, lambda _: {1: [UNIT], 3: [UNIT, SERVICE, SLOW]}, {})
    chosen = [(AREA, ("tiny/a.py", point)) for point in points(TEXT)]
    names, found = planned(chosen, {"tiny/a.py": TEXT}, reach, 5.0, unit=unit)
    near = {"tiny/a.py": ["tests/unit/tiny/test_a.py", "tests/unit/tiny/test_gone.py"]}
    return Plan("2026-11-30", "abc", 1, names, found, {each.test: each.seconds for each in ended}, near, 5.0)


@pytest.mark.parametrize(("unit", "tests"), [(False, [SERVICE, UNIT]), (True, [UNIT])])
def test_a_plan_has_the_fast_tests_of_each_mutant_and_none_at_import(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unit: bool, tests: list[str]
) -> None:
    monkeypatch.setattr("mutation.trial.kept_source", lambda _: TEXT)
    plan = _plan(unit=unit)
    constant, returned = plan.planned
    assert (constant.point.at_import, constant.tests, constant.reaching) == (True, [], 0)
    assert ([plan.names[number] for number in returned.tests], returned.reaching) == (tests, 3)
    assert read_plan(plan.text()) == plan
    for file in ("tests/unit/tiny/test_a.py", "tests/service/tiny/test_a.py"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    assert plan.files(tmp_path) == sorted({test.partition("::")[0] for test in tests})


def test_new_tests_are_looked_for_in_the_folders_that_mirror_the_source() -> None:
    tests = [
        "tests/unit/a/b/test_c.py",
        "tests/service/a/b/test_d.py",
        "tests/unit/z/test_c.py",
        "tests/style/a/b/test_c.py",
    ]
    assert near_tests(["ibi/a/b/c.py"], tests, unit=False) == {"ibi/a/b/c.py": tests[:2]}
    assert near_tests(["ibi/a/b/c.py"], tests, unit=True) == {"ibi/a/b/c.py": tests[:1]}


def _tried(outcome: Outcome, by: str = "") -> Tried:
    return Tried("2026-11-30", "abc", 1, AREA, "tiny/a.py", 3, "return", "", "", outcome, by, 2, 0.5)


def test_what_was_not_tried_is_counted_apart() -> None:
    ended = [_tried("killed", "t"), _tried("survived"), _tried("unreached"), _tried("untried", "at import")]
    assert list(mutants.summary(ended, ["t.py::fails"])) == [
        "4 mutants: 1 noticed, 2 not noticed (1 survived, 1 unreached, 0 unsure), 1 not tried here",
        "    not tried here: 1 at import",
        "    left out, as it does not pass without a mutant: t.py::fails",
    ]
    assert list(mutants.table(ended))[2] == (
        "| 2026-11-30 | abc | 1 | tiny | 4 | 1 | 1, 1 unreached, 1 untried | 0 |"
    )
