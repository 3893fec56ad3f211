"""The threats of docs/reference/threats.md and the notes: what comments name is there."""

from __future__ import annotations

import re

from support.style.layers import ROOT

THREATS = (ROOT / "docs/reference/threats.md").read_text(encoding="utf-8")
NOTES = (ROOT / "docs/standard/notes.md").read_text(encoding="utf-8")
PLACES = ("src", "tests", "conformance", "proofs", "bench", "docs")


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
