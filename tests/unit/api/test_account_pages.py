"""Accounts and tokens: each operation with its result, and the pages of accounts as values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts.layout import AccountPage, AccountsPage, Form
from ibi.accounts.people import Account, AccountManager, Accounts, Role
from ibi.accounts.sign_in import Authentication, SignedInUser
from ibi.accounts.tokens import Scope, Tokens
from ibi.api import accounts
from ibi.api.account_pages import AccountPages
from ibi.api.accounts import AccountName, ActingOnAccounts, NewToken, RoleFields, TokenName
from ibi.api.fields import NoFields
from ibi.api.operations import etag_of
from ibi.api.routes import Call
from ibi.errors import BadField, Conflict, IbiError, NotHeld
from ibi.http.request import Request
from ibi.http.response import Refusal
from support.acts.visits import visit

PASSWORD, MADE = "seven words of a pass phrase", "2026-11-22T10:00:00Z"
ROLES = (Role.KEEPER, Role.ADMINISTRATOR)
SCOPES = (Scope.READ, Scope.EDIT, Scope.ADMIN)


class Service:
    """A service with two accounts; `ended`: those whose sessions were ended."""

    def __init__(self, folder: Path) -> None:
        self.ended: list[str] = []
        self.authentication = Authentication(folder, "x", lambda: 1_700_000_000.0)
        self.people = AccountManager(self.authentication.accounts, ROLES, lambda: MADE, self.ended.append)
        self.tokens = Tokens(folder)
        self.acting = ActingOnAccounts(self.people, self.tokens, lambda: MADE, SCOPES)
        for name, role in (("root", Role.ADMINISTRATOR), ("Ada", Role.KEEPER)):
            self.authentication.accounts.add(name, role, PASSWORD, MADE)
        self.handlers = AccountPages(
            self.authentication, self.people, self.acting.for_administrator
        ).handlers()

    @property
    def context(self) -> Any:
        return self.acting.for_administrator(visit())

    @property
    def known(self) -> list[tuple[str, Role]]:
        return [(each.name, each.role) for each in self.people.all()]

    def show(self, word: str, typed: Form | None = None) -> Any:
        return self.handlers[word].show(visit(), typed)

    def send(self, word: str, **fields: str) -> Any:
        return self.handlers[word].do(visit(), Form([*fields.items()]))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path)
    yield made
    made.authentication.close()


def refused(error: type[Exception], act: Any, *words: Any, **named: Any) -> str:
    with pytest.raises(error) as caught:
        act(*words, **named)
    return str(caught.value)


ROOT = {"name": "root", "role": "administrator", "made": MADE}
ADA = {"name": "Ada", "role": "keeper", "made": MADE}


def test_accounts_are_listed_made_changed_and_removed(service: Service) -> None:
    assert accounts.accounts(service.context, NoFields()) == {"accounts": [ROOT, ADA]}
    made = accounts.add_account(service.context, RoleFields(name="bob", role="keeper"))
    assert made == {"name": "bob", "role": "keeper", "made": MADE, "password": made["password"]}
    assert service.people.set_role("bob", "administrator") is not None
    assert accounts.set_role(service.context, RoleFields(name="BOB", role="keeper")) == {
        "name": "bob", "role": "keeper", "made": MADE,
    }  # fmt: skip
    other = accounts.set_password(service.context, AccountName(name="bob"))
    assert other == {"name": "bob", "role": "keeper", "made": MADE, "password": other["password"]}
    assert other["password"] != made["password"]
    typed = service.context
    typed.password = f"another {PASSWORD}"
    assert accounts.set_password(typed, AccountName(name="bob")) == {
        "name": "bob",
        "role": "keeper",
        "made": MADE,
    }
    assert accounts.add_account(typed, RoleFields(name="zoe", role="keeper")) == {
        "name": "zoe", "role": "keeper", "made": MADE,
    }  # fmt: skip
    accounts.remove_account(service.context, AccountName(name="bob"))
    assert service.known == [("root", Role.ADMINISTRATOR), ("Ada", Role.KEEPER), ("zoe", Role.KEEPER)]
    assert service.ended == ["bob", "bob", "bob"]
    assert refused(
        BadField, accounts.set_role, service.context, RoleFields(name="Ada", role="depositor")
    ) == ("role is one of: keeper, administrator")
    assert refused(NotHeld, accounts.remove_account, service.context, AccountName(name="bob")) == (
        "there is no account of the name bob"
    )


@pytest.mark.parametrize(
    "act",
    [
        lambda context: accounts.add_account(context, RoleFields(name="bob", role="keeper")),
        lambda context: accounts.set_role(context, RoleFields(name="Ada", role="administrator")),
        lambda context: accounts.set_password(context, AccountName(name="Ada")),
        lambda context: accounts.remove_account(context, AccountName(name="Ada")),
    ],
)
def test_accounts_are_changed_as_they_were_seen(service: Service, act: Any) -> None:
    context, before = service.context, service.people.all()
    context.if_match = etag_of({"accounts": [ROOT]})
    with pytest.raises(Conflict):
        act(context)
    assert service.people.all() == before
    context.if_match = etag_of({"accounts": [ROOT, ADA]})
    act(context)
    assert service.people.all() != before


def test_tokens_are_listed_made_and_revoked(service: Service) -> None:
    made = accounts.make_token(service.context, NewToken(name="t", scopes=("admin", "read")))
    assert made == {"name": "t", "made": MADE, "scopes": ["read", "admin"], "token": made["token"]}
    token = service.tokens.bearer(f"Bearer {made['token']}")
    assert token is not None
    assert (token.name, token.scopes) == ("t", (Scope.READ, Scope.ADMIN))
    listed = {"tokens": [{"name": "t", "made": MADE, "scopes": ["read", "admin"]}]}
    assert accounts.tokens(service.context, NoFields()) == listed
    offered = "a scope is one or more of: read, edit, admin"
    for scopes in ((), ("read", "resolve")):
        assert (
            refused(BadField, accounts.make_token, service.context, NewToken(name="u", scopes=scopes))
            == offered
        )
    without = service.context
    without.scopes = ()
    assert refused(BadField, accounts.make_token, without, NewToken(name="u", scopes=("read",))) == (
        "a scope is one or more of: "
    )
    context = service.context
    context.if_match = '"x"'
    for act in (
        lambda: accounts.make_token(context, NewToken(name="v", scopes=("read",))),
        lambda: accounts.revoke_token(context, TokenName(name="t")),
    ):
        with pytest.raises(Conflict):
            act()
    context.if_match = etag_of(listed)
    accounts.make_token(context, NewToken(name="v", scopes=("read",)))
    context.if_match = etag_of(accounts.tokens(context, NoFields()))
    accounts.revoke_token(context, TokenName(name="t"))
    assert [each.name for each in service.tokens.all()] == ["v"]


def test_who_acts_is_the_account_or_the_token(service: Service) -> None:
    request = Request("GET", "/", "", {b"accept-language": b"pt-BR"})
    token = service.tokens.bearer(f"Bearer {service.tokens.make('t', MADE, SCOPES)}")
    context = service.acting.for_program(Call(request, None, token, {}))  # type: ignore[arg-type]  # no body is read
    assert (context.who, context.say("there is no such page here")) == ("t", "esta página não existe aqui")
    assert (service.context.who, service.context.scopes, service.context.password) == ("root", SCOPES, "")


def test_the_page_shows_all_accounts_and_after_a_fault_what_was_typed(service: Service) -> None:
    every: Any = service.people.all()
    assert service.show("accounts") == AccountsPage(every, ROLES)
    assert service.show(
        "accounts", Form([("what", "add"), ("name", "x y"), ("role", "keeper")])
    ) == AccountsPage(every, ROLES, name="x y", role="keeper")
    typed = Form([("what", "remove"), ("name", "Ada"), ("role", "keeper")])
    assert service.show("accounts", typed) == AccountsPage(every, ROLES, unconfirmed=("remove", "Ada"))
    assert isinstance(service.show("account"), AccountPage)
    assert {word: each.scope for word, each in service.handlers.items()} == {
        "accounts": Scope.ADMIN, "account": Scope.READ,
    }  # fmt: skip


def test_each_form_of_the_page_does_what_it_says(service: Service) -> None:
    page = service.send("accounts", what="add", name="bob", role="keeper")
    assert page == AccountsPage(service.people.all(), ROLES, made=("bob", page.made[1]))
    assert len(page.made[1]) == 29
    again = service.send("accounts", what="password", name="bob", sure="yes")
    assert again == AccountsPage(service.people.all(), ROLES, made=("bob", again.made[1]))
    assert (
        service.send("accounts", what="role", name="bob", role="administrator")
        == "/-/admin/accounts?done=role"
    )
    assert service.known[2:] == [("bob", Role.ADMINISTRATOR)]
    for what in ("remove", "password"):
        assert refused(BadField, service.send, "accounts", what=what, name="bob") == "tick the box to confirm"
    leads = service.send("accounts", what="remove", name="bob", sure="yes")
    assert leads == "/-/admin/accounts?done=removed-account"
    assert service.known[2:] == []
    assert refused(IbiError, service.send, "accounts", what="remove", name="ROOT", sure="yes") == (
        "you cannot remove the account that you are signed in with"
    )
    assert refused(IbiError, service.send, "accounts", what="role", name="Root", role="keeper") == (
        "you cannot change the role of the account that you are signed in with"
    )


def test_a_user_sets_another_password_and_all_sessions_end(service: Service) -> None:
    account = service.authentication.accounts.find("root")
    assert account is not None
    sessions = [service.authentication.sessions.start("root", account.stamp) for _ in range(2)]
    new = f"another {PASSWORD}"

    def sent(now: str, again: str = new) -> Any:
        return service.send("account", password=now, new_password=new, again_password=again)

    assert refused(IbiError, sent, PASSWORD, "other") == "the two passwords differ; nothing was changed"
    assert refused(Refusal, sent, "wrong") == "this is not your current password"
    assert service.authentication.accounts.find("root") == account
    assert sent(PASSWORD) == "/-/admin/sign-in?done=password"
    assert [service.authentication.sessions.find(each) for each in sessions] == [None, None]
    signed = SignedInUser("root", Role.ADMINISTRATOR, "token", "session")
    service.authentication.check_password(signed, new)


def test_accounts_are_found_in_any_case(tmp_path: Path) -> None:
    known = Accounts(tmp_path)
    made = known.add("Ada", Role.KEEPER, PASSWORD, MADE)
    assert (known.find("ADA"), known.find("x")) == (made, None)
    assert isinstance(made, Account)
