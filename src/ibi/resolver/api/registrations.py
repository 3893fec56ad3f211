"""Archives over HTTP, as administrators decide about them: who has applied, who is registered, who is well.

GET    /-/api/registrations?state=applied        POST {"ibi", "key", "mail", "name", "url_hosts"}: register one
GET    /-/api/registrations/<ibi>                DELETE: forget an Archive
POST   /-/api/registrations/<ibi>/approve | refuse | rotate | allow-move
GET    /-/api/archives                           the included ones, and how this process has found them
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.errors import IbiError
from ibi.exchange import Response
from ibi.identifier.forms import parse_ibi
from ibi.interface.members import Members
from ibi.interface.refusal import Refusal
from ibi.interface.routes import Route, answer, aside, deciding, language_of
from ibi.protocol.query_string import unescape
from ibi.resolver.registrar import application_facts, archive_facts
from ibi.texts import say
from ibi.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ibi.identifier.forms import IBI
    from ibi.interface.routes import Call
    from ibi.resolver.registrar import Registrar
    from ibi.resolver.registry import RegisteredArchive
    from ibi.resolver.status import Status

_STATES: Final = ("applied", "registered")
_NEW: Final = Members({"ibi": str}, {"key": "", "mail": "", "name": "", "url_hosts": []})
_TEXT: Final = {"type": "string"}
_ONE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["service_ibi", "state"],
    "properties": {"service_ibi": _TEXT, "state": {"enum": list(_STATES)}},
}
_LISTED: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["registrations"],
    "properties": {"registrations": {"type": "array", "items": _ONE}},
}
_KEY: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["service_ibi"],
    "properties": {
        "service_ibi": _TEXT,
        "key": {**_TEXT, "description": "told this once; absent where it was given"},
    },
}
_ARCHIVES: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["moment", "archives"],
    "properties": {
        "moment": {"type": "string", "format": "date-time"},
        "archives": {"type": "array", "items": {"type": "object", "required": ["service_ibi", "standing"]}},
    },
}


def routes(registrar: Registrar, look: Callable[[], Awaitable[Status]]) -> tuple[Route, ...]:
    """The table. `look`: how the network stands, as far as this process knows."""
    door = _Door(registrar, look)
    refused = (400, 404, 422)
    decides = (
        ("approve", door.approve, "register an Archive that has applied", _ONE),
        ("refuse", door.refuse, "forget an application", None),
        ("rotate", door.rotate, "give an Archive a new key, told this once", _KEY),
        ("allow-move", door.allow_move, "let an Archive move once", _ONE),
    )
    return (
        Route(
            "GET", "/registrations", Scope.READ, deciding(door.listed), "Archives that are registered, or have applied",
            gives=_LISTED, query={"state": {"enum": list(_STATES)}}, refusals=(422,),
        ),
        Route(
            "POST", "/registrations", Scope.ADMIN, deciding(door.register), "register an Archive", takes=_NEW.schema,
            gives=_KEY, status=201, refusals=(422, 507),
        ),
        Route(
            "GET", "/registrations/<ibi>", Scope.READ, deciding(door.one), "an Archive", gives=_ONE, refusals=refused,
        ),
        Route(
            "DELETE", "/registrations/<ibi>", Scope.ADMIN, deciding(door.remove), "forget an Archive", status=204,
            refusals=(*refused, 507),
        ),
        *(
            Route(
                "POST", f"/registrations/<ibi>/{word}", Scope.ADMIN, deciding(act), summary, gives=gives,
                status=204 if gives is None else 200, refusals=(*refused, 507),
            )
            for word, act, summary, gives in decides
        ),
        Route(
            "GET", "/archives", Scope.READ, door.archives, "the included Archives, and how they are", gives=_ARCHIVES,
        ),
    )  # fmt: skip


class _Door:
    """The functions of the table."""

    def __init__(self, registrar: Registrar, look: Callable[[], Awaitable[Status]]) -> None:
        self._registrar = registrar
        self._look = look

    def listed(self, call: Call, _value: Any) -> Response:
        """All of them, or those in one state."""
        state = call.query.get("state", "")
        if state not in {"", *_STATES}:
            raise Refusal(422, IbiError("{name} is one of: {words}", name="state", words=", ".join(_STATES)))
        known = [*self._registrar.waiting(), *self._registrar.registered()]
        told = [registration(each) for each in known]
        return answer({"registrations": [each for each in told if state in {"", each["state"]}]})

    def one(self, call: Call, _value: Any) -> Response:
        """One of them."""
        return answer(registration(self._registrar.known(_service(call))))

    def register(self, call: Call, value: Any) -> Response:
        """Its key, if it was made here."""
        said = _NEW.read(value)
        service, given = parse_ibi(said["ibi"]), said["key"]
        key = self._registrar.register(
            service, given or None, said["url_hosts"], said["mail"], said["name"], by=_by(call)
        )
        return answer({"service_ibi": str(service)} | ({} if given else {"key": key}), 201)

    def approve(self, call: Call, _value: Any) -> Response:
        """The Archive as it is registered now."""
        self._registrar.approve(_service(call), _by(call))
        return self.one(call, None)

    def refuse(self, call: Call, _value: Any) -> Response:
        """Nothing is to be said."""
        self._registrar.refuse(_service(call), _by(call))
        return Response(204)

    def rotate(self, call: Call, _value: Any) -> Response:
        """The new key."""
        service = _service(call)
        return answer({"service_ibi": str(service), "key": self._registrar.rotate(service, _by(call))})

    def allow_move(self, call: Call, _value: Any) -> Response:
        """The Archive, which may move now."""
        self._registrar.allow_move(_service(call), _by(call))
        return self.one(call, None)

    def remove(self, call: Call, _value: Any) -> Response:
        """Nothing is to be said."""
        self._registrar.unregister(_service(call), _by(call))
        return Response(204)

    async def archives(self, call: Call) -> Response:
        """The included ones: what the registry knows, and how this process has found each."""
        status = await self._look()
        known = {
            str(each.service_ibi): archive_facts(each) for each in await aside(self._registrar.registered)
        }
        told = status.as_dict(lambda text, values: say(text, language_of(call.asked), **values))
        archives = [known.get(each["service_ibi"], {}) | each for each in told["members"]]
        return answer({"moment": told["moment"], "archives": archives})


def registration(archive: RegisteredArchive) -> dict[str, Any]:
    """A registered Archive or an application, with its state."""
    if archive.applied:
        return {"state": "applied", **application_facts(archive)}
    return {"state": "registered", **archive_facts(archive), "may_move": archive.move_allowed}


def _service(call: Call) -> IBI:
    """The IBI at the place <ibi>. Raises ParseError."""
    return parse_ibi(unescape(call.values["ibi"]))


def _by(call: Call) -> str:
    return f"token {call.who}"
