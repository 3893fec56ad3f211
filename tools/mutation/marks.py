"""One mutant for each requirement: a change that violates it, and a marked test that notices (`tests/marks.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from mutation.tree import ROOT, Tree
from mutation.trial import until_one_fails

MARKS: Final = ROOT / "tests/marks.toml"


class Mark(NamedTuple):
    """A mutant of a requirement; a requirement that says several things may have several."""

    requirement: str
    file: str
    """The file that is changed, named as in the checkout; an oracle of the tests for what lives only there."""
    source: str
    """The text that is replaced; it stands in the file once."""
    instead: str
    test: str
    """The node id of the test that fails by it, without what stands in brackets: `tests/a/test_b.py::test_c`."""


def marks(file: Path = MARKS) -> list[Mark]:
    """All mutants, in the order of the file. Raises TypeError where one has a member too many or too few."""
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    return [Mark(requirement, **each) for requirement, several in data.items() for each in several]


def faults(
    found: Iterable[Mark], sources: Mapping[str, str], proofs: Mapping[str, Iterable[tuple[str, str]]]
) -> Iterator[str]:
    """What keeps mutants from proving anything, a sentence each.

    `sources`: file, named as in the checkout -> its text; `proofs`: requirement -> the path and name of each test that
    is marked with it, the name "" where a whole file is.
    """
    for mark in found:
        count = sources.get(mark.file, "").count(mark.source)
        if count != 1:
            yield f"{mark.requirement}: the text to replace stands in {mark.file} {count} times"
        if mark.source == mark.instead:
            yield f"{mark.requirement}: nothing is changed in {mark.file}"
        path, _, test = mark.test.partition("::")
        if not {(path, test), (path, "")} & set(proofs.get(mark.requirement, ())):
            yield f"{mark.requirement}: {mark.test} is not marked with it"


def attempt(tree: Tree, mark: Mark) -> str:
    """Apply a mutant in a copy and run its test.

    "killed", "survived", or "unsure": the test fails without the mutant, too, or could not be run.
    """
    text = (tree.root / mark.file).read_text(encoding="utf-8")
    tree.write(mark.file, text.replace(mark.source, mark.instead))
    try:
        status, _ = until_one_fails(tree, [mark.test], None)
    finally:
        tree.write(mark.file, text)
    if status == 0:
        return "survived"
    if status != 1:  # what pytest says of a test that failed
        return "unsure"
    return "killed" if until_one_fails(tree, [mark.test], None)[0] == 0 else "unsure"
