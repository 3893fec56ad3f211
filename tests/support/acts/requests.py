"""An act as a request of the JSON interface, from its definition and the values of its fields."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from ibi.api.operations import Operation

BYTES = "bytes"
"""In values, what is no field: the bytes of a file, which are the body."""


@dataclass(frozen=True)
class JSONRequest:
    """A request below /-/api; `headers` with "_" for "-"."""

    method: str
    target: str
    body: bytes | None
    headers: Mapping[str, str]


def request_for(operation: Operation[Any, Any], values: Mapping[str, Any]) -> JSONRequest:
    """Return the request for an act with these values, as a program would send it."""
    left = dict(values)
    target = operation.pattern
    for place in operation.place.split():
        target = re.sub("<[a-z]+>", quote(left.pop(place), ""), target, count=1)
    content = left.pop(BYTES, None)
    if content is not None or operation.in_query:
        return JSONRequest(operation.method, f"{target}?{urlencode(left)}" if left else target, content, {})
    # Without a value there is no body, where an empty object would be another one.
    body = json.dumps(left).encode() if values.keys() - set(operation.place.split()) else None
    return JSONRequest(operation.method, target, body, {"content_type": "application/json"} if body else {})
