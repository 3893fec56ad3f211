"""Folders for what a parser reads from a disk, or puts there; gone in the end."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from ibi.archive.store.files import FolderFiles


@cache
def folder() -> Path:
    """A folder for files on their way, gone in the end."""
    made = tempfile.mkdtemp(prefix="ibi-fuzz-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


@cache
def file_store() -> FolderFiles:
    """Where the files of an Archive are."""
    made = FolderFiles(folder() / "archive")
    made.create_folders()
    return made
