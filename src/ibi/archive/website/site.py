"""Everything at an Archive's address that is no message of the standard: files, pages, and persistent URLs.

    /col/<ibi>/doc/<file>                          a stored file
    /-/item/<ibi>  /-/metadata/<ibi>               the item and what is said of it: `landing`, in formats: `describing`
    /-/linkset/<ibi>  /-/qr/<ibi>.svg              its links, and its persistent URL for cameras: `landing`
    /-/files/<ibi>  /-/zip/<ibi>                   its files: `landing`, `delivery`
    /-/timegate/<ibi>  /-/timemap/<ibi>            its editions in time: `mementos`
    /                                              the front page
    /robots.txt  /.well-known/...                  what is found there everywhere: `everywhere`
    anything else                                  a persistent URL: here if held, else at the resolver (note 27)

Pages are values; a renderer given from above writes them. Without it they are plain text.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.archive.access import withheld
from ibi.archive.answer import url_list
from ibi.archive.care.audit import known_fault
from ibi.archive.related import Walk
from ibi.archive.website.delivery import COL, Delivery
from ibi.archive.website.describing import Describing
from ibi.archive.website.everywhere import Everywhere, is_everywhere
from ibi.archive.website.in_brief import InBrief
from ibi.archive.website.landing import Landing, picture_name
from ibi.archive.website.mementos import Mementos
from ibi.archive.website.place import Place
from ibi.archive.website.showing import Showing
from ibi.archive.website.signposting import joined
from ibi.errors import HoldingError, NotHeld, ParseError, SetupError
from ibi.exchange import redirect
from ibi.identifier.forms import parse_name
from ibi.protocol.choice import wanted, without_bare_translation
from ibi.protocol.language import LanguagePreference
from ibi.protocol.messages import UrlRequest
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.query_string import unescape, with_query
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.access import Withheld
    from ibi.archive.answer import ArchiveIdentity
    from ibi.archive.catalogue import Catalogue
    from ibi.archive.holding import Holding
    from ibi.archive.storage import Storage
    from ibi.archive.website.pages import Renderer
    from ibi.archive.website.statistics import Visits
    from ibi.errors import IbiError
    from ibi.exchange import Asked, Response
    from ibi.protocol.relation import Relation
    from ibi.settings import ArchiveSettings

_OF_A_FILE: Final = frozenset({200, 206, 304})
_STAYING: Final = frozenset({"metadata", "linkset", "qr"})  # what is known of a removed item


class Site:
    """Files, pages and persistent URLs of one Archive.

    `now` gives POSIX seconds; `visits`: what counts readers, if anything does; `search`: whether items can be
    looked for.
    """

    def __init__(
        self,
        settings: ArchiveSettings,
        identity: ArchiveIdentity,
        catalogue: Catalogue,
        storage: Storage,
        renderer: Renderer | None,
        now: Callable[[], float],
        *,
        visits: Visits | None = None,
        search: bool = False,
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._catalogue = catalogue
        self._now = now
        place = Place(identity.base, settings.resolver, settings.admin, search=search)
        self._everywhere = Everywhere(settings, identity.base, now, search=search)
        self._showing = Showing(renderer, place)
        self._delivery = Delivery(
            settings,
            identity.base,
            storage,
            self._showing,
            now,
            visits,
            partial(known_fault, catalogue),
            catalogue.holding,
        )
        self._describing = Describing(
            settings, identity.base, catalogue.holding, renderer, self._showing, now
        )
        self._landing = Landing(
            settings, place, catalogue, self._showing, self._delivery, self._describing, renderer, now
        )
        self._mementos = Mementos(catalogue, identity.base, place.root)
        self._in_brief = InBrief(settings, catalogue, identity.base, now)
        ours = {"zip": self._delivery.bundle, **self._mementos.pages}
        self._pages = self._landing.pages(self._withheld, self._mementos.headers) | ours

    def answer(self, asked: Asked) -> Response:
        """The answer to anything that is no message."""
        try:
            return self._answer(asked)
        except ParseError as error:
            return self.refuse(asked, 400, error)
        except NotHeld as error:
            return self.refuse(asked, 404, error)
        except HoldingError as error:
            return self.refuse(asked, 403, error)
        except SetupError as error:
            return self.refuse(asked, 503, error)

    def refuse(self, asked: Asked, status: int, why: IbiError) -> Response:
        """Say why there is nothing else, in the form and language that suit who asks."""
        return self._showing.refuse(asked, status, why)

    def _answer(self, asked: Asked) -> Response:
        path = asked.path
        if path.startswith(COL):
            return self._file(asked)
        if path.startswith("/-/"):
            word, _, name = path.removeprefix("/-/").partition("/")
            if word in self._pages and name:
                return self._page_of(word, asked, self._held(picture_name(name) if word == "qr" else name))
        elif path == "/":
            return self._landing.front(asked)
        elif not is_everywhere(path):
            return self._persistent(asked)
        elif (found := self._everywhere.answer(path)) is not None:
            return found
        raise NotHeld("there is no such page here")

    def _held(self, raw_name: str) -> Holding:
        name = parse_name(unescape(raw_name))
        holding = self._catalogue.holding(name)
        if holding is None:
            raise NotHeld("this Archive does not hold {name}", name=name)
        return holding

    def _page_of(self, word: str, asked: Asked, holding: Holding) -> Response:
        if holding.deleted and word not in _STAYING:
            return self._delivery.removed(asked, holding)
        return self._pages[word](asked, holding)

    def _withheld(self, asked: Asked) -> Withheld:
        """Of which items who asks may not have the data."""
        return withheld(self._settings, lambda: self._delivery.reader(asked), self._now)

    def _persistent(self, asked: Asked) -> Response:
        """A persistent URL at our own address: here if we can answer it, otherwise at the resolver (note 27)."""
        url = PersistentURL.parse(asked.path, asked.query)
        holding = self._catalogue.holding(url.ibi)
        told = self._in_brief.inflected(asked, url, holding) if url.inflection and holding else None
        if told is not None:
            return told
        if holding is not None and not holding.deleted:
            metadata = self._as_metadata(asked, url, holding)
            if metadata is not None:
                return metadata
            found = self._own_answer(asked, url)
            if found is not None:
                vary = ("vary", "Accept, Accept-Language")
                cited = () if url.relation.steps else (self._describing.cite_as(holding),)
                return redirect(with_query(found, url.foreign_query), vary, *cited)
        if self._settings.resolver:
            return redirect(f"{self._settings.resolver.rstrip('/')}{asked.target}")
        if holding is None:
            raise NotHeld("this Archive does not hold {name}", name=url.ibi)
        if holding.deleted:
            return self._delivery.removed(asked, holding)
        raise NotHeld("this Archive holds {name}, but not what the URL asks for", name=url.ibi)

    def _as_metadata(self, asked: Asked, url: PersistentURL, holding: Holding) -> Response | None:
        """Where a persistent URL leads who wants metadata in a format of ours (Accept); None for all others."""
        if url.file_path or url.file_list:
            return None
        related = Walk(self._catalogue.holding, self._identity.base, holding).one(url.relation)
        there = related.holding if related is not None and related.format is None else None
        if there is None or there.deleted or (url.original_required and there.state is not State.ORIGINAL):
            return None
        return self._describing.see_other(asked, there)

    def _own_answer(self, asked: Asked, url: PersistentURL) -> str | None:
        """Where a persistent URL of an item that is held here leads; None if this Archive cannot tell."""
        preference = LanguagePreference.parse(asked.header(b"accept-language"))
        relation: Relation | None = url.relation
        while relation is not None:
            verbs = VerbList.of(relation, file_list=url.file_list)
            request = UrlRequest((), url.ibi, url.file_path, verbs)
            answer = url_list(
                self._catalogue.holding, self._identity, request, "", withheld=self._withheld(asked)
            )
            chosen = wanted(answer, relation, preference, answer.relations())
            if chosen is not None:
                refused = url.original_required and chosen.entry.state is not State.ORIGINAL
                return None if refused else chosen.entry.url
            if self._settings.resolver:  # it can follow what is only named here
                return None
            relation = without_bare_translation(relation)  # then in the language it has (AMB-46)
        return None

    def _file(self, asked: Asked) -> Response:
        """A file of an item, or the resolver's word for where the item has gone."""
        ibi, slash, path = asked.path.removeprefix(COL).partition("/doc/")
        name = parse_name(unescape(ibi))
        holding = self._catalogue.holding(name)
        if holding is None and self._settings.resolver and slash:
            return redirect(f"{self._settings.resolver.rstrip('/')}/{name}{f'/{path}' if path else ''}")
        if holding is None:
            raise NotHeld("this Archive does not hold {name}", name=name)
        if holding.deleted:
            return self._delivery.removed(asked, holding)
        response = self._delivery.file(asked, holding, path)
        if response.status not in _OF_A_FILE:
            return response
        links = self._describing.signposting.of_file(holding, holding.file(path))
        return response.having(joined(links))
