"""Accounts of people and tokens of programs over HTTP, for programs whose own token is an administrator's.

A password that is made and a new token are in one answer, and never again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.people import Account, AccountManager, account_facts
from ibi.accounts.tokens import Scope
from ibi.api.bodies import BodyFields
from ibi.api.routes import MOMENT, TEXT, Route, answer, explained, list_of, record
from ibi.errors import IbiError, NotHeld
from ibi.http.response import Refusal, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.accounts.tokens import Tokens
    from ibi.api.routes import Call, Schema

_NEW_ACCOUNT: Final = BodyFields({"name": str, "role": str})
_ROLE: Final = BodyFields({"role": str})
_NEW_TOKEN: Final = BodyFields({"name": str, "scopes": list})


class AccountRoutes:
    """What administrators' programs may do with accounts and tokens.

    `scopes`: those that a token of this service may have; `moment` as in AccountManager.
    """

    def __init__(
        self, people: AccountManager, tokens: Tokens, moment: Callable[[], str], scopes: Sequence[Scope]
    ) -> None:
        self._people = people
        self._tokens = tokens
        self._moment = moment
        self._scopes = scopes

    def routes(self) -> tuple[Route, ...]:
        """The routes of both."""
        named: dict[str, Schema] = {"name": TEXT, "made": MOMENT}
        account = {**named, "role": {"enum": [role.value for role in self._people.roles]}}
        token = {**named, "scopes": list_of({"enum": [scope.value for scope in self._scopes]})}
        with_password = record(**account, password=TEXT)
        one, new = (404, 422, 507), (422, 507)
        return (
            _route(
                "GET", "/accounts", self._all_accounts, "the accounts of people who may sign in",
                gives=record(accounts=list_of(record(**account))),
            ),
            _route(
                "POST", "/accounts", self._add, "make an account; its password is told this once",
                takes=_NEW_ACCOUNT.schema, gives=with_password, status=201, refusals=new,
            ),
            _route(
                "PATCH", "/accounts/<word>", self._set_role, "let an account be for something else",
                takes=_ROLE.schema, gives=record(**account), refusals=one,
            ),
            _route(
                "POST", "/accounts/<word>/password", self._set_password,
                "give an account another password, told this once; its sessions end", gives=with_password, refusals=one,
            ),
            _route("DELETE", "/accounts/<word>", self._remove, "remove an account; its sessions end", refusals=one),
            _route(
                "GET", "/tokens", self._all_tokens, "the tokens of programs, none of which is shown",
                gives=record(tokens=list_of(record(**token))),
            ),
            _route(
                "POST", "/tokens", self._make, "make a token, which is told this once",
                takes=_NEW_TOKEN.schema, gives=record(**token, token=TEXT), status=201, refusals=new,
            ),
            _route("DELETE", "/tokens/<word>", self._revoke, "revoke a token", refusals=one),
        )  # fmt: skip

    def _all_accounts(self, _call: Call, _value: Any) -> Response:
        return answer({"accounts": [account_facts(account) for account in self._people.all()]})

    def _add(self, _call: Call, value: Any) -> Response:
        fields = _NEW_ACCOUNT.read(value)
        return _with_password(*self._people.add(fields["name"], fields["role"]), 201)

    def _set_role(self, call: Call, value: Any) -> Response:
        return answer(account_facts(self._people.set_role(call.word, _ROLE.read(value)["role"])))

    def _set_password(self, call: Call, _value: Any) -> Response:
        return _with_password(*self._people.set_password(call.word), 200)

    def _remove(self, call: Call, _value: Any) -> Response:
        self._people.remove(call.word)
        return Response(204)

    def _all_tokens(self, _call: Call, _value: Any) -> Response:
        rows = [
            {"name": token.name, "made": token.made, "scopes": list(token.scopes)}
            for token in self._tokens.all()
        ]
        return answer({"tokens": rows})

    def _make(self, _call: Call, value: Any) -> Response:
        fields = _NEW_TOKEN.read(value)
        if not fields["scopes"] or not set(fields["scopes"]) <= set(self._scopes):
            offered = ", ".join(self._scopes)
            raise Refusal(422, IbiError("a scope is one or more of: {scopes}", scopes=offered))
        scopes = [scope for scope in self._scopes if scope in fields["scopes"]]
        made, name = self._moment(), fields["name"]
        token = self._tokens.make(name, made, scopes)
        return answer({"name": name, "made": made, "scopes": scopes, "token": token}, 201)

    def _revoke(self, call: Call, _value: Any) -> Response:
        name = call.word
        if not any(token.name == name for token in self._tokens.all()):
            raise NotHeld("there is no token of the name {name}", name=name)
        self._tokens.revoke(name)
        return Response(204)


def _with_password(account: Account, password: str, status: int) -> Response:
    return answer({**account_facts(account), "password": password}, status)


def _route(
    method: str, pattern: str, act: Callable[[Call, Any], Response], summary: str, **more: Any
) -> Route:
    status = 204 if method == "DELETE" else 200
    return Route(method, pattern, Scope.ADMIN, explained(act), summary, **{"status": status, **more})
