"""What `ibi init` finds out about a real machine: its folders, its ports, its names."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from ibi.cli.setup.answers import Answers
from ibi.cli.setup.surroundings import folder_fault, former, is_hidden_from_units, program, this_surroundings

ANSWERS = Answers(
    kind="resolver", domain="a.example", proxy="none", port=80, admin="a@b.example", account="a"
)


def test_a_folder_that_can_be_used(tmp_path: Path) -> None:
    assert folder_fault(tmp_path) is None
    assert folder_fault(tmp_path / "not" / "there") is None
    (tmp_path / ".new-0").mkdir()
    assert folder_fault(tmp_path) is None
    ANSWERS.write(tmp_path / "setup")
    (tmp_path / "more").touch()
    assert folder_fault(tmp_path) is None
    assert former(tmp_path) == ANSWERS
    assert former(tmp_path / "setup") is None


@pytest.mark.parametrize("name", ["archive.toml", "resolver.toml"])
def test_a_folder_of_a_service_is_no_place_for_another(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    ANSWERS.write(tmp_path / "setup")
    sentence = f"{tmp_path} is the data directory of a service already; give a new or an empty folder"
    assert str(folder_fault(tmp_path)) == sentence


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert str(folder_fault(tmp_path)) == f"{tmp_path} is not empty; give a new or an empty folder"
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        assert str(folder_fault(path)) == f"{tmp_path}/file is a file, not a folder"
    long = tmp_path / ("x" * 300)
    assert folder_fault(long) is None  # that it cannot be made is told when it is made


@pytest.mark.parametrize("path", ["home", "home/a/b", "tmp/a", "var/tmp", "root/x", "run/user/1"])
def test_what_units_do_not_see(path: str) -> None:
    assert is_hidden_from_units(Path(f"/{path}"))


@pytest.mark.parametrize("path", ["run/ibi", "var/lib/ibi", "srv/home", "homes"])
def test_what_units_see(path: str) -> None:
    assert not is_hidden_from_units(Path(f"/{path}"))


def test_the_usual_folder_is_proposed_if_it_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    usual = tmp_path / "usual"
    monkeypatch.setattr("ibi.cli.setup.surroundings._USUAL_FOLDER", usual)
    assert this_surroundings().usual_folder == str(usual)
    usual.mkdir()
    (usual / "file").touch()
    assert this_surroundings().usual_folder == str(tmp_path / "ibi")


def test_ports_and_addresses_of_this_machine() -> None:
    here = this_surroundings()
    assert here.is_own("127.0.0.1")
    assert not here.is_own("203.0.113.1")
    assert not here.is_own("2001:db8::1")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        taken.listen()
        assert not here.is_free("127.0.0.1", port)
        with socket.create_connection(("127.0.0.1", port)) as client, taken.accept()[0] as served:
            taken.close()
            served.close()  # the side that closes first is the one that still holds the port for a while
            client.recv(1)
        assert here.is_free("127.0.0.1", port)
    assert here.is_free("203.0.113.1", port)  # it is not of this machine, so nothing listens there


def test_short_names_are_made_of_addresses_of_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", (ip, 0)) for ip in ("::2", "8.8.8.8", "::2", "::ffff:9.9.9.9", "1.1.1.1")]

    monkeypatch.setattr(socket, "getaddrinfo", look)
    assert this_surroundings().found("a.example") == ["8.8.8.8", "9.9.9.9", "1.1.1.1", "::2"]

    def fail(*_: object, **__: object) -> list[tuple[object, ...]]:
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert this_surroundings().found("a.example") == []
    assert this_surroundings().found("a" * 300) == []


def test_units_name_this_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ibi").touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ibi"])
    assert program() == str(tmp_path / "ibi")
    monkeypatch.setattr(sys, "argv", ["/somewhere/else/ibi"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == str(tmp_path / "ibi")
    monkeypatch.setenv("PATH", os.devnull)
    assert program() == "/usr/bin/ibi"
