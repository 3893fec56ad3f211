"""How long another Archive or a resolver may take, whose answer begins and does not end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ibi.archive.membership.joining import Resolvers
from ibi.archive.model.item import StoredFile
from ibi.archive.replication.fetching import fetch_description, fetch_files
from ibi.archive.replication.restored_originals import Settler
from ibi.archive.store.tables.listings import unsettle_originals
from ibi.errors import PeerSilent
from ibi.http.client import AddressPolicy
from ibi.http.client.download import Downloads
from ibi.identifier.forms import parse_ibi
from ibi.runtime.settings import Peer
from support.archive.replication_fixture import NAME, Archive, make_archive
from support.concurrency.slow_server import seconds_of

LIMIT = 30
"""Seconds for the answer to one message, whatever it is about."""


@pytest.fixture
def here(tmp_path: Path) -> Archive:
    archive = make_archive(tmp_path, 1)
    archive.put()
    return archive


def downloads() -> Downloads:
    return Downloads(AddressPolicy(allow_private=True))


def test_a_description_is_waited_for() -> None:
    async def fetch(root: str) -> None:
        async with downloads() as opened:
            await fetch_description(opened, root, parse_ibi(NAME))

    assert seconds_of(fetch) == pytest.approx(LIMIT, abs=0.1)


@pytest.mark.parametrize(("mebibytes", "seconds"), [(1, 60 + 16), (10, 60 + 160)])
def test_the_larger_a_file_the_longer_it_is_waited_for(here: Archive, mebibytes: int, seconds: int) -> None:
    file = StoredFile("a.bin", mebibytes << 20, "0" * 64, "text/plain")

    async def fetch(root: str) -> None:
        async with downloads() as opened:
            await fetch_files(opened, here.directory.file_store(), [file], lambda _: f"{root}/a.bin")

    assert seconds_of(fetch) == pytest.approx(seconds, abs=0.1)
    assert list((here.data / "staging").iterdir()) == []


def test_the_answer_to_a_hand_over_is_waited_for(here: Archive) -> None:
    async def offer(root: str) -> None:
        Peer.write_tables(here.data, {"there": Peer(address=root, token="secret")})
        with here.giver() as giver:
            giving = giver.offer(parse_ibi(NAME), "there", "maria")
            after, reply = await giver.advance(giving)
            assert (after.stage, reply) == (giving.stage, None)
            assert isinstance(after.problem, PeerSilent)

    assert seconds_of(offer) == pytest.approx(LIMIT, abs=0.1)


def _a_peer(here: Archive, root: str) -> None:
    Peer.write_tables(here.data, {"there": Peer(address=root, token="secret")})


def _a_resolver(here: Archive, root: str) -> None:
    Resolvers.read(here.data).joining(root, "12345678901234567890", also=True).write(here.data)


@pytest.mark.parametrize("joins", [_a_peer, _a_resolver])
def test_where_restored_originals_are_is_waited_for(
    here: Archive, joins: Callable[[Archive, str], None]
) -> None:
    async def ask(root: str) -> None:
        joins(here, root)
        with here.item_store() as item_store:
            with item_store.catalogue.writing() as writer:
                unsettle_originals(writer.run, "2026-11-21T10:00:00Z", 0)
            settler, steps = Settler(item_store, here.data), list[tuple[int, int | None]]()
            number = settler.count()
            result = await settler.ask("maria", lambda done, total: steps.append((done, total)))
        assert steps == [(number, number)]
        assert [type(problem) for url, problem in result.problems if url == root] == [PeerSilent]

    assert seconds_of(ask) == pytest.approx(LIMIT, abs=0.1)
