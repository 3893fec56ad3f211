"""A hand-over is reported as done only when the resolvers of both Archives know of it; over real sockets."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ibi.archive.membership import announcing
from ibi.archive.membership.announcing import Announcer
from ibi.archive.model.handover import GiverStage
from ibi.archive.store.tables import memberships
from ibi.archive.store.tables.memberships import MembershipRecord, MembershipStanding
from ibi.cli import main
from ibi.identifier.forms import Name, parse_ibi
from support.archive.replication_fixture import Archive, make_archive
from support.ports import free_port
from support.resolver import process
from support.resolver.process import ResolverProcess

ITEMS = [f"a.example/b/2010/01.01.00.{number:02}" for number in range(20)]
ORIGINAL = "?ibiurl.requireditemstatus=Original"


@pytest.fixture
def resolver(tmp_path: Path) -> Iterator[ResolverProcess]:
    """A resolver of two processes."""
    address = f"127.0.0.1:{free_port()}"
    process.make(tmp_path / "resolver", address=address)
    with process.serving(tmp_path / "resolver", "--workers", "2", bind=address) as running:
        yield running


def two_archives(folder: Path, resolver: str) -> tuple[Archive, Archive]:
    """Make two Archives of this resolver, of which the first may hand originals over to the second."""
    giving, taking = (make_archive(folder, number, resolver=resolver, audit_days=0) for number in (1, 2))
    taking.knows(giving, "giver")
    giving.knows(taking, "receiver", taking.lets_in("giver"))
    return giving, taking


def wait_for_inclusion(*archives: Archive) -> None:
    end = time.monotonic() + 30
    while not all(_is_included(archive) for archive in archives):
        assert time.monotonic() < end
        time.sleep(0.05)


def _is_included(archive: Archive) -> bool:
    with archive.directory.catalogue() as catalogue, catalogue.reading() as run:
        return any(each.standing.included for each in memberships.all_memberships(run).values())


def hand_over(archive: Archive, name: str, *, remove: bool = False) -> GiverStage:
    with archive.giver() as giver:
        transfer = giver.offer(parse_ibi(name), "receiver", "maria", remove=remove)
        return asyncio.run(giver.advance(transfer))[0].stage


def two_registered(data: Path, resolver: ResolverProcess) -> tuple[Archive, Archive]:
    archives = two_archives(data, resolver.root)
    for archive in archives:
        words = ["--archive-service", str(archive.settings.service.main), "--key", process.KEY]
        assert main(["resolver", "register", "--data", str(resolver.data), *words]) == 0
    return archives


def led_to(resolver: ResolverProcess, archive: Archive, target: str) -> bool:
    host = resolver.root.removeprefix("http://")
    return resolver.get(f"/{target}", host=host).location.startswith(archive.root)


@pytest.mark.proves("ARC-08", "RES-08")
def test_the_first_click_after_a_hand_over_leads_to_the_new_holder(
    tmp_path: Path, resolver: ResolverProcess
) -> None:
    giving, taking = two_registered(tmp_path, resolver)
    for name in ITEMS:
        giving.put(name, files={"index.html": b"here"})
    wrong = []
    with giving.operated(), taking.operated():
        wait_for_inclusion(giving, taking)
        for number, name in enumerate(ITEMS):
            # Without its files, the giver itself leads to the receiver; with them, to its own copy unless the
            # original is required: then the first reader may get that copy.
            remove = number % 2 == 0
            target = name if remove else f"{name}{ORIGINAL}"
            assert all(led_to(resolver, giving, target) for _ in range(6))
            assert hand_over(giving, name, remove=remove) is GiverStage.DONE
            answer = resolver.get(f"/{target}", host=resolver.root.removeprefix("http://"))
            if not answer.location.startswith(taking.root):
                wrong.append((target, answer))
        assert not wrong, wrong


@pytest.mark.proves("ARC-08", "ARC-13")
def test_readers_are_led_to_the_new_holder_although_the_giver_keeps_a_copy(
    tmp_path: Path, resolver: ResolverProcess
) -> None:
    giving, taking = two_registered(tmp_path, resolver)
    for name in ITEMS[:3]:
        giving.put(name, files={"index.html": b"here"})
    with giving.operated(), taking.operated():
        wait_for_inclusion(giving, taking)
        for name in ITEMS[:3]:
            assert all(led_to(resolver, giving, name) for _ in range(6))
            assert hand_over(giving, name) is GiverStage.DONE
            end = time.monotonic() + 10
            while not all(led_to(resolver, taking, name) for _ in range(6)):
                assert time.monotonic() < end
                time.sleep(0.1)
        # Both processes, and none of them only for a while.
        time.sleep(2)
        assert all(led_to(resolver, taking, name) for name in ITEMS[:3] for _ in range(12))


def test_a_hand_over_waits_for_a_silent_resolver_once_and_not_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcing, "WAIT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        root = f"http://127.0.0.1:{silent.getsockname()[1]}"
        giving, taking = two_archives(tmp_path, root)
        for archive in (giving, taking):
            with archive.directory.catalogue() as catalogue, catalogue.writing() as writer:
                known = MembershipRecord(root, MembershipStanding.INCLUDED, "2026-01-01T00:00:00Z")
                memberships.save(writer.run, known)
        for name in ITEMS[:3]:
            giving.put(name, files={"index.html": b"here"})
        with giving.served(), taking.served(), giving.giver() as giver:
            seconds = []
            for name in ITEMS[:3]:
                begun = time.monotonic()
                transfer = giver.offer(parse_ibi(name), "receiver", "maria")
                assert asyncio.run(giver.advance(transfer))[0].stage is GiverStage.DONE
                seconds.append(time.monotonic() - begun)
        # The receiver waits, and the giver; after that, neither does.
        assert seconds[0] >= 1
        assert max(seconds[1:]) < 1


@pytest.mark.proves("ARC-08")
@pytest.mark.parametrize(("remove", "states"), [(False, ["Copy"]), (True, ["Copy", "Copy without files"])])
def test_resolvers_get_a_notice_before_a_hand_over_ends_and_again_if_its_end_changes_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, remove: bool, states: list[str]
) -> None:
    giving, taking = two_archives(tmp_path, f"http://127.0.0.1:{free_port()}")
    giving.put(ITEMS[0], files={"index.html": b"here"})
    seen = list[str]()

    async def announce(announcer: Announcer, _changed: Sequence[Name]) -> None:
        holding = announcer.catalogue.holding(parse_ibi(ITEMS[0]))
        if announcer.data == giving.data and holding is not None:
            seen.append(f"{holding.state}{'' if holding.files else ' without files'}")

    monkeypatch.setattr(Announcer, "announce", announce)
    with (
        giving.served(),
        taking.served(),
    ):  # without periodic tasks, which would take the same steps once more
        assert hand_over(giving, ITEMS[0], remove=remove) is GiverStage.DONE
    assert seen == states
