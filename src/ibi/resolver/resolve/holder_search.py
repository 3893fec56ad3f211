"""Searches in the background for the holder of an original, after a reader was led to a copy.

Without this search, the next readers would get the same copy: its Archive answered first, so it becomes the likely
holder, and only likely holders are asked at first. The same holds where the known holder has handed the original over
and keeps a copy: it says "Copy", and is preferred until another Archive is heard that claims the original. See
RES-05: the first answer decides; T04: a rogue first answer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ibi.protocol.messages import UrlRequest
from ibi.protocol.vocabulary import ItemState
from ibi.resolver.cache.recent import put_newest
from ibi.resolver.model.alert import Alert, AlertKind
from ibi.resolver.resolve.policy import Plan
from ibi.resolver.resolve.round import Round, Terms, Times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.resolver.model.archive import ArchiveResponse, Members
    from ibi.resolver.resolve.learning import Knowledge
    from ibi.resolver.resolve.policy import Policy
    from ibi.resolver.resolve.queries import Queries
    from ibi.resolver.resolve.resolution import Redirect

SEARCH_EVERY: Final = 60.0
"""Seconds between two searches for the holder of one original, while readers are led to copies of it."""

MOST_SEARCHED: Final = 10_000
"""Items whose last search is recorded; the oldest is dropped for one more."""


class HolderSearch:
    """The searches of one process; belongs to one event loop. `members` returns the Archives that are included now."""

    def __init__(
        self,
        queries: Queries,
        times: Times,
        policy: Policy,
        knowledge: Knowledge,
        members: Callable[[], Members],
    ) -> None:
        self._queries = queries
        self._times = times
        self._policy = policy
        self._knowledge = knowledge
        self._members = members
        self._began: dict[str, float] = {}  # canonical name of an item -> time of the loop, the oldest first

    def begin(
        self, chosen: Redirect, rounds: Sequence[Round], heard: Sequence[ArchiveResponse], terms: Terms
    ) -> None:
        """Search for the original of the item whose copy was chosen; return at once.

        `rounds`: those of the resolution; `heard`: the responses of the last round that have come; others may follow.
        """
        query, now = rounds[-1].query, asyncio.get_running_loop().time()
        name = query.ibi.canonical
        if chosen.stale or now < self._began.get(name, -SEARCH_EVERY) + SEARCH_EVERY:
            return
        put_newest(self._began, name, now, MOST_SEARCHED)
        # An answer about a related item may say nothing of the item itself.
        plain = UrlRequest(query.client_addresses, query.ibi)
        if plain == query:
            self._queries.keep(self._hear_claims(rounds[-1], heard))
            return
        if any(each.query == plain for each in rounds):
            return  # an earlier round has asked all Archives for the item itself, and its answers were learned
        plan = Plan(self._members().regular)
        further = Round(self._queries, self._times, self._members, plan, plain, terms)
        self._queries.keep(self._hear_claims(further))

    async def _hear_claims(self, round_: Round, heard: Sequence[ArchiveResponse] = ()) -> None:
        """Hear the rest of a round; record which Archive claims the original, or that several do."""
        query, knowledge = round_.query, self._knowledge
        responses = [*heard, *[each async for each in round_.responses()]]
        claims = [each for each in responses if self._claims_original(query, each)]
        if len(claims) > 1:
            names = tuple(each.archive.name for each in claims)
            alert = Alert(AlertKind.SUSPECT_ORIGINALS, ibi=str(query.ibi), archives=names)
            knowledge.record(alert, query.ibi, query, responses, self._policy)
        elif claims:
            rest = [each for each in responses if each is not claims[0]]
            hint = knowledge.hints.of(query.ibi.canonical)
            knowledge.learn(query, hint, [*claims, *rest], query, self._policy, self._members())
            # A reader who came meanwhile may have been led to the copy once more, by a redirect that was then cached.
            knowledge.cache.leases.change_versions([query.ibi.canonical])

    def _claims_original(self, query: UrlRequest, response: ArchiveResponse) -> bool:
        answer = response.answer
        if answer is None or response.source == "stale" or answer.state is not ItemState.ORIGINAL:
            return False
        return self._policy.disbelief(response.archive, query, answer) is None
