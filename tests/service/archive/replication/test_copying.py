"""Copies of items whose originals other Archives hold, over real sockets."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibi.app import archive_duties
from ibi.archive.membership.joining import WatchedArchiveSettings
from ibi.archive.replication import copying
from ibi.archive.replication.copying import Copier, refresh_due
from ibi.archive.store.deposit import edit, remove
from ibi.archive.store.tables import copies
from ibi.errors import AlreadyHeld, ForbiddenAddress, HoldingError, PeerGarbled, PeerSilent, SetupError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.tasks import cancel_tasks
from support.archive.replication_fixture import FILES, LARGEST, NAME, Archive, Elsewhere, make_archive
from support.checks.full_disk import files_of_at_most

FAR = "9999-01-01T00:00:00Z"


@pytest.fixture
def there(tmp_path: Path) -> Archive:
    """The Archive of the original."""
    return make_archive(tmp_path, 1)


@pytest.fixture
def here(tmp_path: Path) -> Archive:
    """The Archive of the copy."""
    return make_archive(tmp_path, 2)


def staged(archive: Archive) -> list[str]:
    return [path.name for path in (archive.data / "staging").iterdir()]


@pytest.mark.proves("ARC-02", "ARC-13")
def test_a_copy_keeps_name_facts_bytes_and_timestamp_of_its_original(there: Archive, here: Archive) -> None:
    facts: dict[str, Any] = {
        "metadata": {"title": ["Olá"]},
        "language": "pt",
        "target": "index.html",
        "licence": "http://l.example/",
    }
    original = there.put(**facts)
    with there.served():
        copy = here.copy(archive=there.root)
    assert copy.state is ItemState.COPY
    assert (copy.forms, copy.timestamp, copy.metadata) == (
        original.forms,
        original.timestamp,
        original.metadata,
    )
    assert (copy.language, copy.target, copy.licence) == ("pt", "index.html", "http://l.example/")
    assert here.content() == FILES
    source = here.source()
    assert (source.archive, source.original, source.since) == (there.root, original.timestamp, "")
    assert source.service == str(there.settings.service.main)
    assert [event.what for event in here.events()] == ["copied"]


def test_a_copy_lies_in_the_folders_of_its_original_so_that_relative_links_go_on_working(
    there: Archive, here: Archive
) -> None:
    """From index.html, four folders and doc up and down again, as in the draft of 2009."""
    other = "c.example/d@81/2009/02.03.04.05"
    there.put(files={"index.html": b'<a href="../../../../../c.example/d@81/2009/02.03.04.05/doc/x.pdf">'})
    there.put(other, {"x.pdf": b"pdf"})
    with there.served():
        for name in (NAME, other):
            here.copy(name, there.root)
    paths = [
        sorted(path.relative_to(archive.data) for path in (archive.data / "col").rglob("*") if path.is_file())
        for archive in (there, here)
    ]
    assert paths[0] == paths[1]
    linked = (here.data / "col" / NAME / "doc" / "../../../../.." / other / "doc/x.pdf").resolve()
    assert linked.read_bytes() == b"pdf"


@pytest.mark.proves("ARC-04")
def test_a_copy_beside_its_original_is_refused(there: Archive, here: Archive) -> None:
    there.put()
    here.put()
    with there.served(), pytest.raises(AlreadyHeld, match="held here as the Original"):
        here.copy(archive=there.root)


def test_a_file_that_is_not_what_was_told_leaves_nothing_behind(there: Archive, here: Archive) -> None:
    there.put()
    (there.data / "col" / NAME / "doc/index.html").write_bytes(b"<p>hullo</p>")
    with there.served(), pytest.raises(PeerGarbled, match=r"index\.html did not come as it was described"):
        here.copy(archive=there.root)
    assert (here.holding(), staged(here)) == (None, [])


def test_items_that_are_not_open_are_not_copied(there: Archive, here: Archive) -> None:
    names = [f"a.example/b/2010/01.01.00.0{number}" for number in range(1, 6)]
    there.put(names[0], access="closed")
    there.put(names[1], access="embargoed", embargo="9999-01-01")
    there.put(names[2], file_list_public=False)
    there.put(names[3])
    with there.item_store() as item_store:
        remove(item_store, parse_ibi(names[3]), "", "maria")
    with there.served():
        for name in names[:3]:
            with pytest.raises(HoldingError, match="does not give"):
                here.copy(name, there.root)
        with pytest.raises(HoldingError, match="has removed"):
            here.copy(names[3], there.root)
        with pytest.raises(PeerGarbled, match="describes no items"):
            here.copy(names[4], there.root)
    assert [here.holding(name) for name in names] == [None] * 5


def test_only_an_original_is_copied(there: Archive, here: Archive, tmp_path: Path) -> None:
    third = make_archive(tmp_path, 3)
    there.put()
    with there.served():
        here.copy(archive=there.root)
    with here.served(), pytest.raises(HoldingError, match="holds only a copy"):
        third.copy(archive=here.root)


def test_a_file_larger_than_this_archive_takes_is_refused(there: Archive, here: Archive) -> None:
    there.put(files={"big": bytes(LARGEST + 1)})
    with there.served(), pytest.raises(HoldingError, match="takes at most"):
        here.copy(archive=there.root)


def test_a_private_address_needs_the_administrators_word(there: Archive, here: Archive) -> None:
    there.put()
    with there.served(), pytest.raises(ForbiddenAddress):
        here.copy(archive=there.root, private=False)


@pytest.mark.proves("RES-12")
def test_the_resolver_leads_to_the_archive_of_the_original(there: Archive, here: Archive) -> None:
    there.put(ibip="8JMKD3MGP8W/35MME4E")
    resolver = Elsewhere()
    with there.served(), resolver.served() as root:
        resolver.leads("8JMKD3MGP8W/35MME4E", f"{there.root}/col/{NAME}/doc/index.html")
        copy = here.copy("8JMKD3MGP8W/35MME4E", resolver=root)
        assert (str(copy.forms.main), here.source().archive) == (NAME, there.root)
        with pytest.raises(HoldingError, match="does not lead to the original"):
            here.copy("a.example/b/2011/01.01.00.00", resolver=root)


def test_without_a_resolver_one_must_say_where_to_copy_from(here: Archive) -> None:
    with pytest.raises(HoldingError, match="say which Archive"):
        here.copy()


def test_of_a_place_that_describes_nothing_the_one_file_is_taken(here: Archive) -> None:
    far = Elsewhere()
    far.pages["/pub/thesis%20x.pdf"] = (
        200,
        {"etag": '"1"', "last-modified": "Wed, 01 Jan 2020 00:00:00 GMT"},
        b"%PDF",
    )
    with far.served() as root:
        far.leads(NAME, f"{root}/pub/thesis%20x.pdf")
        copy = here.copy(resolver=root)
        assert (copy.timestamp, copy.target) == ("2020-01-01T00:00:00Z", "thesis%20x.pdf")
        assert here.content() == {"thesis%20x.pdf": b"%PDF"}
        assert here.source().compared is False
        assert here.refresh().since == ""
        assert far.requests[-1][1]["if-none-match"] == '"1"'
        far.pages["/pub/thesis%20x.pdf"] = (200, {"etag": '"2"'}, b"%PDF2")
        assert here.refresh().tag == '"2"'
    assert here.content() == {"thesis%20x.pdf": b"%PDF2"}
    assert [event.what for event in here.events()] == ["copied", "refreshed"]


def test_the_same_bytes_again_change_nothing(here: Archive) -> None:
    far = Elsewhere()
    far.pages["/x"] = (200, {}, b"x")
    with far.served() as root:
        far.leads(NAME, f"{root}/x")
        here.copy(resolver=root)
        held = here.held()
        here.refresh()
    assert (here.held(), staged(here)) == (held, [])
    assert [event.what for event in here.events()] == ["copied"]


@pytest.mark.proves("CON-07", "ARC-13")
def test_a_refreshed_copy_fetches_only_what_has_changed(there: Archive, here: Archive) -> None:
    there.put(files={"same": b"same", "changed": b"old", "gone": b"gone"})
    with there.served():
        here.copy(archive=there.root)
        assert here.refresh().since == ""
        with there.item_store() as item_store:
            staging = item_store.file_store.stage_stream("changed")
            staging.write(b"new")
            edited = edit(
                item_store,
                parse_ibi(NAME),
                {"language": "pt"},
                "m",
                staged=[staging.finish()],
                without=["gone"],
            )
        (there.data / "col" / NAME / "doc/same").write_bytes(b"harm")  # fetched again, it would be refused
        assert here.refresh().original == edited.timestamp
    copy = here.held()
    assert (copy.state, copy.language, copy.timestamp) == (ItemState.COPY, "pt", edited.timestamp)
    assert here.content() == {"same": b"same", "changed": b"new"}
    assert not (here.data / "col" / NAME / "doc/gone").exists()
    assert [event.what for event in here.events()] == ["copied", "refreshed"]


@pytest.mark.proves("CON-07")
def test_a_copy_stays_when_its_original_goes_and_says_since_when_it_may_lag(
    there: Archive, here: Archive
) -> None:
    there.put()
    with there.served():
        here.copy(archive=there.root)
    silent = here.refresh()
    assert silent.since != ""
    assert isinstance(here.source().problem, Exception)
    with here.served() as served:
        page = served.get(f"/-/item/{NAME}", accept="text/html").body.decode()
        assert f'May differ from the original since</dt>\n<dd><time datetime="{silent.since}">' in page
    with there.served():
        assert here.refresh() == here.source()
        assert (here.source().since, here.source().problem) == ("", None)
        with there.item_store() as item_store:
            remove(item_store, parse_ibi(NAME), "", "maria")
        gone = here.refresh()
        assert here.refresh().since == gone.since != ""
    assert "has removed" in str(here.source().problem)
    assert (here.held().state, here.content()) == (ItemState.COPY, FILES)


def test_a_refreshed_copy_follows_its_original_to_another_archive(
    there: Archive, here: Archive, tmp_path: Path
) -> None:
    third, resolver = make_archive(tmp_path, 3), Elsewhere()
    there.put()
    with there.served():
        here.copy(archive=there.root)
    third.put(files={"index.html": b"moved"})
    with third.served(), resolver.served() as root:
        resolver.leads(NAME, f"{third.root}/col/{NAME}/doc/index.html")
        assert here.refresh(resolver=root).archive == third.root
    assert here.content() == {"index.html": b"moved"}


def test_only_copies_that_are_due_are_looked_at(there: Archive, here: Archive) -> None:
    there.put()
    here.put("a.example/b/2011/01.01.00.00")
    with there.served():
        here.copy(archive=there.root)
    checked = here.source().checked
    with here.item_store() as item_store:
        copier = Copier(item_store, "", LARGEST)
        asyncio.run(refresh_due(copier, checked, "refresh"))
        assert here.source().since == ""
        asyncio.run(refresh_due(copier, FAR, "refresh"))
    assert here.source().since != ""


OTHER = "a.example/b/2012/01.01.00.00"


def two_copies(here: Archive, far: Elsewhere, root: str) -> None:
    """Copy two files from elsewhere; the first is due before the second, and both have changed since."""
    for name, path in ((NAME, "/first"), (OTHER, "/second")):
        far.pages[path] = (200, {}, b"old")
        far.leads(name, f"{root}{path}")
        here.copy(name, resolver=root)
        far.pages[path] = (200, {}, b"new")
    with here.directory.catalogue() as catalogue, catalogue.writing() as writer:
        for name, checked in ((NAME, "2000-01-01T00:00:00Z"), (OTHER, "2001-01-01T00:00:00Z")):
            old = replace(here.source(name), checked=checked)
            copies.save_source(writer.run, here.held(name).number, old)


@pytest.mark.proves("CON-07", "ARC-13")
def test_a_copy_that_takes_too_long_is_said_to_lag_and_the_next_has_its_turn(
    here: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "TURN_SECONDS", 0.3, raising=False)
    far = Elsewhere()
    with far.served() as root, here.item_store() as item_store:
        two_copies(here, far, root)
        far.drips.add("/first")
        begun = item_store.moment
        copier = Copier(item_store, "", LARGEST)
        with suppress(TimeoutError):
            asyncio.run(asyncio.wait_for(refresh_due(copier, FAR, "refresh"), 5))
        far.drips.clear()
        slow = here.source()
        assert (slow.since >= begun, slow.checked >= begun) == (True, True)
        assert "did not answer in time" in str(slow.problem)
        assert here.content(OTHER) == {"second": b"new"}
        assert (here.content(), staged(here)) == ({"first": b"old"}, [])
        asyncio.run(refresh_due(copier, FAR, "refresh"))
    assert (here.content(), here.source().since) == ({"first": b"new"}, "")


def test_a_stop_while_a_copy_is_refreshed_says_nothing_about_the_copy(here: Archive) -> None:
    far = Elsewhere()
    with far.served() as root, here.item_store() as item_store:
        two_copies(here, far, root)
        far.drips.add("/first")
        before = here.source()

        async def stopped() -> None:
            requests = len(far.requests)
            refreshing = asyncio.create_task(refresh_due(Copier(item_store, "", LARGEST), FAR, "refresh"))
            while not staged(here):  # noqa: ASYNC110 - it has no event of its own
                await asyncio.sleep(0.01)
            await cancel_tasks([refreshing])
            assert len(far.requests) == requests + 1

        asyncio.run(stopped())
        far.drips.clear()
        assert (here.source(), staged(here)) == (before, [])


def test_a_copy_that_does_not_fit_on_the_disk_lets_the_next_have_its_turn(here: Archive) -> None:
    far = Elsewhere()
    with far.served() as root, here.item_store() as item_store:
        two_copies(here, far, root)
        far.pages["/first"] = (200, {}, bytes(LARGEST))
        copier = Copier(item_store, "", LARGEST)
        with files_of_at_most(LARGEST - 1), pytest.raises(SetupError, match="no file can be kept"):
            asyncio.run(refresh_due(copier, FAR, "refresh"))
        assert "no file can be kept" in str(here.source().problem)
        asyncio.run(refresh_due(copier, here.source().checked, "refresh"))
    assert here.content(OTHER) == {"second": b"new"}


def test_no_other_task_waits_for_the_refresh_of_a_copy(
    here: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_duties, "PeriodicTasks", lambda tasks: tasks)  # as lists of their tasks
    watched = WatchedArchiveSettings(here.data)
    with here.directory.catalogue() as catalogue:
        loops: Any = archive_duties.following_tasks(watched, here.directory, catalogue, None)
        together = [{task.name for task in tasks()} for tasks in loops]
    assert {"refresh"} in together
    assert sum("refresh" in names for names in together) == 1


def test_an_original_is_not_refreshed(here: Archive) -> None:
    here.put()
    with pytest.raises(HoldingError, match="is no copy"):
        here.refresh()


@pytest.mark.parametrize(
    "described",
    [
        {"rep": "b.example/b/2010/01.01.00.00", "timestamp": "2020-01-01T00:00:00Z"},
        {"rep": NAME},
        {
            "rep": NAME,
            "timestamp": "2020-01-01T00:00:00Z",
            "files": {"../x": {"size": 1, "sha256": "0" * 64}},
        },
        {
            "rep": NAME,
            "timestamp": "2020-01-01T00:00:00Z",
            "files": {"x": {"size": True, "sha256": "0" * 64}},
        },
        {"rep": NAME, "timestamp": "2020-01-01T00:00:00Z", "files": {"x": {"size": 1, "sha256": "?"}}},
        {"rep": NAME, "timestamp": "2020-01-01T00:00:00Z", "url": "javascript:alert(1)"},
        ["no object"],
        None,
    ],
)
def test_an_archive_that_describes_nonsense_is_refused(here: Archive, described: object) -> None:
    far = Elsewhere()
    body = b"\xff" if described is None else json.dumps(described).encode()
    far.pages[f"/-/api/items/{NAME}"] = (200, {}, body)
    with far.served() as root, pytest.raises(PeerGarbled):
        here.copy(archive=root)
    assert here.holding() is None


def test_an_archive_that_is_not_there_is_silent(there: Archive, here: Archive) -> None:
    with pytest.raises(PeerSilent):
        here.copy(archive=there.root)


def test_files_that_have_an_address_of_their_own_are_copied(there: Archive, here: Archive) -> None:
    there.put()
    files_address = f"files.example:{there.port}"
    replace(there.settings, files_address=files_address).write(there.data)
    looked_up: list[str] = []

    async def names(host: str, port: int) -> list[tuple[str, int]]:
        looked_up.append(host)
        return [("127.0.0.1", port)]

    with there.served(), here.item_store() as item_store:
        copier = Copier(item_store, "", LARGEST, names)
        asyncio.run(copier.copy(parse_ibi(NAME), "otto", there.root, private=True))
    assert here.content() == FILES
    assert "files.example" in looked_up
