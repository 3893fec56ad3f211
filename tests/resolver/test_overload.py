"""When too much is under way here: nobody is asked in vain, nobody is blamed, and looks are shared."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.protocol.verb_list import VerbList
from ibi.resolver.fanout import FanOut, Times
from ibi.resolver.health import FAILURES, Health
from ibi.resolver.memory import Memory
from ibi.resolver.metrics import Metrics
from ibi.resolver.plan import Members, everybody
from ibi.resolver.questions import Questions
from ibi.resolver.turns import Turns
from resolver.running import resolver
from resolver.scripted import BODY, Known, among, archive
from support.archives import Conduct
from support.clock import run_with_false_clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ibi.resolver.registry import IncludedArchive
    from ibi.transport import Client

TIMES = Times(per_archive=3.0)


@asynccontextmanager
async def questions(client: Client, health: Health) -> AsyncIterator[Questions]:
    with tempfile.TemporaryDirectory() as folder:
        memory, metrics = Memory(Path(folder) / "memory", lambda: 1e9), Metrics(Path(folder))
        yield Questions(client, health, memory, metrics, lambda: 1e9)
        memory.close()
        metrics.close()


def fan_out(asking: Questions, asked: Sequence[Known], number: int, left: float) -> FanOut[Known]:
    members = Members.of(asked, probation=False)
    item = parse_ibi(f"example.org/a/2020/01.02.00.{number:02}")
    request = UrlRequest(("192.0.2.1",), item, verbs=VerbList(()))
    return FanOut(
        asking, everybody(members), lambda: members, request, TIMES, left=left, origin=f"192.0.2.{number}"
    )


def test_silence_in_less_than_half_the_time_is_not_held_against_an_archive() -> None:
    async def main() -> None:
        async with among(archive("a", Conduct(lie="silence"))) as (client, asked):
            service = asked[0].service_ibi.canonical
            health = Health()
            async with questions(client, health) as asking:
                for number in range(2 * FAILURES):
                    hurried = fan_out(asking, asked, number, left=1.0)
                    while not hurried.over:
                        await hurried.next()
                assert health.trouble(service) is None
                patient = fan_out(asking, asked, 30, left=5.0)
                while not patient.over:
                    await patient.next()
                trouble = health.trouble(service)
                assert trouble is not None
                assert trouble.failures == 1

    run_with_false_clock(main())


def test_whose_turn_comes_too_late_is_refused_and_nobody_is_asked() -> None:
    async def main() -> None:
        one = archive("a", Conduct(BODY))
        async with among(one) as (client, asked), questions(client, Health()) as asking:
            busy = 10**6
            asking.turns = Turns(lambda: busy)
            early, late = fan_out(asking, asked, 1, left=5.0), fan_out(asking, asked, 2, left=4.0)
            await asyncio.sleep(3.0)
            busy = 0
            asking.turns.look()  # it is the turn of both; one has two seconds left, the other a single one
            assert (early.refused, len(early.asked)) == (False, 1)
            assert (late.refused, late.asked) == (True, [])
            while not early.over:
                await early.next()
        assert len(one.told) == 1

    run_with_false_clock(main())


def test_who_is_included_is_looked_up_once_in_a_turn_of_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        async with resolver(tmp_path) as running:
            rounds = running.service._readers._rounds
            looks, archives = 0, rounds._archives

            def counted() -> Sequence[IncludedArchive]:
                nonlocal looks
                looks += 1
                return archives()

            rounds._archives = counted
            for turn in range(1, 4):
                for _ in range(10):
                    rounds._who()
                assert looks == turn
                await asyncio.sleep(0)
                await asyncio.sleep(0)

    asyncio.run(main())


def test_what_many_archives_said_is_looked_up_at_once_as_for_each(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory", lambda: 1e9)
    question, names = "item/1 getUrl", [f"archive/{number}" for number in range(6)]
    for name in names[:4]:
        memory.keep(name, question, name.encode(), 60.0)
    memory.forget("archive/1", "item/1")
    for settled in (False, True):
        if settled:
            memory.close()
            memory = Memory(tmp_path / "memory", lambda: 1e9)
        found = memory.answers(names, question)
        assert {name: kept.body for name, kept in found.items()} == {
            name: name.encode() for name in ("archive/0", "archive/2", "archive/3")
        }
        assert all(memory.answer(name, question) == found.get(name) for name in names)
        assert memory.answers(names, "item/2 getUrl") == {}
    memory.close()
