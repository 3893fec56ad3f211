"""Collapsed forwarding: a question that is under way is joined and not sent again (note 1, threats T20, T29).

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

from ibi.errors import PeerError, PeerGarbled
from ibi.resolver.model.archive import NOT_KNOWN, ArchiveResponse
from ibi.resolver.resolve.batch import QueriesUnderWay, QuestionUnderWay
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


class Collapsing:
    """The questions under way in one process. `now` is a time of its event loop."""

    def __init__(self, cache: AnswerCache) -> None:
        self._cache = cache
        self.under_way: dict[str, QuestionUnderWay] = {}
        """By question (`rows.question`)."""
        self.reusable: dict[str, bool] = {}
        """Whether an Archive has ever given an answer that may be reused; absent until it has given any."""
        self._not_shared: dict[tuple[str, str], float] = {}

    def forget(self, included: Collection[str]) -> None:
        """Forget what is known of Archives that are not among these."""
        self.reusable = {name: known for name, known in self.reusable.items() if name in included}

    def enter(self, batch: QueryBatch, queries: Sequence[Query]) -> None:
        """Let others join these queries of a batch, which are in flight from now on."""
        question = self.under_way.get(batch.question)
        if question is None:
            question = self.under_way[batch.question] = QuestionUnderWay()
        reader = question.readers.get(batch.text)
        if reader is None:
            if question.sent is None and question.readers:
                question.sent = {**question.seen_by(batch.text)}
            reader = question.readers[batch.text] = QueriesUnderWay()
        sent = {query.archive.service: query for query in queries}
        reader.sent.update(sent)
        if question.sent is not None:
            question.sent.update(sent)
        if not batch.is_under_way:
            batch.is_under_way = True
            question.batches += 1
            reader.batches += 1

    def leave(self, batch: QueryBatch) -> None:
        """Take a batch out: none of its queries is in flight any more. With the last batch, all is forgotten."""
        question = self.under_way[batch.question]
        reader = question.readers[batch.text]
        batch.is_under_way = False
        question.batches -= 1
        reader.batches -= 1
        if not reader.batches:
            del question.readers[batch.text]
        if not question.batches:
            del self.under_way[batch.question]

    def drop(self, query: Query) -> None:
        """Let others join a query no longer: it failed, or its answer is for one reader."""
        batch = query.batch
        question = self.under_way[batch.question]
        reader = question.readers.get(batch.text)
        for sent in (question.sent, None if reader is None else reader.sent):
            if sent is not None and sent.get(query.archive.service) is query:
                del sent[query.archive.service]

    def covers(self, archives: Sequence[Archive], batch: QueryBatch) -> bool:
        """Whether nearly all of these need not be asked, since others ask the question of this batch already."""
        joined, now, shared = 0, batch.deadline.now(), self.under_way[batch.question].seen_by(batch.text)
        for archive in archives:
            sent = shared.get(archive.service)
            # An answer that holds something lies in the cache by now.
            joined += sent is not None and (sent.holds or self._may_join(archive, batch, sent, now))
        # So few are left as a round may ask without waiting for its turn, and fewer than are joined.
        left = len(archives) - joined
        return left <= MOST_LIKELY and left < joined

    def join(self, archive: Archive, batch: QueryBatch, sent: Query) -> bool:
        """Have a batch get the response to a query that was sent already, now or later; False if it may not."""
        if not self._may_join(archive, batch, sent, batch.deadline.now()):
            return False
        if sent.for_all_at is not None:
            batch.deliver(ArchiveResponse(archive, NOT_KNOWN, None, batch.deadline.begun, "cache"))
            return True
        if sent.others is None:
            sent.others = []
        sent.others.append((archive, batch))
        return True

    def _may_join(self, archive: Archive, batch: QueryBatch, sent: Query, now: float) -> bool:
        """Whether the reader of a batch may get the response to an earlier query, in time and not out of date."""
        service, since = sent.archive.service, sent.batch.snapshot
        if sent.archive.address != archive.address:
            return False
        if batch.text != sent.batch.text and (
            batch.ask_again is None or not self._is_for_all(service, batch.question, now)
        ):
            return False
        if sent.for_all_at is None:
            mine, its = batch.deadline, sent.batch.deadline
            in_time = its.end <= mine.end + _MOMENT and its.lasts(mine.seconds / 2)
        else:
            in_time = not sent.holds and now <= sent.for_all_at + LONGEST_HEARD
        return in_time and (since == batch.snapshot or self._cache.unchanged(service, since))

    def _is_for_all(self, service: str, question: str, now: float) -> bool:
        """Whether the answer of an Archive is believed to be the same for all readers."""
        return self.reusable.get(service, True) and now >= self._not_shared.get((service, question), now)

    def share(self, sent: Query, response: ArchiveResponse) -> None:
        """Give a response to those who wait for it; where it is not for all, other readers have to ask again."""
        others, sent.others = sent.others or (), None
        answer, text, error = response.answer, sent.batch.text, response.error
        # Silence is for all; a refusal may be meant for this reader alone.
        for_all = sent.for_all_at is not None or (
            isinstance(error, PeerError) and not isinstance(error, PeerGarbled)
        )
        source: Source = "shared" if sent.holds else response.source
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
