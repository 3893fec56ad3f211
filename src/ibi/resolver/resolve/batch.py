"""The values that `queries`, `collapsing` and `round` pass on: a `Query` to one Archive, and the `QueryBatch` it is in.

A batch has what the queries of one moment have in common, so that a query to one of 1,000 Archives costs little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ibi.resolver.cache.lease import NEVER, Moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.http.client import Deadline, TargetPart
    from ibi.resolver.cache.rows import Snapshot
    from ibi.resolver.model.archive import Archive, ArchiveResponse, Members
    from ibi.runtime.tracing import Span


class QueryBatch(Struct, eq=False):
    """The same query to several Archives at one moment.

    What is asked:

        question      item, verbs and path, without the reader (`rows.question`)
        text          the query string, which contains the reader's addresses; `target` is the same, encoded
        deadline      when each of the queries ends; `latest`, a time of the loop: no query is sent later
        deliver       is called once for each Archive, with its response
        ask_again     is called with an Archive if the answer to a joined query may not be given to this reader
        members       returns the Archives that are included now
        snapshot      of the answer cache, from before any query; what was forgotten since is not cached
        headers       the trace headers of the reader's request; if spans are exported, those of `span` (the
                      span of the round) are sent instead

    The flags (README.md):

        use_cache     a cached answer is taken, and no query is sent
        share         a query in flight that asks the same question may be joined
        paced         the pacer sends the queries, a few at a time
        judged        silence counts as a failure for the circuit breaker
        alone         one Archive is asked once more, for this reader alone: only queries of this reader are joined

    What changes while it runs:

        sent          when it was sent, from which the validity of its answers is counted
        in_flight     how many of its queries are in flight
        is_under_way  whether others may join them (`Collapsing`)
        waits         the seconds after which each answer came, for the metrics once none is in flight any more
    """

    question: str
    text: str
    target: TargetPart
    deadline: Deadline
    latest: float
    deliver: Callable[[ArchiveResponse], None]
    ask_again: Callable[[Archive], None]
    members: Callable[[], Members]
    snapshot: Snapshot
    use_cache: bool = False
    share: bool = False
    paced: bool = False
    judged: bool = True
    alone: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    span: Span | None = None
    sent: Moment = NEVER
    in_flight: int = 0
    is_under_way: bool = False
    waits: list[float] = []


class QueriedArchive(Struct, eq=False):
    """An Archive that is queried at `path`.

    `in_flight`: how many queries to it are in flight that are paced and not alone. `unanswered`: how many queries of
    any kind were sent to it since its last answer.
    """

    archive: Archive
    path: TargetPart
    in_flight: int = 0
    unanswered: int = 0


class Query(Struct, eq=False):
    """One query to one Archive; `to` is what is known of the queries to it.

    `renews`: whether the lease of a cached answer is renewed instead. `span`: the span of the query, if spans are
    exported and it was sent.

    The others are for `Collapsing`. `others`: the batches that joined this query and wait for its response, each
    with the Archive as this batch knows it. `shareable_at`: when an answer came that every reader may get (a time
    of the loop); None until then. `is_cached`: whether that answer is in the answer cache, where "nothing known"
    is not put.
    """

    archive: Archive
    to: QueriedArchive
    batch: QueryBatch
    renews: bool = False
    others: list[tuple[Archive, QueryBatch]] | None = None
    shareable_at: float | None = None
    is_cached: bool = False
    span: Span | None = None
