"""Two that meet while files are settled: the short form of the proof, and that it can fail."""

from __future__ import annotations

import random
import textwrap
from pathlib import Path

import pytest

from proofs.common.report import Report, Scale
from proofs.deposit import pairs
from proofs.deposit.nursery import Nursery
from proofs.deposit.pairs import Pair, Stage

SEED = random.randrange(10**6)  # another one in each run; a failure shows it
OLD = """
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.archive.store.files import FolderFiles
settling = FolderFiles.place_files
class Once(Catalogue):
    # Looked at once, where the settler looks again before it moves.
    def __init__(self, catalogue):
        self.__dict__ = catalogue.__dict__
        self.looked = []
    def staged_files(self):
        self.looked, found = ([], self.looked[0]) if self.looked else ([super().staged_files()], None)
        return self.looked[0] if found is None else found
FolderFiles.place_files = lambda self, catalogue: settling(self, Once(catalogue))
"""


@pytest.mark.long
@pytest.mark.proves("ARC-01", "ARC-08")
def test_two_that_meet_at_any_step_of_settling_leave_what_was_committed_whole() -> None:
    report = pairs.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["pairs"] >= 19


@pytest.mark.long
def test_a_file_that_was_given_up_before_it_was_moved_is_found_out(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(OLD))
    report = Report("trial", "")
    with Nursery(program) as nursery:
        Stage(report, nursery, tmp_path / "stage").play(Pair(2, "removal", dies=True, killed=False))
    assert any("listed by nobody" in sentence for sentence in report.broken), report.broken
