"""Reads JSON strictly, so that two programs never read two different values from one text (RFC 8259)."""

from __future__ import annotations

import json
import math
from typing import Any


class NameTwice(ValueError):
    """A name occurs twice in one object: one program may use the first of two values, another the second."""


def read_strict_json(body: bytes | bytearray) -> Any:
    """Read a JSON value: valid UTF-8, finite numbers, no name twice in an object.

    Raises NameTwice, ValueError, and RecursionError.
    """
    value = json.loads(body.decode(), object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite)
    # JSON can express a lone surrogate (half a character), but neither files nor databases can store it.
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise NameTwice
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
