"""The proofs of deposit in their short forms, and their command."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.deposit import boundaries, full_disk, kills, together

SEED = random.randrange(10**6)  # another one in each run; a failure shows it


def held(report: Report) -> bool:
    """Whether a proof held; skipped where a tool that it needs is not here."""
    assert report.broken == [], f"seed {SEED}"
    if report.unshown:
        pytest.skip("; ".join(report.unshown))
    return report.held


@pytest.mark.long
@pytest.mark.proves("ARC-01", "ARC-07", "ARC-08")
def test_an_item_is_wholly_there_or_wholly_absent_whatever_call_fails() -> None:
    report = boundaries.prove(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["boundaries"] >= 1500
    assert report.counts["faults"] >= 12


@pytest.mark.long
@pytest.mark.proves("ARC-04", "ARC-08")
def test_nothing_that_was_acknowledged_is_lost_whichever_process_is_killed() -> None:
    report = kills.prove(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["kills"] >= 25
    assert report.counts["changes acknowledged"] > 0


@pytest.mark.long
def test_several_that_start_at_once_and_one_that_is_stopped_do_each_other_no_harm() -> None:
    report = together.prove(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["starts at once"] >= 4
    assert report.counts["stops"] >= 3


@pytest.mark.long
@pytest.mark.proves("ARC-08")
def test_a_full_disk_refuses_with_one_sentence_and_leaves_no_partial_item() -> None:
    report = full_disk.prove(Scale.SHORT, SEED)
    assert report.counts["trials"] == 4
    assert report.counts["refusals"] >= 4
    assert held(report)


def test_the_command_of_the_deposit_proofs_knows_them_by_name() -> None:
    command = [sys.executable, "-m", "proofs.deposit", "P-D9"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, timeout=60)
    assert done.returncode == 2
    assert "no such proof: P-D9" in done.stderr
