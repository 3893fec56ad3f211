"""The pages about an item, and the front page.

/-/item/<ibi>       the item, for people; with links for programs
/-/metadata/<ibi>   its metadata. Both pages give the metadata in other formats, too, which are selected
    ?format=bibtex                  by name, or
    Accept: application/x-bibtex    by the header; at a persistent URL the answer is 303 to the metadata
/-/linkset/<ibi>    all its links (FAIR Signposting, level 2)
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from ibi.api.routes import language_of
from ibi.archive.model import editions
from ibi.archive.model.access import day_of
from ibi.archive.model.formats import described
from ibi.archive.model.item import Access
from ibi.archive.model.relations import ItemRelations, held_by, metadata_of
from ibi.archive.pages.models import (
    AboutPage,
    ArchivePage,
    CollectionFacts,
    ItemPage,
    ListedItem,
    MetadataPage,
    ProgramsPage,
)
from ibi.archive.pages.signposting import (
    LINKSET_JSON,
    LINKSET_TEXT,
    LONGEST_LINKS,
    Signposting,
    header,
    headers,
    in_head,
)
from ibi.archive.pages.statistics import USAGE_SECONDS, by_month, last_months
from ibi.archive.store.links import with_links
from ibi.archive.store.tables import change_log, copies, history, listings, usage
from ibi.archive.store.tables.usage import UsageCounts
from ibi.errors import NotHeld, ParseError
from ibi.http.accept import FORMAT_OPTIONS, accepted_format
from ibi.http.conditional import tagged
from ibi.http.response import NO_STORE, Response, redirect
from ibi.protocol.query_string import read_query, with_query, write_query
from ibi.protocol.vocabulary import LINKSET, METADATA_FORMATS, ItemState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.archive.model.access import Withheld
    from ibi.archive.model.formats import DescribedItem, Format
    from ibi.archive.model.item import Holding
    from ibi.archive.pages.delivery import Delivery
    from ibi.archive.pages.mementos import Mementos
    from ibi.archive.pages.models import SiteParts
    from ibi.archive.pages.responses import PageResponses
    from ibi.http.accept import AcceptedFormat
    from ibi.http.request import Request
    from ibi.identifier.forms import IBIForms

MOST_NEWEST: Final = 10
"""Items on the front page."""
MOST_TRIED: Final = 200
"""Newest items among which the page for programs looks for one for its examples."""

_MOST_PICTURES: Final = 256  # QR codes that are cached
_MOST_EVENTS: Final = 50  # events of an item's history that are shown
_EARLIER: Final = 5  # items that have the same next edition
_SVG: Final = "image/svg+xml"
_A_DAY: Final = "public, max-age=86400"
_MOST_WISHES: Final = 256  # Accept headers whose choice of a format is cached
_VARY: Final = ("vary", "Accept, Accept-Language")
_NO_SUCH: Final = "there are no metadata of {name} in this format; there are: {formats}"


class ItemPages:
    """The pages about one Archive's items, and its front page. `facts` returns what that shows of all items."""

    def __init__(
        self,
        parts: SiteParts,
        responses: PageResponses,
        delivery: Delivery,
        mementos: Mementos,
        facts: Callable[[], CollectionFacts] = CollectionFacts,
    ) -> None:
        self._parts = parts
        self._facts = facts
        self._place = parts.place
        self._catalogue = parts.catalogue
        self._responses = responses
        self._delivery = delivery
        self._mementos = mementos
        # Cached: the picture of a name never changes.
        self._draw = lru_cache(_MOST_PICTURES)(parts.renderer.qr)
        formats = parts.renderer.formats
        self._formats = {each.name: each for each in formats}
        self._by_type = {kind: each.name for each in formats for kind in each.media_types}
        choose = partial(accepted_format, by_type=self._by_type)
        self._wanted: Callable[[str], AcceptedFormat] = lru_cache(_MOST_WISHES)(choose)
        self.signposting = Signposting(parts.place.base, parts.place.root, formats, parts.renderer.kind)
        """The links of pages, files and metadata."""

    def item(self, request: Request, holding: Holding) -> Response:
        """Serve the page about an item, or its metadata if a format is requested."""
        document = self._document(request, holding)
        if document is not None:
            return document
        access = self._delivery.access(request, holding)
        page = self._responses.cached(
            request,
            ("item", holding.number, access),
            self._version(holding),
            lambda: self._item_page(holding, access, self._delivery.withheld(request)),
        )
        return self._delivery.counted(request, holding, page)

    def metadata(self, request: Request, holding: Holding) -> Response:
        """Serve the metadata, also of a removed item, as a page or in the requested format.

        The refusal of an unknown format lists the formats that exist (note 19: languages and formats).
        """
        document = self._document(request, holding)
        if document is not None:
            return document
        if holding.metadata is None:
            raise NotHeld("this Archive keeps no metadata of {name} itself", name=holding.forms.main)
        page = self._responses.cached(
            request,
            ("metadata", holding.number),
            self._version(holding),
            lambda: self._metadata_page(holding),
        )
        return self._delivery.counted(request, holding, page)

    def linkset(self, request: Request, holding: Holding) -> Response:
        """Serve all links of an item as JSON, or as text by `?format=text` or Accept. Raises NotHeld."""
        wanted = dict(read_query(request.query)).get("format", "")
        if wanted not in {"", "json", "text"}:
            problem = "there are no links in the format {format} here; there are: {formats}"
            raise NotHeld(problem, format=wanted[:40], formats="json, text")
        by_accept = accepted_format(request.header(b"accept"), {LINKSET_JSON: "json", LINKSET_TEXT: "text"})
        kind = LINKSET_TEXT if (wanted or by_accept.name) == "text" else LINKSET_JSON
        item = self._described(holding)
        body = self.signposting.linkset(holding, item, self._parts.day, kind)
        return tagged(request, body, kind, "public, no-cache", ("vary", "Accept"))

    def picture(self, request: Request, holding: Holding) -> Response:
        """Serve the persistent URL of an item as a QR code in SVG."""
        body = self._draw(f"{self._place.root}/{holding.forms.main}")
        # An SVG that is opened directly could run scripts with the rights of this address (note 32: pages of
        # depositors).
        policy = ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
        return tagged(request, body, _SVG, _A_DAY, policy)

    def see_other(self, request: Request, holding: Holding) -> Response | None:
        """Redirect a persistent URL to the metadata, or links, if Accept prefers one of their formats; else None."""
        # If the item itself is stored in a requested format, the request means the item, not its metadata.
        file = holding.target_file
        own = self._by_type.get(file.media_type.partition(";")[0]) if file else None
        known = self._by_type | dict.fromkeys(METADATA_FORMATS[LINKSET], LINKSET)
        by_type = {kind: name for kind, name in known.items() if name != own}
        choice = accepted_format(request.header(b"accept"), by_type)
        if choice.name is None or (choice.name != LINKSET and self._described(holding) is None):
            return None
        options = write_query(
            (name, choice.options[name]) for name in FORMAT_OPTIONS if name in choice.options
        )
        where = ("location", with_query(_at(holding, choice.name), options))
        return Response(303, headers=(where, _VARY, *NO_STORE, self.cite_as(holding)))

    def cite_as(self, holding: Holding) -> tuple[str, str]:
        """Return the Link header with the URL by which an item is to be cited (RFC 8574)."""
        return "link", header(self.signposting.cite_as(holding))

    def front(self, request: Request) -> Response:
        """Serve the front page of the Archive."""
        facts = self._facts()
        version = (*self._version(), facts)
        return self._responses.cached(request, "front", version, lambda: self._front_page(facts))

    def _front_page(self, facts: CollectionFacts) -> ArchivePage:
        lookup, day = self._catalogue.holding, self._parts.day
        with self._catalogue.reading() as run:
            names = listings.newest_items(run, MOST_NEWEST + 1)
        others = [forms.main for forms in names if not forms.shares(self._parts.settings.service)][
            :MOST_NEWEST
        ]
        newest = [
            ListedItem(holding, metadata_of(lookup, holding) or {}, holding.access_on(day))
            for name in others
            if (holding := lookup(name))
        ]
        return ArchivePage(self._catalogue.count(), place=self._place, newest=tuple(newest), facts=facts)

    def about(self, request: Request) -> Response:
        """Serve what the institution says of itself, and the facts about its Archive."""
        settings = self._parts.settings
        service, items = str(settings.service.main), self._catalogue.count()
        return self._responses.page(request, AboutPage(settings.address, service, items, self._place))

    def programs(self, request: Request) -> Response:
        """Serve the page for programs, with the newest open item that has metadata in its examples."""
        return self._responses.cached(request, "programs", self._version(), self._programs_page)

    def _programs_page(self) -> ProgramsPage:
        with self._catalogue.reading() as run:
            names = listings.newest_items(run, MOST_TRIED)
        held = (self._catalogue.holding(forms.main) for forms in names)
        good = (
            each for each in held if each and each.metadata and each.access_on(self._parts.day) is Access.OPEN
        )
        return ProgramsPage(place=self._place, item=next(good, None))

    def _version(self, holding: Holding | None = None) -> tuple[object, ...]:
        """Return a version of all facts that a page may show: events, audits, comparisons, and the time."""
        # Visits change the version only every `USAGE_SECONDS`, or pages would change with every reader.
        now = self._parts.now()
        with self._catalogue.reading() as run:
            facts: tuple[object, ...] = (day_of(now), now // USAGE_SECONDS, change_log.newest_change(run))
            if holding is not None and holding.state is ItemState.COPY:
                facts = (*facts, copies.source_of(run, holding.number))
            if holding is not None and holding.files:
                facts = (*facts, listings.fixity_of(run, holding.number))
            return facts

    def _metadata_page(self, holding: Holding) -> MetadataPage:
        item = self._described(holding)
        links = in_head(self.signposting.of_metadata_page(holding, item))
        formats = self._formats_of(holding, item)
        return MetadataPage(holding, holding.metadata or {}, formats, links=links)

    def _item_page(self, holding: Holding, access: Access, withheld: Withheld) -> ItemPage:
        lookup = self._catalogue.holding
        walk = ItemRelations(lookup, self._place.base, holding, withheld)
        url = holding.url or (walk.url(walk.item) if holding.target_file else None)
        item = self._described(holding)
        with self._catalogue.reading() as run:
            source = copies.source_of(run, holding.number) if holding.state is ItemState.COPY else None
            fixity = listings.fixity_of(run, holding.number) if holding.files else {}
            events = history.events_of(run, holding.number)[-_MOST_EVENTS:]
        links = in_head(self.signposting.of_page(holding, item, self._parts.day))
        left = LONGEST_LINKS - sum(len(header(each)) for each in links)
        return ItemPage(
            holding,
            url if access is Access.OPEN else None,
            self._place,
            self._related(holding),
            access,
            source=source,
            described=item,
            formats=self._formats_of(holding, item),
            editions=editions.editions(holding, lookup, self._earlier),
            translations=editions.translations(holding, lookup),
            fixity=fixity,
            # Person and details are left out, because readers may not see them.
            history=tuple(event._replace(who="", detail={}) for event in events),
            figures=self._figures(holding),
            links=links,
            heads=self._mementos.headers(holding, left),
        )

    def _described(self, holding: Holding) -> DescribedItem | None:
        """Return an item with the facts that formats use; None if it has no metadata."""
        place, address = self._place, self._parts.settings.address
        lookup = self._catalogue.holding
        item = described(lookup, holding, place.base, place.resolver, address, self._parts.day)
        return replace(item, publisher=self._parts.renderer.publisher) if item is not None else None

    def _formats_of(self, holding: Holding, item: DescribedItem | None) -> dict[str, str]:
        """Return the name of each format in which the metadata of an item exist, with its URL."""
        ours = self._formats if item is not None else ()
        return {name: _at(holding, name) for name in ours} | dict(holding.formats)

    def _document(self, request: Request, holding: Holding) -> Response | None:
        """Serve the metadata in the requested format; return None if the page is requested.

        Raises NotHeld for an unknown format (note 19: languages and formats); refuses an Accept header that no format
        fits with 406.
        """
        # Of a name that is given twice, the first counts: a resolver appends the reader's query to our URLs.
        query = dict(reversed(read_query(request.query)))
        name = query.get("format", "")
        if name:
            if name in holding.formats:
                return redirect(holding.formats[name])
            item = self._described(holding)
            if item is None:
                raise NotHeld("this Archive keeps no metadata of {name} itself", name=holding.forms.main)
            if name not in self._formats:
                raise self._no_such(item)
            return self._written(request, item, self._formats[name], query)
        choice = self._wanted(request.header(b"accept"))
        item = self._described(holding) if choice.name is not None or not choice.page else None
        if item is None:
            return None
        if choice.name is None:
            why = self._no_such(item)
        else:
            try:
                return self._written(request, item, self._formats[choice.name], choice.options)
            except NotHeld as error:
                why = error
        return self._responses.refuse(request, 406, why).having(_VARY)

    def _written(
        self, request: Request, item: DescribedItem, which: Format, options: Mapping[str, str]
    ) -> Response:
        body = which.write(
            with_links(self._catalogue, item),
            {"locale": language_of(request)} | {n: options[n] for n in FORMAT_OPTIONS if n in options},
        )
        links = headers(self.signposting.of_metadata(item.holding))
        response = tagged(request, body, which.content_type, "public, no-cache", _VARY, *links)
        return self._delivery.counted(request, item.holding, response)

    def _no_such(self, item: DescribedItem) -> NotHeld:
        known = ", ".join(self._formats_of(item.holding, item))
        return NotHeld(_NO_SUCH, name=item.holding.forms.main, formats=known)

    def _earlier(self, forms: IBIForms) -> list[IBIForms]:
        with self._catalogue.reading() as run:
            return listings.earlier(run, forms, _EARLIER)

    def _related(self, holding: Holding) -> tuple[tuple[str, str], ...]:
        """Return relation and URL of the metadata item: its page if it is here, else its persistent URL."""
        if holding.metadata_item is None:
            return ()
        name = holding.metadata_item.main
        held = held_by(self._catalogue.holding, holding.metadata_item)
        where = f"{self._place.base}/-/item" if held is not None and not held.deleted else self._place.root
        return ((".metadata", f"{where}/{name}"),)

    def _figures(self, holding: Holding) -> tuple[tuple[str, UsageCounts], ...]:
        """Return the visits of each month, from the first with visits to the present one; () if none."""
        every = last_months(self._parts.day)
        with self._catalogue.reading() as run:
            months = by_month(usage.usage_by_month(run, holding.number, "", every[0], every[-1]))
        if not months:
            return ()
        return tuple((month, months.get(month, UsageCounts())) for month in every if month >= min(months))


def _at(holding: Holding, name: str) -> str:
    if name == LINKSET:
        return f"/-/linkset/{holding.forms.main}"
    return with_query(f"/-/metadata/{holding.forms.main}", f"format={name}")


def picture_name(raw: str) -> str:
    """Return the name in "<ibi>.svg". Raises ParseError for any other text."""
    if not raw.endswith(".svg"):
        raise ParseError("picture", raw, "the picture of a persistent URL has a name like <identifier>.svg")
    return raw.removesuffix(".svg")
