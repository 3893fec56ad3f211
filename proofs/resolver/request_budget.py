"""P-R3: how many questions one reader's request becomes, counted where they arrive."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from ibi.resolver.resolve.resolver import MOST_QUERIES
from proofs.common import numbered
from proofs.common.report import Report, Scale
from proofs.resolver.asking import ask_all, ask_at_once
from proofs.resolver.stubs import SPREAD
from proofs.resolver.world import World

NAME: Final = "P-R3"

EQUAL: Final = 1_000
"""Readers who ask for the same thing at the same moment."""
NEVER: Final = 3.0
"""Seconds that a likely holder is waited for alone here: on a busy machine it may be late without a fault."""

_ORIGINAL: Final = "?ibiurl.requireditemstatus=Original"
_INVALID: Final = (
    "items.example/w/2021/01.01",
    "items.example/w/20x1/01.01.00.00",
    "J8LNKB5R7W/3FUQHC5?servicesubject=urlRequest",
    "J8LNKB5R7W",
    f"{numbered.item(0)}?ibiurl.requireditemstatus=Copy",
    f"{numbered.item(0)}:!x",
    f"{numbered.item(0)}?ibiurl.verblist=Get",
    "A" * 9_000,
)


def prove(scale: Scale, seed: int) -> Report:
    """Ask, and count."""
    report = Report(NAME, "one reader's request becomes no more questions than agreed")
    asyncio.run(_prove(report, seed, scale))
    return report


async def _prove(report: Report, seed: int, scale: Scale) -> None:
    archives = scale.pick(20, 100, 200)
    chance = random.Random(seed)
    report.count("Archives", archives)
    async with World.open(report, seed, archives, latency=0.004, hedge_seconds=NEVER) as world:
        await _one_by_one(report, world, archives, scale.pick(20, 100, 200))
        await _nothing(report, world, archives, chance)
        await _at_once(report, world, archives, chance)
        await _in_circles(report, world, archives)


async def _one_by_one(report: Report, world: World, archives: int, items: int) -> None:
    targets = [numbered.item(number) for number in range(items)]
    answers = await ask_all(world.port, targets, 1)
    cold = await _queries(world)
    report.demand(all(answer.status == 302 for answer in answers), "a reader was not redirected")
    report.count("questions for a miss", round(cold / items))
    report.demand(cold <= archives * items, f"{items} misses became {cold} questions")
    await asyncio.sleep(0.5)  # what was learned is written in the background
    await ask_all(world.port, targets, 1)
    hits = await _queries(world)
    report.count("questions for a hint", round(hits / items))
    report.demand(hits == items, f"{items} hints became {hits} questions")
    await ask_all(world.port, [target + _ORIGINAL for target in targets], 1)
    all_queries = await _queries(world)
    report.count("questions for an original", round(all_queries / items))
    report.demand(
        all_queries == archives * items, f"{items} demands for an original became {all_queries} questions"
    )


async def _nothing(report: Report, world: World, archives: int, chance: random.Random) -> None:
    invalid = await ask_all(world.port, _INVALID, 1)
    queries = await _queries(world)
    report.count("questions for what is invalid", queries)
    report.demand(queries == 0, f"what is no persistent URL became {queries} questions")
    report.demand(all(400 <= answer.status < 500 for answer in invalid), "an invalid URL had another answer")
    item = numbered.unknown(chance)
    for time in ("first", "second"):
        answers = await ask_all(world.port, [item] * (1 if time == "first" else 50), 1)
        report.demand(all(answer.status == 404 for answer in answers), "what nobody holds was found")
        queries = await _queries(world)
        report.count(f"questions for the {time} unknown", queries)
        expected = archives if time == "first" else 0
        report.demand(queries == expected, f"what nobody holds became {queries} questions, the {time} time")
        await asyncio.sleep(0.3)


async def _at_once(report: Report, world: World, archives: int, chance: random.Random) -> None:
    """All readers request the same item, held or not; no Archive answers before the last request was read."""
    await world.town.do(latency=1.2, spread=0.0)
    for what, target, status in (
        ("known", numbered.item(numbered.MOST_ITEMS - 1), 302),
        ("unknown", numbered.unknown(chance), 404),
    ):
        answers = await ask_at_once(world.port, [target] * EQUAL)
        answered = sum(answer.status == status for answer in answers)
        report.demand(
            answered == EQUAL, f"of {EQUAL} who asked at once for the {what}, {answered} had an answer"
        )
        await asyncio.sleep(1.0)  # the slowest are still under way
        queries = await _queries(world)
        report.count(f"questions for {EQUAL} at once, {what}", queries)
        # The holder is slow to reply to the acknowledgment, too: then it may get a question of the resolver's own.
        own = 1 if status == 302 else 0
        report.demand(
            queries <= archives + own,
            f"{EQUAL} equal requests at once ({what}) became {queries} questions of {archives}",
        )
    await world.town.do(latency=0.004, spread=SPREAD)


async def _in_circles(report: Report, world: World, archives: int) -> None:
    """An Archive tells of one next edition after the other."""
    answers = await ask_all(world.port, [f"{numbered.item(0, numbered.CHAIN)}!"], 1)
    queries = await _queries(world)
    report.count("questions for an endless chain", queries)
    report.demand(not answers[0].location, "an endless chain led somewhere")
    report.demand(queries > archives, "the chain was not followed")
    report.demand(queries <= MOST_QUERIES, f"an endless chain became {queries} questions")


async def _queries(world: World) -> int:
    return (await world.town.request_counts()).get("urlRequest", 0)
