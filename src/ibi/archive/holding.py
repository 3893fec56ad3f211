"""Everything the catalogue knows of one item, as facts (ARC and SVC in docs/standard/requirements.tsv; pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

from ibi.protocol.vocabulary import ContentType, State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.identifier.forms import IBIForms, Name
    from ibi.identifier.legacy import LegacyId


class Access(StrEnum):
    """Who may have the data of an item; its metadata are everybody's."""

    OPEN = "open"
    EMBARGOED = "embargoed"
    """Nobody before a certain day, then everybody."""
    RESTRICTED = "restricted"
    """Readers in the networks that the Archive names."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of an item, as the manifest lists it.

    `name` is the path inside the item, percent-encoded as it was given (AMB-31: never re-encoded); `size` counts
    bytes; `sha256` is hexadecimal; `media_type` is what it is served as.
    """

    name: str
    size: int
    sha256: str
    media_type: str
    staged: str = ""
    """Under what name its bytes still lie in staging; "" once they are in their place."""

    @property
    def raw(self) -> bytes:
        """The bytes of the name, which decide whether two spellings mean the same file."""
        return unquote_to_bytes(self.name)


class Statement(NamedTuple):
    """One value of a Dublin Core element, with its language if that is known."""

    value: str
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One item as one Archive holds it: names, state, where it is, and what it is related to."""

    forms: IBIForms
    number: int = 0
    """The catalogue's own number for it; 0 while it is in no catalogue."""
    aliases: tuple[LegacyId, ...] = ()
    key: str = ""
    """The depositor's own key (note 11), "" if there is none."""
    state: State = State.ORIGINAL
    content_type: ContentType = ContentType.DATA
    timestamp: str
    """Of the last update, or of the removal: "2014-01-02T17:23:57Z" (AMB-57)."""
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
    """By language; "" where the language is not stated (note 28)."""
    metadata_item: IBIForms | None = None
    metadata: Mapping[str, tuple[Statement, ...]] | None = None
    """Dublin Core, by element."""
    formats: Mapping[str, str] = field(default_factory=dict)
    """Where metadata lie in other formats, by format: {"oai_dc": url}."""
    access: Access = Access.OPEN
    embargo: str = ""
    """The day from whose beginning (UTC) on an embargoed item is open: "2027-01-01"; "" otherwise."""
    rights: str = ""
    """What may be done with it, in the depositor's words."""
    licence: str = ""
    """The URL of a licence."""
    reason: str = ""
    """Why it was removed."""

    def access_on(self, day: str) -> Access:
        """Its access on a day ("2026-11-21", UTC): an embargo that is over has become open."""
        over = self.access is Access.EMBARGOED and self.embargo <= day
        return Access.OPEN if over else self.access

    @property
    def names(self) -> tuple[Name, ...]:
        """All names it is found by."""
        return (*(form for form in (self.forms.rep, self.forms.ibip) if form), *self.aliases)

    @property
    def deleted(self) -> bool:
        """Whether only its memory is left (ARC-07)."""
        return self.state is State.DELETED

    def file(self, path: str) -> StoredFile | None:
        """The file at a percent-encoded path, with or without its leading slash; None if no such file is listed."""
        wanted = unquote_to_bytes(path.removeprefix("/"))
        return next((file for file in self.files if file.raw == wanted), None)

    @property
    def target_file(self) -> StoredFile | None:
        """The file that stands for the item: its target, or its only one."""
        if self.target:
            return self.file(self.target)
        return self.files[0] if len(self.files) == 1 else None
