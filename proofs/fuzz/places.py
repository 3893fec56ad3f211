"""Folders for what a parser reads from a disk, or puts there; gone in the end."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from ibi.archive.storage import Storage


@cache
def folder() -> Path:
    """A folder for files on their way, gone in the end."""
    made = tempfile.mkdtemp(prefix="ibi-fuzz-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


@cache
def storage() -> Storage:
    """Where the files of an Archive are."""
    made = Storage(folder() / "archive")
    made.make()
    return made
