"""Large answers come in their turn: nobody else of the process waits until all of them are taken apart."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ibi.errors import NotRead, PeerError
from ibi.transport.connection import Common, Connection
from ibi.transport.errand import INSIDE, Deadline, Errand
from ibi.transport.exchange import Reply
from ibi.transport.ration import A_TURN, LARGE, MOST_WAITING, Ration
from support.wire import answer

BODY = 200_000
ANSWER = answer(b"x" * BODY)
MANY = 40


class Line(asyncio.Transport):
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


def slow() -> Common:
    """Connections that have time for three pieces in a turn."""
    common = Common()
    common.ration = Ration(Clock())
    return common


class Asker:
    """Somebody who waits at one connection."""

    def __init__(self, common: Common) -> None:
        self.line = Line()
        self.connection = Connection("192.0.2.7", (16_384, 262_144), lambda _: None, common)
        self.connection.connection_made(self.line)
        self.outcome: Reply | PeerError | None = None

    def ask(self) -> None:
        """Ask, and wait."""
        self.outcome = None
        self.connection.ask(b"GET / HTTP/1.1\r\n\r\n", self)

    def end(self, outcome: Reply | PeerError) -> None:
        """It is over."""
        self.outcome = outcome

    def stale(self) -> None:
        """Not here."""
        raise AssertionError

    @property
    def served(self) -> bool:
        """Whether the whole answer has come."""
        return isinstance(self.outcome, Reply) and len(self.outcome.body) == BODY


def test_large_answers_that_come_at_once_are_taken_apart_a_few_in_each_turn_of_the_loop() -> None:
    async def main() -> None:
        common = slow()
        askers = [Asker(common) for _ in range(MANY)]
        for _ in range(2):  # the second time over the same connections
            for asker in askers:
                asker.ask()
                asker.connection.data_received(ANSWER)
            turns, served = 0, sum(asker.served for asker in askers)
            assert 1 <= served <= 4
            while served < MANY:
                assert common.ration.waiting == (MANY - served) * len(ANSWER)
                assert [asker.line.paused for asker in askers] == [not asker.served for asker in askers]
                await asyncio.sleep(0)
                turns, before = turns + 1, served
                served = sum(asker.served for asker in askers)
                assert 0 <= served - before <= 4
            assert MANY / 4 <= turns + 1 <= MANY
            assert (common.held.bytes, common.ration.waiting) == (0, 0)
            assert not any(asker.line.paused or asker.line.ended for asker in askers)
            await asyncio.sleep(0)

    asyncio.run(main())


def test_a_large_answer_in_small_pieces_comes_in_its_turn_too() -> None:
    async def main() -> None:
        common = slow()
        askers = [Asker(common) for _ in range(MANY)]
        for asker in askers:
            asker.ask()
            asker.connection.data_received(ANSWER[:LARGE])
        come = dict.fromkeys(askers, LARGE)
        paused = 0
        while not all(asker.served for asker in askers):
            for asker in askers:
                at = come[asker]
                if at < len(ANSWER) and not asker.line.paused:
                    asker.connection.data_received(ANSWER[at : at + LARGE])
                    come[asker] += LARGE
                    paused += asker.line.paused
            await asyncio.sleep(0)
        assert paused > MANY
        assert (common.held.bytes, common.ration.waiting) == (0, 0)

    asyncio.run(main())


def test_a_small_answer_waits_for_no_large_one() -> None:
    async def main() -> None:
        common = slow()
        large = [Asker(common) for _ in range(MANY)]
        small = Asker(common)
        for asker in (*large, small):
            asker.ask()
        for asker in large:
            asker.connection.data_received(ANSWER)
        small.connection.data_received(answer(b"state Original"))
        assert isinstance(small.outcome, Reply)
        assert small.outcome.body == b"state Original"

    asyncio.run(main())


def test_what_waits_for_nobody_any_longer_is_let_go() -> None:
    async def main() -> None:
        common = slow()
        askers = [Asker(common) for _ in range(MANY)]
        for asker in askers:
            asker.ask()
            asker.connection.data_received(ANSWER)
        gone = [asker for asker in askers if not asker.served]
        for asker in gone[::2]:
            asker.connection.abort()
        for asker in gone[1::2]:
            asker.connection.connection_lost(ConnectionResetError())
        for _ in range(MANY):
            await asyncio.sleep(0)
        assert not any(asker.served for asker in gone)
        assert (common.held.bytes, common.ration.waiting) == (0, 0)

    asyncio.run(main())


def test_whoever_is_out_of_time_while_his_answer_waits_here_blames_nobody() -> None:
    class Door:
        def renew(self, _errand: object) -> None:
            raise AssertionError

        def leave(self, _errand: object, _connection: object) -> None:
            """Its places are free."""

    async def main() -> None:
        common = slow()
        for _ in range(MANY):
            other = Asker(common)
            other.ask()
            other.connection.data_received(ANSWER)
        line, outcomes = Line(), list[Reply | PeerError]()
        connection = Connection("192.0.2.7", (16_384, 262_144), lambda _: None, common)
        connection.connection_made(line)
        errand = Errand(Door(), cast("Any", None), b"", Deadline(3.0), outcomes.append)
        errand.places, errand.connection = INSIDE, connection
        connection.ask(b"GET / HTTP/1.1\r\n\r\n", errand)
        connection.data_received(ANSWER)
        assert line.paused
        errand.late()
        assert [type(outcome) for outcome in outcomes] == [NotRead]
        assert line.ended

    asyncio.run(main())


def test_more_unfinished_answers_than_agreed_are_nobodys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibi.transport.exchange.MOST_HELD", 50_000)

    async def main() -> None:
        common = Common()
        first, second = Asker(common), Asker(common)
        for asker in (first, second):
            asker.ask()
            asker.connection.data_received(ANSWER[:40_000])
        assert isinstance(second.outcome, NotRead)
        assert second.line.ended
        assert first.outcome is None

    asyncio.run(main())


def test_where_too_much_waits_large_answers_are_refused_in_their_turn_and_nobody_is_to_blame() -> None:
    async def main() -> None:
        common = slow()
        askers = [Asker(common) for _ in range(2 * MOST_WAITING // len(ANSWER))]
        for asker in askers:
            asker.ask()
            asker.connection.data_received(ANSWER)
        assert MOST_WAITING - len(ANSWER) < common.ration.waiting <= MOST_WAITING
        before = -1
        while before < (now := sum(asker.outcome is not None for asker in askers)):
            assert before == -1 or now - before <= 4
            before = now
            await asyncio.sleep(0)
        assert before == len(askers)
        refused = [asker for asker in askers if not asker.served]
        assert all(isinstance(asker.outcome, NotRead) and asker.line.ended for asker in refused)
        assert len(askers) // 3 < len(refused) < 2 * len(askers) // 3
        assert (common.held.bytes, common.ration.waiting) == (0, 0)

    asyncio.run(main())


def test_what_is_begun_and_what_is_new_take_turns_each_in_the_order_in_which_it_came() -> None:
    async def main() -> None:
        common = slow()
        begun, new = ([Asker(common) for _ in range(MANY)] for _ in range(2))
        for asker in (*begun, *new):
            asker.ask()
        for asker in begun:
            asker.connection.data_received(ANSWER[:LARGE])
        for asker in new:
            asker.connection.data_received(ANSWER)
        for asker in begun:
            asker.connection.data_received(ANSWER[LARGE:])
        while not all(asker.served for asker in (*begun, *new)):
            await asyncio.sleep(0)
            for askers in (begun, new):
                order = [asker.served for asker in askers]
                assert order == sorted(order, reverse=True)
            assert abs(sum(asker.served for asker in begun) - sum(asker.served for asker in new)) <= 6

    asyncio.run(main())


def test_what_is_begun_is_ended_before_most_others_are_begun() -> None:
    async def main() -> None:
        common = slow()
        first, *others = [Asker(common) for _ in range(MANY)]
        for asker in (first, *others):
            asker.ask()
        first.connection.data_received(ANSWER[:LARGE])
        for asker in others:
            asker.connection.data_received(ANSWER)
        first.connection.data_received(ANSWER[LARGE:])
        assert first.line.paused
        await asyncio.sleep(0)
        assert first.served
        assert not all(asker.served for asker in others)

    asyncio.run(main())
