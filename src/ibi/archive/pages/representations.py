"""Pages and refusals in the reader's form and language, and the metadata of items in other formats.

`PageResponses` renders a page once for as long as it stays the same. `Representations` serves metadata by name, by the
header Accept, or as links:

/-/metadata/<ibi>?format=bibtex        by name; also at /-/item/<ibi>
Accept: application/x-bibtex           at both pages; at a persistent URL the answer is 303 to the first of them
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.model.access import day_of
from ibi.archive.model.formats import OAI_DC, DescribedItem, described, preferred_format
from ibi.archive.model.item import Access
from ibi.archive.pages.models import NO_SITE, USAGE_MARKERS, ItemPage, MetadataPage, NoticePage, unknown_kind
from ibi.archive.pages.signposting import Signposting, headers
from ibi.errors import NotHeld, ParseError
from ibi.http.conditional import tagged, unchanged
from ibi.http.response import HTML, NO_STORE, PLAIN, PROBLEM, Response, link, redirect, visible
from ibi.protocol.query_string import read_query, with_query
from ibi.runtime.i18n import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from ibi.archive.model.formats import Format, PreferredFormat
    from ibi.archive.model.item import Holding
    from ibi.archive.model.relations import Lookup
    from ibi.archive.pages.models import Renderer, SiteContext, SitePage
    from ibi.errors import IbiError
    from ibi.http.request import Request
    from ibi.http.response import Headers
    from ibi.runtime.settings import ArchiveSettings


MOST_KEPT: Final = 16 << 20
"""Bytes of the rendered pages that are cached."""

_LANG: Final = re.compile(r"(?:^|&)lang=([A-Za-z]{2}(?:-[A-Za-z]{2})?)(?:&|$)")
_OURS: Final = {tag.lower(): tag for tag in LANGUAGES}
_FOR_ALL: Final = "public, no-cache"
_FOR_ONE: Final = "private, no-cache"


class _Made(NamedTuple):
    """A page and its HTML; `version`: that of the facts that were read for it last."""

    version: object
    page: SitePage
    body: bytes
    tag: str
    links: Headers


class PageResponses:
    """Makes responses of page values. Without a renderer they are plain text, in English."""

    def __init__(self, renderer: Renderer | None, place: SiteContext = NO_SITE) -> None:
        self._renderer = renderer
        self._place = place
        self._made: OrderedDict[Hashable, _Made] = OrderedDict()
        self._size = 0

    def page(self, request: Request, page: SitePage) -> Response:
        """Render a page in the reader's language; without a renderer, its bare facts."""
        if self._renderer is None:
            return Response(page.status, f"{page}\n".encode("utf-8", "replace"), PLAIN, NO_STORE)
        language, chosen = self._language(request)
        body = self._renderer.render(replace(page, lang=chosen), language)
        return Response(page.status, body, HTML, (*NO_STORE, *self._renderer.headers(language)))

    def language(self, request: Request) -> str:
        """The language of a page for this request."""
        return self._language(request)[0]

    def lasting(
        self, request: Request, key: Hashable, version: object, gather: Callable[[], SitePage]
    ) -> Response:
        """Render a page that readers may cache and revalidate.

        `key` names the page; `gather` makes it. While `version` is the same, nothing in the page has changed; a page
        that is equal to the one before is not rendered again either.
        """
        if self._renderer is None:
            return self.page(request, gather())
        language, chosen = self._language(request)
        key = (key, language, chosen)
        made = self._made.get(key)
        # Nothing was changed in the Archive: the page is not even gathered again.
        if made is None or made.version != version:
            made = self._keep(key, self._remade(self._renderer, made, version, gather(), (language, chosen)))
        for_all = not isinstance(made.page, ItemPage) or made.page.holding.access is Access.OPEN
        kept: Headers = (
            ("etag", made.tag),
            ("cache-control", _FOR_ALL if for_all else _FOR_ONE),
            *self._renderer.headers(language),
            *made.links,
        )
        if request.header(b"if-none-match") and unchanged(request, made.tag, ""):
            return Response(304, headers=kept)
        return Response(made.page.status, made.body, HTML, kept)

    def refuse(self, request: Request, status: int, why: IbiError, *help_at: tuple[str, str]) -> Response:
        """Refuse a request and explain why: HTML for browsers, problem+json where it is accepted, else plain text.

        `help_at`: links that may help, as pairs of a sentence of ours and a URL.
        """
        links = tuple(link(url, "describedby") for _, url in help_at)
        if request.form == "html" and self._renderer:
            notice = NoticePage(status, why, links=help_at, place=self._place, elsewhere=self._elsewhere(why))
            return self.page(request, notice).having(*links)
        language = self._language(request)[0]
        sentence = self._translated(language, why.problem, why.details) if self._renderer else str(why)
        if request.form == "json":
            problem: dict[str, Any] = {"type": "about:blank", "status": status, "detail": sentence}
            if help_at:
                problem["links"] = [url for _, url in help_at]
            return Response(status, json.dumps(problem).encode(), PROBLEM, (*NO_STORE, *links))
        caret = f"\n{why.caret()}" if isinstance(why, ParseError) and why.text else ""
        further_lines = "".join(f"\n{self._translated(language, words, {})}: {url}" for words, url in help_at)
        text = f"{sentence}{caret}{further_lines}\n".encode("utf-8", "replace")
        return Response(status, text, PLAIN, (*NO_STORE, *links)).having(("content-language", language))

    @staticmethod
    def _remade(
        renderer: Renderer, made: _Made | None, version: object, page: SitePage, how: tuple[str, str]
    ) -> _Made:
        """Render a page, or take it as it was rendered before if it is the same."""
        if made is not None and made.page == page:
            return made._replace(version=version)
        language, chosen = how
        body = renderer.render(replace(page, lang=chosen), language)
        before, _, after = body.partition(USAGE_MARKERS[0])
        # The links stand in the page, so they stay the same with it.
        links = headers(page.links) if isinstance(page, ItemPage | MetadataPage) else ()
        links += page.heads if isinstance(page, ItemPage) else ()
        digest = hashlib.sha256(before + after.partition(USAGE_MARKERS[1])[2])
        return _Made(version, page, body, f'W/"{digest.hexdigest()[:32]}"', links)

    def _keep(self, key: Hashable, made: _Made) -> _Made:
        """Put a rendered page into the cache; drop the least recently used ones when it is full."""
        before = self._made.pop(key, None)
        self._size += len(made.body) - (len(before.body) if before is not None else 0)
        self._made[key] = made
        while self._size > MOST_KEPT:
            self._size -= len(self._made.popitem(last=False)[1].body)
        return made

    def _elsewhere(self, why: IbiError) -> str:
        """The URL at which the resolver looks for an item that is not held here."""
        name = why.details.get("name") if isinstance(why, NotHeld) else None
        if name is None or not self._place.resolver:
            return ""
        return f"{self._place.root}/{name}"

    def _language(self, request: Request) -> tuple[str, str]:
        """The language of a page, and what its links to others carry where the reader has chosen it by `?lang=`."""
        found = _LANG.search(request.query) if request.query else None
        chosen = _OURS.get(found[1].lower()) if found else None
        if chosen and self._renderer:
            return chosen, f"?lang={chosen}"
        return self._renderer.language(request.header(b"accept-language")) if self._renderer else "en", ""

    def _translated(self, language: str, problem: str, details: Any) -> str:
        return self._renderer.say(language)(problem, details) if self._renderer else problem


_NO_SUCH: Final = "there are no metadata of {name} in this format; there are: {formats}"
_MOST_WISHES: Final = 256
_OPTIONS: Final = ("style", "locale")


class Representations:
    """Writes what is known of the items of one Archive in the formats that there are."""

    def __init__(
        self,
        settings: ArchiveSettings,
        base: str,
        lookup: Lookup,
        renderer: Renderer | None,
        responses: PageResponses,
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._base = base
        self._lookup = lookup
        self._renderer = renderer
        self._responses = responses
        self._now = now
        self._formats = {each.name: each for each in (renderer.formats if renderer else (OAI_DC,))}
        choose = partial(preferred_format, formats=tuple(self._formats.values()))
        self._wanted: Callable[[str], PreferredFormat] = lru_cache(_MOST_WISHES)(choose)
        root = (settings.resolver or base).rstrip("/")
        kind = renderer.kind if renderer else unknown_kind
        self.signposting = Signposting(base, root, tuple(self._formats.values()), kind)
        """The links of pages, files and metadata."""

    def described(self, holding: Holding) -> DescribedItem | None:
        """An item with all that a format may say of it; None if nothing is said."""
        settings = self._settings
        return described(
            self._lookup, holding, self._base, settings.resolver, settings.address, day_of(self._now())
        )

    def formats(self, holding: Holding, item: DescribedItem | None) -> dict[str, str]:
        """The URLs of the metadata of an item in other formats than the page, by name."""
        ours = self._formats if item is not None else ()
        return {name: _at(holding, name) for name in ours} | dict(holding.formats)

    def document(self, request: Request, holding: Holding) -> Response | None:
        """Serve the metadata in the format that the request wants; None where it wants the page.

        Raises NotHeld for an unknown name (note 19); an Accept header that no format fits is refused with 406.
        """
        query = dict(read_query(request.query))
        name = query.get("format", "")
        if name:
            return self._by_name(request, holding, name, query)
        choice = self._wanted(request.header(b"accept"))
        if choice.format is None and choice.page:
            return None
        item = self.described(holding)
        if item is None or self._renderer is None:
            return None
        if choice.format is not None:
            try:
                return self._written(request, item, choice.format, choice.options)
            except NotHeld as error:
                return self._refused(request, error)
        return self._refused(request, self._no_such(item))

    def see_other(self, request: Request, holding: Holding) -> Response | None:
        """Redirect a persistent URL to the metadata, where Accept names one of their formats; None for the item."""
        # A format in which the item itself is stored means the item, and not its metadata.
        file = holding.target_file
        own = file.media_type.partition(";")[0] if file else ""
        formats = tuple(each for each in self._formats.values() if own not in each.media_types)
        choice = preferred_format(request.header(b"accept"), formats)
        if choice.format is None or self.described(holding) is None:
            return None
        options = "".join(
            f"&{name}={visible(choice.options[name], '&#+')}" for name in _OPTIONS if name in choice.options
        )
        where = ("location", visible(_at(holding, choice.format.name) + options))
        vary = ("vary", "Accept, Accept-Language")
        return Response(303, headers=(where, vary, *NO_STORE, self.cite_as(holding)))

    def cite_as(self, holding: Holding) -> tuple[str, str]:
        """The link to the URL by which an item is to be cited (RFC 8574)."""
        return "link", self.signposting.cite_as(holding).header()

    def _by_name(self, request: Request, holding: Holding, name: str, options: Mapping[str, str]) -> Response:
        if name in holding.formats:
            return redirect(holding.formats[name])
        item = self.described(holding)
        if item is None:
            raise NotHeld("this Archive keeps no metadata of {name} itself", name=holding.forms.main)
        if name not in self._formats:
            raise self._no_such(item)
        return self._written(request, item, self._formats[name], options)

    def _written(
        self, request: Request, item: DescribedItem, which: Format, options: Mapping[str, str]
    ) -> Response:
        language = self._renderer.language(request.header(b"accept-language")) if self._renderer else "en"
        body = which.write(item, {"locale": language} | {n: options[n] for n in _OPTIONS if n in options})
        links = headers(self.signposting.of_metadata(item.holding))
        vary = ("vary", "Accept, Accept-Language")
        return tagged(request, body, which.content_type, "public, no-cache", vary, *links)

    def _refused(self, request: Request, why: NotHeld) -> Response:
        return self._responses.refuse(request, 406, why).having(("vary", "Accept, Accept-Language"))

    def _no_such(self, item: DescribedItem) -> NotHeld:
        known = ", ".join(self.formats(item.holding, item))
        return NotHeld(_NO_SUCH, name=item.holding.forms.main, formats=known)


def _at(holding: Holding, name: str) -> str:
    """The path of the metadata of an item in a format."""
    return with_query(f"/-/metadata/{holding.forms.main}", f"format={name}")
