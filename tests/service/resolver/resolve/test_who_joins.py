"""Which queries in flight a batch may join, and what those who have joined get: each rule alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ibi.errors import PeerBusy, PeerGarbled, PeerSilent
from ibi.http.client import Deadline, target_part
from ibi.protocol.url_list import UrlList
from ibi.resolver.model.archive import NOT_KNOWN, Archive, ArchiveResponse, Members, ResponseSource
from ibi.resolver.resolve.batch import QueriedArchive, Query, QueryBatch
from ibi.resolver.resolve.collapsing import LONGEST_HEARD, NOT_SHARED, Collapsing
from ibi.resolver.resolve.policy import MOST_LIKELY
from support.clock import run_with_false_clock
from support.resolver.resolution import LATE, A, archive_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.errors import IbiError
    from ibi.resolver.cache.answers import AnswerCache
    from ibi.resolver.cache.rows import Snapshot

MANY = [archive_of(f"many.example/m{number}/2020/01.01.00.00") for number in range(2 * MOST_LIKELY + 2)]
KNOWN = UrlList({"state": "Original", "url": "http://a.example/x"})
Given = tuple[UrlList | None, "IbiError | None", ResponseSource]


@dataclass
class Reader:
    """A batch of one reader, and what it was given; `again`: the Archives that it is to ask itself."""

    cache: AnswerCache
    text: str = "reader 1"
    seconds: float = 3.0
    snapshot: Snapshot | None = None
    share: bool = True
    alone: bool = False
    question: str = "q"
    given: list[ArchiveResponse] = field(default_factory=list)
    again: list[Archive] = field(default_factory=list)

    def __post_init__(self) -> None:
        deadline = Deadline(self.seconds)
        self.batch = QueryBatch(
            question=self.question,
            text=self.text,
            target=target_part("?t"),
            deadline=deadline,
            latest=deadline.end,
            deliver=self.given.append,
            ask_again=self.again.append,
            members=lambda: Members.of((A,), probation=False),
            snapshot=self.snapshot or self.cache.snapshot(),
            share=self.share,
            alone=self.alone,
        )

    def queries(self, *archives: Archive) -> list[Query]:
        made = [Query(each, QueriedArchive(each, target_part("/a")), self.batch) for each in archives]
        self.batch.in_flight += len(made)
        return made

    def was_given(self) -> list[Given]:
        return [(each.answer, each.error, each.source) for each in self.given]


def answer(
    collapsing: Collapsing, query: Query, answer: UrlList | None, error: IbiError | None = None
) -> None:
    """The answer to a query comes, as `Queries` would pass it on."""
    query.batch.in_flight -= 1
    now = query.batch.deadline.now()
    if answer is not None and not answer.pairs:
        query.shareable_at = now
    collapsing.heard(query, ArchiveResponse(query.archive, answer, error, now))


def test_a_batch_joins_what_comes_in_time_is_not_outdated_and_is_for_its_reader(memory: AnswerCache) -> None:
    async def main() -> None:
        earlier, loop = Reader(memory), asyncio.get_running_loop()
        (query,) = earlier.queries(A)
        collapsing, began = Collapsing(memory), loop.time()
        collapsing.enter(earlier.batch, [query])
        memory.forget(MANY[0].service, None)  # that of another Archive makes nothing outdated
        found = {
            "the same": collapsing.join(A, Reader(memory).batch, query),
            "another reader": collapsing.join(A, Reader(memory, "reader 2").batch, query),
            "for this reader alone": collapsing.join(A, Reader(memory, alone=True).batch, query),
            "another, alone": collapsing.join(A, Reader(memory, "reader 2", alone=True).batch, query),
            "moved": collapsing.join(replace(A, address="b.example"), Reader(memory).batch, query),
            "ends a moment before": collapsing.join(A, Reader(memory, seconds=2.9).batch, query),
            "ends before": collapsing.join(A, Reader(memory, seconds=2.89).batch, query),
        }
        for after in (1.5, 1.6):
            await asyncio.sleep(began + after - loop.time())
            found[f"{after} s later"] = collapsing.join(A, Reader(memory).batch, query)
            found[f"{after} s later, for less"] = collapsing.join(
                A, Reader(memory, seconds=1.45).batch, query
            )
        memory.forget(A.service, "x")
        found["outdated"] = collapsing.join(A, Reader(memory).batch, query)
        assert found == {
            "the same": True,
            "another reader": True,
            "for this reader alone": True,
            "another, alone": False,
            "moved": False,
            "ends a moment before": True,
            "ends before": False,
            "1.5 s later": True,
            "1.5 s later, for less": True,
            "1.6 s later": False,
            "1.6 s later, for less": True,
            "outdated": False,
        }
        assert query.others is not None
        assert len(query.others) == sum(found.values())

    run_with_false_clock(main())


def test_that_nothing_is_known_is_given_at_once_for_a_moment_and_a_cached_answer_never(
    memory: AnswerCache,
) -> None:
    async def main() -> None:
        earlier = Reader(memory)
        none, cached, _ = queries = earlier.queries(A, MANY[0], MANY[1])
        collapsing = Collapsing(memory)
        collapsing.enter(earlier.batch, queries)
        answer(collapsing, none, NOT_KNOWN)
        cached.shareable_at, cached.is_cached = earlier.batch.deadline.now(), True
        later = Reader(memory, "reader 2")
        assert [collapsing.join(each.archive, later.batch, each) for each in (none, cached)] == [True, False]
        assert (later.was_given(), later.given[0].at) == (
            [(NOT_KNOWN, None, "cache")],
            later.batch.deadline.begun,
        )
        for after, joins in ((LONGEST_HEARD, True), (0.1, False)):
            await asyncio.sleep(after)
            late = Reader(memory, "reader 3")
            assert collapsing.join(A, late.batch, none) == joins
            assert len(late.given) == joins

    run_with_false_clock(main())


def test_readers_who_have_joined_get_what_is_for_all_and_else_ask_for_themselves(memory: AnswerCache) -> None:
    """What came, whether it may be cached, and what another reader gets of it; the same one always gets it."""
    busy, garbled = (
        PeerBusy("it asks for a pause of {seconds} s", 3),
        PeerGarbled("the answer is not text/plain"),
    )
    cases: list[tuple[UrlList | None, IbiError | None, bool, Given | None]] = [
        (NOT_KNOWN, None, False, (NOT_KNOWN, None, "network")),
        (KNOWN, None, True, (KNOWN, None, "shared")),
        (KNOWN, None, False, None),
        (None, LATE, False, (None, LATE, "network")),
        (None, garbled, False, None),
        (None, busy, False, None),
    ]

    async def main() -> None:
        for came, error, cached, given in cases:
            first, second, same = Reader(memory), Reader(memory, "reader 2"), Reader(memory)
            collapsing, (query,) = Collapsing(memory), first.queries(A)
            collapsing.enter(first.batch, [query])
            assert [collapsing.join(A, each.batch, query) for each in (second, same)] == [True, True]
            if cached:
                query.shareable_at, query.is_cached = first.batch.deadline.now(), True
            answer(collapsing, query, came, error)
            own: Given = (came, error, "shared" if cached else "network")
            assert (first.given, same.was_given(), same.again) == ([], [own], [])
            assert (second.was_given(), second.again) == (([given], []) if given else ([], [A]))
            assert (query.others, collapsing.under_way) == (None, {})

    run_with_false_clock(main())


def test_an_archive_that_answers_each_reader_is_joined_by_the_same_reader_alone(memory: AnswerCache) -> None:
    async def main() -> None:
        collapsing, first = Collapsing(memory), Reader(memory)

        def joins(question: str = "other") -> list[bool]:
            third = Reader(memory, "reader 3", question=question)
            (query,) = third.queries(A)
            others = [Reader(memory, f"reader {each}", question=question) for each in (3, 4)]
            return [collapsing.join(A, each.batch, query) for each in others]

        async def hear(*, cached: bool) -> None:
            (query,) = first.queries(A)
            collapsing.enter(first.batch, [query])
            collapsing.join(A, Reader(memory, "reader 2").batch, query)
            query.is_cached, query.shareable_at = cached, first.batch.deadline.now() if cached else None
            answer(collapsing, query, KNOWN)

        await hear(cached=False)
        assert joins() == [True, False]
        collapsing.forget({A.service: A})
        assert joins() == [True, False]
        collapsing.forget({})
        assert joins() == [True, True]
        await hear(cached=True)
        await hear(cached=False)  # one that can be reused is enough for other questions
        assert (joins(), joins("q")) == ([True, True], [True, False])
        await asyncio.sleep(NOT_SHARED - 0.1)
        assert joins("q") == [True, False]
        await asyncio.sleep(0.1)
        assert joins("q") == [True, True]

    run_with_false_clock(main())


def test_a_question_is_under_way_until_the_last_query_of_its_last_reader_and_own_queries_come_first(
    memory: AnswerCache,
) -> None:
    async def main() -> None:
        collapsing, first, second = Collapsing(memory), Reader(memory), Reader(memory, "reader 2")
        further, private = Reader(memory), Reader(memory, share=False)
        one, two = first.queries(A, MANY[0])
        collapsing.enter(first.batch, [one, two])
        assert collapsing.joinable(Reader(memory, "x").batch) == {A.service: one, MANY[0].service: two}
        (three,) = second.queries(A)
        collapsing.enter(second.batch, [three])
        (four,) = further.queries(MANY[1])
        collapsing.enter(further.batch, [four])
        rest = {MANY[0].service: two, MANY[1].service: four}
        assert collapsing.joinable(first.batch) == {A.service: one, **rest}
        for other in (second, Reader(memory, "reader 3")):
            assert collapsing.joinable(other.batch) == {A.service: three, **rest}
        answer(collapsing, private.queries(A)[0], KNOWN)  # shares nothing, and ends nothing
        answer(collapsing, two, None, PeerSilent("no answer"))
        answer(collapsing, one, NOT_KNOWN)
        assert collapsing.joinable(first.batch) == {A.service: one, MANY[1].service: four}
        answer(collapsing, four, KNOWN)
        assert collapsing.joinable(first.batch) == {A.service: three}
        answer(collapsing, three, NOT_KNOWN)
        assert collapsing.under_way == {}

    run_with_false_clock(main())


def test_a_round_needs_no_turn_if_it_joins_most_of_its_queries_and_sends_a_few_at_most(
    memory: AnswerCache,
) -> None:
    async def main() -> None:
        def covers(archives: Sequence[Archive], joined: int, *, cached: bool = False) -> bool:
            collapsing, first = Collapsing(memory), Reader(memory)
            queries = first.queries(*archives[:joined])
            for each in queries:
                each.is_cached = cached
            collapsing.enter(first.batch, queries)
            return collapsing.covers(archives, Reader(memory, "reader 2", alone=cached).batch)

        assert not Collapsing(memory).covers(MANY, Reader(memory).batch)
        found = [covers(MANY, len(MANY) - left) for left in (0, MOST_LIKELY, MOST_LIKELY + 1)]
        assert found == [True, True, False]
        few = MANY[:4]
        assert [covers(few, joined) for joined in (1, 2, 3)] == [False, False, True]
        assert [covers(few, joined, cached=True) for joined in (2, 3)] == [False, True]

    run_with_false_clock(main())
