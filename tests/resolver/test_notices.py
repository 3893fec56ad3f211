"""Archives say what has changed: who is believed, how often, and what is forgotten then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.notification import ChangeNotification
from ibi.protocol.replies import Refusal
from ibi.resolver import notices
from ibi.resolver.membership import Outcome
from ibi.resolver.memory import Memory
from ibi.resolver.notices import Notices
from ibi.resolver.registry import IncludedArchive
from ibi.resolver.visitor import Visitor

SERVICE = parse_ibi("archive.example/w/2020/01.01.00.00")
ONE, TWO = "a.example/b/2010/01.01.00.00", "8JMKD3MGP8W/35MME4E"
REFUSED = (403, Refusal().body())
RECEIVED = (200, b"notice {change received}")


class Hearing:
    """A resolver's ear; the one Archive is at `address`, and names lead where `leads` says."""

    def __init__(self, memory: Memory, address: str, ip: str) -> None:
        self.memory = memory
        self.leads: dict[str, Sequence[str]] = {"archive.example": ["192.0.2.7", "2001:db8::7"]}
        self.looked_up: list[str] = []
        archive = IncludedArchive(SERVICE, address, ip, "HTTP", "1", "a@b.example", confirmed=True)
        self.notices = Notices(lambda: [archive], memory, self._names)

    async def _names(self, host: str, port: int) -> list[tuple[str, int]]:
        self.looked_up.append(host)
        if host not in self.leads:
            raise OSError(host)
        return [(ip, port) for ip in self.leads[host]]

    async def hear(self, source: str, *names: str, service: str = str(SERVICE)) -> Outcome:
        visitor = Visitor("GET", "/", "", {}, ("203.0.113.1", source))
        request = ChangeNotification(parse_ibi(service), tuple(map(parse_name, names)))
        return await self.notices.answer(request, visitor)

    def knows(self, name: str) -> tuple[bool, bool]:
        """Whether an answer about it is kept, and that nobody has it."""
        archive = SERVICE.canonical
        return self.memory.answer(archive, f"{name} ") is not None, self.memory.nobody(f"{name}  mark")


@asynccontextmanager
async def hearing(
    folder: Path, address: str = "archive.example", ip: str = "192.0.2.1"
) -> AsyncIterator[Hearing]:
    memory = Memory(folder / "memory", time.time)
    for name in (ONE, TWO):
        memory.keep(SERVICE.canonical, f"{name} ", b"it is here", 600)
        memory.keep_nobody(f"{name}  mark", 600)
    await asyncio.to_thread(memory._behind.settle)  # until it is written
    try:
        yield Hearing(memory, address, ip)
    finally:
        memory.close()


def told(outcome: Outcome) -> tuple[int, bytes]:
    return outcome.status, outcome.body


def test_what_is_named_is_forgotten_and_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with hearing(tmp_path) as ear:
            assert (ear.knows(ONE), ear.knows(TWO)) == ((True, True), (True, True))
            assert told(await ear.hear("192.0.2.1", TWO.lower())) == RECEIVED
            assert (ear.knows(ONE), ear.knows(TWO)) == ((True, True), (False, False))

    asyncio.run(scenario())


def test_without_names_all_that_it_said_is_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with hearing(tmp_path) as ear:
            assert told(await ear.hear("192.0.2.1")) == RECEIVED
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
        async with hearing(tmp_path, address, ip) as ear:
            assert told(await ear.hear(source, ONE)) == (RECEIVED if believed else REFUSED)
            assert ear.knows(ONE) == (not believed, not believed)

    asyncio.run(scenario())


def test_nobody_speaks_for_an_archive_that_is_not_included(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with hearing(tmp_path) as ear:
            other = "other.example/w/2020/01.01.00.00"
            assert told(await ear.hear("192.0.2.1", ONE, service=other)) == REFUSED
            assert (ear.knows(ONE), ear.looked_up) == ((True, True), [])

    asyncio.run(scenario())


def test_strangers_cause_one_look_up_in_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with hearing(tmp_path) as ear:
            found = await asyncio.gather(*(ear.hear(f"192.0.2.{number}", ONE) for number in range(100, 150)))
            assert set(map(told, found)) == {REFUSED}
            assert ear.looked_up == ["archive.example"]
            ear.leads = {"archive.example": ["192.0.2.100"]}
            assert told(await ear.hear("192.0.2.100", ONE)) == REFUSED
            monkeypatch.setattr(notices, "KNOWN_SECONDS", 0.0)
            assert told(await ear.hear("192.0.2.100", ONE)) == RECEIVED

    asyncio.run(scenario())


def test_who_gives_up_waiting_takes_no_look_up_from_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with hearing(tmp_path) as ear:
            hasty, patient = (asyncio.create_task(ear.hear("192.0.2.7", ONE)) for _ in range(2))
            await asyncio.sleep(0)
            hasty.cancel()
            assert told(await patient) == RECEIVED

    asyncio.run(scenario())


def test_an_archive_is_heard_ten_times_in_a_second(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with hearing(tmp_path) as ear:
            found = await asyncio.gather(*(ear.hear("192.0.2.1", ONE) for _ in range(25)))
            statuses = [outcome.status for outcome in found]
            assert statuses == [200] * 10 + [429] * 15
            assert found[-1].retry_after == 1
            await asyncio.sleep(1.1)
            assert told(await ear.hear("192.0.2.1", ONE)) == RECEIVED

    asyncio.run(scenario())
