"""A copy of a checkout, for pages that build an image in it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from support.style.layers import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def copied_checkout(folder: Path) -> Path:
    """Copy into a folder what an image is built of; return the folder."""
    for name in ("src", "man", "requirements", "packaging"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "wheels"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    return folder
