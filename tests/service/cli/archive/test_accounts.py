"""`ibi archive account`: made with a password that is printed once or typed, listed, changed and removed."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ibi.accounts.people import Accounts, is_hash_of
from ibi.cli import main
from support.cli.archive_commands import get, make_archive, serving
from support.ports import free_port


def account(data: Path, word: str, *words: str) -> int:
    return main(["archive", "account", word, "--data", str(data), *words])


def test_a_generated_password_is_printed_once_and_alone(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert account(data, "add", "maria", "--role", "keeper", "--generate") == 0
    printed = capsys.readouterr()
    password = printed.out.strip()
    assert re.fullmatch(r"(?:[a-z2-9]{5}-){4}[a-z2-9]{5}\n", printed.out)
    assert printed.err == "the password of maria is shown only now:\n"
    known = Accounts(data).find("maria")
    assert known is not None
    assert is_hash_of(known.hash, password)
    assert password not in (data / "accounts.json").read_text()
    assert account(data, "list") == 0
    assert re.fullmatch(r"maria  20[0-9-]{8}T[0-9:]{8}Z  keeper\n", capsys.readouterr().out)


def test_programs_are_told_the_same(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert account(data, "add", "maria", "--role", "administrator", "--generate", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert set(made) == {"name", "role", "made", "password"}
    assert account(data, "password", "maria", "--generate", "--json") == 0
    changed = json.loads(capsys.readouterr().out)
    assert changed["password"] != made["password"]
    assert account(data, "list", "--json") == 0
    rows = [{"name": "maria", "role": "administrator", "made": made["made"]}]
    assert json.loads(capsys.readouterr().out) == {"accounts": rows}
    assert account(data, "remove", "maria", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"name": "maria", "removed": True}
    assert not Accounts(data).all()


def test_an_account_is_for_something_else_at_once(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert account(data, "add", "maria", "--role", "depositor", "--generate") == 0
    capsys.readouterr()
    assert account(data, "role", "maria", "--role", "keeper", "--json") == 0
    assert json.loads(capsys.readouterr().out)["role"] == "keeper"
    known = Accounts(data).find("maria")
    assert known is not None
    assert known.role == "keeper"
    assert account(data, "role", "nobody", "--role", "keeper") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("add", "maria", "--role", "keeper"),
        ("add", "ma ria", "--role", "keeper", "--generate"),
        ("remove", "nobody"),
        ("password", "nobody", "--generate"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    data: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert account(data, *words) != 0
    assert capsys.readouterr().err.count("\n") == 1
    assert not Accounts(data).all()


@pytest.mark.long
@pytest.mark.parametrize(("again", "made"), [("seven green birds", True), ("seven green words", False)])
def test_a_password_is_asked_twice_at_a_terminal(data: Path, again: str, made: bool) -> None:
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "ibi",
        "archive",
        "account",
        "add",
        "ana",
        "--role",
        "depositor",
        "--data",
        str(data),
    ]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as running:
        os.close(theirs)
        shown = b""
        for answer in ("seven green birds", again):
            while not shown.endswith(b": "):
                shown += os.read(ours, 1000)
            os.write(ours, f"{answer}\n".encode())
            shown = b""
        try:
            while more := os.read(ours, 1000):
                shown += more
        except OSError:  # the other end has closed
            pass
    os.close(ours)
    assert b"birds" not in shown
    assert (running.returncode == 0) is made
    known = Accounts(data).find("ana")
    assert (known is not None and is_hash_of(known.hash, "seven green birds")) is made


def test_a_damaged_list_is_named_at_the_start_and_readers_are_served_all_the_same(tmp_path: Path) -> None:
    port, data = free_port(), tmp_path / "a"
    make_archive(data, port)
    (data / "accounts.json").write_bytes(bytes(range(256)))
    with serving("--data", data, "--bind", f"127.0.0.1:{port}") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == (
            f"{data}/accounts.json is damaged: put it back from a backup, or remove it and make anew what it held\n"
        )
        assert get(port, "/")[0] == 200
