"""The files of an Archive move to an S3 store and back: compared, resumable, the old ones kept."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from ibi.archive.preservation import moving
from ibi.archive.preservation.backup import Backup, restore
from ibi.archive.preservation.backup_store import BackupStore
from ibi.archive.preservation.moving import move_files
from ibi.archive.preservation.rebuild import rebuild
from ibi.archive.store.s3_files import S3Files
from ibi.errors import SetupError
from support.archive.preservation_fixture import NAME, OTHER, ArchiveFolder, flip, make_archive
from support.checks.full_disk import files_of_at_most
from support.engines.seaweedfs import BUCKET, SeaweedFS

FILES = {
    NAME: {"a.txt": b"one", "caf%E9/b%20c": b"two" * 1000, "empty": b""},
    OTHER: {"same.txt": b"one"},
}


@pytest.fixture
def place(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{secrets.token_hex(6)}"


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    kept = make_archive(tmp_path / "archive", files="")
    for name, files in FILES.items():
        kept.put(name, files)
    return kept


def contents(kept: ArchiveFolder) -> dict[str, dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    for name in FILES:
        item = kept.held(name)
        for file in item.files:
            with kept.file_store.open(item.forms, file) as opened:
                found.setdefault(name, {})[file.name] = opened.read()
    return found


def test_files_move_to_the_store_and_back(kept: ArchiveFolder, place: str) -> None:
    moved = move_files(kept.directory, place)
    assert (moved.files, moved.copied, moved.problems) == (4, 4, [])
    assert kept.directory.settings().files == place
    assert isinstance(kept.file_store, S3Files)
    assert contents(kept) == FILES
    assert sorted(path.name for path in (kept.data / "col").rglob("a.txt")) == [
        "a.txt"
    ]  # the old ones are kept
    assert kept.file_store.read_sidecar(kept.held().forms)
    new = "a.example/b/2013/01.01.00.00"
    kept.put(new, {"new.txt": b"new"})
    back = move_files(kept.directory, "")
    assert (back.files, back.problems) == (5, [])
    assert contents(kept) == FILES
    assert kept.path("new.txt", new).read_bytes() == b"new"
    assert kept.folder.read_sidecar(kept.held(new).forms)
    assert not (kept.data / "moving-files.txt").exists()


def test_a_move_that_was_interrupted_goes_on(
    kept: ArchiveFolder, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, count = S3Files.put, [0]

    def broken(self: S3Files, *given: object) -> bool:
        count[0] += 1
        if count[0] > 2:
            raise SetupError("the store has gone")
        return put(self, *given)  # type: ignore[arg-type]  # what was given

    monkeypatch.setattr(moving, "AT_ONCE", 1)
    monkeypatch.setattr(S3Files, "put", broken)
    with pytest.raises(SetupError, match="has gone"):
        move_files(kept.directory, place)
    assert kept.directory.settings().files == ""
    assert contents(kept) == FILES
    monkeypatch.setattr(S3Files, "put", put)
    moved = move_files(kept.directory, place)
    assert (moved.files, moved.copied) == (4, 2)
    assert contents(kept) == FILES


def test_an_archive_that_is_served_is_moved_when_it_has_stopped(kept: ArchiveFolder, place: str) -> None:
    with kept.directory.serve_lock():
        with pytest.raises(SetupError, match="all files are copied, but the Archive is being served"):
            move_files(kept.directory, place)
        assert kept.directory.settings().files == ""
        kept.put(NAME.replace("2010", "2014"), {"late.txt": b"late"})
    moved = move_files(kept.directory, place)
    assert (moved.files, moved.copied) == (5, 1)


def test_a_damaged_file_stops_the_move(kept: ArchiveFolder, place: str) -> None:
    flip(kept.path("a.txt"), 1)
    moved = move_files(kept.directory, place)
    assert [str(problem) for problem in moved.problems] == [
        f"a.txt of {NAME} is damaged: its SHA-256 is not the one that was listed"
    ]
    assert kept.directory.settings().files == ""
    kept.path("a.txt").write_bytes(b"one")
    assert move_files(kept.directory, place).problems == []
    assert contents(kept) == FILES


def test_a_disk_that_refuses_the_journal_is_reported_with_its_path(kept: ArchiveFolder, place: str) -> None:
    journal = kept.data / "moving-files.txt"
    journal.mkdir()
    with pytest.raises(SetupError, match=f"{journal} cannot be written: Is a directory"):
        move_files(kept.directory, place)
    journal.rmdir()
    # Longer than the databases of the Archive, so that it alone is refused, where its lines are flushed.
    lines = "".join(f"{number:064}\n" for number in range(10_000))
    journal.write_text(f"{place}\n{lines}")
    with (
        files_of_at_most(journal.stat().st_size),
        pytest.raises(SetupError, match=f"{journal} cannot be written: File too large"),
    ):
        move_files(kept.directory, place)
    assert move_files(kept.directory, place).files == 4


def test_a_wrong_place_is_refused_before_anything_is_copied(kept: ArchiveFolder, place: str) -> None:
    for wrong in ("s3://no-bucket/x", "nonsense", ""):
        with pytest.raises(SetupError):
            move_files(kept.directory, wrong)
    S3Files(kept.data, place, "rep other.example/w/2020/01.01.00.00").create_folders()
    with pytest.raises(SetupError, match="belongs to another Archive"):
        move_files(kept.directory, place)
    assert kept.directory.settings().files == ""


def test_a_backup_has_the_files_of_the_store_and_is_restored_into_a_folder(
    kept: ArchiveFolder, place: str, tmp_path: Path, seaweedfs: SeaweedFS
) -> None:
    move_files(kept.directory, place)
    before = seaweedfs.keys(place.removeprefix(f"s3://{BUCKET}/"))
    store = BackupStore(tmp_path / "backups")
    assert Backup(kept.directory, store).run(keep=3).files == 4
    assert restore(store, store.backups()[-1], tmp_path / "again") == []
    again = ArchiveFolder(tmp_path / "again")
    assert again.directory.settings().files == ""
    assert contents(again) == FILES
    assert seaweedfs.keys(place.removeprefix(f"s3://{BUCKET}/")) == before


@pytest.mark.one_store("sqlite", "a catalogue in PostgreSQL is not rebuilt")
def test_a_lost_catalogue_is_rebuilt_from_the_store(kept: ArchiveFolder, place: str) -> None:
    move_files(kept.directory, place)
    for path in kept.data.glob("catalogue.sqlite*"):
        path.unlink()
    rebuilt = rebuild(kept.directory)
    assert (rebuilt.added, rebuilt.problems) == (2, [])
    assert contents(kept) == FILES
