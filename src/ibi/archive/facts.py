"""The facts of an item as JSON says them: each field read and checked on its own, then all of them together (pure).

The fields are described in docs/contract.md, under "Items as JSON lines".
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.dublin_core import read_dublin_core
from ibi.archive.holding import Access
from ibi.errors import BadItem, ParseError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.legacy import LegacyId
from ibi.protocol.language import canonical_language
from ibi.protocol.messages import split_hostport
from ibi.protocol.relation import Kind, Relation, Step
from ibi.protocol.vocabulary import ContentType, State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_LONGEST_WORDS = 4000
_LONGEST_URL = 8192
_URL = re.compile(r"https?://([^/?#@\\]+)(?:[/?#][!-\[\]-z|~]*)?", re.IGNORECASE)


def read_facts(value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are facts of a holding, under the names that they have there. Raises BadItem."""
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
    if facts.get("reason") and facts.get("state") is not State.DELETED:
        raise BadItem("only a removed item has a reason of its removal")
    if facts.get("state") is State.DELETED and (files or facts.get("url")):
        raise BadItem("a removed item has neither url nor files")


def read_text(value: Any, name: str) -> str:
    """A text. Raises BadItem for anything else."""
    if not isinstance(value, str):
        raise BadItem("{name} is a text in quotes", name=name)
    return value


def _truth(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise BadItem("{name} is true or false", name=name)
    return value


def read_mapping(value: Any, name: str) -> dict[str, str]:
    """An object of texts. Raises BadItem for anything else."""
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise BadItem("{name} is an object of texts", name=name)
    return value


def _state(value: Any, name: str) -> State:
    try:
        return State(value)
    except ValueError:
        raise BadItem("{name} is Original, Copy or Deleted", name=name) from None


def _content_type(value: Any, name: str) -> ContentType:
    try:
        return ContentType(value)
    except ValueError:
        raise BadItem("{name} is Data or Metadata", name=name) from None


def _language(value: Any, name: str) -> str:
    return canonical_language(read_text(value, name))


def _url(value: Any, name: str) -> str:
    """A URL that a redirect may lead to (note 4) and that fits into a pair."""
    text = read_text(value, name)
    match = _URL.fullmatch(text) if len(text) <= _LONGEST_URL else None
    if match is None:
        raise BadItem("{name} is an http or https URL in ASCII, without user, blanks or braces", name=name)
    _check_host(match[1])
    return text


@lru_cache(maxsize=1024)
def _check_host(text: str) -> None:
    """Refuse a host that is none; the items of one import mostly live at few of them. Raises ParseError."""
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


def _access(value: Any, name: str) -> Access:
    try:
        return Access(value)
    except ValueError:
        raise BadItem("{name} is open, embargoed, restricted or closed", name=name) from None


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


def _metadata(value: Any, _name: str) -> Any:
    return read_dublin_core(value) or None


_FACTS: Final[dict[str, tuple[str, Callable[[Any, str], Any]]]] = {
    "aliases": ("aliases", _aliases),
    "state": ("state", _state),
    "contenttype": ("content_type", _content_type),
    "language": ("language", _language),
    "transferable": ("transferable", _truth),
    "url": ("url", _url),
    "target": ("target", read_text),
    "file_list_public": ("file_list_public", _truth),
    "next_edition": ("next_edition", _link),
    "translations": ("translations", _translations),
    "metadata_item": ("metadata_item", _link),
    "metadata": ("metadata", _metadata),
    "formats": ("formats", _formats),
    "access": ("access", _access),
    "embargo": ("embargo", _day),
    "rights": ("rights", _words),
    "licence": ("licence", _url),
    "reason": ("reason", _words),
}
"""The fields that are facts of a holding: under which name, and how they are read."""

FACTS: Final = frozenset(_FACTS)
"""The names of those fields."""
