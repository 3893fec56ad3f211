"""Mutants that violate one requirement each, and the marked test that notices (`tests/violations.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from mutation.tree import ROOT, Tree
from mutation.trial import until_one_fails

VIOLATIONS: Final = ROOT / "tests/violations.toml"


class Violation(NamedTuple):
    """A mutant of a requirement; a requirement that says several things may have several."""

    requirement: str
    file: str
    """The file that is changed, named as in the checkout; an oracle of the tests for what lives only there."""
    source: str
    """The text that is replaced; it stands in the file once."""
    instead: str
    test: str
    """The node id of the test that fails by it, without what stands in brackets: `tests/a/test_b.py::test_c`."""


def violations(file: Path = VIOLATIONS) -> list[Violation]:
    """All mutants, in the order of the file. Raises TypeError where one has a member too many or too few."""
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    return [Violation(requirement, **each) for requirement, several in data.items() for each in several]


def faults(
    found: Iterable[Violation], sources: Mapping[str, str], proofs: Mapping[str, Iterable[tuple[str, str]]]
) -> Iterator[str]:
    """What keeps mutants from proving anything, a sentence each.

    `sources`: file, named as in the checkout -> its text; `proofs`: requirement -> the path and name of each test that
    is marked with it, the name "" where a whole file is.
    """
    for violation in found:
        count = sources.get(violation.file, "").count(violation.source)
        if count != 1:
            yield f"{violation.requirement}: the text to replace stands in {violation.file} {count} times"
        if violation.source == violation.instead:
            yield f"{violation.requirement}: nothing is changed in {violation.file}"
        path, _, test = violation.test.partition("::")
        if not {(path, test), (path, "")} & set(proofs.get(violation.requirement, ())):
            yield f"{violation.requirement}: {violation.test} is not marked with it"


def attempt(tree: Tree, violation: Violation, sound: set[str]) -> str:
    """Apply a mutant in a copy and run its test.

    "killed", "survived", or "unsure": the test fails without the mutant, too, or could not be run. `sound`: the tests
    that were seen to pass without one, which need not be run again.
    """
    text = (tree.root / violation.file).read_text(encoding="utf-8")
    tree.write(violation.file, text.replace(violation.source, violation.instead))
    try:
        status, _ = until_one_fails(tree, [violation.test], None)
    finally:
        tree.write(violation.file, text)
    if status == 0:
        return "survived"
    if status != 1:  # what pytest says of a test that failed
        return "unsure"
    if violation.test not in sound and until_one_fails(tree, [violation.test], None)[0] != 0:
        return "unsure"
    sound.add(violation.test)
    return "killed"
