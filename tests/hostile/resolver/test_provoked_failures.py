"""What readers can provoke at an Archive opens no circuit breaker; what happens to the Archive itself does.

A resolver on a real socket, and a scripted Archive that fails at one item as it is told.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.http_answers import answer
from support.resolver.running_resolver import Running, resolver
from support.scripted_archive import Behaviour, Question, ScriptedArchive

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

SERVICE = "holder.example/w/2020/01.01.00.00"
ODD = "holder.example/w/2020/01.02.00.00"
OTHER = "other.example/w/2020/01.01.00.00"
WELL = "holder.example/w/2020/01.03.00.00"
FAST: dict[str, Any] = {
    "archive_seconds": 0.6,  # a probe must be answered in this time, also while other tests run
    "overall_seconds": 2.0,
    "stale_after_seconds": 0.2,
    "request_rate": 0,
}


def url_list(item: str, *more: str) -> bytes:
    lines = [
        "archiveaddress holder.example",
        f"ibi {{rep {item}}}",
        f"ibi.archiveservice {{rep {SERVICE}}}",
        "state Copy",
        "url http://far.example/x",
        "urlkey 1234567890-1234567890",
        *more,
    ]
    return "\r\n".join(lines).encode()


def holder(odd: Behaviour) -> ScriptedArchive:
    script: dict[Question, Behaviour] = {(ODD, (), f"/{number}"): odd for number in range(12)}
    script[WELL, (), ""] = Behaviour(url_list(WELL))
    return ScriptedArchive("holder", "holder.example", SERVICE, script=script)


def play(data: Path, archive: ScriptedArchive, scene: Callable[[Running], Awaitable[None]]) -> None:
    async def main() -> None:
        async with resolver(data, [archive], **FAST) as running:
            await scene(running)

    asyncio.run(main())


def refusal(status: str) -> Behaviour:
    return Behaviour(pieces=[answer(b"error {no}", status=status)], closes=True)


PROVOKED = {
    "400": refusal("400 Bad Request"),
    "413": refusal("413 Content Too Large"),
    "414": refusal("414 URI Too Long"),
    "429": refusal("429 Too Many Requests"),
    "431": refusal("431 Request Header Fields Too Large"),
    "404": refusal("404 Not Found"),
    "500": refusal("500 Internal Server Error"),
    "busy": Behaviour(b"error {later}", status="503 Service Unavailable", headers=("Retry-After: 20",)),
    "too-large": Behaviour(url_list(ODD, *(f"url.translation(a{n}) {'x' * 60}" for n in range(4_000)))),
    "too-many-pairs": Behaviour(url_list(ODD, *(f"p{n} v" for n in range(5_000)))),
    "garbled": Behaviour(b"<html>"),
    "closes": Behaviour(lie="cut-off", body=url_list(ODD)),
    "reset": Behaviour(lie="reset"),
    "silence": Behaviour(lie="silence"),
}


@pytest.mark.parametrize("manner", PROVOKED)
def test_what_one_item_provokes_silences_no_other(tmp_path: Path, manner: str) -> None:
    archive = holder(PROVOKED[manner])

    async def scene(running: Running) -> None:
        for first in (0, 6):
            odd = await asyncio.gather(*(running.ask(f"/{ODD}/{n}") for n in range(first, first + 6)))
            assert {each.status for each in odd} == {503}
            assert (await running.ask(f"/{WELL}")).status == 302
        await asyncio.sleep(0.5)  # questions of the resolver's own have their answers
        assert (await running.ask(f"/{WELL}")).status == 302

    play(tmp_path, archive, scene)
    tell_of_the_question = {"400", "413", "414", "429", "431", "too-large", "too-many-pairs"}
    assert ((SERVICE, (), "") in archive.questions) == (manner not in tell_of_the_question)


async def opened(running: Running, archive: ScriptedArchive) -> None:
    """Ask until the Archive is asked no more."""
    async with asyncio.timeout(10):
        before = -1
        while before != len(archive.questions):
            before = len(archive.questions)
            assert (await running.ask(f"/{WELL}?{before}")).status == 503


def test_an_archive_that_hangs_altogether_is_no_longer_queried_after_a_question_of_the_resolvers_own(
    tmp_path: Path,
) -> None:
    archive = holder(Behaviour())
    archive.script, archive.manner = {}, Behaviour(lie="silence")

    async def scene(running: Running) -> None:
        await opened(running, archive)
        assert archive.questions.count((SERVICE, (), "")) == 1
        assert len(archive.questions) <= 5 + 1 + 2  # two more while that question was waited for
        began = time.monotonic()
        assert (await running.ask(f"/{WELL}")).status == 503
        assert time.monotonic() - began < 0.2

    play(tmp_path, archive, scene)


def test_failed_connections_open_the_breaker_at_once(tmp_path: Path) -> None:
    archive = holder(Behaviour())

    async def scene(running: Running) -> None:
        archive.stop_listening()
        archive.drop_all()
        for number in range(5):
            assert (await running.ask(f"/{WELL}?{number}")).status == 503
        status = (await running.ask("/-/status", "Accept: application/json")).body
        assert b'"asleep": 1' in status

    play(tmp_path, archive, scene)


def test_an_archive_that_asks_for_a_pause_gets_it_and_not_more(tmp_path: Path) -> None:
    archive = holder(Behaviour())
    well = archive.script
    later = Behaviour(b"error {later}", status="429 Too Many Requests", headers=("Retry-After: 2",))
    archive.script, archive.manner = {}, later

    async def scene(running: Running) -> None:
        await opened(running, archive)
        archive.script, archive.manner = well, Behaviour()
        queried = len(archive.questions)
        assert (await running.ask(f"/{WELL}")).status == 503
        assert len(archive.questions) == queried
        await asyncio.sleep(2.1)
        assert (await running.ask(f"/{WELL}")).status == 302

    play(tmp_path, archive, scene)


def test_no_odd_question_keeps_a_healed_archive_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibi.resolver.resolve.breaker.OPEN_SECONDS", 0.4)
    monkeypatch.setattr("ibi.resolver.resolve.breaker.CHECK_EVERY", 0.4)
    monkeypatch.setattr("ibi.resolver.resolve.breaker.SOON", 0.4)
    archive = holder(Behaviour(lie="reset"))
    well = archive.script
    archive.script, archive.manner = {}, Behaviour(lie="reset")

    async def scene(running: Running) -> None:
        await opened(running, archive)
        archive.script, archive.manner = well, Behaviour()
        await asyncio.sleep(0.5)
        assert (await running.ask(f"/{ODD}/1")).status == 503  # the first one after the pause
        assert (await running.ask(f"/{WELL}")).status == 302

    play(tmp_path, archive, scene)


@pytest.mark.parametrize(
    "lie",
    [url_list(WELL).replace(SERVICE.encode(), OTHER.encode()), url_list("liar.example/w/2020/01.01.00.00")],
    ids=["of another Archive", "about another item"],
)
def test_an_archive_that_is_never_believed_makes_no_absence_uncertain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: bytes
) -> None:
    monkeypatch.setattr("ibi.resolver.resolve.breaker.OPEN_SECONDS", 0.5)
    monkeypatch.setattr("ibi.resolver.resolve.breaker.CHECK_EVERY", 0.5)
    archive = holder(Behaviour())
    other = ScriptedArchive("other", "other.example", OTHER, "127.77.0.2", script={}, manner=Behaviour())
    own, right = (SERVICE, (), ""), Behaviour(url_list(SERVICE))
    archive.script[WELL, (), ""] = Behaviour(url_list(WELL).replace(b"state Copy", b"state Original"))
    wrong, nothing = Behaviour(lie), Behaviour()

    async def expect(running: Running, target: str, status: int) -> None:
        async with asyncio.timeout(20):
            while (await running.ask(target)).status != status:  # noqa: ASYNC110 - as a reader tries again
                await asyncio.sleep(0.1)

    async def scene() -> None:
        async with resolver(tmp_path, [archive, other], **FAST, negative_seconds=0) as running:
            assert (await running.ask(f"/{WELL}")).status == 302  # from now on it is known to hold this
            archive.script = {own: right, **{(ODD, (), f"/{number}"): wrong for number in range(3)}}
            for number in range(3):  # odd answers to readers alone prove nothing
                assert (await running.ask(f"/{ODD}/{number}")).status == 503
            assert archive.questions.count(own) == 1
            archive.script, archive.manner = (
                {own: right},
                wrong,
            )  # it lies about items that none has
            await asyncio.sleep(0.5)
            await expect(running, f"/{ODD}", 404)
            assert (await running.ask(f"/{WELL}/none")).status == 503
            archive.script, archive.manner = {}, wrong
            await asyncio.sleep(0.5)
            await expect(running, f"/{ODD}", 404)
            archive.script, archive.manner = {own: right, (ODD, (), ""): Behaviour(url_list(ODD))}, nothing
            await expect(running, f"/{ODD}", 302)

    asyncio.run(scene())


@pytest.mark.parametrize(
    "lie",
    [url_list(WELL).replace(SERVICE.encode(), OTHER.encode()), url_list(ODD)],
    ids=["of another Archive", "about another item"],
)
def test_a_reusable_answer_that_is_not_believed_is_not_used_again(tmp_path: Path, lie: bytes) -> None:
    """One answer is wrong, and the Archive is sound by then: the next reader gets what it answers now."""
    archive = holder(Behaviour())
    archive.script[SERVICE, (), ""] = Behaviour(url_list(SERVICE))
    reusable = ("Cache-Control: max-age=3600",)
    question = WELL, (), ""
    archive.script[question] = Behaviour(lie + b"\r\nacknowledgment.batch yes", headers=reusable)

    async def scene(running: Running) -> None:
        assert (await running.ask(f"/{WELL}")).status == 503
        archive.script[question] = Behaviour(url_list(WELL, "acknowledgment.batch yes"), headers=reusable)
        assert (await running.ask(f"/{WELL}")).location == "http://far.example/x"
        assert archive.questions.count(question) == 2
        assert (await running.ask(f"/{WELL}")).location == "http://far.example/x"
        assert archive.questions.count(question) == 2  # a right answer is used again

    play(tmp_path, archive, scene)


def test_a_late_answer_of_another_archive_does_not_close_the_circuit_that_was_opened_against_it(
    tmp_path: Path,
) -> None:
    archive = holder(Behaviour())
    other = ScriptedArchive("other", "other.example", OTHER, "127.77.0.2", script={}, manner=Behaviour())
    wrong = url_list(WELL).replace(SERVICE.encode(), OTHER.encode())
    archive.script, archive.manner = {(ODD, (), "/9"): Behaviour(wrong, after=0.25)}, Behaviour(wrong)

    async def scene() -> None:
        async with resolver(tmp_path, [archive, other], **FAST, negative_seconds=0) as running:
            late = asyncio.create_task(running.ask(f"/{ODD}/9"))
            await asyncio.sleep(0.05)
            assert (
                await running.ask(f"/{ODD}/1")
            ).status == 503  # now a question of the resolver's own is asked
            assert (await late).status == 503
            assert archive.questions.count((SERVICE, (), "")) == 1
            for number in range(2, 5):
                assert (await running.ask(f"/{ODD}/{number}")).status == 404

    asyncio.run(scene())
