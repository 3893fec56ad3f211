"""The fields of an item, each defined once: how it is read and written, and what it means.

This table determines the lines of imports, the JSON interface and its description, the options of the
commands, the form of the administration, and the fields that a copy takes over. Add a new field at the end.
`docs/reference/recipes-items.md` lists what else a field needs (a column, places on pages, in formats).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ibi.archive.model.item import Access, MetadataValue, read_dublin_core
from ibi.errors import BadItem
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.legacy import LegacyId
from ibi.protocol.language import canonical_language
from ibi.protocol.messages import split_hostport
from ibi.protocol.relation import Relation, Step, StepKind
from ibi.protocol.vocabulary import ContentType, ItemState

_LONGEST_WORDS = 4000  # characters of `rights`, or of a reason
_LONGEST_NAME = 200  # characters of the name of an institution, as in its settings
_MOST_NAMES = 20  # languages of such a name
_LONGEST_URL = 8192  # characters of a URL
# No user before "@": in http://good.example@evil.example/ the user looks like the host (T13: unsafe redirects).
_URL = re.compile(r"https?://([^/?#@\\]+)(?:[/?#][!-\[\]-z|~]*)?", re.IGNORECASE)


def read_text(value: Any, name: str) -> str:
    """Read a text. Raises BadItem for any other type."""
    if not isinstance(value, str):
        raise BadItem("{name} is a text in quotes", name=name)
    return value


def _truth(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise BadItem("{name} is true or false", name=name)
    return value


def read_mapping(value: Any, name: str) -> dict[str, str]:
    """Read an object whose values are texts. Raises BadItem for any other value."""
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise BadItem("{name} is an object of texts", name=name)
    return value


def _one_of(kind: type[StrEnum], problem: str) -> Callable[[Any, str], Any]:
    """Return a function that reads a value of an enumeration, or raises BadItem with this problem."""

    def read(value: Any, name: str) -> StrEnum:
        try:
            return kind(value)
        except ValueError:
            raise BadItem(problem, name=name) from None

    return read


def _language(value: Any, name: str) -> str:
    return canonical_language(read_text(value, name))


def _url(value: Any, name: str) -> str:
    """Read a URL to which a redirect may lead (note 4: where a redirect may lead) and that fits into a pair."""
    text = read_text(value, name)
    match = _URL.fullmatch(text) if len(text) <= _LONGEST_URL else None
    if match is None:
        raise BadItem("{name} is an http or https URL in ASCII, without user, blanks or braces", name=name)
    _check_host(match[1])
    return text


@lru_cache(maxsize=1024)
def _check_host(text: str) -> None:
    """Check that a text is "host[:port]". Raises ParseError."""
    # Cached, because the items of one import are mostly at few hosts.
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
        Relation.from_qualifier(Relation((Step(StepKind.METADATA, metadata_format),)).qualifier)
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


def _names(value: Any, name: str) -> dict[str, str]:
    names = read_mapping(value, name)
    for each in names.values():
        # Another Archive may send it, and it stands in citations: one line, without marks of direction (T12: smuggled
        # line ends).
        if not each.strip() or len(each) > _LONGEST_NAME or not each.isprintable():
            raise BadItem("{name} is the name of an institution, by language", name=name)
    if len(names) > _MOST_NAMES:
        raise BadItem("{name} is the name of an institution, by language", name=name)
    return {canonical_language(tag) if tag else "": each for tag, each in names.items()}


class FormKind(StrEnum):
    """How the form of the administration asks for a field."""

    NONE = ""
    TEXT = "text"
    DATE = "date"
    URL = "url"
    CHOICE = "choice"
    TRUTH = "truth"


class ItemField(NamedTuple):
    """One field of an item: `read(json, name)` raises BadItem or ParseError; `write(value)` returns JSON.

    `schema`: its JSON Schema; `meaning`: its description for programs; `label`: its name in the form;
    `option`: that of the commands deposit and edit; `admin_only`: set by administrators on new items, never edited.
    """

    name: str
    attribute: str
    read: Callable[[Any, str], Any]
    write: Callable[[Any], Any]
    schema: Mapping[str, Any]
    meaning: str
    label: str = ""
    form: FormKind = FormKind.NONE
    option: str = ""
    admin_only: bool = False


def _same(value: Any) -> Any:
    return value


def _written(link: IBIForms | None) -> str | None:
    if link is None:
        return None
    return str(link) if link.rep and link.ibip else str(link.main)


def _value_json(statement: MetadataValue) -> Any:
    return {"value": statement.value, "lang": statement.language} if statement.language else statement.value


def _metadata_json(metadata: Mapping[str, tuple[MetadataValue, ...]] | None) -> dict[str, Any]:
    return {name: [_value_json(each) for each in values] for name, values in (metadata or {}).items()}


def _metadata(value: Any, _name: str) -> Any:
    return read_dublin_core(value) or None


_TEXT: Final = {"type": "string"}
_TRUE_OR_FALSE: Final = {"type": "boolean"}
_URI: Final = {"type": "string", "format": "uri"}
_TEXTS: Final = {"type": "object", "additionalProperties": _TEXT}
_STATEMENT: Final = {
    "oneOf": [
        _TEXT,
        {
            "type": "object", "required": ["value"], "properties": {"value": _TEXT, "lang": _TEXT},
            "additionalProperties": False,
        },
    ],
}  # fmt: skip
_METADATA: Final = {
    "type": "object",
    "additionalProperties": {"oneOf": [_TEXT, {"type": "array", "items": _STATEMENT}]},
}
_LANGUAGE: Final = {"type": "string", "pattern": "^[A-Za-z]{2}(-[A-Za-z]{2})?$"}
_ACCESS: Final = {"enum": [each.value for each in Access]}

ITEM_FIELDS: Final = (
    ItemField(
        "aliases", "aliases", _aliases, lambda ids: [str(each) for each in ids],
        {"type": "array", "items": _TEXT}, "list of older opaque ids of the same item", admin_only=True,
    ),
    ItemField(
        "state", "state", _one_of(ItemState, "{name} is Original, Copy or Deleted"), str,
        {"enum": [each.value for each in ItemState]}, "Original (default), Copy or Deleted", admin_only=True,
    ),
    ItemField(
        "contenttype", "content_type", _one_of(ContentType, "{name} is Data or Metadata"), str,
        {"enum": [each.value for each in ContentType]}, "Data (default) or Metadata", "Content",
        FormKind.CHOICE,
    ),
    ItemField(
        "language", "language", _language, _same, _LANGUAGE, "such as en or pt-BR", "Language of the item",
        FormKind.TEXT, "--language TAG",
    ),
    ItemField(
        "transferable", "transferable", _truth, _same, _TRUE_OR_FALSE, "true (default) or false",
        "The original may go to another Archive", FormKind.TRUTH,
    ),
    ItemField(
        "url", "url", _url, _same, _URI, "a linked item: where it lives", "Address of the item elsewhere",
        FormKind.URL, "--url URL",
    ),
    ItemField(
        "target", "target", read_text, _same, _TEXT, "the file that is served by default",
        "File that is shown first", FormKind.TEXT, "--target NAME",
    ),
    ItemField(
        "file_list_public", "file_list_public", _truth, _same, _TRUE_OR_FALSE, "true (default) or false",
        "Readers see the list of files", FormKind.TRUTH,
    ),
    ItemField("next_edition", "next_edition", _link, _written, _TEXT, "IBI of the next edition"),
    ItemField(
        "translations", "translations", _translations,
        lambda links: {tag: _written(link) for tag, link in links.items()}, _TEXTS,
        '{"pt": IBI}; "" where the language is not stated',
    ),
    ItemField(
        "metadata_item", "metadata_item", _link, _written, _TEXT, "IBI of the item that is this one's metadata"
    ),
    ItemField(
        "metadata", "metadata", _metadata, _metadata_json, _METADATA,
        'Dublin Core: {"title": ["...", {"value": "...", "lang": "pt"}]}',
    ),
    ItemField(
        "formats", "formats", _formats, dict, _TEXTS,
        '{"oai_dc": URL}: where the metadata lie in a format; on the item that is the metadata',
    ),
    ItemField(
        "access", "access", _one_of(Access, "{name} is open, embargoed, restricted or closed"), str, _ACCESS,
        "who may have it: open (default), embargoed, restricted or closed", "Who may have the files",
        FormKind.CHOICE, "--access",
    ),
    ItemField(
        "embargo", "embargo", _day, _same, {"type": "string", "format": "date"},
        "the day on which it becomes open, withheld from all readers before: 2027-01-31", "End of the embargo",
        FormKind.DATE, "--embargo DAY",
    ),
    ItemField(
        "rights", "rights", _words, _same, _TEXT, "what may be done with it", "What may be done with it",
        FormKind.TEXT, "--rights TEXT",
    ),
    ItemField(
        "licence", "licence", _url, _same, _URI, "the URL of its licence", "Licence", FormKind.URL,
        "--licence URL",
    ),
    ItemField("reason", "reason", _words, _same, _TEXT, "why a removed item was removed", admin_only=True),
    ItemField(
        "institution", "institution", _names, dict, _TEXTS,
        '{"pt": NAME}: where it was deposited, if that was in another Archive', admin_only=True,
    ),
    ItemField(
        "replacement", "replacement", _link, _written, _TEXT, "IBI of the item that takes a removed one's place",
        admin_only=True,
    ),
)  # fmt: skip
"""The fields that are attributes of a holding, in the order of the documentation."""

BY_NAME: Final = {each.name: each for each in ITEM_FIELDS}
"""The fields by their names."""

EDITED: Final = tuple(each for each in ITEM_FIELDS if not each.admin_only)
"""The fields that can be edited."""
