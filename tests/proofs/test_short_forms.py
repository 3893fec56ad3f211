"""The proofs of minting in their short forms, and their command."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.minting import clocks, codec, faults, kills, lost_state, nodes, service_faults, small_world

SEED = random.randrange(10**6)  # another one in each run; a failure shows it


def held(report: Report) -> bool:
    """Whether a proof held; skipped where a tool that it needs is not here."""
    assert report.broken == [], f"seed {SEED}"
    if report.unshown:
        pytest.skip("; ".join(report.unshown))
    return report.held


@pytest.mark.long
@pytest.mark.proves("GEN-38", "GEN-40", "GEN-41", "GEN-44")
def test_no_label_comes_twice_whichever_process_is_killed() -> None:
    report = kills.prove(Scale.SHORT, SEED)
    assert report.counts["labels"] >= 3000
    assert report.counts["kills"] >= 40
    assert held(report)


@pytest.mark.long
@pytest.mark.proves("GEN-02", "GEN-38", "GEN-41", "GEN-44")
def test_no_label_comes_twice_from_several_nodes_whatever_is_killed_and_their_clocks_say() -> None:
    report = nodes.prove(Scale.SHORT, SEED)
    assert report.counts["labels"] >= 300
    assert report.counts["kills of PostgreSQL"] == 2
    assert held(report)


@pytest.mark.long
@pytest.mark.proves("GEN-44", "AMB-18")
def test_no_label_leaves_before_it_is_durable_whatever_call_fails() -> None:
    report = faults.prove_processes(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["faults"] >= 15


@pytest.mark.long
@pytest.mark.proves("GEN-41", "GEN-44", "AMB-18")
def test_no_label_of_the_service_is_sent_before_it_is_durable_whatever_call_fails() -> None:
    report = service_faults.prove(Scale.SHORT, SEED)
    assert held(report)
    assert report.counts["faults of the service"] >= 6
    assert report.counts["labels"] >= 250


@pytest.mark.long
@pytest.mark.proves("GEN-40", "GEN-44", "AMB-18")
def test_false_clocks_give_labels_or_a_clock_error_and_never_a_label_twice() -> None:
    report = clocks.prove(Scale.SHORT, SEED)
    assert report.counts["schedules"] >= 60
    assert report.counts["ClockErrors"] > 0
    assert held(report)


@pytest.mark.long
@pytest.mark.proves("GEN-31", "GEN-33", "GEN-34", "GEN-35", "GEN-36", "GEN-37", "GEN-38", "GEN-39", "GEN-43")
def test_in_a_small_world_no_sequence_of_requests_repeats_a_label() -> None:
    report = small_world.prove(Scale.SHORT, SEED)
    assert report.counts["stories"] >= 100_000
    assert held(report)


@pytest.mark.long
@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_lost_old_or_copied_state_gives_no_label_until_it_is_repaired() -> None:
    report = lost_state.prove(Scale.SHORT, SEED)
    assert report.counts["cases"] >= 150
    assert held(report)
    assert report.counts["refused"] == report.counts["attempts"]


@pytest.mark.long
@pytest.mark.proves("GEN-69", "GEN-70", "GEN-71", "GEN-73", "AMB-07")
def test_what_is_written_of_a_date_is_read_back_as_that_date() -> None:
    report = codec.prove(Scale.SHORT, SEED)
    assert report.counts["dates"] >= 15_000
    assert held(report)


@pytest.mark.long
def test_the_command_prints_a_table_of_figures() -> None:
    command = [sys.executable, "-m", "proofs.minting", "--short", "--seed", "7", "P-M4"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "short form, seed 7" in done.stdout
    assert "| P-M4 | steps 2,640, windows 46,440," in done.stdout


def test_the_command_knows_its_proofs_by_name() -> None:
    command = [sys.executable, "-m", "proofs.minting", "P-M9"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, timeout=60)
    assert done.returncode == 2
    assert "no such proof: P-M9" in done.stderr
