"""The shape of a JSON value: its keys and the types of its values, without the values.

`shape` joins the members of a list into one: a key that only some of them have ends with "?", and a value that has
several types is written "null | string".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class _Shape:
    """What is known of the values at one place."""

    scalars: set[str] = field(default_factory=set)
    keys: dict[str, _Shape] | None = None
    optional: set[str] = field(default_factory=set)
    elements: _Shape | None = None

    def add(self, value: object) -> None:
        """Let one more value stand here."""
        if isinstance(value, dict):
            self._add_object(value)
        elif isinstance(value, list):
            self.elements = self.elements or _Shape()
            for element in value:
                self.elements.add(element)
        else:
            self.scalars.add(_scalar(value))

    def _add_object(self, value: dict[str, object]) -> None:
        if self.keys is None:
            self.keys = {}
        else:
            self.optional |= self.keys.keys() ^ value.keys()
        for key, member in value.items():
            self.keys.setdefault(key, _Shape()).add(member)

    def written(self) -> Any:
        """As JSON."""
        found: list[Any] = [" | ".join(sorted(self.scalars))] if self.scalars else []
        if self.keys is not None:
            found.append(
                {
                    f"{key}?" if key in self.optional else key: self.keys[key].written()
                    for key in sorted(self.keys)
                }
            )
        if self.elements is not None:
            inner = self.elements.written()
            found.append([] if inner is None else [inner])
        if len(found) > 1:
            return {"one of": found}
        return found[0] if found else None


def _scalar(value: object) -> str:
    """The name of a type as JSON Schema has it; what is an integer by chance is told apart by how it is written."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return {int: "integer", float: "number", str: "string"}.get(type(value), type(value).__name__)


def shape(values: Iterable[object]) -> Any:
    """The one shape of several values, ready to be written as JSON."""
    found = _Shape()
    for value in values:
        found.add(value)
    return found.written()


def shape_of_text(text: str) -> Any:
    """The shape of a JSON document; of JSON lines, "each line" has the one of all of them."""
    try:
        return shape([json.loads(text)])
    except json.JSONDecodeError:
        return {"each line": shape(json.loads(line) for line in text.splitlines() if line.strip())}
