"""A power cut takes nothing that was acknowledged: every file and the folder with its name are flushed before."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibi.archive.preservation.backup import Backup, restore
from ibi.archive.preservation.backup_store import CATALOGUE, BackupStore
from ibi.archive.preservation.bagging import bag_at, write_bag
from ibi.archive.preservation.rebuild import rebuild
from ibi.archive.store import sidecars
from ibi.runtime.settings import ArchiveSettings
from support.archive.preservation_fixture import NAME, OTHER, ArchiveFolder, make_archive
from support.checks.flushed_files import flushes


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    kept = make_archive(tmp_path / "archive")
    kept.put(NAME, {"a.txt": b"aaaa", "folder/b": b"b"}, language="pt")
    kept.put(OTHER, {"same.txt": b"aaaa"})
    return kept


def test_a_backup_is_flushed_with_every_file_in_it(kept: ArchiveFolder, tmp_path: Path) -> None:
    store = BackupStore(tmp_path / "backups")
    with flushes() as flushed:
        Backup(kept.directory, store).run(keep=7)
    assert flushed.lacking(store.folder) == []


@pytest.mark.parametrize("name", ["bag", "bag.zip"])
def test_a_bag_is_flushed_with_every_file_in_it(kept: ArchiveFolder, tmp_path: Path, name: str) -> None:
    target = tmp_path / "bags" / name
    target.parent.mkdir()
    with flushes() as flushed, bag_at(target) as put:
        write_bag(put, kept.file_store, kept.held(), [], "http://archive.example", "2026-11-27T10:00:00Z")
    assert flushed.lacking(target.parent) == []


def test_the_files_of_an_item_are_flushed_and_so_is_what_is_written_beside_them(tmp_path: Path) -> None:
    kept = make_archive(tmp_path / "archive")
    with flushes() as flushed:
        kept.put(NAME, {"a.txt": b"aaaa", "folder/b": b"b"})
        with kept.catalogue() as catalogue:
            sidecars.write_outdated(catalogue, kept.file_store)
    (item,) = (kept.data / "col" / "a.example").iterdir()
    assert flushed.lacking(item) == []


def test_the_settings_that_make_a_restored_folder_an_archive_are_flushed_at_last(
    kept: ArchiveFolder, tmp_path: Path
) -> None:
    store = BackupStore(tmp_path / "backups")
    Backup(kept.directory, store).run(keep=7)
    data = tmp_path / "restored"
    with flushes() as flushed:
        restore(store, store.backups()[-1], data)
    # All else is flushed by os.sync before.
    assert not {".", ArchiveSettings.FILE} & set(flushed.lacking(data))


@pytest.mark.one_store("sqlite", "a catalogue in PostgreSQL is not rebuilt")
def test_a_rebuilt_catalogue_is_flushed_with_its_name(kept: ArchiveFolder) -> None:
    (kept.data / CATALOGUE).unlink()
    with flushes() as flushed:
        rebuild(kept.directory)
    assert "." not in flushed.lacking(kept.data)
