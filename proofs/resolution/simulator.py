"""Endless seeds: scenarios for the machine alone, plays for the resolver around it, readers who go away midway."""

from __future__ import annotations

import random
import sys
from math import inf
from typing import TYPE_CHECKING

from ibi.resolver.resolve.resolution import Resolution
from proofs.common.report import Report, Scale
from proofs.resolution import chance, plays, truth
from proofs.resolution.playing import perform
from proofs.resolution.wire import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "random"
HOLDS = "I1 to I14; what is decided is acceptable, and true where all are honest"

_SCENARIOS, _PLAYS = (750, 20_000, 100_000), (500, 10_000, 100_000)
_INTERRUPTED = 0.2
_STEPS = 60  # of the loop, at each of which the reader of some plays goes away once
_REPORT_EVERY = 5_000  # scenarios and plays between two reports of progress


def prove(scale: Scale, seed: int) -> Report:
    """Scenarios and plays, each with a seed of its own, which is shown with what it broke."""
    report = Report(NAME, HOLDS)
    seeds = random.Random(seed)
    for _ in range(scale.pick(*_SCENARIOS)):
        tell(seeds.randrange(1 << 40), report)
        _how_far(report, seed)
    loop = VirtualLoop()
    for _ in range(scale.pick(*_PLAYS)):
        gone_at = seeds.randrange(1, 60) if seeds.random() < _INTERRUPTED else 0
        play(seeds.randrange(1 << 40), report, loop, gone_at=gone_at)
        _how_far(report, seed)
    for _ in range(scale.pick(1, 20, 100)):
        everywhere = seeds.randrange(1 << 40)
        for gone_at in range(1, _STEPS):
            play(everywhere, report, loop, gone_at=gone_at)
            _how_far(report, seed)
    loop.close()
    return report


def tell(seed: int, report: Report, machine: type[Resolution] = Resolution) -> None:
    """Run one scenario for the machine, honest or not."""
    way = random.Random(seed).random()
    if way < 0.3:
        scenario = chance.honest(seed)
    else:
        scenario = chance.honest(seed, silent=0.2, removals=True) if way < 0.5 else chance.lying(seed)
    report.count("stories")
    try:
        ending = perform(scenario, machine)
    except Exception as fault:  # noqa: BLE001 - whatever it is, it is a finding
        report.violate(f"{fault!r} (story of seed {seed})\n{scenario.text()}")
        return
    report.count("rounds", ending.rounds)
    if not scenario.liars:
        spoke = way < 0.3
        for wrong in truth.faults(
            scenario.world, scenario.question, scenario.reader, ending.verdict, all_spoke=spoke
        ):
            report.violate(f"{wrong} (story of seed {seed})\n{scenario.text()}")


def play(
    seed: int,
    report: Report,
    loop: VirtualLoop,
    machine: type[Resolution] = Resolution,
    *,
    gone_at: int = 0,
) -> None:
    """Run one play for the whole resolver; `gone_at`: the step at which the last reader goes away, 0 if none does."""
    played = plays.perform(seed, loop, machine, gone_at=gone_at)
    report.count("plays")
    report.count("resolutions", len(played.play.scenes))
    report.count("questions", sum(len(scene.exchanges) for scene in played.play.scenes))
    report.count(
        "readers gone", sum(scene.ended == inf and scene.failed is None for scene in played.play.scenes)
    )
    for sentence in _sentences(played, gone_at):
        report.violate(sentence)


def _how_far(report: Report, seed: int) -> None:
    """Say it now and then, beside the figures."""
    scenarios, played = report.counts["stories"], report.counts["plays"]
    if (scenarios + played) % _REPORT_EVERY == 0:
        held = f"{scenarios:,} stories and {played:,} plays, {report.violations:,} faults"
        print(f"{NAME}, seed {seed}: {held}", file=sys.stderr, flush=True)


def _sentences(played: plays.Played, gone_at: int) -> Iterator[str]:
    gone = f", gone at step {gone_at}" if gone_at else ""
    yield from (f"{fault}{gone}\n{played.play.text()}" for fault in played.faults)
