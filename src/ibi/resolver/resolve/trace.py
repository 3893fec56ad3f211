"""The trace of a resolution: written by the driver while it runs, read by pages only.

Nothing is decided by it: limits, metrics and caches look at the outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct, field

from ibi.protocol import vocabulary as say
from ibi.protocol.url_list import UrlList
from ibi.protocol.vocabulary import ItemState
from ibi.resolver.model.archive import NOT_KNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.model.archive import Archive, ArchiveResponse
    from ibi.resolver.resolve.policy import Policy

First = Literal["hint", "filter", "prefix", "everybody", "memory"]
"""Why the first Archives of a round were asked first; "memory": none was asked, the negative cache answered."""


_SUMMARIES: Final[dict[ItemState | None, UrlList]] = {
    None: UrlList({say.TIMESTAMP: ""}),  # known, without a state
    **{state: UrlList({say.STATE: state}) for state in ItemState},
}


class Step(Struct, eq=False):
    """One round: what was asked, of which Archives (in order), and their responses (in order).

    `began`: time of the event loop. `negatives`: where none was asked, the Archives that the negative cache stands for.
    """

    query: UrlRequest
    first: First
    began: float
    negatives: Sequence[Archive] = ()
    queried: Sequence[Archive] = ()
    responses: list[ArchiveResponse] = field(default_factory=list)

    def forget_answers(self) -> None:
        """Keep of each answer only the state it gave: explanations in full are rare, answers are large (threat T10)."""
        for response in self.responses:
            answer = response.answer
            if answer is not None and answer is not NOT_KNOWN:
                response.answer = _SUMMARIES[answer.state]


class Trace(Struct, eq=False):
    """How one resolution went.

    `url`: the persistent URL as a whole (note 16). `in_full`: whether a page will show what Archives answered.
    `milliseconds`: how long the Archives took in all.
    """

    url: str
    policy: Policy
    original_required: bool
    in_full: bool = False
    steps: list[Step] = field(default_factory=list)
    milliseconds: int = 0
