"""Every example of the how-to pages about running an Archive or a resolver is typed, in both languages.

A machine of their own has the host names, folders and services of the pages (`support.pages.machine`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli.in_process import ibi
from support.pages.blocks import blocks
from support.pages.machine import ADDRESSES, Machine, entered, make_machine
from support.pages.runner import language_of, run_page
from support.style.layers import ROOT

pytestmark = pytest.mark.long

TREES = ("pt-BR", "en")
PAGES = ("backup-and-restore", "troubleshooting")
SHOWN_ITEM = "8JMKD3MGP8W/35MMLL8"


def page_of(tree: str, name: str) -> Path:
    return ROOT / "docs" / tree / "how-to" / f"{name}.md"


def last_item(machine: Machine) -> str:
    """The name of the item that was deposited last."""
    return ibi("archive", "list", "--data", machine.archive).stdout.splitlines()[-1].split()[1]


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("tree", TREES)
def test_each_example_of_a_page_works(tree: str, name: str, tmp_path: Path) -> None:
    page = page_of(tree, name)
    language = language_of(page)
    machine = make_machine(tmp_path / "machine", language)
    with entered(machine, language) as shell:
        done = run_page(page, shell, tmp_path, {SHOWN_ITEM: last_item(machine), **ADDRESSES})
    assert len(done) >= sum(block.is_run for block in blocks(page)) > 0
