"""Copies follow their originals within seconds, over real sockets."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ibi.archive.replication import following
from ibi.archive.replication.copying import Copier
from ibi.archive.replication.following import CopyFollower
from ibi.archive.store.item_changes import remove
from ibi.archive.store.tables import change_log, copies
from ibi.http.client import AddressPolicy, Client
from ibi.identifier.forms import parse_ibi
from ibi.protocol.extensions.changes import MOST_NAMES, ChangesReply
from ibi.protocol.messages import ChangeNotification
from ibi.protocol.query_string import read_query
from ibi.protocol.replies import ChangeReceived
from ibi.runtime.tasks import cancel_tasks
from support.archive.replication_fixture import LARGEST, NAME, Archive, Elsewhere, make_archive
from support.network.up import get

OTHER = "a.example/b/2010/01.01.00.01"
SERVICE = "far.example/w/2020/01.01.00.00"
FIRST = "1.00000000000000aa"


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("ASK_EVERY", 0.3), ("SOON", 0.1), ("LOOK_EVERY", 0.02), ("LIST_EVERY", 0.2)):
        monkeypatch.setattr(following, name, seconds)


@pytest.fixture
def there(tmp_path: Path) -> Archive:
    """The Archive of the original."""
    return make_archive(tmp_path, 1)


@pytest.fixture
def here(tmp_path: Path) -> Archive:
    """The Archive of the copy."""
    return make_archive(tmp_path, 2)


def until(happened: Callable[[], object], seconds: float = 20) -> None:
    """Wait for what another thread brings about."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


@contextmanager
def watching(archive: Archive) -> Iterator[Callable[..., str]]:
    """Give a function that returns the mark of a copy."""
    with archive.directory.catalogue() as catalogue:

        def due(name: str = NAME) -> str:
            with catalogue.reading() as run:
                row = run(
                    "SELECT due FROM copied JOIN name ON name.item = copied.item WHERE name.name = :name",
                    name=name,
                ).fetchone()
                return str(row[0])

        yield due


@pytest.mark.proves("CON-07", "ARC-13")
def test_a_copy_follows_an_edit_a_new_file_and_a_removal(there: Archive, here: Archive) -> None:
    there.put(files={"index.html": b"old"})
    there.put(OTHER, files={"index.html": b"other"})
    with there.operated(), here.operated(), watching(here) as due:
        here.copy(archive=there.root)
        here.copy(OTHER, archive=there.root)
        until(lambda: due(NAME) == due(OTHER) == "")
        there.edit(language="pt")
        until(lambda: here.held().language == "pt")
        there.edit(files={"index.html": b"new", "more.txt": b"more"})
        until(lambda: here.content() == {"index.html": b"new", "more.txt": b"more"})
        checked = here.source(OTHER).checked
        with there.item_store() as item_store:
            remove(item_store, parse_ibi(NAME), "", "maria")
        until(lambda: here.source().since)
        assert "has removed" in str(here.source().problem)
        assert here.source(OTHER).checked == checked
    assert [event.what for event in here.events()] == ["copied", "refreshed", "refreshed"]


@pytest.mark.proves("ARC-13")
def test_a_copy_follows_its_original_to_a_third_archive(there: Archive, tmp_path: Path) -> None:
    third, resolver = make_archive(tmp_path, 3), Elsewhere()
    third.knows(there, "giver")
    there.knows(third, "receiver", third.lets_in("giver"))
    there.put()
    with resolver.served() as root:
        here = make_archive(tmp_path, 2, resolver=root)
        resolver.leads(NAME, f"{third.root}/{NAME}")
        with there.operated(), third.operated(), here.operated(), watching(here) as due:
            here.copy(archive=there.root)
            until(lambda: due(NAME) == "")
            with there.giver() as giver:
                asyncio.run(giver.advance(giver.offer(parse_ibi(NAME), "receiver", "maria")))
            until(lambda: here.source().archive == third.root)
            until(lambda: due(NAME) == "")
            third.edit(files={"index.html": b"edited there"})
            until(lambda: here.content()["index.html"] == b"edited there")
            assert here.source().since == ""


@pytest.mark.one_store("sqlite", "it is restored by copying its folder")
def test_a_restored_archive_has_all_its_copies_compared(
    there: Archive, here: Archive, tmp_path: Path
) -> None:
    there.put(files={"index.html": b"old"})
    backup = tmp_path / "backup"
    with there.operated(), here.operated(), watching(here) as due:
        here.copy(archive=there.root)
        until(lambda: due(NAME) == "")
        shutil.copytree(there.data, backup)
        there.edit(files={"index.html": b"new"})
        until(lambda: here.content() == {"index.html": b"new"})
    shutil.rmtree(there.data)
    shutil.copytree(backup, there.data)
    with there.directory.catalogue() as catalogue, catalogue.writing() as writer:
        change_log.begin_again(writer.run)
    with there.operated(), here.operated():
        until(lambda: here.content() == {"index.html": b"old"})


class Far(Elsewhere):
    """An Archive of linked items that tells of changes whatever a test wants.

    `items`: the language of each, by name; `reply` returns the body of a reply to a request for changes; `positions`:
    those in these requests; `hangs`: descriptions do not come.
    """

    def __init__(self) -> None:
        super().__init__()
        self.items = {NAME: "en"}
        self.reply: Callable[[str, str], bytes] = self.honest
        self.log: list[tuple[str, str]] = []
        self.positions: list[str] = []
        self.hangs = False

    def change(self, name: str, language: str) -> None:
        """An item has another language from now on."""
        self.items[name] = language
        self.log.append((f"{len(self.log) + 2}.00000000000000bb", name))

    def honest(self, word: str, after: str) -> bytes:
        """Return the reply of an Archive that tells all."""
        positions = [FIRST, *(position for position, _ in self.log)]
        if after not in positions:
            return ChangesReply(word, positions[-1], None).body()
        names = dict.fromkeys(name for _, name in self.log[positions.index(after) :])
        return ChangesReply(word, positions[-1], tuple(names)).body()

    def described(self) -> int:
        """How many descriptions were asked for."""
        return sum(path.startswith("/-/api/items/") for path, _ in self.requests)

    def answer(self, target: str) -> tuple[int, dict[str, str], bytes]:
        path, _, query = target.partition("?")
        if path == "/-/about":
            return 200, {}, json.dumps({"service_ibi": SERVICE}).encode()
        if path == f"/{SERVICE}":
            pairs = dict(read_query(query))
            self.positions.append(pairs.get("changes.after", ""))
            body = self.reply(pairs["changes.word"], self.positions[-1])
            return 200 if body else 503, {}, body
        name = path.removeprefix("/-/api/items/")
        if name in self.items:
            while self.hangs:
                time.sleep(0.02)
            facts = {"rep": name, "state": "Original", "content_type": "Data", "url": "http://x.example/",
                     "timestamp": "2026-01-01T00:00:00Z", "language": self.items[name]}  # fmt: skip
            return 200, {"etag": f'"{self.items[name]}"'}, json.dumps(facts).encode()
        return 404, {}, b""


@contextmanager
def far_copied(here: Archive) -> Iterator[tuple[Far, str]]:
    """Serve a far Archive, and copy its items."""
    far = Far()
    with far.served() as root:
        for name in far.items:
            here.copy(name, archive=root)
        yield far, root


def follow(here: Archive, done: Callable[[], object], *, allowed: bool = True) -> None:
    """Follow until something has happened, then end at once, wherever it stands."""

    async def main() -> None:
        with here.item_store() as item_store:
            copier = Copier(item_store, "", LARGEST)
            public, private = (Client(AddressPolicy(allow_private=each)) for each in (False, allowed))
            follower = CopyFollower(item_store.catalogue, lambda: copier, public, private)
            task = asyncio.create_task(follower.run())
            async with asyncio.timeout(20):
                while not done():
                    assert not task.done(), task.exception()
                    await asyncio.sleep(0.01)
            await cancel_tasks([task])
            await asyncio.sleep(
                0.05
            )  # transports of a download that was cancelled close in the next rounds of the loop

    asyncio.run(main())


def position(here: Archive, root: str, service: str = SERVICE) -> str:
    with here.directory.catalogue() as catalogue, catalogue.reading() as run:
        return copies.position_of(run, root, service)


def test_what_was_told_is_refreshed_although_the_process_ends_before(here: Archive) -> None:
    with far_copied(here) as (far, root), watching(here) as due:
        follow(here, lambda: due() == "" and position(here, root) == FIRST)
        far.change(NAME, "pt")
        far.hangs = True
        before = far.described()
        follow(here, lambda: far.described() > before)
        assert position(here, root) == due() == far.log[-1][0]
        far.hangs = False
        follow(here, lambda: here.held().language == "pt" and due() == "")
        assert far.positions[-1] == far.log[-1][0]


def test_a_change_that_is_told_during_a_refresh_is_not_lost(here: Archive) -> None:
    with far_copied(here) as (_far, root), watching(here) as due:
        follow(here, lambda: due() == "" and position(here, root) == FIRST)
        with here.directory.catalogue() as catalogue, catalogue.writing() as writer:
            copies.note_changes(writer.run, root, SERVICE, [NAME], "2.00000000000000cc")
            (due_copy,) = copies.copies_to_compare(writer.run, root, SERVICE, 20)
            copies.note_changes(writer.run, root, SERVICE, [NAME], "3.00000000000000cc")
            copies.unmark(writer.run, due_copy)
        assert due() == "3.00000000000000cc"


def test_a_copy_that_comes_from_another_archive_now_is_compared_once_more(here: Archive) -> None:
    with far_copied(here) as (far, root), watching(here) as due:
        assert due() == "~"
        follow(here, lambda: due() == "")
        here.copy(archive=root)
        assert due() == ""
        with Elsewhere.served(far) as moved:
            here.copy(archive=moved)
            assert due() == "~"


def lies() -> dict[str, Callable[[str, str], bytes]]:
    """What an Archive may send instead of a reply, and what makes it endless."""
    count = iter(range(2, 10**9))

    def next_position() -> str:
        return f"{next(count)}.00000000000000dd"

    made_up = tuple(
        f"a.example/b/2011/01.01.00.{number % 60:02}.{number // 60}" for number in range(MOST_NAMES)
    )
    return {
        "another word": lambda _word, _after: ChangesReply("0" * 16, next_position(), (NAME,)).body(),
        "no pairs": lambda _word, _after: b"<html>",
        "more of the same": lambda word, after: ChangesReply(word, after or FIRST, (NAME,), more=True).body(),
        "endless": lambda word, _after: ChangesReply(word, next_position(), (), more=True).body(),
        "500 names": lambda word, _after: ChangesReply(word, next_position(), made_up, more=True).body(),
        "anything": lambda word, _after: ChangesReply(word, next_position(), None).body(),
        "too many": lambda word, _after: ChangesReply(word, next_position(), (*made_up, NAME)).body(),
        "too long": lambda _word, _after: b"x" * (1 << 22),
    }


@pytest.mark.parametrize("lie", lies())
def test_an_archive_that_lies_costs_little(here: Archive, lie: str) -> None:
    with far_copied(here) as (far, root), watching(here) as due:
        follow(here, lambda: due() == "" and position(here, root) == FIRST)
        far.reply = lies()[lie]
        before, end = (len(far.positions), far.described()), time.monotonic() + 2
        follow(here, lambda: time.monotonic() > end)
        requests, described = len(far.positions) - before[0], far.described() - before[1]
        # Ten pages a turn, and a turn takes a tenth of a second at least in this test.
        assert requests <= {"endless": 200, "500 names": 200, "anything": 4}.get(
            lie, 1 if "long" not in lie else 4
        )
        assert described <= 2
        if lie in {"another word", "no pairs", "more of the same", "too many", "too long"}:
            assert position(here, root) == FIRST


def test_an_archive_is_not_contacted_at_a_forbidden_address(here: Archive) -> None:
    with far_copied(here) as (far, _root):
        end = time.monotonic() + 1
        follow(here, lambda: time.monotonic() > end, allowed=False)
        assert far.positions == []


def test_a_silent_archive_is_asked_less_and_less_often(here: Archive) -> None:
    with far_copied(here) as (far, root), watching(here) as due:
        follow(here, lambda: due() == "" and position(here, root) == FIRST)
        far.reply = lambda _word, _after: b""
        before, end = len(far.positions), time.monotonic() + 2.5
        follow(here, lambda: time.monotonic() > end)
        assert 2 <= len(far.positions) - before <= 4
        far.change(NAME, "pt")
        far.reply = far.honest
        follow(here, lambda: here.held().language == "pt")


def test_one_archive_that_hangs_does_not_delay_another(here: Archive, there: Archive) -> None:
    there.put(OTHER, files={"index.html": b"old"})
    with far_copied(here) as (far, _root), there.operated(), watching(here) as due:
        here.copy(OTHER, archive=there.root)
        follow(here, lambda: due(NAME) == due(OTHER) == "")
        far.change(NAME, "pt")
        far.hangs = True
        there.edit(OTHER, files={"index.html": b"new"})
        follow(here, lambda: here.content(OTHER) == {"index.html": b"new"})
        far.hangs = False


def test_a_notice_has_the_archive_asked_at_once(
    here: Archive, there: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.put(files={"index.html": b"old"})
    with there.operated(), here.operated(), watching(here) as due:
        here.copy(archive=there.root)
        until(lambda: due() == "" and position(here, there.root, str(there.settings.service.main)))
        monkeypatch.setattr(following, "ASK_EVERY", 600.0)
        time.sleep(0.5)  # the next request would be in ten minutes
        there.edit(files={"index.html": b"new"})
        time.sleep(0.5)
        assert here.content() == {"index.html": b"old"}
        replies = [
            get(f"{here.root}/{here.settings.service.main}?{ChangeNotification(service).query()}")
            for service in (parse_ibi(SERVICE), there.settings.service.main)
        ]
        assert [reply.status for reply in replies] == [400, 200]
        assert replies[1].body == ChangeReceived().body()
        until(lambda: here.content() == {"index.html": b"new"}, 5)


def test_nothing_is_asked_while_copies_are_refreshed_on_demand_only(tmp_path: Path) -> None:
    here = make_archive(tmp_path, 2, refresh_hours=0)
    with far_copied(here) as (far, _root), here.operated():
        time.sleep(1)
        assert far.positions == []


def test_a_copy_that_is_being_handed_over_is_tried_again(here: Archive) -> None:
    with far_copied(here) as (far, root), watching(here) as due:
        follow(here, lambda: due() == "" and position(here, root) == FIRST)
        del far.items[NAME]
        far.log.append(("2.00000000000000bb", NAME))
        before = far.described()
        follow(here, lambda: far.described() > before)
        far.items[NAME] = "pt"
        follow(here, lambda: here.held().language == "pt" and due() == "")
        assert here.source().since == ""


def test_a_copy_that_its_archive_no_longer_has_is_left_to_the_daily_comparison(
    here: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    with far_copied(here) as (far, root), watching(here) as due:
        follow(here, lambda: due() == "" and position(here, root) == FIRST)
        far.change(NAME, "pt")
        del far.items[NAME]
        before, last = far.described(), far.log[-1][0]
        monkeypatch.setattr(following, "SILENT_SECONDS", 0.1)
        follow(here, lambda: position(here, root) == last and due() == "")
        assert far.described() - before == following.TRIES
        assert here.source().since
