"""Queries: `Query` goes to one Archive; `QueryBatch` holds what the queries of one moment have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.http.client import Deadline, TargetPart
    from ibi.resolver.cache.rows import Snapshot
    from ibi.resolver.model.archive import Archive, ArchiveResponse, Members
    from ibi.runtime.tracing import Span


class QueryBatch(Struct, eq=False):
    """The same query to several Archives at one moment.

    `question` as in `rows.question`. `text`: the query string, which differs by reader; `target`: the same,
    encoded for sending. `latest`: the time of the loop after which no query is sent any more. `deliver` is
    called once for each Archive, with its response. `members` returns the Archives that are included now.
    `snapshot`: of the answer cache, from before any query; what was forgotten since is not cached.

    `use_cache`: whether a cached answer will do. `share`: whether the answer to a query in flight, to the
    same question, will do. `paced`: whether the pacer sends the queries, a few at a time. `judged`: whether
    silence counts as a failure for the circuit breaker. `ask_again` is called with an Archive if the answer
    to the query that was joined may not be shared; without it, only queries of the same reader are joined.
    `headers`: by which the queries belong to the trace of the reader who caused them; where spans are made, they are
    parts of `span`, that of their round, instead.

    `in_flight`: how many of its queries are in flight. `is_under_way`: whether others may join them
    (`Collapsing`). `waits`: the seconds of each answer, for the metrics when none is in flight any more.
    """

    question: str
    text: str
    target: TargetPart
    deadline: Deadline
    latest: float
    deliver: Callable[[ArchiveResponse], None]
    members: Callable[[], Members]
    snapshot: Snapshot
    use_cache: bool = False
    share: bool = False
    paced: bool = False
    judged: bool = True
    ask_again: Callable[[Archive], None] | None = None
    headers: tuple[tuple[str, str], ...] = ()
    span: Span | None = None
    in_flight: int = 0
    is_under_way: bool = False
    waits: list[float] = []


class Query(Struct, eq=False):
    """One query to one Archive, at `path`.

    The other fields are for `Collapsing`. `others`: the Archives and batches that joined this query, and wait
    for its response. `shareable_at`: when an answer came that any reader may get (time of the loop), None
    until then. `is_cached`: that answer is in the answer cache by now; "nothing known" is not put there.
    `span`: its own, if spans are made and it was sent.
    """

    archive: Archive
    path: TargetPart
    batch: QueryBatch
    others: list[tuple[Archive, QueryBatch]] | None = None
    shareable_at: float | None = None
    is_cached: bool = False
    span: Span | None = None
