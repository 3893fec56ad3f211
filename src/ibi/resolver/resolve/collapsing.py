"""Collapsed forwarding: a question that is under way is joined and not sent again (note 1, threats T20, T29).

    joinable      which queries could be joined, by Archive
    join          wait for the response to one of them, where that is allowed
    enter         what has to be sent after all can be joined from now on
    heard         the response has come: give it to all that have joined

A query is joined, in place of sending one to the same Archive,

    by the same reader     the text of a query, which holds the addresses of its reader, is then the same
    by other readers       unless that Archive is known to answer each reader differently; if the answer then turns out
                           to be for its reader alone, each of them sends a query of its own (`ask_again`)
    after "nothing known"  for a short while, as long as other Archives are still being asked the same

but only where the batch says `share` (never where the original is required, nor in the strict policy), while the query
has at least half of the time left that a new one would get, and until something of its Archive is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ibi.errors import PeerError, PeerGarbled
from ibi.resolver.model.archive import NOT_KNOWN, ArchiveResponse
from ibi.resolver.resolve.policy import MOST_LIKELY

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ibi.resolver.cache.answers import AnswerCache
    from ibi.resolver.model.archive import Archive, Source
    from ibi.resolver.resolve.batch import Query, QueryBatch

LONGEST_HEARD: Final = 3.0
"""Seconds for which other readers are told that an Archive knew nothing, while a question is under way (T29)."""

NOT_SHARED: Final = 60.0
"""Seconds for which no reader waits for what another is told, after an answer that could not be shared (T20)."""

MOST_NOT_SHARED: Final = 10_000
"""Questions, each to one Archive, of which that is noted; the oldest is dropped for one more."""

# A query is joined if its deadline is at most so many seconds later than that of a new one: the round that waits for
# it reads on for a while after its own deadline (`round.READING`).
_MOMENT = 0.1


class _Reader(Struct, eq=False):
    """What one reader asks, while any of it is in flight.

    `queries`: the last one to each Archive, unless it failed or its answer may not be used again; `batches`: how many
    have queries in flight (one number for a batch: to count each of its hundred queries would cost time).
    """

    queries: dict[str, Query] = {}
    batches: int = 0


class _Question(Struct, eq=False):
    """A question under way, by the text of the queries of each reader.

    `queries`, of all readers, is None until a second one asks: a single one needs no copy of its own.
    """

    readers: dict[str, _Reader] = {}
    queries: dict[str, Query] | None = None


class Collapsing:
    """The questions under way in one process. `now` is a time of its event loop."""

    def __init__(self, cache: AnswerCache) -> None:
        self._cache = cache
        self.under_way: dict[str, _Question] = {}
        """By question (`rows.question`)."""
        self._reusable: dict[str, bool] = {}
        """Whether an Archive has ever given an answer that may be reused; absent until it has given any."""
        self._not_shared: dict[tuple[str, str], float] = {}

    def forget(self, included: Collection[str]) -> None:
        """Forget what is known of Archives that are not among these."""
        self._reusable = {name: known for name, known in self._reusable.items() if name in included}

    def joinable(self, batch: QueryBatch) -> dict[str, Query]:
        """The queries that a batch could join, by Archive; those for the same reader come first.

        Its question is under way.
        """
        question = self.under_way[batch.question]
        own = question.readers.get(batch.text)
        if question.queries is None:
            (own,) = question.readers.values()
            return own.queries
        return question.queries if own is None else {**question.queries, **own.queries}

    def covers(self, archives: Sequence[Archive], batch: QueryBatch) -> bool:
        """Whether nearly all of these need not be asked, since others ask the question of this batch already."""
        if batch.question not in self.under_way:
            return False
        joined, now, joinable = 0, batch.deadline.now(), self.joinable(batch)
        for archive in archives:
            query = joinable.get(archive.service)
            # An answer that holds something lies in the cache by now.
            joined += query is not None and (query.holds or self._may_join(archive, batch, query, now))
        # A round may ask as few as MOST_LIKELY without waiting for its turn; and most of it must be joined.
        left = len(archives) - joined
        return left <= MOST_LIKELY and left < joined

    def join(self, archive: Archive, batch: QueryBatch, query: Query) -> bool:
        """Have a batch get the response to a query that was sent already, now or later; False if it may not."""
        if not self._may_join(archive, batch, query, batch.deadline.now()):
            return False
        if query.for_all_at is not None:
            batch.deliver(ArchiveResponse(archive, NOT_KNOWN, None, batch.deadline.begun, "cache"))
            return True
        if query.others is None:
            query.others = []
        query.others.append((archive, batch))
        return True

    def enter(self, batch: QueryBatch, queries: Sequence[Query]) -> None:
        """Let others join these queries of a batch, which are in flight from now on."""
        question = self.under_way.get(batch.question)
        if question is None:
            question = self.under_way[batch.question] = _Question()
        reader = question.readers.get(batch.text)
        if reader is None:
            if question.queries is None and question.readers:
                question.queries = {**self.joinable(batch)}
            reader = question.readers[batch.text] = _Reader()
        sent = {query.archive.service: query for query in queries}
        reader.queries.update(sent)
        if question.queries is not None:
            question.queries.update(sent)
        if not batch.is_under_way:
            batch.is_under_way = True
            reader.batches += 1

    def heard(self, query: Query, response: ArchiveResponse) -> None:
        """A query is no longer in flight: give its response to all that have joined it."""
        batch, answer = query.batch, response.answer
        if answer is not None and answer.pairs:
            service = query.archive.service
            self._reusable[service] = query.holds or self._reusable.get(service, False)
        if not batch.share:
            return
        if not batch.in_flight and batch.is_under_way:
            batch.is_under_way = False
            question = self.under_way[batch.question]
            reader = question.readers[batch.text]
            reader.batches -= 1
            if not reader.batches:
                del question.readers[batch.text]
            if not question.readers:
                del self.under_way[batch.question]
        if query.for_all_at is None and batch.question in self.under_way:
            self._drop(query)
        if query.others is not None:
            self._share(query, response)

    def _drop(self, query: Query) -> None:
        """Let others join a query no longer: it failed, or its answer is for one reader."""
        question = self.under_way[query.batch.question]
        reader = question.readers.get(query.batch.text)
        for queries in (question.queries, None if reader is None else reader.queries):
            if queries is not None and queries.get(query.archive.service) is query:
                del queries[query.archive.service]

    def _may_join(self, archive: Archive, batch: QueryBatch, query: Query, now: float) -> bool:
        """Whether the reader of a batch may get the response to an earlier query, in time and not out of date."""
        service, since = query.archive.service, query.batch.snapshot
        if query.archive.address != archive.address:
            return False
        if batch.text != query.batch.text and (
            batch.ask_again is None or not self._is_believed_for_all(service, batch.question, now)
        ):
            return False
        if query.for_all_at is None:
            mine, its = batch.deadline, query.batch.deadline
            in_time = its.end <= mine.end + _MOMENT and its.lasts(mine.seconds / 2)
        else:
            in_time = not query.holds and now <= query.for_all_at + LONGEST_HEARD
        return in_time and (since == batch.snapshot or self._cache.unchanged(service, since))

    def _is_believed_for_all(self, service: str, question: str, now: float) -> bool:
        """Whether the answer of an Archive is believed to be the same for all readers, before it has come."""
        return self._reusable.get(service, True) and now >= self._not_shared.get((service, question), now)

    def _share(self, query: Query, response: ArchiveResponse) -> None:
        """Give a response to those who wait for it; where it is not for all, other readers have to ask again."""
        others, query.others = query.others or (), None
        answer, text, error = response.answer, query.batch.text, response.error
        # Silence is for all; a refusal may be meant for this reader alone.
        for_all = query.for_all_at is not None or (
            isinstance(error, PeerError) and not isinstance(error, PeerGarbled)
        )
        source: Source = "shared" if query.holds else response.source
        for archive, batch in others:
            if for_all or batch.text == text:  # of its own for each: a round writes into its responses
                batch.deliver(ArchiveResponse(archive, answer, response.error, response.at, source))
            elif batch.ask_again is not None:
                if answer:
                    self._note_not_shared(archive.service, batch.question, response.at)
                batch.ask_again(archive)

    def _note_not_shared(self, service: str, question: str, now: float) -> None:
        noted = self._not_shared
        noted.pop((service, question), None)  # the oldest stands first
        if len(noted) >= MOST_NOT_SHARED:
            del noted[next(iter(noted))]
        noted[service, question] = now + NOT_SHARED
