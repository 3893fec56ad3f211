"""JSON in its one spelling, so that a signature over it can be checked anywhere (floor 3; RFC 8785, no fractions).

No blanks; the names of an object in the order of their UTF-16 code units; characters as themselves in UTF-8, but
for the quotation mark, the backslash and control characters. Numbers are whole: nothing here needs others.
"""

from __future__ import annotations

import json
from typing import Any

from ibi.errors import BadItem

_LARGEST = 1 << 53  # beyond it, readers in other languages round whole numbers


def canonical(value: Any) -> bytes:
    """A JSON value in its one spelling. Raises BadItem for what has none: fractions, huge numbers, half characters."""
    try:
        return json.dumps(_ordered(value), ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise BadItem("a text has half a character in it") from None


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return {name: _ordered(value[name]) for name in names}
    if isinstance(value, list | tuple):
        return [_ordered(each) for each in value]
    if value is None or isinstance(value, str | bool) or (isinstance(value, int) and abs(value) < _LARGEST):
        return value
    raise BadItem("{value} has no canonical spelling", value=value)
