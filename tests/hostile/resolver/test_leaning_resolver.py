"""A small resolver that leans on a large one: what its readers send never takes the large one away from the others.

Real sockets; where the large one is ours, it is a whole resolver.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.identifier.forms import IBIForms
from support.http_answers import answer
from support.resolver.running_resolver import LOOPBACK, Running, resolver
from support.scripted_archive import Behaviour, ScriptedArchive, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SMALL = IBIForms.parse("rep small.example/w/2020/01.01.00.00")
WELL = "/far.example/w/2020/01.03.00.00"
FOUND = b"HTTP/1.1 302 Found\r\nLocation: http://far.example/x\r\nContent-Length: 0\r\n\r\n"


class Above(ScriptedServer):
    """A large resolver that answers `says` to all but the item WELL and /robots.txt, and keeps the targets."""

    def __init__(self, says: bytes) -> None:
        super().__init__(self._answer)
        self.says = says
        self.targets: list[str] = []

    def _answer(self, head: bytes) -> Behaviour:
        self.targets.append(head.split(b" ", 2)[1].decode())
        if self.targets[-1] == "/robots.txt":
            return Behaviour(b"User-agent: *")
        found = self.targets[-1] == WELL and b"retry-after" not in self.says.lower()
        return Behaviour(pieces=[FOUND if found else self.says], closes=True)


@asynccontextmanager
async def small(data: Path, port: int, **settings: Any) -> AsyncIterator[Running]:
    """A resolver with one Archive, which knows nothing, that leans on the one at this port."""
    data.mkdir()  # noqa: ASYNC240 - a moment of a test
    archive = ScriptedArchive("b", "b.example", "b.example/w/2020/01.01.00.00")
    leans: dict[str, Any] = {"address": "small.example", "service": SMALL, "aliases": ()}
    async with resolver(
        data, [archive], trusted=[LOOPBACK], upstream=f"http://127.0.0.1:{port}/", **leans, **settings
    ) as running:
        yield running


def made_up(number: int) -> str:
    return f"/far.example/w/2021/01.01.{number // 60:02}.{number % 60:02}"


async def click(running: Running, target: str, reader: int = 1) -> Any:
    return await running.ask(target, f"X-Forwarded-For: 192.0.2.{reader}", host="small.example")


@pytest.mark.parametrize(
    "status", ["400 Bad Request", "403 Forbidden", "414 URI Too Long", "429 Too Many Requests",
               "502 Bad Gateway", "500 Internal Server Error", "504 Gateway Timeout"]
)  # fmt: skip
def test_questions_that_fail_there_do_not_take_it_away_from_others(tmp_path: Path, status: str) -> None:
    async def main() -> None:
        above = Above(answer(b"no", status=status))
        await above.open()
        async with small(tmp_path / "small", above.port) as running:
            for number in range(7):
                assert (await click(running, made_up(number))).status == 503
            await asyncio.sleep(0.2)
            assert (await click(running, WELL)).location == "http://far.example/x"
        await above.close()

    asyncio.run(main())


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
def test_a_pause_that_it_asks_for_lasts_as_long_as_it_says_and_readers_are_told(
    tmp_path: Path, status: str
) -> None:
    async def main() -> None:
        above = Above(answer(b"later", "Retry-After: 3", status=status))
        await above.open()
        async with small(tmp_path / "small", above.port) as running:
            first = await click(running, made_up(1))
            second = await click(running, WELL)
            assert [first.status, second.status] == [503, 503]
            assert [first.headers["retry-after"], second.headers["retry-after"]] == ["3", "3"]
            assert above.targets == [made_up(1)]
            above.says = answer(b"no", status="404 Not Found")
            await asyncio.sleep(3.1)
            assert (await click(running, WELL)).location == "http://far.example/x"
        await above.close()

    asyncio.run(main())


def empty() -> ScriptedArchive:
    return ScriptedArchive("a", "a.example", "a.example/w/2020/01.01.00.00")


@asynccontextmanager
async def both(tmp_path: Path, *archives: ScriptedArchive, with_token: bool) -> AsyncIterator[Running]:
    """A small resolver and a large one with these Archives."""
    large = tmp_path / "large"
    large.mkdir()
    token = Tokens(large).make("small", "2026-01-01T00:00:00Z", [Scope.RESOLVE]) if with_token else ""
    async with AsyncExitStack() as stack:
        above = await stack.enter_async_context(resolver(large, archives))
        yield await stack.enter_async_context(small(tmp_path / "small", above.port, upstream_token=token))


def test_the_readers_of_a_resolver_with_a_token_do_not_count_as_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with both(tmp_path, empty(), with_token=True) as running:
            clicks = [click(running, made_up(number), number % 10) for number in range(150)]
            statuses = Counter([(await each).status for each in clicks])
        assert statuses == {404: 150}

    asyncio.run(main())


def test_without_a_token_readers_are_told_when_to_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with both(tmp_path, empty(), with_token=False) as running:
            answers = await asyncio.gather(
                *(click(running, made_up(number), number % 10) for number in range(150))
            )
            late = [each for each in answers if each.status != 404]
            assert {each.status for each in late} == {503}
            waits = {int(each.headers["retry-after"]) for each in late}
            assert max(waits) < 10
            await asyncio.sleep(max(waits) + 0.1)
            assert (await click(running, made_up(200))).status == 404

    asyncio.run(main())


def test_one_reader_cannot_use_up_its_place_although_no_archive_here_is_asked(tmp_path: Path) -> None:
    async def main() -> None:
        async with both(tmp_path, empty(), with_token=True) as running:
            again = [made_up(number % 30) for number in range(150)]  # what is not known here is remembered
            statuses = Counter([(await click(running, target)).status for target in again])
            assert statuses[429] > 10
            assert (await click(running, made_up(200), reader=2)).status == 404

    asyncio.run(main())


@pytest.mark.parametrize(
    ("says", "sent", "statuses"),
    [
        (
            answer(b"", status="508 Loop Detected"),
            True,
            {404, 429},
        ),  # it has nothing to add, and was asked all the same
        (answer(b"", "Retry-After: 60", status="503 Service Unavailable"), False, {503}),
    ],
)
def test_a_reader_pays_for_each_question_to_it_and_for_no_other(
    tmp_path: Path, says: bytes, sent: bool, statuses: set[int]
) -> None:
    async def main() -> None:
        above = Above(says)
        await above.open()
        async with small(tmp_path / "small", above.port) as running:
            clicks = [(await click(running, made_up(1))).status for _ in range(150)]
        await above.close()
        assert set(clicks) == statuses
        assert above.targets.count(made_up(1)) == (clicks.count(404) if sent else 1)

    asyncio.run(main())


def test_an_alert_about_one_item_is_no_pause_for_the_others(tmp_path: Path) -> None:
    """Where an Archive of the large one is silent, that says 503 with Retry-After about each item that it lacks."""
    broken = empty()
    broken.manner = Behaviour(lie="reset")
    service = "far.example/w/2020/01.01.00.00"
    found = f"ibi {{rep {WELL[1:]}}}\r\nibi.archiveservice {{rep {service}}}\r\nurl http://far.example/x"
    holder = ScriptedArchive("far", "far.example", service, manner=Behaviour(b""))
    holder.script[WELL[1:], (), ""] = Behaviour(found.encode())

    async def main() -> None:
        async with both(tmp_path, broken, holder, with_token=False) as running:
            for number in range(7):
                assert (await click(running, made_up(number))).headers["retry-after"] == "30"
                assert (await click(running, WELL)).location == "http://far.example/x"

    asyncio.run(main())


def test_an_item_that_the_other_one_knows_is_not_told_to_be_unknown(tmp_path: Path) -> None:
    async def main() -> None:
        problem = '{"title": "This translation does not exist", "kind": "no-translation", "known": true}'
        kind = "Content-Type: application/problem+json"
        above = Above(answer(problem.encode(), kind, status="404 Not Found"))
        await above.open()
        async with small(tmp_path / "small", above.port) as running:
            alert = await running.ask(made_up(1), "Accept: application/json", host="small.example")
        assert (alert.status, json.loads(alert.body)["known"]) == (404, True)
        await above.close()

    asyncio.run(main())


@pytest.mark.parametrize("status", ["404 Not Found", "409 Conflict", "410 Gone"])
def test_a_resolver_without_archives_of_its_own_passes_on_what_the_other_one_says(
    tmp_path: Path, status: str
) -> None:
    leans: dict[str, Any] = {"address": "small.example", "service": SMALL, "aliases": ()}

    async def scene() -> None:
        above = Above(answer(b"it is so", status=status))
        await above.open()
        upstream = f"http://127.0.0.1:{above.port}/"
        async with resolver(tmp_path, [], trusted=[LOOPBACK], upstream=upstream, **leans) as running:
            assert (await click(running, made_up(1))).status == int(status[:3])
        await above.close()

    asyncio.run(scene())
