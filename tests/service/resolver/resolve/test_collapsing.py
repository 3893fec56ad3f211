"""Which answers to one reader's question another reader is given, and for how long: real sockets, a false clock."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ibi.http.limits import fair_queue
from ibi.identifier.forms import parse_ibi
from support.clock import run_with_false_clock
from support.resolver.running_resolver import LOOPBACK, Running, resolver
from support.scripted_archive import Behaviour, ScriptedArchive

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    import pytest

    from support.resolver.running_resolver import Answer

ITEM = "example.org/w@80/2020/01.02.00.00"
OTHER = "example.org/w@80/2020/01.02.00.01"
SILENT = Behaviour(lie="silence")
FIRST, SECOND = "203.0.113.1", "198.51.100.2"


def service(name: str) -> str:
    return f"example/{name}/2020/01.01.00.00"


def holds(name: str, item: str, after: float = 0.0, *, reuse: bool = False) -> Behaviour:
    pairs = {
        "ibi": f"{{rep {item}}}",
        "ibi.archiveservice": f"{{rep {service(name)}}}",
        "state": "Original",
        "url": f"http://{name}.example/x",
        "urlkey": "1234567890-1234567890",
        **({"acknowledgment.batch": "yes"} if reuse else {}),
    }
    body = "\r\n".join(f"{name} {value}" for name, value in pairs.items()).encode()
    return Behaviour(body, after, headers=("Cache-Control: max-age=60",) if reuse else ())


def archive(name: str, number: int, item: Behaviour | None = None) -> ScriptedArchive:
    """It answers about ITEM as `item` says, and knows nothing else."""
    made = ScriptedArchive(name, f"{name}.example", service(name), f"127.79.0.{number}")
    if item is not None:
        made.script[ITEM, (), ""] = item
    return made


def play(
    data: Path, archives: Sequence[ScriptedArchive], scene: Callable[[Running], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with resolver(data, archives, trusted=[LOOPBACK]) as running:
            await scene(running)

    run_with_false_clock(main())


async def ask(running: Running, address: str, after: float = 0.0, item: str = ITEM) -> Answer:
    await asyncio.sleep(after)
    return await running.ask(f"/{item}", f"X-Forwarded-For: {address}")


def query_counts(*archives: ScriptedArchive, item: str = ITEM) -> list[int]:
    return [sum(name == item for name, _, _ in each.questions) for each in archives]


def test_that_an_archive_knows_nothing_is_told_to_others_no_longer_than_it_may_take(tmp_path: Path) -> None:
    hangs, empty = archive("hangs", 1, SILENT), archive("empty", 2)

    async def scene(running: Running) -> None:
        readers = [
            asyncio.create_task(ask(running, f"203.0.{number}.1", after))
            for number, after in enumerate((0.0, 1.0, 1.6, 2.9, 3.3))
        ]
        await asyncio.sleep(3.2)
        # Who came at 1.0 s and at 2.9 s joined; at 1.6 s too little time was left for that.
        assert query_counts(hangs, empty) == [2, 1]
        await asyncio.gather(*readers)
        assert query_counts(hangs, empty) == [3, 2]

    play(tmp_path, [hangs, empty], scene)


def test_an_archive_whose_answers_depend_on_the_reader_is_asked_for_each(tmp_path: Path) -> None:
    hangs, closed = archive("hangs", 1, SILENT), archive("closed", 2)
    closed.script[OTHER, (), ""] = holds("closed", OTHER)

    async def scene(running: Running) -> None:
        await ask(running, FIRST, item=OTHER)
        readers = [
            ask(running, address, after) for address, after in ((FIRST, 0.0), (SECOND, 0.5), (FIRST, 1.0))
        ]
        await asyncio.gather(*readers)
        assert query_counts(hangs, closed) == [1, 2]

    play(tmp_path, [hangs, closed], scene)


def test_readers_wait_for_an_archive_again_once_its_answers_may_be_shared(tmp_path: Path) -> None:
    closed = archive("closed", 1, holds("closed", ITEM, 0.5))
    closed.script[OTHER, (), ""] = holds("closed", OTHER, 0.5, reuse=True)

    async def scene(running: Running) -> None:
        for item in (ITEM, OTHER):
            await ask(running, FIRST, item=item)
        closed.received.clear()
        closed.script[ITEM, (), ""] = holds("closed", ITEM, 0.5, reuse=True)
        answers = await asyncio.gather(*(ask(running, f"203.0.{number}.1") for number in range(9)))
        assert {each.location for each in answers} == {"http://closed.example/x"}
        assert query_counts(closed) == [1]

    play(tmp_path, [closed], scene)


def test_an_archive_that_was_excluded_while_others_waited_is_not_asked_for_them(tmp_path: Path) -> None:
    closed = archive("closed", 1, holds("closed", ITEM, 1.0))

    async def scene(running: Running) -> None:
        readers = [asyncio.create_task(ask(running, address)) for address in (FIRST, SECOND)]
        await asyncio.sleep(0.5)
        name = parse_ibi(closed.service)
        running.registry.exclude(name, running.registry.open_change(name))
        first, second = await asyncio.gather(*readers)
        assert sorted([first.status, second.status]) == [302, 503]
        assert query_counts(closed) == [1]

    play(tmp_path, [closed], scene)


def test_a_reader_who_leaves_takes_no_answer_from_those_who_wait_for_the_same(tmp_path: Path) -> None:
    closed = archive("closed", 1, holds("closed", ITEM, 1.0))

    async def scene(running: Running) -> None:
        readers = [
            asyncio.create_task(ask(running, f"203.0.{number}.1", 0.01 * number)) for number in range(4)
        ]
        await asyncio.sleep(0.5)
        readers[0].cancel()
        answers = await asyncio.gather(*readers[1:])
        assert {each.location for each in answers} == {"http://closed.example/x"}

    play(tmp_path, [closed], scene)


def test_who_would_have_to_ask_for_themselves_among_too_many_is_told_so_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = archive("closed", 1, holds("closed", ITEM, 1.0))
    closed.script[OTHER, (), ""] = SILENT

    async def scene(running: Running) -> None:
        busy = asyncio.create_task(ask(running, "203.0.9.1", item=OTHER))
        readers = [asyncio.create_task(ask(running, address)) for address in (FIRST, SECOND)]
        await asyncio.sleep(0.5)
        for limit in ("MOST_IN_FLIGHT", "MOST_WAITING"):
            monkeypatch.setattr(fair_queue, limit, 0)
        await asyncio.sleep(0.7)
        assert [each.done() for each in (*readers, busy)] == [True, True, False]
        answers = await asyncio.gather(*readers)
        assert sorted(each.status for each in answers) == [302, 503]
        assert query_counts(closed) == [1]
        await busy

    play(tmp_path, [closed], scene)
