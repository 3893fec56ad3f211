"""The proofs of hand-overs in their short forms, and that they can fail."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.model import handover
from ibi.archive.model.handover import GiverMessage, GiverStep, ReceiverAction, ReceiverReply, ReceiverStage
from ibi.protocol.vocabulary import ItemState
from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.common.served_archive import Claim, Served
from proofs.transfer import simulator, trials
from proofs.transfer.observer import Observer
from proofs.transfer.world import DecisionRules

SEED = random.randrange(10**6)  # another one in each run; a failure shows it


@pytest.mark.proves("ARC-03", "ARC-05", "ARC-08", "AMB-24")
def test_in_a_world_of_faults_there_are_never_two_originals_and_always_one_in_the_end() -> None:
    report = simulator.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["handed over"] > 100
    assert report.counts["stayed"] > 20


@pytest.mark.long
@pytest.mark.proves("ARC-05", "ARC-08", "AMB-24")
def test_served_archives_that_are_killed_hand_over_all_the_same() -> None:
    report = trials.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["hand-overs"] == 2
    assert report.counts["looks"] > 25


def takes_over_when_proposed(
    stage: ReceiverStage, word: GiverMessage, *, same: bool, proven: bool
) -> tuple[ReceiverAction, ReceiverReply]:
    if stage is ReceiverStage.STAGED and word is GiverMessage.PROPOSE and same:
        return ReceiverAction.TAKE_OVER, ReceiverReply.OWNED
    return handover.receiver_action(stage, word, same=same, proven=proven)


def never_takes_back(stage: handover.GiverStage, reply: ReceiverReply) -> GiverStep:
    return GiverStep.WAIT if reply is ReceiverReply.DECLINED else handover.next_step(stage, reply)


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        (DecisionRules(judge=takes_over_when_proposed), "two Originals"),
        (DecisionRules(keeps_promises=False), "two Originals"),
        (DecisionRules(next_step=never_takes_back), "no end"),
    ],
)
def test_the_simulator_finds_what_is_wrong(rules: DecisionRules, complaint: str) -> None:
    report, chance = Report("trial", ""), random.Random(7)
    for _ in range(3_000):
        simulator.play(chance.randrange(1 << 60), report, rules)
        if report.violations:
            break
    assert complaint in " ".join(report.broken)


class Liar(Served):
    """An Archive that says the same of everything."""

    claimed = Claim(ItemState.ORIGINAL, "http://somewhere.example/")

    def claim(self, _: str) -> Claim | None:
        return self.claimed


@pytest.mark.parametrize(
    ("claimed", "complaint"),
    [(Claim(ItemState.ORIGINAL, "http://x.example/"), "two Originals"), (Claim(None, None), "nowhere")],
)
def test_the_observer_sees_what_is_wrong(claimed: Any, complaint: str) -> None:
    archives = [Liar("a", Path(), 1), Liar("b", Path(), 1)]
    for archive in archives:
        archive.claimed = claimed
    observer = Observer(*archives)
    observer.watch("a.example/b/2010/01.01.00.00")
    end = time.monotonic() + 10
    while not observer.broken and time.monotonic() < end:
        time.sleep(0.01)
    observer.close()
    assert complaint in observer.broken[0]


def test_the_command_prints_a_table_and_its_seed() -> None:
    line = [sys.executable, "-m", "proofs.transfer", "--short", "--seed", "3", "simulated"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert "seed 3" in done.stdout
    assert "| simulated | hand-overs 400" in done.stdout
