"""P-R8: hours of readers among bad Archives leave nothing behind: no memory, no descriptor, no task, no warning.

Most readers request what others requested, some what was not requested yet, a few what no Archive holds. Three
Archives of ten are bad, each in another way every few seconds. In the end all are well, every connection is closed, and
the resolver must stand as it stood before the first reader.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from math import sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from proofs.common import numbered
from proofs.common.report import Report, Scale
from proofs.resolver.asking import Stream, ask_all, milliseconds
from proofs.resolver.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "P-R8"

LEFT: Final = 5
"""Descriptors and tasks that may be more in the end than in the beginning."""
SLOPE: Final = 2.0
"""MB an hour: the upper end of what the memory may grow by, with a certainty of 95 %."""
JUDGED_FROM: Final = 3600
"""Seconds of samples from which a slope tells anything about hours."""

LONGEST: Final = 3.5
"""Seconds after which no question of the last readers can be under way any more."""

_ITEMS: Final = 40_000
_COLD, _UNKNOWN = 0.1, 0.02
_CHANGE_SECONDS: Final = 7.0
_WARM_UP: Final = 0.3  # the part of the time in which memories fill


def prove(scale: Scale, seed: int) -> Report:
    """Let them come for a while."""
    report = Report(NAME, "whatever comes and goes, nothing of it stays")
    asyncio.run(_prove(report, seed, scale))
    return report


async def _prove(report: Report, seed: int, scale: Scale) -> None:
    archives, seconds, rate = scale.pick(20, 40, 100), scale.pick(7, 180, 1_200), scale.pick(40, 60, 60)
    chance = random.Random(seed)
    bad = chance.sample(range(1, archives + 1), archives * 3 // 10)
    holdings = numbered.Holdings(seed, archives, frozenset(bad))
    async with World.open(report, seed, archives, _ITEMS) as world:
        await world.town.do(without=bad)
        await ask_all(world.port, [numbered.item(number) for number in range(20)], 4)
        before = await _at_rest(world, 1.0)
        began = len(world.resolver.samples())
        stream = Stream(world.port, _targets(chance, rate * seconds), float(rate), chance)
        tasks = [asyncio.create_task(stream.flow()), asyncio.create_task(_trouble(world, bad, chance))]
        await asyncio.sleep(seconds)
        samples = world.resolver.samples()[began:]
        stream.over = True
        tasks[1].cancel()
        with suppress(asyncio.CancelledError):
            await tasks[1]
        await tasks[0]
        _count(report, stream, holdings)
        after = await _at_rest(world, LONGEST)
    for what in ("descriptors", "tasks"):
        more = after[what] - before[what]
        report.count(f"{what} more", more)
        report.demand(more <= LEFT, f"{more} {what} more than in the beginning")
    slope, error = trend(
        [
            (each["moment"] / 3600, (each["bytes"] - each["shared"]) / 1e6)
            for each in samples[int(_WARM_UP * len(samples)) :]
        ]
    )
    report.count("MB/h", round(slope))
    report.count("MB/h at most", round(slope + error))
    report.demand(
        slope + error <= SLOPE or seconds < JUDGED_FROM, f"it grows by {slope:.1f} +- {error:.1f} MB an hour"
    )


def trend(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The slope of a straight line through points, and what it may be wrong by (95 %)."""
    middle, level = fmean(x for x, _ in points), fmean(y for _, y in points)
    spread = sum((x - middle) ** 2 for x, _ in points)
    slope = sum((x - middle) * (y - level) for x, y in points) / spread
    rest = sum((y - level - slope * (x - middle)) ** 2 for x, y in points)
    return slope, 1.96 * sqrt(rest / max(1, len(points) - 2) / spread)


def _targets(chance: random.Random, count: int) -> list[str]:
    found = []
    for _ in range(count):
        kind = chance.random()
        number = chance.randrange(500, _ITEMS) if kind < _COLD else chance.randrange(500)
        found.append(numbered.unknown(chance) if kind > 1 - _UNKNOWN else numbered.item(number))
    return found


async def _trouble(world: World, bad: list[int], chance: random.Random) -> None:
    """They are bad, each in a way of its own."""
    while True:
        chance.shuffle(bad)
        for manner, each in (("dead", bad[::3]), ("hung", bad[1::3]), ("lying", bad[2::3])):
            await world.town.behave(manner, each)
        await asyncio.sleep(_CHANGE_SECONDS)


async def _at_rest(world: World, seconds: float) -> dict[str, Any]:
    """A sample after a while without requests, when all Archives are well, and no connection is open."""
    await asyncio.sleep(seconds)
    await world.town.behave("honest")
    await asyncio.sleep(0.5)
    return await world.resolver.sampled()


def _count(report: Report, stream: Stream, holdings: numbered.Holdings) -> None:
    held = [answer for answer in stream.answers if numbered.number_of(answer.target) is not None]
    wrong = 0
    for answer in held:
        number = numbered.number_of(answer.target)
        if answer.location and answer.location not in holdings.places(number or 0):
            wrong += 1
            report.violate(f"{answer.target} led to {answer.location}")
    report.count("resolutions", len(stream.answers))
    report.count("redirected", sum(answer.status == 302 for answer in held))
    report.count("come again", sum(answer.status == 503 for answer in held))
    strange = {answer.status for answer in stream.answers} - {302, 404, 503, 502, 410}
    report.count("led astray", wrong)
    report.demand(not strange, f"readers were answered with {strange}")
    refused = sum(answer.status != 302 for answer in held)
    report.demand(refused <= len(held) // 1_000 + 1, f"{refused} readers were not redirected")
    denied = sum(answer.status in {404, 410} for answer in held)
    report.demand(not denied, f"{denied} readers were told that an item does not exist")
    third = len(stream.answers) // 3
    report.count("p99 ms", milliseconds(stream.answers, 0.99))
    report.count("p99 ms, last third", milliseconds(stream.answers[-third:], 0.99))
