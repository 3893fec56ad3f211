"""One round: ask the likely ones, then everybody, and hear them as they come (RES-04).

All who are asked have the same deadline. When the caller has heard enough, the Archives that have not yet answered
may finish in their own time: none of them can tell from a line cut short that the original was not being insisted on
(RES-03, note 8).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from ibi.errors import PeerSilent
from ibi.resolver.inquiry import Archive as Asked
from ibi.resolver.inquiry import Silent
from ibi.resolver.questions import PER_ARCHIVE
from ibi.transport import too_large

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.inquiry import Heard
    from ibi.resolver.memory_rows import Mark
    from ibi.resolver.plan import Members, Plan
    from ibi.resolver.questions import Questions
    from ibi.resolver.turns import Ticket


class Archive(Asked, Protocol):
    """What must be known of an Archive in order to plan a round and to ask it."""

    @property
    def confirmed(self) -> bool:
        """Whether it has confirmed that it wants to be asked."""


READING: Final = 0.2
"""Seconds for reading long answers that came at the end of a round."""

_Asked = TypeVar("_Asked", bound=Archive)


class Times(NamedTuple):
    """How long is waited, in seconds (docs/threats.md)."""

    per_archive: float = PER_ARCHIVE
    overall: float = 5.0
    hedge: float = 0.1
    """For likely holders alone."""
    grace: float = 0.15
    """For the known holder of the original, when another one was faster."""
    stale_after: float = 1.6
    """Before an older answer is used."""
    negative: int = 60
    """How long "nobody has it" is remembered."""


class FanOut(Generic[_Asked]):
    """The questions of one round; belongs to the running event loop. `leave` it when enough was heard.

    `members`: who is included at the moment, so that nobody is asked who has left meanwhile. `left`: seconds for all
    further rounds; what an Archive may take is less. `origin`: who the reader is, for whom everybody may have to be
    asked in turn. `since`: what `Memory.mark` said before anybody was asked; None where no answers may be used that
    were given before, nor those for which somebody else waits.
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
        since: Mark | None = None,
    ) -> None:
        self._questions = questions
        self._plan = plan
        self._members = members
        self._request = request
        self._query = request.query()
        self._origin = origin
        self._since = since
        self._clock = asyncio.get_running_loop().time
        begun = self._clock()
        self._per_archive = times.per_archive
        self._end = begun + left
        self._hedge = times.hedge
        self._hedge_at = begun + times.hedge
        self._waiting: dict[str, _Asked] = {}
        self._heard: list[Heard[_Asked] | Silent[_Asked]] = []
        self._aside: dict[str, _Asked] = {}
        self._heard_aside: list[Heard[_Asked] | Silent[_Asked]] = []
        self._wake: asyncio.Future[bool] | None = None
        self._ticket: Ticket | None = None
        self._widening = self._widened = False
        self.patient = False
        """Whether whoever listens need not hear anybody before all have spoken; he may say so."""
        self.refused = False
        """Whether everybody should have been asked, and too much was under way."""
        self.asked: list[_Asked] = []
        """Whom it has asked, in order."""
        self._begin()

    def _begin(self) -> None:
        if self._plan.why == "everybody":
            self.widen()
        else:
            self._ask(self._plan.first, remembered=self._since is not None)

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
        members = self._members()
        size = len(members.regular) + len(members.aside)  # all of them are asked
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

    async def next(self, until: float | None = None) -> Sequence[Heard[_Asked] | Silent[_Asked]]:
        """The next outcomes, in order; none at the time `until` of the loop, nor at the end of the round: `over`."""
        while not self.over:
            if self._heard:
                heard, self._heard = self._heard, []
                return heard
            if not (self._waiting or self._widening):
                self.widen()
                continue
            hedge = self._end_of_waiting
            wake = hedge if until is None else min(until, hedge)
            if await self._something(wake):
                continue
            if wake == hedge:
                self._no_longer_alone()
            if wake == until:
                break
        return ()

    @property
    def _end_of_waiting(self) -> float:
        """When the likely ones are no longer waited for alone, or nobody is.

        Nobody answers later than at the end of the round, but what has come by then is still to be read.
        """
        if self._widened:
            return self._end + READING
        return self._end if self._widening else self._hedge_at

    async def _something(self, until: float) -> bool:
        """Wait until something has happened; False where that is not before the time `until` of the loop."""
        loop = asyncio.get_running_loop()
        wake: asyncio.Future[bool] = loop.create_future()
        self._wake = wake
        clock = loop.call_at(until, _settle, wake, False)  # noqa: FBT003 - what it is set to
        try:
            return await wake
        finally:
            clock.cancel()
            self._wake = None

    def _happened(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None:
            _settle(wake, True)  # noqa: FBT003 - what it is set to

    def _no_longer_alone(self) -> None:
        """The time of the likely ones is over, or all time is."""
        if self._widened:
            late = too_large()
            self._heard.extend(Silent(archive, late) for archive in self._waiting.values())
            self._waiting.clear()
        elif self._widening:
            self._refuse()
        elif self._questions.was_late(self._hedge_at - self._hedge):
            self._hedge_at = (
                self._clock() + self._hedge
            )  # they had no time: it was this process that was late
        else:
            self.widen()

    @property
    def over(self) -> bool:
        """Whether there is nobody left to hear but those on probation."""
        return self.refused or (self._widened and not self._waiting and not self._heard)

    async def aside(self, until: float) -> AsyncIterator[Heard[_Asked] | Silent[_Asked]]:
        """What those on probation say, if they say it before the time `until` of the loop.

        Who has failed often, and never confirmed that it is there, counts neither way.
        """
        while self._aside or self._heard_aside:
            if self._heard_aside:
                yield self._heard_aside.pop(0)
            elif self._clock() >= until or not await self._something(until):
                late = PeerSilent("it has not confirmed its inclusion, and has not answered yet")
                self._heard_aside.extend(Silent(archive, late) for archive in self._aside.values())
                self._aside.clear()

    def _refuse(self) -> None:
        self.leave()
        self.refused = True

    def _ask_everybody(self) -> None:
        if self._ticket is not None and self._end - self._clock() < self._per_archive / 2:
            self._refuse()  # its turn has come too late: nobody is asked without enough time to answer
            self._happened()
            return
        self._widened = True
        first, members = () if self._plan.why == "everybody" else self._plan.first, self._members()
        self._ask([one for one in members.regular if one not in first])
        self._ask([one for one in members.aside if one not in first], aside=True)
        self._happened()  # whoever waits sees how things stand now

    def _ask(self, archives: Sequence[_Asked], *, remembered: bool = False, aside: bool = False) -> None:
        """Ask them. An answer that is kept is one of a likely holder, so only for these it is looked for."""
        if not archives:
            return  # as there is mostly nobody on probation
        left = self._end - self._clock()
        inquiry = self._questions.inquiry(
            self._request,
            self._query,
            min(self._per_archive, left),
            self._came,
            since=self._since,
            remembered=remembered,
            paced=self._widened,
            judged=left >= self._per_archive / 2,
        )
        waiting, heard = (self._aside, self._heard_aside) if aside else (self._waiting, self._heard)
        waiting.update({archive.service_ibi.canonical: archive for archive in archives})
        unasked = set[str]()
        for outcome in self._questions.ask(archives, inquiry):  # out of memory, or asleep
            del waiting[outcome.archive.service_ibi.canonical]
            if aside and isinstance(outcome, Silent) and outcome.asleep:
                unasked.add(outcome.archive.service_ibi.canonical)
            else:
                heard.append(outcome)
        if unasked:
            archives = [one for one in archives if one.service_ibi.canonical not in unasked]
        self.asked.extend(archives)

    def _came(self, outcome: Heard[_Asked] | Silent[_Asked]) -> None:
        service, waiting = outcome.archive.service_ibi.canonical, self._waiting
        if waiting.pop(service, None) is not None:
            self._heard.append(outcome)
            if waiting and self.patient:
                return
        elif self._aside.pop(service, None) is not None:
            self._heard_aside.append(outcome)
        if self._wake is not None:
            self._happened()


def _settle(future: asyncio.Future[bool], value: bool) -> None:  # noqa: FBT001 - what it is set to
    if not future.done():
        future.set_result(value)
