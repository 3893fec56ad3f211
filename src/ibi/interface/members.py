"""The members of a JSON object that a program sends: known, of their types, and not too long."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import IbiError
from ibi.interface.bodies import json_object
from ibi.interface.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_MEMBER: Final = 2_048
"""Characters of a text in a body."""
MOST_TEXTS: Final = 100
"""Texts in a list in a body."""

_TEXT: Final = {"type": "string", "maxLength": LONGEST_MEMBER}
_SCHEMAS: Final[Mapping[type, Mapping[str, Any]]] = {
    str: _TEXT,
    bool: {"type": "boolean"},
    list: {"type": "array", "items": _TEXT, "maxItems": MOST_TEXTS},
}


@dataclass(frozen=True)
class Members:
    """What a body has to say, and what it may: the type of each member, and what stands for one that is left out."""

    required: Mapping[str, type]
    optional: Mapping[str, str | bool | list[str]] = field(default_factory=dict)

    def read(self, value: Any) -> dict[str, Any]:
        """All members of a body. Raises Refusal (422)."""
        said = json_object(value)
        types = {**self.required, **{name: type(default) for name, default in self.optional.items()}}
        for name in said:
            if name not in types:
                raise _refused("there is no field {name}", name)
        for name in self.required:
            if name not in said:
                raise _refused("the field {name} is missing", name)
        for name, each in said.items():
            _check(name, each, types[name])
        return {**self.optional, **said}

    @property
    def schema(self) -> dict[str, Any]:
        """It as a JSON Schema."""
        optional = {name: _SCHEMAS[type(default)] for name, default in self.optional.items()}
        return {
            "type": "object",
            "required": list(self.required),
            "properties": {name: _SCHEMAS[kind] for name, kind in self.required.items()} | optional,
            "additionalProperties": False,
        }


def _check(name: str, value: Any, kind: type) -> None:
    """Refuse a value of another type, or one that is too long."""
    if kind is bool and not isinstance(value, bool):
        raise _refused("{name} is true or false", name)
    if kind is list:
        if not isinstance(value, list) or len(value) > MOST_TEXTS:
            raise _refused("{name} is a list of texts", name)
        for each in value:
            _check(name, each, str)
    if kind is str and not isinstance(value, str):
        raise _refused("{name} is a text in quotes", name)
    if isinstance(value, str) and len(value) > LONGEST_MEMBER:
        raise _refused("{name} is too long", name)


def _refused(problem: str, name: str) -> Refusal:
    return Refusal(422, IbiError(problem, name=name[:80]))
