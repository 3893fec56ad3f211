"""P-R12: every holder falls silent, and readers still get to what may be cached; of the rest no reader is told a lie.

Half of the Archives allow that their answers be used again. When all have fallen silent, items that were resolved out
of such an answer lead there, marked as older; the others get "not every Archive has answered", never that the
item does not exist. All this before the breakers are open, after, and after a restart.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ibi.resolver.pages.explanation import STALE
from proofs.common import numbered
from proofs.common.report import Report, Scale
from proofs.resolver.asking import ask_all, explain, milliseconds
from proofs.resolver.world import World

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

NAME: Final = "P-R12"

ARCHIVES: Final = 20
SECONDS: Final = 2.0
"""Until an older answer is given: it is waited a little less for a new one."""

_FRESH: Final = 1.2  # seconds after which no answer may be used as it is
_WRITTEN: Final = 1.0  # seconds in which what was learned is on the disk


def prove(scale: Scale, seed: int) -> Report:
    """Let them all fall silent."""
    report = Report(NAME, "what may be remembered is; of the rest nobody says that it does not exist")
    for manner in ("hung",) if scale is Scale.SHORT else ("hung", "dead"):
        asyncio.run(_prove(report, seed, scale, manner))
    return report


async def _prove(report: Report, seed: int, scale: Scale, manner: str) -> None:
    archives, items = ARCHIVES, [numbered.item(number) for number in range(scale.pick(30, 200, 500))]
    reusable = range(1, archives + 1, 2)
    waited = {"archive_seconds": 2.2 if scale is Scale.SHORT else 3.0}
    async with World.open(report, seed, archives, numbered.MOST_ITEMS, **waited) as world:
        await world.town.behave("reusable", reusable)
        answers = await ask_all(world.port, items, 4)
        report.demand(all(answer.location for answer in answers), "an item was not found to begin with")
        holders = numbered.Holdings(seed, archives).of
        may = {
            item: {numbered.url(each, item) for each in holders(number) if each in reusable}
            for number, item in enumerate(items)
        }
        kept = {item: urls for item, urls in may.items() if urls}
        await asyncio.sleep(max(_FRESH, _WRITTEN))
        await world.town.behave(manner)
        await _ask(report, world, f"{manner}, first", items, kept, judged=scale is not Scale.SHORT)
        await _ask(report, world, f"{manner}, asleep", items, kept, judged=scale is not Scale.SHORT)
        traces = await asyncio.gather(*(explain(world.port, item) for item in list(kept)[:10]))
        for trace in traces:
            report.demand(
                trace["outcome"].get("reason") == STALE, f"an older answer was not marked: {trace['outcome']}"
            )
        await world.restart()
        await _ask(report, world, f"{manner}, restarted", items, kept, judged=scale is not Scale.SHORT)


async def _ask(
    report: Report,
    world: World,
    when: str,
    items: Sequence[str],
    kept: Mapping[str, Collection[str]],
    *,
    judged: bool,
) -> None:
    answers = await ask_all(world.port, items, len(items))
    older = [answer for answer in answers if answer.target in kept]
    others = [answer for answer in answers if answer.target not in kept]
    right = sum(answer.location in kept[answer.target] for answer in older)
    report.count("remembered", len(older))
    report.count("given again", right)
    report.count("honest refusals", len(others))
    report.demand(right == len(older), f"{when}: {right} of {len(older)} remembered answers were given")
    strange = {answer.status for answer in others} - {503}
    report.demand(not strange, f"{when}: what nobody may remember was answered with {strange}")
    slowest = milliseconds(older, 1.0)
    report.top("slowest ms", slowest)
    report.demand(slowest <= SECONDS * 1000 or not judged, f"{when}: an older answer took {slowest} ms")
