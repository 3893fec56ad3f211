"""One round: ask the likely ones, then everybody, and hear them as they come (RES-04).

All who are asked have the same deadline. When the caller has heard enough, the Archives that have not yet answered
may finish in their own time: none of them can tell from a line cut short that the original was not being insisted on
(RES-03, note 8).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from ibi.errors import PeerSilent
from ibi.resolver.questions import PER_ARCHIVE, Silent, answered
from ibi.resolver.questions import Archive as Asked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.plan import Members, Plan
    from ibi.resolver.questions import Heard, Questions
    from ibi.resolver.turns import Ticket


class Archive(Asked, Protocol):
    """What must be known of an Archive in order to plan a round and to ask it."""

    @property
    def confirmed(self) -> bool:
        """Whether it has confirmed that it wants to be asked."""


_Asked = TypeVar("_Asked", bound=Archive)


class Times(NamedTuple):
    """How long is waited, in seconds (docs/threats.md)."""

    per_archive: float = PER_ARCHIVE
    overall: float = 5.0
    hedge: float = 0.1
    """For likely holders alone."""
    grace: float = 0.15
    """For the known holder of the original, when another one was faster."""
    stale_after: float = 1.8
    """Before an older answer is used."""
    negative: int = 60
    """How long "nobody has it" is remembered."""


class FanOut(Generic[_Asked]):
    """The questions of one round; belongs to the running event loop. `leave` it when enough was heard.

    `members`: who is included at the moment, so that nobody is asked who has left meanwhile. `left`: seconds for all
    further rounds; what an Archive may take is less. `origin`: who the reader is, for whom everybody may have to be
    asked in turn. `remembered`: whether answers may be used that were given before.
    """

    def __init__(
        self,
        questions: Questions,
        plan: Plan[_Asked],
        members: Callable[[], Members[_Asked]],
        request: UrlRequest,
        times: Times,
        *,
        left: float,
        origin: str,
        remembered: bool = False,
    ) -> None:
        self._questions = questions
        self._plan = plan
        self._members = members
        self._request = request
        self._query = request.query()
        self._origin = origin
        self._remembered = remembered
        self._clock = asyncio.get_running_loop().time
        begun = self._clock()
        self._per_archive = times.per_archive
        self._end = begun + left
        self._hedge = times.hedge
        self._hedge_at = begun + times.hedge
        self._done: asyncio.Queue[asyncio.Future[Heard[_Asked] | Silent[_Asked]] | None] = asyncio.Queue()
        self._waiting: dict[str, _Asked] = {}
        self._aside: dict[asyncio.Future[Heard[_Asked] | Silent[_Asked]], _Asked] = {}
        self._ticket: Ticket | None = None
        self._widening = self._widened = False
        self.refused = False
        """Whether everybody should have been asked, and too much was under way."""
        self.asked: list[_Asked] = []
        """Whom it has asked, in order."""
        if plan.why == "everybody":
            self.widen()
        else:
            self._ask(plan.first, remembered=self._remembered)

    @property
    def unheard(self) -> list[_Asked]:
        """Those regular ones who have not answered yet, be it that they are still to be asked."""
        later = [] if self._widened else [one for one in self._members().regular if one not in self.asked]
        return [*self._waiting.values(), *later]

    def widen(self) -> None:
        """Ask everybody else as soon as it is this reader's turn."""
        if self._widening:
            return
        self._widening = True
        size = len(self._members().regular)
        if self._questions.is_asked(self._query):  # by somebody who comes first: this costs nothing more
            self._ask_everybody()
            return
        self._ticket = self._questions.turns.take(self._origin, size, self._ask_everybody)
        if self._ticket is None:
            self._refuse()

    def leave(self) -> None:
        """Enough was heard: nobody more is asked. Who was asked may finish in its own time (RES-03)."""
        if self._ticket is not None:
            self._questions.turns.give_back(self._ticket)

    async def next(self, until: float | None = None) -> Heard[_Asked] | Silent[_Asked] | None:
        """The next outcome; None at the time `until` of the loop if none came, and at the end of the round: `over`."""
        while not self.over:
            if not (self._waiting or self._widening) and self._done.empty():
                self.widen()
                continue
            hedge = self._end if self._widening else self._hedge_at
            try:
                if self._done.empty():
                    async with asyncio.timeout_at(hedge if until is None else min(until, hedge)):
                        done = await self._done.get()
                else:
                    done = self._done.get_nowait()
            except TimeoutError:
                if self._clock() >= hedge:
                    self._no_longer_alone()
                if until is not None and self._clock() >= until:
                    return None
            else:
                if done is not None:
                    return done.result()
        return None

    def _no_longer_alone(self) -> None:
        """The time of the likely ones is over, or all time is."""
        if self._widening and not self._widened:
            self._refuse()
        elif not self._widening and self._questions.was_late(self._hedge_at - self._hedge):
            self._hedge_at = (
                self._clock() + self._hedge
            )  # they had no time: it was this process that was late
        else:
            self.widen()

    @property
    def over(self) -> bool:
        """Whether there is nobody left to hear but those on probation."""
        return self.refused or (self._widened and not self._waiting and self._done.empty())

    async def aside(self, until: float) -> AsyncIterator[Heard[_Asked] | Silent[_Asked]]:
        """What those on probation say, if they say it before the time `until` of the loop.

        Who has failed often, and never confirmed that it is there, counts neither way.
        """
        late = PeerSilent("it has not confirmed its inclusion, and has not answered yet")
        while self._aside:
            left = max(0.0, until - self._clock())
            came, _ = await asyncio.wait(self._aside, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for one in came or set(self._aside):
                archive = self._aside.pop(one)
                known = one in came and not one.cancelled()
                outcome = one.result() if known else Silent(archive, late)
                if not (isinstance(outcome, Silent) and outcome.asleep):
                    yield outcome

    def _refuse(self) -> None:
        self.leave()
        self.refused = True

    def _ask_everybody(self) -> None:
        self._widened = True
        first, members = () if self._plan.why == "everybody" else self._plan.first, self._members()
        self._ask([one for one in members.regular if one not in first])
        aside = [one for one in members.aside if one not in first]
        self._aside = dict(zip(self._ask_each(aside), aside, strict=True))
        self._done.put_nowait(None)  # whoever waits sees how things stand now

    def _ask(self, archives: Sequence[_Asked], *, remembered: bool = False) -> None:
        asked = self._ask_each(archives, remembered=remembered)
        for archive, future in zip(archives, asked, strict=True):
            if future.done():  # out of memory, or asleep
                self._done.put_nowait(future)
                continue
            service = archive.service_ibi.canonical
            self._waiting[service] = archive
            future.add_done_callback(partial(self._came, service))

    def _ask_each(
        self, archives: Iterable[_Asked], *, remembered: bool = False
    ) -> list[asyncio.Future[Heard[_Asked] | Silent[_Asked]]]:
        """Ask them. An answer that is kept is one of a likely holder, so only for these it is looked for."""
        seconds = min(self._per_archive, self._end - self._clock())
        ask, query, joined = self._questions.ask, self._query, self._remembered
        found = []
        for archive in archives:
            found.append(ask(archive, self._request, query, seconds, remembered=remembered, joined=joined))
            self.asked.append(archive)
        return found

    def _came(self, service: str, done: asyncio.Future[Heard[_Asked] | Silent[_Asked]]) -> None:
        archive = self._waiting.pop(service)
        if done.cancelled():
            done = answered(Silent(archive, PeerSilent("this client is closed")))
        self._done.put_nowait(done)
