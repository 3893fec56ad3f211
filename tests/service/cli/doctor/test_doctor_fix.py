"""`ibi doctor --fix` repairs what it can without a risk, says what it did, and touches nothing else."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ibi.archive.search import index
from support.concurrency.forked import start_ibi

Typed = Callable[..., tuple[int, str, str]]
LEFT = ("archive.toml.0123456789abcdef.new", "checkup.99.new", "nonce.99.new", "finding.sqlite3.new")


def fixable(typed: Typed, data: Path) -> list[str]:
    """The sentences of findings that can be repaired."""
    found = json.loads(typed("doctor", "--data", data, "--json")[1])
    assert found["fixed"] == []
    return [each["sentence"] for each in found["findings"] if each["fixable"]]


def fixed(typed: Typed, data: Path) -> list[str]:
    """What was repaired; nothing is left that can be."""
    done: list[str] = json.loads(typed("doctor", "--data", data, "--fix", "--json")[1])["fixed"]
    assert fixable(typed, data) == []
    return done


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything in a folder: the mode, the time of change and the bytes of each file."""
    found = sorted(each for each in folder.rglob("*") if each.is_file())
    return {str(each): (each.stat().st_mode, each.stat().st_ctime_ns, each.read_bytes()) for each in found}


@pytest.fixture
def archive(typed: Typed, data: Path, tmp_path: Path) -> Path:
    """An Archive with one item."""
    (tmp_path / "text.txt").write_text("a text")
    assert typed("archive", "deposit", "--data", data, tmp_path / "text.txt", "--title", "A text")[0] == 0
    return data


def test_nothing_is_repaired_where_nothing_is_wrong(typed: Typed, archive: Path) -> None:
    before = state(archive)
    assert fixable(typed, archive) == []
    assert fixed(typed, archive) == []
    assert {name: each[0] for name, each in state(archive).items()} == {
        name: each[0] for name, each in before.items()
    }


def test_secrets_are_closed_to_others_and_items_are_not_touched(typed: Typed, archive: Path) -> None:
    secrets = [archive / name for name in ("archive.toml", "catalogue.sqlite", "accounts.json")]
    assert (
        typed("archive", "account", "add", "maria", "--role", "keeper", "--generate", "--data", archive)[0]
        == 0
    )
    for each in secrets:
        each.chmod(0o644)
    (archive / "col").chmod(0o755)
    items, minting = state(archive / "col"), state(archive / "minting")
    assert len(fixable(typed, archive)) == len(secrets)
    assert sorted(fixed(typed, archive)) == sorted(f"only its owner can read {each} now" for each in secrets)
    assert {each.stat().st_mode & 0o777 for each in secrets} == {0o600}
    assert (state(archive / "col"), (archive / "col").stat().st_mode & 0o777) == (items, 0o755)
    assert state(archive / "minting") == minting


def test_a_secret_with_another_name_elsewhere_is_not_changed(
    typed: Typed, archive: Path, tmp_path: Path
) -> None:
    """Root must not be led to change the file of another user by a link."""
    stranger = tmp_path / "stranger"
    stranger.write_text("")
    stranger.chmod(0o644)
    os.link(stranger, archive / "attestation.key")
    [sentence] = json.loads(typed("doctor", "--data", archive, "--fix", "--json")[1])["fixed"][:1]
    assert "is not a plain file" in sentence
    assert stranger.stat().st_mode & 0o777 == 0o644


def test_what_killed_commands_left_is_removed_and_what_is_being_written_stays(
    typed: Typed, archive: Path
) -> None:
    for name in LEFT:
        (archive / name).touch()
        os.utime(archive / name, (0, 0))
    (archive / "archive.toml.0123456789abcde0.new").touch()  # a moment ago
    (archive / "thesis.new").touch()  # not ours
    os.utime(archive / "thesis.new", (0, 0))
    assert len(fixable(typed, archive)) == 1
    assert fixed(typed, archive) == [f"files that were left behind are removed: {len(LEFT)}"]
    assert sorted(each.name for each in archive.glob("*.new")) == [
        "archive.toml.0123456789abcde0.new",
        "thesis.new",
    ]


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "of another version": lambda path: change(path, "PRAGMA user_version = 2"),
    "no database": lambda path: path.write_bytes(b"\0" * 4096),
}


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_search_index_that_cannot_be_used_is_made_anew(typed: Typed, archive: Path, damage: str) -> None:
    assert typed("archive", "index", "--data", archive)[0] == 0
    assert fixable(typed, archive) == []
    DAMAGE[damage](archive / index.FILE)
    [sentence] = fixable(typed, archive)
    assert "the search index" in sentence
    assert fixed(typed, archive) == ["the search index is made anew"]
    assert "A text" in typed("archive", "search", "--data", archive, "text")[1]


def test_a_running_archive_is_told_to_make_its_index_anew(typed: Typed, archive: Path) -> None:
    words = ["archive", "serve", "--data", archive, "--bind", "127.0.0.1:0"]
    with start_ibi(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("ready ")
        try:
            wait_for_index(archive)
            change(archive / index.FILE, "PRAGMA user_version = 2")
            done = json.loads(typed("doctor", "--data", archive, "--fix", "--json")[1])["fixed"]
            assert done[0] == "the Archive was told to make its search index anew"
            wait_for_index(archive)
        finally:
            server.terminate()
            server.wait(30)


def wait_for_index(archive: Path) -> None:
    """Wait until the Archive has made its index."""
    end = time.monotonic() + 30
    while not (archive / index.FILE).exists() or index.fault_of(archive / index.FILE, 5) is not None:
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_files_of_root_are_given_to_the_owner_of_the_folder(typed: Typed, archive: Path) -> None:
    for each in (archive, *archive.rglob("*")):
        os.chown(each, 65534, 65534, follow_symlinks=False)
    assert typed("mint", "recover", "--data", archive)[0] == 0
    assert typed("archive", "token", "--data", archive, "--name", "n", "--scope", "read")[0] == 0  # as root
    os.chown(archive / "minting" / "lock", 0, 0)  # whatever is done to it, `ibi mint recover` must judge it
    (archive / "link").symlink_to("/etc/hostname")
    minting = state(archive / "minting")
    sentences = fixable(typed, archive)
    assert any("belong to another user than the folder" in each for each in sentences), sentences
    done = json.loads(typed("doctor", "--data", archive, "--fix", "--json")[1])["fixed"]
    assert any("belong to the owner of the folder again" in each for each in done), done
    others = [each for each in archive.rglob("*") if each.lstat().st_uid != 65534 and not each.is_symlink()]
    assert [each for each in others if not {"col", "minting"}.intersection(each.parts)] == []
    assert Path("/etc/hostname").stat().st_uid == 0
    assert state(archive / "minting") == minting


def test_without_json_each_repair_is_a_line(typed: Typed, archive: Path) -> None:
    (archive / "archive.toml").chmod(0o644)
    assert "findings that --fix can repair: 1\n" in typed("doctor", "--data", archive)[2]
    out = typed("doctor", "--data", archive, "--fix")[1]
    assert out.splitlines()[0] == f"fixed: only its owner can read {archive}/archive.toml now"
