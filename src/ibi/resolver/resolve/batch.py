"""Queries: one to each Archive, and many to which the same is asked at the same moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.http.client import Deadline, TargetPart
    from ibi.resolver.cache.rows import Snapshot
    from ibi.resolver.model.archive import Archive, ArchiveResponse, Members


class QueryBatch(Struct, eq=False):
    """One query to several Archives at the same moment.

    `question` as in `rows.question`; `text`: the query string, which differs by reader, and `target`: the same as it
    is sent. `latest`: until when a query may be sent, as a time of the loop. `deliver` is called once for each Archive,
    with its response. `members` returns who is included at the moment. `snapshot`: of the answer cache, taken before
    any was asked: what was forgotten since is not cached.

    `use_cache`: whether a cached answer will do; `share`: whether an answer to the same question in flight will do;
    `paced`: whether the Archives are many and asked a few at a time; `judged`: whether silence counts as a failure for
    the circuit breaker. `ask_again` is called with an Archive whose response was waited for and may not be shared;
    without it, only what is for the same reader is joined.

    `in_flight`: how many of its queries are, and `is_under_way`: whether others may join them (`Collapsing`). `waits`:
    the seconds that the Archives took that have answered; counted when none is in flight any more.
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
    in_flight: int = 0
    is_under_way: bool = False
    waits: list[float] = []


class Query(Struct, eq=False):
    """One query to one Archive, at `path`.

    The rest is for `Collapsing`. `others`: who else waits for its response. `for_all_at`: when an answer came that may
    be given to every reader (time of the loop); `holds`: whether it says something, and so lies in the answer cache
    ("nothing known" is kept here only).
    """

    archive: Archive
    path: TargetPart
    batch: QueryBatch
    others: list[tuple[Archive, QueryBatch]] | None = None
    for_all_at: float | None = None
    holds: bool = False
