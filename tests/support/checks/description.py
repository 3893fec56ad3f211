"""Whether answers are as the OpenAPI description of the same service says; clients of tests ask it for every answer.

An object may have only the members that its schema names, unless the schema says that there may be more: else a
member that was renamed, or that is not described, would pass.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from openapi_schema_validator import OAS31Validator, oas31_format_checker

import ibi

GOLDEN = Path(__file__).parents[2] / "surface/golden"
PATH = "/-/api/openapi.json"
"""Where a service describes itself."""

_JSON = frozenset({"application/json", "application/problem+json"})
_PLACE = re.compile(r"\{([a-z]+)\}")


@dataclass(frozen=True)
class _Path:
    """One path of a description: what matches it, how many characters of it are no place, and its operations."""

    matcher: re.Pattern[str]
    plain: int
    operations: dict[str, Any]


def held(program: str) -> Any:
    """The whole description of a program ("archive", "resolver") as it was, from the golden files; of this version."""
    text = (GOLDEN / f"openapi-{program}.json").read_text(encoding="utf-8")
    return json.loads(text.replace('"VERSION"', json.dumps(ibi.__version__)))


def document_faults(document: Any) -> list[object]:
    """What is wrong with a description itself, by the rules of OpenAPI 3.1."""
    from openapi_spec_validator import OpenAPIV31SpecValidator  # slow to import, and rarely needed

    return list(OpenAPIV31SpecValidator(document).iter_errors())


class Description:
    """What a service says of its answers."""

    def __init__(self, document: Any) -> None:
        self._components = closed(document["components"])
        self._problems = [
            {"$ref": f"#/components/schemas/{name}"}
            for name in ("problem", "refusal")
            if name in self._components["schemas"]
        ]
        self._paths = [
            _path(f"{operations.get('servers', document['servers'])[0]['url'].rstrip('/')}{path}", operations)
            for path, operations in document["paths"].items()
        ]
        self._validators: dict[str, OAS31Validator] = {}

    def check(self, method: str, target: str, status: int, kind: str, body: bytes) -> None:
        """Fail unless this answer is described; `kind` is its Content-Type."""
        shown = f"{method} {target}: {status} {kind} {body[:400]!r}"
        media_type = kind.partition(";")[0].strip()
        response = self._response(method, target, status, shown)
        content = {} if response is None else response.get("content", {})
        # Of pages, and of bags, is described only that there are such.
        if content or (response is not None and media_type == "application/json"):
            described = method == "HEAD" or not body or media_type in content or "*/*" in content
            assert described, f"of a type that is not described: {shown}"
        schema = {"anyOf": self._problems} if media_type == "application/problem+json" else {}
        schema = content.get(media_type, {}).get("schema", schema)
        if body and media_type in _JSON:
            faults = [f"{each.json_path}: {each.message}" for each in self._faults(schema, json.loads(body))]
            assert faults == [], f"not as described: {faults} {shown}"

    def _response(self, method: str, target: str, status: int, shown: str) -> Any:
        """Return how an answer is described; None where nothing is shown of such requests."""
        path = target.partition("?")[0]
        found = [each for each in self._paths if each.matcher.fullmatch(path)]
        if not found:
            return None
        operations = max(found, key=lambda each: each.plain).operations
        operation = operations.get(method.lower()) or (operations.get("get") if method == "HEAD" else None)
        if operation is None:
            assert status >= 400, f"a method that is not described is allowed: {shown}"
            return None
        assert str(status) in operation["responses"], f"of a status that is not described: {shown}"
        return operation["responses"][str(status)]

    def _faults(self, schema: Any, value: Any) -> Any:
        name = json.dumps(schema, sort_keys=True)
        if name not in self._validators:
            whole = {**closed(schema), "components": self._components}
            self._validators[name] = OAS31Validator(whole, format_checker=oas31_format_checker)
        return self._validators[name].iter_errors(value)


@lru_cache(maxsize=16)
def description(document: bytes) -> Description:
    """Return the description that this JSON document is; the same document is read once."""
    return Description(json.loads(document))


def _path(path: str, operations: Any) -> _Path:
    parts = _PLACE.split(path)
    places = {"ibi": ".+", "file": ".+", "word": "[^/]+"}
    matcher = "".join(places[part] if number % 2 else re.escape(part) for number, part in enumerate(parts))
    return _Path(re.compile(matcher), sum(map(len, parts[::2])), operations)


def closed(schema: Any) -> Any:
    """Return a schema in which objects have no members but those that are named, unless it says otherwise."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(member) for name, member in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found
