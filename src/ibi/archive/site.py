"""Everything at an Archive's address that is no message of the standard: files, pages, and persistent URLs.

    /col/<ibi>/doc/<file>                          a stored file
    /-/item/<ibi>  /-/files/<ibi>  /-/metadata/<ibi>[?format=oai_dc]
    /                                              the front page
    anything else                                  a persistent URL: here if held, else at the resolver (note 27)

Pages are values; a renderer given from above writes them. Without it they are plain text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ibi.archive.answer import url_list
from ibi.archive.dublin_core import write_oai_dc
from ibi.archive.files import serve_file
from ibi.archive.pages import ArchivePage, FileListPage, ItemPage, MetadataPage, NoticePage
from ibi.archive.related import DUBLIN_CORE, Walk
from ibi.errors import HoldingError, NotHeld, ParseError, SetupError
from ibi.exchange import HTML, NO_STORE, PLAIN, PROBLEM, Response, redirect
from ibi.identifier.forms import parse_name
from ibi.protocol.choice import wanted, without_bare_translation
from ibi.protocol.language import LanguagePreference
from ibi.protocol.messages import UrlRequest
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.query_string import read_query, unescape, with_query
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.answer import ArchiveIdentity
    from ibi.archive.catalogue import Catalogue
    from ibi.archive.holding import Holding
    from ibi.archive.pages import Page, Renderer
    from ibi.archive.storage import Storage
    from ibi.errors import IbiError
    from ibi.exchange import Asked
    from ibi.protocol.relation import Relation
    from ibi.settings import ArchiveSettings

_COL: Final = "/col/"
_ROBOTS: Final = b"User-agent: *\nDisallow: /-/files/\n"


class Site:
    """Files, pages and persistent URLs of one Archive."""

    def __init__(
        self,
        settings: ArchiveSettings,
        identity: ArchiveIdentity,
        catalogue: Catalogue,
        storage: Storage,
        renderer: Renderer | None,
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._catalogue = catalogue
        self._storage = storage
        self._renderer = renderer
        self._pages: dict[str, Callable[[Asked, Holding], Response]] = {
            "item": self._item,
            "files": self._files,
            "metadata": self._metadata,
        }

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
        """Say why there is nothing else: HTML for browsers, problem+json where that is accepted, else plain text."""
        page = NoticePage(status, why)
        if asked.form == "html" and self._renderer:
            return self._page(asked, page)
        language = self._language(asked)
        sentence = self._renderer.say(language)(why.problem, why.details) if self._renderer else str(why)
        if asked.form == "json":
            problem = {"type": "about:blank", "status": status, "detail": sentence}
            return Response(status, json.dumps(problem).encode(), PROBLEM, NO_STORE)
        caret = f"\n{why.caret()}" if isinstance(why, ParseError) and why.text else ""
        text = f"{sentence}{caret}\n".encode("utf-8", "replace")
        return Response(status, text, PLAIN, NO_STORE).having(("content-language", language))

    def _answer(self, asked: Asked) -> Response:
        path = asked.path
        if path.startswith(_COL):
            return self._file(asked)
        if path.startswith("/-/"):
            word, _, name = path.removeprefix("/-/").partition("/")
            if word in self._pages and name:
                return self._pages[word](asked, self._held(name))
        elif path == "/":
            return self._front(asked)
        elif path == "/robots.txt":
            return Response(200, _ROBOTS, PLAIN)
        elif path not in {"/favicon.ico", "/sitemap.xml"} and not path.startswith("/.well-known/"):
            return self._persistent(asked)
        raise NotHeld("there is no such page here")

    def _held(self, raw_name: str) -> Holding:
        name = parse_name(unescape(raw_name))
        holding = self._catalogue.holding(name)
        if holding is None:
            raise NotHeld("this Archive does not hold {name}", name=name)
        return holding

    def _persistent(self, asked: Asked) -> Response:
        """A persistent URL at our own address: here if we can answer it, otherwise at the resolver (note 27)."""
        url = PersistentURL.parse(asked.path, asked.query)
        holding = self._catalogue.holding(url.ibi)
        found = self._own_answer(asked, url) if holding and not holding.deleted else None
        if found is not None:
            return redirect(with_query(found, url.foreign_query), ("vary", "Accept-Language"))
        if self._settings.resolver:
            return redirect(f"{self._settings.resolver.rstrip('/')}{asked.target}")
        if holding is None:
            raise NotHeld("this Archive does not hold {name}", name=url.ibi)
        if holding.deleted:
            return self._removed(asked, holding)
        raise NotHeld("this Archive holds {name}, but not what the URL asks for", name=url.ibi)

    def _own_answer(self, asked: Asked, url: PersistentURL) -> str | None:
        """Where a persistent URL of an item that is held here leads; None if this Archive cannot tell."""
        preference = LanguagePreference.parse(asked.header(b"accept-language"))
        relation: Relation | None = url.relation
        while relation is not None:
            verbs = VerbList.of(relation, file_list=url.file_list)
            request = UrlRequest((), url.ibi, url.file_path, verbs)
            answer = url_list(self._catalogue.holding, self._identity, request, "")
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
        ibi, slash, path = asked.path.removeprefix(_COL).partition("/doc/")
        name = parse_name(unescape(ibi))
        holding = self._catalogue.holding(name)
        if holding is None and self._settings.resolver and slash:
            return redirect(f"{self._settings.resolver.rstrip('/')}/{name}{f'/{path}' if path else ''}")
        if holding is None:
            raise NotHeld("this Archive does not hold {name}", name=name)
        if holding.deleted:
            return self._removed(asked, holding)
        file = holding.file(path)
        if file is not None:
            return serve_file(asked, self._storage, holding, file)
        target = holding.target_file
        if not path and target is not None:
            return redirect(f"{_COL}{holding.forms.main}/doc/{target.name}")
        raise NotHeld("{name} has no such file", name=holding.forms.main)

    def _removed(self, asked: Asked, holding: Holding) -> Response:
        """What is left of an item, as a page; to a program, one sentence."""
        if asked.form == "html":
            return self._page(asked, ItemPage(holding, None, self._settings.resolver, status=410))
        problem = "{name} was removed on {date}"
        return self.refuse(asked, 410, HoldingError(problem, name=holding.forms.main, date=holding.timestamp))

    def _item(self, asked: Asked, holding: Holding) -> Response:
        if holding.deleted:
            return self._removed(asked, holding)
        walk = Walk(self._catalogue.holding, self._identity.base, holding)
        url = holding.url or (walk.url(walk.item) if holding.target_file else None)
        known = [
            (relation.qualifier, found)
            for relation, there in walk.all(None, longest=1)
            if not there.is_same(walk.item) and (found := walk.url(there))
        ]
        return self._page(asked, ItemPage(holding, url, self._settings.resolver, tuple(known)))

    def _files(self, asked: Asked, holding: Holding) -> Response:
        if holding.deleted:
            return self._removed(asked, holding)
        if not holding.file_list_public:
            raise HoldingError(
                "access to the list of the files of {name} is not permitted", name=holding.forms.main
            )
        base = f"{self._identity.base}{_COL}{holding.forms.main}/doc/"
        files = tuple((file, f"{base}{file.name}") for file in holding.files)
        return self._page(asked, FileListPage(holding, files, holding.url or None))

    def _metadata(self, asked: Asked, holding: Holding) -> Response:
        """Dublin Core as a page or as oai_dc; an unknown format is answered with those that exist (note 19).

        Those of a removed item stay.
        """
        formats = dict(holding.formats)
        if holding.metadata is not None:
            formats.setdefault(DUBLIN_CORE, f"/-/metadata/{holding.forms.main}?format={DUBLIN_CORE}")
        wanted = dict(read_query(asked.query)).get("format", "")
        if wanted in holding.formats:
            return redirect(holding.formats[wanted])
        if holding.metadata is None:
            raise NotHeld("this Archive keeps no metadata of {name} itself", name=holding.forms.main)
        if wanted == DUBLIN_CORE:
            return Response(200, write_oai_dc(holding.metadata), "application/xml")
        if wanted:
            problem = "there are no metadata of {name} in this format; there are: {formats}"
            raise NotHeld(problem, name=holding.forms.main, formats=", ".join(formats))
        return self._page(asked, MetadataPage(holding, holding.metadata, formats))

    def _front(self, asked: Asked) -> Response:
        settings = self._settings
        service = str(settings.service.main)
        return self._page(
            asked, ArchivePage(settings.address, service, settings.resolver, self._catalogue.count())
        )

    def _page(self, asked: Asked, page: Page) -> Response:
        """A page in the reader's language; without a renderer, its bare facts."""
        if self._renderer is None:
            return Response(page.status, f"{page}\n".encode("utf-8", "replace"), PLAIN, NO_STORE)
        language = self._language(asked)
        body = self._renderer.render(page, language)
        return Response(page.status, body, HTML, (*NO_STORE, *self._renderer.headers(language)))

    def _language(self, asked: Asked) -> str:
        return self._renderer.language(asked.header(b"accept-language")) if self._renderer else "en"
