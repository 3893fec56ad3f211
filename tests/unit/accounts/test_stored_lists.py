"""Accounts and tokens are read as they were written; with a byte changed, their file is read or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.accounts.people import Account, Accounts, Role, hash_password
from ibi.accounts.tokens import ARCHIVE_SCOPES, Scope, Token, Tokens
from ibi.errors import SetupError
from ibi.runtime.json_list import JsonList
from support.oracles.state_machines import folder_in_memory

if TYPE_CHECKING:
    from pathlib import Path

HASH = hash_password("seven green birds")  # slow on purpose, so only once
FEWER = settings(max_examples=max(1, settings().max_examples // 3))  # each writes some files
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
moments = st.datetimes().map("{:%Y-%m-%dT%H:%M:%SZ}".format).filter(lambda text: len(text) == 20)
scopes = st.lists(st.sampled_from(ARCHIVE_SCOPES), unique=True).map(tuple)
accounts = st.lists(
    st.builds(Account, names, st.sampled_from(Role), st.just(HASH), moments),
    max_size=4,
    unique_by=lambda account: account.name.lower(),
)
made_tokens = st.lists(st.tuples(names, moments, scopes), max_size=4, unique_by=lambda row: row[0])


def write_accounts(folder: Path, rows: list[Account]) -> None:
    file: JsonList[Account] = JsonList(
        folder, "accounts", lambda row: Account(**row), lambda account: account.name
    )
    with file.changing() as kept:
        kept[:] = rows


@FEWER
@given(rows=accounts)
def test_accounts_are_read_as_they_were_written(rows: list[Account]) -> None:
    with folder_in_memory() as folder:
        write_accounts(folder, rows)
        for kept in (Accounts(folder), Accounts(folder)):
            assert list(kept.all()) == rows
            assert [kept.find(row.name.upper()) for row in rows] == rows
        for row in rows:
            other = next(role for role in Role if role is not row.role)
            Accounts(folder).set_role(row.name, other)
            assert Accounts(folder).find(row.name) == row._replace(role=other)
            Accounts(folder).remove(row.name)
        assert list(Accounts(folder).all()) == []


@FEWER
@given(rows=made_tokens)
def test_tokens_are_found_as_they_were_made(rows: list[tuple[str, str, tuple[Scope, ...]]]) -> None:
    with folder_in_memory() as folder:
        texts = [Tokens(folder).make(*row) for row in rows]
        found = [Tokens(folder).bearer(f"Bearer {text}") for text in texts]
        assert found == list(Tokens(folder).all())
        assert [(each.name, each.made, each.scopes) for each in found if each] == rows
        assert [Tokens(folder).find(text + "x") for text in texts] == [None] * len(texts)


@FEWER
@given(rows=accounts, made=made_tokens, data=st.data())
def test_a_changed_file_is_read_or_refused(
    rows: list[Account], made: list[tuple[str, str, tuple[Scope, ...]]], data: st.DataObject
) -> None:
    with folder_in_memory() as folder:
        write_accounts(folder, rows)
        for row in made:
            Tokens(folder).make(*row)
        for path in folder.glob("*.json"):
            text = path.read_bytes()
            for _ in range(5):
                at, byte = data.draw(st.integers(0, len(text) - 1)), data.draw(st.binary(max_size=1))
                cut = data.draw(st.booleans())
                path.write_bytes(text[:at] + byte + (b"" if cut else text[at + 1 :]))
                read = (
                    read_all(Accounts(folder), Account)
                    if path.stem == "accounts"
                    else read_all(Tokens(folder), Token)
                )
                assert read is None or not cut or len(text) - at <= 2  # a cut list is none


def read_all(kept: Accounts | Tokens, kind: type[Account | Token]) -> int | None:
    """How many rows are read, each of this kind; None for a damaged file. `find` and `all` agree."""
    try:
        rows = kept.all()
    except SetupError:
        try:
            kept.find("maria")
        except SetupError:
            return None
        raise
    assert all(isinstance(row, kind) for row in rows)
    kept.find("maria")
    return len(rows)
