"""Accounts of people and tokens of programs over HTTP, for programs whose own token is an administrator's.

GET    /-/api/accounts                      POST {"name", "role"}: a new one; the answer has its password
PATCH  /-/api/accounts/<name>  {"role"}     DELETE
POST   /-/api/accounts/<name>/password      another password, this once
GET    /-/api/tokens                        POST {"name", "scopes"}: a new one, which is shown this once
DELETE /-/api/tokens/<name>
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.people import Account, AccountManager, account_facts
from ibi.accounts.tokens import Scope
from ibi.api.bodies import BodyFields, Refusal
from ibi.api.routes import MOMENT, TEXT, Route, answer, explained, list_of, record
from ibi.errors import IbiError, NotHeld
from ibi.http.response import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.accounts.tokens import Tokens
    from ibi.api.routes import Call, Schema

_NEW_ACCOUNT: Final = BodyFields({"name": str, "role": str})
_ROLE: Final = BodyFields({"role": str})
_NEW_TOKEN: Final = BodyFields({"name": str, "scopes": list})


def routes(
    people: AccountManager, tokens: Tokens, moment: Callable[[], str], scopes: Sequence[Scope]
) -> tuple[Route, ...]:
    """The routes of both. `scopes`: those that a token of this service may have; `moment` as in AccountManager."""
    acts = _Acts(people, tokens, moment, scopes)
    account: dict[str, Schema] = {
        "name": TEXT,
        "made": MOMENT,
        "role": {"enum": [role.value for role in people.roles]},
    }
    token: dict[str, Schema] = {
        "name": TEXT,
        "made": MOMENT,
        "scopes": list_of({"enum": [scope.value for scope in scopes]}),
    }
    with_password = record(**account, password=TEXT)
    one, new = (404, 422, 507), (422, 507)
    return (
        _route(
            "GET", "/accounts", acts.accounts, "the accounts of people who may sign in",
            gives=record(accounts=list_of(record(**account))),
        ),
        _route(
            "POST", "/accounts", acts.add, "make an account; its password is told this once",
            takes=_NEW_ACCOUNT.schema, gives=with_password, status=201, refusals=new,
        ),
        _route(
            "PATCH", "/accounts/<word>", acts.set_role, "let an account be for something else",
            takes=_ROLE.schema, gives=record(**account), refusals=one,
        ),
        _route(
            "POST", "/accounts/<word>/password", acts.set_password,
            "give an account another password, told this once; its sessions end", gives=with_password, refusals=one,
        ),
        _route("DELETE", "/accounts/<word>", acts.remove, "remove an account; its sessions end", refusals=one),
        _route(
            "GET", "/tokens", acts.tokens, "the tokens of programs, none of which is shown",
            gives=record(tokens=list_of(record(**token))),
        ),
        _route(
            "POST", "/tokens", acts.make, "make a token, which is told this once",
            takes=_NEW_TOKEN.schema, gives=record(**token, token=TEXT), status=201, refusals=new,
        ),
        _route("DELETE", "/tokens/<word>", acts.revoke, "let nobody use a token any more", refusals=one),
    )  # fmt: skip


def _route(
    method: str, pattern: str, act: Callable[[Call, Any], Response], summary: str, **more: Any
) -> Route:
    status = 204 if method == "DELETE" else 200
    return Route(method, pattern, Scope.ADMIN, explained(act), summary, **{"status": status, **more})


class _Acts:
    """The acts of the routes."""

    def __init__(
        self, people: AccountManager, tokens: Tokens, moment: Callable[[], str], scopes: Sequence[Scope]
    ) -> None:
        self._people = people
        self._tokens = tokens
        self._moment = moment
        self._scopes = scopes

    def accounts(self, _call: Call, _value: Any) -> Response:
        return answer({"accounts": [account_facts(account) for account in self._people.all()]})

    def add(self, _call: Call, value: Any) -> Response:
        fields = _NEW_ACCOUNT.read(value)
        return _with_password(*self._people.add(fields["name"], fields["role"]), 201)

    def set_role(self, call: Call, value: Any) -> Response:
        return answer(account_facts(self._people.set_role(call.word, _ROLE.read(value)["role"])))

    def set_password(self, call: Call, _value: Any) -> Response:
        return _with_password(*self._people.set_password(call.word), 200)

    def remove(self, call: Call, _value: Any) -> Response:
        self._people.remove(call.word)
        return Response(204)

    def tokens(self, _call: Call, _value: Any) -> Response:
        rows = [
            {"name": token.name, "made": token.made, "scopes": list(token.scopes)}
            for token in self._tokens.all()
        ]
        return answer({"tokens": rows})

    def make(self, _call: Call, value: Any) -> Response:
        fields = _NEW_TOKEN.read(value)
        if not fields["scopes"] or not set(fields["scopes"]) <= set(self._scopes):
            offered = ", ".join(self._scopes)
            raise Refusal(422, IbiError("a scope is one or more of: {scopes}", scopes=offered))
        scopes = [scope for scope in self._scopes if scope in fields["scopes"]]
        made, name = self._moment(), fields["name"]
        token = self._tokens.make(name, made, scopes)
        return answer({"name": name, "made": made, "scopes": scopes, "token": token}, 201)

    def revoke(self, call: Call, _value: Any) -> Response:
        name = call.word
        if not any(token.name == name for token in self._tokens.all()):
            raise NotHeld("there is no token of the name {name}", name=name)
        self._tokens.revoke(name)
        return Response(204)


def _with_password(account: Account, password: str, status: int) -> Response:
    return answer({**account_facts(account), "password": password}, status)
