"""P-R4 over sockets: two to five Archives claim the original of an item, or one does, or none, and some are silent.

Every Archive answers at a moment of its own, up to 95 % of the deadline; the first readers are not judged, because to
open so many connections at once may take a loaded machine longer than the rest of it. Several claims are an alert that
names them, always and never without; one claim is followed, and called incomplete where an Archive was silent; copies
alone have an alert of their own. The same for many more cases, without sockets, is `proofs.resolution P-R4`.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from ibi.protocol.vocabulary import REQUIRED_STATE
from ibi.resolver.pages.explanation import ONLY_ORIGINAL, ONLY_ORIGINAL_HEARD
from proofs.common import numbered
from proofs.common.report import Report, Scale
from proofs.resolver.asking import EXPLAINED, ask_all
from proofs.resolver.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proofs.resolver.asking import Answer

NAME: Final = "P-R4"

SECONDS: Final = 3.0
"""What an Archive has for its answer."""
TOGETHER: Final = 8
"""Readers at a time: as many as a small machine can serve, with all these Archives, in good time."""

_JSON: Final = ("Accept: application/json",)
_KINDS: Final = len(numbered.KINDS)


def prove(scale: Scale, seed: int) -> Report:
    """Demand the original of so many items."""
    report = Report(NAME, "two claims: always an alert, never without; one: followed; silence is told")
    asyncio.run(_prove(report, seed, scale))
    return report


async def _prove(report: Report, seed: int, scale: Scale) -> None:
    archives, cases = scale.pick(20, 100, 200), scale.pick(16, 200, 500)
    latency = 0.95 * SECONDS * (0.2 if scale is Scale.SHORT else 1.0)  # a test shares its machine with others
    async with World.open(report, seed, archives, latency=latency, archive_seconds=SECONDS) as world:
        first = [numbered.item(cases + each * _KINDS, numbered.CLAIMED) for each in range(TOGETHER)]
        demands = [f"{item}?{REQUIRED_STATE}=Original" for item in first]
        await ask_all(world.port, demands, TOGETHER)  # from now on the connections to all Archives are open
        for kind in range(_KINDS):  # those with silent Archives last
            numbers = range(kind, cases, _KINDS)
            targets = {
                f"{numbered.item(number, numbered.CLAIMED)}?{REQUIRED_STATE}=Original": number
                for number in numbers
            }
            answers = await ask_all(world.port, targets, TOGETHER, headers=_JSON)
            reasons = await _reasons(world.port, [one.target for one in answers if one.status == 302])
            for answer in answers:
                reason, number = reasons.get(answer.target, ""), targets[answer.target]
                report.count(numbered.KINDS[kind])
                claims = numbered.claims(seed, archives, number)
                outcome = f"{answer.status} {answer.location} {reason} {answer.body.decode()} for {claims}"
                report.demand(right(answer, reason, claims), f"{numbered.KINDS[kind]}, {number}: {outcome}")
        report.count("questions", (await world.town.request_counts()).get("urlRequest", 0))


async def _reasons(port: int, targets: Sequence[str]) -> dict[str, str]:
    """Why each of these leads where it does, as the resolver explains it; nothing where it does not say."""
    pages = {f"{EXPLAINED}{target}": target for target in targets}
    explanations = {
        pages[answer.target]: json.loads(answer.body) if answer.body.startswith(b"{") else {}
        for answer in await ask_all(port, pages, TOGETHER, headers=_JSON)
    }
    return {target: trace.get("outcome", {}).get("reason", "") for target, trace in explanations.items()}


def right(answer: Answer, reason: str, states: dict[int, str]) -> bool:
    """Whether a reader was answered as these claims must be, and the answer explained so."""
    claims = [number for number, state in states.items() if state == "Original"]
    item = answer.target.partition("?")[0]
    if len(claims) == 1:
        complete = "silent" not in states.values()
        followed = answer.status == 302 and answer.location == numbered.url(claims[0], item)
        return followed and reason == (ONLY_ORIGINAL if complete else ONLY_ORIGINAL_HEARD)
    problem = json.loads(answer.body) if answer.body.startswith(b"{") else {}
    if claims:
        named = {numbered.service(number) for number in claims}
        return answer.status == 409 and set(problem.get("about", ())) == named and not answer.location
    return problem.get("kind") == "no-original" and not answer.location
