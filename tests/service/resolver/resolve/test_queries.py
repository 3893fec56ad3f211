"""Queries to all Archives at once: over real sockets, with Archives that do their worst, under a false clock."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ibi.errors import PeerGarbled, PeerSilent, ResponseNotRead
from ibi.http.client import Client
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.protocol.verb_list import VerbList
from ibi.resolver.cache.answers import AnswerCache
from ibi.resolver.cache.change_requests import ChangesRequester
from ibi.resolver.metrics.metrics import ResolverMetrics
from ibi.resolver.model.archive import Archive, ArchiveResponse, Members
from ibi.resolver.resolve.answer_reader import AnswerReader
from ibi.resolver.resolve.breaker import CircuitBreakers
from ibi.resolver.resolve.policy import Plan
from ibi.resolver.resolve.queries import Queries
from ibi.resolver.resolve.round import READING, Round, Terms
from support.clock import run_with_false_clock
from support.http_answers import LIES
from support.resolver.parts import TIMES
from support.resolver.scripted_peers import BODY, among, archive
from support.scripted_archive import Behaviour

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from ibi.protocol.url_list import UrlList

REQUEST = UrlRequest(
    ("192.0.2.1",), parse_ibi("example.org/a/2020/01.02.00.00"), verbs=VerbList(("GetMetadata",))
)


async def ask_them(
    client: Client,
    archives: Sequence[Archive],
    *,
    per_archive: float = 3.0,
    overall: float = 5.0,
    wait_for_all: bool = False,
) -> AsyncGenerator[ArchiveResponse, None]:
    """Ask as the standard says: all Archives at once."""
    with tempfile.TemporaryDirectory() as folder:
        memory, metrics = AnswerCache(Path(folder) / "memory", lambda: 1e9), ResolverMetrics(Path(folder))
        queries = Queries(client, CircuitBreakers(), memory, metrics, ChangesRequester(client, memory, tuple))
        members = Members.of(archives, probation=False)
        deadline = asyncio.get_running_loop().time() + overall
        terms = Terms(deadline, memory.snapshot(), wait_for_all=wait_for_all, client="192.0.2.1")
        round_ = Round(
            queries,
            TIMES._replace(per_archive=per_archive),
            lambda: members,
            Plan(members.regular),
            REQUEST,
            terms,
        )
        try:
            async with aclosing(round_.responses()) as responses:
                async for response in responses:
                    yield response
        finally:
            memory.close()
            metrics.close()


async def outcomes(
    client: Client, archives: Sequence[Archive], per_archive: float = 3.0, overall: float = 5.0
) -> list[ArchiveResponse]:
    asking = ask_them(client, archives, per_archive=per_archive, overall=overall)
    return [outcome async for outcome in asking]


@pytest.mark.proves("RES-04", "RES-05")
def test_all_are_asked_at_once_and_heard_in_the_order_in_which_they_answer() -> None:
    async def main() -> None:
        three = [
            archive(name, Behaviour(BODY, after=after), n)
            for n, (name, after) in enumerate({"a": 0.3, "b": 0.1, "c": 0.2}.items(), 1)
        ]
        async with among(*three) as (client, archives):
            found = await outcomes(client, archives)
        assert [outcome.archive.address for outcome in found] == ["b.example", "c.example", "a.example"]
        assert all(
            outcome.answer is not None and outcome.answer.pairs["state"] == "Original" for outcome in found
        )
        assert len({round(each.received[0].when, 3) for each in three}) == 1

    run_with_false_clock(main())


@pytest.mark.parametrize("wait_for_all", [False, True])
def test_waiting_for_all_ends_with_the_last_answer_or_at_the_deadline(*, wait_for_all: bool) -> None:
    async def main() -> None:
        behaviours = {
            "a": Behaviour(BODY, after=0.3),
            "b": Behaviour(b"", after=0.1),
            "c": Behaviour(lie="silence"),
        }
        three = [archive(name, manner, n) for n, (name, manner) in enumerate(behaviours.items(), 1)]
        async with among(*three) as (client, archives):
            now = asyncio.get_running_loop().time
            begun, heard = now(), list[tuple[str, float]]()
            async for outcome in ask_them(client, archives, wait_for_all=wait_for_all):
                heard.append((outcome.archive.address, round(now() - begun, 1)))
        moments = (3.0, 3.0, 3.0) if wait_for_all else (0.1, 0.3, 3.0)
        assert heard == list(zip(("b.example", "a.example", "c.example"), moments, strict=True))

    run_with_false_clock(main())


@pytest.mark.proves("MSG-03", "MSG-25")
def test_the_question_is_the_base_url_and_the_request() -> None:
    async def main() -> None:
        one = archive("a", Behaviour(BODY))
        async with among(one) as (client, archives):
            await outcomes(client, archives)
        assert one.received[0].target == (
            "/example/a/2020/01.01.00.00?clientinformation.ipaddress=192.0.2.1"
            "&parsedibiurl.ibi=example.org/a/2020/01.02.00.00&parsedibiurl.verblist=GetMetadata&servicesubject=urlRequest"
        )

    run_with_false_clock(main())


@pytest.mark.proves("MSG-26")
def test_an_empty_answer_is_heard_and_is_empty() -> None:
    async def main() -> None:
        async with among(archive("a", Behaviour(b""))) as (client, archives):
            (outcome,) = await outcomes(client, archives)
        assert outcome.answer is not None
        assert not outcome.answer

    run_with_false_clock(main())


@pytest.mark.proves("RES-04", "MSG-10", "AMB-32")
@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_liar_is_silent_with_a_reason_and_others_are_heard(lie: str) -> None:
    async def main() -> None:
        liar = archive("liar", Behaviour(BODY, lie=lie), 1)
        honest = archive("a", Behaviour(BODY, after=0.1), 2)
        async with among(liar, honest) as (client, archives):
            found = {outcome.archive.address: outcome for outcome in await outcomes(client, archives)}
        silent = found["liar.example"]
        assert silent.answer is None
        assert isinstance(silent.error, PeerSilent) == (lie in {"cut-off", "closes-after-head"})
        assert str(silent.error).isprintable()
        assert found["a.example"].answer is not None

    run_with_false_clock(main())


@pytest.mark.parametrize(
    "manner", [Behaviour(lie="silence"), Behaviour(BODY, drip=0.1)], ids=["hangs", "drips"]
)
def test_an_archive_that_hangs_or_drips_is_silent_at_the_deadline_and_delays_no_other(
    manner: Behaviour,
) -> None:
    async def main() -> None:
        slow, well = archive("slow", manner, 1), archive("a", Behaviour(BODY, after=0.05), 2)
        async with among(slow, well) as (client, archives):
            loop = asyncio.get_running_loop()
            began = loop.time()
            moments = {}
            async for outcome in ask_them(client, archives):
                moments[outcome.archive.address] = loop.time() - began
                assert (outcome.answer is not None) == (outcome.archive.address == "a.example")
        assert moments["a.example"] == pytest.approx(0.05, abs=0.02)
        assert moments["slow.example"] == pytest.approx(3.0, abs=0.02)

    run_with_false_clock(main())


def test_no_archive_exceeds_the_time_left_for_all_rounds() -> None:
    async def main() -> None:
        async with among(archive("a", Behaviour(lie="silence"))) as (client, archives):
            loop = asyncio.get_running_loop()
            began = loop.time()
            (outcome,) = await outcomes(client, archives, overall=0.7)
            assert outcome.answer is None
            assert loop.time() - began == pytest.approx(0.7, abs=0.02)

    run_with_false_clock(main())


def test_what_came_in_time_and_cannot_be_read_in_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = AnswerReader.read

    async def read(reader: AnswerReader, body: bytes) -> UrlList:
        await asyncio.sleep(2.0)
        return await slow(reader, body)

    monkeypatch.setattr(AnswerReader, "read", read)

    async def main() -> None:
        long = b" ".join(b"name%d value" % number for number in range(500))
        async with among(archive("a", Behaviour(long)), archive("b", Behaviour(BODY))) as (client, archives):
            loop = asyncio.get_running_loop()
            began = loop.time()
            heard, left = await outcomes(client, archives, overall=0.7)
            assert loop.time() - began == pytest.approx(0.7 + READING, abs=0.02)
            assert heard.answer is not None
            assert left.answer is None
            assert isinstance(left.error, ResponseNotRead)
            await asyncio.sleep(2.0)  # it is read all the same, and its result is discarded

    run_with_false_clock(main())


def test_what_is_being_read_when_the_client_closes_is_silent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(_reader: AnswerReader, _body: bytes) -> UrlList:
        await asyncio.sleep(60.0)
        raise AssertionError

    monkeypatch.setattr(AnswerReader, "read", read)

    async def main() -> None:
        long = b" ".join(b"name%d value" % number for number in range(500))
        async with among(archive("a", Behaviour(long))) as (client, archives):
            loop = asyncio.get_running_loop()
            began, asking = loop.time(), asyncio.create_task(outcomes(client, archives))
            await asyncio.sleep(0.5)
            await client.close()
            (heard,) = await asking
            assert loop.time() - began == pytest.approx(0.5, abs=0.02)
        assert (type(heard.error), str(heard.error)) == (PeerSilent, "this client is closed")

    run_with_false_clock(main())


def test_without_time_no_archive_is_asked() -> None:
    async def main() -> None:
        one = archive("a", Behaviour(BODY))
        async with among(one) as (client, archives):
            (outcome,) = await outcomes(client, archives, overall=-0.1)
        assert outcome.answer is None
        assert one.connections == 0

    run_with_false_clock(main())


def test_an_archive_that_is_not_there_or_resets_is_silent() -> None:
    async def main() -> None:
        gone, resets = archive("gone", Behaviour(), 1), archive("resets", Behaviour(lie="reset"), 2)
        async with among(gone, resets, absent="gone") as (client, archives):
            found = await outcomes(client, archives)
        assert all(outcome.answer is None and not isinstance(outcome.error, PeerGarbled) for outcome in found)

    run_with_false_clock(main())


def test_an_archive_at_a_forbidden_address_is_silent_and_is_not_contacted() -> None:
    async def main() -> None:
        inside = archive("inside", Behaviour(BODY))
        inside.ip = "127.0.0.1"
        async with among(inside) as (client, archives):
            (outcome,) = await outcomes(client, archives)
        assert outcome.answer is None
        assert "must not be contacted" in str(outcome.error)
        assert inside.connections == 0

    run_with_false_clock(main())


def test_without_archives_the_round_is_empty() -> None:
    async def main() -> None:
        async with among() as (client, archives):
            assert await outcomes(client, archives) == []

    run_with_false_clock(main())


@pytest.mark.proves("RES-03")
def test_who_answers_too_late_for_the_reader_cannot_tell() -> None:
    """The caller stops after the first answer; the others are neither cut short nor asked for longer (threat T06)."""

    async def main() -> None:
        first, second = archive("a", Behaviour(BODY), 1), archive("b", Behaviour(BODY, after=2.0), 2)
        hung = archive("c", Behaviour(lie="silence"), 3)
        async with among(first, second, hung) as (client, archives):
            asking = ask_them(client, archives)
            async with aclosing(asking):
                async for outcome in asking:
                    assert outcome.archive.address == "a.example"
                    break
            await asyncio.sleep(2.5)
            assert second.closed_early == 0
            assert hung.closed_early == 0
            await asyncio.sleep(1.0)
            assert second.closed_early == 0
            assert hung.closed_early == 1  # at the deadline, as in any round
            assert asyncio.all_tasks() == {asyncio.current_task()}

    run_with_false_clock(main())


def test_closing_the_client_ends_what_an_early_stop_has_left() -> None:
    async def main() -> None:
        hung = archive("c", Behaviour(lie="silence"), 2)
        loop = asyncio.get_running_loop()
        async with among(archive("a", Behaviour(BODY), 1), hung) as (client, archives):
            async for _ in ask_them(client, archives):
                break
            await asyncio.sleep(0.1)
            began = loop.time()
        assert loop.time() - began < 0.5

    run_with_false_clock(main())


def test_closing_the_client_also_ends_those_who_still_wait_for_a_place() -> None:
    async def main() -> None:
        async with among(archive("c", Behaviour(lie="silence"))) as (client, archives):
            listening = [asyncio.create_task(outcomes(client, archives * 20)) for _ in range(3)]
            await asyncio.sleep(0.1)
            for listener in listening:
                listener.cancel()
            await asyncio.gather(*listening, return_exceptions=True)

    run_with_false_clock(main())


def test_a_caller_that_is_cancelled_leaves_nothing_for_longer_than_the_deadline() -> None:
    async def main() -> None:
        hung = archive("c", Behaviour(lie="silence"))
        async with among(hung) as (client, archives):
            asking = asyncio.create_task(outcomes(client, archives))
            await asyncio.sleep(0.1)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asyncio.sleep(3.0)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert hung.closed_early == 1

    run_with_false_clock(main())


def test_two_hundred_archives_a_third_of_them_bad() -> None:
    async def main() -> None:
        behaviours = [
            Behaviour(BODY, after=0.02),
            Behaviour(b""),
            *(Behaviour(BODY, lie=lie) for lie in ("reset", "html")),
        ]
        many = [
            archive(f"a{n}", behaviours[n % 4] if n % 10 else Behaviour(lie="silence"), n % 250 + 1)
            for n in range(200)
        ]
        async with among(*many) as (client, archives):
            found = await outcomes(client, archives)
        assert len(found) == 200
        assert len({outcome.archive.address for outcome in found}) == 200
        kinds = Counter(outcome.answer is not None for outcome in found)
        assert kinds == {True: 90, False: 110}

    run_with_false_clock(main())
