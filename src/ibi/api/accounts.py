"""Operations on the accounts of people and the tokens of programs, for callers with the scope `admin`.

A generated password, or a new token, is in the result of its operation and never shown again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.fields import Fields, NoFields, field
from ibi.api.operations import Operation, OperationContext
from ibi.api.routes import MOMENT, TEXT, list_of, record, say_to
from ibi.errors import BadField

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.accounts.layout import PageRequest
    from ibi.accounts.people import Account, AccountManager
    from ibi.accounts.tokens import Token, Tokens
    from ibi.api.routes import Call
    from ibi.http.request import Request


@dataclass(slots=True, kw_only=True)
class AccountContext(OperationContext):
    """The context of these operations: `people` and `tokens` to act on, `moment` as in AccountManager.

    `scopes`: the scopes that a token of this service may have; `password`: typed at a terminal, or "" to
    generate one.
    """

    people: AccountManager
    tokens: Tokens
    moment: Callable[[], str]
    scopes: Sequence[Scope]
    password: str = ""


class AccountName(Fields, frozen=True):
    """One account."""

    name: Annotated[
        str, field("its name: letters, digits, dots, hyphens and underlines", "name NAME", longest=64)
    ]


class RoleFields(AccountName, frozen=True):
    """An account and its role."""

    role: Annotated[str, field("its role", "--role", longest=64)]


class TokenName(Fields, frozen=True):
    """One token."""

    name: Annotated[str, field("the name of the token", "name NAME", longest=64)]


class NewToken(TokenName, frozen=True):
    """A new token and its scopes."""

    scopes: Annotated[tuple[str, ...], field("what it permits", "--scope SCOPES", commas=True)]


def accounts(context: AccountContext, _fields: NoFields) -> dict[str, Any]:
    """Return the accounts of people who may sign in. Raises SetupError."""
    return _accounts(context.people.all())


def add_account(context: AccountContext, fields: RoleFields) -> dict[str, Any]:
    """Make an account; a generated password is in the result. Raises IbiError."""
    made = context.people.add(fields.name, fields.role, context.password, check=_unchanged_accounts(context))
    return _with_password(context, *made)


def set_role(context: AccountContext, fields: RoleFields) -> dict[str, Any]:
    """Change the role of an account. Raises NotHeld, IbiError."""
    return account_facts(context.people.set_role(fields.name, fields.role, _unchanged_accounts(context)))


def set_password(context: AccountContext, fields: AccountName) -> dict[str, Any]:
    """Give an account another password, and return a generated one. Its sessions end. Raises NotHeld."""
    check = _unchanged_accounts(context)
    return _with_password(context, *context.people.set_password(fields.name, context.password, check=check))


def _with_password(context: AccountContext, account: Account, password: str) -> dict[str, Any]:
    return account_facts(account) | ({} if context.password else {"password": password})


def account_facts(account: Account) -> dict[str, Any]:
    """Return an account as JSON members, without its password."""
    return {"name": account.name, "role": account.role.value, "made": account.made}


def remove_account(context: AccountContext, fields: AccountName) -> None:
    """Remove an account; its sessions end. Raises NotHeld."""
    context.people.remove(fields.name, _unchanged_accounts(context))


def tokens(context: AccountContext, _fields: NoFields) -> dict[str, Any]:
    """Return the names, dates and scopes of the tokens of programs, not the tokens. Raises SetupError."""
    return _tokens(context.tokens.all())


def make_token(context: AccountContext, fields: NewToken) -> dict[str, Any]:
    """Make a token, and return it. Raises BadField, ParseError, SetupError."""
    if bool(fields.scopes) != bool(context.scopes) or not set(fields.scopes) <= set(context.scopes):
        offered = ", ".join(context.scopes)
        raise BadField("a scope is one or more of: {scopes}", scopes=offered, name="scopes")
    scopes = [scope for scope in context.scopes if scope in fields.scopes]
    made = context.moment()
    token = context.tokens.make(fields.name, made, scopes, _unchanged_tokens(context))
    return {"name": fields.name, "made": made, "scopes": scopes, "token": token}


def revoke_token(context: AccountContext, fields: TokenName) -> None:
    """Revoke a token. Raises NotHeld, Conflict."""
    context.tokens.revoke(fields.name, _unchanged_tokens(context))


def _accounts(known: Sequence[Account]) -> dict[str, Any]:
    return {"accounts": [account_facts(account) for account in known]}


def _tokens(known: Sequence[Token]) -> dict[str, Any]:
    rows = [{"name": token.name, "made": token.made, "scopes": list(token.scopes)} for token in known]
    return {"tokens": rows}


def _unchanged_accounts(context: AccountContext) -> Callable[[Sequence[Account]], None]:
    """Return the check that the accounts match If-Match; it must be called under the lock of the change."""
    return lambda known: context.check_match(_accounts(known))


def _unchanged_tokens(context: AccountContext) -> Callable[[Sequence[Token]], None]:
    return lambda known: context.check_match(_tokens(known))


_ACCOUNT: Final = record(name=TEXT, made=MOMENT, role=TEXT)
_WITH_PASSWORD: Final = record(name=TEXT, made=MOMENT, role=TEXT, password=TEXT)
_TOKEN: Final = record(name=TEXT, made=MOMENT, scopes=list_of(TEXT))
_NEW_TOKEN: Final = record(name=TEXT, made=MOMENT, scopes=list_of(TEXT), token=TEXT)

ACCOUNTS: Final[tuple[Operation[AccountContext, Any], ...]] = (
    Operation(
        "add-account", "make an account; a generated password is shown only this once", Scope.ADMIN, RoleFields,
        add_account, "POST /accounts", gives=_WITH_PASSWORD, page="accounts", command="account add", status=201,
        shown_once="password",
    ),
    Operation(
        "accounts", "the accounts of people who may sign in", Scope.ADMIN, NoFields, accounts, "GET /accounts",
        gives=record(accounts=list_of(_ACCOUNT)), page="accounts", command="account list",
    ),
    Operation(
        "remove-account", "remove an account; its sessions end", Scope.ADMIN, AccountName, remove_account,
        "DELETE /accounts/<word>", place="name", page="accounts", command="account remove",
    ),
    Operation(
        "set-password",
        "give an account another password; its sessions end, and a generated password is shown only this once",
        Scope.ADMIN, AccountName, set_password, "POST /accounts/<word>/password", place="name", gives=_WITH_PASSWORD,
        page="accounts", command="account password", shown_once="password",
    ),
    Operation(
        "set-role", "change the role of an account", Scope.ADMIN, RoleFields, set_role, "PATCH /accounts/<word>",
        place="name", gives=_ACCOUNT, page="accounts", command="account role",
    ),
)  # fmt: skip

MAKE_TOKEN: Final = Operation(
    "make-token", "make a token, shown only this once", Scope.ADMIN, NewToken, make_token, "POST /tokens",
    gives=_NEW_TOKEN, page="tokens", command="token", status=201, shown_once="token",
)  # fmt: skip
LIST_TOKENS: Final = Operation(
    "tokens", "the tokens of programs, none of which is shown", Scope.ADMIN, NoFields, tokens, "GET /tokens",
    gives=record(tokens=list_of(_TOKEN)), page="tokens", command="token",
)  # fmt: skip
REVOKE_TOKEN: Final = Operation(
    "revoke-token", "revoke a token", Scope.ADMIN, TokenName, revoke_token, "DELETE /tokens/<word>", place="name",
    page="tokens", command="token",
    warning="the program can do nothing here any more with this token",
)  # fmt: skip
TOKENS: Final[tuple[Operation[AccountContext, Any], ...]] = (LIST_TOKENS, MAKE_TOKEN, REVOKE_TOKEN)

OPERATIONS: Final = (*ACCOUNTS, *TOKENS)


@dataclass(frozen=True, slots=True)
class ActingOnAccounts:
    """Makes the contexts in which administrators and programs act on the accounts and tokens of a service."""

    people: AccountManager
    tokens: Tokens
    moment: Callable[[], str]
    scopes: Sequence[Scope]

    def for_program(self, call: Call) -> AccountContext:
        """Return the context of a request with a token."""
        return self._context(call.token_name, call.request)

    def for_administrator(self, visit: PageRequest) -> AccountContext:
        """Return the context of a form."""
        return self._context(visit.signed.name, visit.request)

    def _context(self, who: str, request: Request) -> AccountContext:
        return AccountContext(
            who=who, say=partial(say_to, request), people=self.people, tokens=self.tokens, moment=self.moment,
            scopes=self.scopes,
        )  # fmt: skip
