"""Whatever the disk refuses: one sentence, nothing that was acknowledged is lost, and the next attempt succeeds."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ibi.archive.model.item_json import read_item
from ibi.archive.preservation.backup import Backup, restore, verify
from ibi.archive.preservation.backup_store import BackupStore
from ibi.archive.preservation.bag_ingest import take_bag
from ibi.archive.preservation.bagging import bag_at, write_bag
from ibi.archive.preservation.check import check
from ibi.archive.preservation.file_check import Difference
from ibi.archive.preservation.rebuild import rebuild
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.item_changes import deposit
from ibi.errors import IbiError, SetupError
from ibi.identifier.forms import parse_ibi
from ibi.minting.machine import this_machine
from ibi.runtime.settings import ArchiveSettings
from support.archive.preservation_fixture import NAME, WHO, ArchiveFolder, make_archive
from support.checks.refusing_disk import refused_in_turn


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    kept = make_archive(tmp_path / "archive")
    kept.put(NAME, {"a.txt": b"aaaa"})
    return kept


@pytest.mark.timeout(300)  # it saves a database some hundred times, if the catalogue is in one
def test_a_backup_is_refused_in_a_sentence_and_the_next_one_is_whole(
    kept: ArchiveFolder, tmp_path: Path
) -> None:
    def make(number: int) -> tuple[Path, Callable[[], object]]:
        folder = tmp_path / f"backup{number}"
        Backup(kept.directory, BackupStore(folder)).run(1)
        (folder / "files" / "61").mkdir(exist_ok=True)
        for each in folder.glob("files/*/*"):
            each.unlink()
        return folder, lambda: Backup(kept.directory, BackupStore(folder)).run(1)

    for number, (place, act) in enumerate(refused_in_turn(make), 1):
        store = BackupStore(tmp_path / f"backup{number}")
        with suppress(SetupError):
            act()
        saved = Backup(kept.directory, store).run(1)
        assert (saved.problems, verify(store, store.backups()[-1])) == ([], []), place
        assert list(store.folder.glob("*.part")) == [], place
        assert len(store.backups()) == 1, place


@pytest.mark.one_store("sqlite", "what is restored is in files, whatever it was saved from")
def test_a_restoration_is_refused_in_a_sentence_and_makes_no_archive(
    kept: ArchiveFolder, tmp_path: Path
) -> None:
    store = BackupStore(tmp_path / "backup")
    Backup(kept.directory, store).run(1)
    (name,) = store.backups()

    def make(number: int) -> tuple[Path, Callable[[], list[IbiError]]]:
        return tmp_path / f"new{number}", lambda: restore(store, name, tmp_path / f"new{number}")

    for number, (place, act) in enumerate(refused_in_turn(make), 1):
        if place.file == "ibi/runtime/shared/store.py":
            continue  # settings that cannot be read name no store; who reads all of them says so
        with pytest.raises(SetupError):
            raise AssertionError(f"{place}: {act()}")
        assert not (tmp_path / f"new{number}" / ArchiveSettings.FILE).exists(), place


def test_a_backup_that_cannot_be_read_is_told(kept: ArchiveFolder, tmp_path: Path) -> None:
    store = BackupStore(tmp_path / "backup")
    Backup(kept.directory, store).run(1)
    (name,) = store.backups()

    def make(number: int) -> tuple[Path, Callable[[], list[IbiError]]]:
        return store.folder, lambda: verify(store, name) or restore(store, name, tmp_path / f"new{number}")

    for number, (place, act) in enumerate(refused_in_turn(make), 1):
        with suppress(SetupError):
            if act() == []:
                assert ArchiveFolder(tmp_path / f"new{number}").everything() == kept.everything(), place


def test_a_deposit_is_acknowledged_and_kept_or_refused_and_gone(tmp_path: Path) -> None:
    kept = make_archive(tmp_path / "archive")
    source = tmp_path / "a.txt"
    source.write_bytes(b"aaaa")

    def name(number: int) -> str:
        return f"a.example/b/{2000 + number}/01.01.00.00"

    def put(number: int) -> None:
        item = read_item({"rep": name(number), "files": {"a.txt": "x"}})
        with kept.item_store() as item_store:
            deposit(item_store, item, [item_store.file_store.stage("a.txt", source)], WHO)

    for number, (place, act) in enumerate(
        refused_in_turn(lambda number: (kept.data, partial(put, number))), 1
    ):
        refused = False
        try:
            act()
        except SetupError:
            refused = True
        with kept.item_store() as item_store:
            held = item_store.catalogue.holding(parse_ibi(name(number)))
        assert (held is None) == refused, place
        assert kept.staging() == [], place
        assert refused or kept.path("a.txt", name(number)).read_bytes() == b"aaaa", place


@pytest.mark.one_store("sqlite", "a catalogue in PostgreSQL is not rebuilt")
def test_a_catalogue_is_rebuilt_at_the_next_attempt(kept: ArchiveFolder, tmp_path: Path) -> None:
    before = kept.everything()[0]

    def make(number: int) -> tuple[Path, Callable[[], object]]:
        copy = ArchiveFolder(tmp_path / f"copy{number}")
        shutil.copytree(kept.data, copy.data)
        for each in copy.data.glob("catalogue.sqlite*"):
            each.unlink()
        return copy.data, lambda: rebuild(copy.directory)

    for number, (place, act) in enumerate(refused_in_turn(make), 1):
        copy = ArchiveFolder(tmp_path / f"copy{number}")
        with suppress(SetupError):
            act()
        rebuild(copy.directory)
        assert copy.everything()[0] == before, place


@pytest.mark.parametrize("ending", ["", ".zip"])
@pytest.mark.parametrize("reading", [False, True], ids=["writing", "reading"])
def test_a_bag_is_there_whole_or_not_at_all(
    kept: ArchiveFolder, tmp_path: Path, ending: str, reading: bool
) -> None:
    held = kept.held()

    def pack(target: Path) -> None:
        with bag_at(target) as put:
            write_bag(put, kept.file_store, held, [], "archive.example", "2026-11-21T20:50:14Z")

    def make(number: int) -> tuple[Path, Callable[[], None]]:
        folder = tmp_path / f"bags{number}"
        folder.mkdir()
        return kept.data if reading else folder, partial(pack, folder / f"bag{ending}")

    for number, (place, act) in enumerate(refused_in_turn(make), 1):
        folder, refused = tmp_path / f"bags{number}", False
        try:
            act()
        except SetupError:
            refused = True
        # The last flush is refused after the bag has got its name.
        assert [path.name for path in folder.iterdir()] in ([], [f"bag{ending}"]), place
        assert refused or (folder / f"bag{ending}").exists(), place


@pytest.mark.parametrize("reading", [False, True], ids=["writing", "reading"])
def test_a_bag_is_taken_in_whole_or_not_at_all(kept: ArchiveFolder, tmp_path: Path, reading: bool) -> None:
    bag = tmp_path / "bag"
    with bag_at(bag) as put:
        write_bag(put, kept.file_store, kept.held(), [], "archive.example", "2026-11-21T20:50:14Z")

    def take(archive: ArchiveFolder) -> None:
        with archive.item_store() as item_store:
            take_bag(item_store, bag, WHO)

    def make(number: int) -> tuple[Path, Callable[[], None]]:
        archive = make_archive(tmp_path / f"archive{number}")
        return bag if reading else archive.data, partial(take, archive)

    for number, (place, act) in enumerate(refused_in_turn(make), 1):
        archive, refused = ArchiveFolder(tmp_path / f"archive{number}"), False
        try:
            act()
        except IbiError:
            refused = True
        with archive.item_store() as item_store:
            held = item_store.catalogue.holding(parse_ibi(NAME))
        assert ((held is None), archive.staging()) == (refused, []), place
        assert refused or archive.path("a.txt").read_bytes() == b"aaaa", place


def test_a_check_tells_what_it_cannot_read(kept: ArchiveFolder) -> None:
    def look() -> list[Difference]:
        return list(check(kept.directory, this_machine()))

    assert look() == []
    for place, act in refused_in_turn(lambda _: (kept.data, look), always=True):
        with suppress(SetupError):
            assert act() != [], place
    assert look() == []


def test_an_archive_is_made_whole_or_not_at_all(kept: ArchiveFolder, tmp_path: Path) -> None:
    settings = replace(kept.directory.settings(), store="")

    def begin(data: Path) -> None:
        directory = DataDirectory(data, this_machine())
        directory.reserve()
        directory.create(settings)

    def make(number: int) -> tuple[Path, Callable[[], None]]:
        return tmp_path / f"new{number}", partial(begin, tmp_path / f"new{number}")

    for number, (place, act) in enumerate(refused_in_turn(make), 1):
        refused = False
        try:
            act()
        except SetupError:
            refused = True
        made = ArchiveFolder(tmp_path / f"new{number}")
        if ArchiveSettings.exists(made.data):
            made.held(str(settings.service.main))
        assert refused or ArchiveSettings.exists(made.data), place
