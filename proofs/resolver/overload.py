"""P-R11: ten times as many readers as the resolver can serve, and it goes on serving as many as it can.

A machine's own measure is taken first: how many a second a few readers get who each ask without a pause. Then come ten
times as many; then the few again; and at last the resolver is started anew while five times as many are asking.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from proofs.common import numbered
from proofs.common.report import Report, Scale
from proofs.resolver.asking import NO_ANSWER, Answer, Reader, ask_all, milliseconds
from proofs.resolver.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "P-R11"

FEW: Final = 16
"""Readers who keep it busy."""
GOODPUT: Final = 0.8
"""Of what it can, this much it does when there are too many."""
SLOWEST: Final = 2.0
"""Seconds until the last of 100 of those who are served."""
RECOVERY, COLD_START = 10.0, 15.0
"""Seconds until all is as before."""


class _Seen(NamedTuple):
    rate: float
    answers: list[Answer]


def prove(scale: Scale, seed: int) -> Report:
    """Ask more than it can bear."""
    report = Report(NAME, "too many readers do not keep it from serving as many as it can")
    asyncio.run(_prove(report, seed, scale))
    return report


async def _prove(report: Report, seed: int, scale: Scale) -> None:
    seconds = scale.pick(1, 20, 60)
    judged = scale is not Scale.SHORT
    chance = random.Random(seed)
    items = [numbered.item(number) for number in range(300)]
    async with World.open(report, seed, scale.pick(20, 40, 100)) as world:
        await ask_all(world.port, items, 4)
        usual = await _hammer(world, items, FEW, seconds, chance)
        report.count("usual a second", round(usual.rate))
        many = await _hammer(world, items, 10 * FEW, seconds, chance)
        _judge(report, "ten times", many)
        report.demand(
            many.rate >= GOODPUT * usual.rate or not judged,
            f"{many.rate:.0f} a second, and {usual.rate:.0f} before",
        )
        begun = time.monotonic()
        while True:
            again = await _hammer(world, items, FEW, 1, chance)
            passed = time.monotonic() - begun
            if again.rate >= GOODPUT * usual.rate or passed > RECOVERY:
                break
        report.count("ms until recovered", round(passed * 1000))
        report.demand(passed <= RECOVERY or not judged, "it did not recover")
        await _start_cold(report, world, items, chance, judged=judged)


async def _start_cold(
    report: Report, world: World, items: Sequence[str], chance: random.Random, *, judged: bool
) -> None:
    """Start the resolver anew while many are asking."""
    await world.restart()
    begun = time.monotonic()
    hammering = asyncio.create_task(_hammer(world, items, 5 * FEW, 1, chance))
    reader = Reader(world.port)
    ready = False
    while not ready and time.monotonic() - begun < 2 * COLD_START:
        ready = (await reader.ask("-/readyz")).status == 200
        await asyncio.sleep(0.05)
    reader.close()
    passed = time.monotonic() - begun
    report.count("ms until ready", round(passed * 1000))
    report.demand(passed <= COLD_START or not judged, f"it was ready after {passed:.0f} s")
    _judge(report, "five times, cold", await hammering)


async def _hammer(
    world: World, items: Sequence[str], readers: int, seconds: float, chance: random.Random
) -> _Seen:
    """So many readers ask without a pause; how many redirects a second there were."""
    over, answers = time.monotonic() + seconds, []

    async def one() -> None:
        reader = Reader(world.port)
        while time.monotonic() < over:
            answers.append(await reader.ask(chance.choice(items)))
        reader.close()

    await asyncio.gather(*(one() for _ in range(readers)))
    return _Seen(sum(answer.status == 302 for answer in answers) / seconds, answers)


def _judge(report: Report, what: str, seen: _Seen) -> None:
    served = [answer for answer in seen.answers if answer.status == 302]
    report.count(f"{what}: asked", len(seen.answers))
    report.count(f"{what}: a second", round(seen.rate))
    report.count(f"{what}: p99 ms", milliseconds(served, 0.99))
    lost = sum(answer.status == NO_ANSWER for answer in seen.answers)
    report.demand(not lost, f"{what}: {lost} had no answer")
    strange = {answer.status for answer in seen.answers} - {302, 429, 503, NO_ANSWER}
    report.demand(not strange, f"{what}: answered with {strange}")
    refused = sum(answer.status == 503 for answer in seen.answers)
    report.count(f"{what}: refused", refused)
    slow = milliseconds(served, 0.99)
    report.demand(slow <= SLOWEST * 1000, f"{what}: p99 of the served is {slow} ms")
