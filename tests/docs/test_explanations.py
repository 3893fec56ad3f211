"""docs/{pt-BR,en}/explanation: what the pages quote of the program is what the program says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibi.protocol.persistent_url import PersistentURL
from ibi.resolver.model.alert import TITLE
from ibi.runtime.i18n import say

DOCS = Path(__file__).resolve().parents[2] / "docs"


def _rows(tree: str, name: str, head: str) -> list[list[str]]:
    """The rows of the table of a page that has this first cell in its head."""
    lines = (DOCS / tree / "explanation" / name).read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {head} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


@pytest.mark.parametrize(("tree", "head"), [("pt-BR", "alerta"), ("en", "alert")])
def test_the_alerts_that_are_explained_have_the_titles_that_readers_see(tree: str, head: str) -> None:
    known = {say(title, tree) for title in TITLE.values()}
    shown = [row[0] for row in _rows(tree, "how-resolution-works.md", head)]
    assert len(shown) == 5
    assert [title for title in shown if title not in known] == []


@pytest.mark.parametrize(("tree", "head"), [("pt-BR", "sinal"), ("en", "mark")])
def test_the_marks_that_are_explained_are_read_by_the_program(tree: str, head: str) -> None:
    rows = _rows(tree, "how-resolution-works.md", head)
    assert [row[0].strip("` ") for row in rows] == ["!", "+", ":"]
    for _, _, example in rows:
        parsed = PersistentURL.from_text("http://resolver.example/" + example.strip("` "))
        assert len(parsed.relation.steps) == 1
