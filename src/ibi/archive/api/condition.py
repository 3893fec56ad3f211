"""How an Archive is, over HTTP, for whoever looks after it with a program.

GET /-/api/state     who it is, counts, resolvers, hand-overs, copies, the disk; as `ibi archive show` tells it
GET /-/api/audit     how far the audit of the stored files is, and those that are damaged
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.care.standing import MOST_FAULTS, identity, of_audit, of_fault, sections
from ibi.archive.ledgers import fixity
from ibi.archive.networking.joining import Resolvers
from ibi.interface.routes import Route, answer, in_thread
from ibi.tokens import Scope

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.archive.catalogue import Catalogue
    from ibi.exchange import Response
    from ibi.interface.routes import Call

_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_FILES: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"count": _COUNT, "bytes": _COUNT, "free": _COUNT},
}
_STATE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["service", "address", "items", "files", "resolvers", "transfers", "copies", "audit"],
    "properties": {
        "items": {"type": "object", "additionalProperties": _COUNT},
        "files": _FILES,
        "audit": {"type": "object"},
    },
}
_FAULT: Final = {
    "type": "object",
    "properties": dict.fromkeys(("ibi", "file", "fault", "found", "good"), _TEXT),
}
_AUDIT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["days", "files", "faults", "begun", "ended", "damaged"],
    "properties": {
        **dict.fromkeys(("days", "files", "faults"), _COUNT),
        **dict.fromkeys(("begun", "ended"), _TEXT),
        "damaged": {"type": "array", "maxItems": MOST_FAULTS, "items": _FAULT},
    },
}


def routes(data: Path, catalogue: Catalogue) -> tuple[Route, ...]:
    """The table. What the settings say is read when it is asked for."""

    def state(call: Call, _value: Any) -> Response:
        resolvers = Resolvers.read(data)
        with catalogue.reading() as run:
            count, size = fixity.total(run)
            told = identity(resolvers.settings) | sections(run, resolvers, call.say)
        return answer(told | {"files": {"count": count, "bytes": size, "free": shutil.disk_usage(data).free}})

    def audit(call: Call, _value: Any) -> Response:
        days = Resolvers.read(data).settings.audit_days
        with catalogue.reading() as run:
            damaged = [of_fault(known) for known in fixity.faults(run, MOST_FAULTS)]
            return answer({"days": days, **of_audit(run, call.say), "damaged": damaged})

    return (
        Route("GET", "/state", Scope.READ, in_thread(state), "how the Archive is", gives=_STATE),
        Route(
            "GET",
            "/audit",
            Scope.READ,
            in_thread(audit),
            "what audits of the stored files found",
            gives=_AUDIT,
        ),
    )
