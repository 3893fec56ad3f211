"""The two policies differ in what they guard against, and not in where honest Archives lead."""

from __future__ import annotations

import random

import pytest

from proofs.common.report import Report, Scale
from proofs.resolution import agreement
from proofs.resolution.wire import VirtualLoop

SEED = random.randrange(10**6)  # another one in each run; a failure shows it


@pytest.mark.long
@pytest.mark.proves("RES-05", "RES-08", "RES-09")
def test_on_honest_networks_both_policies_give_the_same_kind_of_outcome_and_the_same_item() -> None:
    report = agreement.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["Redirect"] > 300
    assert report.counts["Tell"] > 100


@pytest.mark.proves("RES-05", "RES-08", "RES-09")
def test_the_policies_agree_in_the_worlds_where_they_once_did_not() -> None:
    loop = VirtualLoop()
    found = [
        fault
        for seed in (3269, 3565, 6050, 1091906129497)
        for fault in agreement.differences(seed, loop, Report("", ""))
    ]
    loop.close()
    assert found == []
