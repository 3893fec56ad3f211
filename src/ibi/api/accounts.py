"""Accounts of people and tokens of programs over HTTP, for programs whose own token is an administrator's.

GET    /-/api/accounts                      POST {"name", "role"}: a new one; the answer has its password
PATCH  /-/api/accounts/<name>  {"role"}     DELETE
POST   /-/api/accounts/<name>/password      another password, this once
GET    /-/api/tokens                        POST {"name", "scopes"}: a new one, which is shown this once
DELETE /-/api/tokens/<name>
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.people import AccountManager, account_facts
from ibi.accounts.tokens import Scope
from ibi.api.bodies import BodyFields, Refusal
from ibi.api.routes import Route, answer, explained
from ibi.errors import IbiError, NotHeld
from ibi.http.response import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.accounts.tokens import Token, Tokens
    from ibi.api.routes import Call

_TEXT: Final = {"type": "string"}
_MOMENT: Final = {"type": "string", "format": "date-time"}


def _row(*others: str, **more: Any) -> dict[str, Any]:
    """The schema of one account or token."""
    properties = {"name": _TEXT, "made": _MOMENT, **more}
    return {"type": "object", "required": [*properties, *others], "properties": properties}


def _listed(name: str, row: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": [name], "properties": {name: {"type": "array", "items": row}}}


def routes(
    people: AccountManager, tokens: Tokens, moment: Callable[[], str], scopes: Sequence[Scope]
) -> tuple[Route, ...]:
    """The routes of both. `scopes`: those that a token of this service may have; `moment` as in AccountManager."""
    return (*_accounts(_Accounts(people)), *_tokens(_Tokens(tokens, moment, scopes)))


def _accounts(acts: _Accounts) -> tuple[Route, ...]:
    role = {"enum": [role.value for role in acts.people.roles]}
    row, made = _row(role=role), _row(role=role, password=_TEXT)
    return (
        Route(
            "GET", "/accounts", Scope.ADMIN, explained(acts.all), "the accounts of people who may sign in",
            gives=_listed("accounts", row),
        ),
        Route(
            "POST", "/accounts", Scope.ADMIN, explained(acts.add), "make an account; its password is told this once",
            takes=_NEW_ACCOUNT.schema, gives=made, status=201, refusals=(422, 507),
        ),
        Route(
            "PATCH", "/accounts/<word>", Scope.ADMIN, explained(acts.set_role), "let an account be for something else",
            takes=_ROLE.schema, gives=row, refusals=(404, 422, 507),
        ),
        Route(
            "POST", "/accounts/<word>/password", Scope.ADMIN, explained(acts.set_password),
            "give an account another password, told this once; its sessions end",
            gives=made, refusals=(404, 422, 507),
        ),
        Route(
            "DELETE", "/accounts/<word>", Scope.ADMIN, explained(acts.remove), "remove an account; its sessions end",
            status=204, refusals=(404, 422, 507),
        ),
    )  # fmt: skip


def _tokens(acts: _Tokens) -> tuple[Route, ...]:
    scopes = {"type": "array", "items": {"enum": [scope.value for scope in acts.scopes]}}
    row = _row(scopes=scopes)
    return (
        Route(
            "GET", "/tokens", Scope.ADMIN, explained(acts.all), "the tokens of programs, none of which is shown",
            gives=_listed("tokens", row),
        ),
        Route(
            "POST", "/tokens", Scope.ADMIN, explained(acts.make), "make a token, which is told this once",
            takes=_NEW_TOKEN.schema, gives=_row(scopes=scopes, token=_TEXT), status=201, refusals=(422, 507),
        ),
        Route(
            "DELETE", "/tokens/<word>", Scope.ADMIN, explained(acts.revoke), "let nobody use a token any more",
            status=204, refusals=(404, 422, 507),
        ),
    )  # fmt: skip


_NEW_ACCOUNT: Final = BodyFields({"name": str, "role": str})
_ROLE: Final = BodyFields({"role": str})
_NEW_TOKEN: Final = BodyFields({"name": str, "scopes": list})


class _Accounts:
    """The functions of the table of accounts."""

    def __init__(self, people: AccountManager) -> None:
        self.people = people

    def all(self, _call: Call, _value: Any) -> Response:
        return answer({"accounts": [account_facts(account) for account in self.people.all()]})

    def add(self, _call: Call, value: Any) -> Response:
        fields = _NEW_ACCOUNT.read(value)
        return self._made(*self.people.add(fields["name"], fields["role"]), 201)

    def set_role(self, call: Call, value: Any) -> Response:
        fields = _ROLE.read(value)
        return answer(account_facts(self.people.set_role(call.word, fields["role"])))

    def set_password(self, call: Call, _value: Any) -> Response:
        return self._made(*self.people.set_password(call.word), 200)

    def remove(self, call: Call, _value: Any) -> Response:
        self.people.remove(call.word)
        return Response(204)

    @staticmethod
    def _made(account: Any, password: str, status: int) -> Response:
        return answer({**account_facts(account), "password": password}, status)


class _Tokens:
    """The functions of the table of tokens."""

    def __init__(self, tokens: Tokens, moment: Callable[[], str], scopes: Sequence[Scope]) -> None:
        self.scopes = scopes
        self._tokens = tokens
        self._moment = moment

    def all(self, _call: Call, _value: Any) -> Response:
        return answer({"tokens": [_token(token) for token in self._tokens.all()]})

    def make(self, _call: Call, value: Any) -> Response:
        fields = _NEW_TOKEN.read(value)
        if not fields["scopes"] or not set(fields["scopes"]) <= set(self.scopes):
            offered = ", ".join(self.scopes)
            raise Refusal(422, IbiError("a scope is one or more of: {scopes}", scopes=offered))
        scopes = [scope for scope in self.scopes if scope in fields["scopes"]]
        made, name = self._moment(), fields["name"]
        token = self._tokens.make(name, made, scopes)
        return answer({"name": name, "made": made, "scopes": scopes, "token": token}, 201)

    def revoke(self, call: Call, _value: Any) -> Response:
        name = call.word
        if not any(token.name == name for token in self._tokens.all()):
            raise NotHeld("there is no token of the name {name}", name=name)
        self._tokens.revoke(name)
        return Response(204)


def _token(token: Token) -> dict[str, Any]:
    return {"name": token.name, "made": token.made, "scopes": list(token.scopes)}
