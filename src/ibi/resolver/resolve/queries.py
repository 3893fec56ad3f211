"""Gets the response of each Archive of a batch: from the cache, a query in flight, the circuit breaker, or the Archive.

A query to an Archive passes through these methods of `Queries`, in this order:

    `send`        for each Archive of a batch: calls `_next_step`, and makes a `Query` if one must be sent
    `_next_step`  delivers the response of the cache, of a query in flight or of the circuit breaker, if there is one
    `_start`      counts the queries as in flight, lets others join them, gives them to the pacer if `paced`
    `_send`       sends them (`Client.ask`); it does not wait for answers
    `_received`   the HTTP client calls it with the answer or the error of a query
    `_succeed`    puts an answer into the cache, if its Archive allows that
    `_fail`       counts an error for the circuit breaker, and sends a probe if one is due
    `_deliver`    passes the response to the round, and to all batches that have joined the query

A query that renews a lease goes from `_send` to `_renewed`, and then to `_deliver`, `_send` or `_fail`. If a probe is
sent first, `_probed` calls `_start` when the probe was answered.

An Archive must not learn what the reader prefers or requires: a `UrlRequest` has no field for the reader's language,
nor for a required state (RES-02: facts of a request; RES-03: Archives learn no preference).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from ibi.errors import (
    IbiError,
    ParseError,
    PeerBusy,
    PeerError,
    PeerGarbled,
    PeerSilent,
    QueryNotSent,
    WrongArchive,
)
from ibi.http.client import target_part, too_many
from ibi.http.client.loop_lag import LoopLag
from ibi.http.limits.fair_queue import HANGS_AFTER, MANY_IN_FLIGHT, ROUNDS_AT_ONCE, FairQueue
from ibi.http.limits.pacer import Pacer
from ibi.protocol.url_list import UrlList
from ibi.protocol.vocabulary import CHANGES_AS_OF
from ibi.resolver.cache.answers import LeaseTerms
from ibi.resolver.cache.lease import Moment
from ibi.resolver.model.archive import NOT_KNOWN, ArchiveResponse
from ibi.resolver.resolve.answer_reader import AnswerReader, body_of, failure_of, lifetime
from ibi.resolver.resolve.batch import QueriedArchive, Query
from ibi.resolver.resolve.collapsing import Collapsing
from ibi.resolver.resolve.probes import Probes

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence

    from ibi.http.client import Client, Reply
    from ibi.resolver.cache.answers import AnswerCache
    from ibi.resolver.cache.change_requests import ChangesRequester
    from ibi.resolver.metrics.metrics import ResolverMetrics
    from ibi.resolver.model.archive import Archive
    from ibi.resolver.resolve.batch import QueryBatch
    from ibi.resolver.resolve.breaker import CircuitBreakers

PROBE_SECONDS: Final = 3.0
"""Seconds for the whole answer to a probe, unless `archive_seconds` is set; a query has a `Deadline`."""


def excluded_meanwhile() -> QueryNotSent:
    """Return the error for an Archive that was excluded after its round began, and so was not asked."""
    return QueryNotSent("it was excluded meanwhile")


def too_late() -> QueryNotSent:
    """Return the error for an Archive that was not asked, because it could hardly have answered in time."""
    return QueryNotSent("not enough time was left to ask it")


class InFlight(Struct, eq=False):
    """How many queries of one process are in flight.

        total       all of them
        unpaced     those that were sent without the pacer
        of_rounds   those that the fair queue counts: the queries that were sent with the pacer. Of these it counts at
                    most ROUNDS_AT_ONCE to an Archive that hangs; of a batch that is `alone`, it counts all

    An Archive *hangs* while it has answered none of the last HANGS_AFTER queries. If all queries to it counted, all
    rounds would wait until these queries end. An Archive that answers slowly does not hang.
    """

    total: int = 0
    unpaced: int = 0
    of_rounds: int = 0

    def begin(self, batch: QueryBatch, queries: Sequence[Query]) -> None:
        """Count the queries of a batch when they are about to be sent."""
        self.total += len(queries)
        batch.in_flight += len(queries)
        if not batch.paced:
            self.unpaced += len(queries)
        elif batch.alone:
            self.of_rounds += len(queries)
        else:
            for each in queries:
                archive = each.to
                archive.in_flight += 1
                if archive.unanswered < HANGS_AFTER or archive.in_flight <= ROUNDS_AT_ONCE:
                    self.of_rounds += 1

    def end(self, query: Query, *, answered: bool) -> None:
        """Count a query no more, because it was answered or has failed."""
        batch, archive = query.batch, query.to
        if answered:
            if archive.unanswered >= HANGS_AFTER:  # it hung: count again what `begins_to_hang` left out
                self.of_rounds += max(0, archive.in_flight - ROUNDS_AT_ONCE)
            archive.unanswered = 0
        self.total -= 1
        batch.in_flight -= 1
        if not batch.paced:
            self.unpaced -= 1
        elif batch.alone:
            self.of_rounds -= 1
        else:
            archive.in_flight -= 1
            if archive.unanswered < HANGS_AFTER or archive.in_flight < ROUNDS_AT_ONCE:
                self.of_rounds -= 1

    def begins_to_hang(self, archive: QueriedArchive) -> None:
        """Count at most ROUNDS_AT_ONCE of the queries to an Archive from now on."""
        self.of_rounds -= max(0, archive.in_flight - ROUNDS_AT_ONCE)


class Queries:
    """Sends the queries of one process, and delivers their responses. Belongs to one event loop.

    `seconds`: how long an Archive may take to answer a probe.

    Answers come by callbacks, because a query that needs no task and no timer takes 5 to 8 us instead of 11.
    """

    def __init__(
        self,
        client: Client,
        breaker: CircuitBreakers,
        cache: AnswerCache,
        metrics: ResolverMetrics,
        changes: ChangesRequester,
        seconds: float = PROBE_SECONDS,
    ) -> None:
        self._client = client
        self._breaker = breaker
        self._cache = cache
        self._metrics = metrics
        self._queried: dict[str, QueriedArchive] = {}
        self._collapsing = Collapsing(cache)
        self._in_flight = in_flight = InFlight()
        self._reading = AnswerReader()
        self._changes = changes
        self._pacer = Pacer(self._send, lambda: in_flight.unpaced > 0)
        self._lag = LoopLag(lambda: in_flight.total + self._probes.in_flight > 0)
        self._probes = Probes(client, breaker, self._lag.was_late, seconds)
        self.fair_queue = FairQueue(in_flight)
        """Admits rounds that ask every Archive."""

    def keep_to(self, included: Mapping[str, Archive]) -> None:
        """Forget the state of each Archive that is not in `included` (by canonical service IBI), or has moved since."""
        here = {
            name: known
            for name, known in self._queried.items()
            if name in included and included[name].address == known.archive.address
        }
        self._breaker.forget(included, self._queried.keys() - here.keys())
        self._collapsing.forget(included)
        self._queried = here

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run background work that sends queries; it is cancelled when the client closes."""
        self._client.keep(asyncio.create_task(work))

    def was_late(self, since: float) -> bool:
        """Whether this event loop was late after the time `since`, so that silence proves nothing."""
        return self._lag.was_late(since)

    def covers(self, archives: Sequence[Archive], batch: QueryBatch) -> bool:
        """Whether a batch could join queries in flight to nearly all of these Archives, so that few are asked."""
        return self._collapsing.covers(archives, batch)

    def send(self, archives: Iterable[Archive], batch: QueryBatch) -> None:
        """Send a batch to these Archives and return at once; each response is delivered, now or later.

        No query is cancelled when its round has ended: an Archive could conclude from that how its answer was used
        (RES-03: Archives learn no preference).
        """
        outgoing: list[Query] = []
        joinable: dict[str, Query] | None = None
        if batch.share and batch.question in self._collapsing.under_way:
            joinable = self._collapsing.joinable(batch)
        # When all Archives are asked, usually neither the cache, nor a query in flight, nor the breaker can respond in
        # place of any. Then `_next_step` would return "ask" for each of a thousand, and is not called.
        no_open_circuit, in_time = not self._breaker.circuits, batch.deadline.seconds > 0
        plain = joinable is None and no_open_circuit and in_time and not batch.use_cache
        queried = self._queried
        for archive in archives:
            next_step = "ask" if plain else self._next_step(archive, batch, joinable)
            if next_step == "nothing":
                continue
            known = queried.get(archive.service)
            if known is None or known.archive is not archive:
                known = queried[archive.service] = QueriedArchive(archive, target_part(f"/{archive.name}"))
            outgoing.append(Query(archive, known, batch, renews=next_step == "renew"))
        if outgoing:
            batch.sent = Moment(self._cache.boot(), self._cache.now())
            self._start(batch, outgoing)

    def _next_step(
        self, archive: Archive, batch: QueryBatch, joinable: dict[str, Query] | None
    ) -> Literal["nothing", "ask", "renew"]:
        """Return what the caller is to send to an Archive of a batch.

        `joinable`: the queries under the same question that were sent before, by Archive; an answer to one of them may
        have come already (`Collapsing`). What is returned:

            "nothing"   the response was delivered, or will be: from the cache, an earlier query, a probe or the breaker
            "ask"       a query
            "renew"     a request for changes: there is a cached answer, which may be used once the lease is renewed
        """
        step: Literal["ask", "renew"] = "ask"
        earlier = joinable.get(archive.service) if joinable is not None else None
        # First the cache: if the batch may use it, or if the answer to the earlier query has just been put there.
        if batch.use_cache or (earlier is not None and earlier.is_cached):
            kept = self._cache.answer(archive.service, batch.question)
            # An unreliable Archive's answer counts as expired: readers may not be able to follow its URL.
            if kept is not None and not self._breaker.is_unreliable(archive.service):
                freshness = self._cache.freshness(archive.service, batch.question, kept)
                if freshness == "fresh":
                    answer = UrlList.read(kept.body)
                    batch.deliver(ArchiveResponse(archive, answer, None, batch.deadline.begun, "cache"))
                    return "nothing"
                if freshness == "unleased" and self._changes.supports(archive):
                    step = "renew"
        if batch.deadline.seconds <= 0:
            error: IbiError = QueryNotSent("no time was left to ask it")
            batch.deliver(ArchiveResponse(archive, None, error, batch.deadline.begun))
            return "nothing"
        # Then the earlier query.
        if earlier is not None and self._collapsing.join(archive, batch, earlier):
            return "nothing"
        # Then the circuit breaker, if the Archive has failed lately.
        if archive.service not in self._breaker.circuits:
            return step
        begun = batch.deadline.begun
        replied_at = begun - self._changes.seconds_since_reply(archive)
        turn = self._breaker.begin(archive.service, begun, replied_at)
        if turn == "ask":
            return step
        if turn == "probe":
            self._probes.send(archive, partial(self._probed, archive, batch))
        else:
            self._deliver_suspended(archive, batch)
        return "nothing"

    def _probed(self, archive: Archive, batch: QueryBatch, answers: bool) -> None:  # noqa: FBT001 - the only argument of a callback
        """Send the query that waited for a probe, if the Archive answered the probe and is still included."""
        included = batch.members().by_service.get(archive.service)
        if not answers:
            self._deliver_suspended(archive, batch)
        elif included is None:
            batch.deliver(ArchiveResponse(archive, None, excluded_meanwhile(), batch.deadline.now()))
        else:
            known = QueriedArchive(included, target_part(f"/{included.name}"))
            self._queried[included.service] = known  # a new one: it has just answered
            self._start(batch, [Query(included, known, batch)])

    def note_silence(self, archive: Archive, *, failed: bool) -> None:
        """Probe an Archive unless it was probed lately: an acknowledgment has `failed`, or got no reply for a while."""
        if self._breaker.note_silence(archive.service, asyncio.get_running_loop().time(), failed=failed):
            self._probes.send(archive)

    def disbelieve(self, archive: Archive, question: str) -> None:
        """Drop an answer that is not believed from the cache; probe its Archive, unless it was probed lately."""
        self._cache.drop(archive.service, question)
        if self._breaker.doubt(archive.service, asyncio.get_running_loop().time()):
            self._probes.send(archive)

    def _deliver_suspended(self, archive: Archive, batch: QueryBatch) -> None:
        """Deliver the error of an Archive that is not asked now, because its circuit is open or it is paused."""
        self._metrics.query_ended("asleep")
        circuit = self._breaker.circuits.get(archive.service)
        error: IbiError = QueryNotSent("it did not respond lately, so it is not asked for a while")
        if circuit is not None and isinstance(circuit.why, WrongArchive):
            error = circuit.why
        elif circuit is not None and isinstance(circuit.why, PeerBusy):
            error = QueryNotSent("it asked for a pause, so it is not asked for a while")
        batch.deliver(ArchiveResponse(archive, None, error, batch.deadline.now(), "breaker"))

    def _start(self, batch: QueryBatch, outgoing: Sequence[Query]) -> None:
        """Send queries, perhaps through the pacer; they are in flight, and can be joined, from now on."""
        # Without a call for most batches: the lag is measured already, and its timer is not overdue.
        if self._lag.timer is None or batch.deadline.begun > self._lag.timer.when():
            self._lag.begin()
        self._in_flight.begin(batch, outgoing)
        if batch.share:
            self._collapsing.enter(batch, outgoing)
        if batch.paced:
            self._pacer.add(outgoing)
        else:
            self._send(outgoing)

    def _send(self, outgoing: Sequence[Query]) -> None:
        """Send these queries now, with the client; for those that renew a lease, request the changes instead.

        A query is not sent if it comes too late (`QueryBatch.latest`). While many queries are in flight, a round that
        asks all Archives sends none to an Archive that hangs (see `InFlight`).
        """
        ask, received, now = self._client.ask, self._received, outgoing[0].batch.deadline.now()
        many = self._in_flight.total > MANY_IN_FLIGHT
        for each in outgoing:
            batch, archive = each.batch, each.to
            try:
                if now > batch.latest:
                    raise too_late()
                if many and archive.unanswered >= HANGS_AFTER and batch.paced and not batch.alone:
                    raise too_many()
                if each.renews:
                    self._changes.renew(each.archive, partial(self._renewed, each))
                    continue
                to, done, headers = (archive.path, batch.target), partial(received, each), batch.headers
                if batch.span is not None:
                    each.span = batch.span.child("query", "CLIENT", archive=each.archive.service)
                    headers = each.span.headers
                ask(each.archive.address, to, batch.deadline, done, headers)
                archive.unanswered += 1
                if archive.unanswered == HANGS_AFTER:
                    self._in_flight.begins_to_hang(archive)
            except PeerError as error:
                # Not at once: no response to a query may be delivered before `send` has returned.
                asyncio.get_running_loop().call_soon(received, each, error)

    def _renewed(self, query: Query, error: PeerError | None) -> None:
        """Deliver the cached answer to a query, now that the lease is renewed; if it was forgotten, send the query."""
        if error is not None:
            self._fail(query, error)
            return
        service, batch = query.archive.service, query.batch
        kept, now = self._cache.answer(service, batch.question), batch.deadline.now()
        if kept is not None and self._cache.freshness(service, batch.question, kept) == "fresh":
            query.shareable_at, query.is_cached = now, True
            answer = UrlList.read(kept.body)
            self._deliver(query, ArchiveResponse(query.archive, answer, None, now, "cache"))
        else:
            query.renews = False
            self._send([query])

    def stale(self, archives: Sequence[Archive], question: str) -> Iterator[ArchiveResponse]:
        """Yield the cached answers of these Archives, expired ones too (RFC 8767)."""
        kept = self._cache.answers([archive.service for archive in archives], question)
        for archive in archives:
            if archive.service in kept:
                yield ArchiveResponse(archive, UrlList.read(kept[archive.service].body), None, 0.0, "stale")

    def _received(self, outgoing: Query, reply: Reply | PeerError) -> None:
        """Make a response of the client's reply or error, and deliver it."""
        try:
            if isinstance(reply, PeerError):
                raise reply
            body = body_of(reply)
            # None: it is too long to be read at once.
            answer = self._reading.at_once(body) if body else NOT_KNOWN
        except (PeerError, ParseError) as error:
            self._fail(outgoing, error)
            return
        if answer is None:
            self._client.keep(asyncio.create_task(self._read(outgoing, reply)))
        else:
            self._succeed(outgoing, reply, answer)

    async def _read(self, outgoing: Query, reply: Reply) -> None:
        """Read a long answer, and deliver it."""
        try:
            answer = await self._reading.read(reply.body)
        except (PeerError, ParseError) as error:
            self._fail(outgoing, error)
        except asyncio.CancelledError:  # the client closes: rounds that wait need a response
            self._fail(outgoing, PeerSilent("this client is closed"))
            raise
        else:
            self._succeed(outgoing, reply, answer)

    def _succeed(self, outgoing: Query, reply: Reply, answer: UrlList) -> None:
        """Cache an answer if its Archive allows that, note that the Archive has answered, and deliver the answer."""
        batch, service = outgoing.batch, outgoing.archive.service
        now = batch.deadline.now()
        pairs = answer.pairs
        if not pairs:
            outgoing.shareable_at = now  # "nothing known" is so for every reader; it is not cached
        elif seconds := lifetime(reply, answer):
            terms, most = None, self._changes.most_seconds
            if CHANGES_AS_OF in pairs and most and service not in self._changes.unsupported:
                # The answer has a position, so it is used while leases run. If it does not show the changes that the
                # cache has applied, the thread that writes the cache calls `on_change`, which requests the changes.
                loop, refresh = asyncio.get_running_loop(), self._changes.refresh
                on_change = partial(loop.call_soon_threadsafe, refresh, outgoing.archive)
                terms = LeaseTerms(pairs, batch.sent, most, on_change)
            self._cache.put(service, batch.question, reply.body, seconds, batch.snapshot, terms)
            outgoing.shareable_at, outgoing.is_cached = now, True
        if outgoing.span is not None:
            outgoing.span.end("answered")
        self._breaker.heard_at[service] = now
        # `CircuitBreakers.count`, inlined: `hours` has three numbers for each of 24 hours. A test compares the two.
        hours, hour = self._breaker.hours.get(service), int(now // 3600)
        if hours is None or hours[hour % 24 * 3] != hour:
            self._breaker.count(service, now, answered=True)
        else:
            hours[hour % 24 * 3 + 1] += 1
        if self._breaker.circuits:
            self._breaker.heard(service, now)
        batch.waits.append(now - batch.deadline.begun)
        self._deliver(outgoing, ArchiveResponse(outgoing.archive, answer, None, now), not pairs)

    def _fail(self, outgoing: Query, error: PeerError | ParseError) -> None:
        """Count a failure against the Archive, unless it may have another cause, and deliver the error."""
        why = failure_of(error)
        garbled = isinstance(error, PeerGarbled | ParseError)
        why.with_traceback(None)  # kept for as long as the Archive is in trouble
        batch, now = outgoing.batch, outgoing.batch.deadline.now()
        unproven = (
            not batch.judged or isinstance(why, QueryNotSent) or self._lag.was_late(batch.deadline.begun)
        )
        if not unproven:
            self._breaker.count(outgoing.archive.service, now, answered=False)
            if self._breaker.failed(outgoing.archive.service, now, why):
                self._probes.send(outgoing.archive)
        outcome = "garbled" if garbled else "silent"
        self._metrics.query_ended(outcome, now - batch.deadline.begun)
        if outgoing.span is not None:
            outgoing.span.end(outcome, failed=True)
        self._deliver(outgoing, ArchiveResponse(outgoing.archive, None, why, now))

    def _deliver(self, outgoing: Query, response: ArchiveResponse, is_absence: bool = False) -> None:  # noqa: FBT001, FBT002 - by position: it is called for every answer
        """End a query in flight, and give its response to its batch and to those that joined.

        `is_absence`: whether the response is "nothing known".
        """
        batch = outgoing.batch
        self._in_flight.end(outgoing, answered=response.answer is not None)
        if not batch.in_flight and batch.waits:
            self._metrics.query_ended("answered", *batch.waits)
            batch.waits.clear()
        batch.deliver(response)
        # Most answers are "nothing known" and not joined: they need no call, but the last one ends the batch.
        if not (is_absence and batch.in_flight and outgoing.others is None):
            self._collapsing.heard(outgoing, response)
        if self.fair_queue.queues:
            self.fair_queue.serve()
