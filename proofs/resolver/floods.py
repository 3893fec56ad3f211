"""P-R6: fifty clients ask for random names as fast as they may, and others do not notice.

The clients come through a proxy that is believed, each under its own address. Beside them come readers who click on
links as people do: most to items that were requested before, some to others.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final

from proofs.common import numbered
from proofs.common.report import Report, Scale
from proofs.resolver.asking import Answer, Stream, ask_all, milliseconds
from proofs.resolver.world import World

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

NAME: Final = "P-R6"

CLIENTS: Final = 50
LINES: Final = 20
"""Connections of each of them, half of what it may have at once."""
RATE, BURST = 20.0, 40
"""What one reader may have asked for, a second and at once: the resolver's own figures."""
WARM: Final = 200
"""Items that were requested before."""
HONEST: Final = 30.0
"""Readers beside them, a second."""
COLD: Final = 0.2
"""The share of these that request items not requested before."""

_READERS: Final = [f"198.51.100.{number}" for number in range(1, 101)]
_FLOODING: Final = [f"203.0.113.{number}" for number in range(1, CLIENTS + 1)]
_LOST_OF: Final = 1_000  # one of so many honest readers may be told to come again
_LOST_OF_SHORT: Final = 10  # in the short form, which shares its machine with all other tests


def prove(scale: Scale, seed: int) -> Report:
    """Flood it."""
    report = Report(NAME, "whoever floods the resolver stops nobody else, and costs Archives what is agreed")
    asyncio.run(_prove(report, seed, scale))
    return report


async def _prove(report: Report, seed: int, scale: Scale) -> None:
    archives, requests = scale.pick(20, 40, 100), scale.pick(1_200, 10_000, 100_000)
    chance = random.Random(seed)
    warm = [numbered.item(number) for number in range(WARM)]
    cold = [numbered.item(number) for number in range(WARM, WARM + 4 * scale.pick(200, 2_000, 8_000))]
    settings = {"request_rate": RATE, "request_burst": BURST}
    async with World.open(report, seed, archives, numbered.MOST_ITEMS, **settings) as world:
        await ask_all(world.port, warm, 4, _READERS[:50])
        usual = await _beside(world, chance, warm, cold, asyncio.sleep(scale.pick(1, 20, 60)))
        report.count("usual p99 ms", milliseconds(usual, 0.99))
        await world.town.request_counts()
        begun = time.monotonic()
        flood = _flood(report, world, [numbered.unknown(chance) for _ in range(requests)])
        honest = await _beside(world, chance, warm, cold, flood)
        lasted = time.monotonic() - begun
        queries = (await world.town.request_counts()).get("urlRequest", 0)
        await asyncio.sleep(1.0)
        after = await ask_all(world.port, warm, 4, _READERS[50:])
    _judge(report, usual, honest, after, scale)
    allowed = CLIENTS * (BURST + LINES + RATE * lasted) * archives + len(honest) * archives
    report.count("seconds", round(lasted))
    report.count("upstream", queries)
    report.demand(queries <= allowed, f"{queries} questions, more than {allowed:.0f}")


async def _beside(
    world: World,
    chance: random.Random,
    warm: Sequence[str],
    cold: Sequence[str],
    happening: Awaitable[object],
) -> list[Answer]:
    """What readers get while something happens."""
    targets = [chance.choice(cold if chance.random() < COLD else warm) for _ in range(10_000)]
    stream = Stream(world.port, targets, HONEST, chance, _READERS)
    flowing = asyncio.create_task(stream.flow())
    await happening
    stream.over = True
    await flowing
    return stream.answers


async def _flood(report: Report, world: World, targets: Sequence[str]) -> None:
    answers = await ask_all(world.port, targets, CLIENTS * LINES, _FLOODING)
    report.count("flood", len(answers))
    report.count("refused", sum(answer.status == 429 for answer in answers))
    report.demand(not any(answer.location for answer in answers), "a name of nothing led somewhere")
    strange = {answer.status for answer in answers} - {404, 429, 503}
    report.demand(not strange, f"floods were answered with {strange}")


def _judge(
    report: Report, usual: Sequence[Answer], honest: Sequence[Answer], after: Sequence[Answer], scale: Scale
) -> None:
    for what, answers in (("before", usual), ("beside", honest), ("after", after)):
        lost = [answer.status for answer in answers if answer.status != 302]
        report.count(f"honest {what}", len(answers))
        report.count(f"lost {what}", len(lost))
        report.demand(
            len(lost) <= max(1, len(answers) // (_LOST_OF_SHORT if scale is Scale.SHORT else _LOST_OF)),
            f"honest {what}: lost {len(lost)}: {lost[:9]}",
        )
    known = [[each for each in answers if _is_warm(each)] for answers in (usual, honest)]
    slow, most = milliseconds(known[1], 0.99), 2 * milliseconds(known[0], 0.99)
    report.count("known items p99 ms", slow)
    report.count("other items p99 ms", milliseconds([each for each in honest if not _is_warm(each)], 0.99))
    report.demand(slow <= most or scale is Scale.SHORT, f"known items: p99 {slow} ms, more than {most} ms")


def _is_warm(answer: Answer) -> bool:
    number = numbered.number_of(answer.target)
    return number is not None and number < WARM
