"""Which tests reach a line: what coverage and `recording` have noted, and the order in which tests are tried."""

from __future__ import annotations

import ast
import difflib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CONTEXT: Final = "IBI_MUTATION_CONTEXT"
"""The variable of the environment that names the test, or the fixture of wider scope, that is at work."""
RECORD: Final = "IBI_MUTATION_RECORD"
"""The variable that names the folder into which `recording` writes."""
FOREVER: Final = 1e9
"""Seconds of a test that was never measured: it is tried last."""


def coverage_settings(source: Path, data: Path) -> str:
    """Settings of coverage for every Python process of a run of tests, those of servers and commands among them.

    `source`: the folder that is measured; `data`: where each process puts a file. A process reads CONTEXT when it
    starts, and notes it with each line.
    """
    return (
        f"[run]\nsource = {source}\ndata_file = {data}\nparallel = true\ncontext = ${{{CONTEXT}-}}\n"
        "patch = fork, _exit\nsigterm = true\ndisable_warnings = no-data-collected, module-not-imported\n"
    )


def fixture_context(base: str, name: str) -> str:
    """What is noted while a fixture of wider scope is set up; `base` is the test file or folder that defines it."""
    return f"fixture {base}::{name}"


@dataclass(frozen=True)
class Ended:
    """One test of the run that was recorded."""

    test: str
    """Its node id."""
    seconds: float
    passed: bool
    fixtures: tuple[str, ...]
    """The fixtures of wider scope that it uses, each as `fixture_context`."""
    shares: bool
    """Whether one of them is made once for several tests, and not for all."""


def read_record(file: Path) -> list[Ended]:
    """The tests that `recording` wrote down, one JSON object a line."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [Ended(**{**each, "fixtures": tuple(each["fixtures"])}) for each in map(json.loads, lines)]


Contexts = Mapping[int, Iterable[str]]
"""Line, from 1 -> the contexts that coverage noted there."""


@dataclass(frozen=True)
class Reach:
    """The tests that reach each line of a source tree, as it was when the tests were recorded."""

    ended: Sequence[Ended]
    contexts: Callable[[str], Contexts]
    """What was noted in a file, which is named as below `src`: `ibi/errors.py`."""
    importers: Mapping[str, Iterable[str]]
    """File -> the files that import it."""

    def of_lines(self, file: str, lines: Iterable[int]) -> set[str]:
        """The node ids of the tests that passed and reach one of these lines in a function, or by a server."""
        noted = self.contexts(file)
        wanted = {context for line in lines for context in noted.get(line, ())}
        return {
            each.test
            for each in self.ended
            if each.passed and (each.test in wanted or not wanted.isdisjoint(each.fixtures))
        }

    def of_module(self, file: str) -> set[str]:
        """The tests that reach any line of a file; if there is none, those that reach a file that imports it.

        What runs at import is noted for no test, or only for those that start a process; all that use the module
        may depend on it.
        """
        for files in ([file], self.importers.get(file, ())):
            tests = set[str]()
            for each in files:
                tests |= self.of_lines(each, self.contexts(each))
            if tests:
                return tests
        return set()


def in_order(tests: Iterable[str], ended: Iterable[Ended], file: str) -> list[str]:
    """The tests, those in the folders that mirror the folder of a source file first, and of these the fastest first.

    First of all come those whose file has its name; `file` is named as below `src`. Tests of a file that share a
    fixture of wider scope (a server, say) stay together, as it is made once for them: they count as one test that takes
    as long as all of them.
    """
    known = {each.test: each for each in ended}
    groups = defaultdict[str, list[str]](list)
    for test in sorted(tests):
        shares = test in known and known[test].shares
        groups[test.partition("::")[0] if shares else test].append(test)

    def key(group: Sequence[str]) -> tuple[int, float]:
        seconds = sum(known[test].seconds if test in known else FOREVER for test in group)
        return -nearness(group[0].partition("::")[0], file), seconds

    return [test for group in sorted(groups.values(), key=key) for test in group]


def nearness(test_file: str, file: str) -> int:
    """How much the place of a test file says that it tests a source file: 0 to 2; migrations are tested one above."""
    folder, _, name = file.removeprefix("ibi/").rpartition("/")
    folder = folder.removesuffix("/versions").removesuffix("/migrations")
    if not folder or f"/{folder}/" not in test_file:
        return 0
    return 2 if test_file.endswith(f"/test_{name}") else 1


def old_lines(old: str, new: str, lines: Iterable[int]) -> set[int]:
    """Where lines of a changed text (from 1) were before: an unchanged line itself, of a changed one its neighbours."""
    wanted, found = set(lines), set[int]()
    matcher = difflib.SequenceMatcher(None, old.splitlines(), new.splitlines(), autojunk=False)
    for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        here = wanted & set(range(new_from + 1, new_to + 1))
        if tag == "equal":
            found |= {line - new_from + old_from for line in here}
        elif here:
            found |= set(range(max(old_from, 1), old_to + 2))
    return found


def importers(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """File -> the files that import it, of files named as below `src`, with their texts."""
    names = {file.removesuffix(".py").removesuffix("/__init__").replace("/", "."): file for file in sources}
    found: dict[str, set[str]] = {}
    for file, text in sources.items():
        for name in _imported(text):
            if name in names:
                found.setdefault(names[name], set()).add(file)
    return found


def _imported(text: str) -> Iterator[str]:
    """`from a.b import c` may name the module `a.b` or `a.b.c`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
