"""The pages of an Archive as values; `app` supplies a renderer that makes HTML of them (note 18; pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ibi.archive.model.access import day_of
from ibi.archive.model.editions import Timeline
from ibi.archive.model.item import Access
from ibi.runtime.settings.institution import Institution

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.archive.model.editions import ItemVersion
    from ibi.archive.model.formats import DescribedItem, Format
    from ibi.archive.model.item import Holding, MetadataValue
    from ibi.archive.pages.signposting import Link
    from ibi.archive.pages.statistics import UsageReport
    from ibi.archive.search.hints import SearchHints
    from ibi.archive.search.search import FacetValue, SearchResults
    from ibi.archive.search.words import SearchQuery
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.copies import CopySource
    from ibi.archive.store.tables.history import ItemEvent
    from ibi.archive.store.tables.listings import FixityRecord
    from ibi.archive.store.tables.usage import ItemUsage, UsageCounts
    from ibi.errors import IbiError
    from ibi.http.response import Headers
    from ibi.runtime.settings import ArchiveSettings


@dataclass(frozen=True, slots=True)
class SiteContext:
    """The facts about an Archive that every page needs.

    `base` begins the URLs of its pages; `resolver`: the root URL of its resolver, "" if it has joined none; `contact`:
    the mail address of its administrator; `search`: whether it has search pages.
    """

    base: str = ""
    resolver: str = ""
    contact: str = ""
    search: bool = False

    @property
    def root(self) -> str:
        """The beginning of persistent URLs: at the resolver, or without one at the Archive itself."""
        return (self.resolver or self.base).rstrip("/")


NO_SITE: Final = SiteContext()


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePage:
    """The base of all pages. `lang`: "?lang=pt-BR" for links to other pages, if the reader has chosen it."""

    status: int = 200
    lang: str = ""


@dataclass(frozen=True, slots=True)
class ListedItem:
    """An item as a line of a list shows it, with its Dublin Core, its own or that of its metadata item.

    `access`: who may have its data on the day of the request.
    """

    holding: Holding
    metadata: Mapping[str, tuple[MetadataValue, ...]]
    access: Access


@dataclass(frozen=True, slots=True)
class SearchPage(SitePage):
    """The search form, and the results below it; `found` is None for an empty query.

    `leads`: the identifier in the text and its URL; `meant`: a suggestion for a misspelt identifier; `hints`:
    what finds something if this search found nothing.
    """

    place: SiteContext
    question: SearchQuery
    found: SearchResults | None = None
    results: tuple[ListedItem, ...] = ()
    leads: tuple[str, str] | None = None
    meant: str = ""
    hints: SearchHints | None = None


@dataclass(frozen=True, slots=True)
class BrowsePage(SitePage):
    """Lists by which all items can be reached.

    `letter`: with what the names of the listed `people` begin, "" for the first page; `after`: the key of the
    last of them if more follow; `decade`: the one whose years are shown; `undated`: items without a date.
    """

    place: SiteContext
    subjects: tuple[FacetValue, ...] = ()
    undated: int = 0
    decade: int = 0
    years: tuple[FacetValue, ...] = ()
    languages: tuple[FacetValue, ...] = ()
    kinds: tuple[FacetValue, ...] = ()
    letters: tuple[FacetValue, ...] = ()
    letter: str = ""
    people: tuple[FacetValue, ...] = ()
    after: str = ""


USAGE_MARKERS: Final = (b"<!--figures-->", b"<!--/figures-->")
"""The text of a page between these changes with every visit, so it is left out of the page's ETag."""


@dataclass(frozen=True, slots=True)
class FileListPage(SitePage):
    """The files of an item (SVC-08: which URL is given), or the URL of a linked item."""

    holding: Holding
    fixity: Mapping[str, FixityRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ItemPage(SitePage):
    """All that the Archive shows of an item.

    `url`: where it can be read, None if only this page exists; `related`: pairs of relation and URL of the
    metadata item; `access`: OPEN if this reader may have the data, else the reason why not; `source`: for a
    copy, where its original is and since when the two may differ, if known; `described`: the facts for citing
    it, None without metadata; `formats`: the URLs of its other formats, by name; `fixity`: the results of the
    last audit, by file name; `figures`: visits by month, oldest first; `links`: links for programs; `heads`:
    further headers.
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
    """The metadata of an item, for people; `formats`: the URLs of other formats, by name."""

    holding: Holding
    metadata: Mapping[str, tuple[MetadataValue, ...]]
    formats: Mapping[str, str]
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectionFacts:
    """What the front page shows of all items, as far as it is known: nothing of it while the index is made.

    `kinds`, `subjects`: the most frequent first; `year`: the latest; `usage`: of the last twelve months; `items`:
    how many items readers find, None if that is not known.
    """

    kinds: tuple[FacetValue, ...] = ()
    subjects: tuple[FacetValue, ...] = ()
    year: str = ""
    usage: UsageReport | None = None
    items: int | None = None


@dataclass(frozen=True, slots=True)
class ArchivePage(SitePage):
    """The front page of an Archive: how many items it holds, and the newest ones."""

    items: int
    place: SiteContext = NO_SITE
    newest: tuple[ListedItem, ...] = ()
    facts: CollectionFacts = CollectionFacts()

    @property
    def shown(self) -> int:
        """How many items readers find, the same as on all pages; while the index is made, how many are held."""
        return self.items if self.facts.items is None else self.facts.items


@dataclass(frozen=True, slots=True)
class AboutPage(SitePage):
    """What the institution says of itself, and the facts about its Archive: `service` is the IBI of its service."""

    address: str
    service: str
    items: int
    place: SiteContext = NO_SITE


@dataclass(frozen=True, slots=True)
class StatisticsPage(SitePage):
    """How the items are used, for readers; `items`: how many readers find; `most_read`: the most fetched first."""

    place: SiteContext
    report: UsageReport
    items: int
    most_read: tuple[tuple[ListedItem, ItemUsage], ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramsPage(SitePage):
    """What programs can read here, with examples; `item`: the item of the examples, None if there is none yet."""

    place: SiteContext
    item: Holding | None = None


@dataclass(frozen=True, slots=True)
class NoticePage(SitePage):
    """A page that explains a refusal, and what a reader can do next.

    `links`: links that may help, as pairs of a sentence and a URL; `elsewhere`: the persistent URL at the
    resolver of an item that is not held here; `retry_after`: seconds after which trying again makes sense, None if
    that is not known; `reads`: whether the request changes nothing.
    """

    status: int
    problem: IbiError
    links: tuple[tuple[str, str], ...] = ()
    place: SiteContext = NO_SITE
    elsewhere: str = ""
    retry_after: int | None = None
    reads: bool = True


@dataclass(frozen=True, slots=True)
class Renderer:
    """Makes HTML of page values, in one of the languages of the program; `app` supplies it."""

    render: Callable[[SitePage, str], bytes]
    """(page, language) -> HTML."""
    headers: Callable[[str], tuple[tuple[str, str], ...]]
    """(language) -> the headers of every page: security policy, language, …"""
    formats: tuple[Format, ...]
    """The formats in which programs can have the metadata of an item."""
    kind: Callable[[DescribedItem], str]
    """(item) -> its type in schema.org."""
    qr: Callable[[str], bytes]
    """(URL) -> its QR code in SVG."""
    publisher: str = ""
    """The publisher of items that name none, "" for the Archive's address."""
    institution: Institution = Institution()  # noqa: RUF009 - an immutable value


@dataclass(frozen=True, slots=True)
class SiteParts:
    """The parts that all pages of one Archive share. `now` returns POSIX seconds."""

    settings: ArchiveSettings
    catalogue: Catalogue
    renderer: Renderer
    now: Callable[[], float]
    place: SiteContext

    @property
    def day(self) -> str:
        """The present day, UTC: "2026-11-22"."""
        return day_of(self.now())
