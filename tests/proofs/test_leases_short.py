"""The proof of leases in its short form, and that its models hold what they should."""

from __future__ import annotations

import random

import pytest

from proofs.common.report import Report, Scale
from proofs.leases import mutants, plays, worlds
from proofs.leases.exploring import explore
from proofs.leases.messages import Conduct, MessageModel, MessageWorld

SEED = random.randrange(10**6)  # another one in each run; a failure shows it


@pytest.mark.long
@pytest.mark.proves("GEN-35")
def test_small_worlds_lead_no_reader_by_an_outdated_answer() -> None:
    report = worlds.prove(Scale.SHORT, SEED)
    assert report.broken == []
    assert report.counts["states"] > 50_000
