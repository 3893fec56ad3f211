"""Persistent URLs: an IBI, perhaps a relation, a file path and a query (R15 chapter 8, URL-01 to URL-21).

    /8JMKD3MGP8W/35MMLL8!:(oai_dc)/a/file.pdf?ibiurl.requireditemstatus=Original&x=1
     └────── ibi ──────┘└modifier┘└file path┘ └──────────── query ─────────────────┘

A URL is read from its raw path and raw query; the file path and the query pairs for the item stay raw.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.errors import ParseError
from ibi.identifier.forms import Name, parse_name
from ibi.identifier.ibip import IBIp
from ibi.identifier.legacy import LegacyId
from ibi.identifier.repository import UniformRepositoryName
from ibi.identifier.unwrapping import unwrap
from ibi.protocol import _grammar
from ibi.protocol import vocabulary as terms
from ibi.protocol.query_string import split_query, unescape
from ibi.protocol.relation import ITEM, Relation
from ibi.protocol.verb_list import GET_FILE_LIST, NO_VERBS, VerbList

if TYPE_CHECKING:
    from collections.abc import Callable

WHAT: Final = "persistent URL"
# Production links have a segment before the IBI, links of registries of prefixes the compact form "ibi:<ibi>".
_BEFORE = re.compile(r"ibi/|rep/|[Ii][Bb][Ii](?::|%3[Aa])").match
_COMPACT = re.compile(r"\A/ibi(?::|%3a)", re.ASCII | re.IGNORECASE)
_TRAILING = ".,;)]}>\"'*"  # punctuation of the sentence around a URL
_MOST_TRAILING = 8  # characters at the end of a text that may not belong to the URL
_REPOSITORY_SEGMENTS = 4
_OPAQUE_SEGMENTS = 2
_LEGACY_QUERY = "?"  # "??" at the end of a URL is the old way to ask for the metadata (AMB-40)
_INFLECTIONS = ("info", "json")
_ESCAPED = re.compile(r"%(?:21|28|29|2[Bb]|3[Aa]|40)")  # ! ( ) + : @ and nothing else (URL-03)


# A browser, proxy or holder would resolve such a part to another path (T21: paths out of the store); some decode an
# escaped slash.
_CLIMBING = re.compile(
    r"(?:(?<=/)|(?<=%2f))(?:\.|%2e){1,2}(?=/|%2f|\Z)|\\|%(?:5c|00|0a|0d)", re.ASCII | re.IGNORECASE
).search
_NO_SUCH_PART: Final = 'a part of a path is neither "." nor "..", and has no backslash and no line end'

_NOT_IN_QUERY = re.compile("[^!-~]").search


class _QueryParts(NamedTuple):
    """The parts of a query component."""

    verbs: tuple[str, ...] = ()
    original_required: bool = False
    foreign: str = ""
    inflection: str | None = None
    ignored: tuple[str, ...] = ()


_NO_QUERY = _QueryParts()


class PersistentURL(NamedTuple):
    """A persistent URL without its authority; immutable."""

    ibi: Name
    """The item, in the spelling that was used."""
    modifier: str
    """The modifier as written, escapes undone; "" if none."""
    verbs: VerbList
    """The verbs of the modifier, then those of the query (URL-09: verbs are added)."""
    relation: Relation
    """The relation that the verbs ask for."""
    file_path: str
    """The path of a file of the item, raw, with its first slash; "" if none."""
    original_required: bool
    """Whether the original is demanded, so that no copy will do (URL-14: requiring the original)."""
    foreign_query: str
    """The pairs that are meant for the item, raw and in order, joined by "&" (URL-15: foreign pairs go on)."""
    inflection: str | None
    """ "info" or "json" for the exact queries `?info` and `?json`."""
    ignored: tuple[str, ...]
    """Raw pairs whose name begins with "ibiurl." but is unknown (WILD-03)."""
    wrappers: tuple[str, ...]
    """The texts that were removed before and after the URL, in order: "/rep/" or "/ibi:", ")."."""
    text: str
    """Path and query as received."""

    @classmethod
    def parse(cls, raw_path: str, raw_query: str = "") -> PersistentURL:
        """Read the path (from its first slash) and the query (without its "?") of a request.

        Raises ParseError if there is no IBI, if modifier or verbs have no meaning, if the query contradicts itself,
        and for a path with a part "." or "..", backslash, NUL, CR or LF, even escaped (T21: paths out of the store).
        """
        text = f"{raw_path}?{raw_query}" if raw_query else raw_path
        if len(text) > _grammar.MAX_URL:
            raise ParseError(WHAT, text, "it is longer than {limit} characters", limit=_grammar.MAX_URL)
        ibi, modifier, file_path, wrappers = _split(raw_path)
        odd = _CLIMBING(file_path) if file_path else None
        if odd is not None:
            start = raw_path.rindex(file_path)
            raise ParseError(WHAT, raw_path, _NO_SUCH_PART, start + odd.start(), start + odd.end())
        query = _read_query(raw_query) if raw_query else _NO_QUERY
        if raw_query == _LEGACY_QUERY:
            modifier += ":"
        relation, verbs = _wanted_by(modifier, query.verbs) if modifier or query.verbs else (ITEM, NO_VERBS)
        return cls(
            ibi, modifier, verbs, relation, file_path,
            query.original_required, query.foreign, query.inflection, query.ignored, wrappers, text,
        )  # fmt: skip

    @classmethod
    def from_text(cls, text: str) -> PersistentURL:
        """Read a whole URL, or one without scheme and authority; the authority is ignored (AMB-49)."""
        rest = text.partition("#")[0]
        for scheme in ("http://", "https://"):
            if rest[: len(scheme)].lower() == scheme:
                rest = "/" + rest[len(scheme) :].partition("/")[2]
                break
        path, _, query = rest.partition("?")
        return cls.parse(path if path.startswith("/") else f"/{path}", query)

    @property
    def file_list(self) -> bool:
        """Whether the list of files is wanted, not the item: GetFileList anywhere in the verbs (URL-08)."""
        return GET_FILE_LIST in self.verbs.verbs

    def __str__(self) -> str:
        return self.text


def persistent_path(text: str) -> str:
    """Return path and query of the persistent URL that a text is or contains. Raises ParseError."""
    # First without unwrapping, by which a text that is a persistent URL would lose its query or its file.
    try:
        return _COMPACT.sub("/", PersistentURL.from_text(text.strip()).text)
    except ParseError:
        found = unwrap(text)
    try:
        return PersistentURL.from_text(f"/{found.ibi}{found.after}").text
    except ParseError:
        return f"/{found.ibi}"


@lru_cache(maxsize=1024)
def _wanted_by(modifier: str, later: tuple[str, ...] = ()) -> tuple[Relation, VerbList]:
    """Return the relation and the verbs of the modifier followed by those of the query (URL-09: verbs are added)."""
    relation = Relation.from_modifier(modifier)
    verbs = VerbList.of(relation)
    if later:
        verbs = verbs.union(later)
        relation = verbs.relation
    return relation, verbs


def _split(raw_path: str) -> tuple[Name, str, str, tuple[str, ...]]:
    """Split into IBI, modifier, file path and wrappers: what is before, punctuation behind (WILD-01)."""
    whole = raw_path.removeprefix("/")
    try:
        return *_read_path(whole), ()
    except ParseError as fault:
        before = _BEFORE(whole)
        wrapper = before[0] if before else ""
        inside = whole.removeprefix(wrapper)
        bare = inside.rstrip(_TRAILING)
        shortest = max(len(bare), len(inside) - _MOST_TRAILING)
        # As little punctuation as possible is removed, because a path may end with a bracket.
        for end in range(len(inside), shortest - 1, -1):
            try:
                found = _read_path(inside[:end])
            except ParseError:
                continue
            return *found, tuple(part for part in (wrapper and f"/{wrapper}", inside[end:]) if part)
        raise fault.within(WHAT, raw_path, len(raw_path) - len(whole)) from None


def _read_path(whole: str) -> tuple[Name, str, str]:
    """Read IBI, modifier and file path; the forms of IBI are tried in the order of URL-03."""
    dotted = "." in whole.partition("/")[0]
    found = None if dotted else _try_form(whole, _OPAQUE_SEGMENTS, IBIp.parse)
    if found is None:
        found = _try_form(whole, _REPOSITORY_SEGMENTS, UniformRepositoryName.parse)
    elif _DATED(found[2]):  # mx/face/2020/01.02.03.04 might be an IBIp and a path (AMB-38: both forms fit)
        label = found[0]
        other = _try_form(whole, _REPOSITORY_SEGMENTS, UniformRepositoryName.parse)
        if other is not None and isinstance(label, IBIp) and label.ip is None:
            found = other
    if found is None and not dotted:
        found = _try_form(whole, _OPAQUE_SEGMENTS, LegacyId.parse)
    if found is None:
        raise _fault(whole)
    if found[2] and not _grammar.path_match(found[2]):
        problem = "after the identifier, a path starts with one slash and has no blanks"
        raise ParseError(WHAT, whole, problem, len(whole) - len(found[2]))
    if found[1]:
        try:
            _wanted_by(found[1])
        except ParseError as fault:
            raise fault.within(WHAT, whole, len(str(found[0]))) from None
    return found


def _try_form(whole: str, segments: int, parse: Callable[[str], Name]) -> tuple[Name, str, str] | None:
    """Read the first segments as a form of IBI with a modifier, the rest as file path; None if none fits."""
    head, path, slashes = whole, "", whole.count("/")
    if slashes < segments - 1:
        return None
    if slashes >= segments:
        rest = whole.split("/", segments)[segments]
        cut = len(whole) - len(rest) - 1
        head, path = whole[:cut], whole[cut:] if rest else ""
    if "%" in head:
        head = _ESCAPED.sub(lambda escape: unescape(escape[0]), head)
    match = _MODIFIER_START(head)
    try:
        if match is None:
            return parse(head), "", path
        cut = match.start()
        return parse(head[:cut]), head[cut:], path
    except ParseError:
        return None


_DATED = re.compile(r"/[0-9]{4,}/[0-9]{2}\.").match
_MODIFIER_START = re.compile(r"[!+:]").search


def _fault(whole: str) -> ParseError:
    """Return the error of a path without any form of IBI."""
    head = "/".join(whole.split("/")[:_REPOSITORY_SEGMENTS])
    try:
        parse_name(re.split("[!+:]", head)[0])
    except ParseError as fault:
        return fault.within(WHAT, whole, 0)
    return ParseError(WHAT, whole, "no identifier stands here")


# A small cache: known pairs come in few combinations, and the queries of strangers must not fill the memory.
@lru_cache(maxsize=256)
def _read_query(raw: str) -> _QueryParts:
    """Split the query into the pairs of the system and those of the item (URL-15, AMB-48)."""
    if raw == _LEGACY_QUERY:
        return _NO_QUERY
    odd = _NOT_IN_QUERY(raw)
    if odd is not None:
        raise ParseError(WHAT, raw, "this character cannot stand in a URL as it is", odd.start(), odd.end())
    if raw in _INFLECTIONS:
        return _QueryParts(inflection=raw)
    foreign, ignored, ours = [], [], {}
    for element in split_query(raw):
        name, _, value = element.partition("=")
        name = unescape(name)
        if not name.startswith(terms.OUR_PARAMETERS):
            foreign.append(element)
        elif name not in {terms.VERBS_OF_URL, terms.REQUIRED_STATE}:
            ignored.append(element)
        elif name in ours:
            raise ParseError(WHAT, raw, "{name} is given twice", name=name)
        else:
            ours[name] = unescape(value)
    required = ours.get(terms.REQUIRED_STATE)
    if required not in {None, "Original"}:
        raise ParseError(WHAT, raw, "the only state that can be required is Original")
    verbs = VerbList.parse(ours.get(terms.VERBS_OF_URL, "")).verbs
    return _QueryParts(verbs, required is not None, "&".join(foreign), None, tuple(ignored))
