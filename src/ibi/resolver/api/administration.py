"""What administrators decide over the JSON interface: registrations, and the settings of the resolver.

GET    /-/api/registrations?state=applied        POST {"ibi", "key", "mail", "name", "url_hosts"}: register one
GET    /-/api/registrations/<ibi>                DELETE: forget an Archive
POST   /-/api/registrations/<ibi>/approve | refuse | rotate | allow-move
GET    /-/api/archives                           the included ones, with the status of each in this process
GET    /-/api/settings                           all of them, without secrets
PATCH  /-/api/settings                           {"negative_seconds": 30, ...}: all of these changes, or none
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.bodies import BodyFields, json_object
from ibi.api.routes import Route, answer, explained, in_reading_thread, language_of
from ibi.errors import IbiError
from ibi.http.response import Refusal, Response
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.query_string import unescape
from ibi.resolver.api.openapi import TEXT, object_schema
from ibi.resolver.members.registrar import application_facts, archive_facts
from ibi.resolver.members.settings_changes import (
    HTTP_SETTINGS,
    NUMBER_RANGES,
    SECRET_SETTINGS,
    SETTING_CHOICES,
    change_settings,
)
from ibi.runtime.i18n import say
from ibi.runtime.settings import ResolverSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from ibi.api.routes import Call
    from ibi.identifier.forms import IBI
    from ibi.resolver.evidence.log import Evidence
    from ibi.resolver.members.registrar import Registrar
    from ibi.resolver.members.status import NetworkStatus
    from ibi.resolver.model.archive import RegisteredArchive


_STATES: Final = ("applied", "registered")
_NEW: Final = BodyFields({"ibi": str}, {"key": "", "mail": "", "name": "", "url_hosts": []})
_ONE: Final = object_schema(["service_ibi", "state"], service_ibi=TEXT, state={"enum": list(_STATES)})
_LISTED: Final = object_schema(["registrations"], registrations={"type": "array", "items": _ONE})
_KEY: Final = object_schema(
    ["service_ibi"],
    service_ibi=TEXT,
    key={**TEXT, "description": "told this once; absent where it was given"},
)
_ARCHIVES: Final = object_schema(
    ["moment", "archives"],
    moment={"type": "string", "format": "date-time"},
    archives={"type": "array", "items": {"type": "object", "required": ["service_ibi", "standing"]}},
)


def routes(registrar: Registrar, status: Callable[[], Awaitable[NetworkStatus]]) -> tuple[Route, ...]:
    """Return the routes of registrations and Archives; `status` returns the status of the network."""
    acts = _Acts(registrar, status)
    refused = (400, 404, 422)
    decisions = (
        ("approve", registrar.approve, "register an Archive that has applied", _ONE),
        ("refuse", registrar.refuse, "forget an application", None),
        ("rotate", registrar.rotate, "give an Archive a new key, told this once", _KEY),
        ("allow-move", registrar.allow_move, "let an Archive move once", _ONE),
    )
    return (
        Route(
            "GET", "/registrations", Scope.READ, explained(acts.listed),
            "Archives that are registered, or have applied",
            gives=_LISTED, query={"state": {"enum": list(_STATES)}}, refusals=(422,),
        ),
        Route(
            "POST", "/registrations", Scope.ADMIN, explained(acts.register), "register an Archive", takes=_NEW.schema,
            gives=_KEY, status=201, refusals=(422, 507),
        ),
        Route(
            "GET", "/registrations/<ibi>", Scope.READ, explained(acts.one), "an Archive", gives=_ONE, refusals=refused,
        ),
        Route(
            "DELETE", "/registrations/<ibi>", Scope.ADMIN, explained(acts.decision(registrar.unregister)),
            "forget an Archive", status=204, refusals=(*refused, 507),
        ),
        *(
            Route(
                "POST", f"/registrations/<ibi>/{word}", Scope.ADMIN, explained(acts.decision(decide, gives)),
                summary, gives=gives, status=204 if gives is None else 200, refusals=(*refused, 507),
            )
            for word, decide, summary, gives in decisions
        ),
        Route(
            "GET", "/archives", Scope.READ, acts.archives, "the included Archives, and how they are", gives=_ARCHIVES,
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Acts:
    """The acts of the routes."""

    _registrar: Registrar
    _status: Callable[[], Awaitable[NetworkStatus]]

    def listed(self, call: Call, _value: Any) -> Response:
        """List all Archives known here, or those in one state."""
        state = call.query.get("state", "")
        if state not in {"", *_STATES}:
            raise Refusal(422, IbiError("{name} is one of: {words}", name="state", words=", ".join(_STATES)))
        known = [*self._registrar.waiting(), *self._registrar.registered()]
        listed = [registration_facts(each) for each in known]
        return answer({"registrations": [each for each in listed if state in {"", each["state"]}]})

    def one(self, call: Call, _value: Any) -> Response:
        """Show one of them."""
        return answer(registration_facts(self._registrar.known(_service(call))))

    def register(self, call: Call, value: Any) -> Response:
        """Register an Archive; answer with its key, if it was made here."""
        fields = _NEW.read(value)
        service, given = parse_ibi(fields["ibi"]), fields["key"]
        key = self._registrar.register(
            service, given or None, fields["url_hosts"], fields["mail"], fields["name"], by=_by(call)
        )
        return answer({"service_ibi": str(service)} | ({} if given else {"key": key}), 201)

    def decision(
        self, decide: Callable[[IBI, str], str | None], gives: dict[str, Any] | None = None
    ) -> Callable[[Call, Any], Response]:
        """Make the act of a decision about one Archive: it answers with the new key, the Archive, or nothing."""

        def act(call: Call, _value: Any) -> Response:
            service = _service(call)
            key = decide(service, _by(call))
            if gives is None:
                return Response(204)
            return self.one(call, None) if key is None else answer({"service_ibi": str(service), "key": key})

        return act

    async def archives(self, call: Call) -> Response:
        """List the included Archives: what the registry has, and the status of each in this process."""
        status = await self._status()
        known = {
            str(each.service_ibi): archive_facts(each)
            for each in await in_reading_thread(self._registrar.registered)
        }
        facts = status.as_dict(lambda text, values: say(text, language_of(call.request), **values))
        archives = [known.get(each["service_ibi"], {}) | each for each in facts["members"]]
        return answer({"moment": facts["moment"], "archives": archives})


def registration_facts(archive: RegisteredArchive) -> dict[str, Any]:
    """Return a registered Archive or an application as JSON has it, with its state."""
    if archive.applied:
        return {"state": "applied", **application_facts(archive)}
    return {"state": "registered", **archive_facts(archive), "may_move": archive.move_allowed}


def _service(call: Call) -> IBI:
    """Read the IBI at <ibi> in the path. Raises ParseError."""
    return parse_ibi(unescape(call.values["ibi"]))


def _by(call: Call) -> str:
    return f"token {call.token_name}"


_CHANGES: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        **{name: {"enum": list(words)} for name, words in SETTING_CHOICES.items()},
        **{
            name: {"type": "number", "minimum": least, "maximum": most}
            for name, (least, most) in NUMBER_RANGES.items()
        },
        "admin": {"type": "string", "maxLength": 254},
    },
    "additionalProperties": False,
}
_SETTINGS: Final = object_schema(
    ["settings"],
    settings={"type": "object"},
    changed={"type": "array", "items": TEXT},
    notes={"type": "array", "items": TEXT},
)


def settings_routes(data: Path, evidence: Evidence) -> tuple[Route, ...]:
    """Return the routes of the settings of a data directory."""

    def show(_call: Call, _value: Any) -> Response:
        return answer({"settings": settings_facts(ResolverSettings.read(data))})

    def change(call: Call, value: Any) -> Response:
        done = change_settings(data, json_object(value), HTTP_SETTINGS, evidence, _by(call))
        notes = [call.say(note) for note in done.notes]
        return answer(
            {"settings": settings_facts(done.settings), "changed": list(done.changed), "notes": notes}
        )

    return (
        Route("GET", "/settings", Scope.READ, explained(show), "how the resolver judges", gives=_SETTINGS),
        Route(
            "PATCH", "/settings", Scope.ADMIN, explained(change), "change settings", takes=_CHANGES, gives=_SETTINGS,
            refusals=(422, 507),
        ),
    )  # fmt: skip


def settings_facts(settings: ResolverSettings) -> dict[str, Any]:
    """Return the settings as JSON has them, without secrets."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return {
        name: str(value) if isinstance(value, IBIForms) else value
        for name, value in values.items()
        if name not in SECRET_SETTINGS
    }
