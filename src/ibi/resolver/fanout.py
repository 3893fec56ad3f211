"""One round: ask the likely ones, then everybody, and hear them as they come (RES-04).

All who are asked have the same deadline. When the caller has heard enough, the Archives that have not yet answered
may finish in their own time: none of them can tell from a line cut short that the original was not being insisted on
(RES-03, note 8).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ibi.errors import PeerSilent
from ibi.resolver.questions import Archive as Asked
from ibi.resolver.questions import Silent, answered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.plan import Members, Plan
    from ibi.resolver.questions import Heard, Questions


class Archive(Asked, Protocol):
    """What must be known of an Archive in order to plan a round and to ask it."""

    @property
    def confirmed(self) -> bool:
        """Whether it has confirmed that it wants to be asked."""


_Asked = TypeVar("_Asked", bound=Archive)


class FanOut(Generic[_Asked]):
    """The questions of one round; belongs to the running event loop. Nothing of it needs to be closed.

    `per_archive` and `overall` (what is left for all rounds) are in seconds; the smaller one is everyone's deadline.
    `members`: who is included at the moment, so that nobody is asked who has left meanwhile.
    `hedge`: seconds after which the first ones are no longer waited for alone. `remembered`: whether answers may be
    used that were given before.
    """

    def __init__(
        self,
        questions: Questions,
        plan: Plan[_Asked],
        members: Callable[[], Members[_Asked]],
        request: UrlRequest,
        *,
        per_archive: float,
        overall: float,
        hedge: float,
        remembered: bool = False,
    ) -> None:
        self._questions = questions
        self._plan = plan
        self._members = members
        self._request = request
        self._query = request.query()
        self._remembered = remembered
        self._clock = asyncio.get_running_loop().time
        self._begun = self._clock()
        self._per_archive = per_archive
        self._end = self._begun + overall
        self._hedge_at = self._begun + hedge
        self._done: asyncio.Queue[asyncio.Future[Heard[_Asked] | Silent[_Asked]]] = asyncio.Queue()
        self._waiting: dict[str, _Asked] = {}
        self._aside: dict[asyncio.Future[Heard[_Asked] | Silent[_Asked]], _Asked] = {}
        self._widened = False
        self.asked: list[_Asked] = []
        """Whom it has asked, in order."""
        self._ask(plan.first)
        if plan.why == "everybody":
            self.widen()

    @property
    def waiting(self) -> list[_Asked]:
        """Those regular ones who have been asked and have not answered yet."""
        return list(self._waiting.values())

    def widen(self) -> None:
        """Ask everybody else now."""
        if not self._widened:
            self._widened = True
            first, members = self._plan.first, self._members()
            if first is not members.regular:
                self._ask(one for one in members.regular if one not in first)
            aside = [one for one in members.aside if one not in first]
            self._aside = dict(zip(self._ask_each(aside), aside, strict=True))

    async def next(self, until: float | None = None) -> Heard[_Asked] | Silent[_Asked] | None:
        """The next outcome; None at the time `until` of the loop if none came, and at the end of the round: `over`."""
        while True:
            if not self._done.empty():
                return self._done.get_nowait().result()
            if not self._waiting:
                if self._widened:
                    return None
                self.widen()
                continue
            hedge = None if self._widened else self._hedge_at
            wake = min((moment for moment in (until, hedge) if moment is not None), default=None)
            try:
                async with asyncio.timeout_at(wake):
                    return (await self._done.get()).result()
            except TimeoutError:
                if hedge is not None and self._clock() >= hedge:
                    self.widen()
                if until is not None and self._clock() >= until:
                    return None

    @property
    def over(self) -> bool:
        """Whether there is nobody left to hear but those on probation."""
        return self._widened and not self._waiting and self._done.empty()

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

    def _ask(self, archives: Iterable[_Asked]) -> None:
        archives = tuple(archives)
        for archive, future in zip(archives, self._ask_each(archives), strict=True):
            if future.done():  # out of memory, or asleep
                self._done.put_nowait(future)
                continue
            service = archive.service_ibi.canonical
            self._waiting[service] = archive
            future.add_done_callback(partial(self._came, service))

    def _ask_each(self, archives: Iterable[_Asked]) -> list[asyncio.Future[Heard[_Asked] | Silent[_Asked]]]:
        seconds = min(self._per_archive, self._end - self._clock())
        ask, query, remembered = self._questions.ask, self._query, self._remembered
        found = []
        for archive in archives:
            found.append(ask(archive, self._request, query, seconds, remembered=remembered))
            self.asked.append(archive)
        return found

    def _came(self, service: str, done: asyncio.Future[Heard[_Asked] | Silent[_Asked]]) -> None:
        archive = self._waiting.pop(service)
        if done.cancelled():
            done = answered(Silent(archive, PeerSilent("this client is closed")))
        self._done.put_nowait(done)
