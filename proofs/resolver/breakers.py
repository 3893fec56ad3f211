"""P-R2: an Archive that hangs costs one question a pause, and is asked like the others soon after it is well again.

Two Archives hang while readers keep requesting items that no Archive holds, so that all are queried each time. One
is healed during its first pause, and must be back when that ends; the other one hangs on, for longer and longer pauses.
"""

from __future__ import annotations

import asyncio
import random
import time
from itertools import pairwise
from typing import Final

from ibi.resolver.resolve.breaker import FAILURES, OPEN_SECONDS
from proofs.common import numbered
from proofs.common.report import Report, Scale
from proofs.resolver.asking import Stream
from proofs.resolver.world import World

NAME: Final = "P-R2"

ARCHIVES: Final = 20
RATE: Final = 10.0
"""Readers a second."""
SHORT_PAUSE: Final = 1.5
"""Of the resolver in the short form, instead of `OPEN_SECONDS`."""
SLACK: Final = 5.0
"""Seconds after the end of its pause in which a healed Archive is back."""

_WELL, _ILL = 1, 2  # who is healed soon, and who is not
_EARLIEST_PROBE: Final = 0.9  # of a pause: what comes sooner after a probe was asked beside it


def prove(scale: Scale, seed: int) -> Report:
    """Let two hang, and count what they are asked."""
    report = Report(NAME, "one question a pause to who hangs, and back soon after")
    asyncio.run(_prove(report, seed, scale))
    return report


async def _prove(report: Report, seed: int, scale: Scale) -> None:
    pause = SHORT_PAUSE if scale is Scale.SHORT else OPEN_SECONDS
    chance = random.Random(seed)
    settings = {"negative_seconds": 0, "archive_seconds": 0.5 if scale is Scale.SHORT else 3.0}
    async with World.open(report, seed, ARCHIVES, 0, "--pause", str(pause), **settings) as world:
        targets = [numbered.unknown(chance) for _ in range(20_000)]
        stream = Stream(world.port, targets, RATE, chance)
        flowing = asyncio.create_task(stream.flow())
        await asyncio.sleep(0.5)
        await world.town.behave("hung", [_WELL, _ILL])
        await _opened(world)
        await world.town.behave("honest", [_WELL])
        healed = time.monotonic()
        await world.town.request_counts()
        await _back(world, pause + SLACK + SLACK)
        report.count("ms until back", round((time.monotonic() - healed) * 1000))
        report.demand(
            time.monotonic() - healed <= pause + SLACK,
            "the healed Archive was not back when its pause was over",
        )
        await asyncio.sleep(max(0.0, healed + scale.pick(3, 5, 12) * pause - time.monotonic()))
        await _demand_rare_probes(report, world, pause, healed)
        stream.over = True
        await flowing
        report.count("readers", len(stream.answers))
        report.demand(
            all(answer.status in {404, 503} for answer in stream.answers), "a reader got a strange answer"
        )
        lost = sum(answer.status == 404 for answer in stream.answers if answer.seconds > pause)
        report.demand(not lost, f"{lost} readers were told that nobody has it though somebody was silent")


async def _opened(world: World) -> None:
    """Wait until both have been asked no more for a while: longer than questions take that are under way."""
    last, since = -1, time.monotonic()
    while time.monotonic() - since < 1.0:
        await asyncio.sleep(0.05)
        queries = (await world.town.do(who=[_WELL, _ILL]))["asked"].get("urlRequest", 0)
        if queries != last:
            last, since = queries, time.monotonic()


async def _back(world: World, longest: float) -> None:
    """Wait until it is asked again and again."""
    until = time.monotonic() + longest
    while time.monotonic() < until:
        queries = (await world.town.do(who=[_WELL]))["asked"].get("urlRequest", 0)
        if queries > FAILURES:
            return
        await asyncio.sleep(0.05)


async def _demand_rare_probes(report: Report, world: World, pause: float, since: float) -> None:
    """What the one that hangs on was asked after its first pause had begun."""
    queries = (await world.town.do(who=[_ILL]))["times"]
    times = [moment for moment in (queries[0] if queries else []) if moment >= since]
    watched = time.monotonic() - since
    report.count("probes", len(times))
    report.count("watched s", round(watched))
    report.demand(len(times) <= watched / pause + 1, f"{len(times)} probes in {watched:.0f} s")
    for number, (one, other) in enumerate(pairwise(times), 2):
        report.demand(
            other - one >= _EARLIEST_PROBE * pause, f"probe {number} came {other - one:.1f} s after the last"
        )
