"""A naive recogniser for ABNF: every rule maps a position to the set of positions where it can end.

Slow, complete (all alternatives, all repetitions) and sharing nothing with the library's regular expressions. The
`abnf` package is the second opinion: tests/unit/identifier/properties/test_grammar.py sets both on the same grammars.
Literals of letters match without regard to case, as RFC 5234 says, unless written %s"like this" (RFC 7405).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(
    r"""\s*(?:(?P<repeat>[0-9]*\*[0-9]*|[0-9]+)
      |(?P<text>(?:%s)?"[^"]*")
      |%x(?P<low>[0-9A-F]+)(?:-(?P<high>[0-9A-F]+))?
      |(?P<name>[A-Za-z][A-Za-z0-9-]*)
      |(?P<bracket>[()\[\]/]))""",
    re.VERBOSE,
)
_CORE = {"ALPHA": "%x41-5A / %x61-7A", "DIGIT": "%x30-39", "SP": "%x20", "CRLF": "%x0D %x0A"}


@dataclass(frozen=True)
class _Choice:
    options: tuple[Node, ...]


@dataclass(frozen=True)
class _Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class _Repeat:
    least: int
    most: int | None
    part: Node


@dataclass(frozen=True)
class _Rule:
    name: str


@dataclass(frozen=True)
class _Text:
    text: str
    exact: bool


@dataclass(frozen=True)
class _Range:
    low: str
    high: str


Node = _Choice | _Sequence | _Repeat | _Rule | _Text | _Range


class Grammar:
    """Rules as `name = expression` lines; a line that starts with a blank continues the one before."""

    def __init__(self, rules: str) -> None:
        self.source = rules
        self._rules = {name: _Reader(body).choice() for name, body in _CORE.items()}
        for line in re.sub(r"\n +", " ", rules.strip()).splitlines():
            name, _, body = line.partition("=")
            if name.strip():
                self._rules[name.strip()] = _Reader(body).choice()

    def matches(self, rule: str, text: str) -> bool:
        """Whether the whole text is derivable from the rule."""
        return len(text) in self.ends(rule, text)

    def ends(self, rule: str, text: str) -> frozenset[int]:
        """Where a prefix of the text that is derivable from the rule can end."""
        return self._walker(text)(_Rule(rule), 0)

    def _walker(self, text: str) -> Callable[[Node, int], frozenset[int]]:
        @cache
        def ends(node: Node, at: int) -> frozenset[int]:
            match node:
                case _Rule(name):
                    return ends(self._rules[name], at)
                case _Range(low, high):
                    return frozenset({at + 1}) if low <= text[at : at + 1] <= high else frozenset()
                case _Text(literal, exact):
                    there = text[at : at + len(literal)]
                    same = there == literal if exact else there.isascii() and there.lower() == literal.lower()
                    return frozenset({at + len(literal)}) if same else frozenset()
                case _Choice(options):
                    return frozenset().union(*(ends(option, at) for option in options))
                case _Sequence(parts):
                    reached = frozenset({at})
                    for part in parts:
                        reached = frozenset().union(*(ends(part, start) for start in reached))
                    return reached
                case _Repeat(least, most, part):
                    return _repeat(ends, least, most, part, at)

        return ends


def _repeat(
    ends: Callable[[Node, int], frozenset[int]], least: int, most: int | None, part: Node, at: int
) -> frozenset[int]:
    reached, found, count = frozenset({at}), set[int](), 0
    while reached:
        if count >= least:
            if reached <= found:
                break
            found |= reached
        if count == most:
            break
        reached = frozenset().union(*(ends(part, start) for start in reached))
        count += 1
    return frozenset(found)


class _Reader:
    """Reads one expression."""

    def __init__(self, body: str) -> None:
        self._tokens: list[re.Match[str]] = []
        at, body = 0, body.rstrip()
        while at < len(body):
            found = _TOKEN.match(body, at)
            assert found, f"not ABNF: {body[at:]}"
            self._tokens.append(found)
            at = found.end()

    def choice(self) -> Node:
        options = [self._sequence()]
        while self._next_is("/"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else _Choice(tuple(options))

    def _sequence(self) -> Node:
        parts = []
        while self._tokens and self._tokens[0]["bracket"] not in {"/", ")", "]"}:
            parts.append(self._repetition())
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _repetition(self) -> Node:
        count = self._tokens[0]["repeat"]
        if count is None:
            return self._element()
        self._tokens.pop(0)
        least, star, most = count.partition("*")
        if not star:
            return _Repeat(int(count), int(count), self._element())
        return _Repeat(int(least or 0), int(most) if most else None, self._element())

    def _element(self) -> Node:
        token = self._tokens.pop(0)
        if token["name"]:
            return _Rule(token["name"])
        if token["low"]:
            return _Range(chr(int(token["low"], 16)), chr(int(token["high"] or token["low"], 16)))
        if token["text"] is not None:
            exact = token["text"].startswith("%s")
            return _Text(token["text"].removeprefix("%s").strip('"'), exact)
        inner = self.choice()
        assert self._tokens.pop(0)["bracket"] == {"(": ")", "[": "]"}[token["bracket"]]
        return inner if token["bracket"] == "(" else _Repeat(0, 1, inner)

    def _next_is(self, bracket: str) -> bool:
        if self._tokens and self._tokens[0]["bracket"] == bracket:
            self._tokens.pop(0)
            return True
        return False
