"""Accounts of people and tokens of programs: each refusal whole, each limit, and what a change calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts import people
from ibi.accounts.layout import Form, confirmation
from ibi.accounts.people import (
    LONGEST,
    SHORTEST,
    Account,
    AccountManager,
    Accounts,
    Role,
    check_password,
    hash_password,
    is_hash_of,
    new_password,
)
from ibi.accounts.stored import list_faults, stored_lists
from ibi.accounts.tokens import ARCHIVE_SCOPES, Scope, Token, Tokens
from ibi.errors import BadField, IbiError, NotHeld, ParseError, SetupError

MADE = "2026-11-22T10:00:00Z"
PASSWORD = "seven words of a pass phrase"
NAMED = "is made of at most 64 letters without accents, digits, dots, hyphens and underlines, without blanks"


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashing is slow on purpose; what is tested here is not how slow."""
    monkeypatch.setattr(people, "hash_password", lambda password: f"$argon2 {password}")


@pytest.mark.parametrize(
    ("password", "problem"),
    [
        ("abcde" + "f" * (SHORTEST - 5), ""),
        ("abcde" + "f" * (SHORTEST - 6), "a password has at least 12 characters; a few words are good"),
        ("abcde" + "f" * (LONGEST - 5), ""),
        ("abcde" + "f" * (LONGEST - 4), "a password has at most 200 characters"),
        ("abcd" + "e" * 20, ""),
        ("abcd" + "d" * 20, "this password is easy to guess; choose one without the name of the account"),
        (
            "words with MaRiA in them",
            "this password is easy to guess; choose one without the name of the account",
        ),
        ("\ufb03" * 4 + "abcd", ""),  # one letter of type, three of text
    ],
)
def test_a_password_is_long_enough_and_not_easy(password: str, problem: str) -> None:
    if not problem:
        check_password(password, "Maria")
        return
    with pytest.raises(IbiError) as caught:
        check_password(password, "Maria")
    assert str(caught.value) == problem


def test_a_hash_is_of_a_password_in_any_composition_of_its_letters() -> None:
    kept = hash_password("água e mais palavras")
    assert is_hash_of(kept, "a\u0301gua e mais palavras")
    assert not is_hash_of(kept, "agua e mais palavras")
    assert not is_hash_of("no hash", "x")


def test_a_made_password_has_five_groups_without_letters_that_look_alike() -> None:
    made = new_password()
    assert re.fullmatch("[a-hjkmnp-z2-9]{5}(-[a-hjkmnp-z2-9]{5}){4}", made)
    assert all("a" not in new_password("A") for _ in range(20))


def test_accounts_are_made_found_changed_and_removed(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path)
    maria = accounts.add("Maria", Role.KEEPER, PASSWORD, MADE)
    assert maria == Account("Maria", Role.KEEPER, f"$argon2 {PASSWORD}", MADE)
    assert accounts.find("mARIA") == maria
    assert accounts.set_role("MARIA", Role.ADMINISTRATOR) == maria._replace(role=Role.ADMINISTRATOR)
    changed = accounts.set_password("maria", f"another {PASSWORD}")
    assert (changed.hash, changed.role) == (f"$argon2 another {PASSWORD}", Role.ADMINISTRATOR)
    joao = accounts.add("joao", Role.DEPOSITOR, PASSWORD, MADE)
    assert [*accounts.all()] == [changed, joao]
    accounts.remove("Maria")
    assert ([*accounts.all()], accounts.find("maria")) == ([joao], None)


@pytest.mark.parametrize(
    ("act", "kind", "problem"),
    [
        (lambda accounts: accounts.add("a b", Role.KEEPER, PASSWORD, MADE), ParseError,
         f"the name of an account {NAMED}"),
        (lambda accounts: accounts.add("x" * 65, Role.KEEPER, PASSWORD, MADE), ParseError,
         f"the name of an account {NAMED}"),
        (lambda accounts: accounts.add("b", Role.KEEPER, "short", MADE), IbiError,
         "a password has at least 12 characters; a few words are good"),
        (lambda accounts: accounts.add("MARIA", Role.KEEPER, PASSWORD, MADE), SetupError,
         "there is an account of the name MARIA already"),
        (lambda accounts: accounts.remove("b"), NotHeld, "there is no account of the name b"),
        (lambda accounts: accounts.set_role("b", Role.KEEPER), NotHeld, "there is no account of the name b"),
        (lambda accounts: accounts.set_password("b", "short"), NotHeld, "there is no account of the name b"),
        (lambda accounts: accounts.set_password("maria", "short"), IbiError,
         "a password has at least 12 characters; a few words are good"),
    ],
)  # fmt: skip
def test_each_change_of_an_account_that_cannot_be_is_refused(
    tmp_path: Path, act: Callable[[Accounts], object], kind: type[IbiError], problem: str
) -> None:
    accounts = Accounts(tmp_path)
    before = [accounts.add("maria", Role.KEEPER, PASSWORD, MADE)]
    with pytest.raises(kind) as caught:
        act(accounts)
    assert str(caught.value) == problem
    assert [*accounts.all()] == before


def test_there_are_so_many_accounts_and_no_more(tmp_path: Path) -> None:
    rows = [
        {"name": f"n{number}", "role": "keeper", "hash": "$argon2", "made": MADE} for number in range(999)
    ]
    (tmp_path / "accounts.json").write_text(json.dumps({"version": 1, "accounts": rows}))
    accounts = Accounts(tmp_path)
    accounts.add("x" * 64, Role.KEEPER, PASSWORD, MADE)
    with pytest.raises(SetupError) as caught:
        accounts.add("c", Role.KEEPER, PASSWORD, MADE)
    assert str(caught.value) == "there are 1000 accounts already; remove one first"
    assert len(accounts.all()) == 1000


CHANGES: tuple[Callable[[Any, Callable[[Any], None]], object], ...] = (
    lambda each, check: each.add("b", "keeper", PASSWORD, check=check),
    lambda each, check: each.set_role("maria", "administrator", check=check),
    lambda each, check: each.set_password("maria", f"another {PASSWORD}", check=check),
    lambda each, check: each.remove("maria", check=check),
)


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_checked_with_what_there_is_and_not_done_if_that_fails(
    tmp_path: Path, change: Callable[[Any, Callable[[Any], None]], object]
) -> None:
    accounts = Accounts(tmp_path)
    before = [accounts.add("maria", Role.KEEPER, PASSWORD, MADE)]
    ended: list[str] = []
    manager = AccountManager(accounts, (*Role,), lambda: MADE, ended.append)
    seen: list[Sequence[Account]] = []

    def refuse(known: Sequence[Account]) -> None:
        seen.append([*known])
        raise IbiError("no")

    with pytest.raises(IbiError, match="no"):
        change(manager, refuse)
    assert (seen, [*manager.all()], ended) == ([before], before, [])


def test_a_manager_makes_passwords_and_ends_sessions(tmp_path: Path) -> None:
    ended: list[str] = []
    manager = AccountManager(Accounts(tmp_path), (Role.KEEPER,), lambda: MADE, ended.append)
    account, made = manager.add("Maria", "keeper")
    assert account == Account("Maria", Role.KEEPER, f"$argon2 {made}", MADE)
    assert manager.add("b", "keeper", PASSWORD)[1] == PASSWORD
    assert ended == []
    account, made = manager.set_password("maria")
    assert account.hash == f"$argon2 {made}"
    assert manager.set_password("maria", PASSWORD)[1] == PASSWORD
    assert ended == ["Maria", "Maria"]
    manager.remove("maria")
    assert ended == ["Maria", "Maria", "maria"]
    for act in (lambda: manager.add("c", "administrator"), lambda: manager.set_role("b", "x")):
        with pytest.raises(BadField) as caught:
            act()
        assert (str(caught.value), caught.value.details["name"]) == ("role is one of: keeper", "role")
    AccountManager(Accounts(tmp_path), (*Role,), lambda: MADE).remove("b")


@pytest.mark.parametrize(
    ("role", "scopes"),
    [
        (Role.DEPOSITOR, {Scope.READ, Scope.DEPOSIT}),
        (Role.KEEPER, {Scope.READ, Scope.DEPOSIT, Scope.EDIT, Scope.DELETE, Scope.TRANSFER}),
        (Role.ADMINISTRATOR, {*Scope}),
    ],
)
def test_a_role_permits_its_scopes(role: Role, scopes: set[Scope]) -> None:
    assert {scope for scope in Scope if role.may(scope)} == scopes
    assert set(role.scopes) == (scopes if role is not Role.ADMINISTRATOR else {Scope.ADMIN})
    assert Scope.RESOLVE not in ARCHIVE_SCOPES


@pytest.mark.parametrize(
    ("act", "kind", "problem"),
    [
        (lambda tokens: tokens.make("a b", MADE), ParseError, f"the name of a token {NAMED}"),
        (lambda tokens: tokens.make("t", MADE), SetupError, "there is a token of the name t already"),
        (lambda tokens: tokens.revoke("u"), NotHeld, "there is no token of the name u"),
    ],
)  # fmt: skip
def test_each_change_of_a_token_that_cannot_be_is_refused(
    tmp_path: Path, act: Callable[[Tokens], object], kind: type[IbiError], problem: str
) -> None:
    tokens = Tokens(tmp_path)
    made = tokens.make("t", MADE, [Scope.READ])
    with pytest.raises(kind) as caught:
        act(tokens)
    assert str(caught.value) == problem
    assert [each.name for each in tokens.all()] == ["t"]
    found = tokens.find(made)
    assert found is not None
    assert (found.name, found.made, found.scopes) == ("t", MADE, (Scope.READ,))


def test_a_change_of_tokens_is_checked_with_what_there_is(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.make("t", MADE)
    seen: list[list[str]] = []

    def refuse(known: Sequence[Any]) -> None:
        seen.append([each.name for each in known])
        raise IbiError("no")

    for act in (lambda: tokens.make("u", MADE, check=refuse), lambda: tokens.revoke("t", refuse)):
        with pytest.raises(IbiError, match="no"):
            act()
    assert seen == [["t"], ["t"]]
    assert [each.name for each in tokens.all()] == ["t"]
    Tokens(tmp_path / "new").all()
    with pytest.raises(NotHeld):
        Tokens(tmp_path / "new").revoke("t")
    assert not (tmp_path / "new").exists()


def test_lists_that_cannot_be_read_are_found(tmp_path: Path) -> None:
    assert ([*stored_lists(tmp_path)], [*list_faults(tmp_path)]) == ([], [])
    (tmp_path / "tokens.json").write_text("{")
    assert [path.name for path, _ in stored_lists(tmp_path)] == ["tokens.json"]
    assert len([*list_faults(tmp_path)]) == 1
    (tmp_path / "accounts.json").write_text("{")
    assert [path.name for path, _ in stored_lists(tmp_path)] == ["accounts.json", "tokens.json"]
    assert len([*list_faults(tmp_path)]) == 2
    for _, read in stored_lists(tmp_path):
        with pytest.raises(SetupError):
            read()


def test_a_form_confirms_what_was_named_and_nothing_else() -> None:
    sure, other = ("sure", "yes"), ("confirmed", confirmation("a", "b"))
    Form([sure]).check_confirmed()
    Form([sure, other]).check_confirmed("a", "b")
    again = "this is not what was confirmed: read once more what it is done with, and confirm"
    for fields, named, problem in (
        ([], (), "tick the box to confirm"),
        ([("sure", "no")], (), "tick the box to confirm"),
        ([other], ("a", "b"), "tick the box to confirm"),
        ([sure], ("a",), again),
        ([sure, other], ("b", "a"), again),
    ):
        with pytest.raises(BadField) as caught:
            Form(fields).check_confirmed(*named)
        assert (str(caught.value), caught.value.details["name"]) == (problem, "sure")


def test_a_form_has_its_values_in_order_and_its_problem() -> None:
    form = Form([("a", " b "), ("a", "c"), ("d", "")], problem=OSError("x"))
    assert (form.one("a"), form.one("d"), form.one("e")) == ("b", "", "")
    assert (form.many("a"), form.many("e")) == ([" b ", "c"], [])
    with pytest.raises(OSError, match="x"):
        form.check_stored()
    Form().check_stored()


def test_a_token_permits_its_scopes_and_one_of_an_administrator_everything() -> None:
    permitted = {
        held: {each for each in Scope if Token("robot", "", MADE, (held,)).may(each)} for held in Scope
    }
    assert permitted == {held: set(Scope) if held is Scope.ADMIN else {held} for held in Scope}
    assert not any(Token("robot", "", MADE).may(each) for each in Scope)
