"""Queries to Archives: answered from the cache, shared with one in flight, stopped by the circuit breaker, or sent.

What is sent does not depend on how the answers will be judged: a `UrlRequest` has no field for the reader's language
or a required state (RES-02, RES-03).
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.errors import IbiError, ParseError, PeerError, PeerGarbled, PeerSilent, QueryNotSent, WrongArchive
from ibi.http.client import Deadline, target_part, too_many
from ibi.http.limits.fair_queue import FairQueue
from ibi.protocol.url_list import UrlList
from ibi.resolver.cache.rows import question
from ibi.resolver.model.archive import NOT_KNOWN, ArchiveResponse
from ibi.resolver.resolve.answer_reader import AnswerReader, body_of, failure_of, lifetime
from ibi.resolver.resolve.collapsing import Batch, Collapsing, QueriesUnderWay, Query, QuestionUnderWay
from ibi.resolver.resolve.probes import Probes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from ibi.http.client import Client, Reply, TargetPart
    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.cache.answers import AnswerCache
    from ibi.resolver.cache.rows import Snapshot
    from ibi.resolver.metrics.metrics import Metrics
    from ibi.resolver.model.archive import Archive
    from ibi.resolver.resolve.breaker import CircuitBreakers

PER_ARCHIVE: Final = 3.0
"""Seconds for the whole answer of one Archive (docs/threats.md)."""


A_TURN: Final = 32
"""Queries that go out at a time."""

REST: Final = 0.001
"""Seconds until the next ones go, while others are there."""


class Pacer:
    """The queries of all rounds that ask every Archive: a few are sent, then the loop does what else is ready (T29).

    To send a query takes some hundredths of a millisecond. While a round waits for likely holders, the loop has a
    millisecond in between: however many rounds a flood begins, sending them takes about half of the process.

    `go` is called with the queries whose turn it is; `others` returns whether any round waits for likely holders,
    whose queries do not pass through here.
    """

    def __init__(self, go: Callable[[Sequence[_OutgoingQuery]], None], others: Callable[[], bool]) -> None:
        self._go = go
        self._others = others
        self._waiting: deque[_OutgoingQuery] = deque()
        self._left = A_TURN
        self._ticking = False

    def add(self, queries: Iterable[_OutgoingQuery]) -> None:
        """Send them when it is their turn, which may be at once."""
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick)
        self._waiting.extend(queries)
        self._let_go()

    def _let_go(self) -> None:
        waiting = self._waiting
        turn = [waiting.popleft() for _ in range(min(self._left, len(waiting)))]
        self._left -= len(turn)
        if turn:
            self._go(turn)

    def _tick(self) -> None:
        self._left = A_TURN
        try:
            self._let_go()
        finally:  # whatever became of these, the next ones have their turn
            self._ticking = self._left < A_TURN
            if self._ticking and self._others():
                asyncio.get_running_loop().call_later(REST, self._tick)
            elif self._ticking:
                asyncio.get_running_loop().call_soon(self._tick)


_LATE: Final = 0.25  # seconds: when this loop was so late, a time-out says nothing of the Archive


class LoopLag:
    """Whether the event loop has been late: then this machine caused the time-outs, and no Archive is to blame (T37).

    It beats while `wanted` returns true, and stops at the first beat at which it does not.
    """

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted
        self.beat: asyncio.TimerHandle | None = None
        """The next beat; None while it has stopped."""
        self._late_at = -math.inf

    def begin(self) -> None:
        """Beat from now on; what came before does not count."""
        # To be called only where it has stopped or its beat is overdue, so that most queries cost no call.
        if self.beat is not None:
            self.beat.cancel()
        self.beat = asyncio.get_running_loop().call_later(_LATE, self._again)

    def was_late(self, since: float) -> bool:
        """Whether it has been late since a time of the loop."""
        self._feel()
        return self._late_at >= since

    def _again(self) -> None:
        self._feel()
        self.beat = None
        if self._wanted():
            self.begin()

    def _feel(self) -> None:
        now = asyncio.get_running_loop().time()
        if self.beat is not None and now > self.beat.when() + _LATE:
            self._late_at = now


class QueryBatch(Batch):
    """One query to several Archives at the same moment.

    `deliver` is called once for each Archive, with its response. `snapshot`: of the answer cache, taken before any
    was asked: what was forgotten since is not cached. `use_cache`: whether a cached answer will do; `share`: whether an
    answer to the same question in flight will do; `paced`: whether the Archives are many and asked a few at a time;
    `judged`: whether silence counts as a failure for the circuit breaker.
    """

    __slots__ = (
        *("in_flight", "judged", "latest", "paced", "query", "share", "target", "use_cache", "waits"),
    )

    def __init__(
        self,
        query: UrlRequest,
        text: str,
        seconds: float,
        deliver: Callable[[ArchiveResponse], None],
        snapshot: Snapshot,
    ) -> None:
        self.query = query
        self.question = question(query)
        self.text = text
        self.target = target_part(f"?{text}")
        self.deliver = deliver
        self.snapshot = snapshot
        self.deadline = Deadline(seconds)
        self.began = self.deadline.begun
        # An Archive that is asked in the second half of its time could not answer in time: it is not asked.
        self.latest = self.began + seconds / 2
        self.use_cache = self.share = self.paced = False
        self.ask_again = self.under_way = None
        self.judged = True
        self.in_flight = 0
        self.waits: list[float] = []
        """Seconds that the Archives took that have answered; counted when none is in flight any more."""


class _OutgoingQuery(Query):
    batch: QueryBatch


class Queries:
    """The queries of one process. Belongs to one event loop.

    `now` gives POSIX seconds; `seconds`: how long an Archive may take to answer a probe.

    Answers come by callbacks, in here alone: a task and a timer for each query would cost 2.6 to 5.9 us of 11.
    """

    def __init__(
        self,
        client: Client,
        breaker: CircuitBreakers,
        cache: AnswerCache,
        metrics: Metrics,
        now: Callable[[], float],
        seconds: float = PER_ARCHIVE,
    ) -> None:
        self._client = client
        self._breaker = breaker
        self._cache = cache
        self._metrics = metrics
        self._now = now
        self._paths: dict[str, tuple[Archive, TargetPart]] = {}
        self._collapsing = Collapsing(cache)
        self._in_flight = 0
        self._unpaced = 0  # of these, so many were sent at once
        self._reading = AnswerReader()
        self._pacer = Pacer(self._send, lambda: self._unpaced > 0)
        self._lag = LoopLag(lambda: self._in_flight + self._probes.in_flight > 0)
        self._probes = Probes(client, breaker, self._lag.was_late, seconds)
        self.fair_queue = FairQueue(lambda: self._in_flight)
        """Admits rounds that ask every Archive."""

    def keep_to(self, included: Collection[str]) -> None:
        """Forget the state of Archives that are not among these canonical service IBIs."""
        self._breaker.forget(included)
        self._collapsing.forget(included)
        self._paths = {name: known for name, known in self._paths.items() if name in included}

    def was_late(self, since: float) -> bool:
        """Whether this event loop was late since a time of it, so that silence says nothing of Archives."""
        return self._lag.was_late(since)

    def are_under_way(self, archives: Sequence[Archive], query: UrlRequest, text: str) -> bool:
        """Whether this query is in flight to nearly all of these: to join it sends next to nothing."""
        now = asyncio.get_running_loop().time()
        return bool(self._collapsing.under_way) and self._collapsing.covers(archives, query, text, now)

    def send(self, archives: Iterable[Archive], batch: QueryBatch) -> None:
        """Send a batch to these Archives and return at once; each response is delivered, now or later.

        A query that is no longer waited for still ends in its own time, so that no Archive can tell what its answer was
        for (RES-03).
        """
        outgoing: list[_OutgoingQuery] = []
        shared: dict[str, Query] | None = None
        if batch.share and batch.question in self._collapsing.under_way:
            shared = self._collapsing.under_way[batch.question].seen_by(batch.text)
        all_closed, paths = not self._breaker.troubled, self._paths
        plain = shared is None and all_closed and not batch.use_cache and batch.deadline.seconds > 0
        for archive in archives:
            if not plain and self._answered(archive, batch, shared):
                continue
            known = paths.get(archive.service)
            if known is None or known[0] is not archive:
                known = paths[archive.service] = archive, target_part(f"/{archive.name}")
            outgoing.append(_OutgoingQuery(archive, known[1], batch))
        if outgoing:
            self._start(outgoing, batch)

    def _answered(self, archive: Archive, batch: QueryBatch, shared: dict[str, Query] | None) -> bool:
        """Whether an Archive need not or must not be asked; then its response is delivered, or will be."""
        sent = shared.get(archive.service) if shared is not None else None
        if batch.use_cache or (sent is not None and sent.holds):
            kept = self._cache.answer(archive.service, batch.question)
            if kept is not None and kept.fresh_until > self._now():
                batch.deliver(ArchiveResponse(archive, UrlList.read(kept.body), None, batch.began, "cache"))
                return True
        if batch.deadline.seconds <= 0:
            error: IbiError = QueryNotSent("no time was left to ask it")
            batch.deliver(ArchiveResponse(archive, None, error, batch.began))
            return True
        if sent is not None and self._collapsing.join(archive, batch, sent):
            return True
        if not self._breaker.troubled:
            return False
        if self._breaker.begin(archive.service, batch.began) is not None:
            self._sleeps(archive, batch)
        elif self._breaker.is_half_open(archive.service):
            self._probes.send(archive, partial(self._probed, archive, batch))
        else:
            return False
        return True

    def _probed(self, archive: Archive, batch: QueryBatch, answers: bool) -> None:  # noqa: FBT001 - the only argument of a callback
        """Send the query that waited for a probe, if the Archive has answered that."""
        if answers:
            self._start([_OutgoingQuery(archive, target_part(f"/{archive.name}"), batch)], batch)
        else:
            self._sleeps(archive, batch)

    def doubt(self, archive: Archive) -> None:
        """Another Archive has answered in the place of this one: see whether it is so for all questions (T08)."""
        if self._breaker.doubt(archive.service, asyncio.get_running_loop().time()):
            self._probes.send(archive)

    def _sleeps(self, archive: Archive, batch: QueryBatch) -> None:
        self._metrics.queried("asleep")
        circuit = self._breaker.troubled.get(archive.service)
        error: IbiError = QueryNotSent("it did not answer lately, and is not asked for a while")
        if circuit is not None and isinstance(circuit.why, WrongArchive):
            error = circuit.why
        batch.deliver(ArchiveResponse(archive, None, error, batch.deadline.now(), "breaker"))

    def _start(self, outgoing: list[_OutgoingQuery], batch: QueryBatch) -> None:
        """Count these as in flight, be it that they wait for the pacer."""
        if self._lag.beat is None or batch.began > self._lag.beat.when():
            self._lag.begin()
        self._in_flight += len(outgoing)
        batch.in_flight += len(outgoing)
        if batch.share:
            if batch.under_way is None:
                under_way = self._collapsing.under_way
                known = under_way.get(batch.question) or QuestionUnderWay()
                round_ = known.readers.get(batch.text) or QueriesUnderWay()
                under_way[batch.question], known.readers[batch.text] = known, round_
                known.batches += 1
                round_.batches += 1
                batch.under_way = known, round_
            known, round_ = batch.under_way
            for each in outgoing:
                known.sent[each.archive.service] = round_.sent[each.archive.service] = each
        if batch.paced:
            self._pacer.add(outgoing)
            return
        self._unpaced += len(outgoing)
        self._send(outgoing)

    def _send(self, outgoing: Sequence[_OutgoingQuery]) -> None:
        ask, received = self._client.ask, self._received
        for each in outgoing:
            batch = each.batch
            deadline = batch.deadline
            try:
                if deadline.now() > batch.latest:
                    raise too_many()
                ask(each.archive.address, (each.path, batch.target), deadline, partial(received, each))
            except PeerError as error:
                # Later: a caller of `send` must have returned before it hears of what it sent.
                asyncio.get_running_loop().call_soon(received, each, error)

    def stale(self, archives: Sequence[Archive], query: UrlRequest) -> Iterator[ArchiveResponse]:
        """Yield what these Archives answered before, although it has expired (RFC 8767)."""
        kept = self._cache.answers([archive.service for archive in archives], question(query))
        for archive in archives:
            if archive.service in kept:
                yield ArchiveResponse(archive, UrlList.read(kept[archive.service].body), None, 0.0, "stale")

    def _received(self, outgoing: _OutgoingQuery, reply: Reply | PeerError) -> None:
        """Make a response of what the client brings, and deliver it."""
        try:
            if isinstance(reply, PeerError):
                raise reply
            body = body_of(reply)
            answer = self._reading.at_once(body) if body else NOT_KNOWN
        except (PeerError, ParseError) as error:
            self._fail(outgoing, error)
            return
        if answer is None:
            self._client.keep(asyncio.create_task(self._read(outgoing, reply)))
        else:
            self._succeed(outgoing, reply, answer)

    async def _read(self, outgoing: _OutgoingQuery, reply: Reply) -> None:
        try:
            answer = await self._reading.read(reply.body)
        except (PeerError, ParseError) as error:
            self._fail(outgoing, error)
        except asyncio.CancelledError:  # the client closes; those who wait must still hear of it
            self._fail(outgoing, PeerSilent("this client is closed"))
            raise
        else:
            self._succeed(outgoing, reply, answer)

    def _succeed(self, outgoing: _OutgoingQuery, reply: Reply, answer: UrlList) -> None:
        batch, service = outgoing.batch, outgoing.archive.service
        now = batch.deadline.now()
        if not answer.pairs:
            outgoing.for_all_at = now
        elif seconds := lifetime(reply, answer):
            self._cache.put(service, batch.question, reply.body, seconds, batch.snapshot)
            self._collapsing.reusable[service] = True
            outgoing.holds, outgoing.for_all_at = True, now
        else:
            self._collapsing.reusable.setdefault(service, False)
        self._breaker.heard_at[service] = now
        if self._breaker.troubled:
            self._breaker.heard(service, now)
        batch.waits.append(now - batch.began)
        self._deliver(outgoing, ArchiveResponse(outgoing.archive, answer, None, now))

    def _fail(self, outgoing: _OutgoingQuery, error: PeerError | ParseError) -> None:
        why = failure_of(error)
        garbled = isinstance(error, PeerGarbled | ParseError)
        why.with_traceback(None)  # kept for as long as the Archive is in trouble
        batch, now = outgoing.batch, outgoing.batch.deadline.now()
        unproven = not batch.judged or isinstance(why, QueryNotSent) or self._lag.was_late(batch.began)
        if not unproven and self._breaker.failed(outgoing.archive.service, now, why):
            self._probes.send(outgoing.archive)
        self._metrics.queried("garbled" if garbled else "silent", now - batch.began)
        self._deliver(outgoing, ArchiveResponse(outgoing.archive, None, why, now))

    def _deliver(self, outgoing: _OutgoingQuery, response: ArchiveResponse) -> None:
        """Take a query out of those in flight, and give its response to all that wait for it."""
        batch = outgoing.batch
        batch.in_flight -= 1
        self._in_flight -= 1
        if not batch.paced:
            self._unpaced -= 1
        if not batch.in_flight:
            if batch.waits:
                self._metrics.queried("answered", *batch.waits)
                batch.waits.clear()
            if batch.under_way is not None:
                (known, round_), batch.under_way = batch.under_way, None
                known.batches -= 1
                round_.batches -= 1
                if not round_.batches:
                    del known.readers[batch.text]
                    round_.sent.clear()  # each leads back to it by its batch
                if not known.batches:
                    del self._collapsing.under_way[batch.question]
                    known.sent.clear()
        if outgoing.for_all_at is None and batch.question in self._collapsing.under_way:
            self._collapsing.drop(outgoing)
        if self.fair_queue.queues:
            self.fair_queue.serve()
        batch.deliver(response)
        if outgoing.others is not None:
            self._collapsing.share(outgoing, response)
