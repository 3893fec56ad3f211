"""The proofs of the evidence (P-L1) in their short forms, and that they can fail."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from ibi.resolver.evidence import chain, files
from ibi.resolver.evidence.chain import CHAIN_START, LogHead, NewEntry
from proofs.common.report import Report, Scale
from proofs.evidence import boundaries, kills, tampering
from proofs.evidence.logs import Log

SEED = random.randrange(10**6)  # another one in each run; a failure shows it


@pytest.mark.long
def test_whatever_is_done_to_one_entry_shows() -> None:
    report = tampering.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["tampered with"] == report.counts["found"] == 96
    assert report.counts["and the head too, told only by an anchor"] == 10  # what no log can see by itself


@pytest.mark.long
def test_a_fault_at_any_system_call_leaves_all_or_nothing() -> None:
    report = boundaries.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert min(report.counts[outcome] for outcome in ("killed", "refused", "done")) > 0


@pytest.mark.long
def test_nothing_acknowledged_is_lost_when_writers_are_killed() -> None:
    report = kills.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["kills"] == 12


def _trusting(_handle: int, log: int, _moment: str) -> tuple[LogHead, list[NewEntry]]:
    """Goes on from whatever end is there."""
    last, end, _ = files._after(log, LogHead(CHAIN_START, 0), os.fstat(log).st_size)
    return LogHead(last, end), []


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "name", "broken", "complaint"),
    [
        (files, "_recover_head", _trusting, "the next entry hides it"),
        (chain, "_fault_of", lambda *_: None, "not found"),
    ],
)
def test_the_proof_of_tampering_sees_a_log_that_does_not_look(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, broken: object, complaint: str
) -> None:
    monkeypatch.setattr(module, name, broken)
    assert any(complaint in sentence for sentence in tampering.prove(Scale.SHORT, 1).broken)


@pytest.mark.parametrize(
    ("outcome", "complaint"), [("done", "the entries are there"), ("killed", ""), ("refused", "")]
)
def test_the_judge_of_boundaries_misses_an_entry_that_was_acknowledged(
    tmp_path: Path, outcome: str, complaint: str
) -> None:
    log, report = Log(tmp_path), Report("", "")
    log.fill(random.Random(1), 3)
    boundaries.judge(report, log, log.read(), outcome, "whole")
    assert complaint in " ".join(report.broken)
    assert report.held is not bool(complaint)


def test_the_judge_of_boundaries_misses_what_was_there_before(tmp_path: Path) -> None:
    log, report = Log(tmp_path), Report("", "")
    log.fill(random.Random(1), 3)
    content, head = log.read()
    log.put(content[:-5], head)
    boundaries.judge(report, log, (content, head), "killed", "whole")
    assert any("is not there any more" in sentence for sentence in report.broken)


def test_the_judge_of_kills_misses_an_entry_that_was_acknowledged(tmp_path: Path) -> None:
    log, report = Log(tmp_path), Report("", "")
    log.evidence.write("excluded", ibi="writer/0.0", address="write-0.example")
    kills.judge(report, log, {"writer/0.0": 1})
    assert report.held
    log.evidence.write("excluded", ibi="writer/0.0", address="write-2.example")
    kills.judge(report, log, {"writer/0.0": 3})
    assert report.broken == ["a write of writer/0.0 is lost or doubled", "acknowledged and lost: 1"]
