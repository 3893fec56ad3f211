"""Where an Archive can be, what confirms, and which Archives are asked again; without sockets."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ibi.errors import ForbiddenAddress, PeerSilent, SetupError
from ibi.http.client import AddressPolicy, HostPort
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.resolver.members.confirmation import (
    ConfirmationClient,
    Probation,
    ip_addresses,
    plain_ip,
    same_address,
)
from ibi.resolver.model.archive import Archive
from support.clock import run_with_false_clock
from support.servers.resolver_in_process import Peers, reply

ARCHIVE = parse_ibi("a.example/w/2020/01.01.00.00")
SERVICE = IBIForms.parse("rep urlib.net/www/2014/03.22.01.53 ibip J8LNKB5R7W/3FUQHC5")
OWN = [HostPort.parse(each) for each in ("urlib.net", "[::ffff:192.0.2.1]:81", "0.0.0.0:8080")]
REFUSED = "a resolver answers at this address, not an Archive"


async def look_up(host: str, port: int) -> Any:
    """The addresses of a few names."""
    if host == "slow.example":
        await asyncio.sleep(100)
    if host == "none.example":
        raise OSError
    return [("192.0.2.7", port), ("::ffff:192.0.2.8", port), ("fe80::1%eth0", port), ("odd", port)]


def client_of(outcome: Any) -> tuple[ConfirmationClient, Peers]:
    def answer(_address: str, _target: str) -> Any:
        if isinstance(outcome, ForbiddenAddress):
            raise outcome
        return outcome

    peers: Any = Peers(answer)
    return ConfirmationClient(peers, AddressPolicy(), look_up, OWN, SERVICE), peers


@pytest.mark.parametrize(
    ("service", "address", "problem"),
    [
        (ARCHIVE, "a.example", ""),
        (ARCHIVE, "a.example:8080", ""),
        (ARCHIVE, "8.8.8.8", ""),
        (parse_ibi("urlib.net/www/2014/03.22.01.53"), "a.example", "this is the resolver's own service"),
        (parse_ibi("J8LNKB5R7W/3FUQHC5"), "a.example", "this is the resolver's own service"),
        (ARCHIVE, "URLIB.net:80", "this is the resolver's own address"),
        (ARCHIVE, "urlib.net:81", ""),
        (ARCHIVE, "192.0.2.1:81", "this is the resolver's own address"),
        (ARCHIVE, "127.0.0.1:8080", "this is the resolver's own address"),
        (ARCHIVE, "[::1]:8080", "this is the resolver's own address"),
        (ARCHIVE, "a b", "?"),
        (ARCHIVE, "127.0.0.1:8081", "?"),
        (ARCHIVE, "10.0.0.1", "?"),
    ],
)
def test_an_archive_is_at_no_address_of_the_resolver_itself(service: Any, address: str, problem: str) -> None:
    client, peers = client_of(reply())
    if not problem:
        client.check(service, address)
    else:
        with pytest.raises(ForbiddenAddress) as caught:
            client.check(service, address)
        assert problem == "?" or str(caught.value) == problem
        assert "own" not in str(caught.value) or problem != "?"
    assert peers.requests == []


YES = b"confirmation yes"


@pytest.mark.parametrize(
    ("outcome", "confirms"),
    [
        (reply(YES), True),
        (reply(YES, 404), False),
        (reply(b"confirmation no"), False),
        (reply(YES + b"\nmore x"), False),
        (reply(), False),
        (PeerSilent("x"), False),
        (reply(YES, 508), REFUSED),
        (ForbiddenAddress("it is private"), "it is private"),
    ],
)
def test_one_pair_and_nothing_else_confirms(outcome: Any, confirms: bool | str) -> None:
    async def main() -> None:
        client, peers = client_of(outcome)
        if isinstance(confirms, str):
            with pytest.raises(ForbiddenAddress) as caught:
                await client.confirms(ARCHIVE, "a.example")
            assert str(caught.value) == confirms
        else:
            assert await client.confirms(ARCHIVE, "a.example") is confirms
        assert await client.still_confirms(ARCHIVE, "a.example") is (confirms is True)
        assert (
            peers.requests == [("a.example", f"/{ARCHIVE}?servicesubject=inclusionConfirmationRequest")] * 2
        )

    run_with_false_clock(main())


def test_addresses_are_looked_up_for_two_seconds() -> None:
    async def main() -> None:
        client, _ = client_of(reply())
        known = frozenset({"192.0.2.7", "192.0.2.8", "fe80::1"})
        assert await client.ip_addresses("a.example:81") == await ip_addresses("a.example", look_up) == known
        assert await client.ip_addresses("[::ffff:192.0.2.9]:81") == frozenset({"192.0.2.9"})
        loop = asyncio.get_running_loop()
        began = loop.time()
        for text in ("none.example", "a b", "slow.example"):
            assert await client.ip_addresses(text) == frozenset()
        assert loop.time() - began == 2.0

    run_with_false_clock(main())


def test_one_address_may_be_spelled_in_two_ways() -> None:
    assert same_address("A.example:80", "a.example")
    assert not same_address("a.example:81", "a.example")
    assert same_address("a b", "a b")
    assert not same_address("a b", "a.example")
    texts = ["::ffff:192.0.2.1", "2001:DB8::0:1", "fe80::1%eth0", "192.0.2.1", "x", ""]
    assert [plain_ip(each) for each in texts] == ["192.0.2.1", "2001:db8::1", "fe80::1", "192.0.2.1", "", ""]


class Scene:
    """A registry with these Archives, and what is written down; `outcomes`: what each address answers."""

    def __init__(self, *archives: Archive, **outcomes: Any) -> None:
        self.included, self.outcomes = archives, outcomes
        self.confirmed: list[str] = []
        self.entries: dict[str, Any] = {}
        self.written: list[Any] = []
        self.fails: set[str] = set()
        self.at_once = self.most = 0
        registry: Any = SimpleNamespace(
            archives=lambda: self.included, confirm=self.confirm, entry=self.entry, heard=lambda _: None
        )
        evidence: Any = SimpleNamespace(note=self.write, write=self.write)
        client: Any = SimpleNamespace(confirms=self.confirms, still_confirms=self.confirms)
        self.probation = Probation(registry, client, lambda: 0.0, evidence)

    async def confirms(self, _service: Any, address: str) -> Any:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.5)
        self.at_once -= 1
        found = self.outcomes.get(address, True)
        if isinstance(found, Exception):
            raise found
        return found

    def confirm(self, archive: Archive) -> bool:
        if archive.address in self.fails:
            raise SetupError("the registry cannot be written now")
        self.confirmed.append(archive.address)
        return archive.address != "left"

    def entry(self, service: Any) -> Any:
        if "entry" in self.fails:
            raise SetupError("the registry cannot be read now")
        return self.entries.get(str(service))

    def write(self, what: str, **facts: Any) -> None:
        if "evidence" in self.fails:
            raise SetupError("evidence cannot be written: full")
        self.written.append((what, facts))


def archive(name: str, address: str, *, confirmed: bool = False) -> Archive:
    return Archive(parse_ibi(f"{name}.example/w/2020/01.01.00.00"), address, confirmed=confirmed)


def test_who_has_not_confirmed_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        scene = Scene(
            archive("a", "here"), archive("b", "known", confirmed=True), archive("c", "silent"), archive("d", "left"),
            archive("e", "private"), archive("f", "broken"),
            silent=False, private=ForbiddenAddress("it is private"),
        )  # fmt: skip
        scene.fails = {"broken"}
        caplog.set_level("INFO")
        await scene.probation.ask_again()
        assert sorted(scene.confirmed) == ["here", "left"]
        facts = {"ibi": "a.example/w/2020/01.01.00.00", "address": "here", "confirmed": 1}
        assert scene.written == [("included", facts)]
        assert sorted(caplog.messages) == [
            "confirmed after all: a.example/w/2020/01.01.00.00 at here",
            "e.example/w/2020/01.01.00.00 at private could not be asked: it is private",
            "f.example/w/2020/01.01.00.00 at broken could not be asked: the registry cannot be written now",
        ]

    run_with_false_clock(main())


@pytest.mark.parametrize(("count", "most"), [(16, 16), (17, 16)])
def test_so_many_are_asked_at_a_time(count: int, most: int) -> None:
    async def main() -> None:
        scene = Scene(*(archive(f"a{number}", f"h{number}") for number in range(count)))
        await scene.probation.ask_again()
        assert (scene.most, len(scene.confirmed)) == (most, count)

    run_with_false_clock(main())


@pytest.mark.parametrize(
    ("known", "outcome", "is_recorded"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"change": 8}, True, False),
        ({"included": object()}, True, False),
        ({"confirmed_address": None}, True, False),
        (None, True, False),
    ],
)
def test_who_was_excluded_and_still_answers_is_written_down(
    caplog: pytest.LogCaptureFixture, known: Any, outcome: bool, *, is_recorded: bool
) -> None:
    async def main() -> None:
        scene = Scene(here=outcome)
        facts = {"change": 7, "included": None, "confirmed_address": "here"}
        if known is not None:
            scene.entries[str(ARCHIVE)] = SimpleNamespace(**{**facts, **known})
        scene.probation.check_excluded(ARCHIVE, 7)
        await asyncio.sleep(2.9)
        assert (scene.written, scene.most) == ([], 0)
        await asyncio.sleep(1)
        recorded = [("excluded", {"ibi": str(ARCHIVE), "address": "here", "still_answers": 1})]
        assert scene.written == (recorded if is_recorded else [])
        logged = [f"{ARCHIVE} was excluded, but still answers at here"]
        assert caplog.messages == (logged if is_recorded else [])

    run_with_false_clock(main())


def test_what_cannot_be_read_or_written_down_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        scene = Scene()
        scene.entries[str(ARCHIVE)] = SimpleNamespace(change=7, included=None, confirmed_address="here")
        for fault in ("entry", "evidence"):
            scene.fails = {fault}
            scene.probation.check_excluded(ARCHIVE, 7)
            await asyncio.sleep(5)
        assert scene.written == []
        assert caplog.messages == [
            f"{ARCHIVE} was excluded, but still answers at here",
            f"that {ARCHIVE} still answers was not recorded: evidence cannot be written: full",
        ]
        await scene.probation.close()

    run_with_false_clock(main())
