"""One round: send a query to the likely holders, then to every Archive; yield responses as they come.

A round goes through three phases (`Phase`). A timer or a response ends each of them:

    phase    what happens in it                       it ends
    likely   the likely holders have been queried     after `hedge_seconds`, or when all have responded and none
                                                      satisfies; at once if there are no likely holders
    queued   the round waits in the fair queue        when the queue lets it query all other Archives
    all      every Archive has been queried           when all have answered, or at the deadline

When a response satisfies, the caller stops iterating: the round is *left*, in whatever phase it is.

The times, in seconds from the beginning of the round; those with names in lower case are settings:

    0.0     the likely holders are queried
    0.1     hedge_seconds: `likely` ends
    1.6     stale_after_seconds: the expired cached answers of Archives that are silent so far are used
    5.0     overall_seconds, counted from the beginning of the first round: the deadline of the resolution
    5.2     READING after the deadline: the round ends; answers that came just before the deadline have been read

    archive_seconds (3.0) after its query, an Archive counts as silent. Every Archive gets this time, whether it is
                          asked first or later, or what is left until the deadline. Half of it must be left when a
                          query is sent, and when a round begins to ask all. It is also the time for the answer to
                          a probe, and for the reply to an acknowledgment.
    grace_seconds (0.15)  after `hurry`, the round ends. `hurry` says that an answer satisfies, and that only the
                          awaited Archive (`Resolution.expect`) may still bring a better one.

How a limit of time reaches a query: the settings (`Times`) determine the deadline of the resolution (`Terms`). Each
batch of queries gets a `Deadline` of its own: `archive_seconds`, or less if the resolution ends before. In the second
half of that time no query of the batch is sent any more (`QueryBatch.latest`). If the batch has less than half of
`archive_seconds`, its silence does not count for the circuit breaker (`QueryBatch.judged`).

A round that is left early cancels no query. An Archive whose connection was cut could conclude that another answer
was enough, and so that the reader did not require the original. RES-03 and note 8 forbid that it can.

See RES-04: all are asked at once.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ibi.errors import PeerSilent, QueryNotSent
from ibi.http.client import Deadline, target_part, too_large, too_many
from ibi.resolver.cache.rows import question
from ibi.resolver.model.archive import ArchiveResponse
from ibi.resolver.resolve.batch import QueryBatch
from ibi.resolver.resolve.policy import MOST_LIKELY
from ibi.resolver.resolve.queries import excluded_meanwhile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

    from ibi.errors import IbiError
    from ibi.http.limits.fair_queue import QueuedRound
    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.cache.rows import Snapshot
    from ibi.resolver.model.archive import Archive, Members
    from ibi.resolver.resolve.policy import Plan, Why
    from ibi.resolver.resolve.queries import Queries
    from ibi.runtime.tracing import Span

Phase = Literal["likely", "queued", "all"]
"""The phases of a round, explained above."""

READING: Final = 0.2
"""Seconds after the deadline for reading long answers that came at the end of a round."""


class Times(NamedTuple):
    """Times in seconds: the settings of these names with `_seconds` (`ResolverSettings`, docs/reference/threats.md)."""

    per_archive: float
    """How long an Archive may take to answer (`archive_seconds`)."""
    overall: float
    """How long a resolution may take."""
    hedge: float
    """How long the likely holders are awaited before all others are asked."""
    grace: float
    """How long the Archive that is preferred (`Resolution.expect`) is awaited when another one was faster."""
    stale_after: float
    """After how long the expired answer of a silent Archive is used."""
    negative: int
    """How long the negative cache says that no Archive knows an item."""


class Terms(NamedTuple):
    """What all rounds of a resolution have in common.

    `deadline`: when it ends, a time of the loop. `snapshot`: of the answer cache, taken before any Archive was asked.
    `reuse`: whether cached and shared answers may be used. `wait_for_all`: whether responses are yielded only
    when all have come. `client`: what limits count against. `headers`: the trace headers of the reader's request,
    which are sent with each query. `span`: the span of the resolution, if spans are exported.
    """

    deadline: float
    snapshot: Snapshot
    reuse: bool = False
    wait_for_all: bool = False
    client: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    span: Span | None = None


class Round:
    """The queries of one round; belongs to the running event loop. Nothing is sent before `responses` is iterated.

    `members` returns the Archives that are included now: one that was excluded meanwhile is not asked.

    What callers may read:

        query     the query that all Archives get
        began     when the round began, a time of the loop
        why       why the Archives of its plan are asked first
        queried   the Archives that were asked, in order, also those that an answer in the cache responded for
        sent      how many of these cost a query: no cached answer or open circuit responded in their place
        silent    the Archives whose responses were errors
        hit       whether the first response knew the item; None before it has come
        refused   whether the fair queue was full, or admitted the round too late, so that not all were asked
        span      the span of the round, if spans are exported

    Its own state:

        _phase_until      when the phase ends (a time of the loop): the next one begins, or the round ends
        _stale_at         when expired answers are used for Archives that are silent so far; infinity once that is done
        _grace_until      when the round ends because an answer satisfies (`hurry`); infinity until then
        _waiting          the regular Archives that were asked and have not responded, by service
        _probationary     the same of probationary Archives
        _inbox            responses of regular Archives that have come
        _unread           what `responses` has taken out of `_inbox`, and has not yielded yet
        _probationary_inbox   the same of probationary Archives
        _wake             what `responses` waits for, while it waits
        _queued           the places of this round in the fair queue
        _was_left         whether the caller has stopped iterating `responses`
    """

    def __init__(
        self,
        queries: Queries,
        times: Times,
        members: Callable[[], Members],
        plan: Plan,
        query: UrlRequest,
        terms: Terms,
    ) -> None:
        self._queries = queries
        self._times = times
        self._members = members
        self._plan = plan
        self.query = query
        self._question = question(query)
        self._text = query.query()
        self._target = target_part(f"?{self._text}")
        self._terms = terms
        self.span = terms.span.child("round") if terms.span is not None else None
        self._loop = loop = asyncio.get_running_loop()  # kept: to get it is a system call with Python 3.11
        self._clock = loop.time
        self.began = began = loop.time()
        self._phase: Phase = "likely"
        self._phase_until = began + times.hedge
        self._stale_at = began + times.stale_after if terms.reuse else inf
        self._grace_until = inf
        self._waiting: dict[str, Archive] = {}
        self._probationary: dict[str, Archive] = {}
        self._inbox: list[ArchiveResponse] = []
        self._unread: Iterator[ArchiveResponse] = iter(())
        self._probationary_inbox: list[ArchiveResponse] = []
        self._wake: asyncio.Future[bool] | None = None
        self._queued: list[QueuedRound] = []
        self._was_left = False
        self.why: Why = plan.why
        self._known, self.refused, self.sent = False, False, 0
        self.queried: list[Archive] = []
        self.silent: list[Archive] = []
        self.hit: bool | None = None

    async def responses(self) -> AsyncGenerator[ArchiveResponse, None]:
        """Send the queries and yield each response as it comes.

        It ends when all Archives have been heard, at the deadline, or `grace` seconds after `hurry`. Called again
        after it was left early (`HolderSearch`), it asks the other Archives, too, and yields what was not yielded yet.
        """
        try:
            if self.why == "everybody" or self._was_left:  # no likely holders, or they were asked already
                self._was_left, self._grace_until = False, inf
                self._widen()
            else:
                self._send(self._plan.archives, self._waiting, use_cache=self._terms.reuse)
            while not self._has_ended():
                # Either something has come, or the round waits for it, but only until the next thing is due.
                if self._inbox:
                    self._unread, self._inbox = iter(self._inbox), []
                    for response in self._unread:
                        self._note(response)
                        yield response
                    if self._grace_until == inf and not self._waiting:
                        self._widen()  # all that were asked have been heard, and none satisfies
                elif not await self._woken_before(min(self._phase_until, self._stale_at, self._grace_until)):
                    self._end_phase()
            if self._probationary or self._probationary_inbox:
                async with aclosing(self._probationary_responses()) as responses:
                    async for response in responses:
                        yield response
        finally:  # queries that were sent are not cancelled (RES-03: Archives learn no preference); no more are sent
            self._was_left = True
            self._inbox = [*self._unread, *self._inbox]
            for queued in self._queued:
                self._queries.fair_queue.leave(queued)

    async def _probationary_responses(self) -> AsyncGenerator[ArchiveResponse, None]:
        """Yield the responses of probationary Archives.

        Wait for them only while no Archive knows the item, and until `stale_after` at most (T18: unconfirmed Archives).
        """
        until = self._clock() if self._known else self.began + self._times.stale_after
        while self._probationary or self._probationary_inbox:
            while self._probationary_inbox:
                response = self._probationary_inbox.pop(0)
                self._note(response)
                yield response
            if self._probationary and not await self._woken_before(until):
                late = PeerSilent("it has not confirmed its inclusion, and has not answered yet")
                self._end_waiting(self._probationary, self._probationary_inbox, late)

    @property
    def outcome(self) -> str:
        """What came of it, for its span."""
        return "refused" if self.refused else "known" if self._known else "not known"

    def hurry(self) -> None:
        """Have the round end after `grace` seconds, in which the awaited Archive may respond; ask no further one."""
        self._grace_until = min(self._grace_until, self._clock() + self._times.grace, self._terms.deadline)
        if self._phase != "all":
            self._phase_until = inf

    def _has_ended(self) -> bool:
        """Whether the round is refused, all regular Archives have been heard, or the time after `hurry` has passed."""
        if self.refused or (self._phase == "all" and not self._waiting and not self._inbox):
            return True
        return self._grace_until < inf and not self._inbox and self._clock() >= self._grace_until

    def _end_waiting(self, waiting: dict[str, Archive], inbox: list[ArchiveResponse], why: IbiError) -> None:
        """Put an error into the inbox for each Archive that is waited for."""
        now = self._clock()
        inbox.extend(ArchiveResponse(archive, None, why, now) for archive in waiting.values())
        waiting.clear()

    def _note(self, response: ArchiveResponse) -> None:
        """Note in `hit`, `silent` and `_known` what a response says, just before it is yielded."""
        if self.hit is None:
            self.hit = response.answer is not None and bool(response.answer.pairs)
        if response.answer is None:
            self.silent.append(response.archive)
        elif response.answer.pairs and response.source != "stale":
            self._known = True

    def _widen(self) -> None:
        """Go from the phase `likely` to `queued`: ask all other Archives when the fair queue admits it, or at once.

        In a later phase, do nothing.
        """
        if self._phase != "likely":
            return
        self._phase, self._phase_until = "queued", self._terms.deadline
        members = self._members()
        if self._terms.reuse and self._queries.covers(members.regular, self._batch(paced=True)):
            self._ask_all()  # without the fair queue: it joins queries in flight, which costs no Archive anything
            return
        size = len(members.regular) + len(members.probationary)
        queued = self._queries.fair_queue.enter(self._terms.client, size, self._ask_all)
        if queued is None:
            self.refused = True
        else:
            self._queued.append(queued)

    def _ask_all(self) -> None:
        """Query every Archive that was not among the first; called by the fair queue, perhaps later."""
        if self._grace_until < inf:
            return  # an answer satisfies already
        # `_queued` is empty if the fair queue has admitted the round at once, or was not asked.
        if self._queued and self._terms.deadline - self._clock() < self._times.per_archive / 2:
            self.refused = True  # its turn came too late: the Archives would not have enough time to answer
            self._wake_reader()
            return
        # No Archive may answer after the deadline, but answers that came before it are still read.
        self._phase, self._phase_until = "all", self._terms.deadline + READING
        likely: Sequence[Archive] = () if self.why == "everybody" else self._plan.archives
        members = self._members()
        self._send([one for one in members.regular if one not in likely], self._waiting)
        self._send([one for one in members.probationary if one not in likely], self._probationary)
        self._wake_reader()

    def _send(
        self,
        archives: Sequence[Archive],
        waiting: dict[str, Archive],
        *,
        use_cache: bool = False,
        alone: bool = False,
    ) -> None:
        """Send the query to Archives; from now on they are in `waiting`, which is `_waiting` or `_probationary`.

        `use_cache`: whether a cached answer will do. It is not looked for when all Archives are asked: nearly all that
        have a cached answer are likely holders, and were asked before. `alone`: the query is sent once more to one
        Archive, for this reader alone; the Archive is in `waiting` already.
        """
        if not archives:
            return
        batch = self._batch(use_cache=use_cache, alone=alone, paced=alone or self._phase == "all")
        if not alone:
            waiting.update({archive.service: archive for archive in archives})
            self.queried.extend(archives)
            self.sent += len(archives)  # `_put` takes off those that turn out to have cost no query
        self._queries.send(archives, batch)

    def _batch(self, *, paced: bool, use_cache: bool = False, alone: bool = False) -> QueryBatch:
        """Make the batch that would be sent now, with the flags of `_send`."""
        terms, left = self._terms, self._terms.deadline - self._clock()
        seconds = min(self._times.per_archive, left)
        deadline = Deadline(seconds, self._loop)
        return QueryBatch(
            question=self._question,
            text=self._text,
            target=self._target,
            deadline=deadline,
            # In the second half of its time an Archive is not asked any more: it could hardly answer in time.
            latest=deadline.begun + seconds / 2,
            deliver=self._put,
            ask_again=self._ask_again,
            members=self._members,
            snapshot=terms.snapshot,
            use_cache=use_cache,
            share=terms.reuse,
            paced=paced,
            # An Archive that had less than half of its time is not blamed for silence (T37: overload).
            judged=left >= self._times.per_archive / 2,
            alone=alone,
            headers=terms.headers,
            span=self.span,
        )

    def _ask_again(self, archive: Archive) -> None:
        """Send the query once more to an Archive, whose answer to another reader may not be given to this one.

        Called by `Collapsing`. The query waits in the fair queue, because many readers may need one at once.
        """
        if self._was_left or not (archive.service in self._waiting or archive.service in self._probationary):
            return  # the round does not wait for it any more
        # It is one query, but is admitted as a round of all Archives: eight of these may run at once.
        size = max(len(self._members().regular), MOST_LIKELY)
        ask = partial(self._ask_alone, archive)
        queued = self._queries.fair_queue.enter(self._terms.client, size, ask)
        if queued is None:
            self._put(ArchiveResponse(archive, None, too_many(), self._clock()))
        else:
            self._queued.append(queued)

    def _ask_alone(self, archive: Archive) -> None:
        """Send the query of `_ask_again`; called by the fair queue, perhaps later."""
        included = self._members().by_service.get(archive.service)
        if included is None:
            self._put(ArchiveResponse(archive, None, excluded_meanwhile(), self._clock()))
        else:
            self._send((included,), self._waiting, use_cache=True, alone=True)

    def _put(self, response: ArchiveResponse) -> None:
        """Put a response into the inbox; wake `responses` once for all that come in one turn of the loop.

        `Queries` calls it for each Archive of a batch. A response that the round does not wait for any more is dropped.
        """
        error = response.error
        if response.source in {"cache", "breaker"} or (error is not None and isinstance(error, QueryNotSent)):
            self.sent -= 1  # no query was sent
        if self._waiting.pop(response.archive.service, None) is not None:
            self._inbox.append(response)
            if self._terms.wait_for_all and self._waiting:
                return  # not woken before the last response
        elif self._probationary.pop(response.archive.service, None) is not None:
            if response.source == "breaker":  # an open circuit of a probationary Archive counts neither way
                self.queried.remove(response.archive)
            else:
                self._probationary_inbox.append(response)
        if self._wake is not None:
            self._wake_reader()

    def _end_phase(self) -> None:
        """Do what is due now: use expired answers, or end the phase, or neither."""
        now = self._clock()
        if now >= self._stale_at:
            self._stale_at = inf
            unheard = [*self.silent, *self._waiting.values()]
            if self._phase != "all":
                unheard += [one for one in self._members().regular if one not in self.queried]
            self._inbox.extend(self._queries.stale(unheard, self._question))
        elif now < self._phase_until:
            return
        elif self._phase == "all":  # what has come is still being parsed: too large to be read in time
            self._end_waiting(self._waiting, self._inbox, too_large())
        elif self._phase == "queued":
            self.refused = True
        elif self._queries.was_late(self._phase_until - self._times.hedge):
            # The likely holders get their time again, because this process was late and not they (T37: overload).
            self._phase_until = now + self._times.hedge
        else:
            self._widen()

    async def _woken_before(self, until: float) -> bool:
        """Wait for `_wake_reader`; return whether it was called before `until`, a time of the loop."""
        loop = self._loop
        if until <= loop.time():
            return False
        wake: asyncio.Future[bool] = loop.create_future()
        self._wake = wake
        timer = loop.call_at(until, _time_is_up, wake)
        try:
            return await wake
        finally:
            timer.cancel()
            self._wake = None

    def _wake_reader(self) -> None:
        """Have `_woken_before` return true, if `responses` waits in it."""
        wake, self._wake = self._wake, None
        if wake is not None and not wake.done():
            wake.set_result(True)


def _time_is_up(wake: asyncio.Future[bool]) -> None:
    if not wake.done():
        wake.set_result(False)
