"""The pages about an item: all that the Archive knows of it, gathered for one reader.

/-/item/<ibi>       the item, for people; with its links for programs
/-/metadata/<ibi>   what is said of it
/-/files/<ibi>      the list of its files
/-/linkset/<ibi>    its links, all of them (FAIR Signposting, level 2)
/-/qr/<ibi>.svg     its persistent URL for cameras
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ibi.archive.access import day_of
from ibi.archive.holding import Access
from ibi.archive.ledgers import about, copies, history, visits
from ibi.archive.related import Walk
from ibi.archive.website import signposting, timeline
from ibi.archive.website.conditions import kept
from ibi.archive.website.pages import ArchivePage, ItemPage, MetadataPage
from ibi.archive.website.signposting import LINKSET_JSON, LINKSET_TEXT
from ibi.errors import NotHeld, ParseError
from ibi.protocol.query_string import read_query
from ibi.protocol.vocabulary import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.access import Withheld
    from ibi.archive.catalogue import Catalogue
    from ibi.archive.holding import Holding
    from ibi.archive.ledgers.history import Event
    from ibi.archive.ledgers.visits import Counts
    from ibi.archive.website.delivery import Delivery
    from ibi.archive.website.describing import Describing
    from ibi.archive.website.pages import Renderer
    from ibi.archive.website.place import Place
    from ibi.archive.website.showing import Showing
    from ibi.exchange import Asked, Headers, Response
    from ibi.identifier.forms import IBIForms
    from ibi.settings import ArchiveSettings

    Figures = tuple[tuple[str, Counts], ...]

FIGURES_FOR: Final = 600.0
"""Seconds after which the figures of visits are read again: at each visit would make each page anew."""

MOST_NEWEST: Final = 10
"""Items on the front page."""

_MONTHS: Final = 12
_MOST_PICTURES: Final = 256
_MOST_EVENTS: Final = 50
_EARLIER: Final = 5  # items that say to be followed by the same one
_SVG: Final = "image/svg+xml"
_A_DAY: Final = "public, max-age=86400"
_COUNTED: Final = frozenset({200, 304})


class Landing:
    """The pages about one Archive's items, and its front page. `now` gives POSIX seconds."""

    def __init__(
        self,
        settings: ArchiveSettings,
        place: Place,
        catalogue: Catalogue,
        showing: Showing,
        delivery: Delivery,
        describing: Describing,
        renderer: Renderer | None,
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._place = place
        self._catalogue = catalogue
        self._showing = showing
        self._delivery = delivery
        self._describing = describing
        self._now = now
        draw = renderer.qr if renderer else None
        self._draw = lru_cache(_MOST_PICTURES)(draw) if draw else None

    def pages(
        self, withheld: Callable[[Asked], Withheld], heads: Callable[[Holding], Headers]
    ) -> dict[str, Callable[[Asked, Holding], Response]]:
        """What answers under which word: /-/<word>/<ibi>.

        `withheld`: of which items who asks may not have the data; `heads`: what others say with an
        item's page.
        """
        return {
            "item": lambda asked, holding: self.item(asked, holding, withheld(asked), heads),
            "files": self.files,
            "metadata": self.metadata,
            "linkset": self.linkset,
            "qr": self.picture,
        }

    def item(
        self, asked: Asked, holding: Holding, withheld: Withheld, heads: Callable[[Holding], Headers]
    ) -> Response:
        """The page about an item, or what is known of it in the format that is wanted."""
        document = self._document(asked, holding)
        if document is not None:
            return document
        access = self._delivery.access(asked, holding)
        shown = self._showing.lasting(
            asked,
            ("item", holding.number, access),
            self._version(holding),
            lambda: replace(self._item_page(holding, access, withheld), heads=heads(holding)),
        )
        return self._delivery.seen(asked, holding, shown)

    def metadata(self, asked: Asked, holding: Holding) -> Response:
        """Metadata as a page or in a format; an unknown format is answered with those that exist (note 19).

        Those of a removed item stay.
        """
        document = self._document(asked, holding)
        if document is not None:
            return document
        if holding.metadata is None:
            raise NotHeld("this Archive keeps no metadata of {name} itself", name=holding.forms.main)
        shown = self._showing.lasting(
            asked, ("metadata", holding.number), self._version(holding), lambda: self._metadata_page(holding)
        )
        return self._delivery.seen(asked, holding, shown)

    def files(self, asked: Asked, holding: Holding) -> Response:
        """The list of the files of an item. Raises HoldingError where they may not be listed (SVC-12)."""
        with self._catalogue.reading() as run:
            fixity = about.fixity_of(run, holding.number)
        return self._delivery.listing(asked, holding, fixity)

    def linkset(self, asked: Asked, holding: Holding) -> Response:
        """All links of an item: as JSON, or as text where `?format=text` or Accept wants it. Raises NotHeld."""
        wish = dict(read_query(asked.query)).get("format", "")
        if wish not in {"", "json", "text"}:
            problem = "there are no links in the format {format} here; there are: {formats}"
            raise NotHeld(problem, format=wish[:40], formats="json, text")
        accept = asked.header(b"accept").lower()
        text = wish == "text" or (not wish and LINKSET_TEXT in accept and LINKSET_JSON not in accept)
        kind = LINKSET_TEXT if text else LINKSET_JSON
        item = self._describing.described(holding)
        body = self._describing.signposting.linkset(holding, item, self._day, kind)
        return kept(asked, body, kind, "public, no-cache", ("vary", "Accept"))

    def picture(self, asked: Asked, holding: Holding) -> Response:
        """The persistent URL of an item for cameras, as an SVG image. Raises NotHeld where none are drawn."""
        if self._draw is None:
            raise NotHeld("there is no such page here")
        body = self._draw(f"{self._place.root}/{holding.forms.main}")
        policy = ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
        return kept(asked, body, _SVG, _A_DAY, policy)

    def front(self, asked: Asked) -> Response:
        """The front page of the Archive."""
        return self._showing.lasting(asked, "front", self._version(), self._front_page)

    def _front_page(self) -> ArchivePage:
        settings = self._settings
        with self._catalogue.reading() as run:
            names = about.newest(run, MOST_NEWEST + 1)
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
        """What changes whenever a page may: what happened to items, what audits and comparisons found, and the time.

        What tells nothing but visits is no change; they are read again after a while.
        """
        now = self._now()
        with self._catalogue.reading() as run:
            facts: tuple[object, ...] = (day_of(now), now // FIGURES_FOR, about.last_change(run))
            if holding is not None and holding.state is State.COPY:
                facts = (*facts, copies.source_of(run, holding.number))
            if holding is not None and holding.files:
                facts = (*facts, about.fixity_of(run, holding.number))
            return facts

    @property
    def _day(self) -> str:
        return day_of(self._now())

    def _metadata_page(self, holding: Holding) -> MetadataPage:
        item = self._describing.described(holding)
        links = signposting.in_head(self._describing.signposting.of_metadata_page(holding, item))
        formats = self._describing.formats(holding, item)
        return MetadataPage(holding, holding.metadata or {}, formats, links=links)

    def _item_page(self, holding: Holding, access: Access, withheld: Withheld) -> ItemPage:
        catalogue, describing = self._catalogue, self._describing
        walk = Walk(catalogue.holding, self._place.base, holding, withheld)
        url = holding.url or (walk.url(walk.item) if holding.target_file else None)
        item = describing.described(holding)
        with catalogue.reading() as run:
            source = copies.source_of(run, holding.number) if holding.state is State.COPY else None
            fixity = about.fixity_of(run, holding.number) if holding.files else {}
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
            formats=describing.formats(holding, item),
            editions=timeline.editions(holding, catalogue.holding, self._earlier),
            translations=timeline.translations(holding, catalogue.holding),
            fixity=fixity,
            history=events,
            figures=self._figures_of(holding),
            links=signposting.in_head(describing.signposting.of_page(holding, item, self._day)),
        )

    def _document(self, asked: Asked, holding: Holding) -> Response | None:
        """What is known of an item in the format that is wanted; None where that is the page."""
        answer = self._describing.document(asked, holding)
        if answer is not None and answer.status in _COUNTED:
            return self._delivery.seen(asked, holding, answer)
        return answer

    def _earlier(self, forms: IBIForms) -> list[IBIForms]:
        with self._catalogue.reading() as run:
            return about.earlier(run, forms, _EARLIER)

    def _metadata_item(self, forms: IBIForms) -> list[tuple[str, str]]:
        """The item that is the metadata of another one: its page if it is here, else by way of the resolver."""
        held = self._catalogue.holding(forms.main)
        where = f"{self._place.base}/-/item" if held is not None and not held.deleted else self._place.root
        return [(".metadata", f"{where}/{forms.main}")]

    def _figures_of(self, holding: Holding) -> Figures:
        """Visits by month, up to the present one."""
        last = self._day[:7]
        first = _months_before(last, _MONTHS - 1)
        with self._catalogue.reading() as run:
            lines = visits.of_item(run, holding.number, "", first, last)
        months: dict[str, Counts] = {}
        for line in lines:
            months[line.month] = months.get(line.month, visits.Counts()).plus(line.counts)
        return _without_gaps(months, last)


def _public(event: Event) -> Event:
    """What everybody may know of an event: not who did it, nor with what."""
    return event._replace(who="", detail={})


def _months_before(month: str, count: int) -> str:
    number = int(month[:4]) * 12 + int(month[5:]) - 1 - count
    return f"{number // 12:04}-{number % 12 + 1:02}"


def _without_gaps(months: dict[str, Counts], last: str) -> Figures:
    """Every month from the first with figures to the last one; () where there are none at all."""
    if not months:
        return ()
    every = [_months_before(last, back) for back in range(_MONTHS - 1, -1, -1)]
    return tuple((month, months.get(month, visits.Counts())) for month in every if month >= min(months))


def picture_name(raw: str) -> str:
    """The name in "<ibi>.svg". Raises ParseError for anything else."""
    if not raw.endswith(".svg"):
        raise ParseError("picture", raw, "a picture of a persistent URL is called like <identifier>.svg")
    return raw.removesuffix(".svg")
