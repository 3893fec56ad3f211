"""An item as an Archive holds it, its files, its Dublin Core (ARC and SVC in docs/standard/requirements.tsv; pure).

Dublin Core has fifteen elements; an element has values, and each value may state its language.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes
from xml.sax.saxutils import escape, quoteattr

from ibi.errors import BadItem, Unsettled
from ibi.protocol.vocabulary import ContentType, ItemState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.identifier.forms import IBIForms, Name
    from ibi.identifier.legacy import LegacyId


class Access(StrEnum):
    """Which readers may have the data of an item; its metadata are open to all readers."""

    OPEN = "open"
    EMBARGOED = "embargoed"
    """Closed before a certain day, and open from then on."""
    RESTRICTED = "restricted"
    """Open to readers in the networks that the settings of the Archive name."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of an item, as the manifest lists it.

    `name` is the path inside the item, percent-encoded as it was given (AMB-31: never re-encoded); `size`
    counts bytes; `sha256` is hexadecimal; the file is served as `media_type`.
    """

    name: str
    size: int
    sha256: str
    media_type: str
    staged: str = ""
    """The name of the file in the staging folder; "" once it is in its place."""

    @property
    def raw(self) -> bytes:
        """The bytes of the name; two spellings with the same bytes mean the same file."""
        return unquote_to_bytes(self.name)

    @property
    def readable(self) -> str:
        """The name for people: on one line, without characters that control a terminal or reverse text."""
        return shown_name(self.raw)


def readable(raw: bytes) -> str:
    """Return a file name as text: decoded as UTF-8 if that succeeds, else as ISO-8859-1."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def shown_name(raw: bytes) -> str:
    """Return a file name for people: a space for each kind of space, "?" for other unprintable characters."""
    return "".join(
        char if char.isprintable() else " " if unicodedata.category(char) == "Zs" else "?"
        for char in readable(raw)
    )


class MetadataValue(NamedTuple):
    """One value of a Dublin Core element, with its language if that is known."""

    value: str
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One item as one Archive holds it: names, state, location, and links to other items."""

    forms: IBIForms
    number: int = 0
    """Its number in the catalogue; 0 before it is added."""
    aliases: tuple[LegacyId, ...] = ()
    key: str = ""
    """By which a repeated deposit is recognised (note 11: importing twice): the depositor's own key, or a digest of
    the Idempotency-Key, or of an imported description (CONTENT_KEY); "" if there is none."""
    state: ItemState = ItemState.ORIGINAL
    content_type: ContentType = ContentType.DATA
    timestamp: str
    """The moment of the last update, or of the removal: "2014-01-02T17:23:57Z" (AMB-57: dates in UTC)."""
    language: str | None = None
    transferable: bool = True
    url: str = ""
    """Where a linked item lives; "" for an item that lives here."""
    files: tuple[StoredFile, ...] = ()
    target: str = ""
    """The name of the file that is served by default, "" if there is none."""
    file_list_public: bool = True
    next_edition: IBIForms | None = None
    translations: Mapping[str, IBIForms] = field(default_factory=dict)
    """The links to its translations by language; "" for an unstated language (note 28: translations without a
    language)."""
    metadata_item: IBIForms | None = None
    metadata: Mapping[str, tuple[MetadataValue, ...]] | None = None
    """Dublin Core, by element."""
    formats: Mapping[str, str] = field(default_factory=dict)
    """The URLs of metadata in other formats, by format: {"oai_dc": url}."""
    access: Access = Access.OPEN
    embargo: str = ""
    """The day at whose beginning (UTC) an embargoed item becomes open: "2027-01-01"; "" for other items."""
    rights: str = ""
    """What may be done with it, in the depositor's words."""
    licence: str = ""
    """The URL of a licence."""
    reason: str = ""
    """Why it was removed."""
    institution: Mapping[str, str] = field(default_factory=dict)
    """The name of the institution where it was deposited, by language, "" for the usual one; empty for an original
    deposited here, which follows the settings, and where no name is known (decision 0046)."""
    replacement: IBIForms | None = None
    """Of a removed item: the one that takes its place, here or elsewhere, if its librarian named one."""
    unsettled: str = ""
    """For an original that was restored from a backup and is not settled: the moment of that backup
    ("2026-11-21T10:00:00Z"); else "". It may have moved or been removed since, so the Archive answers nothing
    about it until an administrator settles it (decision 0039)."""

    def access_on(self, day: str) -> Access:
        """Return its access on a day ("2026-11-21", UTC): open if its embargo has ended by then."""
        ended = self.access is Access.EMBARGOED and self.embargo <= day
        return Access.OPEN if ended else self.access

    def check_settled(self) -> None:
        """Raise Unsettled for an original that was restored from a backup and is not settled."""
        if self.unsettled:
            problem = (
                "{name} came back from a backup of {date}, and may have moved or been removed since; "
                "an administrator of this Archive settles it (ibi archive settle)"
            )
            raise Unsettled(problem, name=self.forms.main, date=self.unsettled)

    @property
    def names(self) -> tuple[Name, ...]:
        """All names by which the item is found."""
        return (*(form for form in (self.forms.rep, self.forms.ibip) if form), *self.aliases)

    @property
    def deleted(self) -> bool:
        """Whether the item was removed: its files are gone; its names, date and reason stay (ARC-07: three states)."""
        return self.state is ItemState.DELETED

    def file(self, path: str) -> StoredFile | None:
        """Return the file at a percent-encoded path, with or without its leading slash; None if it is not listed."""
        wanted = unquote_to_bytes(path.removeprefix("/"))
        return next((file for file in self.files if file.raw == wanted), None)

    @property
    def target_file(self) -> StoredFile | None:
        """The file that stands for the item: its target, or its only one."""
        if self.target:
            return self.file(self.target)
        return self.files[0] if len(self.files) == 1 else None


def leaving(holding: Holding, institution: Mapping[str, str]) -> Holding:
    """Return an item as it leaves this Archive: an original deposited here goes with the name of the institution."""
    named = bool(holding.institution) or not institution or holding.state is not ItemState.ORIGINAL
    return holding if named else replace(holding, institution=institution)


ELEMENTS = (
    "title", "creator", "subject", "description", "publisher", "contributor", "date", "type", "format",
    "identifier", "source", "language", "relation", "coverage", "rights",
)  # fmt: skip
"""The elements of Dublin Core, in the order of pages and documents."""
_KNOWN = frozenset(ELEMENTS)

_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"
           xmlns:dc="http://purl.org/dc/elements/1.1/"
           xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
           xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai_dc/
                               http://www.openarchives.org/OAI/2.0/oai_dc.xsd">"""
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
# Characters that XML forbids (XML 1.0, 2.2): a single one would make the whole document unreadable.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def read_dublin_core(value: Any) -> dict[str, tuple[MetadataValue, ...]]:
    """Read metadata from JSON: {"title": ["…", {"value": "…", "lang": "pt"}], …}; a text may stand for a list of one.

    Raises BadItem with the reason.
    """
    if not isinstance(value, dict):
        raise BadItem("metadata is an object: an element and its values, such as title")
    odd = sorted(value.keys() - _KNOWN)
    if odd:
        raise BadItem("{name} is not one of the fifteen elements of Dublin Core", name=odd[0])
    read = {name: _statements(name, value[name]) for name in ELEMENTS if name in value}
    return {name: statements for name, statements in read.items() if statements}


def write_oai_dc(metadata: Mapping[str, tuple[MetadataValue, ...]]) -> bytes:
    """Write metadata unchanged as oai_dc (XML, UTF-8); for harvesters, `web.formats.oai_dc.write` is used."""
    lines = [_HEAD]
    for name in ELEMENTS:
        for value, language in metadata.get(name, ()):
            tag = f" xml:lang={quoteattr(language)}" if language else ""
            text = escape(_NOT_XML.sub("�", value), {"\r": "&#13;"})  # a bare one is read as a line feed
            lines.append(f"  <dc:{name}{tag}>{text}</dc:{name}>")
    return "\n".join([*lines, "</oai_dc:dc>", ""]).encode("utf-8", "replace")


def _statements(name: str, value: Any) -> tuple[MetadataValue, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple([_statement(name, each) for each in values])


def _statement(name: str, value: Any) -> MetadataValue:
    if isinstance(value, str):
        return MetadataValue(value)
    if isinstance(value, dict) and set(value) <= {"value", "lang"} and isinstance(value.get("value"), str):
        language = value.get("lang")
        if language is None or (isinstance(language, str) and _LANGUAGE.fullmatch(language)):
            return MetadataValue(value["value"], language)
    raise BadItem('a value of {name} is a text or an object with "value" and "lang"', name=name)
