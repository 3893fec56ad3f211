"""Faulty texts of two kinds: true ones that were spoilt, and new ones made after a grammar and then spoilt, or not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from proofs.fuzz import grammar

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

_LONG: Final = 1 << 13
_CUT: Final = 1 << 15  # nothing longer is made by chance; what takes its time is tried elsewhere

TOKENS: Final[tuple[str, ...]] = (
    *"\0\t\n\r !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~09azAZ",
    "\r\n", "\r\n\r\n", "%", "%0", "%00", "%2F", "%2f", "%252F", "%zz", "%C3%A9", "%ED%A0%80", "..", "/../",
    "//", "/./",
    "^", "{}", "{{", "}}", "()", "((", "[[", "-1", "1e309", "NaN", "9" * 25, "0" * 40, "9" * 4500,
    "18446744073709551616",
    "Infinity", "true", "null", '"', '\\"', "\\u0000", "\\ud800", "\x85", "\xa0", "\xad", "\xff", "\xfe\xff",
    "\xef\xbb\xbf",
    "\xed\xa0\x80", "{0}", "{x}", "%s", "<!--", "<script>", "]]>", "&#0;", "Original", "Deleted", "rep ", "ibip ",
    ".metadata", ".translation", ".lastedition", "(pt-BR)", "(oai_dc)", "GetMetadata", "servicesubject=", "=",
    "==", "&&",
)  # fmt: skip
"""What is put in between."""

_WIDE: Final[tuple[str, ...]] = (
    "\ud800", "\udfff", "\udc80", "\u0660", "\uff11", "\u00b2", "\u0130", "\u017f", "\u212a", "\u2028",
    "\u0085", "\u200b",
    "\u202e", "\u0301", "\ufeff", "\uffff", "\U0001f600", "\U0010ffff", "\ufb01", "\u00df", "\u2603", "\u0f33",
)  # fmt: skip
"""Characters beyond Latin-1, of kinds that programs misread: halves, foreign digits, letters that change in length."""

_ODD_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 10**30, -(10**30), 1e308, float("inf"), float("nan"), 0.5, "", " ", "\0",
    "\n", "\ud800",
    "x" * 5000, "9" * 5000, [], {}, [[]], [None], {"": None}, {"\ud800": "\ud800"}, {"value": 1}, "é",
    "{name}", "%00", "/",
)  # fmt: skip


class Maker:
    """Makes inputs. `seeds`: true texts; `rule`: the grammar of new ones, "" for none; `wide`: any Unicode."""

    def __init__(self, chance: random.Random, seeds: Sequence[str], rule: str = "", *, wide: bool) -> None:
        self._chance = chance
        self._seeds = tuple(seeds)
        self._rule = rule
        self._wide = wide

    def text(self) -> str:
        """Another text; without `wide`, a character for each byte."""
        chance = self._chance
        if self._rule and (not self._seeds or chance.random() < 0.5):
            made = grammar.expand(self._rule, chance)
        else:
            made = chance.choice(self._seeds)
        for _ in range(chance.choice((0, 1, 1, 1, 2, 3, 8))):
            made = self.spoilt(made)
        return made[:_CUT]

    def json(self, value: Any) -> Any:
        """A JSON value with some of its parts changed."""
        for _ in range(self._chance.choice((0, 1, 1, 2, 3))):
            value = self._changed(value)
        return value

    def spoilt(self, text: str) -> str:  # noqa: PLR0911 - a way to spoil it in each line
        """A text with one fault more."""
        chance = self._chance
        at, end = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
        end = min(end, at + chance.choice((1, 1, 4, 16, 200)))
        match chance.randrange(11):
            case 0:
                return text[:at] + text[end:]
            case 1 | 2 | 3:
                return text[:at] + self._token() + text[end if chance.random() < 0.5 else at :]
            case 4:
                return text[:at] + text[at:end] * chance.choice((2, 2, 3, 9, 50)) + text[end:]
            case 5:
                return text[:at]
            case 6:
                return text[:at] + "".join(f"%{ord(char) & 255:02X}" for char in text[at:end]) + text[end:]
            case 7:
                other = chance.choice(self._seeds) if self._seeds else self._token()
                return text[:at] + other[chance.randint(0, len(other)) :]
            case 8:
                return text[:at] + text[at:end].swapcase() + text[end:]
            case 9 if chance.random() < 0.05:
                return text[:at] + self._token() * (_LONG // chance.choice((1, 2, 8, 64))) + text[end:]
            case 9:
                return text[:at] + text[at:end][::-1] + text[end:]
            case _:
                return text[:at] + chr(chance.randrange(256)) + text[at + 1 :]

    def _token(self) -> str:
        if self._wide and self._chance.random() < 0.2:
            return self._chance.choice(_WIDE)
        return self._chance.choice(TOKENS)

    def _changed(self, value: Any) -> Any:  # noqa: PLR0911 - a way to change it in each line
        chance = self._chance
        if isinstance(value, dict) and value and chance.random() < 0.9:
            name = chance.choice(list(value))
            match chance.randrange(8):
                case 0:
                    return {other: each for other, each in value.items() if other != name}
                case 1:
                    return {**value, self.spoilt(name): value[name]}
                case 2:
                    return {**value, name: value[chance.choice(list(value))]}
                case _:
                    return {**value, name: self._changed(value[name])}
        if isinstance(value, list) and value and chance.random() < 0.8:
            at = chance.randrange(len(value))
            match chance.randrange(5):
                case 0:
                    return value[:at] + value[at + 1 :]
                case 1:
                    return value * chance.choice((2, 40))
                case _:
                    return [*value[:at], self._changed(value[at]), *value[at + 1 :]]
        if isinstance(value, str) and chance.random() < 0.6:
            return self.spoilt(value)
        return chance.choice(_ODD_VALUES) if chance.random() < 0.9 else _deep(chance, value)


def _deep(chance: random.Random, value: Any) -> Any:
    for _ in range(chance.choice((3, 100, 600))):
        value = [value] if chance.random() < 0.5 else {"a": value}
    return value


def dumped(value: Any) -> str:
    """A JSON value as text; what is too deep for that is an empty list."""
    try:
        return json.dumps(value)
    except RecursionError:
        return "[]"


def as_bytes(text: str) -> bytes:
    """The bytes of a text: one for each character where that can be."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
