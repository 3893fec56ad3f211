"""What the pages of an Archive say, as values; a renderer given by the assembly writes them (note 18; pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ibi.archive.finding.pages import BrowsePage, SearchPage
from ibi.archive.holding import Access
from ibi.archive.website.formats import OAI_DC
from ibi.archive.website.place import NOWHERE, Place
from ibi.archive.website.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.archive.holding import Holding, Statement, StoredFile
    from ibi.archive.ledgers.about import Checked
    from ibi.archive.ledgers.copies import Source
    from ibi.archive.ledgers.history import Event
    from ibi.archive.ledgers.visits import Counts
    from ibi.archive.website.formats import Described, Format
    from ibi.archive.website.signposting import Link
    from ibi.archive.website.timeline import Version
    from ibi.errors import IbiError
    from ibi.exchange import Headers

FIGURES: Final = (b"<!--figures-->", b"<!--/figures-->")
"""What stands in a page between these changes too often to tell one version of it from another."""


@dataclass(frozen=True, slots=True)
class FileListPage:
    """The files of an item (SVC-08): each with its URL. For a linked item no files, but `linked_to`."""

    holding: Holding
    files: tuple[tuple[StoredFile, str], ...]
    linked_to: str | None = None
    status: int = 200
    fixity: Mapping[str, Checked] = field(default_factory=dict)
    lang: str = ""


@dataclass(frozen=True, slots=True)
class ItemPage:
    """All that the Archive tells about an item.

    `url`: where it can be read (None if only this page stands for it); `related`: the metadata item, as pairs of
    relation and URL; `access`: OPEN if this reader may have the data, else what keeps them back; `source`: of a copy,
    where its original is and since when the two may differ, as far as that is known; `described`: what it is to be
    cited by, None if nothing is said of it; `formats`: where that is in other formats; `fixity`: what the last audit
    said of the files, by their names; `figures`: visits by month, oldest first; `links`: what programs find; `heads`:
    headers that come with it.
    """

    holding: Holding
    url: str | None
    place: Place = NOWHERE
    related: tuple[tuple[str, str], ...] = ()
    access: Access = Access.OPEN
    status: int = 200
    source: Source | None = None
    described: Described | None = None
    formats: Mapping[str, str] = field(default_factory=dict)
    editions: Timeline = Timeline()  # noqa: RUF009 - an immutable value
    translations: tuple[Version, ...] = ()
    fixity: Mapping[str, Checked] = field(default_factory=dict)
    history: tuple[Event, ...] = ()
    figures: tuple[tuple[str, Counts], ...] = ()
    links: tuple[Link, ...] = ()
    heads: Headers = ()
    lang: str = ""


@dataclass(frozen=True, slots=True)
class MetadataPage:
    """The metadata of an item, to be read by people; `formats`: where other formats are, by name."""

    holding: Holding
    metadata: Mapping[str, tuple[Statement, ...]]
    formats: Mapping[str, str]
    status: int = 200
    links: tuple[Link, ...] = ()
    lang: str = ""


@dataclass(frozen=True, slots=True)
class ArchivePage:
    """The front page of an Archive: who it is, how much it holds, and what came last."""

    address: str
    service: str
    resolver: str
    items: int
    status: int = 200
    place: Place = NOWHERE
    newest: tuple[Holding, ...] = ()
    lang: str = ""


@dataclass(frozen=True, slots=True)
class NoticePage:
    """A page that says why there is nothing else to see, and what one can do next.

    `problem`: a sentence of ours, or an error; `details` fill the places of the sentence. `links`: what may help,
    as pairs of a sentence and a URL; `elsewhere`: the URL at which the resolver looks for an item that is not here.
    """

    status: int
    problem: IbiError | str
    details: Mapping[str, object] = field(default_factory=dict)
    links: tuple[tuple[str, str], ...] = ()
    place: Place = NOWHERE
    elsewhere: str = ""
    lang: str = ""


def unknown_kind(_item: Described) -> str:
    """What schema.org calls anything."""
    return "CreativeWork"


@dataclass(frozen=True, slots=True)
class Renderer:
    """How values become pages for eyes, in one of the languages that the house writes; given from above."""

    render: Callable[[Page, str], bytes]
    """(page, language) -> HTML."""
    headers: Callable[[str], tuple[tuple[str, str], ...]]
    """(language) -> what belongs to every page: security policy, language, …"""
    language: Callable[[str], str]
    """The header Accept-Language -> one of the languages that the house writes."""
    say: Callable[[str], Callable[[str, Mapping[str, object]], str]]
    """(language) -> how it says a sentence, the values of its places given as one mapping."""
    formats: tuple[Format, ...] = (OAI_DC,)
    """In which formats machines can have what is known of an item."""
    kind: Callable[[Described], str] = unknown_kind
    """What schema.org calls the kind of an item."""
    qr: Callable[[str], bytes] | None = None
    """(URL) -> an SVG image of it that cameras read."""


Page = FileListPage | ItemPage | MetadataPage | ArchivePage | NoticePage | SearchPage | BrowsePage
"""Whatever a renderer is given."""
