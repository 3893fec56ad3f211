"""Query strings: pairs `name=value` joined by "&" (MSG-04 to MSG-07).

This is no decoder of HTML forms: ";" does not separate pairs, and each value is decoded exactly once. Bytes are
opaque: a decoded text has the Latin-1 character of each byte, and is never re-encoded (AMB-31: bytes as they came).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ibi.errors import ParseError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_QUERY: Final = 16 * 1024
"""Characters of a query (T30: slow requests)."""
MAX_PAIRS: Final = 256
"""Pairs of a query (T30: slow requests)."""

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
# Not plain: characters that could end or split a value, a query or a URL, and "+", which decodes to a blank.
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/:@()!$'*,;[]")
_ALL_PLAIN = re.compile(f"[{re.escape(''.join(sorted(_PLAIN)))}]*+").fullmatch
_ESCAPES = {code: f"%{code:02X}" for code in range(256) if chr(code) not in _PLAIN}


def read_query(raw: str) -> list[tuple[str, str]]:
    """Return the pairs of a raw query, in order, each decoded once; a raw "+" is a blank, "%2B" a plus sign.

    A pair without "=" has the value "". Raises ParseError for more than MAX_QUERY characters or MAX_PAIRS pairs.
    """
    pairs = [element.partition("=") for element in split_query(raw)]
    # Most queries escape nothing, which saves two calls for each pair.
    if "%" not in raw and "+" not in raw:
        return [(name, value) for name, _, value in pairs]
    return [(unescape(name), unescape(value)) for name, _, value in pairs]


def split_query(raw: str) -> list[str]:
    """Return the raw pairs, in order, without empty ones. Raises ParseError as read_query does."""
    if len(raw) > MAX_QUERY or raw.count("&") >= MAX_PAIRS:
        problem = "a query has at most {characters} characters and {pairs} pairs"
        raise ParseError("query", raw, problem, characters=MAX_QUERY, pairs=MAX_PAIRS)
    return [element for element in raw.split("&") if element]


def write_query(pairs: Iterable[tuple[str, str]]) -> str:
    """Join pairs, with their values escaped."""
    return "&".join([f"{name}={value if _ALL_PLAIN(value) else escape(value)}" for name, value in pairs])


def escape(value: str) -> str:
    """Escape a value: the characters of Table 6.1, and all others that could break a URL.

    Raises ParseError for characters beyond Latin-1, because they stand for no byte. See MSG-06: escaping; AMB-27:
    escapes.
    """
    if _ALL_PLAIN(value):
        return value
    escaped = value.translate(_ESCAPES)
    if not escaped.isascii():
        raise ParseError("value", value, "a value is made of bytes, and this character is none")
    return escaped


def unescape(text: str) -> str:
    """Decode escapes once; a "%" that begins no escape stays as it is."""
    if "+" in text:
        text = text.replace("+", " ")
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text) if "%" in text else text


def with_query(url: str, foreign: str) -> str:
    """Append the query pairs for the item to a URL, before its fragment, and change nothing else (AMB-48)."""
    if not foreign:
        return url
    base, hash_sign, fragment = url.partition("#")
    joint = "" if base.endswith(("?", "&")) else "&" if "?" in base else "?"
    return f"{base}{joint}{foreign}{hash_sign}{fragment}"
