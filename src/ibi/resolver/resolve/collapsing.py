"""Collapsed forwarding: a question that is under way is joined and not sent again (note 1, threats T20, T29).

A query with the same text is for the same reader, and joins whatever is in flight. Other readers wait for an Archive
until it has been seen to give answers for one reader only, and get its answer if that may be reused; otherwise each
asks for itself. An Archive that knew nothing is not asked again while others are asked the same, for a short while.
What was sent before something of its Archive was forgotten is not joined afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ibi.errors import PeerError, PeerGarbled
from ibi.resolver.cache.rows import question
from ibi.resolver.model.archive import NOT_KNOWN, ArchiveResponse
from ibi.resolver.resolve.policy import MOST_LIKELY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ibi.http.client import Deadline, TargetPart
    from ibi.protocol.messages import UrlRequest
    from ibi.resolver.cache.answers import AnswerCache
    from ibi.resolver.cache.rows import Snapshot
    from ibi.resolver.model.archive import Archive, Source

LONGEST_HEARD: Final = 3.0
"""Seconds for which other readers are told that an Archive knew nothing, while a question is under way (T29)."""

NOT_SHARED: Final = 60.0
"""Seconds for which no reader waits for what another is told, after an answer that could not be shared (T20)."""

MOST_NOT_SHARED: Final = 10_000
"""Questions, each to one Archive, of which that is noted; the oldest is dropped for one more."""

# Seconds by which the joined query may end later than a query of one's own would: a round still reads it (READING).
_MOMENT = 0.1


class Batch:
    """What is to be known of a batch of queries to have it join others, or joined by them (`queries.QueryBatch`).

    `question` as in `rows.question`; `text`: the query string, which differs by reader. `ask_again` is called with an
    Archive whose response was waited for and may not be shared; without it, only what is for the same reader is joined.
    """

    __slots__ = ("ask_again", "began", "deadline", "deliver", "question", "snapshot", "text", "under_way")

    question: str
    text: str
    snapshot: Snapshot
    deadline: Deadline
    began: float
    deliver: Callable[[ArchiveResponse], None]
    ask_again: Callable[[Archive], None] | None
    under_way: tuple[QuestionUnderWay, QueriesUnderWay] | None


class Query(Struct, eq=False):
    """One query to one Archive.

    `others`: who else waits for its response. `for_all_at`: when an answer came that may be given to every reader (time
    of the loop), and whether it `holds` anything.
    """

    archive: Archive
    path: TargetPart
    batch: Batch
    others: list[tuple[Archive, Batch]] | None = None
    for_all_at: float | None = None
    holds: bool = False


class QueriesUnderWay(Struct, eq=False):
    """What is asked for one reader, while any of it is in flight.

    `sent`: the last query to each Archive, unless it failed or its answer may not be used again; `batches`: how many
    have queries in flight (counted so, since of a hundred queries each costs).
    """

    sent: dict[str, Query] = {}
    batches: int = 0


class QuestionUnderWay(QueriesUnderWay):
    """The same for all readers; `readers`: those of each, by the text of their queries."""

    readers: dict[str, QueriesUnderWay] = {}

    def seen_by(self, text: str) -> dict[str, Query]:
        """The queries that one with this text may join, by Archive; rather those for the same reader."""
        own = self.readers.get(text)
        return self.sent if own is None else {**self.sent, **own.sent}


class Collapsing:
    """The questions under way in one process. `now` is a time of its event loop."""

    def __init__(self, cache: AnswerCache) -> None:
        self._cache = cache
        self.under_way: dict[str, QuestionUnderWay] = {}
        """By question (`rows.question`); kept by `Queries`, where a call for each query would cost too much."""
        self.reusable: dict[str, bool] = {}
        """Whether an Archive has ever given an answer that may be reused; absent until it has given any."""
        self._not_shared: dict[tuple[str, str], float] = {}

    def forget(self, included: Collection[str]) -> None:
        """Forget what is known of Archives that are not among these."""
        self.reusable = {name: known for name, known in self.reusable.items() if name in included}

    def drop(self, query: Query) -> None:
        """Let others join a query no longer: it failed, or its answer is for one reader."""
        batch = query.batch
        known = self.under_way[batch.question]
        for each in (known, known.readers.get(batch.text)):
            if each is not None and each.sent.get(query.archive.service) is query:
                del each.sent[query.archive.service]

    def covers(self, archives: Sequence[Archive], query: UrlRequest, text: str, now: float) -> bool:
        """Whether nearly all of these need not be asked, since others ask the same."""
        name = question(query)
        if name not in self.under_way:
            return False
        joined, shared = 0, self.under_way[name].seen_by(text)
        for archive in archives:
            sent = shared.get(archive.service)
            joined += sent is not None and (
                sent.batch.text == text or self._is_for_all(archive.service, name, now)
            )
        return joined > len(archives) - joined <= MOST_LIKELY

    def join(self, archive: Archive, batch: Batch, sent: Query) -> bool:
        """Have a batch get the response to a query that was sent already, now or later; False if it may not."""
        now = batch.deadline.now()
        if sent.archive.address != archive.address or not self._may_join(batch, sent, now):
            return False
        if sent.for_all_at is None:
            seconds = batch.deadline.seconds
            later = sent.batch.began + sent.batch.deadline.seconds - (batch.began + seconds)
            if later > _MOMENT or not sent.batch.deadline.lasts(seconds / 2):
                return False
            if sent.others is None:
                sent.others = []
            sent.others.append((archive, batch))
            return True
        if sent.holds or now > sent.for_all_at + LONGEST_HEARD:
            return False
        batch.deliver(ArchiveResponse(archive, NOT_KNOWN, None, batch.began, "cache"))
        return True

    def _may_join(self, batch: Batch, sent: Query, now: float) -> bool:
        """Whether the reader of a batch may get the response to an earlier query, and it is not out of date."""
        service, since = sent.archive.service, sent.batch.snapshot
        if batch.text != sent.batch.text and (
            batch.ask_again is None or not self._is_for_all(service, batch.question, now)
        ):
            return False
        return since == batch.snapshot or self._cache.unchanged(service, since)

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
