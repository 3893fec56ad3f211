"""What a resolver remembers from one resolution to the next, and what that spares: real sockets, a false clock."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from ibi.protocol.vocabulary import ItemState
from ibi.resolver.cache.hints import HintCache
from ibi.resolver.evidence.chain import Entry
from ibi.resolver.model.archive import Members
from ibi.resolver.resolve.breaker import FAILURES
from support.clock import run_with_false_clock
from support.resolver.running_resolver import Running, enter, resolver, until
from support.scripted_archive import Behaviour, ScriptedArchive

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

REP = "example.org/w@80/2020/01.02.00.00"
TARGET = f"/{REP}"
REUSABLE = ("Cache-Control: max-age=60",)


def answer_of(archive: str, state: str | None = "Original", *, reuse: bool = False, **more: str) -> bytes:
    """What an Archive of this name says about the item."""
    pairs = {
        "archiveaddress": f"{archive}.example",
        "ibi": f"{{rep {REP}}}",
        "ibi.archiveservice": f"{{rep example/{archive}/2020/01.01.00.00}}",
        **({"acknowledgment.batch": "yes"} if reuse else {}),
        **({"state": state} if state else {}),
        **(
            {"url": f"http://{archive}.example/x", "urlkey": "1234567890-1234567890"}
            if state != "Deleted"
            else {}
        ),
        **more,
    }
    return "\r\n".join(f"{name} {value}" for name, value in pairs.items()).encode()


def archive(name: str, body: bytes = b"", number: int = 1, **conduct: Any) -> ScriptedArchive:
    return ScriptedArchive(
        name,
        f"{name}.example",
        f"example/{name}/2020/01.01.00.00",
        f"127.77.0.{number}",
        script={(REP.lower(), (), ""): Behaviour(body, **conduct)},
    )


def play(
    data: Path,
    archives: Sequence[ScriptedArchive],
    scene: Callable[[Running], Awaitable[None]],
    **settings: Any,
) -> None:
    async def main() -> None:
        async with resolver(data, archives, **settings) as running:
            await scene(running)

    run_with_false_clock(main())


def place(running: Running) -> tuple[str | None, str | None]:
    return running.knows.hints.of(REP.lower())[:2]


def service(name: str) -> str:
    return f"example/{name}/2020/01.01.00.00"


async def learned(running: Running, hint: str, original: str | None) -> None:
    await until(lambda: place(running) == (service(hint), original and service(original)))


def question_counts(archives: Sequence[ScriptedArchive]) -> list[int]:
    return [len(each.questions) for each in archives]


@pytest.mark.proves("RES-04")
def test_the_second_reader_costs_one_question(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a")), archive("b", number=2), archive("c", number=3)]

    async def scene(running: Running) -> None:
        assert (await running.ask(TARGET)).location == "http://a.example/x"
        await learned(running, "a", "a")
        assert (await running.ask(TARGET)).location == "http://a.example/x"
        assert question_counts(cast) == [2, 1, 1]

    play(tmp_path, cast, scene)


def test_the_strict_policy_asks_all_archives_every_time(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a")), archive("b", number=2)]

    async def scene(running: Running) -> None:
        for _ in range(2):
            assert (await running.ask(TARGET)).location == "http://a.example/x"
        await running.acknowledged()
        assert question_counts(cast) == [2, 2]
        assert place(running) == (None, None)

    play(tmp_path, cast, scene, policy="strict")


def test_the_strict_policy_writes_down_a_removal_and_remembers_none(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a", "Deleted", timestamp="2020-02-03T04:05:06Z")), archive("b", number=2)]

    async def scene(running: Running) -> None:
        assert (await running.ask(TARGET)).status == 410
        assert await asyncio.to_thread(running.knows.evidence.flush)
        assert [entry.what for entry in running.knows.evidence.entries()] == ["deleted"]
        assert not running.knows.hints.says_removed(REP.lower(), cast[0].service)

    play(tmp_path, cast, scene, policy="strict")


@pytest.mark.proves("RES-08")
def test_a_request_that_requires_the_original_asks_all_archives(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a")), archive("b", number=2)]

    async def scene(running: Running) -> None:
        await running.ask(TARGET)
        await learned(running, "a", "a")
        await running.ask(f"{TARGET}?ibiurl.requireditemstatus=Original")
        assert question_counts(cast) == [2, 2]

    play(tmp_path, cast, scene)


@pytest.mark.proves("RES-05")
def test_a_wrong_hint_costs_one_question_and_is_then_right(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a", "Copy")), archive("b", number=2)]

    async def scene(running: Running) -> None:
        await running.ask(TARGET)
        await learned(running, "a", None)
        cast[0].script[REP.lower(), (), ""] = Behaviour(b"")
        cast[1].script[REP.lower(), (), ""] = Behaviour(answer_of("b"))
        assert (await running.ask(TARGET)).location == "http://b.example/x"
        assert question_counts(cast) == [2, 2]
        await learned(running, "b", "b")

    play(tmp_path, cast, scene)


def test_a_likely_holder_who_takes_long_is_not_waited_for_alone(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a", "Copy")), archive("b", answer_of("b", "Copy"), 2, after=0.01)]

    async def scene(running: Running) -> None:
        await running.ask(TARGET)
        await learned(running, "a", None)
        cast[0].script[REP.lower(), (), ""] = Behaviour(answer_of("a", "Copy"), after=2.0)
        began = asyncio.get_running_loop().time()
        assert (await running.ask(TARGET)).location == "http://b.example/x"
        assert asyncio.get_running_loop().time() - began == pytest.approx(0.11, abs=0.03)

    play(tmp_path, cast, scene)


def test_readers_of_a_slow_archive_delay_no_reader_of_another_one(tmp_path: Path) -> None:
    cast = [archive("a"), archive("b", answer_of("b"), 2)]
    slow = [f"example.org/w@80/2020/01.02.00.{second:02}" for second in range(1, 21)]
    for name in slow:
        cast[0].script[name, (), ""] = Behaviour(b"", after=2.0)

    async def scene(running: Running) -> None:
        running.knows.hints.remember(slow, likely=service("a"), original=service("a"))
        readers = [asyncio.create_task(running.ask(f"/{name}")) for name in slow]
        await asyncio.sleep(0.2)
        began = asyncio.get_running_loop().time()
        assert (await running.ask(TARGET)).location == "http://b.example/x"
        assert asyncio.get_running_loop().time() - began < 0.5
        await asyncio.gather(*readers)

    play(tmp_path, cast, scene)


@pytest.mark.parametrize(("after", "location"), [(0.15, "http://a.example/x"), (0.9, "http://b.example/x")])
def test_the_known_holder_is_preferred_to_a_faster_one_within_the_grace(
    tmp_path: Path, after: float, location: str
) -> None:
    cast = [archive("a", answer_of("a")), archive("b", answer_of("b", "Copy"), 2, after=0.02)]

    async def scene(running: Running) -> None:
        await running.ask(TARGET)
        await learned(running, "a", "a")
        cast[0].script[REP.lower(), (), ""] = Behaviour(answer_of("a"), after=after)
        assert (await running.ask(TARGET)).location == location
        explained = json.loads((await running.ask(f"/-/explain{TARGET}", "Accept: application/json")).body)
        assert ("known to hold" in explained["outcome"]["reason"]) == (location == "http://a.example/x")

    play(tmp_path, cast, scene)


def test_an_original_that_moved_is_followed_and_written_down(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a")), archive("b", number=2)]

    async def scene(running: Running) -> None:
        await running.ask(TARGET)
        await learned(running, "a", "a")
        # Nothing but its own word counts: "nothing known" may be a backup that was restored (T04).
        cast[0].script[REP.lower(), (), ""] = Behaviour(b"")
        cast[1].script[REP.lower(), (), ""] = Behaviour(answer_of("b"))
        await running.ask(TARGET)
        await learned(running, "b", "a")
        cast[0].script[REP.lower(), (), ""] = Behaviour(answer_of("a", "Deleted"))
        await running.ask(TARGET)
        await learned(running, "b", "b")
        await until(lambda: [entry.what for entry in entries(running)] == ["original", "migrated"])

    play(tmp_path, cast, scene)


def entries(running: Running) -> list[Entry]:
    return list(running.knows.evidence.entries())


def test_who_is_merely_faster_does_not_become_the_holder(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a")), archive("b", answer_of("b"), 2, after=0.02)]

    async def scene(running: Running) -> None:
        await running.ask(TARGET)
        await learned(running, "a", "a")
        cast[0].script[REP.lower(), (), ""] = Behaviour(lie="silence")
        assert (await running.ask(TARGET)).location == "http://b.example/x"
        await learned(running, "b", "a")

    play(tmp_path, cast, scene)


def test_two_originals_behind_a_copy_that_was_faster_are_written_down(tmp_path: Path) -> None:
    slow = [archive(name, answer_of(name), number, after=0.3) for number, name in enumerate("ab", 1)]
    cast = [*slow, archive("c", answer_of("c", "Copy"), 3)]

    async def scene(running: Running) -> None:
        assert (await running.ask(TARGET)).location == "http://c.example/x"
        await learned(running, "c", "")
        await until(lambda: entries(running))
        [found] = entries(running)
        assert found.facts["kind"] == "suspect-originals"
        assert sorted(str(found.facts["archives"]).split()) == [service("a"), service("b")]
        assert running.knows.disputes == 1

    play(tmp_path, cast, scene)


def test_an_original_that_is_heard_at_the_same_moment_as_the_copy_is_known_from_then_on(
    tmp_path: Path,
) -> None:
    copy, original = (f"example.org/w@80/2020/01.01.00.0{number}" for number in (1, 2))
    bodies = {
        name: answer_of("x", state, reuse=True).replace(service("x").encode(), name.encode())
        for name, state in ((copy, "Copy"), (original, "Original"))
    }
    cast = [
        ScriptedArchive(name[-1], f"x{name[-1]}.example", name, f"127.77.0.{name[-1]}") for name in bodies
    ]

    async def scene(running: Running) -> None:
        for (
            name,
            body,
        ) in bodies.items():  # both have the prefix, and both are answered from the cache at once
            running.knows.cache.put(name, f"{REP.lower()}  ", body, 60.0)
        await until(lambda: running.knows.cache.answer(original, f"{REP.lower()}  ") is not None)
        assert (await running.ask(TARGET)).location == "http://x.example/x"
        await until(lambda: place(running)[1] == original)

    play(tmp_path, cast, scene)


@pytest.mark.parametrize("modifier", ["", "!"])
def test_a_copy_that_was_faster_once_does_not_stand_for_its_original(tmp_path: Path, modifier: str) -> None:
    cast = [archive("a", answer_of("a"), after=0.5), archive("b", answer_of("b", "Copy"), 2)]
    verbs = ("GetLastEdition",) if modifier else ()

    def answers(name: str, state: str, after: float = 0.0) -> Behaviour:
        body = answer_of(name, state)
        if modifier:  # filtered: nothing is said of the item itself
            body = body.replace(b"state ", b"state.lastedition ").replace(b"url ", b"url.lastedition ")
        return Behaviour(body, after=after)

    async def scene(running: Running) -> None:
        cast[0].script[REP.lower(), verbs, ""] = answers("a", "Original", 0.5)
        cast[1].script[REP.lower(), verbs, ""] = answers("b", "Copy")
        assert (await running.ask(TARGET + modifier)).location == "http://b.example/x"
        await learned(running, "a", "a")
        assert [each.questions.count((REP.lower(), (), "")) for each in cast] == [1, 1]
        cast[0].script[REP.lower(), verbs, ""] = answers("a", "Original", 0.05)
        assert (await running.ask(TARGET + modifier)).location == "http://a.example/x"

    play(tmp_path, cast, scene)


def test_where_there_are_copies_only_the_original_is_looked_for_once_a_minute(tmp_path: Path) -> None:
    cast = [archive("a"), archive("b", answer_of("b", "Copy"), 2)]

    async def scene(running: Running) -> None:
        for _ in range(3):
            assert (await running.ask(TARGET)).location == "http://b.example/x"
            await asyncio.sleep(1.0)
        assert question_counts(cast) == [1, 3]
        await asyncio.sleep(60.0)
        await running.ask(TARGET)
        await asyncio.sleep(1.0)
        assert question_counts(cast) == [2, 4]

    play(tmp_path, cast, scene)


def test_while_the_known_holder_has_its_grace_no_other_archive_is_asked(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a")), archive("b", answer_of("b"), 2, after=0.02), archive("c", number=3)]

    async def scene(running: Running) -> None:
        await running.ask(TARGET)
        await learned(running, "a", "a")
        cast[0].script[REP.lower(), (), ""] = Behaviour(b"", status="500 Internal Server Error")
        await running.ask(TARGET)
        await learned(running, "b", "a")
        cast[0].script[REP.lower(), (), ""] = Behaviour(answer_of("a"), after=0.14)  # after hedge_seconds
        before = question_counts(cast)[2]
        assert (await running.ask(TARGET)).location == "http://a.example/x"
        assert question_counts(cast)[2] == before

    play(tmp_path, cast, scene)


@pytest.mark.parametrize(("seconds", "others"), [(0.05, 0), (0.15, 1)])
def test_all_archives_that_are_asked_first_are_heard_before_others_are_asked(
    tmp_path: Path, seconds: float, others: int
) -> None:
    cast = [archive("a", answer_of("a")), archive("b", number=2), archive("c", number=3)]

    async def scene(running: Running) -> None:
        await running.ask(TARGET)
        await learned(running, "a", "a")
        running.knows.note_changed([REP.lower()], service("b"))  # it was handed over
        await learned(running, "b", "a")
        cast[0].script.clear()
        cast[1].script[REP.lower(), (), ""] = Behaviour(answer_of("b"), after=seconds)
        before = question_counts(cast)[2]
        assert (await running.ask(TARGET)).location == "http://b.example/x"
        assert question_counts(cast)[2] == before + others

    play(tmp_path, cast, scene)


@pytest.mark.proves("SVC-20")
def test_an_answer_that_may_be_used_again_is_and_its_archive_is_acknowledged_for_every_reader(
    tmp_path: Path,
) -> None:
    cast = [archive("a", answer_of("a", reuse=True), headers=REUSABLE), archive("b", number=2)]

    async def scene(running: Running) -> None:
        await running.ask(TARGET)
        await until(lambda: running.knows.cache.answer(service("a"), f"{REP.lower()}  ") is not None)
        await learned(running, "a", "a")
        for _ in range(3):
            assert (await running.ask(TARGET)).location == "http://a.example/x"
        await running.acknowledged()
        assert question_counts(cast) == [1, 1]
        acknowledged = sum(int(pairs.get("acknowledgment.count", "1")) for pairs in cast[0].acknowledgments)
        assert acknowledged == running.acknowledgments.delivered == 4

    play(tmp_path, cast, scene)


@pytest.mark.parametrize(
    ("headers", "batch"),
    [
        ((), True),
        (REUSABLE, False),
        (("Cache-Control: max-age=60, no-store",), True),
        (("Cache-Control: private, max-age=60",), True),
        (("Cache-Control: max-age=0",), True),
        (("Cache-Control: max-age=-1",), True),
        (("Cache-Control: x-max-age=60",), True),
    ],
)
def test_an_answer_without_both_permissions_is_asked_for_anew(
    tmp_path: Path, headers: tuple[str, ...], batch: bool
) -> None:
    cast = [archive("a", answer_of("a", reuse=batch), headers=headers)]

    async def scene(running: Running) -> None:
        for _ in range(2):
            await running.ask(TARGET)
            await learned(running, "a", "a")
        assert question_counts(cast) == [2]

    play(tmp_path, cast, scene)


def test_while_its_archive_is_silent_an_older_answer_is_used(tmp_path: Path) -> None:
    moment = [1_700_000_000.0]
    cast = [archive("a", answer_of("a", reuse=True), headers=REUSABLE), archive("b", number=2)]

    async def scene(running: Running) -> None:
        await running.ask(TARGET)
        await until(lambda: running.knows.cache.answer(service("a"), f"{REP.lower()}  ") is not None)
        moment[0] += 3600
        cast[0].script[REP.lower(), (), ""] = Behaviour(lie="silence")
        began = asyncio.get_running_loop().time()
        assert (await running.ask(TARGET)).location == "http://a.example/x"
        assert asyncio.get_running_loop().time() - began == pytest.approx(1.6, abs=0.1)
        explained = json.loads((await running.ask(f"/-/explain{TARGET}", "Accept: application/json")).body)
        assert "is not responding now" in explained["outcome"]["reason"]
        demanded = await running.ask(f"{TARGET}?ibiurl.requireditemstatus=Original")
        assert demanded.status == 503
        moment[0] += 100_000
        assert (await running.ask(TARGET)).status == 503

    play(tmp_path, cast, scene, now=lambda: moment[0])


def test_an_explanation_shows_what_each_archive_answered_and_when(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a"), after=0.1), archive("b", answer_of("b", "Copy"), 2, after=0.3)]

    async def scene(running: Running) -> None:
        target = f"/-/explain{TARGET}?ibiurl.requireditemstatus=Original"
        explained = json.loads((await running.ask(target, "Accept: application/json")).body)
        [trace] = explained["rounds"]
        facts = [
            (each["address"], each["milliseconds"], each["pairs"]["url"]) for each in trace["statements"]
        ]
        assert facts == [("a.example", 100, "http://a.example/x"), ("b.example", 300, "http://b.example/x")]
        assert (explained["milliseconds"], explained["outcome"]["location"]) == (300, "http://a.example/x")

    play(tmp_path, cast, scene)


@pytest.mark.proves("RES-13")
def test_a_negative_answer_is_cached_for_a_minute_and_no_longer(tmp_path: Path) -> None:
    moment = [1_700_000_000.0]
    cast = [archive("a"), archive("b", number=2)]

    async def scene(running: Running) -> None:
        for _ in range(3):
            assert (await running.ask(TARGET)).status == 404
            await until(lambda: running.knows.cache.is_not_known(_absence(running)))
        assert question_counts(cast) == [1, 1]
        moment[0] += 61
        cast[1].script[REP.lower(), (), ""] = Behaviour(answer_of("b"))
        assert (await running.ask(TARGET)).location == "http://b.example/x"

    play(tmp_path, cast, scene, now=lambda: moment[0])


def _absence(running: Running) -> str:
    return f"{REP.lower()}   {Members.of(running.registry.archives(), probation=True).version}"


@pytest.mark.parametrize("modifier", ["!", "+"])
def test_what_may_come_into_being_at_any_moment_is_not_remembered_as_absent(
    tmp_path: Path, modifier: str
) -> None:
    cast = [archive("a")]

    async def scene(running: Running) -> None:
        for count in (1, 2, 3):
            assert (await running.ask(f"{TARGET}{modifier}")).status == 404
            assert len(cast[0].questions) >= count

    play(tmp_path, cast, scene)


def test_what_was_not_heard_of_all_is_not_remembered_as_absent(tmp_path: Path) -> None:
    cast = [archive("a"), archive("b", b"", 2, lie="reset")]

    async def scene(running: Running) -> None:
        for count in (1, 2):
            assert (await running.ask(TARGET)).status == 503
            assert question_counts(cast) == [count, count]

    play(tmp_path, cast, scene)


def test_readers_who_come_together_share_their_questions(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a"), after=0.05)]

    async def scene(running: Running) -> None:
        answers = await asyncio.gather(*(running.ask(TARGET) for _ in range(20)))
        assert {answer.location for answer in answers} == {"http://a.example/x"}
        assert question_counts(cast) == [1]
        await running.acknowledged()
        assert running.acknowledgments.delivered == 20

    play(tmp_path, cast, scene)


@pytest.mark.proves("REG-05")
def test_an_archive_on_probation_delays_no_reader_and_counts_when_it_has_answered(
    tmp_path: Path,
) -> None:
    cast = [archive("a", b"", after=0.1), archive("new", answer_of("new"), 2)]

    cast[1].manner = Behaviour(lie="silence")

    async def scene(running: Running) -> None:
        enter(running.registry, cast[1], confirmed=False)
        assert (await running.ask(TARGET)).location == "http://new.example/x"
        began = asyncio.get_running_loop().time()
        for number in range(
            5
        ):  # an item is not reported as missing before this Archive was heard, or given up
            assert (await running.ask(f"/example.org/w@80/2020/01.02.00.1{number}")).status == 503
            assert asyncio.get_running_loop().time() - began < 2 * (number + 1)
        await asyncio.sleep(6)  # its last answers are overdue, and that to the question of the resolver's own
        assert (await running.ask("/example.org/w@80/2020/01.02.00.16")).status == 404

    play(tmp_path, cast, scene)


def test_one_on_probation_whose_circuit_stays_open_is_waited_for_no_longer_than_its_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibi.resolver.resolve.breaker.OPEN_SECONDS", 0.2)
    monkeypatch.setattr("ibi.resolver.resolve.breaker.SOON", 0.2)
    cast = [archive("a"), archive("new", number=2)]
    cast[1].script, cast[1].manner = {}, Behaviour(lie="reset", after=0.2)

    async def scene(running: Running) -> None:
        enter(running.registry, cast[1], confirmed=False)
        for number in range(FAILURES):
            assert (await running.ask(f"/example.org/w@80/2020/01.02.00.1{number}")).status == 503
        await asyncio.sleep(0.5)
        began = asyncio.get_running_loop().time()
        assert (await running.ask("/example.org/w@80/2020/01.02.00.19")).status == 404
        assert asyncio.get_running_loop().time() - began < 1.0  # stale_after_seconds is 1.6

    play(tmp_path, cast, scene)


@pytest.mark.proves("RES-13")
def test_a_removal_by_the_known_holder_is_reported_although_another_archive_is_silent(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a")), archive("b", b"", 2)]

    async def scene(running: Running) -> None:
        await running.ask(TARGET)
        await learned(running, "a", "a")
        gone = answer_of("a", ItemState.DELETED.value, timestamp="2020-01-02T03:04:05Z")
        cast[0].script[REP.lower(), (), ""] = Behaviour(gone)
        cast[1].script[REP.lower(), (), ""] = Behaviour(lie="reset")
        assert (await running.ask(TARGET)).status == 410
        await until(lambda: [entry.what for entry in entries(running)] == ["original", "deleted"])

    play(tmp_path, cast, scene)


@pytest.mark.proves("RES-13")
def test_of_several_that_have_removed_an_item_its_known_holder_counts(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a")), archive("b", b"", 2)]

    async def scene(running: Running) -> None:
        await running.ask(TARGET)
        await learned(running, "a", "a")
        for each, after in zip(cast, (0.05, 0.0), strict=True):
            gone = answer_of(each.name, ItemState.DELETED.value, timestamp="2020-01-02T03:04:05Z")
            each.script[REP.lower(), (), ""] = Behaviour(gone, after=after)
        assert (await running.ask(f"{TARGET}?ibiurl.requireditemstatus=Original")).status == 410
        await until(lambda: running.knows.hints.of(REP.lower()).removed)

    play(tmp_path, cast, scene)


def test_a_removal_by_another_archive_is_not_believed_while_one_is_silent(tmp_path: Path) -> None:
    cast = [
        archive("a", answer_of("a", "Deleted", timestamp="2020-01-02T03:04:05Z")),
        archive("b", b"", 2, lie="reset"),
    ]

    async def scene(running: Running) -> None:
        assert (await running.ask(TARGET)).status == 503

    play(tmp_path, cast, scene)


@pytest.mark.proves("RES-08")
def test_two_claims_are_told_with_who_was_first_and_whom_to_write_to(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a")), archive("b", b"", 2)]

    async def scene(running: Running) -> None:
        await running.ask(TARGET)
        await learned(running, "a", "a")
        cast[1].script[REP.lower(), (), ""] = Behaviour(answer_of("b"))
        answer = await running.ask(f"{TARGET}?ibiurl.requireditemstatus=Original", "Accept: application/json")
        problem = json.loads(answer.body)
        assert (answer.status, problem["first"], problem["contact"]) == (
            409,
            service("a"),
            "keeper@urlib.example",
        )
        assert sorted(problem["about"]) == [service("a"), service("b")]
        await until(lambda: "alert" in {entry.what for entry in entries(running)})
        (alert,) = [entry.facts for entry in entries(running) if entry.what == "alert"]
        assert alert["disputed"] == REP.lower()

    play(tmp_path, cast, scene, admin="keeper@urlib.example")


def test_a_reader_beyond_the_rate_gets_429_unless_the_answer_is_cached(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a", reuse=True), headers=REUSABLE)]

    async def scene(running: Running) -> None:
        await running.ask(TARGET)
        await learned(running, "a", "a")
        await until(lambda: running.knows.cache.answer(service("a"), f"{REP.lower()}  ") is not None)
        assert {(await running.ask(TARGET)).status for _ in range(10)} == {302}
        answers = [await running.ask(f"/example.org/w@80/2020/01.02.00.{n}") for n in range(10, 20)]
        assert {answer.status for answer in answers} == {404, 429}
        refused = [one for one in answers if one.status == 429]
        assert int(refused[0].headers["retry-after"]) >= 1
        metrics = (await running.ask("/-/metrics")).body.decode()
        assert f'ibi_resolver_resolutions_total{{outcome="too-many"}} {len(refused)}.0\n' in metrics

    play(tmp_path, cast, scene, request_rate=0.5, request_burst=4)


def test_what_was_learned_survives_the_process(tmp_path: Path) -> None:
    cast = [archive("a", answer_of("a")), archive("b", number=2)]

    async def first(running: Running) -> None:
        await running.ask(TARGET)
        await learned(running, "a", "a")

    play(tmp_path, cast, first)
    hints = HintCache(tmp_path / "hints")
    assert hints.of(REP.lower()) == (service("a"), service("a"), False, False)
    hints.close()
