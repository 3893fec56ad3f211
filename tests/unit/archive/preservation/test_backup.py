"""Backups without a server: pages of files, and in which order a restored Archive is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ibi.archive.preservation import backup
from ibi.archive.preservation.backup import Backup, all_files, restore, verify
from ibi.archive.preservation.backup_store import BackupStore
from ibi.errors import SetupError
from ibi.runtime.settings import ArchiveSettings
from support.archive.preservation_fixture import NAME, OTHER, ArchiveFolder, make_archive


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    """Two items with files."""
    made = make_archive(tmp_path / "archive")
    made.put(NAME, {"a.txt": b"one", "b.txt": b"two", "c.txt": b"three"})
    made.put(OTHER, {"a.txt": b"four"})
    return made


@pytest.fixture
def saved(kept: ArchiveFolder, tmp_path: Path) -> tuple[BackupStore, str]:
    """A store with one backup, and its name."""
    store = BackupStore(tmp_path / "backups")
    return store, Backup(kept.directory, store).run(1).name


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_each_file_is_in_one_page(kept: ArchiveFolder, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(backup, "FILES_PER_PAGE", size)
    with kept.catalogue() as catalogue:
        pages = [[str(each.file.name) for each in page] for page in all_files(catalogue)]
    files = ["a.txt", "b.txt", "c.txt", "a.txt"]
    assert pages == [files[at : at + size] for at in range(0, 4, size)]


def test_all_of_a_restored_archive_is_flushed_before_its_settings_are_written(
    saved: tuple[BackupStore, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bool, bool]] = []
    data = tmp_path / "restored"

    def sync() -> None:
        seen.append((bool(list(data.rglob("doc/c.txt"))), (data / ArchiveSettings.FILE).exists()))

    monkeypatch.setattr(os, "sync", sync)
    done: list[int] = []
    assert restore(*saved, data, done.append) == []
    assert seen == [(True, False)]
    assert done == [3, 6, 11, 15]
    assert (data / ArchiveSettings.FILE).exists()


def test_a_restoration_whose_settings_cannot_be_written_leaves_no_archive(
    saved: tuple[BackupStore, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_data: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup, "flush_folder", fail)
    with pytest.raises(SetupError, match="No space left on device"):
        restore(*saved, tmp_path / "restored")
    assert not (tmp_path / "restored" / ArchiveSettings.FILE).exists()


def test_an_archive_is_put_back_into_a_new_directory_only(
    saved: tuple[BackupStore, str], tmp_path: Path
) -> None:
    data = tmp_path / "restored"
    data.mkdir()
    (data / "a").touch()
    with pytest.raises(SetupError) as refused:
        restore(*saved, data)
    assert str(refused.value) == f"{data} is not empty: an Archive is put back into a new directory"


def test_a_backup_is_read_again_with_its_progress(saved: tuple[BackupStore, str]) -> None:
    store, name = saved
    done: list[int] = []
    assert verify(store, name, done.append) == []
    assert done == [3, 6, 11, 15]
    path = next(store.path_of(sha256) for sha256, size in store.listed(name) if size == 5)
    path.write_bytes(b"thre!")
    assert [str(each) for each in verify(store, name)] == [
        f"{path.name} is missing from the backup, or damaged"
    ]
    path.unlink()
    assert [str(each) for each in verify(store, name)] == [
        f"{path.name} is missing from the backup, or damaged"
    ]
