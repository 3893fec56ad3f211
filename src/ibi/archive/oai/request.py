"""Read the request of a harvester: check the verb and its arguments by OAI-PMH 2.0 (3.1, 2.6; pure).

A set is a selection of records that a harvester may ask for:

    openaccess  openaire  driver        open access, under the three names that aggregators use
    openaire_data                       data sets, for the same aggregators
    kind-Dissertation  language-pt      by DataCite's name of the kind, and by language

The sets of a record follow from the present state of its item; a removed item stays in its last sets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ibi.errors import ParseError
from ibi.protocol.query_string import read_query

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping


RESUMED: Final = "resumptionToken"
"""The argument that continues a list."""


_LIST: Final = (frozenset({"metadataPrefix"}), frozenset({"from", "until", "set", RESUMED}))
_VERBS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "Identify": (frozenset(), frozenset()),
    "ListMetadataFormats": (frozenset(), frozenset({"identifier"})),
    "ListSets": (frozenset(), frozenset({RESUMED})),
    "GetRecord": (frozenset({"identifier", "metadataPrefix"}), frozenset()),
    "ListIdentifiers": _LIST,
    "ListRecords": _LIST,
}
"""The arguments of each verb: the required ones, and the optional ones."""
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
"""The time that completes a bare day: its first second for `from`, its last for `until`."""
_SHOWN: Final = 60


class OaiError(Exception):
    """An error of the protocol: one of the codes of OAI-PMH 2.0 (3.6), and a sentence."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code
        self.words = words


def no_format(prefix: str) -> OaiError:
    """Return the error for a request for records in an unknown format."""
    return OaiError("cannotDisseminateFormat", f"there are no records in the format {prefix[:_SHOWN]}")


@dataclass(frozen=True, slots=True)
class OaiRequest:
    """A verb and its arguments, all of them valid; `first` and `last` in POSIX seconds, inclusive."""

    verb: str
    arguments: Mapping[str, str]
    first: int | None = None
    last: int | None = None

    def __getitem__(self, name: str) -> str:
        """Return an argument, "" if it was not given."""
        return self.arguments.get(name, "")


def read_request(raw: str) -> OaiRequest:
    """Read an encoded query string, or the body of a form. Raises OaiError (badVerb, badArgument)."""
    try:
        pairs = read_query(raw)
    except ParseError as error:
        raise OaiError("badArgument", str(error)) from None
    verbs = [value for name, value in pairs if name == "verb"]
    if len(verbs) != 1 or verbs[0] not in _VERBS:
        known = ", ".join(_VERBS)
        raise OaiError("badVerb", f"there must be one argument verb, and it is one of: {known}")
    arguments = {name: value for name, value in pairs if name != "verb"}
    # The protocol makes a repeated argument an error (3.6).
    if len(arguments) < len(pairs) - 1:
        raise OaiError("badArgument", "an argument stands twice")
    _check(verbs[0], arguments)
    return _dated(verbs[0], arguments)


def _check(verb: str, arguments: Mapping[str, str]) -> None:
    required, optional = _VERBS[verb]
    odd = next((name for name in arguments if name not in required | optional), None)
    if odd is not None:
        raise OaiError("badArgument", f"{verb} takes no argument {_shown(odd)}")
    if RESUMED in arguments:
        if len(arguments) > 1:
            raise OaiError("badArgument", "a resumptionToken stands alone: it knows the other arguments")
        return
    missing = next((name for name in sorted(required) if name not in arguments), None)
    if missing is not None:
        raise OaiError("badArgument", f"{verb} needs the argument {missing}")
    for name, value in arguments.items():
        form = _FORMS.get(name)
        if form is not None and not form.fullmatch(value):
            raise OaiError("badArgument", f"the argument {name} cannot be {_shown(value)}")


def _dated(verb: str, arguments: Mapping[str, str]) -> OaiRequest:
    dates = {name: _moment(name, arguments[name]) for name in _DAY_MEANS if name in arguments}
    first, last = dates.get("from"), dates.get("until")
    if first is not None and last is not None:
        # The protocol requires the same granularity for both (2.7.1).
        if len(arguments["from"]) != len(arguments["until"]):
            raise OaiError(
                "badArgument", "from and until must be written alike: both with a time, or neither"
            )
        if first > last:
            raise OaiError("badArgument", "from must not be later than until")
    return OaiRequest(verb, arguments, first, last)


def _moment(name: str, text: str) -> int:
    found = _DATE.fullmatch(text)
    try:
        written = f"{found[1]}{found[2] or _DAY_MEANS[name]}" if found else ""
        moment = datetime.strptime(written, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        words = (
            f"{name} is a day or a moment of UTC, as 2026-11-22 or 2026-11-22T10:30:00Z, not {_shown(text)}"
        )
        raise OaiError("badArgument", words) from None
    return int(moment.timestamp())


def _shown(text: str) -> str:
    """Make a text from outside fit for an error message: short, and visible ASCII."""
    return "".join(char if " " <= char <= "~" else "?" for char in text[:_SHOWN])


_SETS: Final = {
    "openaccess": ("Open access", "access:open"),
    "openaire": ("OpenAIRE", "access:open"),
    "driver": ("Open Access DRIVERset", "access:open"),
    "openaire_data": ("OpenAIRE: data sets", "kind:Dataset"),
}
"""The sets that aggregators ask for: setSpec -> name of the set, and its key in the index."""
_BY: Final = {"kind": "Kind", "language": "Language"}
_BETWEEN: Final = "-"
"""Not a colon, which would imply a parent set of all records that have a kind (2.6)."""


def known_sets(values: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str]]:
    """Yield setSpec and name of all sets; `values`: the kinds and languages in the index."""
    yield from ((spec, name) for spec, (name, _) in _SETS.items())
    for what, name in _BY.items():
        yield from (
            (f"{what}{_BETWEEN}{value}", f"{name}: {value}") for value in sorted(values.get(what, ()))
        )


def index_key(spec: str) -> str | None:
    """Return the key of a set in the index, for "" that of all records; None for a set that cannot exist."""
    if not spec:
        return "data"
    if spec in _SETS:
        return _SETS[spec][1]
    what, _, value = spec.partition(_BETWEEN)
    return f"{what}:{value}" if what in _BY and value else None


def specs_of(kind: str, language: str, *, is_open: bool) -> tuple[str, ...]:
    """Return the sets of an item of this kind and language."""
    keys = {f"kind:{kind}", "access:open" if is_open else ""}
    specs = [spec for spec, (_, key) in _SETS.items() if key in keys]
    specs += [f"{what}{_BETWEEN}{value}" for what, value in (("kind", kind), ("language", language)) if value]
    return tuple(specs)
