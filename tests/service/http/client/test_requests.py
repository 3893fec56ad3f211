"""Queries without waiting: which outcome comes when, and in which order. Time is false, sockets are not."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from ibi.errors import ForbiddenAddress, PeerError, PeerSilent, QueryNotSent
from ibi.http.client import Client, ClientLimits, Deadline, Reply, target_part
from ibi.http.client.request import Destination, Slots, written
from support.clock import run_with_false_clock
from support.http_answers import answer
from support.peers import BODY, PUBLIC, TARGET, peer
from support.scripted_archive import Behaviour, ScriptedArchive, ScriptedArchives, ScriptedServer
from support.stream_server import listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ibi.http.client import OutgoingRequest

CHUNKED = b"HTTP/1.1 200 OK\r\nX-First: yes\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"


class Waiter:
    """Collects the outcomes of queries, and when they came."""

    def __init__(self) -> None:
        self.outcomes: list[Reply | PeerError] = []
        self.moments: list[float] = []

    def __call__(self, outcome: Reply | PeerError) -> None:
        self.outcomes.append(outcome)
        self.moments.append(asyncio.get_running_loop().time())

    @property
    def kinds(self) -> Counter[str]:
        return Counter(type(outcome).__name__ for outcome in self.outcomes)


@asynccontextmanager
async def asking(*archives: ScriptedArchive, limits: ClientLimits | None = None) -> AsyncIterator[Client]:
    async with ScriptedArchives(archives) as around:
        client = Client(PUBLIC, around.names, limits)
        try:
            yield client
        finally:
            await client.close()


@asynccontextmanager
async def saying(*pieces: bytes) -> AsyncIterator[str]:
    """A machine that answers every request with these bytes; its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                for piece in pieces:
                    writer.write(piece)
                    await asyncio.sleep(0)
        writer.close()

    async with listening(serve, "127.77.0.9") as port:
        yield f"127.77.0.9:{port}"


def test_each_query_gets_its_outcome_once_and_not_before_it_is_made() -> None:
    async def main() -> None:
        async with asking(peer()) as client:
            for _ in range(3):  # a new connection, then one at rest
                waiter = Waiter()
                client.ask("a.example", TARGET, Deadline(3.0), waiter)
                assert waiter.outcomes == []
                await asyncio.sleep(1.0)
                assert [reply.body for reply in waiter.outcomes if isinstance(reply, Reply)] == [BODY]

    run_with_false_clock(main())


def test_all_who_are_asked_under_one_deadline_end_with_it_and_who_was_never_sent_is_told_so() -> None:
    async def main() -> None:
        archive = peer(Behaviour(lie="silence"))
        async with asking(archive, limits=ClientLimits(per_peer=2)) as client:
            waiter, deadline = Waiter(), Deadline(3.0)
            begun = deadline.now()
            for _ in range(5):
                client.ask("a.example", TARGET, deadline, waiter)
            assert deadline.lasts(3.0)
            await asyncio.sleep(3.1)
            assert waiter.kinds == {"QueryNotSent": 3, "PeerSilent": 2}
            assert max(waiter.moments) - begun == pytest.approx(3.0, abs=0.01)
            assert not deadline.lasts(0.0)
        assert archive.closed_early == 2

    run_with_false_clock(main())


def test_no_other_query_waits_for_a_silent_peer_with_many_queries() -> None:
    async def main() -> None:
        hung = peer(Behaviour(lie="silence"))
        slow = ScriptedArchive(
            "b", "b.example", "example/b/2020/01.01.00.00", ip="127.77.0.2", manner=Behaviour(BODY, after=0.4)
        )
        async with asking(hung, slow, limits=ClientLimits(per_peer=2)) as client:
            waiter, answered, deadline = Waiter(), Waiter(), Deadline(3.0)
            for _ in range(3):
                client.ask("a.example", TARGET, deadline, waiter)
            for _ in range(6):
                client.ask("b.example", TARGET, deadline, answered)
            await asyncio.sleep(0.6)
            with pytest.raises(QueryNotSent):
                client.ask("a.example", TARGET, deadline, waiter)
            client.ask("b.example", TARGET, deadline, answered)  # it is asked by as many, and answers
            await asyncio.sleep(2.5)
            assert waiter.kinds == {"QueryNotSent": 1, "PeerSilent": 2}
            assert answered.kinds == {"Reply": 7}
            client.ask("a.example", TARGET, Deadline(1.0), waiter)  # no query waits for it any more
            await asyncio.sleep(1.1)
            assert waiter.kinds == {"QueryNotSent": 1, "PeerSilent": 3}

    run_with_false_clock(main())


def test_a_query_that_waits_for_a_place_of_all_was_not_sent_either() -> None:
    async def main() -> None:
        hung = peer(Behaviour(lie="silence"))
        async with asking(hung, limits=ClientLimits(in_all=1)) as client:
            waiter = Waiter()
            client.ask("a.example", TARGET, Deadline(3.0), waiter)
            client.ask("127.77.0.8:8080", TARGET, Deadline(1.0), waiter)
            await asyncio.sleep(2.0)
            assert isinstance(waiter.outcomes[0], QueryNotSent)
            await asyncio.sleep(1.5)
            assert waiter.kinds == {"QueryNotSent": 1, "PeerSilent": 1}

    run_with_false_clock(main())


@pytest.mark.parametrize("limit", ["per_peer", "in_all"])
@pytest.mark.parametrize("first_to_go", ["the one that was sent", "the one that waits"])
def test_who_gives_up_hears_nothing_and_the_next_one_has_the_place(limit: str, first_to_go: str) -> None:
    async def main() -> None:
        archive = peer(Behaviour(BODY, after=0.5))
        async with asking(archive, limits=replace(ClientLimits(), **{limit: 1})) as client:
            first, second, third = Waiter(), Waiter(), Waiter()
            given_up = [
                client.ask("a.example", TARGET, Deadline(3.0), first),
                client.ask("a.example", TARGET, Deadline(3.0), second),
            ]
            client.ask("a.example", TARGET, Deadline(3.0), third)
            await asyncio.sleep(0.1)
            if first_to_go == "the one that waits":
                given_up.reverse()
            for outgoing in given_up:
                outgoing.give_up()
            await asyncio.sleep(1.0)
            assert (first.outcomes, second.outcomes) == ([], [])
            assert third.kinds == {"Reply": 1}
        assert archive.connections == 2  # half an answer goes to no query

    run_with_false_clock(main())


def test_all_who_are_under_way_are_told_when_the_client_is_closed() -> None:
    async def main() -> None:
        archive = peer(Behaviour(lie="silence"))
        waiter = Waiter()
        async with asking(archive, limits=ClientLimits(per_peer=2)) as client:
            for _ in range(5):
                client.ask("a.example", TARGET, Deadline(3.0), waiter)
            await asyncio.sleep(0.1)
        assert waiter.kinds == {"PeerSilent": 5}
        assert all("closed" in str(outcome) for outcome in waiter.outcomes)
        with pytest.raises(PeerSilent, match="closed"):
            client.ask("a.example", TARGET, Deadline(3.0), waiter)

    run_with_false_clock(main())


def test_a_fault_of_ours_is_told_to_who_asked_and_is_not_kept_quiet() -> None:
    async def broken(_host: str, _port: int) -> list[tuple[str, int]]:
        raise ZeroDivisionError

    async def main() -> None:
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, about: faults.append(about["exception"]))
        client, waiter = Client(PUBLIC, broken), Waiter()
        client.ask("a.example", TARGET, Deadline(3.0), waiter)
        await asyncio.sleep(0.1)
        assert [str(outcome) for outcome in waiter.outcomes] == ["a.example cannot be reached: ?"]
        assert [type(fault) for fault in faults] == [ZeroDivisionError]
        await client.close()

    run_with_false_clock(main())


def test_a_look_up_that_fails_after_all_gave_up_is_no_fault() -> None:
    async def slow(_host: str, _port: int) -> list[tuple[str, int]]:
        await asyncio.sleep(1.0)
        raise OSError

    async def main() -> None:
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, about: faults.append(about))
        client = Client(PUBLIC, slow)
        with pytest.raises(PeerSilent):
            await client.get("a.example", TARGET, 0.5)
        await asyncio.sleep(1.0)
        gc.collect()
        assert faults == []
        await client.close()

    run_with_false_clock(main())


def test_a_forbidden_address_is_told_and_what_is_none_is_refused_at_once() -> None:
    async def main() -> None:
        client, waiter = Client(PUBLIC), Waiter()
        client.ask("10.0.0.1", TARGET, Deadline(3.0), waiter)
        await asyncio.sleep(0.1)
        assert waiter.kinds == {"ForbiddenAddress": 1}
        with pytest.raises(ForbiddenAddress):
            client.ask("user@a.example", TARGET, Deadline(3.0), waiter)
        await client.close()

    run_with_false_clock(main())


def test_a_task_that_begins_while_the_client_closes_ends_with_it() -> None:
    async def scene() -> None:
        client = Client(PUBLIC)
        begun: list[asyncio.Task[None]] = []

        async def forever() -> None:
            await asyncio.Event().wait()

        def keep() -> None:
            begun.append(asyncio.create_task(forever()))
            client.keep(begun[-1])

        async def first() -> None:
            try:
                await forever()
            finally:
                keep()

        client.keep(asyncio.create_task(first()))
        await asyncio.sleep(0)
        await client.close()
        assert [task.cancelled() for task in begun] == [True]
        keep()
        with pytest.raises(asyncio.CancelledError):
            await begun[-1]

    asyncio.run(scene())


def test_a_connection_that_was_closed_at_rest_is_replaced_for_many_at_once() -> None:
    async def main() -> None:
        archive = peer()
        async with asking(archive) as client:
            waiter = Waiter()
            for _ in range(2):
                for _ in range(4):
                    client.ask("a.example", TARGET, Deadline(3.0), waiter)
                await asyncio.sleep(1.0)
                archive.hang_up_all()  # not noticed yet when the next four are asked
            assert waiter.kinds == {"Reply": 8}
        assert archive.connections == 8

    run_with_false_clock(main())


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_nothing_of_one_answer_is_in_the_next_one_over_the_same_connection(size: int) -> None:
    async def main() -> None:
        whole = CHUNKED if size == 7 else answer(BODY)
        async with saying(*(whole[at : at + size] for at in range(0, len(whole), size))) as address:
            client = Client(PUBLIC)
            replies = [await client.get(address, TARGET, 3.0) for _ in range(3)]
            assert replies[0] == replies[1] == replies[2]
            assert replies[0].body == (b"abc" if size == 7 else BODY)
            await client.close()

    run_with_false_clock(main())


@pytest.mark.parametrize(
    "surplus", [b"\0\0\0", b"HTTP/9.9 nonsense\r\n\r\n", answer(b"url http://evil.example/")]
)
def test_whatever_follows_an_answer_is_never_part_of_the_next_one(surplus: bytes) -> None:
    """The parser lives as long as its connection, so a connection with a byte too many must not (threat T34)."""

    async def main() -> None:
        server = ScriptedServer(lambda _: answer(BODY) + surplus, "127.77.0.9")
        await server.open()
        client = Client(PUBLIC)
        for count in (1, 2, 3):
            assert (await client.get(f"127.77.0.9:{server.port}", TARGET, 3.0)).body == BODY
            await asyncio.sleep(0.01)
            assert (server.connections, server.still_open) == (count, 0)
        await client.close()
        await server.close()

    run_with_false_clock(main())


def in_memory() -> list[Destination]:
    """What clients have in memory of their peers."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, Destination)]


def test_a_peer_without_queries_and_connections_is_dropped() -> None:
    others = in_memory()  # of services that other tests have left running

    def known() -> list[str]:
        return sorted(each.address for each in in_memory() if all(each is not other for other in others))

    async def main() -> None:
        archive = peer()
        async with asking(archive) as client:
            await client.get("a.example", TARGET, 3.0)
            with pytest.raises(PeerSilent):
                await client.get("nowhere.example", TARGET, 3.0)
            await asyncio.sleep(3.0)  # a deadline that is still to come remembers whom it is for
            assert known() == ["a.example"]
            archive.hang_up_all()
            await asyncio.sleep(1.0)
            assert known() == []

    run_with_false_clock(main())


def test_a_deadline_forgets_a_request_that_has_ended() -> None:
    async def main() -> None:
        async with asking(peer()) as client:
            deadline = Deadline(3.0)
            for _ in range(2):
                client.ask("a.example", TARGET, deadline, Waiter())
            assert len(deadline.in_flight) == 2
            await asyncio.sleep(1.0)
            assert not deadline.in_flight

    run_with_false_clock(main())


def test_a_target_in_two_parts_goes_out_as_the_same_request_and_neither_part_ends_a_line() -> None:
    async def main() -> None:
        archive = peer()
        async with asking(archive) as client:
            path, _, query = TARGET.partition("?")
            for target in (TARGET, (target_part(path), target_part(f"?{query}"))):
                client.ask("a.example", target, Deadline(3.0), Waiter())
                await asyncio.sleep(1.0)
        assert [request.target for request in archive.received] == [TARGET, TARGET]
        assert archive.received[0].headers == archive.received[1].headers

    run_with_false_clock(main())
    for evil in (
        "/a\r\nHost: evil.example",
        "/a b",
        "/\u00e9",
        "/a\n",
        "?a HTTP/1.1\r\n\r\n",
        "?a\tb",
        "?\x7f",
    ):
        with pytest.raises(ValueError, match="target"):
            target_part(evil)
    for path in ("a", ""):
        with pytest.raises(ValueError, match="target"):
            written((target_part(path), target_part("?b")), b"", 100)


def test_slots_are_given_in_turn_and_a_request_that_was_given_up_is_passed_over() -> None:
    slots = Slots(2)
    a, b, c, d, e = requests = [cast("OutgoingRequest", name) for name in "abcde"]
    assert [slots.acquire(each) for each in requests] == [True, True, False, False, False]
    slots.remove(c)
    assert list(slots.waiting) == [d, e]
    assert [slots.release() for _ in (a, b, d, e)] == [d, e, None, None]
    after, acquired = slots.taken, slots.acquire(a)
    assert (after, acquired, slots.taken) == (0, True, 1)
