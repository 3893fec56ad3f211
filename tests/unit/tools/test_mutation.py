"""Mutants are what they are called, are drawn again by their seed, and meet the tests that reach them."""

from __future__ import annotations

import ast

import pytest

import mutants
from mutation.operators import mutant, points
from mutation.reach import Ended, Reach, importers, in_order, old_lines
from mutation.sample import AREAS, drawn, files_of, touched
from mutation.trial import Outcome, Tried
from support.style.layers import SOURCE


def _changes(source: str) -> list[tuple[str, str]]:
    """(Kind, the lines that take the place of others) of all mutants of a text."""
    return [(point.kind, mutant(source, point.index).after) for point in points(source)]


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("a < b <= c", [("comparison", "a <= b <= c"), ("comparison", "a < b < c")]),
        ("a is not b", [("comparison", "a is b")]),
        ("a not in b", [("comparison", "a in b")]),
        ("x = 0x10", [("constant", "x = 17")]),
        ("x = 0.5", [("constant", "x = 1.5")]),
        ("close()", [("call", "pass")]),
        ("raise ValueError", [("raise", "pass")]),
        ("a = f(b, c=d, e=f)", [("keyword", "a = f(b, e=f)"), ("keyword", "a = f(b, c=d, )")]),
        ("a and b", [("and or", "a or b")]),
        ("a or b", [("and or", "a and b")]),
        ("a = not b", [("not", "a = b")]),
        ("with a:\n    b = c", [("with", "if True:")]),
        ("with a as b:\n    b = c", []),
        ("def f() -> int:\n    return a", [("return", "return None")]),
        ("def f() -> bool:\n    return a", [("return", "return not (a)")]),
        ("def f() -> bool:\n    return True", [("return", "return False")]),
        ("def f() -> None:\n    return None", []),
        ("async def f() -> None:\n    await g()", [("call", "pass")]),
        ('"""Words, 1 < 2."""\na: Literal[1] = b', []),
        ("@dataclass(frozen=True)\nclass A:\n    pass", []),
        ("if TYPE_CHECKING:\n    f(1)", []),
    ],
)
def test_each_kind_of_mutant_is_made_and_nothing_else(source: str, changes: list[tuple[str, str]]) -> None:
    assert _changes(source) == changes


def test_each_mutant_of_the_real_source_differs_from_it_and_can_be_read() -> None:
    source = (SOURCE / "resolver/resolve/breaker.py").read_text(encoding="utf-8")
    found = points(source)
    assert {point.kind for point in found} >= {"comparison", "constant", "call", "and or", "not", "return"}
    for point in found[::20]:
        changed = mutant(source, point.index)
        assert ast.dump(ast.parse(changed.source)) != ast.dump(ast.parse(source))
        assert changed.before != changed.after


def test_a_point_knows_its_line_its_statement_and_whether_it_runs_at_import() -> None:
    source = "A = 1\n\ndef f(b=2):\n    return g(\n        b,\n        3,\n    )\n"
    assert [(point.kind, point.line, point.statement, point.at_import) for point in points(source)] == [
        ("constant", 1, 1, True),
        ("constant", 3, 3, True),
        ("return", 4, 4, False),
        ("constant", 6, 4, False),
    ]


SOURCES = {"ibi/a.py": "x = 1\ny = 1 < 2\n", "ibi/b/c.py": "z = 3\n"}


def test_the_same_seed_draws_the_same_mutants_and_another_one_others() -> None:
    many = {"ibi/a.py": "".join(f"x{number} = {number}\n" for number in range(100))}
    first, again, other = (drawn(many, 10, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len({point.line for _, point in first}) == 10


def test_every_line_is_drawn_once_before_one_is_drawn_again_and_no_mutant_twice() -> None:
    places = [(file, point.line) for file, point in drawn(SOURCES, 10, 1)]
    assert sorted(places[:3]) == [("ibi/a.py", 1), ("ibi/a.py", 2), ("ibi/b/c.py", 1)]
    assert places[3:] == [("ibi/a.py", 2)] * 2
    assert len(set(drawn(SOURCES, 10, 1))) == 5


def test_only_touched_lines_are_drawn_where_these_are_given() -> None:
    places = drawn(SOURCES, 10, 1, {"ibi/a.py": {2}, "ibi/b/c.py": set()})
    assert [(file, point.line) for file, point in places] == [("ibi/a.py", 2)] * 3


def test_the_lines_that_a_change_touches_are_read_from_its_diff() -> None:
    diff = (
        "diff --git a/src/ibi/a.py b/src/ibi/a.py\n--- a/src/ibi/a.py\n+++ b/src/ibi/a.py\n"
        "@@ -1 +1,2 @@ def f():\n-x = 1\n+x = 2\n+y = 3\n@@ -9,2 +10,0 @@\n-a\n-b\n@@ -20 +19 @@\n-c\n+d\n"
        "diff --git a/src/ibi/b.py b/src/ibi/b.py\n--- a/src/ibi/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone = 1\n"
    )
    assert touched(diff) == {"ibi/a.py": {1, 2, 19}}


def test_every_area_has_sources_and_none_is_in_two() -> None:
    sources = [path.relative_to(SOURCE.parent).as_posix() for path in SOURCE.rglob("*.py")]
    areas = [files_of(area, sources) for area in AREAS]
    assert all(areas)
    assert len(set().union(*areas)) == sum(map(len, areas))
    assert files_of(
        "runtime/limits.py+minting", ["ibi/minting/a.py", "ibi/runtime/limits.py", "ibi/mint.py"]
    ) == [
        "ibi/minting/a.py",
        "ibi/runtime/limits.py",
    ]


def _ended(
    test: str, seconds: float = 1.0, *fixtures: str, passed: bool = True, shares: bool = False
) -> Ended:
    return Ended(test, seconds, passed, fixtures, shares)


def test_tests_reach_a_line_by_themselves_or_by_a_server_that_was_started_for_several() -> None:
    ended = [
        _ended("t.py::alone"),
        _ended("t.py::by_server", 1.0, "fixture t.py::server"),
        _ended("t.py::other"),
        _ended("t.py::fails", passed=False),
    ]
    noted = {1: [""], 4: ["t.py::alone", "fixture t.py::server", "t.py::fails"], 5: ["t.py::other"]}
    reach = Reach(ended, lambda file: noted if file == "ibi/a.py" else {}, {"ibi/limits.py": ["ibi/a.py"]})
    assert reach.of_lines("ibi/a.py", [4]) == {"t.py::alone", "t.py::by_server"}
    assert reach.of_lines("ibi/a.py", [1]) == set()
    assert reach.of_module("ibi/a.py") == {"t.py::alone", "t.py::by_server", "t.py::other"}
    assert reach.of_module("ibi/limits.py") == reach.of_module("ibi/a.py")
    assert reach.of_module("ibi/unknown.py") == set()


def test_the_fastest_tests_come_first_and_those_of_a_server_stay_together() -> None:
    ended = [
        _ended("a.py::slow", 5.0),
        _ended("a.py::fast", 0.1),
        _ended("b.py::first", 2.0, shares=True),
        _ended("b.py::second", 0.01, shares=True),
    ]
    tests = {"new.py::never_measured", *(each.test for each in ended)}
    assert in_order(tests, ended, "ibi/a.py") == [
        "a.py::fast",
        "b.py::first",
        "b.py::second",
        "a.py::slow",
        "new.py::never_measured",
    ]


def test_tests_that_mirror_the_source_come_before_others() -> None:
    fast, near, nearest = (
        f"tests/{name}::test_it"
        for name in ("unit/a/test_b.py", "service/c/d/test_e.py", "unit/c/d/test_b.py")
    )
    ended = [_ended(fast, 0.1), _ended(near, 1.0), _ended(nearest, 2.0)]
    assert in_order([fast, near, nearest], ended, "ibi/c/d/b.py") == [nearest, near, fast]
    assert in_order([fast, near, nearest], ended, "ibi/b.py") == [fast, near, nearest]
    for file in ("ibi/c/d/migrations/env.py", "ibi/c/d/migrations/versions/0001_first.py"):
        assert in_order([fast, near, nearest], ended, file) == [near, nearest, fast]


def test_lines_of_a_changed_file_are_found_where_they_were() -> None:
    old = "a\nb\nc\nd\n"
    assert old_lines(old, "a\nnew\nb\nc\nd\n", [1, 3, 5]) == {1, 2, 4}
    assert old_lines(old, "a\nnew\nb\nc\nd\n", [2]) == {1, 2}
    assert old_lines(old, "a\nB\nc\nd\n", [2]) == {1, 2, 3}
    assert old_lines("", "a\n", [1]) == {1}


def test_who_imports_a_module_is_known_by_either_form_of_import() -> None:
    sources = {
        "ibi/a/__init__.py": "",
        "ibi/a/b.py": "",
        "ibi/c.py": "from ibi.a import b",
        "ibi/d.py": "import ibi.a.b",
        "ibi/e.py": "from ibi.a.b import name",
    }
    assert importers(sources)["ibi/a/b.py"] == {"ibi/c.py", "ibi/d.py", "ibi/e.py"}
    assert importers(sources)["ibi/a/__init__.py"] == {"ibi/c.py"}


def _tried(outcome: Outcome, equivalent: str = "") -> Tried:
    return Tried(
        "2026-11-27",
        "abc",
        7,
        "http+web",
        "ibi/a.py",
        3,
        "not",
        "not a",
        "a",
        outcome,
        "",
        2,
        1.5,
        equivalent,
    )


def test_the_table_counts_each_outcome_once_and_gives_reasons() -> None:
    ended = [
        _tried("killed"),
        _tried("killed"),
        _tried("survived"),
        _tried("survived", "only a log"),
        _tried("unsure"),
    ]
    assert list(mutants.table(ended))[2:] == [
        "| 2026-11-27 | abc | 7 | http, web | 5 | 2 | 1, 1 unsure | 1: `ibi/a.py:3`: only a log |"
    ]
