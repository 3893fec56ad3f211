"""Refreshes of copies, over real sockets."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibi.app import archive_tasks
from ibi.archive.membership.joining import WatchedArchiveSettings
from ibi.archive.replication import refreshing
from ibi.archive.replication.copying import Copier
from ibi.archive.replication.refreshing import refresh_due
from ibi.archive.store.item_changes import edit, remove
from ibi.archive.store.tables import copies
from ibi.errors import HoldingError, SetupError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.tasks import DoneBy, cancel_tasks
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
    monkeypatch.setattr(refreshing, "REFRESH_SECONDS", 0.3)
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
            task = asyncio.create_task(refresh_due(Copier(item_store, "", LARGEST), FAR, "refresh"))
            while not staged(here):  # noqa: ASYNC110 - it has no event of its own
                await asyncio.sleep(0.01)
            await cancel_tasks([task])
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
    monkeypatch.setattr(
        archive_tasks, "PeriodicTasks", lambda tasks, _, **__: tasks
    )  # as lists of their tasks
    watched = WatchedArchiveSettings(here.data)
    with here.directory.catalogue() as catalogue:
        loops: Any = archive_tasks.task_loops(watched, here.directory, catalogue, None, lambda *_: None)
        together = [{task.name for task in tasks()} for tasks in loops]
    assert {"refresh"} in together
    assert sum("refresh" in names for names in together) == 1


def test_a_task_of_each_node_may_be_in_any_loop(here: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """All loops are made for each part of the tasks; `PeriodicTasks` then takes its part of each loop."""
    monkeypatch.setattr(archive_tasks, "PeriodicTasks", lambda tasks, _, only: (tasks, only))
    watched = WatchedArchiveSettings(here.data)
    with here.directory.catalogue() as catalogue:

        def listed(only: DoneBy | None) -> list[list[str]]:
            loops: Any = archive_tasks.task_loops(
                watched, here.directory, catalogue, None, lambda *_: None, only=only
            )
            assert {part for _, part in loops} == {only}
            return [[task.name for task in tasks()] for tasks, _ in loops]

        assert listed(DoneBy.EACH_NODE) == listed(DoneBy.ONE_NODE) == listed(None)
        assert len(listed(None)) > 1


def test_an_original_is_not_refreshed(here: Archive) -> None:
    here.put()
    with pytest.raises(HoldingError, match="is no copy"):
        here.refresh()
