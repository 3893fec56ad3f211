"""Collapsed forwarding (singleflight): equal queries to an Archive share one answer.

If many readers click on one item at once, its Archives are asked once, and not once for each reader. A batch *joins*
a query when it takes the response to that query instead of sending one of its own. `Queries` calls, in this order:

    joinable      return the queries that a batch could join, by Archive
    join          make a batch wait for the response to one of them, if that is allowed
    enter         let later batches join the queries that are sent now
    heard         give a response to all batches that have joined its query

Which queries a batch may join:

    of the same reader     Always. The texts of both queries are equal; a text contains the reader's addresses.
    of another reader      Yes, unless the Archive is known to answer each reader differently. If the answer turns out
                           to be for one reader only, each of the others sends a query of its own (`ask_again`).
    that was answered      Yes, if the answer was "nothing known" a moment ago, and other Archives are still being
                           asked the same question.

When a batch joins nothing:

    without `share`        The original is required, or the policy is strict.
    too late               The query in flight has less than half of the time left that a new query would get.
    outdated               An answer of this Archive was forgotten since that query was sent, because a notice came.

See note 1: reuse of answers; T20: answers for one reader; T29: costly requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ibi.errors import PeerError, PeerGarbled
from ibi.resolver.cache.recent import put_newest
from ibi.resolver.model.archive import NOT_KNOWN, ArchiveResponse
from ibi.resolver.resolve.policy import MOST_LIKELY

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ibi.resolver.cache.answers import AnswerCache
    from ibi.resolver.model.archive import Archive, ResponseSource
    from ibi.resolver.resolve.batch import Query, QueryBatch

LONGEST_HEARD: Final = 3.0
"""Seconds for which an Archive's "nothing known" is given to other readers, while the question is under way (T29:
costly requests)."""

NOT_SHARED: Final = 60.0
"""Seconds for which other readers join no query to an Archive, after it answered this question for one reader (T20:
answers for one reader)."""

MOST_NOT_SHARED: Final = 10_000
"""Pairs of Archive and question that are not joined because of that; one more drops the oldest."""

# Seconds by which the deadline of a query may be later than that of the batch that joins it: a round still reads
# responses for a while after its own deadline (`round.READING`).
_MOMENT = 0.1


class _Reader(Struct, eq=False):
    """The queries of one reader that ask one question, while any of them is in flight.

    `queries`: the last query to each Archive (its key); not those that failed, or whose answers may not be reused.
    `batches`: how many batches have queries in flight. Batches are counted and not queries, of which each batch
    may have hundreds, because that takes less time.
    """

    queries: dict[str, Query] = {}
    batches: int = 0


class _Question(Struct, eq=False):
    """A question under way.

    `readers`: those who ask it; the key is the text of their queries, which is another one for each reader.
    `queries`: the queries of all readers, by Archive. None while there is only one reader: then `readers` has them.
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
        """By Archive, whether any of its answers could be reused; no entry before its first answer with pairs."""
        self._not_shared: dict[tuple[str, str], float] = {}
        """By Archive and question, until when other readers do not join it (`NOT_SHARED`)."""

    def forget(self, included: Collection[str]) -> None:
        """Forget all Archives but the included ones."""
        self._reusable = {name: known for name, known in self._reusable.items() if name in included}

    def joinable(self, batch: QueryBatch) -> dict[str, Query]:
        """Return the queries that a batch could join, by Archive; those of its own reader come before others.

        The question of the batch must be under way.
        """
        question = self.under_way[batch.question]
        if question.queries is None:  # there is only one reader
            (only,) = question.readers.values()
            return only.queries
        own = question.readers.get(batch.text)
        return question.queries if own is None else {**question.queries, **own.queries}

    def covers(self, archives: Sequence[Archive], batch: QueryBatch) -> bool:
        """Whether a batch could join queries in flight to nearly all of these Archives, so that few are asked."""
        if batch.question not in self.under_way:
            return False
        joined, now, joinable = 0, batch.deadline.now(), self.joinable(batch)
        for archive in archives:
            query = joinable.get(archive.service)
            # An answer that may be reused is in the cache by now, and need not be joined.
            joined += query is not None and (query.is_cached or self._may_join(archive, batch, query, now))
        # As many as the likely holders may be asked without the fair queue; and most of the queries must be joined.
        left = len(archives) - joined
        return left <= MOST_LIKELY and left < joined

    def join(self, archive: Archive, batch: QueryBatch, query: Query) -> bool:
        """Let a batch join an earlier query, whose response it gets now or later; return False if it may not."""
        if not self._may_join(archive, batch, query, batch.deadline.now()):
            return False
        if query.shareable_at is not None:
            batch.deliver(ArchiveResponse(archive, NOT_KNOWN, None, batch.deadline.begun, "cache"))
            return True
        if query.others is None:
            query.others = []
        query.others.append((archive, batch))
        return True

    def enter(self, batch: QueryBatch, queries: Sequence[Query]) -> None:
        """Let other batches join these queries of a batch, which are in flight from now on."""
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
        """Give the response to a query, which is no longer in flight, to all batches that have joined it."""
        batch, answer = query.batch, response.answer
        if answer is not None and answer.pairs:
            service = query.archive.service
            self._reusable[service] = query.is_cached or self._reusable.get(service, False)
        if not batch.share:
            return
        if not batch.in_flight and batch.is_under_way:  # this was the last query of its batch
            batch.is_under_way = False
            question = self.under_way[batch.question]
            reader = question.readers[batch.text]
            reader.batches -= 1
            if not reader.batches:
                del question.readers[batch.text]
            if not question.readers:
                del self.under_way[batch.question]
        if query.shareable_at is None and batch.question in self.under_way:
            self._drop(query)
        if query.others is not None:
            self._share(query, response)

    def _drop(self, query: Query) -> None:
        """Let no batch join a query any more, because it failed or its answer is for one reader only."""
        question = self.under_way[query.batch.question]
        reader = question.readers.get(query.batch.text)
        for queries in (question.queries, None if reader is None else reader.queries):
            if queries is not None and queries.get(query.archive.service) is query:
                del queries[query.archive.service]

    def _may_join(self, archive: Archive, batch: QueryBatch, query: Query, now: float) -> bool:
        """Whether a batch may join an earlier query: its response will come in time, and is not outdated."""
        service, snapshot = query.archive.service, query.batch.snapshot
        if query.archive.address != archive.address:
            return False
        if batch.text != query.batch.text and (
            batch.alone or not self._is_believed_for_all(service, batch.question, now)
        ):
            return False
        if query.shareable_at is None:  # it is in flight
            mine, its = batch.deadline, query.batch.deadline
            in_time = its.end <= mine.end + _MOMENT and its.lasts(mine.seconds / 2)
        else:  # its answer has come; "nothing known" is given to other readers for a moment
            in_time = not query.is_cached and now <= query.shareable_at + LONGEST_HEARD
        return in_time and (snapshot == batch.snapshot or self._cache.unchanged(service, snapshot))

    def _is_believed_for_all(self, service: str, question: str, now: float) -> bool:
        """Whether an Archive's answer, which has not come yet, is expected to be for all readers."""
        return self._reusable.get(service, True) and now >= self._not_shared.get((service, question), now)

    def _share(self, query: Query, response: ArchiveResponse) -> None:
        """Give a response to the batches that wait for it; if it is for one reader, the others ask again."""
        others, query.others = query.others or (), None
        answer, text, error = response.answer, query.batch.text, response.error
        # An Archive that is silent is so for all readers; a refusal may be meant for this one alone.
        for_all = query.shareable_at is not None or (
            isinstance(error, PeerError) and not isinstance(error, PeerGarbled)
        )
        source: ResponseSource = "shared" if query.is_cached else response.source
        for archive, batch in others:
            if for_all or batch.text == text:
                # Each batch gets an object of its own, because rounds write into their responses.
                batch.deliver(ArchiveResponse(archive, answer, response.error, response.at, source))
            else:  # a batch that is alone never comes here: it joins only queries with its own text
                if answer:
                    self._note_not_shared(archive.service, batch.question, response.at)
                batch.ask_again(archive)

    def _note_not_shared(self, service: str, question: str, now: float) -> None:
        put_newest(self._not_shared, (service, question), now + NOT_SHARED, MOST_NOT_SHARED)
