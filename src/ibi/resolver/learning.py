"""What a round has taught about the item that it was about: who has it, and who has its original no more.

Everything that is learned changes only who is asked first, and which of two right answers is preferred (ARC-12).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ibi.protocol.vocabulary import State
from ibi.resolver.resolution import Redirect

if TYPE_CHECKING:
    from collections.abc import Collection

    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.alerts import Alert
    from ibi.resolver.explanation import RoundTold
    from ibi.resolver.inquiry import Heard
    from ibi.resolver.knowledge import Knowledge
    from ibi.resolver.location_index import Place
    from ibi.resolver.policy import Policy
    from ibi.resolver.registry import IncludedArchive
    from ibi.resolver.resolution import AskAgain


@dataclass(slots=True)
class Told:
    """What came of one round so far, besides what the machine knows."""

    request: UrlRequest
    round: RoundTold
    place: Place
    heard: list[Heard[IncludedArchive]] = field(default_factory=list)
    silent: list[IncludedArchive] = field(default_factory=list)
    knows: bool = False
    """Whether anybody knows the item."""


def learn(
    knowledge: Knowledge,
    policy: Policy,
    included: Collection[str],
    told: Told,
    decision: Redirect | AskAgain | Alert,
) -> None:
    """Keep what came of a round; `included`: the canonical service IBIs of those who may be asked."""
    if isinstance(decision, Redirect):
        if decision.stale:
            return
        chosen = next((said for said in told.heard if said.archive is decision.archive), None)
    else:
        living = (said for said in told.heard if said.url_list.pairs)
        chosen = next((said for said in living if said.url_list.state is not State.DELETED), None)
    if chosen is None:
        return
    archive, answer = chosen.archive, chosen.url_list
    believed = isinstance(decision, Redirect) and answer is decision.answer  # or it had not been chosen
    if not believed and policy.disbelief(archive, told.request, answer) is not None:
        return
    former = told.place.original
    has_it_no_more = former is not None and (
        former not in included
        or any(
            said.archive.service_ibi.canonical == former and said.url_list.state is not State.ORIGINAL
            for said in told.heard
        )
    )
    knowledge.learn(told.request, archive, answer, told.place, has_it_no_more=has_it_no_more)
