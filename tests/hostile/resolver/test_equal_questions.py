"""Many readers of one name at the same moment: what each Archive is asked, and what no reader may get (T20, T29).

Real sockets and a false clock: a resolver behind a proxy that it trusts, so each reader has an address of its own, and
Archives that count what they are asked.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from support.clock import run_with_false_clock
from support.resolver.running_resolver import LOOPBACK, Answer, Running, resolver
from support.scripted_archive import Behaviour, ReceivedRequest, ScriptedArchive

REP = "example.org/w@80/2020/01.02.00.00"
TARGET = f"/{REP}"
REUSABLE = ("Cache-Control: max-age=60",)
SLOW = 2.5
"""Seconds that a slow holder takes: less than a resolver waits, more than half of it."""


def service(name: str) -> str:
    return f"example/{name}/2020/01.01.00.00"


def url_list(name: str, url: str, *, reuse: bool) -> bytes:
    pairs = {
        "archiveaddress": f"{name}.example",
        "ibi": f"{{rep {REP}}}",
        "ibi.archiveservice": f"{{rep {service(name)}}}",
        "state": "Original",
        "url": url,
        "urlkey": "1234567890-1234567890",
        **({"acknowledgment.batch": "yes"} if reuse else {}),
    }
    return "\r\n".join(f"{name} {value}" for name, value in pairs.items()).encode()


class Holder(ScriptedArchive):
    """Holds the item; its answer takes `after` seconds.

    Where it is not `open`, each reader gets a URL of its own; `refuses` are addresses whose questions it answers with
    431; while it is `empty`, it has nothing.
    """

    def __init__(self, name: str = "a", after: float = 0.0, *, is_open: bool = True, number: int = 1) -> None:
        super().__init__(name, f"{name}.example", service(name), f"127.78.0.{number}")
        self.after = after
        self.is_open = is_open
        self.refuses: frozenset[str] = frozenset()
        self.empty = False

    def behaviour_for(self, request: ReceivedRequest) -> Behaviour:
        if request.pairs.get("servicesubject") != "urlRequest":
            return super().behaviour_for(request)
        reader = request.pairs["clientinformation.ipaddress"].split()[0]
        if reader in self.refuses:
            return Behaviour(after=self.after, status="431 Request Header Fields Too Large")
        if self.empty:
            return Behaviour()
        if self.is_open:
            body = url_list(self.name, f"http://{self.name}.example/x", reuse=True)
            return Behaviour(body, self.after, headers=REUSABLE)
        return Behaviour(url_list(self.name, f"http://{self.name}.example/{reader}", reuse=False), self.after)


def others(count: int = 3) -> list[ScriptedArchive]:
    names = [f"other{number}" for number in range(count)]
    return [
        ScriptedArchive(name, f"{name}.example", service(name), f"127.78.1.{number + 1}")
        for number, name in enumerate(names)
    ]


def reader(number: int) -> str:
    """An address in a network (/24) of its own."""
    return str(ipaddress.ip_address("203.0.0.7") + 256 * number)


async def read(running: Running, address: str, after: float = 0.0) -> Answer:
    await asyncio.sleep(after)
    return await running.ask(TARGET, f"X-Forwarded-For: {address}")


def play(
    data: Path, archives: Sequence[ScriptedArchive], scene: Callable[[Running], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with resolver(data, archives, trusted=[LOOPBACK]) as running:
            await scene(running)

    run_with_false_clock(main())


def counts(archives: Sequence[ScriptedArchive]) -> list[int]:
    return [len(each.questions) for each in archives]


def acknowledged(archive: ScriptedArchive) -> int:
    return sum(int(each.get("acknowledgment.count", "1")) for each in archive.acknowledgments)


def test_a_thousand_readers_of_one_name_ask_each_archive_at_most_twice(tmp_path: Path) -> None:
    archives = [Holder(after=SLOW), *others()]

    async def scene(running: Running) -> None:
        answers = await asyncio.gather(*(read(running, reader(number)) for number in range(1000)))
        assert {answer.location for answer in answers} == {"http://a.example/x"}
        assert max(counts(archives)) <= 2
        await running.acknowledged()
        assert acknowledged(archives[0]) == running.acknowledgments.delivered == 1000

    play(tmp_path, archives, scene)


def test_equal_readers_join_the_whole_round_with_what_was_heard_in_it(tmp_path: Path) -> None:
    archives = [Holder(after=SLOW), *others()]

    async def scene(running: Running) -> None:
        answers = await asyncio.gather(*(read(running, reader(0), number / 100) for number in range(200)))
        assert {answer.location for answer in answers} == {"http://a.example/x"}
        assert max(counts(archives)) <= 2

    play(tmp_path, archives, scene)


def test_an_answer_for_one_reader_reaches_no_other_and_each_is_asked_for_in_turn(tmp_path: Path) -> None:
    archives = [Holder(after=0.2, is_open=False), *others()]
    holder, readers = archives[0], [reader(number) for number in range(200)]

    async def scene(running: Running) -> None:
        for _ in range(2):  # the second time it is known that the answer depends on the reader
            holder.received.clear()
            answers = await asyncio.gather(*(read(running, each) for each in readers))
            assert [answer.location for answer in answers] == [f"http://a.example/{each}" for each in readers]
            assert len(holder.questions) == len(readers)

    play(tmp_path, archives, scene)


def test_what_an_archive_refuses_to_one_reader_is_asked_for_the_others(tmp_path: Path) -> None:
    holder = Holder(after=0.3)
    archives = [holder, *others()]
    holder.refuses = frozenset({reader(0)})

    async def scene(running: Running) -> None:
        first = asyncio.create_task(read(running, reader(0)))
        answers = await asyncio.gather(*(read(running, reader(number), 0.05) for number in range(1, 200)))
        assert (await first).status == 503
        assert {answer.location for answer in answers} == {"http://a.example/x"}
        assert len(holder.questions) <= 2 * 8 * len(archives)  # not all at once

    play(tmp_path, archives, scene)


def test_readers_after_a_change_do_not_join_a_question_from_before_it(tmp_path: Path) -> None:
    holder, late = Holder(after=1.0), Holder("late", 0.0, number=2)
    late.empty = True
    archives = [holder, late]

    async def scene(running: Running) -> None:
        before = asyncio.create_task(read(running, reader(0)))
        await asyncio.sleep(0.3)  # the other Archive has said that it has nothing, and deposits the item now
        late.empty = False
        await asyncio.to_thread(running.knows.cache.forget_changed, service("late"), [REP.lower()])
        assert (await read(running, reader(1))).location == "http://late.example/x"
        assert (await before).location == "http://a.example/x"
        assert counts(archives) == [1, 2]

    play(tmp_path, archives, scene)
