"""The membership of an Archive over HTTP, and its state. Changes take effect in the running Archive within a second.

GET    /-/api/membership                   how it stands at each of its resolvers
POST   /-/api/membership                   {"resolver", "key", "also"}: join one; the answer has its key, this once
PATCH  /-/api/membership                   {"switched_on"}: take part, or only answer at its own address
DELETE /-/api/membership?resolver=…        leave one

GET /-/api/state     what `ibi archive show` prints: counts, resolvers, hand-overs, copies, the disk
GET /-/api/audit     how far the audit of the stored files is, and the damaged ones
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.bodies import BodyFields, Refusal
from ibi.api.routes import COUNT, TEXT, TRUTH, Route, answer, explained, in_thread, list_of, record
from ibi.archive.membership.founding import register_command
from ibi.archive.membership.joining import Resolvers, key_warnings, root_url
from ibi.archive.preservation.status import MOST_FAULTS, identity, of_audit, of_fault, of_resolvers, sections
from ibi.archive.store.tables import fixity
from ibi.errors import IbiError
from ibi.http.response import Response
from ibi.runtime.settings import settings_lock

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.api.routes import Call
    from ibi.archive.store.tables.catalogue import Catalogue


_JOIN: Final = BodyFields({"resolver": str}, {"key": "", "also": True})
_SWITCH: Final = BodyFields({"switched_on": bool})
_STANDING: Final = record(
    service=TEXT,
    address=TEXT,
    switched_on=TRUTH,
    retired=TRUTH,
    resolvers=list_of(
        {
            "type": "object",
            "properties": dict.fromkeys(("url", "standing", "since", "heard", "problem"), TEXT),
        }
    ),
)
_JOINED: Final = record(resolver=TEXT, service=TEXT, key=TEXT, command=TEXT, warnings=list_of(TEXT))


_STATE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["service", "address", "items", "files", "resolvers", "transfers", "copies", "audit"],
    "properties": {
        "items": {"type": "object", "additionalProperties": COUNT},
        "files": {"type": "object", "properties": dict.fromkeys(("count", "bytes", "free"), COUNT)},
        "audit": {"type": "object"},
    },
}
_FAULT: Final = {
    "type": "object",
    "properties": dict.fromkeys(("ibi", "file", "fault", "found", "good"), TEXT),
}
_AUDIT: Final = record(
    days=COUNT, files=COUNT, faults=COUNT, begun=TEXT, ended=TEXT, damaged=list_of(_FAULT, maxItems=MOST_FAULTS)
)  # fmt: skip


class Membership:
    """The membership and the state of the Archive in a data directory, whose settings are read at each request."""

    def __init__(self, data: Path, catalogue: Catalogue) -> None:
        self._data = data
        self._catalogue = catalogue

    def routes(self) -> tuple[Route, ...]:
        """The routes of both."""
        return (
            Route(
                "GET", "/membership", Scope.ADMIN, explained(self._show), "how the Archive stands at its resolvers",
                gives=_STANDING,
            ),
            Route(
                "POST", "/membership", Scope.ADMIN, explained(self._join), "join a resolver", takes=_JOIN.schema,
                gives=_JOINED, status=201, refusals=(422, 507),
            ),
            Route(
                "PATCH", "/membership", Scope.ADMIN, explained(self._switch), "switch the Archive on or off",
                takes=_SWITCH.schema, gives=_STANDING, refusals=(422, 507),
            ),
            Route(
                "DELETE", "/membership", Scope.ADMIN, explained(self._leave), "leave a resolver", status=204,
                refusals=(422, 507), query={"resolver": TEXT},
            ),
            Route("GET", "/state", Scope.READ, in_thread(self._state), "how the Archive is", gives=_STATE),
            Route(
                "GET", "/audit", Scope.READ, in_thread(self._audit), "what audits of the stored files found",
                gives=_AUDIT,
            ),
        )  # fmt: skip

    def _show(self, call: Call, _value: Any) -> Response:
        return self._standing(Resolvers.read(self._data), call)

    def _join(self, call: Call, value: Any) -> Response:
        """Join a resolver; answer with the key and the command for its administrator."""
        fields = _JOIN.read(value)
        with settings_lock(self._data):
            # Read under the lock: a command may have changed the settings meanwhile.
            before = Resolvers.read(self._data)
            joined = before.joining(fields["resolver"], fields["key"] or None, also=fields["also"])
            joined.write(self._data)
        url = root_url(fields["resolver"])
        key, service = joined.keys[url], joined.settings.service
        facts = {
            "resolver": url,
            "service": str(service.main),
            "key": key,
            "command": register_command(service, key),
            "warnings": [call.say(warning) for warning in key_warnings(url, key)],
        }
        return answer(facts, 201)

    def _switch(self, call: Call, value: Any) -> Response:
        fields = _SWITCH.read(value)
        with settings_lock(self._data):
            switched = Resolvers.read(self._data).switching(on=fields["switched_on"])
            switched.write(self._data)
        return self._standing(switched, call)

    def _leave(self, call: Call, _value: Any) -> Response:
        url = call.query.get("resolver", "")
        if not url:
            raise Refusal(422, IbiError("the field {name} is missing", name="resolver"))
        with settings_lock(self._data):
            Resolvers.read(self._data).leaving(url).write(self._data)
        return Response(204)

    def _standing(self, resolvers: Resolvers, call: Call) -> Response:
        with self._catalogue.reading() as run:
            listed = of_resolvers(run, resolvers, call.say)
        settings = resolvers.settings
        facts = {"service": str(settings.service.main), "address": settings.address,
                "switched_on": settings.switched_on, "retired": settings.retired, "resolvers": listed}  # fmt: skip
        return answer(facts)

    def _state(self, call: Call, _value: Any) -> Response:
        resolvers = Resolvers.read(self._data)
        with self._catalogue.reading() as run:
            count, size = fixity.total(run)
            facts = identity(resolvers.settings) | sections(run, resolvers, call.say)
        files = {"count": count, "bytes": size, "free": shutil.disk_usage(self._data).free}
        return answer(facts | {"files": files})

    def _audit(self, call: Call, _value: Any) -> Response:
        days = Resolvers.read(self._data).settings.audit_days
        with self._catalogue.reading() as run:
            damaged = [of_fault(known) for known in fixity.faults(run, MOST_FAULTS)]
            return answer({"days": days, **of_audit(run, call.say), "damaged": damaged})
