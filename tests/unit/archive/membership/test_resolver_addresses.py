"""Which addresses joined resolvers have, for how long that is known, and who has sent requests for changes lately."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ibi.archive.membership import resolver_addresses
from ibi.archive.membership.membership import destination_of, resolver_address
from ibi.archive.membership.resolver_addresses import AddressesUnknown, RequestTimes, ResolverAddresses
from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable

Lookup = dict[tuple[str, int], list[str]]
ROOTS = ("http://r.example", "https://s.example:8443", "http://192.0.2.9", "http://[2001:db8::9]:81")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The present moment, which tests set."""
    now = [1000.0]
    monkeypatch.setattr(resolver_addresses, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


class Names:
    """What names lead to; each question is noted."""

    def __init__(self, known: Lookup) -> None:
        self.known = known
        self.requests: list[tuple[str, int]] = []

    async def look_up(self, host: str, port: int) -> list[tuple[str, int]]:
        self.requests.append((host, port))
        if (host, port) not in self.known:
            raise OSError(-2, "Name or service not known")
        return [(ip, port) for ip in self.known[host, port]]


def known_names() -> Names:
    return Names({
        ("r.example", 80): ["192.0.2.1", "::ffff:192.0.2.2", "2001:DB8:0::1", "no address"],
        ("s.example", 8443): ["192.0.2.3"],
    })  # fmt: skip


EVERY = frozenset({"192.0.2.1", "192.0.2.2", "2001:db8::1", "192.0.2.3", "192.0.2.9", "2001:db8::9"})


def test_the_addresses_of_all_resolvers_are_found_in_one_notation(clock: list[float]) -> None:
    names = known_names()
    joined = ResolverAddresses(ROOTS, names.look_up)
    with pytest.raises(AddressesUnknown):
        _ = joined.known
    assert asyncio.run(joined.all()) == joined.known == EVERY
    assert sorted(names.requests) == [("r.example", 80), ("s.example", 8443)]
    assert clock == [1000.0]


def test_they_are_known_for_a_minute_and_then_looked_up_again(clock: list[float]) -> None:
    names = known_names()
    joined = ResolverAddresses(ROOTS[:1], names.look_up)

    async def play() -> None:
        for clock[0], times in ((1000.0, 1), (1059.9, 1), (1060.0, 2), (1119.0, 2)):
            if times > len(names.requests):
                with pytest.raises(AddressesUnknown):
                    _ = joined.known
            await joined.all()
            assert (len(names.requests), "192.0.2.1" in joined.known) == (times, True)

    asyncio.run(play())


def test_a_machine_that_has_just_started_looks_them_up(clock: list[float]) -> None:
    clock[0] = 0.5
    joined = ResolverAddresses(ROOTS[:1], known_names().look_up)
    with pytest.raises(AddressesUnknown):
        _ = joined.known
    assert "192.0.2.1" in asyncio.run(joined.all())


def test_an_address_stays_known_while_its_name_cannot_be_looked_up(clock: list[float]) -> None:
    names = known_names()
    joined = ResolverAddresses(ROOTS[:2], names.look_up)

    async def play() -> None:
        await joined.all()
        del names.known["s.example", 8443]
        names.known["r.example", 80] = ["192.0.2.77"]
        clock[0] += 60
        assert await joined.all() == {"192.0.2.77", "192.0.2.3"}

    asyncio.run(play())


def test_a_fault_of_a_look_up_is_raised_once_a_minute(clock: list[float]) -> None:
    requests = list[str]()

    async def fail(host: str, _port: int) -> list[tuple[str, int]]:
        requests.append(host)
        raise RuntimeError("can't start new thread")

    joined = ResolverAddresses(ROOTS[:1], fail)

    async def play() -> None:
        with pytest.raises(RuntimeError):
            await joined.all()
        assert await joined.all() == joined.known == frozenset()
        clock[0] += 60
        with pytest.raises(RuntimeError):
            await joined.all()

    asyncio.run(play())
    assert requests == ["r.example"] * 2


def test_a_name_that_leads_nowhere_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver_addresses, "LOOK_UP_SECONDS", 0.01)

    async def hang(_host: str, _port: int) -> list[tuple[str, int]]:
        await asyncio.Event().wait()
        raise AssertionError

    assert asyncio.run(ResolverAddresses(ROOTS[:3], hang).all()) == {"192.0.2.9"}


def test_several_who_ask_at_once_wait_for_one_look_up(clock: list[float]) -> None:
    names = known_names()
    joined = ResolverAddresses(ROOTS[:1], names.look_up)

    async def play() -> None:
        await asyncio.gather(*(joined.all() for _ in range(3)))

    asyncio.run(play())
    assert (names.requests, clock) == ([("r.example", 80)], [1000.0])


def test_a_notice_waits_for_the_first_look_up_only(clock: list[float]) -> None:
    names = known_names()
    joined = ResolverAddresses(ROOTS[:1], names.look_up)
    joined.requests.note("192.0.2.2")

    async def play() -> None:
        assert await joined.request_changes()
        clock[0] += 59.9
        assert await joined.request_changes()
        await asyncio.sleep(0)
        assert len(names.requests) == 1
        clock[0] += 0.1
        assert await joined.request_changes()
        assert len(names.requests) == 1  # its answer did not wait
        async with asyncio.timeout(20):
            await joined.all()
        assert len(names.requests) == 2

    asyncio.run(play())


def _times(where: str, make: Callable[[], RequestTimes], clock: list[float]) -> None:
    times = make()
    clock[0] = 0.5  # a machine that has just started
    assert not times.is_recent("192.0.2.1"), where
    times.note("192.0.2.1")
    assert times.is_recent("192.0.2.1"), where
    clock[0] = 5000.9
    times.note("192.0.2.1")
    found = {}
    for clock[0] in (4998.9, 4999.0, 5000.0, 6199.9, 6200.0):
        found[clock[0]] = times.is_recent("192.0.2.1")
    assert found == {4998.9: False, 4999.0: True, 5000.0: True, 6199.9: True, 6200.0: False}, where
    assert not times.is_recent("192.0.2.3"), where


def test_a_request_for_changes_is_recent_for_twenty_minutes(
    clock: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("metrics")
    _times("in a file", lambda: RequestTimes(folder / "new"), clock)
    assert (folder / "new").stat().st_mode & 0o777 == 0o700
    assert (folder / "new" / "requests").stat().st_size == 8 * 4096
    _times("in memory", RequestTimes, clock)


@pytest.mark.parametrize(
    ("root", "address", "destination"),
    [
        ("http://r.example", "r.example", "r.example"),
        ("http://r.example/", "r.example", "r.example"),
        ("http://r.example:8080", "r.example:8080", "r.example:8080"),
        ("HTTPS://r.example", "r.example", "https://r.example"),
        ("https://r.example:8443/", "r.example:8443", "https://r.example:8443"),
        ("http://[2001:db8::1]", "[2001:db8::1]", "[2001:db8::1]"),
    ],
)
def test_the_root_of_a_resolver_says_where_messages_go(root: str, address: str, destination: str) -> None:
    assert (resolver_address(root), destination_of(root)) == (address, destination)


@pytest.mark.parametrize(
    "root",
    [
        "", "r.example", "ftp://r.example", "http://", "http:///x", "http://u@r.example", "http://r.example/x",
        "http://r.example?x", "http://[r.example",
    ],
)  # fmt: skip
def test_what_is_no_root_of_a_resolver_is_shown_and_refused(root: str) -> None:
    for read in (resolver_address, destination_of):
        with pytest.raises(SetupError) as refused:
            read(root)
        sentence = "a resolver is given by its root, such as http://resolver.example; this is not:"
        assert str(refused.value) == f"{sentence} {root}"
