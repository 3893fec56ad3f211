"""What a harvester asks: a verb and its arguments, each checked as the protocol wants it (OAI-PMH 2.0, 3.1; pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.errors import ParseError
from ibi.protocol.query_string import read_query

if TYPE_CHECKING:
    from collections.abc import Mapping

RESUMED: Final = "resumptionToken"
"""The argument that goes on with a list."""


class _Takes(NamedTuple):
    """The arguments of a verb: those it must have, and those it may have besides."""

    required: frozenset[str]
    optional: frozenset[str]


_LIST: Final = _Takes(frozenset({"metadataPrefix"}), frozenset({"from", "until", "set", RESUMED}))
_VERBS: Final[Mapping[str, _Takes]] = {
    "Identify": _Takes(frozenset(), frozenset()),
    "ListMetadataFormats": _Takes(frozenset(), frozenset({"identifier"})),
    "ListSets": _Takes(frozenset(), frozenset({RESUMED})),
    "GetRecord": _Takes(frozenset({"identifier", "metadataPrefix"}), frozenset()),
    "ListIdentifiers": _LIST,
    "ListRecords": _LIST,
}
_WORD: Final = r"[A-Za-z0-9\-_.!~*'()]+"
_FORMS: Final = {
    "metadataPrefix": re.compile(_WORD),
    "set": re.compile(rf"{_WORD}(?::{_WORD})*"),
    "identifier": re.compile(
        r"[A-Za-z][A-Za-z0-9+.\-]*:(?:[A-Za-z0-9\-_.!~*'();/?:@&=+$,]|%[0-9A-Fa-f]{2})+"
    ),
}
_DATE: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?", re.ASCII)
_DAY_MEANS: Final = {"from": "T00:00:00Z", "until": "T23:59:59Z"}
"""What a bare day means: all of it."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN: Final = 60


class Fault(Exception):
    """What is wrong with a question: one of the error codes of OAI-PMH 2.0 (3.6), and a sentence."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code
        self.words = words


@dataclass(frozen=True, slots=True)
class Question:
    """A verb and its arguments, each well written and in its place; `first` and `last` in POSIX seconds, inclusive."""

    verb: str
    arguments: Mapping[str, str]
    first: int | None = None
    last: int | None = None

    def __getitem__(self, name: str) -> str:
        """An argument, "" if it was not given."""
        return self.arguments.get(name, "")


def read_question(raw: str) -> Question:
    """Read a query, or the body of a form, as it came over the wire. Raises Fault (badVerb, badArgument)."""
    try:
        pairs = read_query(raw)
    except ParseError as error:
        raise Fault("badArgument", str(error)) from None
    verbs = [value for name, value in pairs if name == "verb"]
    if len(verbs) != 1 or verbs[0] not in _VERBS:
        known = ", ".join(_VERBS)
        raise Fault("badVerb", f"there must be one argument verb, and it is one of: {known}")
    arguments = {name: value for name, value in pairs if name != "verb"}
    if len(arguments) < len(pairs) - 1:
        raise Fault("badArgument", "an argument stands twice")
    _check(verbs[0], arguments)
    return _dated(verbs[0], arguments)


def _check(verb: str, arguments: Mapping[str, str]) -> None:
    takes = _VERBS[verb]
    odd = next((name for name in arguments if name not in takes.required | takes.optional), None)
    if odd is not None:
        raise Fault("badArgument", f"{verb} takes no argument {_shown(odd)}")
    if RESUMED in arguments:
        if len(arguments) > 1:
            raise Fault("badArgument", "a resumptionToken stands alone: it knows the other arguments")
        return
    missing = next((name for name in sorted(takes.required) if name not in arguments), None)
    if missing is not None:
        raise Fault("badArgument", f"{verb} needs the argument {missing}")
    for name, value in arguments.items():
        form = _FORMS.get(name)
        if form is not None and not form.fullmatch(value):
            raise Fault("badArgument", f"the argument {name} cannot be {_shown(value)}")


def _dated(verb: str, arguments: Mapping[str, str]) -> Question:
    dates = {name: _moment(name, arguments[name]) for name in _DAY_MEANS if name in arguments}
    first, last = dates.get("from"), dates.get("until")
    if first is not None and last is not None:
        if len(arguments["from"]) != len(arguments["until"]):
            raise Fault("badArgument", "from and until must be written alike: both with a time, or neither")
        if first > last:
            raise Fault("badArgument", "from must not be later than until")
    return Question(verb, arguments, first, last)


def _moment(name: str, text: str) -> int:
    found = _DATE.fullmatch(text)
    try:
        written = f"{found[1]}{found[2] or _DAY_MEANS[name]}" if found else ""
        moment = datetime.strptime(written, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        words = (
            f"{name} is a day or a moment of UTC, as 2026-11-22 or 2026-11-22T10:30:00Z, not {_shown(text)}"
        )
        raise Fault("badArgument", words) from None
    return int((moment - _EPOCH).total_seconds())


def _shown(text: str) -> str:
    """A text of others in a sentence of ours: short, and nothing but visible ASCII."""
    return "".join(char if " " <= char <= "~" else "?" for char in text[:_SHOWN])
