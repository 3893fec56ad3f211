"""Restored Archives claim nothing that may have moved or been removed; they are served, beside peers and a resolver."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from http.client import HTTPConnection
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.archive.membership.joining import Resolvers
from ibi.cli import main
from ibi.runtime.settings import Peer
from support.archive.preservation_fixture import ArchiveFolder
from support.cli.archive_commands import Resolver, get, ibi, make_archive, serving, until
from support.ports import free_port
from support.programs import MADE

pytestmark = pytest.mark.long

MOVED, REMOVED, SAME = (f"first.archive.example/b/2010/01.0{day}.00.00" for day in (1, 2, 3))
ITEMS = (MOVED, REMOVED, SAME)


@dataclass
class LocalArchive:
    """An Archive of this machine: its folder and port."""

    data: Path
    port: int

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self, *words: object, status: int = 0) -> str:
        """What `ibi archive` prints, on both outputs."""
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            done = main(["archive", *map(str, (words[0], "--data", self.data, *words[1:]))])
        assert done == status, (words, out.getvalue(), err.getvalue())
        return out.getvalue() + err.getvalue()

    @contextmanager
    def served(self) -> Iterator[None]:
        with serving("--data", self.data, "--bind", f"127.0.0.1:{self.port}"):
            yield

    def answer_to_a_resolver(self, name: str) -> tuple[int, set[str]]:
        """The status and the headers of its answer to a resolver's question."""
        service = str(Resolvers.read(self.data).settings.service.main)
        words = (
            f"servicesubject=urlRequest&clientinformation.ipaddress=127.0.0.1&parsedibiurl.ibi={quote(name)}"
        )
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", f"/{service}?{words}")
        reply = connection.getresponse()
        reply.read()
        connection.close()
        return reply.status, {header.lower() for header in reply.headers}

    def shows(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.command("show", name, "--json"))
        return found

    def unsettled(self) -> int:
        return int(json.loads(self.command("show", "--json"))["unsettled"])


@dataclass
class World:
    """Two Archives that know each other, and a resolver."""

    first: LocalArchive
    second: LocalArchive
    resolver: Resolver
    backups: Path

    def resolve(self, name: str, *, original: bool = False) -> int:
        """The status of a persistent URL."""
        words = "?ibiurl.requireditemstatus=Original" if original else ""
        return get(self.resolver.port, f"/{name}{words}")[0]

    def restore(self) -> str:
        """Lose the first Archive, and put it back from its backup."""
        shutil.rmtree(self.first.data)
        return self.first.command("restore", "--from", self.backups)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """The first Archive has three items, and a backup of them."""
    resolver = Resolver(tmp_path / "resolver")
    places = []
    for name in ("first", "second"):
        place = LocalArchive(tmp_path / name, free_port())
        make_archive(place.data, place.port, "--resolver", resolver.url)
        settings = Resolvers.read(place.data)
        resolver.register(str(settings.settings.service.main), settings.settings.key)
        places.append(place)
    first, second = places
    token = Tokens(second.data).make("first", MADE, [Scope.TRANSFER])
    Peer.write_tables(first.data, {"second": Peer(address=second.root, token=token)})
    Peer.write_tables(second.data, {"first": Peer(address=first.root, token="")})
    for item in ITEMS:
        ArchiveFolder(first.data).put(item, {"a.txt": b"hello"}, metadata={"title": ["An item"]})
    first.command("backup", "--to", tmp_path / "backups")
    return World(first, second, resolver, tmp_path / "backups")


def included(world: World) -> None:
    until(lambda: len(world.resolver.included) == 2)


def since_the_backup(world: World, *, seen: bool) -> None:
    """Hand one item over and remove another; `seen`: a reader looks at all of them, before and after."""
    with world.first.served(), world.second.served():
        included(world)
        assert {world.resolve(name) for name in ITEMS if seen} <= {302}
        world.first.command("transfer", MOVED, "--to", "second")
        world.first.command("delete", REMOVED, "--reason", "wrong")
        if seen:
            until(lambda: world.resolve(REMOVED) == 410)  # answers are cached until a notice comes
            assert [world.resolve(name, original=True) for name in (MOVED, SAME)] == [302, 302]


@pytest.mark.proves("ARC-05", "ARC-07")
def test_what_moved_or_was_removed_stays_so_and_the_rest_waits_for_a_person(world: World) -> None:
    with world.resolver.running():
        since_the_backup(world, seen=True)
    printed = world.restore()
    assert "originals that are not settled (3)" in printed
    assert "archive settle" in printed
    assert "are not settled: 3" in world.first.command("check", status=1)
    # No peer and no resolver can tell what became of them yet.
    with world.first.served():
        for name in ITEMS:
            # A resolver would take Retry-After for a pause of the whole Archive.
            status, headers = world.first.answer_to_a_resolver(name)
            assert (status, "retry-after" in headers) == (503, False)
            for page in ("/-/item/", "/-/metadata/", "/-/files/", "/-/api/items/", "/-/api/handles/", "/"):
                assert get(world.first.port, page + name)[0] == 503, page + name
            assert get(world.first.port, f"/col/{name}/doc/a.txt")[0] == 503
        listed = json.loads(get(world.first.port, "/-/api/items?limit=9")[1])["items"]
        assert [each["rep"] for each in listed] == ["archive.example/first/2020/01.01.00.00"]
        assert world.first.unsettled() == 3
    with world.resolver.running(), world.first.served():
        # The resolver knows what moved and what was removed; of the rest, none can say that it was not removed.
        until(lambda: world.first.unsettled() == 1, 60)
        until(lambda: world.resolver.included)
        assert world.first.answer_to_a_resolver(SAME)[0] == 503
        statuses = [world.resolve(name, original=True) for name in ITEMS]
        assert 409 not in statuses
        assert statuses[1] == 410
        with world.second.served():
            assert "originals that are left (1)" in world.first.command("settle")
            assert (world.first.unsettled(), world.resolve(SAME)) == (1, 503)
            world.first.command("settle", "--name", SAME)
            until(lambda: world.resolve(MOVED, original=True) == 302)
            until(lambda: [world.resolve(name, original=True) for name in ITEMS] == [302, 410, 302])
    moved, removed, same = (world.first.shows(name) for name in ITEMS)
    assert [each.get("state", "Original") for each in (moved, removed, same)] == [
        "Copy",
        "Deleted",
        "Original",
    ]
    assert (moved["history"][-1]["what"], moved["history"][-1]["to"]) == ("given", world.second.root)
    assert moved["copy"]["archive"] == world.second.root
    assert (removed["history"][-1]["what"], removed["history"][-1]["by"]) == ("removed", world.resolver.url)
    assert same["history"][-1]["what"] == "settled"
    assert world.second.shows(MOVED).get("state", "Original") == "Original"


def test_a_peer_tells_of_a_hand_over_that_no_reader_has_seen(world: World) -> None:
    with world.resolver.running():
        since_the_backup(world, seen=False)
        world.restore()
        with world.second.served():
            printed = world.first.command("settle")
    assert "moved: 1;" in printed
    assert world.first.shows(MOVED)["state"] == "Copy"


@pytest.mark.parametrize("was_seen", [True, False])
def test_a_removal_that_no_reader_has_seen_is_known_by_its_notice(world: World, *, was_seen: bool) -> None:
    with world.resolver.running(), world.second.served():
        with world.first.served():
            included(world)
            assert not was_seen or world.resolve(REMOVED) == 302
            time.sleep(2)  # until the first notice, that anything may have changed, is out
            world.first.command("delete", REMOVED, "--reason", "wrong")
            until(lambda: _holder(world, REMOVED, world.first)["removed"])
        # What an Archive says of an item that it was never seen with counts for itself alone.
        assert not _holder(world, REMOVED, world.second)["removed"] or was_seen
        assert (_holder(world, REMOVED, world.first)["original"] is None) == (not was_seen)
        world.restore()
        assert "removed: 1; not settled: 2" in world.first.command("settle")
    assert world.first.shows(REMOVED)["state"] == "Deleted"


def test_a_removal_that_no_resolver_knows_is_not_undone_by_asking(world: World) -> None:
    with world.resolver.running(), world.second.served():
        with world.first.served():
            included(world)
            assert world.resolve(REMOVED) == 302  # also where it was seen after the backup
        world.first.command("delete", REMOVED, "--reason", "wrong")
        world.restore()
        with world.first.served():
            included(world)
            assert "originals that are left (3)" in world.first.command("settle")
            time.sleep(7)  # the Archive itself asks, and asks again
            assert world.first.unsettled() == 3
            assert [world.resolve(name) for name in (REMOVED, SAME)] == [503, 503]
            assert get(world.first.port, f"/{REMOVED}")[0] == 503


def _holder(world: World, name: str, asking: LocalArchive) -> dict[str, Any]:
    """What the resolver tells an Archive of the holder of an original."""
    service = Resolvers.read(asking.data).settings.service.main
    status, body = get(world.resolver.port, f"/-/api/holders?ibi={name}&service={service}")
    assert status == 200
    (found,) = json.loads(body)["items"]
    return dict(found)


def test_a_question_for_too_many_holders_or_for_no_name_is_refused(world: World) -> None:
    with world.resolver.running():
        names = [f"a.example/b/2010/01.01.00.{n:02}" for n in range(51)]
        assert get(world.resolver.port, f"/-/api/holders?ibi={'+'.join(names[:50])}")[0] == 200
        many = "+".join(names)
        for words in ("", "?ibi=", "?ibi=no%20name", f"?ibi={many}", f"?ibi={SAME}&service=none"):
            status, body = get(world.resolver.port, f"/-/api/holders{words}")
            assert (status, len(json.loads(body)["detail"].splitlines())) == (400, 1), words


@pytest.mark.parametrize("way", ["command", "JSON"])
def test_while_a_peer_is_silent_a_person_settles(world: World, way: str) -> None:
    world.restore()
    with world.resolver.running():
        printed = world.first.command("settle", status=1)
        assert world.second.root in printed
        assert world.first.unsettled() == 3
        refused = world.first.command("edit", SAME, "--title", "Another", status=1)
        assert "archive settle" in refused
        assert "archive settle" in world.first.command("delete", SAME, "--reason", "wrong", status=1)
        assert "archive settle" in world.first.command("transfer", SAME, "--to", "second", status=1)
        if way == "command":
            assert "settled: 1;" in world.first.command("settle", "--name", SAME)
        else:
            token = Tokens(world.first.data).make("root", MADE, [Scope.ADMIN])
            with world.first.served():
                body = json.dumps({"names": [SAME]}).encode()
                headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
                connection = HTTPConnection("127.0.0.1", world.first.port, timeout=60)
                connection.request("POST", "/-/api/settlements", body, headers)
                assert connection.getresponse().status == 202
                connection.close()
                until(lambda: world.first.unsettled() == 2)
        assert world.first.unsettled() == 2
        world.first.command("edit", SAME, "--title", "Another")
        with world.first.served():
            until(lambda: world.resolver.included)
            assert (world.resolve(SAME), world.resolve(MOVED)) == (302, 503)
        assert "settled already" in world.first.command("settle", "--name", SAME, status=1)
        assert "settled: 2;" in world.first.command("settle", "--all")
        assert "not settled" not in world.first.command("check", status=1)


def test_an_item_that_is_not_settled_is_shown_as_such(world: World) -> None:
    assert "unsettled" not in world.first.shows(SAME)
    world.restore()
    shown = world.first.shows(SAME)
    assert shown["unsettled"] >= shown["timestamp"]
    printed = world.first.command("show", SAME)
    assert f"unsettled: {shown['unsettled']}" in printed
    assert "may have moved or been removed since" in printed
    world.first.command("settle", "--name", SAME)
    assert "unsettled" not in world.first.shows(SAME)
    assert "may have moved" not in world.first.command("show", SAME)


def test_without_a_resolver_only_a_person_settles(world: World) -> None:
    world.restore()
    world.first.command("leave", "--resolver", world.resolver.url)
    with world.second.served():
        assert "no resolver has been joined" in world.first.command("settle", status=1)
    assert world.first.unsettled() == 3


def test_a_resolver_of_other_software_settles_nothing(world: World) -> None:
    world.restore()
    with world.second.served():
        # Another Archive in the place of the resolver: it answers HTTP, and knows no such route.
        ibi("archive", "leave", "--data", world.first.data, "--resolver", world.resolver.url)
        resolver = f"{world.second.root}/archive.example/second/2020/01.01.00.00"
        ibi("archive", "join", "--data", world.first.data, "--resolver", resolver)
        assert "404" in world.first.command("settle", status=1)
    assert world.first.unsettled() == 3


def test_search_and_harvest_leave_out_what_is_not_settled_and_show_it_afterwards(world: World) -> None:
    world.restore()
    world.first.command("index")

    def found() -> int:
        with world.first.served():
            until(lambda: get(world.first.port, "/-/api/search?text=item")[0] == 200)
            time.sleep(1.5)  # the index follows within a second
            harvested = get(world.first.port, "/-/oai?verb=ListRecords&metadataPrefix=oai_dc")[1]
            found = json.loads(get(world.first.port, "/-/api/search?text=item")[1])["count"]
            assert harvested.count(b"<record>") == found
            return int(found)

    assert found() == 0
    world.first.command("settle", "--all")
    assert found() == 3
