"""P-R13: three Archives of ten begin to hang, and until their circuits open no reader of the others notices.

Readers come at a rate and each asks for another item that nothing is known of, so that all Archives are queried each
time; its holders answer. The Archives that hang accept connections and say nothing. In the ten seconds after they
have begun, 99 of 100 readers may wait for half as long again as while all were well.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

from proofs.common import numbered
from proofs.common.report import Report, Scale
from proofs.resolver.asking import Answer, Stream, milliseconds
from proofs.resolver.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "P-R13"

MOST: Final = 1.5
"""Times what 99 of 100 take while all are well."""
RATES: Final = (30, 30, 15)
"""Readers a second, in each form: a third of what a small machine serves among so many Archives."""
SLOWEST: Final = 1.5
"""Seconds that no reader may wait, however busy the machine: half of the time of an Archive that is silent."""


def prove(scale: Scale, seed: int) -> Report:
    """Let them begin to hang."""
    report = Report(NAME, "whoever begins to hang delays no reader of what others hold")
    asyncio.run(_prove(report, seed, scale))
    return report


async def _prove(report: Report, seed: int, scale: Scale) -> None:
    archives, seconds = scale.pick(20, 100, 200), scale.pick(3, 10, 10)
    chance = random.Random(seed)
    hanging = chance.sample(range(1, archives + 1), archives * 3 // 10)
    holdings = numbered.Holdings(seed, archives, frozenset(hanging))
    rate = scale.pick(*RATES)
    items = [numbered.item(number) for number in range(3 * rate * (seconds + 2))]
    async with World.open(report, seed, archives) as world:
        await world.town.do(without=hanging)

        async def readers(most: int) -> list[Answer]:
            stream = Stream(world.port, items, rate, chance, in_turn=True)
            flowing = asyncio.create_task(stream.flow())
            await asyncio.sleep(most)
            stream.over = True
            await flowing
            del items[: len(stream.answers)]
            return stream.answers

        await readers(2)  # connects to all of them
        well = await readers(seconds)
        await world.town.behave("hung", hanging)
        begun = await readers(seconds)
    for what, answers in (("all well", well), ("they hang", begun)):
        right = sum(_is_right(answer, holdings) for answer in answers)
        report.count(f"{what}: readers", len(answers))
        report.count(f"{what}: p99 ms", milliseconds(answers, 0.99))
        report.count(f"{what}: slowest ms", milliseconds(answers, 1.0))
        report.demand(right == len(answers), f"{what}: {len(answers) - right} did not get to a holder")
    _judge(report, well, begun, scale)


def _is_right(answer: Answer, holdings: numbered.Holdings) -> bool:
    number = numbered.number_of(answer.target)
    return number is not None and answer.location in holdings.places(number)


def _judge(report: Report, well: Sequence[Answer], begun: Sequence[Answer], scale: Scale) -> None:
    usual, slow = milliseconds(well, 0.99), milliseconds(begun, 0.99)
    slowest = max(answer.seconds for answer in begun)
    report.demand(slowest <= SLOWEST, f"a reader waited for {slowest:.1f} s")
    if scale is not Scale.SHORT:
        report.demand(slow <= MOST * usual, f"99 of 100 within {slow} ms, while all were well {usual} ms")
