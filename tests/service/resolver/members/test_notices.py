"""Archives say what has changed: who is believed, how often, and what is forgotten then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ibi.http.client import AddressPolicy, Client
from ibi.http.request import Request
from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.messages import ChangeNotification
from ibi.protocol.replies import Refusal
from ibi.resolver.cache.answers import AnswerCache
from ibi.resolver.cache.change_requests import ChangesRequester
from ibi.resolver.cache.hints import HintCache
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.members import notices
from ibi.resolver.members.inclusion import MemberReply
from ibi.resolver.members.notices import NoticeReceiver
from ibi.resolver.model.archive import Archive
from ibi.resolver.resolve.learning import Knowledge
from support.engines.shared_store import in_wanted_store

SERVICE = parse_ibi("archive.example/w/2020/01.01.00.00")
ONE, TWO = "a.example/b/2010/01.01.00.00", "8JMKD3MGP8W/35MME4E"
REFUSED = (403, Refusal().body())
RECEIVED = (200, b"notice {change received}")


class NoticesScene:
    """The notices of a resolver; the one Archive is at `address`, and names lead where `leads` says."""

    def __init__(self, knowledge: Knowledge, address: str, ip: str, client: Client) -> None:
        self.knowledge = knowledge
        self.memory = memory = knowledge.cache
        self.leads: dict[str, Sequence[str]] = {"archive.example": ["192.0.2.7", "2001:db8::7"]}
        self.looked_up: list[str] = []
        changes = ChangesRequester(client, memory, lambda: [archive])
        archive = Archive(SERVICE, address, ip, "HTTP", "1", "a@b.example", confirmed=True)
        self.notices = NoticeReceiver(lambda: [archive], knowledge, self._names, changes)

    async def _names(self, host: str, port: int) -> list[tuple[str, int]]:
        self.looked_up.append(host)
        if host not in self.leads:
            raise OSError(host)
        return [(ip, port) for ip in self.leads[host]]

    async def send(self, source: str, *names: str, service: str = str(SERVICE)) -> MemberReply:
        sender = Request("GET", "/", "", {}, ("203.0.113.1", source))
        request = ChangeNotification(parse_ibi(service), tuple(map(parse_name, names)))
        return await self.notices.answer(request, sender)

    def knows(self, name: str) -> tuple[bool, bool]:
        """Whether an answer about it is cached, and whether the negative answer is."""
        archive = SERVICE.canonical
        return self.memory.answer(archive, f"{name} ") is not None, self.memory.is_not_known(f"{name}  mark")


@asynccontextmanager
async def noticing(
    folder: Path, address: str = "archive.example", ip: str = "192.0.2.1"
) -> AsyncIterator[NoticesScene]:
    memory = AnswerCache(folder / "memory", time.time)
    evidence = Evidence(in_wanted_store(folder) / EVIDENCE_FILE, time.time)
    knowledge = Knowledge(HintCache(folder / "hints", recorded=evidence.flush), memory, evidence, time.time)
    for name in (ONE, TWO):
        memory.put(SERVICE.canonical, f"{name} ", b"it is here", 600)
        memory.put_not_known(f"{name}  mark", 600)
    await asyncio.to_thread(memory.flush)  # until it is written
    try:
        client = Client(AddressPolicy(), no_names)
        yield NoticesScene(knowledge, address, ip, client)
        await client.close()
    finally:
        knowledge.close()


async def no_names(host: str, _port: int) -> list[tuple[str, int]]:
    """No Archive can be reached here."""
    raise OSError(host)


def answered(outcome: MemberReply) -> tuple[int, bytes]:
    return outcome.status, outcome.body


def test_what_is_named_is_forgotten_and_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with noticing(tmp_path) as ear:
            assert (ear.knows(ONE), ear.knows(TWO)) == ((True, True), (True, True))
            assert answered(await ear.send("192.0.2.1", TWO.lower())) == RECEIVED
            assert (ear.knows(ONE), ear.knows(TWO)) == ((True, True), (False, False))

    asyncio.run(scenario())


def test_who_names_an_item_is_asked_first_for_it_and_no_holder_is_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with noticing(tmp_path) as ear:
            hints, me, other = ear.knowledge.hints, SERVICE.canonical, "other.example/w/2020/01.01.00.00"
            three, four = "a.example/b/2010/01.01.00.03", "a.example/b/2010/01.01.00.04"
            hints.remember([TWO], likely=other, original=other)
            hints.remember([three], likely=me, original=me)
            removed = ChangeNotification(
                SERVICE, tuple(map(parse_name, (ONE, TWO, three, four))), (parse_name(four),)
            )
            sender = Request("GET", "/", "", {}, ("203.0.113.1", "192.0.2.1"))
            assert answered(await ear.notices.answer(removed, sender)) == RECEIVED
            assert hints.of(ONE)[:3] == (me, None, True)
            assert hints.of(TWO)[:3] == (me, other, False)
            assert hints.of(three)[:3] == (me, me, False)
            assert hints.of(four).likely is None

    asyncio.run(scenario())


def test_after_a_hand_over_that_both_announce_the_one_with_the_prefix_does_not_take_the_place_of_the_other(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with noticing(tmp_path) as ear:
            hints, me, other = ear.knowledge.hints, SERVICE.canonical, "other.example/w/2020/01.01.00.00"
            mine, held = "archive.example/w/2020/01.01.00.07", "archive.example/w/2020/01.01.00.08"
            hints.remember([mine, ONE], likely=other, early=True)
            hints.remember([held], likely=other, original=other)
            assert answered(await ear.send("192.0.2.1", mine, ONE, held)) == RECEIVED
            assert hints.of(mine)[:3] == (other, None, True)  # with it, the one with the prefix is asked, too
            assert hints.of(ONE)[:3] == (me, None, True)
            assert hints.of(held)[:3] == (me, other, False)

    asyncio.run(scenario())


def test_without_names_all_that_it_said_is_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with noticing(tmp_path) as ear:
            assert answered(await ear.send("192.0.2.1")) == RECEIVED
            assert (ear.knows(ONE), ear.knows(TWO)) == ((False, False), (False, False))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("address", "ip", "source", "believed"),
    [
        ("archive.example", "192.0.2.1", "192.0.2.1", True),
        ("archive.example", "192.0.2.1", "::ffff:192.0.2.1", True),
        ("archive.example", "192.0.2.1", "192.0.2.7", True),
        ("archive.example:8080", "192.0.2.1", "2001:db8::7", True),
        ("192.0.2.9:8080", "192.0.2.1", "192.0.2.9", True),
        ("archive.example", "192.0.2.1", "192.0.2.2", False),
        ("elsewhere.example", "192.0.2.1", "192.0.2.7", False),
        ("archive.example", "", "192.0.2.2", False),
        ("no address", "192.0.2.1", "192.0.2.2", False),
    ],
)
def test_only_who_speaks_from_where_the_archive_is_is_believed(
    tmp_path: Path, address: str, ip: str, source: str, *, believed: bool
) -> None:
    async def scenario() -> None:
        async with noticing(tmp_path, address, ip) as ear:
            assert answered(await ear.send(source, ONE)) == (RECEIVED if believed else REFUSED)
            assert ear.knows(ONE) == (not believed, not believed)

    asyncio.run(scenario())


def test_no_notice_counts_for_an_archive_that_is_not_included(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with noticing(tmp_path) as ear:
            other = "other.example/w/2020/01.01.00.00"
            assert answered(await ear.send("192.0.2.1", ONE, service=other)) == REFUSED
            assert (ear.knows(ONE), ear.looked_up) == ((True, True), [])

    asyncio.run(scenario())


def test_strangers_cause_one_look_up_in_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with noticing(tmp_path) as ear:
            found = await asyncio.gather(*(ear.send(f"192.0.2.{number}", ONE) for number in range(100, 150)))
            assert set(map(answered, found)) == {REFUSED}
            assert ear.looked_up == ["archive.example"]
            ear.leads = {"archive.example": ["192.0.2.100"]}
            assert answered(await ear.send("192.0.2.100", ONE)) == REFUSED
            monkeypatch.setattr(notices, "ADDRESS_CACHE_SECONDS", 0.0)
            assert answered(await ear.send("192.0.2.100", ONE)) == RECEIVED

    asyncio.run(scenario())


def test_who_gives_up_waiting_takes_no_look_up_from_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with noticing(tmp_path) as ear:
            hasty, waiting = (asyncio.create_task(ear.send("192.0.2.7", ONE)) for _ in range(2))
            await asyncio.sleep(0)
            hasty.cancel()
            assert answered(await waiting) == RECEIVED

    asyncio.run(scenario())


def test_an_archive_is_heard_ten_times_in_a_second(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with noticing(tmp_path) as ear:
            found = await asyncio.gather(*(ear.send("192.0.2.1", ONE) for _ in range(25)))
            statuses = [outcome.status for outcome in found]
            assert statuses == [200] * 10 + [429] * 15
            assert found[-1].retry_after == 1
            await asyncio.sleep(1.1)
            assert answered(await ear.send("192.0.2.1", ONE)) == RECEIVED

    asyncio.run(scenario())
