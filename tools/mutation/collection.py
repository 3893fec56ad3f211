"""Collect once which tests reach which lines, and keep that in `build/mutants`, which git ignores."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from coverage import Coverage, CoverageData

from mutation.reach import Contexts, Reach, coverage_settings, importers, read_record
from mutation.tree import LEFT_OUT, ROOT, Run, Tree, copied

KEPT: Final = ROOT / "build" / "mutants"
"""Here lie `coverage` (its database), `record` (how each test ended) and `source` (the package as it was then)."""


def collect(tests: Sequence[str], workers: int) -> Run:
    """Run tests under coverage in a copy of the checkout, in several processes, and keep what they reach.

    What was collected before is replaced; results stay.
    """
    words = [*tests, *(f"--ignore={each}" for each in LEFT_OUT)]
    words += ["--numprocesses", str(workers), "--dist=worksteal"] if workers > 1 else ["-p", "no:xdist"]
    with copied() as tree:
        for folder in (KEPT / "record", KEPT / "source"):
            shutil.rmtree(folder, ignore_errors=True)
        run = measure(tree, words, KEPT)
        shutil.copytree(tree.root / "src", KEPT / "source", ignore=shutil.ignore_patterns("__pycache__"))
    return run


def measure(tree: Tree, words: Sequence[str], folder: Path) -> Run:
    """Run tests in a copy, and write into a folder how each ended (`record`) and what it reached (`coverage`)."""
    with TemporaryDirectory(prefix="ibi-coverage-") as name:
        parts = Path(name)
        settings = parts / "settings"
        settings.write_text(coverage_settings(tree.root / "src", parts / "part"), encoding="utf-8")
        run = tree.pytest(words, folder / "record", more={"COVERAGE_PROCESS_START": str(settings)})
        whole = Coverage(data_file=str(folder / "coverage"), config_file=False, messages=False)
        whole.combine([str(path) for path in parts.glob("part*")])
        whole.save()
    return run


def kept(folder: Path = KEPT) -> Reach:
    """What was collected into a folder."""
    data = CoverageData(str(folder / "coverage"))
    data.read()
    # Templates are measured, too, as the code that is made of them names their files.
    measured = {file.rpartition("/src/")[2]: file for file in data.measured_files() if file.endswith(".py")}

    @cache
    def contexts(file: str) -> Contexts:
        return data.contexts_by_lineno(measured[file]) if file in measured else {}

    ended = [each for file in sorted((folder / "record").glob("*.jsonl")) for each in read_record(file)]
    return Reach(ended, contexts, importers({file: kept_source(file) for file in measured}))


def kept_source(file: str) -> str:
    """A source file as it was when the tests were recorded, "" if there was none; named as below `src`."""
    path = KEPT / "source" / file
    return path.read_text(encoding="utf-8") if path.exists() else ""
