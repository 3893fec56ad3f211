"""Restored originals are settled by what peers and resolvers answer: what they are asked, and what is noted then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ibi.archive.replication.restored_originals import Settler, SettlingResult
from ibi.archive.store.tables import listings
from ibi.archive.store.tables.copies import CopySource
from ibi.errors import HoldingError, NotHeld
from ibi.identifier.forms import parse_ibi
from ibi.protocol.extensions.holdings import HOLDERS_PATH
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import Peer
from support.archive.replication_fixture import Archive, Elsewhere, make_archive

BACKUP = "2026-11-21T10:00:00Z"
FAR = "far.example/w/2020/01.01.00.00"
MOVED, GIVEN, GONE, DOUBTED, UNKNOWN = (f"a.example/b/2010/01.0{day}.00.00" for day in range(1, 6))
NAMES = (MOVED, GIVEN, GONE, DOUBTED, UNKNOWN)


class Answering(Elsewhere):
    """A peer or a resolver: `reply` gives the JSON for a path and its query; None: it has failed."""

    reply: Callable[[str, dict[str, str]], Any]

    def answer(self, target: str) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(target)
        value = self.reply(parts.path, {name: each[0] for name, each in parse_qs(parts.query).items()})
        return (500, {}, b"{}") if value is None else (200, {}, json.dumps(value).encode())


def holders(*reported: dict[str, Any]) -> dict[str, Any]:
    usual = {"original": None, "address": "", "removed": False, "disputed": False}
    return {"items": [usual | each for each in reported]}


@contextmanager
def restored(folder: Path, names: tuple[str, ...] = NAMES, **more: object) -> Iterator[Archive]:
    """An Archive whose originals came back from a backup."""
    here = make_archive(folder, 1, **more)
    for name in names:
        here.put(name, url=f"http://far.example/{name}")
    with here.directory.catalogue() as catalogue, catalogue.writing() as writer:
        own = catalogue.holding(here.settings.service.main)
        assert own is not None
        listings.unsettle_originals(writer.run, BACKUP, own.number)
    yield here


def settled(here: Archive, progress: list[tuple[int, int | None]] | None = None) -> SettlingResult:
    done = [] if progress is None else progress
    with here.item_store() as item_store:
        settler = Settler(item_store, here.data)
        return asyncio.run(settler.ask("otto", lambda *counts: done.append(counts)))


def test_what_peers_and_resolvers_know_is_noted_and_the_rest_stays_unsettled(tmp_path: Path) -> None:
    peer, resolver = Answering(), Answering()
    pages = {
        "": {"service": FAR, "received": [{"ibi": GIVEN, "state": "Original"}], "next": "0" * 32},
        "0" * 32: {"service": FAR, "received": [{"ibi": DOUBTED, "state": "Unsettled"}], "next": "0" * 32},
    }
    peer.reply = lambda _path, query: pages[query.get("after", "")]
    resolver.reply = lambda _path, _query: holders(
        {"ibi": MOVED, "original": FAR, "address": "far.example:81"},
        {"ibi": GONE, "removed": True},
        {"ibi": DOUBTED, "disputed": True},
        {"ibi": GIVEN, "original": "b.example/w/2020/01.01.00.00"},
    )
    progress = list[tuple[int, int | None]]()
    with peer.served() as there, resolver.served() as root, restored(tmp_path, resolver=root) as here:
        Peer.write_tables(
            here.data,
            {"peer": Peer(address=there, token="word"), "none": Peer(address="http://no.example", token="")},
        )
        found = settled(here, progress)
        service = str(here.settings.service.main)
    assert found == SettlingResult(moved=2, removed=1, left=2)
    assert progress == [(5, 5)]
    assert [(path, sent.get("authorization")) for path, sent in peer.requests] == [
        ("/-/api/transfers", "Bearer word"), (f"/-/api/transfers?after={'0' * 32}", "Bearer word")
    ]  # fmt: skip
    assert [(path, sent.get("authorization")) for path, sent in resolver.requests] == [
        (f"{HOLDERS_PATH}?ibi={'+'.join(NAMES)}&service={service}", None)
    ]
    held = {name: here.held(name) for name in NAMES}
    assert {name: (each.state, each.unsettled) for name, each in held.items()} == {
        MOVED: (ItemState.COPY, ""), GIVEN: (ItemState.COPY, ""), GONE: (ItemState.DELETED, ""),
        DOUBTED: (ItemState.ORIGINAL, BACKUP), UNKNOWN: (ItemState.ORIGINAL, BACKUP),
    }  # fmt: skip
    for name, archive, source in ((MOVED, "http://far.example:81", root), (GIVEN, there, there)):
        assert here.source(name) == CopySource(
            archive=archive,
            service=FAR,
            original=held[name].timestamp,
            checked=BACKUP,
            since=BACKUP,
            private=True,
        )
        event = here.events(name)[-1]
        assert (event.what, event.who, event.detail) == (
            "given", "otto", {"to": archive, "service": FAR, "by": source, "backup": BACKUP}
        )  # fmt: skip
        assert held[name].transferable
    event = here.events(GONE)[-1]
    assert (event.what, event.who, event.detail) == (
        "removed", "otto", {"by": root, "backup": BACKUP}
    )  # fmt: skip


def test_where_the_address_of_the_new_holder_is_unknown_no_source_is_noted(tmp_path: Path) -> None:
    resolver = Answering()
    resolver.reply = lambda _path, _query: holders({"ibi": MOVED, "original": FAR})
    with resolver.served() as root, restored(tmp_path, (MOVED,), resolver=root) as here:
        assert settled(here) == SettlingResult(moved=1)
    assert here.held(MOVED).state is ItemState.COPY
    with here.directory.catalogue() as catalogue, catalogue.reading() as run:
        assert run("SELECT count(*) FROM copied").fetchone()[0] == 0


def test_who_cannot_be_asked_is_a_problem_and_gets_one_request(tmp_path: Path) -> None:
    peer, resolver = Answering(), Answering()
    peer.reply = resolver.reply = lambda _path, _query: None
    with peer.served() as there, resolver.served() as root, restored(tmp_path, resolver=root) as here:
        Peer.write_tables(here.data, {"peer": Peer(address=there, token="word")})
        found = settled(here)
    assert [(source, str(why)) for source, why in found.problems] == [
        (there, "it answered with status 500"), (root, "it answered with status 500")
    ]  # fmt: skip
    assert (found.left, len(peer.requests), len(resolver.requests)) == (5, 1, 1)


def test_no_request_is_sent_where_nothing_is_unsettled(tmp_path: Path) -> None:
    with restored(tmp_path, ()) as here:
        Peer.write_tables(here.data, {"peer": Peer(address="http://127.0.0.1:9", token="word")})
        assert settled(here) == SettlingResult()
    with restored(tmp_path / "other", (MOVED,)) as here:
        found = settled(here)
    assert [(source, str(why)) for source, why in found.problems] == [
        ("", "no resolver has been joined that could tell what was removed")
    ]
    assert found.left == 1


def test_a_request_names_as_many_items_as_fit_into_4000_characters(tmp_path: Path) -> None:
    def name(number: int, length: int) -> str:
        fixed = f"a{number:02}.example/{{}}/2010/01.01.00.00"
        return fixed.format("b" * (length - len(fixed) + 2))

    resolver, names_of_requests = Answering(), list[list[str]]()

    def reply(_path: str, query: dict[str, str]) -> Any:
        names_of_requests.append(query["ibi"].split(" "))
        return holders()

    resolver.reply = reply
    # 39 names of 99 characters and as many blanks are 3900; then one of 100 characters fits, one of 101 does not.
    first = [name(number, 99) for number in range(39)]
    with resolver.served() as root:
        for length, counts in ((100, [40]), (101, [39, 1])):
            names = (*first, name(99, length))
            with restored(tmp_path / str(length), names, resolver=root) as here:
                names_of_requests.clear()
                settled(here)
            assert [len(each) for each in names_of_requests] == counts
            assert [each for words in names_of_requests for each in words] == list(names)


def test_a_person_claims_some_or_all_of_them_again(tmp_path: Path) -> None:
    with restored(tmp_path) as here:
        with here.item_store() as item_store:
            settler = Settler(item_store, here.data)
            assert settler.count() == 5
            assert settler.confirm("otto", [parse_ibi(MOVED)]) == SettlingResult(settled=1, left=4)
            for names, sentence in (
                ([GONE, MOVED], f"{MOVED} is settled already"),
                ([GONE, FAR], f"{FAR} is not held here"),
            ):
                with pytest.raises((HoldingError, NotHeld), match=sentence):
                    settler.confirm("otto", map(parse_ibi, names))
            assert settler.count() == 4
            assert settler.confirm("otto", None) == SettlingResult(settled=4)
        event = here.events(GONE)[-1]
        assert (event.what, event.who, event.detail) == ("settled", "otto", {"backup": BACKUP})
        assert [len(here.events(name)) for name in NAMES] == [2] * 5
