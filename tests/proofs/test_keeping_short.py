"""The proof of keeping (P-D6) in its short form."""

from __future__ import annotations

import random

import pytest

from proofs.common.report import Scale
from proofs.keeping import flips, pages

SEED = random.randrange(10**6)  # another one in each run; a failure shows it


@pytest.mark.long
def test_every_bit_that_turned_is_found_and_nothing_damaged_is_served_as_good() -> None:
    report = flips.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["flips"] == report.counts["found"] == 100


@pytest.mark.long
def test_a_damaged_catalogue_is_a_sentence_and_can_be_made_anew() -> None:
    report = pages.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["pages zeroed"] == 6
    assert report.counts["rebuilt"] >= 3
