"""P-R3: how many questions one reader's request becomes, counted where they arrive."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from ibi.resolver.rounds import MOST_QUESTIONS
from proofs.minting.report import Report, Scale
from proofs.resolver import cast as play
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
    f"{play.item(0)}?ibiurl.requireditemstatus=Copy",
    f"{play.item(0)}:!x",
    f"{play.item(0)}?ibiurl.verblist=Get",
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
    targets = [play.item(number) for number in range(items)]
    answers = await ask_all(world.port, targets, 1)
    cold = await _asked(world)
    report.demand(all(answer.status == 302 for answer in answers), "a reader was not redirected")
    report.count("questions for a miss", round(cold / items))
    report.demand(cold <= archives * items, f"{items} misses became {cold} questions")
    await asyncio.sleep(0.5)  # what was learned is written in the background
    await ask_all(world.port, targets, 1)
    hits = await _asked(world)
    report.count("questions for a hint", round(hits / items))
    report.demand(hits == items, f"{items} hints became {hits} questions")
    await ask_all(world.port, [target + _ORIGINAL for target in targets], 1)
    all_asked = await _asked(world)
    report.count("questions for an original", round(all_asked / items))
    report.demand(
        all_asked == archives * items, f"{items} demands for an original became {all_asked} questions"
    )


async def _nothing(report: Report, world: World, archives: int, chance: random.Random) -> None:
    invalid = await ask_all(world.port, _INVALID, 1)
    asked = await _asked(world)
    report.count("questions for what is invalid", asked)
    report.demand(asked == 0, f"what is no persistent URL became {asked} questions")
    report.demand(all(400 <= answer.status < 500 for answer in invalid), "an invalid URL had another answer")
    item = play.unknown(chance)
    for time in ("first", "second"):
        answers = await ask_all(world.port, [item] * (1 if time == "first" else 50), 1)
        report.demand(all(answer.status == 404 for answer in answers), "what nobody holds was found")
        asked = await _asked(world)
        report.count(f"questions for the {time} unknown", asked)
        expected = archives if time == "first" else 0
        report.demand(asked == expected, f"what nobody holds became {asked} questions, the {time} time")
        await asyncio.sleep(0.3)


async def _at_once(report: Report, world: World, archives: int, chance: random.Random) -> None:
    """Everybody wants the same, which is somewhere, or nowhere; no answer comes before the last reader was read."""
    await world.town.do(latency=1.2, spread=0.0)
    for what, target, status in (
        ("known", play.item(play.MOST_ITEMS - 1), 302),
        ("unknown", play.unknown(chance), 404),
    ):
        answers = await ask_at_once(world.port, [target] * EQUAL)
        told = sum(answer.status == status for answer in answers)
        report.demand(told == EQUAL, f"of {EQUAL} who asked at once for the {what}, {told} had an answer")
        await asyncio.sleep(1.0)  # the slowest are still under way
        asked = await _asked(world)
        report.count(f"questions for {EQUAL} at once, {what}", asked)
        report.demand(
            asked <= archives,
            f"{EQUAL} equal requests at once ({what}) became {asked} questions of {archives}",
        )
    await world.town.do(latency=0.004, spread=SPREAD)


async def _in_circles(report: Report, world: World, archives: int) -> None:
    """An Archive tells of one next edition after the other."""
    answers = await ask_all(world.port, [f"{play.item(0, play.CHAIN)}!"], 1)
    asked = await _asked(world)
    report.count("questions for an endless chain", asked)
    report.demand(not answers[0].location, "an endless chain led somewhere")
    report.demand(asked > archives, "the chain was not followed")
    report.demand(asked <= MOST_QUESTIONS, f"an endless chain became {asked} questions")


async def _asked(world: World) -> int:
    return (await world.town.asked()).get("urlRequest", 0)
