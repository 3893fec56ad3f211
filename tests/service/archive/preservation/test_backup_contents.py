"""What is in a backup and in what is restored from it: each file, its rights, each count, each sentence."""

from __future__ import annotations

import json
import os
import re
import stat
from hashlib import sha256
from pathlib import Path

import pytest

from ibi.archive.preservation.backup import Backup, restore, verify
from ibi.archive.preservation.backup_store import BackupStore
from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.runtime.settings import ArchiveSettings
from support.archive.preservation_fixture import NAME, OTHER, WHO, ArchiveFolder, flip, make_archive
from support.checks.flushed_files import flushes

MISSING = "{} is missing from the backup, or damaged"


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    kept = make_archive(tmp_path / "archive")
    kept.put(NAME, {"a.txt": b"aaaa", "b.txt": b"b"})
    kept.put(OTHER, {"same.txt": b"aaaa"})
    return kept


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return BackupStore(tmp_path / "backups")


def modes(folder: Path) -> dict[str, str]:
    """The paths below a folder, locks left out, with their rights."""
    return {
        str(path.relative_to(folder)): f"{stat.S_IMODE(path.stat().st_mode):o}"
        for path in sorted(folder.rglob("*"))
        if "lock" not in path.name.split(".")
    }


@pytest.mark.one_store("sqlite", "a node has other files")
def test_a_backup_has_these_files_and_tells_their_sums_and_counts(
    kept: ArchiveFolder, store: BackupStore
) -> None:
    for name in ("minting/state", "tokens.json", "finding.x", "sessions.x", "part.new"):
        (kept.data / name).write_text("x")
        (kept.data / name).chmod(0o640)
    (kept.data / "link").symlink_to(kept.data / "tokens.json")
    (kept.data / "minting/link").symlink_to(kept.data / "tokens.json")
    counts: list[int] = []
    result = Backup(kept.directory, store, counts.append).run(keep=7)
    assert (result.items, result.files, result.bytes, result.copied, result.copied_bytes) == (3, 3, 9, 2, 5)
    assert (result.removed, result.problems, counts) == (0, [], [4, 5, 9])
    found = modes(store.folder / result.name)
    assert {path: found.pop(path) for path in [*found] if path.startswith("data")} == {
        "data": "700", "data/archive.toml": "600", "data/minting": "700", "data/minting/state": "640",
        "data/tokens.json": "640",
    }  # fmt: skip
    assert list(found) == ["backup.json", "catalogue.sqlite", "files.txt"]
    assert {path: mode for path, mode in modes(store.folder).items() if "/" not in path} == {
        "files": "700", result.name: "700",
    }  # fmt: skip
    about = json.loads((store.folder / result.name / "backup.json").read_text())
    sums = about.pop("sums")
    assert about == {
        "version": 1, "moment": about["moment"], "service": str(kept.directory.settings().service.main),
        "address": "archive.example", "items": 3, "files": 3, "bytes": 9, "missing": [],
    }  # fmt: skip
    assert result.name == re.sub("[-:]", "", about["moment"])
    folder = store.folder / result.name
    assert sums == {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "backup.json"
    }
    assert (store.folder / result.name / "files.txt").read_text().splitlines() == [
        f"{sha256(content).hexdigest()} {len(content)}" for content in (b"aaaa", b"b", b"aaaa")
    ]


def test_backups_of_one_second_have_names_that_differ(
    kept: ArchiveFolder, store: BackupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = kept.directory.now()
    monkeypatch.setattr(type(kept.directory), "now", lambda _: now)
    names = [Backup(kept.directory, store).run(keep=7).name for _ in range(3)]
    assert names == [names[0], f"{names[0]}-2", f"{names[0]}-3"]
    assert store.backups() == names
    assert Backup(kept.directory, store).run(keep=2).removed == 2
    assert store.backups() == [names[2], f"{names[0]}-4"]


def test_what_an_interrupted_backup_and_an_interrupted_removal_have_left_goes(
    kept: ArchiveFolder, store: BackupStore
) -> None:
    store.folder.mkdir()
    for folder in (".new.part", "20200101T000000Z", "other"):
        (store.folder / folder).mkdir()
        (store.folder / folder / "x").write_text("x")
    for file in (".abc.part", "notes.txt"):
        (store.folder / file).write_text("x")
    name = Backup(kept.directory, store).run(keep=7).name
    left = {path.name for path in store.folder.iterdir()}
    assert left == {"files", "backup.lock", "other", "notes.txt", name}


def test_the_problems_of_a_backup_are_told_whole(kept: ArchiveFolder, store: BackupStore) -> None:
    flip(kept.path("a.txt"), 0)
    kept.path("b.txt").unlink()
    kept.path("same.txt", OTHER).unlink()
    kept.path("same.txt", OTHER).symlink_to("same.txt")
    result = Backup(kept.directory, store).run(keep=7)
    problems = [str(problem) for problem in result.problems]
    assert problems == [
        f"a.txt of {NAME} is damaged: its SHA-256 is not the one that was listed",
        f"b.txt of {NAME} is missing",
        f"same.txt of {OTHER} cannot be read",
    ]
    assert store.about(result.name).missing == problems
    assert [str(problem) for problem in verify(store, result.name)] == [
        MISSING.format(sha256(content).hexdigest()) for content in (b"aaaa", b"b", b"aaaa")
    ]


def test_a_backup_that_is_read_again_tells_how_far_it_is(kept: ArchiveFolder, store: BackupStore) -> None:
    name = Backup(kept.directory, store).run(keep=7).name
    counts: list[int] = []
    assert verify(store, name, counts.append) == []
    assert counts == [4, 5, 9]
    (store.folder / name / "files.txt").unlink()
    (store.folder / name / "data/archive.toml").write_text("x")
    counts.clear()
    assert [str(problem) for problem in verify(store, name, counts.append)] == [
        MISSING.format("data/archive.toml"), MISSING.format("files.txt"),
    ]  # fmt: skip
    assert counts == []


def test_files_that_vanish_again_and_again_end_a_backup(kept: ArchiveFolder, store: BackupStore) -> None:
    names = [f"a.example/b/2020/01.01.00.{number:02}" for number in range(12)]
    for name in names:
        kept.put(name, {"x": name.encode()})
    going = names[::-1]

    def progress(done: int) -> None:
        """After the first file of each round, another process removes an item whose file comes later."""
        if done > len(b"aaaa"):
            return
        with kept.item_store() as item_store, item_store.unit_of_work(WHO) as work:
            work.remove(work.get(parse_ibi(going.pop())), "meanwhile")

    with pytest.raises(SetupError) as raised:
        Backup(kept.directory, store, progress).run(keep=7)
    assert str(raised.value) == (
        "files were removed faster than they could be copied; try again at a quieter time"
    )
    assert len(going) == 2  # ten rounds, with one removal each
    assert store.backups() == []
    assert Backup(kept.directory, store).run(keep=7).files == 5


def test_a_folder_that_cannot_be_used_is_refused_with_its_path(
    kept: ArchiveFolder, store: BackupStore, tmp_path: Path
) -> None:
    def refused(folder: Path, made: ArchiveFolder = kept) -> str:
        with pytest.raises(SetupError) as raised:
            Backup(made.directory, BackupStore(folder)).run(keep=7)
        return str(raised.value)

    inside = kept.data / "backups"
    assert refused(inside) == f"{inside} is inside the directory that is to be saved"
    name = Backup(kept.directory, store).run(keep=7).name
    other = make_archive(tmp_path / "other", service=IBIForms.parse("rep archive.example/w/2021/01.01.00.00"))
    assert refused(store.folder, other) == f"{store.folder} holds the backups of another Archive"
    with store.exclusive_lock():
        assert refused(store.folder) == f"another backup is at work in {store.folder}"
    about = store.folder / name / "backup.json"
    whole = about.read_text()
    about.write_text(whole.replace('"version": 1', '"version": 2'))
    assert refused(store.folder) == f"{about} is not a backup of ours, or is damaged"
    about.write_text(whole)
    files = store.folder / name / "files.txt"
    files.write_bytes(b"\xff\n")
    with pytest.raises(SetupError) as raised:
        list(store.listed(name))
    assert str(raised.value) == f"{files} is not a backup of ours, or is damaged"


@pytest.mark.one_store("sqlite", "what is restored is in files, and a node is not")
def test_what_is_restored_has_its_rights_and_tells_how_far_it_is(
    kept: ArchiveFolder, store: BackupStore, tmp_path: Path
) -> None:
    (kept.data / "minting/state").write_text("x")
    (kept.data / "minting/state").chmod(0o600)
    name = Backup(kept.directory, store).run(keep=7).name
    counts: list[int] = []
    assert restore(store, name, tmp_path / "deep/new", counts.append) == []
    assert counts == [4, 5, 9]
    before, after = (modes(data) for data in (kept.data, tmp_path / "deep/new"))
    assert {path: mode for path, mode in after.items() if before.get(path) != mode} == {}
    assert {path for path in before if path not in after} <= {"staging", "uploads"}


def test_a_restoration_is_refused_with_the_path_of_what_is_wrong(
    kept: ArchiveFolder, store: BackupStore, tmp_path: Path
) -> None:
    name = Backup(kept.directory, store).run(keep=7).name
    (store.folder / name / "files.txt").write_text("")

    def refused(data: Path) -> str:
        with pytest.raises(SetupError) as raised:
            restore(store, name, data)
        return str(raised.value)

    assert refused(tmp_path / "new") == MISSING.format("files.txt")
    name = Backup(kept.directory, store).run(keep=7).name
    assert refused(kept.data) == f"{kept.data} is not empty: an Archive is put back into a new directory"


def test_all_that_is_restored_is_flushed_before_the_settings_make_it_an_archive(
    kept: ArchiveFolder, store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `os.sync` finds is flushed with it; after it only the settings come, which are flushed by themselves."""
    name = Backup(kept.directory, store).run(keep=7).name
    found: list[dict[str, str]] = []
    monkeypatch.setattr(os, "sync", lambda: found.append(modes(tmp_path / "new")))
    with flushes() as flushed:
        restore(store, name, tmp_path / "new")
    after = modes(tmp_path / "new")
    assert len(found) == 1
    assert after.keys() - found[0].keys() == {ArchiveSettings.FILE}
    assert ArchiveSettings.FILE not in flushed.lacking(tmp_path / "new")
