"""P-R5: all Archives send as much as is taken, all at once, and the resolver neither grows nor stops answering.

The breakers are off, or the bombs would be over after five of each. The event loop is watched from within; what it
kept others waiting in time of its own process is what counts, since wall-clock time includes other programs.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final

from proofs.common import numbered
from proofs.common.report import Report, Scale
from proofs.resolver.asking import ask_all
from proofs.resolver.endless import ENDLESS, RELATED
from proofs.resolver.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "P-R5"

MOST_BYTES: Final = 100_000_000
"""How much larger the process may become."""
MOST_WORK: Final = 0.05
"""Seconds that the event loop works between two looks, at the 99th of 100."""

TOGETHER: Final = 4


def prove(scale: Scale, seed: int) -> Report:
    """Have them thrown, and look at the resolver meanwhile."""
    report = Report(NAME, "endless answers cost little memory and do not stop others")
    asyncio.run(_prove(report, seed, scale))
    return report


async def _prove(report: Report, seed: int, scale: Scale) -> None:
    archives, readers = scale.pick(40, 100, 200), scale.pick(3, 20, 40)
    chance = random.Random(seed)
    async with World.open(report, seed, archives, 1_000, "--failures", "1000000000") as world:
        numbers = range(scale.pick(50, 200, 500))
        await ask_all(world.port, [numbered.item(number) for number in numbers], TOGETHER)
        before = await world.resolver.sampled()
        began = len(world.resolver.samples())
        for manner in ENDLESS:
            await world.town.behave(manner)
            step = "+" if manner == RELATED else ""
            names = [numbered.unknown(chance) + step for _ in range(readers)]
            answers = await ask_all(world.port, names, TOGETHER)
            answered = sum(answer.status in {404, 503} for answer in answers)
            report.demand(answered == readers, f"{manner}: of {readers} readers, {answered} had an answer")
            report.count("bombs", readers * archives)
        await world.resolver.sampled()
        _judge(report, before, world.resolver.samples()[began:], scale)
        await world.town.behave("honest")
        answers = await ask_all(world.port, [numbered.item(number) for number in numbers], TOGETHER)
        report.demand(all(answer.status == 302 for answer in answers), "it did not recover")


def _judge(report: Report, before: dict[str, Any], samples: Sequence[dict[str, Any]], scale: Scale) -> None:
    own = [sample["bytes"] - sample["shared"] for sample in (before, *samples)]
    grown = max(own) - own[0]
    report.count("MB grown", round(grown / 1e6))
    report.demand(grown <= MOST_BYTES, f"it grew by {grown / 1e6:.0f} MB")
    for what, name, judged in (
        ("work", "works", True),
        ("wait", "waits", scale is Scale.FULL),
    ):
        times = sorted(each for sample in samples for each in sample[name])
        worst = times[int(len(times) * 0.99)]
        report.count(f"loop {what} p99 ms", round(worst * 1000))
        report.count(f"loop {what} most ms", round(times[-1] * 1000))
        report.demand(
            worst <= MOST_WORK or not judged, f"the event loop: 99th {what} of 100 took {worst * 1000:.0f} ms"
        )
