"""The membership of an Archive over HTTP and for pages, and its state.

Changes take effect in the running Archive within a second.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.accounts.tokens import Scope
from ibi.api.bodies import BodyFields
from ibi.api.routes import COUNT, TEXT, TRUTH, Route, answer, explained, in_thread, list_of, record
from ibi.archive.membership.founding import register_command
from ibi.archive.membership.joining import Resolvers, key_warnings, root_url
from ibi.archive.preservation.status import MOST_FAULTS, identity, of_audit, of_fault, of_resolvers, sections
from ibi.archive.store.tables import fixity
from ibi.errors import IbiError
from ibi.http.response import Refusal, Response
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


class JoinedResolver(NamedTuple):
    """The URL of a resolver that was joined, the key for it, and the command for its administrator."""

    resolver: str
    service: str
    key: str
    command: str


class Membership:
    """The membership and the state of the Archive in a data directory, whose settings are read at each request."""

    def __init__(self, data: Path, catalogue: Catalogue) -> None:
        self.data = data
        self.catalogue = catalogue

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

    def join(self, url: str, key: str, *, also: bool) -> JoinedResolver:
        """Join a resolver, beside the present ones if `also`; without a key one is made. Raises SetupError."""
        with settings_lock(self.data):
            # Read under the lock: a command may have changed the settings meanwhile.
            joined = Resolvers.read(self.data).joining(url, key or None, also=also)
            joined.write(self.data)
        root, service = root_url(url), joined.settings.service
        key = joined.keys[root]
        return JoinedResolver(root, str(service.main), key, register_command(service, key))

    def switch(self, *, on: bool) -> Resolvers:
        """Take part, or only answer at its own address. Raises SetupError."""
        with settings_lock(self.data):
            switched = Resolvers.read(self.data).switching(on=on)
            switched.write(self.data)
        return switched

    def leave(self, url: str) -> None:
        """Leave a resolver. Raises SetupError."""
        with settings_lock(self.data):
            Resolvers.read(self.data).leaving(url).write(self.data)

    def _show(self, call: Call, _value: Any) -> Response:
        return self._standing(Resolvers.read(self.data), call)

    def _join(self, call: Call, value: Any) -> Response:
        fields = _JOIN.read(value)
        joined = self.join(fields["resolver"], fields["key"], also=fields["also"])
        warnings = [call.say(warning) for warning in key_warnings(joined.resolver, joined.key)]
        return answer({**joined._asdict(), "warnings": warnings}, 201)

    def _switch(self, call: Call, value: Any) -> Response:
        return self._standing(self.switch(on=_SWITCH.read(value)["switched_on"]), call)

    def _leave(self, call: Call, _value: Any) -> Response:
        url = call.query.get("resolver", "")
        if not url:
            raise Refusal(422, IbiError("the field {name} is missing", name="resolver"))
        self.leave(url)
        return Response(204)

    def _standing(self, resolvers: Resolvers, call: Call) -> Response:
        with self.catalogue.reading() as run:
            listed = of_resolvers(run, resolvers, call.say)
        settings = resolvers.settings
        facts = {"service": str(settings.service.main), "address": settings.address,
                "switched_on": settings.switched_on, "retired": settings.retired, "resolvers": listed}  # fmt: skip
        return answer(facts)

    def _state(self, call: Call, _value: Any) -> Response:
        resolvers = Resolvers.read(self.data)
        with self.catalogue.reading() as run:
            count, size = fixity.total(run)
            facts = identity(resolvers.settings) | sections(run, resolvers, call.say)
        files = {"count": count, "bytes": size, "free": shutil.disk_usage(self.data).free}
        return answer(facts | {"files": files})

    def _audit(self, call: Call, _value: Any) -> Response:
        days = Resolvers.read(self.data).settings.audit_days
        with self.catalogue.reading() as run:
            damaged = [of_fault(known) for known in fixity.faults(run, MOST_FAULTS)]
            return answer({"days": days, **of_audit(run, call.say), "damaged": damaged})
