"""The store of backups by itself: what it takes, finds, lists and removes, and what is no backup."""

from __future__ import annotations

import io
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.preservation.backup_store import BackupInfo, BackupStore, copy_hashed, digest_of
from ibi.errors import SetupError

ONE, TWO = (sha256(content).hexdigest() for content in (b"one", b"two"))
ABOUT: dict[str, Any] = {
    "service": "archive.example/w/2020/01.01.00.00", "address": "archive.example", "items": 3, "files": 2, "bytes": 6,
    "missing": ["é is missing"],
}  # fmt: skip
MOMENT, NAME = "2026-11-21T23:53:00Z", "20261121T235300Z"
NO_BACKUP = "{} is not a backup of ours, or is damaged"


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    """An empty store."""
    made = BackupStore(tmp_path / "backups")
    with made.exclusive_lock():
        return made


def take(store: BackupStore, content: bytes, digest: str = "") -> bool:
    return store.take(io.BytesIO(content), digest or sha256(content).hexdigest())


def finished(store: BackupStore, moment: str = MOMENT, lines: bytes = b"") -> str:
    part = store.folder / ".new.part"
    (part / "data").mkdir(parents=True)
    (part / "data/a.toml").write_bytes(b"one")
    (part / "files.txt").write_bytes(lines)
    return store.finish(part, ABOUT, moment)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_file_is_kept_under_its_digest_and_another_one_leaves_nothing(store: BackupStore) -> None:
    assert take(store, b"one")
    assert not take(store, b"two", ONE)
    path = store.folder / "files" / ONE[:2] / ONE
    assert (store.path_of(ONE), path.read_bytes()) == (path, b"one")
    assert names(store.folder) == ["backup.lock", f"files/{ONE[:2]}/{ONE}"]
    found = [(store.has(ONE, size), store.has(TWO, size)) for size in (2, 3, 4)]
    assert found == [(False, False), (True, False), (False, False)]
    assert {folder.stat().st_mode & 0o777 for folder in (store.folder, path.parent.parent, path.parent)} == {
        0o700
    }


def test_a_file_that_cannot_be_read_to_its_end_leaves_nothing(store: BackupStore) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().read(size)

    with pytest.raises(OSError, match="Input/output error"):
        store.take(Broken(b"one"), ONE)
    assert names(store.folder) == ["backup.lock"]


def test_bytes_are_copied_with_their_digest_or_a_full_disk_is_named(tmp_path: Path) -> None:
    content = bytes(range(256)) * 4097  # a mebibyte and some more
    with (tmp_path / "copy").open("wb") as written:
        assert copy_hashed(io.BytesIO(content), written) == sha256(content).hexdigest()
    assert (tmp_path / "copy").read_bytes() == content
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(SetupError) as refused:
        copy_hashed(io.BytesIO(b"one"), full)
    assert str(refused.value) == "no file can be kept in /dev/full: No space left on device"


def test_a_finished_backup_has_the_sums_of_all_its_files(store: BackupStore) -> None:
    assert finished(store) == NAME
    folder = store.folder / NAME
    assert names(folder) == ["backup.json", "data/a.toml", "files.txt"]
    sums = {"data/a.toml": ONE, "files.txt": sha256(b"").hexdigest()}
    about = {"version": 1, "moment": MOMENT, **ABOUT, "sums": sums}
    assert (folder / "backup.json").read_text("utf-8") == json.dumps(about, indent=1)
    assert store.about(NAME) == BackupInfo(**about)
    assert digest_of(folder / "data/a.toml") == ONE


def test_backups_are_listed_from_the_oldest_and_what_is_none_is_left_out(store: BackupStore) -> None:
    moments = ["2026-11-22T00:00:00Z", MOMENT, MOMENT]
    assert [finished(store, moment) for moment in moments] == ["20261122T000000Z", NAME, f"{NAME}-2"]
    for name in ("other", "20261123T000000Z", f"{NAME}-x"):
        (store.folder / name).mkdir()
    (store.folder / "other/backup.json").touch()
    (store.folder / f"{NAME}-x/backup.json").touch()
    assert store.backups() == [NAME, f"{NAME}-2", "20261122T000000Z"]


@pytest.mark.parametrize(
    "more",
    [{"version": 2}, {"version": None}, {"sums": {"a": 1}}, {"sums": ["a"]}, {"more": 1}, {"items": ...}],
)
def test_what_says_something_else_of_itself_is_no_backup(store: BackupStore, more: dict[str, Any]) -> None:
    path = store.folder / finished(store) / "backup.json"
    value = json.loads(path.read_bytes()) | more
    path.write_text(json.dumps({name: each for name, each in value.items() if each is not ...}))
    with pytest.raises(SetupError) as refused:
        store.about(NAME)
    assert str(refused.value) == NO_BACKUP.format(path)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000])
def test_noise_is_no_backup(store: BackupStore, text: bytes) -> None:
    path = store.folder / finished(store) / "backup.json"
    path.write_bytes(text)
    with pytest.raises(SetupError) as refused:
        store.about(NAME)
    assert str(refused.value) == NO_BACKUP.format(path)
    path.unlink()
    with pytest.raises(SetupError) as refused:
        store.about(NAME)
    assert str(refused.value) == f"{path} cannot be read: No such file or directory"


def test_the_files_of_a_backup_are_listed_with_their_sizes(store: BackupStore) -> None:
    finished(store, lines=f"{ONE} 3\n{TWO} 0\n{ONE} {'9' * 16}".encode())
    assert list(store.listed(NAME)) == [(ONE, 3), (TWO, 0), (ONE, 10**16 - 1)]


@pytest.mark.parametrize(
    "line",
    [b"", b"x", b" ", ONE.encode(), f"{ONE} ".encode(), f"{ONE} x".encode(), f"{ONE[1:]} 3".encode(),
     f"{ONE.upper()} 3".encode(), f"{ONE} {'9' * 17}".encode(), f"{ONE} 3 ".encode(), "é".encode(), b"\xff"],
)  # fmt: skip
def test_a_line_of_another_form_is_damage(store: BackupStore, line: bytes) -> None:
    finished(store, lines=f"{ONE} 3\n".encode() + line + b"\n")
    found = store.listed(NAME)
    assert next(found) == (ONE, 3)
    with pytest.raises(SetupError) as refused:
        next(found)
    assert str(refused.value) == NO_BACKUP.format(store.folder / NAME / "files.txt")


@pytest.mark.parametrize(("keep", "left"), [(1, 1), (2, 2), (3, 3), (4, 3)])
def test_older_backups_go_with_the_files_that_no_other_needs(
    store: BackupStore, keep: int, left: int
) -> None:
    kept = [finished(store, f"2026-11-2{day}T00:00:00Z", f"{digest} 3\n".encode()) for day, digest in
            enumerate((ONE, ONE, TWO))]  # fmt: skip
    for content in (b"one", b"two"):
        take(store, content)
    assert store.forget_all_but(keep) == 3 - left
    assert store.backups() == kept[3 - left :]
    assert {path.name for path in store.folder.iterdir()} == {"backup.lock", "files", *kept[3 - left :]}
    assert (store.has(ONE, 3), store.has(TWO, 3)) == (left > 1, True)


def test_the_lock_removes_what_was_interrupted_and_nothing_else(store: BackupStore) -> None:
    finished(store)
    for folder in (".x.part", "20261124T000000Z", f"{NAME}-x", "other"):
        (store.folder / folder / "below").mkdir(parents=True)
    for file in (f".{ONE}.part", "20261125T000000Z", "notes"):
        (store.folder / file).touch()
    with store.exclusive_lock():
        left = {path.name for path in store.folder.iterdir()}
        with pytest.raises(SetupError) as refused, BackupStore(store.folder).exclusive_lock():
            pass
    assert left == {"backup.lock", "files", NAME, f"{NAME}-x", "other", "20261125T000000Z", "notes"}
    assert str(refused.value) == f"another backup is at work in {store.folder}"


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = BackupStore(tmp_path / "file")
    for use in (store.backups, lambda: take(store, b"one"), lambda: store.exclusive_lock().__enter__()):
        with pytest.raises(SetupError) as refused:
            use()
        assert str(refused.value).startswith(f"{tmp_path / 'file'}")
