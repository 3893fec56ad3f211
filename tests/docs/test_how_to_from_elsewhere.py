"""Every example of the how-to pages about coming from elsewhere is typed, in one language or the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pages.blocks import blocks
from support.pages.elsewhere import coming
from support.pages.runner import run_page
from support.pages.turns import in_turn
from support.style.layers import ROOT

pytestmark = pytest.mark.long

PAGES = ("dois-beside", "from-a-list-of-links", "from-dspace", "from-ojs", "from-urlib")


@pytest.mark.parametrize(("tree", "name"), in_turn(PAGES))
def test_each_example_of_a_page_works(tree: str, name: str, tmp_path: Path) -> None:
    page = ROOT / "docs" / tree / "how-to" / f"{name}.md"
    with coming(page, tmp_path) as here:
        done = run_page(page, here.shell, here.folder, here.replaced)
    assert len(done) >= sum(block.is_run for block in blocks(page)) > 0
