"""The HTTP client against real peers that do their worst. Time is false, sockets are not."""

from __future__ import annotations

import asyncio
import os
import resource
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import uvloop

from ibi.errors import ForbiddenAddress, PeerError, PeerGarbled, PeerSilent, QueryNotSent
from ibi.http.client import LOOP_NAME, AddressPolicy, Client, ClientLimits, Reply
from support.clock import run_with_false_clock
from support.http_answers import LIES, answer
from support.peers import BODY, PUBLIC, TARGET, peer
from support.scripted_archive import Behaviour, ScriptedArchive, ScriptedArchives
from support.stream_server import listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

# What can be wrong with an answer without being wrong as HTTP is judged one layer above.
WELL_FORMED = {
    "status-404",
    "status-500",
    "status-204",
    "redirect",
    "html",
    "no-media-type",
    "duplicate-pairs",
    "odd-words",
    "open-brace",
    "not-ascii",
    "nul",
    "too-many-pairs",
}


@asynccontextmanager
async def calling(
    archive: ScriptedArchive,
    limits: ClientLimits | None = None,
    policy: AddressPolicy = PUBLIC,
    *,
    absent: bool = False,
) -> AsyncIterator[Client]:
    gone = frozenset({archive.name}) if absent else frozenset[str]()
    async with ScriptedArchives((archive,), gone) as around:
        client = Client(policy, around.names, limits)
        try:
            yield client
        finally:
            await client.close()
            assert [task for task in asyncio.all_tasks() if "Client" in repr(task.get_coro())] == []


def answer_of(
    archive: ScriptedArchive, *, deadline: float = 3.0, limits: ClientLimits | None = None
) -> Reply:
    """The reply of one archive to one request."""

    async def main() -> Reply:
        async with calling(archive, limits) as client:
            return await client.get("a.example", TARGET, deadline)

    return run_with_false_clock(main())


def test_an_answer_comes_whole_with_status_headers_body_and_peer() -> None:
    reply = answer_of(peer())
    assert reply == Reply(
        200, {b"content-type": b"text/plain", b"content-length": str(len(BODY)).encode()}, BODY, "127.77.0.1"
    )
    assert reply.media_type == b"text/plain"


@pytest.mark.proves("MSG-01", "RES-02", "RES-03")
def test_the_request_says_who_we_are_and_nothing_of_a_reader() -> None:
    archive = peer()
    answer_of(archive)
    request = archive.received[0]
    assert request.raw.startswith(b"GET " + TARGET.encode() + b" HTTP/1.1\r\nHost: a.example\r\n")
    assert set(request.headers) == {
        "host",
        "user-agent",
        "accept",
        "accept-encoding",
        "connection",
        "cdn-loop",
    }
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["cdn-loop"] == LOOP_NAME


@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_lie_ends_in_an_answer_or_in_a_plain_error_and_its_connection_dies_with_it(lie: str) -> None:
    async def main() -> None:
        archive = peer(Behaviour(BODY, lie=lie))
        async with calling(archive) as client:
            if lie in WELL_FORMED:
                assert isinstance(await client.get("a.example", TARGET, 3.0), Reply)
            else:
                with pytest.raises(PeerError) as caught:
                    await client.get("a.example", TARGET, 3.0)
                assert str(caught.value).isascii()
                assert "\n" not in str(caught.value)
            archive.manner = Behaviour(BODY)
            again = await client.get("a.example", TARGET, 3.0)
            assert (again.status, again.body) == (200, BODY)
            assert archive.connections == 2

    run_with_false_clock(main())


@pytest.mark.parametrize(
    ("lie", "kind"),
    [
        ("compressed", PeerGarbled),
        ("two-lengths", PeerGarbled),
        ("promises-a-gigabyte", PeerGarbled),
        ("endless-body", PeerGarbled),
        ("endless-head", PeerGarbled),
        ("endless-trailers", PeerGarbled),
        ("not-http", PeerGarbled),
        ("cut-off", PeerSilent),
        ("closes-after-head", PeerSilent),
        ("reset", PeerSilent),
        ("silence", PeerSilent),
    ],
)
def test_garbled_is_told_from_silent(lie: str, kind: type[PeerError]) -> None:
    with pytest.raises(kind):
        answer_of(peer(Behaviour(BODY, lie=lie)))


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ("endless-body", "larger than 262144 bytes"),
        ("endless-trailers", "more than 128 lines of headers"),
        ("endless-head", "head of the answer is longer than 16384 bytes"),
    ],
)
def test_an_endless_answer_is_cut_at_the_limit_not_at_the_deadline(lie: str, message: str) -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with calling(peer(Behaviour(b"a b", lie=lie))) as client:
            with pytest.raises(PeerGarbled, match=message):
                await client.get("a.example", TARGET, 3.0)
        return loop.time() - began

    assert run_with_false_clock(main()) < 3.0


@pytest.mark.parametrize("size", [0, 1, 262_144])
def test_answers_up_to_the_limit_are_taken(size: int) -> None:
    assert answer_of(peer(Behaviour(b"x" * size))).body == b"x" * size


def test_one_byte_more_than_the_limit_is_not_taken() -> None:
    with pytest.raises(PeerGarbled):
        answer_of(peer(Behaviour(b"x" * 262_145)))


def test_the_deadline_is_for_the_whole_answer_however_it_drips() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        async with calling(peer(Behaviour(BODY, drip=0.05))) as client:
            began = loop.time()
            with pytest.raises(PeerSilent, match="within 3 s"):
                await client.get("a.example", TARGET, 3.0)
            return loop.time() - began

    assert run_with_false_clock(main()) == pytest.approx(3.0, abs=0.01)


def test_an_answer_that_drips_in_time_is_taken() -> None:
    assert answer_of(peer(Behaviour(BODY, drip=0.01))).body == BODY


def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    archive = peer(Behaviour(lie="redirect"))
    assert answer_of(archive).status == 302
    assert len(archive.received) == 1


def test_connections_are_kept_and_used_again() -> None:
    async def main() -> None:
        archive = peer()
        async with calling(archive) as client:
            for _ in range(5):
                await client.get("a.example", TARGET, 3.0)
        assert (archive.connections, len(archive.received)) == (1, 5)

    run_with_false_clock(main())


@pytest.mark.parametrize("notice", [True, False])
def test_a_kept_connection_that_was_closed_meanwhile_is_replaced(notice: bool) -> None:
    async def main() -> None:
        archive = peer()
        async with calling(archive) as client:
            await client.get("a.example", TARGET, 3.0)
            archive.hang_up_all()
            if notice:  # give the loop time to see the end of the connection before the next request
                await asyncio.sleep(1)
            assert (await client.get("a.example", TARGET, 3.0)).body == BODY
        assert archive.connections == 2

    run_with_false_clock(main())


def test_a_fresh_connection_that_is_closed_without_a_word_is_not_tried_for_ever() -> None:
    archive = peer(Behaviour(lie="reset"))
    with pytest.raises(PeerSilent):
        answer_of(archive)
    assert len(archive.received) == 1


def test_connections_that_rested_too_long_are_not_used_again() -> None:
    async def main() -> None:
        archive = peer()
        async with calling(archive, ClientLimits(kept=30.0)) as client:
            await client.get("a.example", TARGET, 3.0)
            await asyncio.sleep(31)
            await client.get("a.example", TARGET, 3.0)
        assert archive.connections == 2

    run_with_false_clock(main())


@pytest.mark.parametrize("together", [True, False], ids=["at once", "later"])
def test_bytes_after_the_answer_end_the_connection(together: bool) -> None:
    """A second, unrequested answer must never be taken for the answer to the next question (threat T34)."""
    served = 0
    second = answer(b"url http://evil.example/")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        served += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(BODY) + (second if together else b""))
        if not together:
            await asyncio.sleep(0.5)
            writer.write(second)
        await reader.read()
        writer.close()

    async def main() -> None:
        async with listening(serve, "127.77.0.1") as port:
            client = Client(PUBLIC)
            for _ in range(3):
                reply = await client.get(f"127.77.0.1:{port}", TARGET, 3.0)
                assert reply.body == BODY
                await asyncio.sleep(1)
            await client.close()

    run_with_false_clock(main())
    assert served == 3


def test_an_answer_may_end_with_its_connection() -> None:
    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" + BODY)
            writer.close()

        async with listening(serve, "127.77.0.1") as port:
            client = Client(PUBLIC)
            reply = await client.get(f"127.77.0.1:{port}", TARGET, 3.0)
            assert reply.body == BODY
            await client.close()

    run_with_false_clock(main())


def test_nothing_listens() -> None:
    async def main() -> None:
        async with calling(peer(), absent=True) as client:
            with pytest.raises(PeerSilent, match=r"^a\.example cannot be reached: .+"):
                await client.get("a.example", TARGET, 3.0)

    run_with_false_clock(main())


# Addresses


def names_to(*places: tuple[str, int]) -> Callable[[str, int], Awaitable[list[tuple[str, int]]]]:
    async def names(_host: str, _port: int) -> list[tuple[str, int]]:
        return list(places)

    return names


def refused(client: Client, address: str) -> None:
    async def main() -> None:
        with pytest.raises(ForbiddenAddress):
            await client.get(address, TARGET, 3.0)

    run_with_false_clock(main())


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:8080", "[::1]", "169.254.169.254", "10.0.0.1"])
def test_literal_addresses_are_judged_too(address: str) -> None:
    refused(Client(AddressPolicy()), address)


def test_a_name_with_one_private_address_is_refused_altogether() -> None:
    async def main() -> None:
        archive = peer()
        async with ScriptedArchives((archive,)):
            for places in (
                [("127.77.0.1", archive.port), ("10.0.0.1", 80)],
                [("10.0.0.1", 80), ("127.77.0.1", archive.port)],
                [("127.77.0.1", archive.port), ("::1", 80)],
            ):
                client = Client(PUBLIC, names_to(*places))
                with pytest.raises(ForbiddenAddress):
                    await client.get("a.example", TARGET, 3.0)
                await client.close()
        assert archive.connections == 0

    run_with_false_clock(main())


def test_a_name_is_judged_again_at_every_new_connection() -> None:
    """The name moves to a forbidden address between two requests (threat T02)."""

    async def main() -> None:
        archive = peer()
        async with ScriptedArchives((archive,)):
            places = [("127.77.0.1", archive.port)]

            async def names(_host: str, _port: int) -> list[tuple[str, int]]:
                return list(places)

            client = Client(PUBLIC, names)
            await client.get("a.example", TARGET, 3.0)
            archive.hang_up_all()
            await asyncio.sleep(1)
            places[:] = [("127.0.0.1", archive.port)]
            with pytest.raises(ForbiddenAddress):
                await client.get("a.example", TARGET, 3.0)
            await client.close()

    run_with_false_clock(main())


def test_the_next_address_of_a_name_is_tried_when_one_is_dead() -> None:
    async def main() -> None:
        dead, alive = peer(), peer(ip="127.77.0.2")
        dead.be_absent()
        async with ScriptedArchives((alive,)):
            client = Client(PUBLIC, names_to(("127.77.0.1", dead.port), ("127.77.0.2", alive.port)))
            assert (await client.get("a.example", TARGET, 3.0)).peer == "127.77.0.2"
            await client.close()
        await dead.close()

    run_with_false_clock(main())


def test_a_name_without_an_address_is_silence() -> None:
    async def main() -> None:
        async with calling(peer()) as client:
            with pytest.raises(PeerSilent, match=r"nowhere\.example"):
                await client.get("nowhere.example", TARGET, 3.0)

    run_with_false_clock(main())


def test_a_name_server_that_never_answers_holds_one_look_up_and_no_query_longer_than_the_deadline() -> None:
    async def main() -> None:
        lookups = 0

        async def names(_host: str, _port: int) -> list[tuple[str, int]]:
            nonlocal lookups
            lookups += 1
            await asyncio.Event().wait()
            return []

        client = Client(PUBLIC, names)
        asking = [client.get("a.example", TARGET, 3.0) for _ in range(20)]
        for outcome in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(outcome, PeerSilent)
        assert lookups == 1
        await client.close()

    run_with_false_clock(main())


def test_this_machine_knows_its_own_name() -> None:
    async def main() -> None:
        archive = peer(ip="127.0.0.1")
        async with ScriptedArchives((archive,)):
            client = Client(AddressPolicy(allow_private=True), limits=ClientLimits(connect=5.0))
            reply = await client.get(f"localhost:{archive.port}", TARGET, 10.0)
            assert reply.body == BODY
            await client.close()

    asyncio.run(main())


# Many queries at once


def test_no_more_than_agreed_are_in_flight_to_one_peer() -> None:
    async def main() -> None:
        archive = peer(Behaviour(BODY, after=0.1))
        async with calling(archive, ClientLimits(per_peer=4)) as client:
            replies = await asyncio.gather(*(client.get("a.example", TARGET, 3.0) for _ in range(20)))
        assert {reply.status for reply in replies} == {200}
        assert archive.connections == 4
        moments = sorted({round(request.when, 3) for request in archive.received})
        assert len(moments) == 5

    run_with_false_clock(main())


def test_a_query_waits_for_a_place_no_longer_than_the_deadline() -> None:
    async def main() -> None:
        archive = peer(Behaviour(lie="silence"))
        async with calling(archive, ClientLimits(per_peer=2)) as client:
            loop = asyncio.get_running_loop()
            began = loop.time()
            asking = [client.get("a.example", TARGET, 3.0) for _ in range(6)]
            outcomes = await asyncio.gather(*asking, return_exceptions=True)
            assert all(isinstance(outcome, PeerSilent) for outcome in outcomes)
            assert loop.time() - began == pytest.approx(3.0, abs=0.01)

    run_with_false_clock(main())


def test_a_peer_that_hangs_does_not_take_the_places_of_another() -> None:
    async def main() -> None:
        hung = peer(Behaviour(lie="silence"))
        well = ScriptedArchive(
            "b", "b.example", "example/a/2020/01.01.00.00", ip="127.77.0.2", manner=Behaviour(BODY)
        )
        async with ScriptedArchives((hung, well)) as around:
            client = Client(PUBLIC, around.names, ClientLimits(per_peer=2))
            loop = asyncio.get_running_loop()
            began = loop.time()
            waiting = [asyncio.create_task(client.get("a.example", TARGET, 3.0)) for _ in range(10)]
            await asyncio.gather(*(client.get("b.example", TARGET, 3.0) for _ in range(10)))
            assert loop.time() - began < 0.5
            await asyncio.gather(*waiting, return_exceptions=True)
            await client.close()

    run_with_false_clock(main())


def test_connections_in_all_stay_within_the_limit() -> None:
    async def main() -> None:
        archives = tuple(
            ScriptedArchive(
                f"a{n}",
                f"a{n}.example",
                "example/a/2020/01.01.00.00",
                f"127.77.1.{n}",
                manner=Behaviour(BODY),
            )
            for n in range(1, 9)
        )
        async with ScriptedArchives(archives) as around:
            client = Client(PUBLIC, around.names, ClientLimits(in_all=3))
            for archive in archives:
                await client.get(archive.address, TARGET, 3.0)
                await asyncio.sleep(0.01)
                assert sum(each.still_open for each in archives) <= 3
            await client.close()

    run_with_false_clock(main())


def test_a_caller_that_gives_up_leaves_no_half_answer_behind() -> None:
    async def main() -> None:
        archive = peer(Behaviour(BODY, after=0.5))
        async with calling(archive) as client:
            asking = asyncio.create_task(client.get("a.example", TARGET, 3.0))
            await asyncio.sleep(0.1)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert (await client.get("a.example", TARGET, 3.0)).body == BODY
        assert archive.connections == 2

    run_with_false_clock(main())


def test_a_closed_client_sends_no_query() -> None:
    async def main() -> None:
        async with calling(peer()) as client:
            await client.close()
            with pytest.raises(PeerSilent):
                await client.get("a.example", TARGET, 3.0)

    run_with_false_clock(main())


@pytest.mark.parametrize("waiting_for", ["a name", "an answer"])
def test_who_is_waiting_when_the_client_is_closed_is_told_so(waiting_for: str) -> None:
    async def main() -> None:
        async def names(_host: str, _port: int) -> list[tuple[str, int]]:
            if waiting_for == "a name":
                await asyncio.Event().wait()
            return [("127.77.0.1", archive.port)]

        archive = peer(Behaviour(lie="silence"))
        async with ScriptedArchives((archive,)):
            client = Client(PUBLIC, names)
            asking = asyncio.create_task(client.get("a.example", TARGET, 3.0))
            await asyncio.sleep(0.1)
            await client.close()
            with pytest.raises(PeerSilent, match="closed"):
                await asking

    run_with_false_clock(main())


def test_a_connection_that_stands_only_after_the_client_was_closed_is_not_used() -> None:
    async def main() -> None:
        closing: list[asyncio.Task[None]] = []

        async def names(_host: str, _port: int) -> list[tuple[str, int]]:
            closing.append(asyncio.create_task(client.close()))
            return [("127.77.0.1", archive.port)]

        archive = peer()
        async with ScriptedArchives((archive,)):
            client = Client(PUBLIC, names)
            with pytest.raises(PeerSilent, match="closed"):
                await client.get("a.example", TARGET, 3.0)
            await asyncio.gather(*closing)
            await asyncio.sleep(0.1)
            assert archive.received == []

    run_with_false_clock(main())


# What callers may not send


@pytest.mark.parametrize(
    "target", ["", "x", "http://a.example/", "/a b", "/a\r\nX: y", "/a\tb", "/é", "/a\0", "/" + "a" * 70_000]
)
def test_a_target_that_could_say_more_than_itself_is_not_sent(target: str) -> None:
    with pytest.raises(ValueError, match="target"):
        asyncio.run(Client(PUBLIC).get("a.example", target, 3.0))


@pytest.mark.parametrize(
    "header",
    [
        ("Host", "b.example"),
        ("connection", "close"),
        ("X", "a\r\nY: b"),
        ("X Y", "a"),
        ("X:", "a"),
        ("X", "é"),
        ("", ""),
    ],
)
def test_a_header_that_could_say_more_than_itself_is_not_sent(header: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="header"):
        asyncio.run(Client(PUBLIC).get("a.example", "/", 3.0, [header]))


def test_a_caller_may_add_a_header() -> None:
    async def main() -> None:
        archive = peer()
        async with calling(archive) as client:
            await client.get("a.example", TARGET, 3.0, [("Accept-Language", "pt-BR")])
        assert archive.received[0].headers["accept-language"] == "pt-BR"

    run_with_false_clock(main())


@pytest.mark.parametrize("headers", [[], [("Accept-Language", "pt-BR")]], ids=["alone", "with others"])
def test_a_caller_may_say_whom_the_request_passed(headers: list[tuple[str, str]]) -> None:
    async def main() -> None:
        archive = peer()
        async with calling(archive) as client:
            await client.get("a.example", TARGET, 3.0, headers, cdn_loop="first.example, ibi")
            await client.get("a.example", TARGET, 3.0)
        assert [each.headers["cdn-loop"] for each in archive.received] == ["first.example, ibi", LOOP_NAME]

    run_with_false_clock(main())


def test_it_works_on_uvloop() -> None:
    async def main() -> None:
        archive = peer()
        async with calling(archive, ClientLimits(connect=5.0)) as client:
            replies = await asyncio.gather(*(client.get("a.example", TARGET, 10.0) for _ in range(50)))
            assert {reply.body for reply in replies} == {BODY}
            archive.hang_up_all()
            assert (await client.get("a.example", TARGET, 10.0)).body == BODY
            for lie in ("reset", "cut-off", "endless-body", "bad-chunk"):
                archive.manner = Behaviour(BODY, lie=lie)
                with pytest.raises(PeerError):
                    await client.get("a.example", TARGET, 10.0)

    uvloop.run(main())


def test_a_lack_of_descriptors_here_is_told_from_a_peer_that_cannot_be_reached() -> None:
    async def main() -> None:
        one = peer(Behaviour(BODY))
        async with calling(one) as client:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            first_free = os.dup(0)
            os.close(first_free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, hard))
            try:
                with pytest.raises(QueryNotSent):
                    await client.get(one.address, TARGET, 3.0)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert (await client.get(one.address, TARGET, 3.0)).body == BODY

    run_with_false_clock(main())
