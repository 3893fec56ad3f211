"""The section about containers of the page for when one machine is not enough."""

from __future__ import annotations

from pathlib import Path

from support.pages.blocks import Block, blocks
from support.style.layers import ROOT


def scale_page(tree: str) -> Path:
    """The page in a language: the name of its folder of `docs`."""
    return ROOT / "docs" / tree / "how-to/when-one-machine-is-not-enough.md"


def scale_section() -> int:
    """The number of the section."""
    return next(block.section for block in blocks(scale_page("en")) if block.notes.get("file") == ".env")


def scale_examples(tree: str) -> list[Block]:
    """The examples of the section."""
    return [block for block in blocks(scale_page(tree)) if block.section == scale_section()]
