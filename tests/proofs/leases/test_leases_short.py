"""The proof of leases in its short form, and that it finds what is wrong."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.leases import mutants, plays, worlds
from proofs.leases.exploring import explore
from proofs.leases.messages import MessageModel
from proofs.leases.processes import ProcessConduct, ProcessModel, ProcessWorld
from proofs.leases.world import Conduct, MessageWorld

SEED = random.randrange(10**6)  # another one in each run; a failure shows it


@pytest.mark.long
def test_no_small_world_leads_a_reader_by_an_outdated_answer() -> None:
    report = worlds.prove(Scale.SHORT, SEED)
    assert report.broken == []
    assert report.counts["states"] > 35_000


@pytest.mark.long
def test_no_play_leads_a_reader_by_an_outdated_answer() -> None:
    report = plays.prove(Scale.SHORT, SEED)
    assert report.broken == [], f"seed {SEED}"
    assert report.counts["plays"] == 300
    assert report.counts["states with an answer that may be used"] > 1_000


@pytest.mark.long
def test_wrong_rules_lead_a_reader_wrong() -> None:
    report = mutants.prove(Scale.SHORT, SEED)
    assert report.broken == []
    assert report.counts["mutants"] == 4


def test_a_wrong_rule_is_found_by_plays() -> None:
    report, model = Report("trial", ""), MessageModel(plays.WORLD, Conduct(lambda *_: iter(())))
    assert any(plays.play(model, seed, report) for seed in range(50))


def test_how_a_reader_was_led_wrong_is_shown_step_by_step() -> None:
    model = MessageModel(
        MessageWorld("no notices", {"changes": 1}, loss=False), Conduct(faults=frozenset({"no notices"}))
    )
    explored = explore(model, calm=False)
    state = model.start()
    for action in explored.history:
        assert model.fault(state) is None
        state = model.step(state, action)
    assert model.fault(state) == explored.fault


def test_a_lease_that_one_request_does_not_bring_back_is_noticed() -> None:
    order = mutants.in_order((3, 1, 2, 4))  # what is being applied stays so
    world = ProcessWorld("one process", {"changes": 1}, processes=1)
    assert "no lease after one request" in str(explore(ProcessModel(world, ProcessConduct(order))).fault)


def test_the_command_prints_a_table_and_its_seed() -> None:
    line = [sys.executable, "-m", "proofs.leases", "--short", "--seed", "3", "plays"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, env=environment(), check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "seed 3" in done.stdout
    assert "| plays | steps 21,000" in done.stdout
