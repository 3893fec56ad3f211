"""A notice step by step: what is forgotten, who is asked, what other nodes are told, and each answer whole."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ibi.http.request import Request
from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.messages import ChangeNotification
from ibi.protocol.replies import ChangeReceived, RequestError
from ibi.resolver.members.inclusion import REFUSED, MemberReply
from ibi.resolver.members.notices import (
    ADDRESS_CACHE_SECONDS,
    MOST_PER_SECOND,
    PASSED_ON_SECONDS,
    NoticeReceiver,
)
from ibi.resolver.model.archive import Archive
from support.clock import run_with_false_clock

SERVICE = parse_ibi("archive.example/w/2020/01.01.00.00")
ARCHIVE = Archive(SERVICE, "archive.example:81", "::ffff:192.0.2.1")
ONE, TWO = (parse_name(each) for each in ("a.example/b/2010/01.01.00.00", "8JMKD3MGP8W/35MME4E"))
RECEIVED = MemberReply(200, ChangeReceived().body())
TOO_MANY = MemberReply(429, RequestError("too many notices").body(), retry_after=1)
S = SERVICE.canonical


class Scene:
    """A receiver of notices, and all that it does, in order."""

    def __init__(self, *, nodes: bool = True) -> None:
        self.done: list[Any] = []
        self.catches_up = True
        self.leads = ["192.0.2.7"]
        knowledge: Any = SimpleNamespace(
            note_removed=self._noted(
                "removed", lambda names, service: ([each.canonical for each in names], service)
            ),
            note_changed=self._noted("changed", lambda names, service: (list(names), service)),
            cache=SimpleNamespace(
                forget_changed=self._noted("forget", lambda service, names: (service, names))
            ),
        )
        changes: Any = SimpleNamespace(
            wake=self._noted("wake", lambda archive: archive.name),
            refresh=self._noted("refresh", lambda archive: archive.name),
            catch_up=self.catch_up,
        )
        tell: Any = self.tell if nodes else None
        other = Archive(parse_ibi("other.example/w/2020/01.01.00.00"), "other.example")
        self.receiver = NoticeReceiver(lambda: [other, ARCHIVE], knowledge, self.look_up, changes, tell)

    def _noted(self, what: str, seen: Any) -> Any:
        return lambda *given: self.done.append((what, seen(*given)))

    def tell(self, service: str, names: Any, *, accepted: bool) -> None:
        self.done.append(("tell", service, names, accepted))

    async def look_up(self, host: str, port: int) -> Any:
        self.done.append(("look up", host, port))
        await asyncio.sleep(0.01)
        return [(ip, port) for ip in self.leads]

    async def catch_up(self, archive: Archive) -> bool:
        self.done.append(("catch up", archive.name))
        return self.catches_up

    async def send(
        self, source: str = "192.0.2.1", changed: Any = (), removed: Any = (), service: Any = SERVICE
    ) -> tuple[MemberReply, list[Any]]:
        """The answer to a notice, and what was done meanwhile."""
        self.done.clear()
        notice = ChangeNotification(service, tuple(changed), tuple(removed))
        answer = await self.receiver.answer(notice, Request("GET", "/", "", {}, ("203.0.113.1", source)))
        return answer, [*self.done]


def test_what_is_named_is_forgotten_and_the_archive_is_asked() -> None:
    async def main() -> None:
        scene = Scene()
        one, two = ONE.canonical, TWO.canonical
        assert await scene.send(changed=(ONE, TWO), removed=(TWO,)) == (RECEIVED, [
            ("removed", ([two], S)), ("changed", ([one], S)), ("forget", (S, [one, two])),
            ("refresh", str(SERVICE)), ("tell", S, [one, two], True),
        ])  # fmt: skip
        assert await scene.send(changed=(ONE,)) == (RECEIVED, [
            ("changed", ([one], S)), ("forget", (S, [one])), ("refresh", str(SERVICE)), ("tell", S, [one], True),
        ])  # fmt: skip
        assert await scene.send() == (RECEIVED, [
            ("changed", ([], S)), ("forget", (S, None)), ("refresh", str(SERVICE)), ("tell", S, None, True),
        ])  # fmt: skip
        alone = Scene(nodes=False)
        assert (await alone.send())[1][-1] == ("refresh", str(SERVICE))

    run_with_false_clock(main())


def test_only_a_notice_from_where_the_archive_is_is_accepted() -> None:
    async def main() -> None:
        scene, looked = Scene(), ("look up", "archive.example", 81)
        wake, passed_on = ("wake", str(SERVICE)), ("tell", S, None, False)
        assert await scene.send("198.51.100.1", changed=(ONE,)) == (REFUSED, [looked, wake, passed_on])
        assert await scene.send("odd") == (REFUSED, [wake])
        await asyncio.sleep(PASSED_ON_SECONDS - 0.02)
        assert await scene.send("198.51.100.1") == (REFUSED, [wake])
        await asyncio.sleep(0.02)
        assert await scene.send("198.51.100.1") == (REFUSED, [wake, passed_on])
        assert (await scene.send("::ffff:192.0.2.7"))[0] == RECEIVED
        assert (await scene.send("::ffff:192.0.2.1"))[0] == RECEIVED
        unknown = parse_ibi("unknown.example/w/2020/01.01.00.00")
        assert await scene.send(service=unknown) == (REFUSED, [])
        assert (await scene.send(service=parse_ibi(str(SERVICE).upper())))[0] == RECEIVED

    run_with_false_clock(main())


def test_addresses_are_looked_up_once_a_minute_and_once_for_all_that_wait() -> None:
    async def main() -> None:
        scene, looked = Scene(), ("look up", "archive.example", 81)
        scene.done.clear()
        notice = ChangeNotification(SERVICE, ())
        requests = [Request("GET", "/", "", {}, (f"198.51.100.{number}",)) for number in range(3)]
        first = asyncio.create_task(scene.receiver.answer(notice, requests[0]))
        others = [asyncio.create_task(scene.receiver.answer(notice, each)) for each in requests[1:]]
        await asyncio.sleep(0)
        first.cancel()  # the others wait for the same look-up
        assert await asyncio.gather(*others) == [REFUSED] * 2
        assert scene.done.count(looked) == 1
        await asyncio.sleep(ADDRESS_CACHE_SECONDS - 0.02)
        assert looked not in (await scene.send("198.51.100.1"))[1]
        await asyncio.sleep(0.02)
        scene.leads = ["198.51.100.1"]
        answer, done = await scene.send("198.51.100.1")
        assert (answer, done[0]) == (RECEIVED, looked)

    run_with_false_clock(main())


@pytest.mark.parametrize(
    ("catches_up", "removed", "answer"),
    [(True, (), RECEIVED), (False, (), TOO_MANY), (True, (ONE,), TOO_MANY)],
)
def test_beyond_ten_a_second_all_changes_are_requested_at_once(
    catches_up: bool, removed: Any, answer: MemberReply
) -> None:
    async def main() -> None:
        scene = Scene()
        scene.catches_up = catches_up
        for _ in range(MOST_PER_SECOND):
            assert (await scene.send(changed=(ONE,)))[0] == RECEIVED
        passed_on = ("tell", S, None, False)
        assert await scene.send(changed=(ONE,), removed=removed) == (answer, [("catch up", str(SERVICE))])
        await asyncio.sleep(0.6)
        assert (await scene.send(changed=(ONE,), removed=removed))[1] == [
            passed_on,
            ("catch up", str(SERVICE)),
        ]
        await asyncio.sleep(0.4)
        assert ("forget", (S, [ONE.canonical])) in (await scene.send(changed=(ONE,)))[1]

    run_with_false_clock(main())
