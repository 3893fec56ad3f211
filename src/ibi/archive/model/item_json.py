"""Items as JSON lines, one object a line: each field read and checked on its own, then all of them together (pure).

    rep, ibip, aliases, key, state, contenttype, timestamp, language, transferable, url, files, target,
    file_list_public, next_edition, translations, metadata_item, metadata, formats,
    access, embargo, rights, licence, reason

A link is an IBI ("sid.inpe.br/…"), or both its forms where answers are to have both ("rep … ibip …"). The fields are
described in docs/reference/formats.md, and by `ibi archive import --help`.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import MISSING, dataclass, fields, replace
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.model.item import Access, Holding, read_dublin_core
from ibi.errors import BadItem, ParseError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.ibip import IBIp
from ibi.identifier.legacy import LegacyId
from ibi.identifier.repository import UniformRepositoryName
from ibi.protocol.language import canonical_language
from ibi.protocol.messages import split_hostport
from ibi.protocol.relation import Kind, Relation, Step
from ibi.protocol.vocabulary import ContentType, ItemState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ibi.archive.model.item import MetadataValue, StoredFile


_LONGEST_WORDS = 4000  # characters of a text
_LONGEST_URL = 8192  # characters of a URL
# No user: in http://good.example@evil.example/ it passes for the host (threat T13).
_URL = re.compile(r"https?://([^/?#@\\]+)(?:[/?#][!-\[\]-z|~]*)?", re.IGNORECASE)


def read_facts(value: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields that are attributes of a holding, by the names of these. Raises BadItem."""
    facts = {}
    for name, given in value.items():
        if name not in _FACTS:
            continue
        fact, read = _FACTS[name]
        try:
            facts[fact] = read(given, name)
        except ParseError as error:
            raise BadItem("{where}: {reason}", where=name, reason=error) from None
    return facts


def check_facts(facts: Mapping[str, Any], files: Collection[str]) -> None:
    """Refuse facts that contradict each other; `files` are the names of its files. Raises BadItem."""
    if facts.get("url") and files:
        raise BadItem("an item lives at a url or has files, not both")
    if facts.get("target") and facts["target"] not in files:
        raise BadItem("the target {name} is not among the files", name=facts["target"])
    embargoed = facts.get("access") is Access.EMBARGOED
    if embargoed != bool(facts.get("embargo")):
        raise BadItem(
            "{name} is the day on which an embargoed item opens; no other item has one", name="embargo"
        )
    if facts.get("reason") and facts.get("state") is not ItemState.DELETED:
        raise BadItem("only a removed item has a reason of its removal")
    if facts.get("state") is ItemState.DELETED and (files or facts.get("url")):
        raise BadItem("a removed item has neither url nor files")


def read_text(value: Any, name: str) -> str:
    """Read a text. Raises BadItem for anything else."""
    if not isinstance(value, str):
        raise BadItem("{name} is a text in quotes", name=name)
    return value


def _truth(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise BadItem("{name} is true or false", name=name)
    return value


def read_mapping(value: Any, name: str) -> dict[str, str]:
    """Read an object of texts. Raises BadItem for anything else."""
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise BadItem("{name} is an object of texts", name=name)
    return value


def _one_of(kind: type[StrEnum], problem: str) -> Callable[[Any, str], Any]:
    """Return a function that reads a word of an enumeration, and raises BadItem with this problem for any other."""

    def read(value: Any, name: str) -> StrEnum:
        try:
            return kind(value)
        except ValueError:
            raise BadItem(problem, name=name) from None

    return read


def _language(value: Any, name: str) -> str:
    return canonical_language(read_text(value, name))


def _url(value: Any, name: str) -> str:
    """Read a URL that a redirect may lead to (note 4) and that fits into a pair."""
    text = read_text(value, name)
    match = _URL.fullmatch(text) if len(text) <= _LONGEST_URL else None
    if match is None:
        raise BadItem("{name} is an http or https URL in ASCII, without user, blanks or braces", name=name)
    _check_host(match[1])
    return text


@lru_cache(maxsize=1024)
def _check_host(text: str) -> None:
    """Refuse a host that is none. Raises ParseError."""
    # Cached, for the items of one import are mostly at few hosts.
    split_hostport(text)


def _link(value: Any, name: str) -> IBIForms:
    text = read_text(value, name)
    return IBIForms.parse(text) if " " in text else IBIForms.of(parse_ibi(text))


def _translations(value: Any, name: str) -> dict[str, IBIForms]:
    links = read_mapping(value, name)
    return {canonical_language(tag) if tag else "": _link(link, name) for tag, link in links.items()}


def _aliases(value: Any, name: str) -> tuple[LegacyId, ...]:
    if not isinstance(value, list):
        raise BadItem("{name} is a list of older opaque ids", name=name)
    return tuple(dict.fromkeys(LegacyId.parse(read_text(alias, name)) for alias in value))


def _formats(value: Any, name: str) -> dict[str, str]:
    urls = {metadata_format: _url(url, name) for metadata_format, url in read_mapping(value, name).items()}
    for metadata_format in urls:
        Relation.from_qualifier(Relation((Step(Kind.METADATA, metadata_format),)).qualifier)
    return urls


def _day(value: Any, name: str) -> str:
    text = read_text(value, name)
    try:
        if date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    raise BadItem("{name} is a day such as 2027-01-31", name=name)


def _words(value: Any, name: str) -> str:
    text = read_text(value, name)
    if len(text) > _LONGEST_WORDS:
        raise BadItem("{name} is longer than {limit} characters", name=name, limit=_LONGEST_WORDS)
    return text


_FACTS: Final[dict[str, tuple[str, Callable[[Any, str], Any]]]] = {
    "aliases": ("aliases", _aliases),
    "state": ("state", _one_of(ItemState, "{name} is Original, Copy or Deleted")),
    "contenttype": ("content_type", _one_of(ContentType, "{name} is Data or Metadata")),
    "language": ("language", _language),
    "transferable": ("transferable", _truth),
    "url": ("url", _url),
    "target": ("target", read_text),
    "file_list_public": ("file_list_public", _truth),
    "next_edition": ("next_edition", _link),
    "translations": ("translations", _translations),
    "metadata_item": ("metadata_item", _link),
    "metadata": ("metadata", lambda value, _name: read_dublin_core(value) or None),
    "formats": ("formats", _formats),
    "access": ("access", _one_of(Access, "{name} is open, embargoed, restricted or closed")),
    "embargo": ("embargo", _day),
    "rights": ("rights", _words),
    "licence": ("licence", _url),
    "reason": ("reason", _words),
}
"""The fields that are attributes of a holding: the name of the attribute, and how it is read."""

FACTS: Final = frozenset(_FACTS)
"""The names of those fields."""


def usual_facts(names: Iterable[str]) -> dict[str, Any]:
    """Return the attributes of these fields as an item has them whose line is without the fields."""
    usual = {each.name: {} if each.default is MISSING else each.default for each in fields(Holding)}
    return {attribute: usual[attribute] for attribute, _ in map(_FACTS.__getitem__, names)}


LONGEST_LINE: Final = 1 << 20
"""Bytes of the longest line that is read."""

_LONGEST_KEY = 512  # characters of a depositor's own key


@dataclass(frozen=True, slots=True)
class Draft:
    """An item as a line describes it: without names some are minted, without timestamp it gets the present one.

    `files`: the path of each file, relative to the folder of the lines, by its percent-encoded name.
    """

    forms: IBIForms | None
    key: str
    timestamp: str | None
    files: Mapping[str, str]
    facts: Mapping[str, Any]

    def holding(self, forms: IBIForms, timestamp: str, files: tuple[StoredFile, ...] = ()) -> Holding:
        """Return the item, completed by what the line left open."""
        return Holding(
            forms=forms, key=self.key, timestamp=self.timestamp or timestamp, files=files, **self.facts
        )


def read_line(line: bytes) -> Draft:
    """Read one line. Raises BadItem or ParseError, which say what is wrong with it."""
    try:
        value = _DECODER.decode(line.decode())
    except (ValueError, RecursionError):
        raise BadItem("the line is not JSON") from None
    if not isinstance(value, dict):
        raise BadItem("the line is not a JSON object")
    draft = read_item(value)
    if b"\\u" in line:
        # JSON can write half a surrogate pair, which no file or database can store.
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise BadItem("the line has half a character in it") from None
    return keyed(draft, value)


def keyed(draft: Draft, value: Mapping[str, Any]) -> Draft:
    """Give a draft without names and key a key made of its content: so a second import changes nothing (note 11)."""
    if draft.forms is not None or draft.key:
        return draft
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return replace(draft, key=f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object, and refuse a name that occurs twice: one of its values would be lost silently."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise BadItem("a name stands twice in one object")
    return value


def read_item(value: Mapping[str, Any]) -> Draft:
    """Read the object of one item. Raises BadItem or ParseError."""
    odd = sorted(set(value) - FIELDS)
    if odd:
        raise BadItem("there is no field {name}", name=odd[0])
    rep = UniformRepositoryName.parse(read_text(value["rep"], "rep")) if "rep" in value else None
    ibip = IBIp.parse(read_text(value["ibip"], "ibip")) if "ibip" in value else None
    forms = IBIForms(rep, ibip) if rep or ibip else None
    facts = read_facts(value)
    files = read_mapping(value.get("files", {}), "files")
    check_facts(facts, files)
    key = _key(value.get("key", ""), "key")
    timestamp = _timestamp(value["timestamp"], "timestamp") if "timestamp" in value else None
    return Draft(forms, key, timestamp, files, facts)


def write_item(holding: Holding) -> dict[str, Any]:
    """Write an item as such an object, without usual values; of its files size, SHA-256 and type."""
    forms = holding.forms
    value = {
        "rep": forms.rep and str(forms.rep),
        "ibip": forms.ibip and str(forms.ibip),
        "aliases": [str(alias) for alias in holding.aliases],
        "key": holding.key,
        "state": holding.state.value,
        "contenttype": holding.content_type.value,
        "timestamp": holding.timestamp,
        "language": holding.language,
        "transferable": holding.transferable,
        "url": holding.url,
        "files": {
            file.name: {"size": file.size, "sha256": file.sha256, "type": file.media_type}
            for file in holding.files
        },
        "target": holding.target,
        "file_list_public": holding.file_list_public,
        "next_edition": _written(holding.next_edition),
        "translations": {tag: _written(link) for tag, link in holding.translations.items()},
        "metadata_item": _written(holding.metadata_item),
        "metadata": {
            name: [_value_json(each) for each in values] for name, values in (holding.metadata or {}).items()
        },
        "formats": dict(holding.formats),
        "access": holding.access.value,
        "embargo": holding.embargo,
        "rights": holding.rights,
        "licence": holding.licence,
        "reason": holding.reason,
    }
    return {name: each for name, each in value.items() if each not in (None, "", [], {}, _USUAL.get(name))}


def _written(link: IBIForms | None) -> str | None:
    if link is None:
        return None
    return str(link) if link.rep and link.ibip else str(link.main)


def _value_json(statement: MetadataValue) -> Any:
    return {"value": statement.value, "lang": statement.language} if statement.language else statement.value


_USUAL = {
    "state": "Original", "contenttype": "Data", "transferable": True, "file_list_public": True, "access": "open",
}  # fmt: skip


def timestamp_text(seconds: float) -> str:
    """Return a moment (POSIX seconds) as timestamps are written: "2014-01-02T17:23:57Z"."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _key(value: Any, name: str) -> str:
    text = read_text(value, name)
    if len(text) > _LONGEST_KEY or not text.isprintable():
        raise BadItem("{name} is a short printable text", name=name)
    return text


def _timestamp(value: Any, name: str) -> str:
    """Read any ISO 8601 moment, as UTC and without a fraction (AMB-57)."""
    try:
        moment = datetime.fromisoformat(read_text(value, name))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return f"{moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat()}Z"
    except (ValueError, OverflowError):
        raise BadItem("{name} is a moment such as 2009-07-21T13:23:45Z", name=name) from None


# Made once: json.loads with a hook makes a decoder for each line.
_DECODER = json.JSONDecoder(object_pairs_hook=_once)
FIELDS: Final = frozenset({*FACTS, "rep", "ibip", "key", "timestamp", "files"})
"""The names that a description of an item may have; any other is refused."""
