"""Tokens: strong, shown once, kept as hashes, good for what they were made for, and gone when they are revoked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts.people import AccountManager, Accounts
from ibi.accounts.tokens import ARCHIVE_SCOPES, Scope, Token, Tokens
from ibi.api.accounts import AccountContext, NewToken, make_token
from ibi.api.fields import read_texts
from ibi.errors import BadField, NotHeld, ParseError, SetupError
from ibi.runtime.json_list import LONGEST_NAME

MADE = "2026-11-21T20:50:14Z"
GOOD = b'{"version": 1, "tokens": [{"name": "a", "sha256": "%s", "made": "%s", "scopes": SCOPES}]}' % (
    b"0" * 64,
    MADE.encode(),
)
MAKE = """
import sys
from pathlib import Path
from ibi.accounts.tokens import Tokens
tokens = Tokens(Path(sys.argv[1]))
"""


def file_of(data: Path) -> Path:
    return data / "tokens.json"


def owner(tokens: Tokens, token: str) -> str | None:
    known = tokens.find(token)
    return known and known.name


def process(data: Path, work: str, *more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", MAKE + work, str(data), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_a_token_is_strong_and_only_its_hash_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    token = Tokens(tmp_path / "new").make("deposits", MADE)
    written = file_of(tmp_path / "new").read_text()
    assert len(token) >= 47  # 256 bits in base 64
    assert token.startswith("ibi_")  # a hyphen would make an option of it
    assert token not in written
    assert sha256(token.encode()).hexdigest() in written
    assert file_of(tmp_path / "new").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_no_two_tokens_are_alike_and_each_knows_its_owner(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    made = {name: tokens.make(name, MADE) for name in ("a", "b.c", "D_e-9")}
    assert len(set(made.values())) == 3
    assert {name: owner(tokens, token) for name, token in made.items()} == {name: name for name in made}
    assert [(token.name, token.made) for token in tokens.all()] == [(name, MADE) for name in made]


@pytest.mark.parametrize("wrong", ["", "a", "x" * 43, "ibi_" + "x" * 43, "\udc80", "ü", "0" * 64])
def test_what_is_no_token_has_no_owner(tmp_path: Path, wrong: str) -> None:
    tokens = Tokens(tmp_path)
    assert owner(tokens, wrong) is None
    tokens.make("a", MADE)
    assert owner(tokens, wrong) is None


def test_the_kept_hash_is_no_token(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    token = tokens.make("a", MADE)
    assert owner(tokens, sha256(token.encode()).hexdigest()) is None


def test_a_reader_sees_at_once_what_another_process_has_changed(tmp_path: Path) -> None:
    serving = Tokens(tmp_path)
    with process(tmp_path, f"print(tokens.make('a', {MADE!r}), tokens.make('b', {MADE!r}))") as other:
        first, second = other.communicate()[0].split()
    assert (owner(serving, first), owner(serving, second)) == ("a", "b")
    with process(tmp_path, "tokens.revoke('a')") as other:
        other.communicate()
    assert (owner(serving, first), owner(serving, second)) == (None, "b")


def test_many_who_make_tokens_at_once_lose_none(tmp_path: Path) -> None:
    work = f"[tokens.make(f'{{sys.argv[2]}}-{{n}}', {MADE!r}) for n in range(10)]"
    running = [process(tmp_path, work, str(number)) for number in range(3)]
    assert [one.wait(60) for one in running] == [0, 0, 0]
    for one in running:
        one.communicate()
    assert {token.name for token in Tokens(tmp_path).all()} == {
        f"{p}-{n}" for p in range(3) for n in range(10)
    }


def test_a_kill_leaves_the_tokens_as_they_were_before_or_after(tmp_path: Path) -> None:
    kept = Tokens(tmp_path).make("kept", MADE)
    work = (
        f"[(tokens.make('x', {MADE!r}), print('made', flush=True), tokens.revoke('x')) for _ in range(10**6)]"
    )
    for _ in range(5):
        with process(tmp_path, work) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "made\n"
            other.send_signal(signal.SIGKILL)
        assert owner(Tokens(tmp_path), kept) == "kept"
        if any(token.name == "x" for token in Tokens(tmp_path).all()):
            Tokens(tmp_path).revoke("x")


@pytest.mark.parametrize(
    "name", ["", " ", "a b", ".a", "-a", "a/b", "a\n", "é", "٣", "x" * (LONGEST_NAME + 1)]
)
def test_a_name_that_is_none_makes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(ParseError):
        Tokens(tmp_path / "x").make(name, MADE)
    assert not (tmp_path / "x").exists()


def test_a_name_is_given_to_one_token_at_a_time(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    first = tokens.make("a", MADE)
    with pytest.raises(SetupError, match="already"):
        tokens.make("a", MADE)
    assert owner(tokens, first) == "a"
    tokens.revoke("a")
    assert owner(tokens, first) is None
    second = tokens.make("a", MADE)
    assert (owner(tokens, first), owner(tokens, second)) == (None, "a")


def test_what_is_not_there_cannot_be_revoked(tmp_path: Path) -> None:
    with pytest.raises(NotHeld, match="no token of the name b"):
        Tokens(tmp_path / "x").revoke("b")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"null", b"\xff", b"{}", b'{"version": 2, "tokens": []}', b'{"version": 1}', b"[" * 100_000,
        b'{"version": 1, "tokens": [{"name": "a"}]}', b'{"version": 1, "tokens": [7]}',
        b'{"version": 1, "tokens": [{"name": "a", "sha256": "0", "made": "2026-11-21T20:50:14Z"}]}',
        b'{"version": 1, "tokens": [{"name": "a", "sha256": 5, "made": "2026-11-21T20:50:14Z"}]}',
        GOOD.replace(b"SCOPES", b'["all"]'), GOOD.replace(b"SCOPES", b"7"), GOOD.replace(b"SCOPES", b"[[]]"),
        GOOD.replace(b"SCOPES", b'"read"'),
    ],
)  # fmt: skip
def test_a_damaged_file_permits_nothing_and_is_not_written_over(tmp_path: Path, content: bytes) -> None:
    tokens = Tokens(tmp_path)
    token = tokens.make("a", MADE)
    assert owner(tokens, token) == "a"
    file_of(tmp_path).write_bytes(content)
    for attempt in (
        lambda: owner(tokens, token),
        tokens.all,
        lambda: tokens.make("b", MADE),
        lambda: tokens.revoke("a"),
    ):
        with pytest.raises(SetupError):
            attempt()
    assert file_of(tmp_path).read_bytes() == content


def test_a_directory_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "taken" / "tokens.json").mkdir(parents=True)
    for place in ("file", "taken"):
        with pytest.raises(SetupError) as raised:
            Tokens(tmp_path / place).make("a", MADE)
        assert str(tmp_path) in str(raised.value)


def test_a_token_is_good_for_its_scopes_and_an_administrators_for_all(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    some = tokens.find(tokens.make("some", MADE, [Scope.READ, Scope.EDIT]))
    every = tokens.find(tokens.make("every", MADE, [Scope.ADMIN]))
    none = tokens.find(tokens.make("none", MADE))
    assert some is not None
    assert every is not None
    assert none is not None
    assert [scope for scope in Scope if some.may(scope)] == [Scope.READ, Scope.EDIT]
    assert [scope for scope in Scope if every.may(scope)] == list(Scope)
    assert [scope for scope in Scope if none.may(scope)] == []


def made(folder: Path, scopes: str) -> Sequence[str]:
    """The scopes of a token that is made with what was typed."""
    people = AccountManager(Accounts(folder), (), lambda: MADE)
    context = AccountContext(
        who="a", say=str, people=people, tokens=Tokens(folder), moment=lambda: MADE, scopes=ARCHIVE_SCOPES
    )
    fields = read_texts(NewToken, {"name": ["x"], "scopes": [scopes]})
    made: Sequence[str] = make_token(context, fields)["scopes"]
    return made


def test_scopes_are_read_as_they_are_written(tmp_path: Path) -> None:
    assert made(tmp_path / "a", "edit, read,edit") == [Scope.READ, Scope.EDIT]
    assert made(tmp_path / "b", "read,deposit,edit,delete,transfer,admin") == list(ARCHIVE_SCOPES)


@pytest.mark.parametrize("wrong", ["", "READ", "read;edit", "all", "resolve", "read,\udc80"])
def test_a_scope_that_is_none_is_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(BadField, match="one or more of: read, deposit"):
        made(tmp_path, wrong)
    assert not Tokens(tmp_path).all()


def test_a_file_without_scopes_is_read_and_written_as_it_was(tmp_path: Path) -> None:
    digest = sha256(b"secret").hexdigest()
    old: dict[str, Any] = {"version": 1, "tokens": [{"name": "old", "sha256": digest, "made": MADE}]}
    file_of(tmp_path).write_text(json.dumps(old))
    tokens = Tokens(tmp_path)
    assert tokens.find("secret") == Token("old", digest, MADE)
    tokens.make("new", MADE)
    assert [set(row) for row in json.loads(file_of(tmp_path).read_text())["tokens"]] == [
        set(old["tokens"][0])
    ] * 2
