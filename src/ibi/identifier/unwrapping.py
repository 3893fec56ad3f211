"""Unwrapping: finding an identifier in the text around it, and naming each piece around it (WILD-01).

    (see http://a.sid.inpe.br/col/sid.inpe.br/mtc-m17@80/2007/05.09.14.53/doc/paper.pdf).
     words   archive address  path                 IBI                    path   after   punctuation

The identifier itself must match a grammar exactly; the text around it may be anything. Takes linear time.
The kinds of pieces are listed in `wrappers`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ibi.errors import ParseError
from ibi.identifier import _grammar, wrappers
from ibi.identifier.forms import Name, parse_name
from ibi.identifier.ibip import IBIp
from ibi.identifier.legacy import LEGACY_RULE, LegacyId
from ibi.identifier.repository import UniformRepositoryName
from ibi.identifier.typos import likely_spelling
from ibi.identifier.wrappers import Wrapper

if TYPE_CHECKING:
    from collections.abc import Iterator


MAX_TEXT = 4096
"""Characters of the longest text that is searched."""


class Unwrapped(NamedTuple):
    """An identifier and the pieces around it.

    `after`: the raw text directly behind it, which may be modifier, path and query of a persistent URL.
    `others`: further identifiers in the text, in order (the link of a viewer names the viewer and the item).
    """

    ibi: Name
    after: str
    wrappers: tuple[Wrapper, ...]
    others: tuple[Name, ...]


class _LabelMatch(NamedTuple):
    start: int
    end: int
    name: Name


def unwrap(text: str) -> Unwrapped:
    """Find the identifier that a text is about. Raises ParseError, with a likely spelling if there is one."""
    if len(text) > MAX_TEXT:
        problem = "the text is longer than {limit} characters"
        raise ParseError("IBI", text, problem, MAX_TEXT, limit=MAX_TEXT)
    for view, repairs in _views(text):
        found = list(_labels(view))
        if found:
            main = _subject(view, found)
            if not _is_cut(view, main):
                return _unwrapped(view, main, found, repairs)
    raise _fault(text)


def _unwrapped(view: str, main: _LabelMatch, found: list[_LabelMatch], repairs: list[Wrapper]) -> Unwrapped:
    ahead = wrappers.before(view[: main.start])
    after, rest = wrappers.behind(view[main.end :], ahead)
    others = dict.fromkeys(label.name for label in found if label.name != main.name)
    return Unwrapped(main.name, after, (*repairs, *ahead, *rest), tuple(others))


# --- repairing the text step by step until a label is found ------------------------------------------------

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]+")
_ENTITY = re.compile(
    r"&(?:#0*(?P<number>[0-9]{2,3});|(?P<name>amp|gt|lt|quot|apos|nbsp);|(?:gt|lt|quot|nbsp)(?![0-9A-Za-z=]))"
)
_ENCODED = re.compile("%(?:2[1-9A-Fa-f]|[3-6][0-9A-Fa-f]|7[0-9A-Ea-e])")  # printable ASCII but the blank
_LOOSE_BLANKS = re.compile(r"(?<=[/.@])\s+(?=[0-9A-Za-z])|(?<=[0-9A-Za-z])\s+(?=[/.@][0-9A-Za-z])")
_LINE_BREAKS = re.compile(r"(?<![ \t])[ \t]*[\r\n]\s*")
# Field names of catalogue pages that end up directly before the value when a page is copied.
_FIELD_NAME = re.compile("(?:Repositório de Metadados|Metadata Repository)(?=[0-9A-Za-z])")


def _views(text: str) -> Iterator[tuple[str, list[Wrapper]]]:
    """Yield the text unchanged, decoded, without blanks, without line breaks; each with its repairs."""
    repairs: list[Wrapper] = []

    def repaired(view: str, kind: str, pattern: re.Pattern[str], replacement: str = "") -> str:
        gone = [match[0] for match in pattern.finditer(view)]
        if gone:
            repairs.append(
                Wrapper(kind, " ".join(dict.fromkeys(gone)) if kind == "percent encoding" else "".join(gone))
            )
        if kind in {"entity", "percent encoding"}:
            return pattern.sub(_decoded, view)
        return pattern.sub(replacement, view)

    view = repaired(text, "invisible characters", _INVISIBLE)
    view = repaired(view, "entity", _ENTITY)
    view = repaired(view, "words", _FIELD_NAME, " ")
    yield view, list(repairs)
    for _ in range(2):  # once for a link inside a link, twice for one more
        if _ENCODED.search(view):
            view = repaired(view, "percent encoding", _ENCODED)
            yield view, list(repairs)
    if _LOOSE_BLANKS.search(view):
        view = repaired(view, "blanks", _LOOSE_BLANKS)
        yield view, list(repairs)
    if _LINE_BREAKS.search(view):
        yield repaired(view, "line break", _LINE_BREAKS), list(repairs)


def _decoded(match: re.Match[str]) -> str:
    """Return the character of an entity or percent encoding; a blank for entities that no label can have."""
    if match[0].startswith("%"):
        return chr(int(match[0][1:], 16))
    if match["number"]:
        return chr(int(match["number"]))
    return "&" if match["name"] == "amp" else " "


# --- the labels in it ----------------------------------------------------------------------------------------------

# A label begins and ends where a word does, so that no part of a text is read more than a few times.
_LETTER = "0-9A-Za-z\u00c0-\u024f"  # with accented letters: they continue a word, although no label has them
_REPOSITORY = re.compile(
    rf"(?<![{_LETTER}-])(?<![{_LETTER}]\.){_grammar.REPOSITORY_RULE}(?![{_LETTER}]|\.[0-9])", re.ASCII
)
_IBIP = re.compile(rf"(?<![{_LETTER}]){_grammar.IBIP_RULE}(?![{_LETTER}])", re.ASCII)
_LEGACY = re.compile(rf"(?<![{_LETTER}]){LEGACY_RULE}(?![{_LETTER}])", re.ASCII)
_AT_RESOLVER = re.compile(rf"\s*(?:{wrappers.RESOLVER_ADDRESS}|/)?(?:(?:ibi|rep)/)?", re.ASCII)
_VIEWED = re.compile(r"mirrorget\.cgi\?(?:[^\s?#]*&)?metadatarepository=\Z")
_PASSED_ON = re.compile(r"/doc/(?:goto-?|rep-?|ibi|[0-9A-Za-z_-]{1,64}\.cgi)/\Z")
_CONTINUED = re.compile(r"[ \t]*\r?\n\s*([2-9A-HJ-NP-Ua-hj-np-u]+)(?![0-9A-Za-z])")


def _labels(view: str) -> Iterator[_LabelMatch]:
    """Yield every label, from left to right, without overlaps."""
    at_home = _AT_RESOLVER.match(view)
    home = at_home.end() if at_home else 0
    found = [*_ibips(view, home), *_legacy_ids(view)]
    found.extend(
        _LabelMatch(match.start(), match.end(), UniformRepositoryName.parse(match[0]))
        for match in _REPOSITORY.finditer(view)
        if len(match[0]) <= _grammar.MAX_LABEL
    )
    # If an IBIp and another label begin together, the IBIp is taken if it spells an address (URL-03: the order of
    # parsing).
    found.sort(key=lambda label: (label.start, isinstance(label.name, IBIp) and label.name.ip is None))
    reached = 0
    for label in found:
        if label.start >= reached:
            reached = label.end
            yield label


def _ibips(view: str, home: int) -> Iterator[_LabelMatch]:
    """Yield the IBIps that spell an address, and any IBIp at `home`, where a persistent URL has its IBI."""
    at = 0
    while match := _IBIP.search(view, at):
        label = IBIp.parse(match[0]) if len(match[0]) <= _grammar.MAX_LABEL else None
        if label and (label.ip is not None or match.start() == home):
            yield _LabelMatch(match.start(), match.end(), label)
            at = match.end()
        else:
            at = view.index("/", match.start()) + 1


def _legacy_ids(view: str) -> Iterator[_LabelMatch]:
    for match in _LEGACY.finditer(view):
        try:
            yield _LabelMatch(match.start(), match.end(), LegacyId.parse(match[0]))
        except ParseError:
            continue


def _subject(view: str, found: list[_LabelMatch]) -> _LabelMatch:
    """Return the label that the text is about: the one that a viewer or page is to show, else the first."""
    for label in found[1:]:
        ahead = view[: label.start][-512:]
        if _VIEWED.search(ahead) or _PASSED_ON.search(ahead):
            return label
    return found[0]


def _is_cut(view: str, label: _LabelMatch) -> bool:
    """Return whether a line break cuts the label: an IBIp too short for this century, and digits below it."""
    suffix = label.name.suffix
    short = isinstance(label.name, IBIp) and len(suffix) < len("Q5S2PS")
    below = _CONTINUED.match(view, label.end)
    return short and below is not None and len(suffix + below[1]) in {len("Q5S2PS"), len("35MMLL8")}


def _fault(text: str) -> ParseError:
    """Return the error of a text without a label, pointing at the part that most resembles one."""
    tokens = [*re.finditer(r"[^\s<>\"']+", text)]
    if not tokens:
        return ParseError("IBI", text, "there is nothing to read")
    token = max(
        tokens, key=lambda token: (bool(re.search(r"[/\\]", token[0])), sum(map(str.isdigit, token[0])))
    )
    wrapped = wrappers.LEADING.match(token[0])
    skipped = wrapped.end() if wrapped else 0
    core = token[0][skipped:].rstrip(".,;)]}*")
    start = token.start() + skipped
    suggestion = likely_spelling(re.split("[!+?]", core)[0]) or likely_spelling(text)
    if not re.search(r"[0-9/\\]", core):
        return ParseError("IBI", text, "there is no IBI in this text", suggestion=suggestion)
    try:
        parse_name(core)
    except ParseError as error:
        return ParseError(
            "IBI", text, error.problem, start + error.start, start + error.end, suggestion, **error.details
        )
    return ParseError("IBI", text, "there is no IBI in this text", start, start + len(core), suggestion)
