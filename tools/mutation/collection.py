"""Collect once which tests reach which lines, and keep that in `build/mutants`, which git ignores."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from coverage import Coverage, CoverageData

from mutation.reach import Contexts, Ended, Reach, coverage_settings, importers, read_record
from mutation.tree import LEFT_OUT, ROOT, Run, copied

KEPT: Final = ROOT / "build" / "mutants"
"""Here lie `coverage` (its database), `record` (how each test ended) and `source` (the package as it was then)."""


def collect(tests: Sequence[str], workers: int) -> Run:
    """Run tests under coverage in a copy of the checkout, in several processes, and keep what they reach.

    What was collected before is replaced.
    """
    with copied() as tree, TemporaryDirectory(prefix="ibi-coverage-") as name:
        parts = Path(name)
        settings = parts / "settings"
        settings.write_text(coverage_settings(tree.root / "src" / "ibi", parts / "part"), encoding="utf-8")
        words = [*tests, *(f"--ignore={each}" for each in LEFT_OUT)]
        words += ["--numprocesses", str(workers), "--dist=worksteal"] if workers > 1 else ["-p", "no:xdist"]
        shutil.rmtree(KEPT, ignore_errors=True)
        run = tree.pytest(words, KEPT / "record", more={"COVERAGE_PROCESS_START": str(settings)})
        whole = Coverage(data_file=str(KEPT / "coverage"), config_file=False, messages=False)
        whole.combine([str(path) for path in parts.glob("part*")], strict=False)
        whole.save()
        shutil.copytree(
            tree.root / "src",
            KEPT / "source",
            ignore=lambda _, names: [n for n in names if n == "__pycache__"],
        )
    return run


def kept() -> Reach:
    """What was collected. Raises FileNotFoundError where nothing was."""
    data = CoverageData(str(KEPT / "coverage"))
    if not (KEPT / "coverage").exists():
        raise FileNotFoundError(KEPT / "coverage")
    data.read()
    # Templates are measured, too, as the code that is made of them names their files.
    measured = {file.rpartition("/src/")[2]: file for file in data.measured_files() if file.endswith(".py")}

    @cache
    def contexts(file: str) -> Contexts:
        return data.contexts_by_lineno(measured[file]) if file in measured else {}

    return Reach(_ended(), contexts, importers({file: kept_source(file) for file in measured}))


def kept_source(file: str) -> str:
    """A source file as it was when the tests were recorded, "" if there was none; named as below `src`."""
    path = KEPT / "source" / file
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _ended() -> list[Ended]:
    records = sorted((KEPT / "record").glob("*.jsonl"))
    return [
        each for record in records for each in read_record(record.read_text(encoding="utf-8").splitlines())
    ]
