"""The settings of a resolver over HTTP; what is changed counts within a second, and stands in the evidence.

GET   /-/api/settings            all of them, but for what is secret
PATCH /-/api/settings            {"negative_seconds": 30, ...}: all of these changes, or none
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from ibi.identifier.forms import IBIForms
from ibi.interface.bodies import json_object
from ibi.interface.routes import Route, answer, deciding
from ibi.resolver.adjusting import NUMBERS, OVER_HTTP, WORDS, adjust
from ibi.settings import ResolverSettings
from ibi.tokens import Scope

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.exchange import Response
    from ibi.interface.routes import Call
    from ibi.resolver.witness import Witness

SECRET: Final = frozenset({"mirror_key"})
"""Settings that are told to nobody."""

_CHANGES: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        **{name: {"enum": list(words)} for name, words in WORDS.items()},
        **{
            name: {"type": "number", "minimum": least, "maximum": most}
            for name, (least, most) in NUMBERS.items()
        },
        "admin": {"type": "string", "maxLength": 254},
    },
    "additionalProperties": False,
}
_SETTINGS: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["settings"],
    "properties": {
        "settings": {"type": "object"},
        "changed": {"type": "array", "items": {"type": "string"}},
        "notes": {"type": "array", "items": {"type": "string"}},
    },
}


def routes(data: Path, witness: Witness) -> tuple[Route, ...]:
    """The table. `data`: the data directory."""

    def tell(_call: Call, _value: Any) -> Response:
        return answer({"settings": told(ResolverSettings.read(data))})

    def change(call: Call, value: Any) -> Response:
        found = adjust(data, json_object(value), OVER_HTTP, witness, f"token {call.who}")
        notes = [call.say(note) for note in found.notes]
        return answer({"settings": told(found.settings), "changed": list(found.changed), "notes": notes})

    return (
        Route("GET", "/settings", Scope.READ, deciding(tell), "how the resolver judges", gives=_SETTINGS),
        Route(
            "PATCH", "/settings", Scope.ADMIN, deciding(change), "change settings", takes=_CHANGES, gives=_SETTINGS,
            refusals=(422, 507),
        ),
    )  # fmt: skip


def told(settings: ResolverSettings) -> dict[str, Any]:
    """The settings as JSON, but for what is secret."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return {
        name: str(value) if isinstance(value, IBIForms) else value
        for name, value in values.items()
        if name not in SECRET
    }
