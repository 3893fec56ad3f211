"""The proof of the counts in its short form."""

from __future__ import annotations

import random

import pytest

from proofs.common.report import Scale
from proofs.resolver import counts

SEED = random.randrange(10**6)  # another one in each run; a failure shows it


@pytest.mark.long
def test_four_processes_lose_no_acknowledgment_and_count_none_twice() -> None:
    report = counts.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["redirects"] == 2_000
    assert report.counts["thanks delivered"] == 2_000
    assert report.counts["thanks dropped"] == 0
    assert report.counts["acknowledgments"] < 2_000
