"""Answer every request at an Archive's address that is no message of the standard.

    /col/<ibi>/doc/<file>                          a stored file
    /-/item/<ibi>  /-/metadata/<ibi>               the item and its metadata: `item_page`
    /-/linkset/<ibi>  /-/qr/<ibi>.svg              its links, and its persistent URL as a QR code: `item_page`
    /-/files/<ibi>  /-/zip/<ibi>                   its files: `item_page`, `delivery`
    /-/timegate/<ibi>  /-/timemap/<ibi>            its editions in time: `mementos`
    /  /-/about  /-/programs                       the front page, who keeps the Archive, and the page for programs
    /robots.txt  /.well-known/...                  well-known resources
    anything else                                  a persistent URL: here if held, else at the resolver (note 27)

Pages are plain values; `app` supplies a renderer that turns them into HTML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.archive.model.answer import url_list
from ibi.archive.model.relations import ItemRelations
from ibi.archive.pages.delivery import COL, OF_A_FILE, Delivery
from ibi.archive.pages.handle_records import HandleRecords
from ibi.archive.pages.item_page import ItemPages, picture_name
from ibi.archive.pages.mementos import Mementos
from ibi.archive.pages.models import CollectionFacts, SiteContext, SiteParts
from ibi.archive.pages.responses import PageResponses
from ibi.archive.pages.signposting import joined
from ibi.archive.search import resource_sync
from ibi.errors import HoldingError, NotHeld, ParseError, SetupError
from ibi.http.files_origin import FilesOrigin
from ibi.http.memento import named_by
from ibi.http.request import hosts_of
from ibi.http.response import JSON, PLAIN, Response, redirect
from ibi.http.well_known import CATALOG, SECURITY, Interface, catalog, security
from ibi.identifier.forms import parse_name
from ibi.protocol.language import LanguagePreference
from ibi.protocol.messages import UrlRequest
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.query_string import unescape, with_query
from ibi.protocol.url_list import find_wanted, without_bare_translation
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.model.answer import ArchiveIdentity
    from ibi.archive.model.item import Holding
    from ibi.archive.pages.models import Renderer
    from ibi.archive.pages.visits import VisitCounter
    from ibi.archive.store.file_store import FileStore
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.request import Request
    from ibi.protocol.relation import Relation
    from ibi.runtime.settings import ArchiveSettings


_DEAR: Final = ("zip/", "qr/", "timegate/", "timemap/", "oai", "api/", "admin")
"""Paths that robots need not read: they are expensive, or their content is on the pages of items already."""
ABOUT: Final = "/-/about"
"""The page about the institution and its Archive; programs get other facts there, from `ArchiveService`."""
PROGRAMS: Final = "/-/programs"
"""The page for programs."""
_FIXED: Final = frozenset({"/robots.txt", "/favicon.ico", "/sitemap.xml"})

_XML: Final = "text/xml"
_RESOURCE_SYNC: Final = "application/xml"
_FOR_A_DAY: Final = (("cache-control", "public, max-age=86400"),)


_GATES: Final = frozenset({"timegate", "timemap"})
_STAYING: Final = frozenset({"metadata", "linkset", "qr"})  # still served for a removed item


def robots(base: str) -> bytes:
    """Write robots.txt: pages of items, files and the sitemap are allowed, expensive pages are not.

    `base` begins the URL of the sitemap; "" if there is no sitemap.
    """
    rules = [f"Disallow: /-/{word}" for word in _DEAR]
    found = ["Disallow: /-/search?*text=", "", f"Sitemap: {base}/sitemap.xml"] if base else []
    return "\n".join(["User-agent: *", *rules, *found, ""]).encode()


class Site:
    """Files, pages and persistent URLs of one Archive.

    `now` returns POSIX seconds; `visits`: the counter of visits, if there is one; `facts` returns what the
    front page shows of all items, None for an Archive without search pages.
    """

    def __init__(
        self,
        settings: ArchiveSettings,
        identity: ArchiveIdentity,
        catalogue: Catalogue,
        file_store: FileStore,
        renderer: Renderer,
        now: Callable[[], float],
        *,
        visits: VisitCounter | None = None,
        facts: Callable[[], CollectionFacts] | None = None,
    ) -> None:
        self._settings, self._identity = settings, identity
        self._catalogue, self._now = catalogue, now
        self._place = SiteContext(identity.base, settings.resolver, settings.admin, search=facts is not None)
        parts = SiteParts(settings, catalogue, renderer, now, self._place)
        self._responses = PageResponses(renderer, self._place)
        self.refuse = self._responses.refuse
        """Refuse a request, in the reader's form and language."""
        self.files_origin = FilesOrigin(settings.files_address)
        """The address that serves only files, if there is one."""
        self._delivery = Delivery(parts, file_store, self.files_origin, self._responses, visits)
        self._mementos = mementos = Mementos(catalogue, identity.base, self._place.root)
        resolver = [settings.resolver.partition("://")[2].partition("/")[0]] if settings.resolver else []
        self._hosts = hosts_of((*settings.addresses, *resolver))
        pages = ItemPages(parts, self._responses, self._delivery, mementos, facts or CollectionFacts)
        self._item_pages = pages
        self._whole = {"/": pages.front, ABOUT: pages.about, PROGRAMS: pages.programs}
        self._handle_records = HandleRecords(settings, catalogue, now)
        self._pages: dict[str, Callable[[Request, Holding], Response]] = {
            "item": pages.item,
            "files": self._delivery.listing,
            "metadata": pages.metadata,
            "linkset": pages.linkset,
            "qr": pages.picture,
            "zip": self._delivery.bundle,
            "timegate": mementos.gate,
            "timemap": mementos.map,
        }

    def answer(self, request: Request) -> Response:
        """Answer a request that is no message of the standard."""
        try:
            return self._answer(request)
        except (ParseError, HoldingError, SetupError) as error:
            return self._responses.refuse_error(request, error)

    def only_file(self, request: Request) -> Response:
        """Answer a request at the address that serves only files."""
        try:
            if request.path.startswith(COL):
                return self._file(request)
            raise NotHeld("there is nothing but files at this address")
        except (ParseError, HoldingError, SetupError) as error:
            return self._responses.refuse_error(request, error)

    def _answer(self, request: Request) -> Response:
        path = request.path
        if path.startswith(COL):
            return self._file(request)
        if path in self._whole:
            return self._whole[path](request)
        if path.startswith("/-/"):
            word, _, name = path.removeprefix("/-/").partition("/")
            # A path under /-/ without a name is neither a page nor a persistent URL.
            if word in self._pages and name:
                if word in _GATES:
                    named = named_by(name, self._hosts)
                else:
                    named = parse_name(unescape(picture_name(name) if word == "qr" else name))
                holding = self._catalogue.settled(named)
                if holding.deleted and word not in _STAYING:
                    return self._delivery.removed(request, holding)
                return self._pages[word](request, holding)
        elif path.startswith("/.well-known/") or path in _FIXED:
            return self._well_known(path)
        else:
            return self._persistent(request)
        raise NotHeld("there is no such page here")

    def _well_known(self, path: str) -> Response:
        base = self._identity.base
        if path == "/robots.txt":
            return Response(200, robots(base if self._place.search else ""), PLAIN, _FOR_A_DAY)
        contact = security(self._settings.admin, self._now()) if path == SECURITY else None
        if contact is not None:
            return contact
        if path != CATALOG:
            raise NotHeld("there is no such page here")
        api = (
            ("service-desc", f"{base}/-/api/openapi.json", JSON),
            ("service-meta", f"{base}/-/about", JSON),
            ("status", f"{base}/-/readyz", PLAIN),
        )
        harvest = (("service-desc", f"{base}/-/oai?verb=Identify", _XML),)
        interfaces = [Interface(f"{base}/-/api/", api), Interface(f"{base}/-/oai", harvest)]
        if self._place.search:
            source = (("service-desc", f"{base}{resource_sync.SOURCE}", _RESOURCE_SYNC),)
            interfaces.append(Interface(f"{base}{resource_sync.CAPABILITIES}", source))
        return catalog(base, interfaces)

    def _persistent(self, request: Request) -> Response:
        """Resolve a persistent URL at our own address, or redirect it to the resolver (note 27)."""
        url = PersistentURL.parse(request.path, request.query)
        holding = self._catalogue.holding(url.ibi)
        if holding is not None:
            holding.check_settled()
        if url.inflection and holding is not None:
            record = self._handle_records.inflected(request, url, holding)
            if record is not None:
                return record
        if holding is not None and not holding.deleted:
            metadata = self._as_metadata(request, url, holding)
            if metadata is not None:
                return metadata
            target = self._own_answer(request, url)
            if target is not None:
                vary = ("vary", "Accept, Accept-Language")
                # The link cites the item that the URL names. With a relation, the target is another item.
                cited = () if url.relation.steps else (self._item_pages.cite_as(holding),)
                gates = self._mementos.links(holding)
                cited = (("link", gates), *cited) if gates else cited
                return redirect(with_query(target, url.foreign_query), vary, *cited)
        if self._settings.resolver:
            return redirect(f"{self._settings.resolver.rstrip('/')}{request.target}")
        if holding is None:
            raise NotHeld("this Archive does not hold {name}", name=url.ibi)
        if holding.deleted:
            return self._delivery.removed(request, holding)
        raise NotHeld("this Archive holds {name}, but not what the URL asks for", name=url.ibi)

    def _as_metadata(self, request: Request, url: PersistentURL, holding: Holding) -> Response | None:
        """Redirect to the metadata if Accept names one of our formats; return None for other requests."""
        if url.file_path or url.file_list:
            return None
        related = ItemRelations(self._catalogue.holding, self._identity.base, holding).one(url.relation)
        there = related.holding if related is not None and related.format is None else None
        if (
            there is None
            or there.deleted
            or (url.original_required and there.state is not ItemState.ORIGINAL)
        ):
            return None
        return self._item_pages.see_other(request, there)

    def _own_answer(self, request: Request, url: PersistentURL) -> str | None:
        """Return the target of a persistent URL of an item held here; None if it is not known here."""
        preference = LanguagePreference.parse(request.header(b"accept-language"))
        relation: Relation | None = url.relation
        while relation is not None:
            verbs = VerbList.of(relation, file_list=url.file_list)
            message = UrlRequest((), url.ibi, url.file_path, verbs)
            answer = url_list(
                self._catalogue.holding,
                self._identity,
                message,
                "",
                withheld=self._delivery.withheld(request),
            )
            chosen = find_wanted(answer, relation, preference, answer.relations())
            if chosen is not None:
                refused = url.original_required and chosen.entry.state is not ItemState.ORIGINAL
                return None if refused else chosen.entry.url
            # The resolver can follow a relation to an item that is only named here. Without a resolver, the item is
            # given in the language that there is (AMB-46: ends at the item itself).
            if self._settings.resolver:
                return None
            relation = without_bare_translation(relation)
        return None

    def _file(self, request: Request) -> Response:
        """Serve a file of an item, or redirect to the resolver if the item is not held here (any more)."""
        ibi, slash, path = request.path.removeprefix(COL).partition("/doc/")
        name = parse_name(unescape(ibi))
        holding = self._catalogue.holding(name)
        if holding is None and self._settings.resolver and slash:
            return redirect(f"{self._settings.resolver.rstrip('/')}/{name}{f'/{path}' if path else ''}")
        if holding is None:
            raise NotHeld("this Archive does not hold {name}", name=name)
        holding.check_settled()
        if holding.deleted:
            return self._delivery.removed(request, holding)
        response = self._delivery.file(request, holding, path)
        if response.status not in OF_A_FILE:
            return response
        links = self._item_pages.signposting.of_file(holding, holding.file(path))
        # One header: see `joined`.
        relation, signposts = joined(links)
        return response.having(
            (relation, ", ".join(filter(None, (signposts, self._mementos.links(holding)))))
        )
