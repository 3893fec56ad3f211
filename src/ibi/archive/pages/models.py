"""The pages of an Archive as values; a renderer that `app` gives makes HTML of them (note 18; pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ibi.archive.model.access import day_of
from ibi.archive.model.item import Access
from ibi.archive.model.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.archive.model.formats import DescribedItem, Format
    from ibi.archive.model.item import Holding, MetadataValue
    from ibi.archive.model.timeline import ItemVersion
    from ibi.archive.pages.signposting import Link
    from ibi.archive.search.search import FacetValue, SearchHit, SearchResults
    from ibi.archive.search.words import SearchQuery
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.copies import CopySource
    from ibi.archive.store.tables.history import ItemEvent
    from ibi.archive.store.tables.listings import FixityRecord
    from ibi.archive.store.tables.usage import UsageCounts
    from ibi.errors import IbiError
    from ibi.http.response import Headers
    from ibi.runtime.settings import ArchiveSettings


@dataclass(frozen=True, slots=True)
class SiteContext:
    """What every page needs to know of its Archive.

    `base` begins the URLs of its pages; `resolver`: the root URL of its resolver, "" if it has joined none; `contact`:
    the mail address of its administrator; `search`: whether items can be looked for at /-/search.
    """

    base: str = ""
    resolver: str = ""
    contact: str = ""
    search: bool = False

    @property
    def root(self) -> str:
        """The beginning of persistent URLs: without a resolver, the Archive resolves those of its own items."""
        return (self.resolver or self.base).rstrip("/")


NO_SITE: Final = SiteContext()


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePage:
    """Any page. `lang`: what its links to others carry where the reader has chosen the language, "?lang=pt-BR"."""

    status: int = 200
    lang: str = ""


@dataclass(frozen=True, slots=True)
class SearchPage(SitePage):
    """The search form, and the results below it; `found` is None for an empty query.

    `leads`: an identifier in the text and its URL; `meant`: a suggestion for a misspelt one.
    """

    place: SiteContext
    question: SearchQuery
    found: SearchResults | None = None
    results: tuple[SearchHit, ...] = ()
    leads: tuple[str, str] | None = None
    meant: str = ""


@dataclass(frozen=True, slots=True)
class BrowsePage(SitePage):
    """Lists by which all items can be reached.

    `letter`: whose people are listed in `people`, "" for the beginning; `after`: the key of the last of them, where
    more follow.
    """

    place: SiteContext
    years: tuple[FacetValue, ...] = ()
    languages: tuple[FacetValue, ...] = ()
    kinds: tuple[FacetValue, ...] = ()
    letters: tuple[FacetValue, ...] = ()
    letter: str = ""
    people: tuple[FacetValue, ...] = ()
    after: str = ""


USAGE_MARKERS: Final = (b"<!--figures-->", b"<!--/figures-->")
"""What stands in a page between these changes with every visit, so it is left out of the page's ETag."""


@dataclass(frozen=True, slots=True)
class FileListPage(SitePage):
    """The files of an item (SVC-08); of a linked item, where it lives."""

    holding: Holding
    fixity: Mapping[str, FixityRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ItemPage(SitePage):
    """All that the Archive shows of an item.

    `url`: where it can be read (None if only this page stands for it); `related`: the metadata item, as pairs of
    relation and URL; `access`: OPEN if this reader may have the data, else what keeps them back; `source`: of a copy,
    where its original is and since when the two may differ, as far as that is known; `described`: what it is to be
    cited by, None without metadata; `formats`: where that is in other formats; `fixity`: what the last audit
    said of the files, by their names; `figures`: visits by month, oldest first; `links`: what programs find; `heads`:
    headers that come with it.
    """

    holding: Holding
    url: str | None
    place: SiteContext = NO_SITE
    related: tuple[tuple[str, str], ...] = ()
    access: Access = Access.OPEN
    source: CopySource | None = None
    described: DescribedItem | None = None
    formats: Mapping[str, str] = field(default_factory=dict)
    editions: Timeline = Timeline()  # noqa: RUF009 - an immutable value
    translations: tuple[ItemVersion, ...] = ()
    fixity: Mapping[str, FixityRecord] = field(default_factory=dict)
    history: tuple[ItemEvent, ...] = ()
    figures: tuple[tuple[str, UsageCounts], ...] = ()
    links: tuple[Link, ...] = ()
    heads: Headers = ()


@dataclass(frozen=True, slots=True)
class MetadataPage(SitePage):
    """The metadata of an item, to be read by people; `formats`: where other formats are, by name."""

    holding: Holding
    metadata: Mapping[str, tuple[MetadataValue, ...]]
    formats: Mapping[str, str]
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class ArchivePage(SitePage):
    """The front page of an Archive: who it is, how much it holds, and what came last."""

    address: str
    service: str
    items: int
    place: SiteContext = NO_SITE
    newest: tuple[Holding, ...] = ()


@dataclass(frozen=True, slots=True)
class NoticePage(SitePage):
    """A page that explains a refusal, and what a reader can do next.

    `links`: what may help, as pairs of a sentence and a URL; `elsewhere`: the URL at which the resolver looks for an
    item that is not here.
    """

    status: int
    problem: IbiError
    links: tuple[tuple[str, str], ...] = ()
    place: SiteContext = NO_SITE
    elsewhere: str = ""


@dataclass(frozen=True, slots=True)
class Renderer:
    """Makes HTML of page values, in one of the languages of the program; given by `app`."""

    render: Callable[[SitePage, str], bytes]
    """(page, language) -> HTML."""
    headers: Callable[[str], tuple[tuple[str, str], ...]]
    """(language) -> what belongs to every page: security policy, language, …"""
    formats: tuple[Format, ...]
    """The formats in which programs can have the metadata of an item."""
    kind: Callable[[DescribedItem], str]
    """An item -> the type of schema.org."""
    qr: Callable[[str], bytes]
    """(URL) -> an SVG image of it that cameras read."""


@dataclass(frozen=True, slots=True)
class SiteParts:
    """What all pages of one Archive are made with. `now` gives POSIX seconds."""

    settings: ArchiveSettings
    catalogue: Catalogue
    renderer: Renderer
    now: Callable[[], float]
    place: SiteContext

    @property
    def day(self) -> str:
        """The present day, UTC: "2026-11-22"."""
        return day_of(self.now())
