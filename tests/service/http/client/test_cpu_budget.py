"""Large answers come in their turn: nothing else in the process waits until all of them are taken apart."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ibi.errors import PeerError, ResponseNotRead
from ibi.http.client.connection import Connection
from ibi.http.client.cpu_budget import A_TURN, LARGE, MOST_WAITING, CpuBudget
from ibi.http.client.request import BOTH, Deadline, OutgoingRequest
from ibi.http.client.response import Reply, SharedState
from support.http_answers import answer

BODY = 200_000
ANSWER = answer(b"x" * BODY)
MANY = 40


class RecordingTransport(asyncio.Transport):
    """The near end of a connection; it knows whether anything is read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = self.paused = False

    def write(self, _data: object) -> None:
        """It is sent."""

    def pause_reading(self) -> None:
        """Nothing more is wanted for now."""
        self.paused = True

    def resume_reading(self) -> None:
        """More is wanted."""
        self.paused = False

    def abort(self) -> None:
        """The connection ends."""
        self.ended = True

    def is_closing(self) -> bool:
        """Whether it has ended."""
        return self.ended


class Clock:
    """Each look at it takes a third of a turn."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time."""
        self.now += A_TURN / 3
        return self.now


def slow() -> SharedState:
    """Connections that have time for three pieces in a turn."""
    shared = SharedState()
    shared.cpu_budget = CpuBudget(Clock())
    return shared


class Query:
    """A query that waits at one connection."""

    def __init__(self, shared: SharedState) -> None:
        self.line = RecordingTransport()
        self.connection = Connection("192.0.2.7", (16_384, 262_144), lambda _: None, shared)
        self.connection.connection_made(self.line)
        self.outcome: Reply | PeerError | None = None

    def ask(self) -> None:
        """Ask, and wait."""
        self.outcome = None
        self.connection.send(b"GET / HTTP/1.1\r\n\r\n", self)

    def end(self, outcome: Reply | PeerError) -> None:
        """It has ended."""
        self.outcome = outcome

    def replace_connection(self) -> None:
        """Not here."""
        raise AssertionError

    @property
    def served(self) -> bool:
        """Whether the whole answer has come."""
        return isinstance(self.outcome, Reply) and len(self.outcome.body) == BODY


def test_large_answers_that_come_at_once_are_taken_apart_a_few_in_each_turn_of_the_loop() -> None:
    async def main() -> None:
        shared = slow()
        queries = [Query(shared) for _ in range(MANY)]
        for _ in range(2):  # the second time over the same connections
            for query in queries:
                query.ask()
                query.connection.data_received(ANSWER)
            turns, served = 0, sum(query.served for query in queries)
            assert 1 <= served <= 4
            while served < MANY:
                assert shared.cpu_budget.waiting == (MANY - served) * len(ANSWER)
                assert [query.line.paused for query in queries] == [not query.served for query in queries]
                await asyncio.sleep(0)
                turns, before = turns + 1, served
                served = sum(query.served for query in queries)
                assert 0 <= served - before <= 4
            assert MANY / 4 <= turns + 1 <= MANY
            assert (shared.unfinished, shared.cpu_budget.waiting) == (0, 0)
            assert not any(query.line.paused or query.line.ended for query in queries)
            await asyncio.sleep(0)

    asyncio.run(main())


def test_a_large_answer_in_small_pieces_comes_in_its_turn_too() -> None:
    async def main() -> None:
        shared = slow()
        queries = [Query(shared) for _ in range(MANY)]
        for query in queries:
            query.ask()
            query.connection.data_received(ANSWER[:LARGE])
        come = dict.fromkeys(queries, LARGE)
        paused = 0
        while not all(query.served for query in queries):
            for query in queries:
                at = come[query]
                if at < len(ANSWER) and not query.line.paused:
                    query.connection.data_received(ANSWER[at : at + LARGE])
                    come[query] += LARGE
                    paused += query.line.paused
            await asyncio.sleep(0)
        assert paused > MANY
        assert (shared.unfinished, shared.cpu_budget.waiting) == (0, 0)

    asyncio.run(main())


def test_a_small_answer_waits_for_no_large_one() -> None:
    async def main() -> None:
        shared = slow()
        large = [Query(shared) for _ in range(MANY)]
        small = Query(shared)
        for query in (*large, small):
            query.ask()
        for query in large:
            query.connection.data_received(ANSWER)
        small.connection.data_received(answer(b"state Original"))
        assert isinstance(small.outcome, Reply)
        assert small.outcome.body == b"state Original"

    asyncio.run(main())


def test_an_answer_whose_query_has_gone_is_dropped() -> None:
    async def main() -> None:
        shared = slow()
        queries = [Query(shared) for _ in range(MANY)]
        for query in queries:
            query.ask()
            query.connection.data_received(ANSWER)
        gone = [query for query in queries if not query.served]
        for query in gone[::2]:
            query.connection.abort()
        for query in gone[1::2]:
            query.connection.connection_lost(ConnectionResetError())
        for _ in range(MANY):
            await asyncio.sleep(0)
        assert not any(query.served for query in gone)
        assert (shared.unfinished, shared.cpu_budget.waiting) == (0, 0)

    asyncio.run(main())


def test_an_answer_that_waits_here_when_its_time_is_up_counts_against_no_archive() -> None:
    class Finishing:
        def finish(self, _outgoing: object, _connection: object) -> None:
            """Its slots are free."""

    async def main() -> None:
        shared = slow()
        for _ in range(MANY):
            other = Query(shared)
            other.ask()
            other.connection.data_received(ANSWER)
        line, outcomes = RecordingTransport(), list[Reply | PeerError]()
        connection = Connection("192.0.2.7", (16_384, 262_144), lambda _: None, shared)
        connection.connection_made(line)
        outgoing = OutgoingRequest(
            cast("Any", Finishing()), cast("Any", None), b"", Deadline(3.0), outcomes.append
        )
        outgoing.deadline.add(outgoing)
        outgoing.slots, outgoing.connection = BOTH, connection
        connection.send(b"GET / HTTP/1.1\r\n\r\n", outgoing)
        connection.data_received(ANSWER)
        assert line.paused
        outgoing.expire()
        assert [type(outcome) for outcome in outcomes] == [ResponseNotRead]
        assert line.ended

    asyncio.run(main())


def test_more_unfinished_answers_than_agreed_count_against_no_archive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ibi.http.client.response.MOST_HELD", 50_000)

    async def main() -> None:
        shared = SharedState()
        first, second = Query(shared), Query(shared)
        for query in (first, second):
            query.ask()
            query.connection.data_received(ANSWER[:40_000])
        assert isinstance(second.outcome, ResponseNotRead)
        assert second.line.ended
        assert first.outcome is None

    asyncio.run(main())


def test_where_too_much_waits_large_answers_are_refused_in_their_turn_and_no_peer_is_blamed() -> None:
    async def main() -> None:
        shared = slow()
        queries = [Query(shared) for _ in range(2 * MOST_WAITING // len(ANSWER))]
        for query in queries:
            query.ask()
            query.connection.data_received(ANSWER)
        assert MOST_WAITING - len(ANSWER) < shared.cpu_budget.waiting <= MOST_WAITING
        before = -1
        while before < (now := sum(query.outcome is not None for query in queries)):
            assert before == -1 or now - before <= 4
            before = now
            await asyncio.sleep(0)
        assert before == len(queries)
        refused = [query for query in queries if not query.served]
        assert all(isinstance(query.outcome, ResponseNotRead) and query.line.ended for query in refused)
        assert len(queries) // 3 < len(refused) < 2 * len(queries) // 3
        assert (shared.unfinished, shared.cpu_budget.waiting) == (0, 0)

    asyncio.run(main())


def test_what_had_come_of_an_answer_that_is_refused_in_its_turn_is_no_longer_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ibi.http.client.cpu_budget.MOST_WAITING", 0)

    async def main() -> None:
        shared = slow()
        queries = [Query(shared) for _ in range(3)]
        for query in queries:
            query.ask()
            query.connection.data_received(ANSWER[:5_000])
        held = shared.unfinished
        assert held > 0
        queries[0].connection.data_received(ANSWER[5_000:])  # for which there is no time in this turn
        for _ in range(2):
            await asyncio.sleep(0)
        assert isinstance(queries[0].outcome, ResponseNotRead)
        assert shared.unfinished * 3 == held * 2

    asyncio.run(main())


def test_started_and_new_answers_take_turns_each_in_order_of_arrival() -> None:
    async def main() -> None:
        shared = slow()
        begun, new = ([Query(shared) for _ in range(MANY)] for _ in range(2))
        for query in (*begun, *new):
            query.ask()
        for query in begun:
            query.connection.data_received(ANSWER[:LARGE])
        for query in new:
            query.connection.data_received(ANSWER)
        for query in begun:
            query.connection.data_received(ANSWER[LARGE:])
        while not all(query.served for query in (*begun, *new)):
            await asyncio.sleep(0)
            for queries in (begun, new):
                order = [query.served for query in queries]
                assert order == sorted(order, reverse=True)
            assert abs(sum(query.served for query in begun) - sum(query.served for query in new)) <= 6

    asyncio.run(main())


def test_a_started_answer_ends_before_most_others_start() -> None:
    async def main() -> None:
        shared = slow()
        first, *others = [Query(shared) for _ in range(MANY)]
        for query in (first, *others):
            query.ask()
        first.connection.data_received(ANSWER[:LARGE])
        for query in others:
            query.connection.data_received(ANSWER)
        first.connection.data_received(ANSWER[LARGE:])
        assert first.line.paused
        await asyncio.sleep(0)
        assert first.served
        assert not all(query.served for query in others)

    asyncio.run(main())
