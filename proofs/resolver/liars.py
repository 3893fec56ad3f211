"""P-R1: three Archives of ten are dead, hung or liars, and readers still get where they want, in time.

Every item is held by one to three honest Archives. First all behave, which tells how fast this machine is; then the bad
ones begin. Each reader must be sent to a holder; a request for what no Archive holds must be answered in time, both
before the resolver has learned which Archives not to wait for and after.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.resolver.resolve.queries import PROBE_SECONDS
from proofs.common import numbered
from proofs.common.report import Report, Scale
from proofs.resolver.asking import Answer, ask_all, ask_at_once, milliseconds
from proofs.resolver.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "P-R1"

BEFORE, AFTER = 5.2, 0.3
"""Seconds in which who asks for nothing is answered, before and after the breakers are open."""
SLACK: Final = 0.5
"""Seconds after which the breakers of those are open whose probes have got no answer in time."""
UNKNOWN_AT_ONCE: Final = 8
TOGETHER: Final = 6
"""Readers at a time: as many as show what the Archives do, and not what a small machine can."""
LATER: Final = 8
"""One of so many honest Archives becomes dead in the end, with what it is known to hold."""

_REFUSED_OF: Final = 10_000  # one of so many readers may be told to come again


@dataclass
class _Trial:
    """One world, and how its readers fare."""

    report: Report
    world: World
    holdings: numbered.Holdings
    chance: random.Random
    judged: bool  # whether times count: not where a test shares a machine with others

    async def ask(self, what: str, numbers: Sequence[int]) -> list[Answer]:
        """Readers ask for these items, each must get to a holder of it."""
        answers = await ask_all(self.world.port, [numbered.item(number) for number in numbers], TOGETHER)
        right = 0
        for answer in answers:
            number = numbered.number_of(answer.target)
            if number is not None and answer.location in self.holdings.places(number):
                right += 1
            elif answer.location:
                self.report.violate(f"{answer.target} led to {answer.location}")
            else:
                self.report.unshown.append(f"{what}: {answer.target}: {answer.status}")
        self.report.count(f"{what} resolutions", len(answers))
        self.report.count("not redirected", len(answers) - right)
        self.report.count(f"{what} p50 ms", milliseconds(answers, 0.5))
        self.report.count(f"{what} p99 ms", milliseconds(answers, 0.99))
        return answers

    async def ask_for_nothing(self, when: str, at_once: int, seconds: float) -> None:
        """Request items that no Archive holds."""
        targets = [numbered.unknown(self.chance) for _ in range(at_once)]
        answers = await ask_at_once(self.world.port, targets)
        slowest = max(answer.seconds for answer in answers)
        self.report.top(f"unknown {when} ms", round(slowest * 1000))
        for answer in answers:
            refused = 400 < answer.status < 600 and not answer.location
            self.report.demand(refused, f"unknown {when}: {answer.status} {answer.location}")
        if self.judged:
            self.report.demand(slowest <= seconds, f"unknown {when}: after {slowest:.2f} s")

    def compare(self, what: str, bad: Sequence[Answer], good: Sequence[Answer], added: int) -> None:
        """The bad ones may not slow the others down."""
        slow, usual = milliseconds(bad, 0.99), milliseconds(good, 0.99)
        if self.judged:
            self.report.demand(
                slow <= max(2 * usual, usual + added), f"{what}: p99 {slow} ms, before {usual} ms"
            )


def prove(scale: Scale, seed: int) -> Report:
    """Ask, with and without faults."""
    report = Report(NAME, "readers get to a holder, whoever is dead, hung or lies; nobody is led astray")
    asyncio.run(_prove(report, seed, scale))
    requests = sum(count for what, count in report.counts.items() if what.endswith("resolutions"))
    refused = report.counts["not redirected"]
    tolerated = 1 if scale is Scale.SHORT else requests / _REFUSED_OF
    report.demand(refused <= tolerated, f"{refused} of {requests} were not redirected: {report.unshown[:3]}")
    report.unshown.clear()
    return report


async def _prove(report: Report, seed: int, scale: Scale) -> None:
    archives, cold = scale.pick(40, 100, 200), scale.pick(60, 1_000, 5_000)
    hinted = scale.pick(300, 9_000, 45_000)
    chance = random.Random(seed)
    bad = chance.sample(range(1, archives + 1), archives * 3 // 10)
    falling = chance.sample([each for each in range(1, archives + 1) if each not in bad], archives // LATER)
    holdings = numbered.Holdings(seed, archives, frozenset(bad))
    async with World.open(report, seed, archives) as world:
        await world.town.do(without=bad)
        trial = _Trial(report, world, holdings, chance, judged=scale is not Scale.SHORT)
        numbers = list(range(cold + cold // 4))
        usual_cold = await trial.ask("cold, all well,", numbers[cold:])
        usual = await trial.ask("hinted, all well,", chance.choices(numbers[cold:], k=hinted // 10))
        for manner, each in (("dead", bad[::3]), ("hung", bad[1::3]), ("lying", bad[2::3])):
            await world.town.behave(manner, each)
        await trial.ask_for_nothing("before", UNKNOWN_AT_ONCE, BEFORE)
        if trial.judged:  # until the probes, which so many failures have brought, have got no answer either
            await asyncio.sleep(PROBE_SECONDS + SLACK)
        for _ in range(scale.pick(3, 20, 50)):
            await trial.ask_for_nothing("after", 1, AFTER)
        answers = await trial.ask("cold", numbers[:cold])
        trial.compare("cold", answers, usual_cold, 100)
        answers = await trial.ask("hinted", chance.choices(numbers[:cold], k=hinted))
        trial.compare("hinted", answers, usual, 100)
        await world.town.behave("dead", falling)
        alive = [each for each in numbers if not set(holdings.of(each)) <= set(falling)]
        hit = [each for each in alive if set(holdings.of(each)) & set(falling)]
        await trial.ask("hinted to the dead", (hit * 2)[: scale.pick(40, 500, 2_000)])
        report.count("upstream", (await world.town.request_counts()).get("urlRequest", 0))
