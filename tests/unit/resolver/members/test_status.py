"""How the network stands: found out once for all who ask at the same time, and told whole."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ibi.errors import IbiError, PeerBusy
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import ArchiveTitles
from ibi.resolver.members.status import MemberStatus, NetworkMonitor, NetworkStatus
from ibi.resolver.model.alert import in_english
from ibi.resolver.model.archive import Archive, moment_text
from ibi.resolver.registry.registry import MIGRATIONS, Registry
from ibi.resolver.resolve.breaker import CircuitBreakers
from ibi.runtime.database import migrate, open_engine
from support.clock import run_with_false_clock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ibi.resolver.model.archive import RegisteredArchive


def test_many_who_ask_at_once_have_the_registry_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(tmp_path / "registry.sqlite")
    migrate(engine, MIGRATIONS)
    with closing(Registry(engine, lambda: 0.0)) as registry:
        reads, read = [], registry.registered

        def counted() -> Sequence[RegisteredArchive]:
            reads.append(1)
            return read()

        async def many() -> None:
            monitor = NetworkMonitor(registry, CircuitBreakers(), lambda: 0.0)
            found = await asyncio.gather(*(monitor.status() for _ in range(50)))
            assert {id(each) for each in found} == {id(found[0])}

        monkeypatch.setattr(registry, "registered", counted)
        asyncio.run(many())
        assert len(reads) == 1


IBI = parse_ibi("a.example/w/2020/01.01.00.00")
MEMBER = MemberStatus(
    str(IBI),
    "a.example",
    "heard",
    True,
    0.0,
    60.0,
    False,
    None,
    ArchiveTitles("Ação", "Ação"),
    ((1, 0),),
)
SILENT = MEMBER._replace(
    standing="silent",
    confirmed=False,
    heard=None,
    is_suspended=True,
    why=IbiError("no answer within {n} s", n=3),
)


def test_the_status_is_told_to_programs_and_to_people() -> None:
    status = NetworkStatus(86_400.0, 3_600.0, (MEMBER, SILENT, MEMBER._replace(standing="not asked")))
    line = "Archives that take part: 3. Responding in the last 15 minutes: 1. Not responding: 1."
    member = {
        "service_ibi": str(IBI), "address": "a.example", "title": "Ação", "title_pt": "Ação", "standing": "heard",
        "confirmed": True, "since": "1970-01-01T00:00:00Z", "last_heard": "1970-01-01T00:01:00Z", "asleep": False,
    }  # fmt: skip
    silent = {
        **member, "standing": "silent", "confirmed": False, "last_heard": None, "asleep": True,
        "why": "no answer within 3 s",
    }  # fmt: skip
    facts = {
        "moment": "1970-01-02T00:00:00Z",
        "process_since": "1970-01-01T01:00:00Z",
        "lately_seconds": 900,
        "line": line,
        "archives": {"included": 3, "confirmed": 2, "heard": 1, "silent": 1, "not_asked": 1, "asleep": 1},
        "members": [member, silent, {**member, "standing": "not asked"}],
    }
    assert status.as_dict(in_english) == facts
    assert status.json(in_english) == json.dumps(facts, ensure_ascii=False, indent=1).encode()
    words = ("responding", "not responding", "not queried lately")
    lines = [line, "", *(f"{IBI}  a.example  {each}" for each in words), ""]
    assert status.text(in_english).decode() == "\n".join(lines)
    empty = NetworkStatus(0.0, 0.0)
    assert empty.text(in_english) == b"No Archive takes part in this resolver at the moment.\n"


class Included:
    """A registry with one Archive, which requested for inclusion so many seconds ago."""

    def __init__(self, heard_at: str) -> None:
        self.reads = 0
        self._heard_at = heard_at

    def archives(self) -> list[Archive]:
        return [Archive(IBI, "a.example", included_at=5.0)]

    def registered(self) -> list[SimpleNamespace]:
        self.reads += 1
        return [SimpleNamespace(service_ibi=IBI, heard_at=self._heard_at)]


NOW = 100_000.0


def monitored(included: Included, breakers: CircuitBreakers) -> NetworkMonitor:
    return NetworkMonitor(included, breakers, lambda: NOW)  # type: ignore[arg-type]  # no more is requested of it


@pytest.mark.parametrize(
    ("requested", "answered", "heard", "standing"),
    [
        (900, None, NOW - 900, "heard"),
        (901, None, NOW - 901, "not asked"),
        (901, 900, NOW - 900, "heard"),
        (10, 900, NOW - 10, "heard"),
        (None, 901, NOW - 901, "not asked"),
        (None, None, None, "not asked"),
    ],
)
def test_an_archive_counts_as_heard_for_a_quarter_of_an_hour(
    requested: int | None, answered: int | None, heard: float | None, standing: str
) -> None:
    async def main() -> None:
        breakers = CircuitBreakers()
        now = asyncio.get_running_loop().time()
        if answered is not None:
            breakers.heard_at[IBI.canonical] = now - answered
        monitor = monitored(Included(moment_text(NOW - requested) if requested is not None else ""), breakers)
        (member,) = (await monitor.status()).members
        assert (member.standing, member.heard, member.included_at) == (standing, heard, 5.0)
        assert (member.is_suspended, member.why, member.address) == (False, None, "a.example")
        assert monitor.heard_at(str(IBI)) == (None if answered is None else NOW - answered)
        assert monitor.heard_at("another") is None

    run_with_false_clock(main())


def test_a_status_is_reused_for_five_seconds() -> None:
    async def main() -> None:
        included = Included("")
        monitor = monitored(included, CircuitBreakers())
        for seconds, reads in ((0, 1), (4.75, 1), (0.25, 2), (0, 2)):
            await asyncio.sleep(seconds)
            await monitor.status()
            assert included.reads == reads

    run_with_false_clock(main())


class Named(Included):
    def archives(self) -> list[Archive]:
        return [
            Archive(IBI, "a.example", confirmed=False, included_at=5.0, titles=ArchiveTitles("Title", "Nome"))
        ]


def test_all_that_is_known_of_an_archive_is_told_and_a_pause_ends_at_its_moment() -> None:
    async def main() -> None:
        breakers, why = CircuitBreakers(), PeerBusy("it asks for a pause of {seconds} s", 10)
        now = asyncio.get_running_loop().time()
        breakers.count(IBI.canonical, now, answered=True)
        breakers.count(IBI.canonical, now, answered=False)
        breakers.pause(IBI.canonical, now, why)
        for seconds, is_suspended in ((0.0, True), (9.75, True), (0.25, False)):
            await asyncio.sleep(seconds)
            (member,) = (await monitored(Named(moment_text(NOW - 7)), breakers).status()).members
            assert member._replace(hours=()) == MemberStatus(
                str(IBI), "a.example", "silent", False, 5.0, NOW - 7, is_suspended, why,
                ArchiveTitles("Title", "Nome"),
            )  # fmt: skip
            # An hour may have ended meanwhile.
            assert (len(member.hours), *map(sum, zip(*member.hours, strict=True))) == (24, 1, 1)

    run_with_false_clock(main())
