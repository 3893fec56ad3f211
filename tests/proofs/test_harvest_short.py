"""The proof of harvests while an Archive changes, in its short form."""

from __future__ import annotations

import random

import pytest

from proofs.common.report import Scale
from proofs.harvest import changing

SEED = random.randrange(10**6)  # another one in each run; a failure shows it


@pytest.mark.long
def test_a_harvester_misses_nothing_of_an_archive_that_changes_all_the_time() -> None:
    report = changing.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["changes"] > 0
    assert report.counts["lists"] > 1
