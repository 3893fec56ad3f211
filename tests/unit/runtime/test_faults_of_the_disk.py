"""What the disk refuses is one sentence that names the place, and leaves nothing half."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ibi.accounts.people import Accounts
from ibi.accounts.sessions import Sessions
from ibi.accounts.stored import list_faults
from ibi.accounts.tokens import Scope, Tokens
from ibi.archive.store.data_directory import DataDirectory
from ibi.errors import SetupError
from ibi.minting.machine import this_machine
from ibi.minting.recovery import recover
from ibi.minting.state import FOLDER
from ibi.minting.waiting_room import WaitingRoom
from ibi.runtime.durable_files import flush_folder, make_folder, open_regular, replace_file
from ibi.runtime.nonce import Nonce
from ibi.runtime.settings import Peer, SubsystemSettings, settings_lock
from ibi.runtime.signing import FILE, signer
from support.checks.flushed_files import flushes
from support.concurrency.open_files import open_files


def _minted(folder: Path) -> None:
    with WaitingRoom(folder, this_machine()):
        pass


def _locked(folder: Path) -> None:
    with settings_lock(folder / ("x" * 300)):
        pass


def _published(folder: Path) -> None:
    with Nonce(folder, lambda: 0.0).published():
        pass


def _write_peers(folder: Path) -> None:
    Peer.write_tables(folder, {"b": Peer(address="http://b.example", token="")})


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "the tokens": lambda folder: Tokens(folder).all(),
    "one token": lambda folder: Tokens(folder).find("x"),
    "an account": lambda folder: Accounts(folder).find("maria"),
    "a session": lambda folder: Sessions(folder / "sessions.sqlite", lambda: 0.0).start("maria", ""),
    "the peers": _write_peers,
    "a nonce": _published,
    "a key": signer,
    "labels": _minted,
    "a new archive": lambda folder: DataDirectory(folder, this_machine()).reserve(),
}


@pytest.mark.parametrize("act", IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_a_file_in_the_place_of_a_folder_is_one_sentence(
    tmp_path: Path, act: Callable[[Path], object]
) -> None:
    folder = tmp_path / "data"
    folder.write_bytes(b"")
    with pytest.raises(SetupError, match=f"{folder}.*(Not a directory|File exists)"):
        act(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("name", ["tokens.json", "accounts.json"])
def test_a_list_that_cannot_be_read_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert [str(tmp_path / name) in str(fault) for fault in list_faults(tmp_path)] == [True]


def test_a_folder_of_settings_that_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="File name too long"):
        _locked(tmp_path)


def test_peers_are_not_written_over_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / Peer.FILE
    path.write_bytes(b"\xff")
    with pytest.raises(SetupError, match=f"{path} cannot be read"):
        _write_peers(tmp_path)
    assert path.read_bytes() == b"\xff"


def test_a_state_of_minting_that_cannot_be_made_is_not_recovered(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_bytes(b"")
    with pytest.raises(SetupError, match=f"labels cannot be made in {tmp_path}: File exists"):
        recover(tmp_path, this_machine())


def _failing(reason: int) -> Callable[[int], None]:
    def fail(_handle: int) -> None:
        raise OSError(reason, os.strerror(reason))

    return fail


FULL: dict[str, tuple[Callable[[Path], object], str]] = {
    "the tokens": (lambda folder: Tokens(folder).make("maria", "2026-11-21T20:50:14Z", []), "tokens.lock"),
    "the peers": (_write_peers, ""),
    "a key": (signer, ""),
    "labels": (_minted, FOLDER),
}


@pytest.mark.parametrize(("act", "left"), FULL.values(), ids=FULL)
def test_what_does_not_fit_on_the_disk_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], object], left: str
) -> None:
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", _failing(errno.ENOSPC))
        with pytest.raises(SetupError, match=f"{tmp_path}.*No space left"):
            act(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [left] * bool(left)
    act(tmp_path)


def test_a_state_of_minting_that_was_named_and_not_finished_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_handle: int, _size: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as refusing:
        refusing.setattr(os, "ftruncate", fail)
        with pytest.raises(SetupError, match=f"labels cannot be made in {tmp_path}: Input/output error"):
            _minted(tmp_path)
    assert open_files(tmp_path) == []
    _minted(tmp_path)


def test_a_file_that_cannot_be_replaced_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    replace_file(path, b"before")
    monkeypatch.setattr(os, "fsync", _failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        replace_file(path, b"after")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    assert path.read_bytes() == b"before"


def test_the_first_refusal_is_told_where_the_rest_cannot_be_removed_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stay(path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr(os, "fsync", _failing(errno.EIO))
    monkeypatch.setattr(os, "unlink", stay)
    with pytest.raises(OSError, match="Input/output"):
        replace_file(tmp_path / "a", b"after")


@pytest.mark.parametrize(
    ("reason", "tells"), [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EIO, True)]
)
def test_only_a_file_system_that_flushes_no_folder_may_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int, tells: bool
) -> None:
    monkeypatch.setattr(os, "fsync", _failing(reason))
    if tells:
        with pytest.raises(OSError, match="Input/output"):
            flush_folder(tmp_path)
    else:
        flush_folder(tmp_path)


def test_a_nonce_that_cannot_be_published_leaves_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "nonce").mkdir()
    with pytest.raises(SetupError, match="nonce cannot be written: Is a directory"):
        _published(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["nonce"]


def test_a_nonce_that_cannot_be_removed_is_no_error(tmp_path: Path) -> None:
    with Nonce(tmp_path, lambda: 0.0).published():
        (tmp_path / "nonce").unlink()
        (tmp_path / "nonce").mkdir()
    assert Nonce(tmp_path, lambda: 0.0).answer()[0] == 404


def test_two_that_make_a_key_at_once_use_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = signer(tmp_path)
    monkeypatch.setattr(Path, "exists", lambda _path, **_: False)  # as it was when the second one looked
    assert signer(tmp_path).public == first.public
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize(
    "write",
    [
        signer,
        lambda folder: replace_file(folder / "state", b"content"),
        lambda folder: make_folder(folder / "one" / "in" / "another"),
        lambda folder: Tokens(folder).make("reader", "2026-11-27T00:00:00Z", [Scope.READ]),
    ],
    ids=["key", "file", "folders", "token"],
)
def test_what_is_written_is_flushed_and_so_is_its_name(
    tmp_path: Path, write: Callable[[Path], object]
) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    with flushes() as flushed:
        write(folder)
    assert flushed.lacking(folder) == []


def test_a_file_of_subsystems_without_any_is_named(tmp_path: Path) -> None:
    path = tmp_path / SubsystemSettings.FILE
    path.write_text("")
    with pytest.raises(SetupError) as refused:
        SubsystemSettings.read_all(tmp_path)
    assert str(refused.value) == f"{path} has a table for each subsystem: [name], host = ..."


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.symlink_to("target")


@pytest.mark.parametrize(
    ("make", "reason"), [(_pipe, errno.EINVAL), (Path.mkdir, errno.EINVAL), (_link, errno.ELOOP)]
)
def test_only_a_regular_file_is_opened(tmp_path: Path, make: Callable[[Path], None], reason: int) -> None:
    (tmp_path / "target").write_bytes(b"text")
    make(tmp_path / "a")
    with pytest.raises(OSError, match=f"{tmp_path}/a") as refused:
        open_regular(tmp_path / "a")
    assert refused.value.errno == reason
    assert open_files(tmp_path) == []


def test_a_link_is_followed_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"text")
    _link(tmp_path / "a")
    with open_regular(tmp_path / "a", follow=True) as file:
        assert file.read() == b"text"


def test_a_file_of_peers_without_tables_is_named(tmp_path: Path) -> None:
    path = tmp_path / Peer.FILE
    path.write_text("a = 1")
    with pytest.raises(SetupError) as refused:
        Peer.read_tables(tmp_path)
    assert str(refused.value) == f"{path} has a table for each: [name]"


def test_settings_make_the_folders_above_them_and_replace_what_cannot_be_one(tmp_path: Path) -> None:
    folder = tmp_path / "one" / "two"
    _write_peers(folder)
    path = folder / Peer.FILE
    path.write_text(path.read_text().replace('"http://b.example"', "7"))
    with pytest.raises(SetupError, match=f"{path}: address"):
        Peer.read_tables(folder)
    _write_peers(folder)
    assert Peer.read_tables(folder)["b"].address == "http://b.example"
