"""The place of an Archive in networks, over HTTP; what is decided counts for the running Archive within a second.

GET    /-/api/membership                   how it stands at each of its resolvers
POST   /-/api/membership                   {"resolver", "key", "also"}: join one; its key is told this once
PATCH  /-/api/membership                   {"switched_on"}: take part, or only answer at its own address
DELETE /-/api/membership?resolver=…        leave one
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.archive.care.standing import of_resolvers
from ibi.archive.networking.founding import register_command
from ibi.archive.networking.joining import Resolvers, key_warnings, root
from ibi.errors import IbiError
from ibi.exchange import Response
from ibi.interface.members import Members
from ibi.interface.refusal import Refusal
from ibi.interface.routes import Route, answer, deciding
from ibi.settings import changing
from ibi.tokens import Scope

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.archive.catalogue import Catalogue
    from ibi.interface.routes import Call

_JOIN: Final = Members({"resolver": str}, {"key": "", "also": True})
_SWITCH: Final = Members({"switched_on": bool})
_TEXT: Final = {"type": "string"}
_TRUTH: Final = {"type": "boolean"}
_STANDING: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["service", "address", "switched_on", "retired", "resolvers"],
    "properties": {
        **dict.fromkeys(("service", "address"), _TEXT),
        **dict.fromkeys(("switched_on", "retired"), _TRUTH),
        "resolvers": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": dict.fromkeys(("url", "standing", "since", "heard", "problem"), _TEXT),
            },
        },
    },
}
_JOINED: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["resolver", "service", "key", "command", "warnings"],
    "properties": {
        **dict.fromkeys(("resolver", "service", "key", "command"), _TEXT),
        "warnings": {"type": "array", "items": _TEXT},
    },
}


def routes(data: Path, catalogue: Catalogue) -> tuple[Route, ...]:
    """The table of membership."""
    door = _Door(data, catalogue)
    return (
        Route(
            "GET", "/membership", Scope.ADMIN, deciding(door.tell), "how the Archive stands at its resolvers",
            gives=_STANDING,
        ),
        Route(
            "POST", "/membership", Scope.ADMIN, deciding(door.join), "join a resolver", takes=_JOIN.schema,
            gives=_JOINED, status=201, refusals=(422, 507),
        ),
        Route(
            "PATCH", "/membership", Scope.ADMIN, deciding(door.switch), "switch the Archive on or off",
            takes=_SWITCH.schema, gives=_STANDING, refusals=(422, 507),
        ),
        Route(
            "DELETE", "/membership", Scope.ADMIN, deciding(door.leave), "leave a resolver", status=204,
            refusals=(422, 507), query={"resolver": _TEXT},
        ),
    )  # fmt: skip


class _Door:
    """The functions of the table."""

    def __init__(self, data: Path, catalogue: Catalogue) -> None:
        self._data = data
        self._catalogue = catalogue

    def tell(self, call: Call, _value: Any) -> Response:
        """How it stands."""
        return self._told(Resolvers.read(self._data), call)

    def join(self, call: Call, value: Any) -> Response:
        """What whoever runs the resolver needs to know."""
        said = _JOIN.read(value)
        with changing(self._data):
            before = Resolvers.read(self._data)
            joined = before.joining(said["resolver"], said["key"] or None, also=said["also"])
            joined.write(self._data)
        url = root(said["resolver"])
        key, service = joined.keys[url], joined.settings.service
        command = register_command(service, key)
        warnings = [call.say(warning) for warning in key_warnings(url, key)]
        told = {
            "resolver": url,
            "service": str(service.main),
            "key": key,
            "command": command,
            "warnings": warnings,
        }
        return answer(told, 201)

    def switch(self, call: Call, value: Any) -> Response:
        """How it stands then."""
        said = _SWITCH.read(value)
        with changing(self._data):
            switched = Resolvers.read(self._data).switching(on=said["switched_on"])
            switched.write(self._data)
        return self._told(switched, call)

    def leave(self, call: Call, _value: Any) -> Response:
        """Nothing is to be said."""
        url = call.query.get("resolver", "")
        if not url:
            raise Refusal(422, IbiError("the field {name} is missing", name="resolver"))
        with changing(self._data):
            Resolvers.read(self._data).leaving(url).write(self._data)
        return Response(204)

    def _told(self, resolvers: Resolvers, call: Call) -> Response:
        with self._catalogue.reading() as run:
            listed = of_resolvers(run, resolvers, call.say)
        settings = resolvers.settings
        told = {"service": str(settings.service.main), "address": settings.address,
                "switched_on": settings.switched_on, "retired": settings.retired, "resolvers": listed}  # fmt: skip
        return answer(told)
