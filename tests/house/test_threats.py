"""The threats and limits that docs/threats.md tells, and the notes: what comments name is there, what is said is so."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

from house.floors import ROOT

THREATS = (ROOT / "docs/threats.md").read_text(encoding="utf-8")
NOTES = (ROOT / "docs/standard/notes.md").read_text(encoding="utf-8")
PLACES = ("src", "tests", "conformance", "proofs", "bench", "docs")
LIMITS = re.findall(r"^\| [^|]+ \| ([0-9,]+) ?(\w*) \| `(ibi\.[\w.]+)` \|$", THREATS, re.MULTILINE)
UNITS = {"": 1, "characters": 1, "ms": 0.001, "s": 1, "min": 60, "h": 3600, "KiB": 1024, "MiB": 1024 * 1024}
TICKS = 10**9


def _named(words: str) -> set[int]:
    """The numbers that comments and pages give after a word: of "notes 4 and 7", both."""
    pattern = re.compile(rf"\b(?:{words}) (T?[0-9]+(?:(?:, | and )T?[0-9]+)*)")
    texts = [
        path.read_text(encoding="utf-8")
        for place in PLACES
        for path in (ROOT / place).rglob("*")
        if path.suffix in {".py", ".md", ".play"}
    ]
    return {
        int(number)
        for text in texts
        for named in pattern.findall(text)
        for number in re.findall("[0-9]+", named)
    }


def test_every_note_that_is_named_exists_under_its_number() -> None:
    heads = [int(number) for number in re.findall(r"^### note ([0-9]+)$", NOTES, re.MULTILINE)]
    assert heads == list(range(1, len(heads) + 1))
    linked = {int(number) for number in re.findall(r"\(#note-([0-9]+)\)", NOTES)}
    assert linked == set(heads)
    named = _named("notes?")
    assert named
    assert named - set(heads) == set()


def test_every_threat_that_is_named_exists_under_its_number() -> None:
    rows = [int(number) for number in re.findall(r"^\| T([0-9]{2}) \|", THREATS, re.MULTILINE)]
    assert rows == list(range(1, len(rows) + 1))
    named = _named("threats?")
    assert named
    assert named - set(rows) == set()


def test_the_table_of_limits_is_read_whole() -> None:
    table = THREATS.partition("## Limits")[2]
    assert len(LIMITS) == len(re.findall(r"^\| .*`ibi\.", table, re.MULTILINE))


@pytest.mark.parametrize(("number", "unit", "where"), LIMITS, ids=[where for *_, where in LIMITS])
def test_a_limit_is_what_the_page_says(number: str, unit: str, where: str) -> None:
    place, _, name = where.rpartition(".")
    said = int(number.replace(",", "")) * UNITS[unit]
    module, _, owner = place.rpartition(".")
    if owner[:1].isupper():  # what a class takes for granted when it is made
        value = inspect.signature(getattr(importlib.import_module(module), owner)).parameters[name].default
    else:
        value = getattr(importlib.import_module(place), name)
    assert value in {said, said * TICKS}  # moments of labels are counted in nanoseconds
