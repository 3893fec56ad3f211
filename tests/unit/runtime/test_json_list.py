"""JSON list files: what shows only with two of them. The rest is tested with tokens, which are kept in one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts.people import Accounts, Role
from ibi.accounts.tokens import Scope, Tokens
from ibi.errors import SetupError
from support.checks.locales import ascii_alone

MADE = "2026-11-21T20:50:14Z"
PASSWORD = "seven green birds"
ROW = {"name": "maria", "role": "keeper", "hash": "$argon2id$", "made": MADE}


def test_two_lists_of_one_folder_do_not_touch_each_other(tmp_path: Path) -> None:
    tokens, accounts = Tokens(tmp_path), Accounts(tmp_path)
    token = tokens.make("maria", MADE, [Scope.READ])
    accounts.add("Maria", Role.KEEPER, PASSWORD, MADE)
    assert {path.name for path in tmp_path.iterdir()} == {
        "tokens.json",
        "tokens.lock",
        "accounts.json",
        "accounts.lock",
    }
    tokens.revoke("maria")
    assert tokens.find(token) is None
    assert accounts.find("mARIA") == accounts.all()[0]


def test_a_file_that_cannot_be_read_is_told_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "accounts.json"
    path.mkdir()
    with pytest.raises(SetupError) as caught:
        Accounts(tmp_path).all()
    assert str(caught.value) == f"{path} cannot be read: Is a directory"


def test_a_file_is_read_alike_in_every_locale(tmp_path: Path) -> None:
    (tmp_path / "accounts.json").write_bytes('{"por quê": "é", "version": 1, "accounts": []}'.encode())
    with ascii_alone():
        assert Accounts(tmp_path).all() == []


def test_a_file_that_was_removed_leaves_an_empty_list(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path)
    accounts.add("maria", Role.KEEPER, PASSWORD, MADE)
    assert accounts.find("maria") is not None
    (tmp_path / "accounts.json").unlink()
    assert accounts.find("maria") is None
    assert accounts.all() == ()


def test_what_cannot_be_written_leaves_the_list_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = Tokens(tmp_path)
    token = tokens.make("a", MADE)
    monkeypatch.setattr("ibi.runtime.durable_files.secrets.token_hex", lambda _: "aside")
    (tmp_path / "tokens.json.aside.new").mkdir()
    with pytest.raises(SetupError, match="cannot be written"):
        tokens.make("b", MADE)
    assert [(each.name, tokens.find(token) == each) for each in tokens.all()] == [("a", True)]


@pytest.mark.parametrize(
    "change",
    [{"name": "ma ria"}, {"name": 7}, {"role": "king"}, {"hash": "plain"}, {"hash": 7}, {"made": "today"}, {"more": 1}],
)  # fmt: skip
def test_a_row_that_we_did_not_write_damages_the_list(tmp_path: Path, change: dict[str, Any]) -> None:
    file, accounts = tmp_path / "accounts.json", Accounts(tmp_path)
    file.write_text(json.dumps({"version": 1, "accounts": [ROW]}))
    assert accounts.find("maria") is not None
    file.write_text(json.dumps({"version": 1, "accounts": [ROW | change]}))
    with pytest.raises(SetupError, match="is damaged"):
        accounts.find("maria")
    with pytest.raises(SetupError, match="is damaged"):
        accounts.remove("maria")
