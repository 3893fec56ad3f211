"""The pages about an item, with all that the Archive knows of it, and the front page.

/-/item/<ibi>       the item, for people; with its links for programs
/-/metadata/<ibi>   its metadata
/-/files/<ibi>      the list of its files
/-/linkset/<ibi>    its links, all of them (FAIR Signposting, level 2)
/-/qr/<ibi>.svg     its persistent URL for cameras
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ibi.archive.model import timeline
from ibi.archive.model.access import day_of
from ibi.archive.model.item import Access
from ibi.archive.model.relations import ItemRelations
from ibi.archive.pages import signposting
from ibi.archive.pages.models import ArchivePage, ItemPage, MetadataPage
from ibi.archive.pages.signposting import LINKSET_JSON, LINKSET_TEXT
from ibi.archive.store.tables import copies, history, listings, usage
from ibi.errors import NotHeld, ParseError
from ibi.http.conditional import tagged
from ibi.protocol.query_string import read_query
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.model.access import Withheld
    from ibi.archive.model.item import Holding
    from ibi.archive.pages.delivery import Delivery
    from ibi.archive.pages.models import Renderer, SiteContext
    from ibi.archive.pages.representations import PageResponses, Representations
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.history import ItemEvent
    from ibi.archive.store.tables.usage import UsageCounts
    from ibi.http.request import Request
    from ibi.http.response import Headers, Response
    from ibi.identifier.forms import IBIForms
    from ibi.runtime.settings import ArchiveSettings

    Figures = tuple[tuple[str, UsageCounts], ...]

USAGE_SECONDS: Final = 600.0
"""Seconds after which the numbers of visits are read again: with every visit, every page would change."""

MOST_NEWEST: Final = 10
"""Items on the front page."""

_MONTHS: Final = 12
_MOST_PICTURES: Final = 256
_MOST_EVENTS: Final = 50
_EARLIER: Final = 5  # items whose next edition is the same one
_SVG: Final = "image/svg+xml"
_A_DAY: Final = "public, max-age=86400"
_COUNTED: Final = frozenset({200, 304})


class ItemPages:
    """The pages about one Archive's items, and its front page. `now` gives POSIX seconds."""

    def __init__(
        self,
        settings: ArchiveSettings,
        place: SiteContext,
        catalogue: Catalogue,
        responses: PageResponses,
        delivery: Delivery,
        representations: Representations,
        renderer: Renderer | None,
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._place = place
        self._catalogue = catalogue
        self._responses = responses
        self._delivery = delivery
        self._representations = representations
        self._now = now
        # Cached: the picture of a name never changes.
        draw = renderer.qr if renderer else None
        self._draw = lru_cache(_MOST_PICTURES)(draw) if draw else None

    def pages(
        self, withheld: Callable[[Request], Withheld], heads: Callable[[Holding], Headers]
    ) -> dict[str, Callable[[Request, Holding], Response]]:
        """The pages by their word: /-/<word>/<ibi>.

        `withheld`: the items whose data a request may not have; `heads`: further headers of an item's page.
        """
        return {
            "item": lambda request, holding: self.item(request, holding, withheld(request), heads),
            "files": self.files,
            "metadata": self.metadata,
            "linkset": self.linkset,
            "qr": self.picture,
        }

    def item(
        self, request: Request, holding: Holding, withheld: Withheld, heads: Callable[[Holding], Headers]
    ) -> Response:
        """Serve the page about an item, or its metadata in the format that is wanted."""
        document = self._document(request, holding)
        if document is not None:
            return document
        access = self._delivery.access(request, holding)
        shown = self._responses.lasting(
            request,
            ("item", holding.number, access),
            self._version(holding),
            lambda: replace(self._item_page(holding, access, withheld), heads=heads(holding)),
        )
        return self._delivery.seen(request, holding, shown)

    def metadata(self, request: Request, holding: Holding) -> Response:
        """Metadata as a page or in a format; an unknown format is answered with those that exist (note 19).

        Those of a removed item stay.
        """
        document = self._document(request, holding)
        if document is not None:
            return document
        if holding.metadata is None:
            raise NotHeld("this Archive keeps no metadata of {name} itself", name=holding.forms.main)
        shown = self._responses.lasting(
            request,
            ("metadata", holding.number),
            self._version(holding),
            lambda: self._metadata_page(holding),
        )
        return self._delivery.seen(request, holding, shown)

    def files(self, request: Request, holding: Holding) -> Response:
        """The list of the files of an item. Raises HoldingError where they may not be listed (SVC-12)."""
        with self._catalogue.reading() as run:
            fixity = listings.fixity_of(run, holding.number)
        return self._delivery.listing(request, holding, fixity)

    def linkset(self, request: Request, holding: Holding) -> Response:
        """All links of an item: as JSON, or as text where `?format=text` or Accept wants it. Raises NotHeld."""
        wanted = dict(read_query(request.query)).get("format", "")
        if wanted not in {"", "json", "text"}:
            problem = "there are no links in the format {format} here; there are: {formats}"
            raise NotHeld(problem, format=wanted[:40], formats="json, text")
        accept = request.header(b"accept").lower()
        text = wanted == "text" or (not wanted and LINKSET_TEXT in accept and LINKSET_JSON not in accept)
        kind = LINKSET_TEXT if text else LINKSET_JSON
        item = self._representations.described(holding)
        body = self._representations.signposting.linkset(holding, item, self._day, kind)
        return tagged(request, body, kind, "public, no-cache", ("vary", "Accept"))

    def picture(self, request: Request, holding: Holding) -> Response:
        """The persistent URL of an item for cameras, as an SVG image. Raises NotHeld where none are drawn."""
        if self._draw is None:
            raise NotHeld("there is no such page here")
        body = self._draw(f"{self._place.root}/{holding.forms.main}")
        policy = ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
        return tagged(request, body, _SVG, _A_DAY, policy)

    def front(self, request: Request) -> Response:
        """The front page of the Archive."""
        return self._responses.lasting(request, "front", self._version(), self._front_page)

    def _front_page(self) -> ArchivePage:
        settings = self._settings
        with self._catalogue.reading() as run:
            names = listings.newest_items(run, MOST_NEWEST + 1)
        others = [forms.main for forms in names if not forms.shares(settings.service)][:MOST_NEWEST]
        found = [holding for name in others if (holding := self._catalogue.holding(name))]
        return ArchivePage(
            settings.address,
            str(settings.service.main),
            settings.resolver,
            self._catalogue.count(),
            place=self._place,
            newest=tuple(found),
        )

    def _version(self, holding: Holding | None = None) -> tuple[object, ...]:
        """A version of all that may stand in a page: events, results of audits and comparisons, and the time."""
        # Visits are not in it but by the time: pages would never be the same while readers come.
        now = self._now()
        with self._catalogue.reading() as run:
            facts: tuple[object, ...] = (day_of(now), now // USAGE_SECONDS, history.newest_change(run))
            if holding is not None and holding.state is ItemState.COPY:
                facts = (*facts, copies.source_of(run, holding.number))
            if holding is not None and holding.files:
                facts = (*facts, listings.fixity_of(run, holding.number))
            return facts

    @property
    def _day(self) -> str:
        return day_of(self._now())

    def _metadata_page(self, holding: Holding) -> MetadataPage:
        item = self._representations.described(holding)
        links = signposting.in_head(self._representations.signposting.of_metadata_page(holding, item))
        formats = self._representations.formats(holding, item)
        return MetadataPage(holding, holding.metadata or {}, formats, links=links)

    def _item_page(self, holding: Holding, access: Access, withheld: Withheld) -> ItemPage:
        catalogue, representations = self._catalogue, self._representations
        walk = ItemRelations(catalogue.holding, self._place.base, holding, withheld)
        url = holding.url or (walk.url(walk.item) if holding.target_file else None)
        item = representations.described(holding)
        with catalogue.reading() as run:
            source = copies.source_of(run, holding.number) if holding.state is ItemState.COPY else None
            fixity = listings.fixity_of(run, holding.number) if holding.files else {}
            events = tuple(map(_public, history.events_of(run, holding.number)[-_MOST_EVENTS:]))
        related = (
            tuple(self._metadata_item(holding.metadata_item)) if holding.metadata_item is not None else ()
        )
        return ItemPage(
            holding,
            url if access is Access.OPEN else None,
            self._place,
            related,
            access,
            source=source,
            described=item,
            formats=representations.formats(holding, item),
            editions=timeline.editions(holding, catalogue.holding, self._earlier),
            translations=timeline.translations(holding, catalogue.holding),
            fixity=fixity,
            history=events,
            figures=self._figures_of(holding),
            links=signposting.in_head(representations.signposting.of_page(holding, item, self._day)),
        )

    def _document(self, request: Request, holding: Holding) -> Response | None:
        """Serve the metadata of an item in the format that is wanted; None where that is the page."""
        answer = self._representations.document(request, holding)
        if answer is not None and answer.status in _COUNTED:
            return self._delivery.seen(request, holding, answer)
        return answer

    def _earlier(self, forms: IBIForms) -> list[IBIForms]:
        with self._catalogue.reading() as run:
            return listings.earlier(run, forms, _EARLIER)

    def _metadata_item(self, forms: IBIForms) -> list[tuple[str, str]]:
        """The URL of the item that is the metadata of another one: its page if it is here, else its persistent URL."""
        held = self._catalogue.holding(forms.main)
        where = f"{self._place.base}/-/item" if held is not None and not held.deleted else self._place.root
        return [(".metadata", f"{where}/{forms.main}")]

    def _figures_of(self, holding: Holding) -> Figures:
        """Visits by month, up to the present one."""
        last = self._day[:7]
        first = _months_before(last, _MONTHS - 1)
        with self._catalogue.reading() as run:
            lines = usage.usage_of_item(run, holding.number, "", first, last)
        months: dict[str, UsageCounts] = {}
        for line in lines:
            months[line.month] = months.get(line.month, usage.UsageCounts()).plus(line.counts)
        return _without_gaps(months, last)


def _public(event: ItemEvent) -> ItemEvent:
    """The public part of an event: without the person and the details."""
    return event._replace(who="", detail={})


def _months_before(month: str, count: int) -> str:
    number = int(month[:4]) * 12 + int(month[5:]) - 1 - count
    return f"{number // 12:04}-{number % 12 + 1:02}"


def _without_gaps(months: dict[str, UsageCounts], last: str) -> Figures:
    """Every month from the first with figures to the last one; () where there are none at all."""
    if not months:
        return ()
    every = [_months_before(last, back) for back in range(_MONTHS - 1, -1, -1)]
    return tuple((month, months.get(month, usage.UsageCounts())) for month in every if month >= min(months))


def picture_name(raw: str) -> str:
    """The name in "<ibi>.svg". Raises ParseError for anything else."""
    if not raw.endswith(".svg"):
        raise ParseError("picture", raw, "a picture of a persistent URL is called like <identifier>.svg")
    return raw.removesuffix(".svg")
