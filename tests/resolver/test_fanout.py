"""Asking all at once: over real sockets, with Archives that do their worst, under a false clock."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ibi.errors import NotRead
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.protocol.verb_list import VerbList
from ibi.resolver.fanout import READING, FanOut, Times
from ibi.resolver.health import Health
from ibi.resolver.inquiry import Heard, Silent
from ibi.resolver.memory import Memory
from ibi.resolver.metrics import Metrics
from ibi.resolver.plan import Members, everybody
from ibi.resolver.questions import Questions
from ibi.resolver.reading import Reading
from ibi.transport import Client
from resolver.scripted import BODY, Known, among, archive
from support.archives import Conduct
from support.clock import run_with_false_clock
from support.wire import LIES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from ibi.protocol.url_list import UrlList

REQUEST = UrlRequest(
    ("192.0.2.1",), parse_ibi("example.org/a/2020/01.02.00.00"), verbs=VerbList(("GetMetadata",))
)


async def ask_all(
    client: Client,
    archives: Sequence[Known],
    *,
    per_archive: float = 3.0,
    overall: float = 5.0,
    patient: bool = False,
) -> AsyncGenerator[Heard[Known] | Silent[Known], None]:
    """Ask as the standard says it: everybody at once."""
    with tempfile.TemporaryDirectory() as folder:
        memory, metrics = Memory(Path(folder) / "memory", lambda: 1e9), Metrics(Path(folder))
        questions = Questions(client, Health(), memory, metrics, lambda: 1e9)
        members = Members.of(archives, probation=False)
        times = Times(per_archive=per_archive)
        fan_out = FanOut(
            questions, everybody(members), lambda: members, REQUEST, times, left=overall, origin="192.0.2.1"
        )
        fan_out.patient = patient
        try:
            while not fan_out.over:
                for outcome in await fan_out.next():
                    yield outcome
        finally:
            memory.close()
            metrics.close()


async def outcomes(
    client: Client, archives: Sequence[Known], per_archive: float = 3.0, overall: float = 5.0
) -> list[Heard[Known] | Silent[Known]]:
    asking = ask_all(client, archives, per_archive=per_archive, overall=overall)
    return [outcome async for outcome in asking]


@pytest.mark.proves("RES-04", "RES-05")
def test_all_are_asked_at_once_and_heard_in_the_order_in_which_they_answer() -> None:
    async def main() -> None:
        three = [
            archive(name, Conduct(BODY, after=after), n)
            for n, (name, after) in enumerate({"a": 0.3, "b": 0.1, "c": 0.2}.items(), 1)
        ]
        async with among(*three) as (client, asked):
            found = await outcomes(client, asked)
        assert [outcome.archive.address for outcome in found] == ["b.example", "c.example", "a.example"]
        assert all(
            isinstance(outcome, Heard) and outcome.url_list.pairs["state"] == "Original" for outcome in found
        )
        assert len({round(each.told[0].when, 3) for each in three}) == 1

    run_with_false_clock(main())


@pytest.mark.parametrize("patient", [False, True])
def test_who_is_patient_is_told_when_all_have_spoken_or_time_is_over(*, patient: bool) -> None:
    async def main() -> None:
        manners = {"a": Conduct(BODY, after=0.3), "b": Conduct(b"", after=0.1), "c": Conduct(lie="silence")}
        three = [archive(name, manner, n) for n, (name, manner) in enumerate(manners.items(), 1)]
        async with among(*three) as (client, asked):
            now = asyncio.get_running_loop().time
            begun, heard = now(), list[tuple[str, float]]()
            async for outcome in ask_all(client, asked, patient=patient):
                heard.append((outcome.archive.address, round(now() - begun, 1)))
        moments = (3.0, 3.0, 3.0) if patient else (0.1, 0.3, 3.0)
        assert heard == list(zip(("b.example", "a.example", "c.example"), moments, strict=True))

    run_with_false_clock(main())


@pytest.mark.proves("MSG-03", "MSG-25")
def test_the_question_is_the_base_url_and_the_request() -> None:
    async def main() -> None:
        one = archive("a", Conduct(BODY))
        async with among(one) as (client, asked):
            await outcomes(client, asked)
        assert one.told[0].target == (
            "/example/a/2020/01.01.00.00?clientinformation.ipaddress=192.0.2.1"
            "&parsedibiurl.ibi=example.org/a/2020/01.02.00.00&parsedibiurl.verblist=GetMetadata&servicesubject=urlRequest"
        )

    run_with_false_clock(main())


@pytest.mark.proves("MSG-26")
def test_an_empty_answer_is_heard_and_is_empty() -> None:
    async def main() -> None:
        async with among(archive("a", Conduct(b""))) as (client, asked):
            (outcome,) = await outcomes(client, asked)
        assert isinstance(outcome, Heard)
        assert not outcome.url_list

    run_with_false_clock(main())


@pytest.mark.proves("RES-04", "AMB-32")
@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_liar_is_silent_with_a_reason_and_others_are_heard(lie: str) -> None:
    async def main() -> None:
        liar = archive("liar", Conduct(BODY, lie=lie), 1)
        honest = archive("a", Conduct(BODY, after=0.1), 2)
        async with among(liar, honest) as (client, asked):
            found = {outcome.archive.address: outcome for outcome in await outcomes(client, asked)}
        silent = found["liar.example"]
        assert isinstance(silent, Silent)
        assert silent.garbled == (lie not in {"cut-off", "closes-after-head"})
        assert str(silent.why).isprintable()
        assert isinstance(found["a.example"], Heard)

    run_with_false_clock(main())


@pytest.mark.parametrize("manner", [Conduct(lie="silence"), Conduct(BODY, drip=0.1)], ids=["hangs", "drips"])
def test_who_hangs_or_drips_is_silent_at_the_deadline_and_delays_nobody(manner: Conduct) -> None:
    async def main() -> None:
        slow, well = archive("slow", manner, 1), archive("a", Conduct(BODY, after=0.05), 2)
        async with among(slow, well) as (client, asked):
            loop = asyncio.get_running_loop()
            began = loop.time()
            moments = {}
            async for outcome in ask_all(client, asked):
                moments[outcome.archive.address] = loop.time() - began
                assert isinstance(outcome, Heard) == (outcome.archive.address == "a.example")
        assert moments["a.example"] == pytest.approx(0.05, abs=0.02)
        assert moments["slow.example"] == pytest.approx(3.0, abs=0.02)

    run_with_false_clock(main())


def test_the_time_left_for_all_rounds_is_nobodys_to_exceed() -> None:
    async def main() -> None:
        async with among(archive("a", Conduct(lie="silence"))) as (client, asked):
            loop = asyncio.get_running_loop()
            began = loop.time()
            (outcome,) = await outcomes(client, asked, overall=0.7)
            assert isinstance(outcome, Silent)
            assert loop.time() - began == pytest.approx(0.7, abs=0.02)

    run_with_false_clock(main())


def test_what_came_in_time_and_cannot_be_read_in_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Reading.read

    async def read(desk: Reading, body: bytes) -> UrlList:
        await asyncio.sleep(2.0)
        return await slow(desk, body)

    monkeypatch.setattr(Reading, "read", read)

    async def main() -> None:
        long = b" ".join(b"name%d value" % number for number in range(500))
        async with among(archive("a", Conduct(long)), archive("b", Conduct(BODY))) as (client, asked):
            loop = asyncio.get_running_loop()
            began = loop.time()
            heard, left = await outcomes(client, asked, overall=0.7)
            assert loop.time() - began == pytest.approx(0.7 + READING, abs=0.02)
            assert isinstance(heard, Heard)
            assert isinstance(left, Silent)
            assert isinstance(left.why, NotRead)
            await asyncio.sleep(2.0)  # it is read all the same, and nobody listens

    run_with_false_clock(main())


def test_without_time_nobody_is_asked() -> None:
    async def main() -> None:
        one = archive("a", Conduct(BODY))
        async with among(one) as (client, asked):
            (outcome,) = await outcomes(client, asked, overall=-0.1)
        assert isinstance(outcome, Silent)
        assert one.connections == 0

    run_with_false_clock(main())


def test_an_archive_that_is_not_there_or_resets_is_silent() -> None:
    async def main() -> None:
        gone, resets = archive("gone", Conduct(), 1), archive("resets", Conduct(lie="reset"), 2)
        async with among(gone, resets, absent="gone") as (client, asked):
            found = await outcomes(client, asked)
        assert all(isinstance(outcome, Silent) and not outcome.garbled for outcome in found)

    run_with_false_clock(main())


def test_an_archive_at_a_forbidden_address_is_silent_and_is_not_contacted() -> None:
    async def main() -> None:
        inside = archive("inside", Conduct(BODY))
        inside.ip = "127.0.0.1"
        async with among(inside) as (client, asked):
            (outcome,) = await outcomes(client, asked)
        assert isinstance(outcome, Silent)
        assert "must not be contacted" in str(outcome.why)
        assert inside.connections == 0

    run_with_false_clock(main())


def test_nobody_to_ask_is_an_empty_round() -> None:
    async def main() -> None:
        async with among() as (client, asked):
            assert await outcomes(client, asked) == []

    run_with_false_clock(main())


@pytest.mark.proves("RES-03")
def test_who_answers_too_late_for_the_reader_cannot_tell() -> None:
    """The caller stops after the first answer; the others are neither cut short nor asked for longer (threat T06)."""

    async def main() -> None:
        first, second = archive("a", Conduct(BODY), 1), archive("b", Conduct(BODY, after=2.0), 2)
        hung = archive("c", Conduct(lie="silence"), 3)
        async with among(first, second, hung) as (client, asked):
            asking = ask_all(client, asked)
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
            assert not client._tasks

    run_with_false_clock(main())


def test_closing_the_client_ends_what_an_early_stop_has_left() -> None:
    async def main() -> None:
        hung = archive("c", Conduct(lie="silence"), 2)
        loop = asyncio.get_running_loop()
        async with among(archive("a", Conduct(BODY), 1), hung) as (client, asked):
            async for _ in ask_all(client, asked):
                break
            await asyncio.sleep(0.1)
            began = loop.time()
        assert loop.time() - began < 0.5

    run_with_false_clock(main())


def test_closing_the_client_also_ends_those_who_still_wait_for_a_place() -> None:
    async def main() -> None:
        async with among(archive("c", Conduct(lie="silence"))) as (client, asked):
            listening = [asyncio.create_task(outcomes(client, asked * 20)) for _ in range(3)]
            await asyncio.sleep(0.1)
            for listener in listening:
                listener.cancel()
            await asyncio.gather(*listening, return_exceptions=True)

    run_with_false_clock(main())


def test_a_caller_that_is_cancelled_leaves_nothing_for_longer_than_the_deadline() -> None:
    async def main() -> None:
        hung = archive("c", Conduct(lie="silence"))
        async with among(hung) as (client, asked):
            asking = asyncio.create_task(outcomes(client, asked))
            await asyncio.sleep(0.1)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asyncio.sleep(3.0)
            assert not client._tasks
            assert hung.closed_early == 1

    run_with_false_clock(main())


def test_two_hundred_archives_a_third_of_them_bad() -> None:
    async def main() -> None:
        manners = [
            Conduct(BODY, after=0.02),
            Conduct(b""),
            *(Conduct(BODY, lie=lie) for lie in ("reset", "html")),
        ]
        many = [
            archive(f"a{n}", manners[n % 4] if n % 10 else Conduct(lie="silence"), n % 250 + 1)
            for n in range(200)
        ]
        async with among(*many) as (client, asked):
            found = await outcomes(client, asked)
        assert len(found) == 200
        assert len({outcome.archive.address for outcome in found}) == 200
        kinds = Counter(type(outcome).__name__ for outcome in found)
        assert kinds == {"Heard": 90, "Silent": 110}

    run_with_false_clock(main())
