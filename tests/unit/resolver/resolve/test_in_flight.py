"""How many queries are in flight, and how many of them count for the fair queue: against a count from the beginning."""

from __future__ import annotations

import asyncio
import random
from typing import NamedTuple

import pytest

from ibi.http.client import Deadline, target_part
from ibi.http.limits.fair_queue import HANGS_AFTER, ROUNDS_AT_ONCE
from ibi.resolver.cache.rows import Snapshot
from ibi.resolver.model.archive import Members
from ibi.resolver.resolve.batch import QueriedArchive, Query, QueryBatch
from ibi.resolver.resolve.queries import InFlight
from support.resolver.resolution import A, B, C

MEMBERS = Members.of((A, B, C), probation=False)


def batch(*, paced: bool, alone: bool) -> QueryBatch:
    deadline = Deadline(3.0)
    return QueryBatch(
        question="q",
        text="t",
        target=target_part("?t"),
        deadline=deadline,
        latest=deadline.end,
        deliver=lambda _: None,
        ask_again=lambda _: None,
        members=lambda: MEMBERS,
        snapshot=Snapshot(-1, -1),
        paced=paced,
        alone=alone,
    )


class Counts(NamedTuple):
    total: int
    unpaced: int
    of_rounds: int
    of_archives: tuple[int, ...]
    of_batches: tuple[int, ...]


def counted(queries: list[Query], archives: list[QueriedArchive], batches: list[QueryBatch]) -> Counts:
    """All that is counted, of these queries that are in flight."""
    alone = sum(each.batch.paced and each.batch.alone for each in queries)
    paced = [each for each in queries if each.batch.paced and not each.batch.alone]
    of_archives = tuple(sum(each.to is archive for each in paced) for archive in archives)
    of_rounds = alone + sum(
        min(number, ROUNDS_AT_ONCE) if archive.unanswered >= HANGS_AFTER else number
        for archive, number in zip(archives, of_archives, strict=True)
    )
    return Counts(
        len(queries),
        sum(not each.batch.paced for each in queries),
        of_rounds,
        of_archives,
        tuple(sum(each.batch is one for each in queries) for one in batches),
    )


async def play(seed: int) -> None:
    chance, in_flight = random.Random(seed), InFlight()
    archives = [QueriedArchive(each, target_part(f"/{each.name}")) for each in (A, B, C)]
    queries, batches, hung = list[Query](), list[QueryBatch](), 0
    for _ in range(300):
        if chance.random() < 0.5:
            made = batch(paced=chance.random() < 0.8, alone=chance.random() < 0.3)
            sent = [Query(to.archive, to, made) for to in chance.sample(archives, chance.randint(1, 3))]
            in_flight.begin(made, sent)
            queries += sent
            batches.append(made)
            for query in sent:  # as `Queries` sends them
                query.to.unanswered += 1
                if query.to.unanswered == HANGS_AFTER:
                    in_flight.begins_to_hang(query.to)
        elif queries:
            query = queries.pop(chance.randrange(len(queries)))
            # The first Archive hangs nearly always, the last one answers nearly always.
            in_flight.end(query, answered=chance.random() < {A: 0.05, B: 0.3, C: 0.9}[query.archive])
        hung += sum(archive.unanswered >= HANGS_AFTER < archive.in_flight for archive in archives)
        found = Counts(
            in_flight.total,
            in_flight.unpaced,
            in_flight.of_rounds,
            tuple(archive.in_flight for archive in archives),
            tuple(each.in_flight for each in batches),
        )
        assert found == counted(queries, archives, batches)
        batches = [each for each in batches if each.in_flight]
    assert hung


@pytest.mark.parametrize("seed", range(2))
def test_all_that_is_counted_is_what_is_in_flight_and_of_one_that_hangs_no_more_than_rounds_at_once(
    seed: int,
) -> None:
    asyncio.run(play(seed))
