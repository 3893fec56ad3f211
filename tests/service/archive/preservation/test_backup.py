"""Backup and restore: what was acknowledged comes back, whatever goes on meanwhile, and no label is given twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ibi.accounts.tokens import Tokens
from ibi.archive.preservation.backup import Backup, BackupResult, restore, verify
from ibi.archive.preservation.backup_store import BackupStore
from ibi.archive.preservation.check import check
from ibi.archive.replication.restored_originals import Settler
from ibi.archive.store.postgresql.nodes import texts_of
from ibi.errors import LostState, SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.minting.machine import this_machine
from ibi.minting.recovery import recover
from ibi.runtime.signing import signer
from support.archive.preservation_fixture import LINKED, NAME, OTHER, WHO, ArchiveFolder, flip, make_archive
from support.checks.full_disk import files_of_at_most
from support.concurrency.forked import start_ibi

MINTING = {"mint_host": "archive.example", "mint_ip": "127.0.0.1", "for_trying": True}


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    kept = make_archive(tmp_path / "archive", **MINTING)
    kept.put(NAME, {"a.txt": b"aaaa", "caf%E9/b": b"b"}, language="pt")
    kept.put(OTHER, {"same.txt": b"aaaa"})
    kept.put(LINKED, url="http://far.example/")
    return kept


def backup(kept: ArchiveFolder, folder: Path, keep: int = 7) -> BackupResult:
    return Backup(kept.directory, BackupStore(folder)).run(keep)


def restored(folder: Path, data: Path, name: str = "") -> ArchiveFolder:
    store = BackupStore(folder)
    assert restore(store, name or store.backups()[-1], data) == []
    return ArchiveFolder(data)


def confirmed(kept: ArchiveFolder) -> None:
    """Say that all that came back is still its own."""
    with kept.item_store() as item_store:
        Settler(item_store, kept.data).confirm(WHO, None)


def differences(kept: ArchiveFolder) -> list[str]:
    return [str(each.what) for each in check(kept.directory, this_machine())]


def test_everything_comes_back(kept: ArchiveFolder, tmp_path: Path, stored_in: str) -> None:
    signer(kept.data)
    Tokens(kept.data).make("program", "2026-11-22T10:00:00Z")
    saved = backup(kept, tmp_path / "backups")
    assert (saved.items, saved.files, saved.copied, saved.problems) == (
        4,
        3,
        2,
        [],
    )  # two files are the same bytes
    back = restored(tmp_path / "backups", tmp_path / "new")
    assert back.everything() == kept.everything()
    assert back.path("a.txt").read_bytes() == b"aaaa"
    assert back.path("caf%E9/b").read_bytes() == b"b"
    for name in ("archive.toml", "attestation.key", "tokens.json"):
        text = (kept.data / name).read_text() if stored_in == "sqlite" else texts_of(kept.data)[name]
        assert (back.data / name).read_text() == text
    assert stat.S_IMODE((back.data / "attestation.key").stat().st_mode) == 0o600


def test_check_finds_nothing_after_a_restore_but_the_minting_state(
    kept: ArchiveFolder, tmp_path: Path
) -> None:
    backup(kept, tmp_path / "backups")
    back = restored(tmp_path / "backups", tmp_path / "new")
    minting, unsettled = differences(back)
    assert "minting state" in minting
    assert unsettled.startswith(
        "answers leave out originals that came back from a backup and are not settled: 3"
    )
    recover(back.data, this_machine(), moved=True)
    confirmed(back)
    assert differences(back) == []


def test_a_backup_on_a_full_disk_is_one_sentence_and_blames_no_file(
    kept: ArchiveFolder, tmp_path: Path
) -> None:
    """The file that cannot be written is whole where it is read."""
    kept.put("a.example/b/2013/01.01.00.00", {"large": bytes(3_000_000)})
    with files_of_at_most(2_000_000), pytest.raises(SetupError, match=r"no file can be kept in .*backups"):
        backup(kept, tmp_path / "backups")
    assert BackupStore(tmp_path / "backups").backups() == []
    assert backup(kept, tmp_path / "backups").problems == []


@pytest.mark.proves("AMB-18", "GEN-44")
def test_what_came_back_mints_nothing_until_it_is_recovered(kept: ArchiveFolder, tmp_path: Path) -> None:
    (before,) = kept.directory.minter()(1)
    backup(kept, tmp_path / "backups")
    (after,) = kept.directory.minter()(1)
    back = restored(tmp_path / "backups", tmp_path / "new")
    with pytest.raises(LostState):
        list(back.directory.minter()(1))
    with pytest.raises(LostState, match="--moved"):
        recover(back.data, this_machine())
    with pytest.raises(LostState):
        list(back.directory.minter()(1))
    recover(back.data, this_machine(), moved=True)
    (later,) = back.directory.minter()(1)
    assert before.main.date < after.main.date < later.main.date


def test_the_next_backup_copies_only_what_is_new(kept: ArchiveFolder, tmp_path: Path) -> None:
    backup(kept, tmp_path / "backups")
    kept.put("a.example/b/2020/01.01.00.00", {"new": b"new"})
    saved = backup(kept, tmp_path / "backups")
    assert (saved.files, saved.copied, saved.copied_bytes) == (4, 1, 3)
    assert restored(tmp_path / "backups", tmp_path / "new").everything() == kept.everything()


def test_an_earlier_backup_can_be_put_back(kept: ArchiveFolder, tmp_path: Path) -> None:
    before = kept.everything()
    first = backup(kept, tmp_path / "backups")
    with kept.item_store() as item_store, item_store.unit_of_work(WHO) as work:
        work.remove(work.get(parse_ibi(NAME)), "by mistake")
    backup(kept, tmp_path / "backups")
    back = restored(tmp_path / "backups", tmp_path / "new", first.name)
    assert back.everything() == before
    assert back.path("a.txt").read_bytes() == b"aaaa"


def test_old_backups_go_with_the_bytes_that_only_they_had(kept: ArchiveFolder, tmp_path: Path) -> None:
    backup(kept, tmp_path / "backups")
    with kept.item_store() as item_store, item_store.unit_of_work(WHO) as work:
        work.remove(work.get(parse_ibi(NAME)), "for good")
    saved = backup(kept, tmp_path / "backups", keep=1)
    assert (saved.removed, len(BackupStore(tmp_path / "backups").backups())) == (1, 1)
    assert len([path for path in (tmp_path / "backups/files").rglob("*") if path.is_file()]) == 1
    assert restored(tmp_path / "backups", tmp_path / "new").everything() == kept.everything()


def test_a_damaged_file_is_told_and_no_earlier_backup_goes(kept: ArchiveFolder, tmp_path: Path) -> None:
    flip(kept.path("a.txt"), 0)
    kept.path("caf%E9/b").unlink()
    saved = backup(kept, tmp_path / "backups", keep=1)
    assert len(saved.problems) == 2
    assert backup(kept, tmp_path / "backups", keep=1).removed == 0


def test_a_file_that_was_damaged_since_the_last_backup_is_still_in_the_next(
    kept: ArchiveFolder, tmp_path: Path
) -> None:
    backup(kept, tmp_path / "backups")
    flip(kept.path("a.txt"), 0)
    assert backup(kept, tmp_path / "backups").problems == []
    assert restored(tmp_path / "backups", tmp_path / "new").path("a.txt").read_bytes() == b"aaaa"


def test_a_backup_that_is_damaged_is_found_and_told(kept: ArchiveFolder, tmp_path: Path) -> None:
    name = backup(kept, tmp_path / "backups").name
    store = BackupStore(tmp_path / "backups")
    assert verify(store, name) == []
    listed = kept.held().file("a.txt")
    assert listed
    flip(store.path_of(listed.sha256), 1)
    assert len(verify(store, name)) == 2  # it stands for two files
    problems = restore(store, name, tmp_path / "new")
    assert sorted(str(problem) for problem in problems) == [
        f"a.txt of {NAME} is not in the backup", f"same.txt of {OTHER} is not in the backup",
    ]  # fmt: skip
    flip(store.folder / name / "catalogue.sqlite", 8 * 5000)
    assert verify(store, name)
    with pytest.raises(SetupError, match="damaged"):
        restore(store, name, tmp_path / "another")
    assert not (tmp_path / "another/archive.toml").exists()


@pytest.mark.parametrize("noise", [b"", b"{}", b"[]", b"\xff", b'{"version": 1}', b"[" * 100_000])
def test_what_a_backup_says_of_itself_is_checked(kept: ArchiveFolder, tmp_path: Path, noise: bytes) -> None:
    name = backup(kept, tmp_path / "backups").name
    (tmp_path / "backups" / name / "backup.json").write_bytes(noise)
    with pytest.raises(SetupError, match="not a backup of ours"):
        BackupStore(tmp_path / "backups").about(name)


def test_nothing_is_put_back_over_something(kept: ArchiveFolder, tmp_path: Path) -> None:
    backup(kept, tmp_path / "backups")
    with pytest.raises(SetupError, match="not empty"):
        restored(tmp_path / "backups", kept.data)


def test_a_backup_is_not_kept_inside_of_what_it_saves(kept: ArchiveFolder) -> None:
    with pytest.raises(SetupError, match="inside"):
        backup(kept, kept.data / "backups")
    assert not (kept.data / "backups").exists()


def test_backups_of_two_archives_never_mix(kept: ArchiveFolder, tmp_path: Path) -> None:
    backup(kept, tmp_path / "backups")
    (tmp_path / "backups").chmod(0o700)
    other = make_archive(tmp_path / "other", service=IBIForms.parse("rep archive.example/w/2021/01.01.00.00"))
    with pytest.raises(SetupError, match="another Archive"):
        backup(other, tmp_path / "backups")


@pytest.mark.long
def test_two_backups_into_one_folder_do_not_work_at_the_same_time(
    kept: ArchiveFolder, tmp_path: Path
) -> None:
    backup(kept, tmp_path / "b")
    before = sorted(path.name for path in (tmp_path / "b").iterdir())
    with BackupStore(tmp_path / "b").exclusive_lock(), pytest.raises(SetupError, match="another backup"):
        backup(kept, tmp_path / "b")
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == before


def test_an_interrupted_backup_leaves_the_ones_before_it_whole(kept: ArchiveFolder, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    backup(kept, folder)
    kept.put("a.example/b/2020/01.01.00.00", {"big": os.urandom(30_000_000)})
    command = [
        sys.executable,
        "-m",
        "ibi",
        "archive",
        "backup",
        "--data",
        str(kept.data),
        "--to",
        str(folder),
    ]
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    process = subprocess.Popen(command)
    while process.poll() is None and not list(folder.glob(".*.part")):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert {path: path.read_bytes() for path in before} == before
    assert verify(BackupStore(folder), BackupStore(folder).backups()[0]) == []
    saved = backup(kept, folder)
    assert saved.problems == []
    assert list(folder.glob(".*.part")) == []
    assert restored(folder, tmp_path / "new").everything() == kept.everything()


@pytest.mark.long
def test_a_backup_holds_what_was_acknowledged_before_it_began_while_others_write(
    kept: ArchiveFolder, tmp_path: Path
) -> None:
    """Deposits, replacements and removals go on all the time."""
    acknowledged: list[str] = []
    stop = threading.Event()

    def deposit() -> None:
        for number in range(1, 1000):
            if stop.is_set():
                return
            name = f"a.example/b/2021/01.01.{number // 60:02}.{number % 60:02}"
            kept.put(name, {"x": os.urandom(100), "y": os.urandom(100)})
            acknowledged.append(name)
            if number % 3 == 0:
                with kept.item_store() as item_store, item_store.unit_of_work(WHO) as work:
                    work.remove(work.get(parse_ibi(acknowledged.pop(0))), "again")

    thread = threading.Thread(target=deposit)
    thread.start()
    try:
        for _ in range(3):
            while len(acknowledged) < 3:
                time.sleep(0.01)
            before = list(acknowledged)
            saved = backup(kept, tmp_path / "backups")
            assert saved.problems == []
            back = restored(tmp_path / "backups", tmp_path / saved.name)
            confirmed(back)
            for name in before:
                held = back.held(name)
                assert held.deleted or [back.path(file, name).stat().st_size for file in ("x", "y")] == [
                    100,
                    100,
                ]
            assert [each for each in differences(back) if "minting" not in each] == []
    finally:
        stop.set()
        thread.join()


@contextmanager
def served(data: Path) -> Iterator[Callable[[str], tuple[int, bytes]]]:
    """An Archive that is served by the command; gives what a GET is answered with."""
    words = ["archive", "serve", "--data", data, "--bind", "127.0.0.1:0"]
    with start_ibi(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        ready = process.stdout.readline()
        port = int(ready.split()[1].rstrip("/").rpartition(":")[2])

        def get(path: str) -> tuple[int, bytes]:
            connection = HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", path, headers={"host": "archive.example"})
            reply = connection.getresponse()
            body = reply.read()
            connection.close()
            return reply.status, body

        try:
            yield get
        finally:
            process.terminate()
            process.wait(20)


@pytest.mark.long
@pytest.mark.proves("ARC-01", "AMB-18")
def test_the_whole_drill_with_a_served_archive_under_load(kept: ArchiveFolder, tmp_path: Path) -> None:
    """Lost machine: backups are made while it is served and filled; then it is gone, and comes back elsewhere."""
    ibi: list[str | Path] = [sys.executable, "-m", "ibi"]
    contents: dict[str, bytes] = {}
    saved: dict[str, bytes] = {}
    stop = threading.Event()

    def fill() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            name, content = f"a.example/b/2022/01.01.{number // 60:02}.{number % 60:02}", os.urandom(2000)
            kept.put(name, {"x.bin": content})
            contents[name] = content

    with served(kept.data) as get:
        thread = threading.Thread(target=fill)
        thread.start()
        try:
            for _ in range(2):
                while len(contents) < len(saved) + 5:
                    time.sleep(0.05)
                saved = dict(contents)
                command = [
                    *ibi,
                    "archive",
                    "backup",
                    "--data",
                    kept.data,
                    "--to",
                    tmp_path / "b",
                    "--json",
                    "--verify",
                ]
                done = subprocess.run(command, capture_output=True, check=True, timeout=100)
                assert json.loads(done.stdout)["problems"] == []
        finally:
            stop.set()
            thread.join()
        some = next(iter(saved))
        assert get(f"/col/{some}/doc/x.bin") == (200, saved[some])
    shutil.rmtree(kept.data)

    command = [*ibi, "archive", "restore", "--from", tmp_path / "b", "--data", tmp_path / "new"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=100)
    assert b"ibi mint recover" in done.stderr
    assert b"archive settle" in done.stderr
    back = ArchiveFolder(tmp_path / "new")
    with served(back.data) as get:
        assert {get(f"/col/{name}/doc/x.bin")[0] for name in saved} == {503}
    command = [*ibi, "archive", "settle", "--data", back.data, "--all"]
    subprocess.run(command, capture_output=True, check=True, timeout=100)
    with served(back.data) as get:
        assert {name: get(f"/col/{name}/doc/x.bin") for name in saved} == {
            n: (200, c) for n, c in saved.items()
        }
    with pytest.raises(LostState):
        list(back.directory.minter()(1))
    command = [*ibi, "mint", "recover", "--data", back.data, "--moved"]
    subprocess.run(command, capture_output=True, check=True, timeout=100)
    command = [*ibi, "archive", "check", "--data", back.data]
    done = subprocess.run(
        command, capture_output=True, check=False, timeout=100, env=os.environ | {"LC_ALL": "C"}
    )
    assert done.stdout == b"0 differences\n"
    assert len(list(back.directory.minter()(1))) == 1
