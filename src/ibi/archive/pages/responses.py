"""Make pages and refusals in the reader's form and language; render a page again only when it changes."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.api.routes import language_of
from ibi.archive.model.item import Access
from ibi.archive.pages.models import USAGE_MARKERS, ItemPage, MetadataPage, NoticePage
from ibi.archive.pages.signposting import headers
from ibi.errors import HoldingError, NotHeld, ParseError, SetupError, Unsettled
from ibi.http.conditional import unchanged
from ibi.http.response import HTML, LATER, NO_STORE, PLAIN, PROBLEM, Response, common, link
from ibi.runtime.i18n import chosen_language, say

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ibi.archive.pages.models import Renderer, SiteContext, SitePage
    from ibi.errors import IbiError
    from ibi.http.request import Request
    from ibi.http.response import Headers


MOST_KEPT: Final = 16 << 20
"""Bytes of the rendered pages that are cached."""

_LATER: Final = int(LATER[1])
_FOR_ALL: Final = common(("cache-control", "public, no-cache"))
_FOR_ONE: Final = common(("cache-control", "private, no-cache"))
_STATUS: Final = ((ParseError, 400), (NotHeld, 404), (Unsettled, 503), (HoldingError, 403), (SetupError, 503))
"""The status of a refusal by the class of its error; the first match counts."""


class _RenderedPage(NamedTuple):
    """A page and its HTML; `version`: the version of the facts from which it was made last."""

    version: object
    page: SitePage
    body: bytes
    tag: str
    links: Headers


class PageResponses:
    """Makes responses of page values, and refusals."""

    def __init__(self, renderer: Renderer, place: SiteContext) -> None:
        self._renderer = renderer
        self._place = place
        self._rendered: OrderedDict[Hashable, _RenderedPage] = OrderedDict()
        self._size = 0

    def page(self, request: Request, page: SitePage) -> Response:
        """Render a page in the reader's language."""
        language, chosen = self.language(request)
        body = self._body(page, language, chosen)
        return Response(page.status, body, HTML, (*NO_STORE, *self._renderer.headers(language)))

    def language(self, request: Request) -> tuple[str, str]:
        """Return the language of a page, and the "?lang=…" for its links, "" unless the reader chose it."""
        chosen = chosen_language(request.query)
        return (chosen, f"?lang={chosen}") if chosen else (language_of(request), "")

    def cached(
        self, request: Request, key: Hashable, version: object, gather: Callable[[], SitePage]
    ) -> Response:
        """Render a page, or return the one kept in memory; readers may cache it, too, and revalidate it.

        `key` names the page; `gather` makes it. While `version` is the same, the page is not made again; a
        new page that equals the old one is not rendered again.
        """
        language, chosen = self.language(request)
        key = (key, language, chosen)
        rendered = self._rendered.get(key)
        if rendered is None or rendered.version != version:
            rendered = self._keep(key, self._render_again(rendered, version, gather(), language, chosen))
        for_all = not isinstance(rendered.page, ItemPage) or rendered.page.holding.access is Access.OPEN
        head: Headers = (
            ("etag", rendered.tag),
            *(_FOR_ALL if for_all else _FOR_ONE),
            *self._renderer.headers(language),
            *rendered.links,
        )
        if unchanged(request, rendered.tag):
            return Response(304, headers=head)
        return Response(rendered.page.status, rendered.body, HTML, head)

    def refuse_error(self, request: Request, error: IbiError) -> Response:
        """Refuse a request with the status for the class of its error."""
        status = next(code for kind, code in _STATUS if isinstance(error, kind))
        return self.refuse(
            request, status, error, retry_after=_LATER if isinstance(error, SetupError) else None
        )

    def refuse(
        self,
        request: Request,
        status: int,
        why: IbiError,
        *help_at: tuple[str, str],
        retry_after: int | None = None,
    ) -> Response:
        """Refuse a request and explain why: HTML for browsers, problem+json if accepted, else plain text.

        `help_at`: links that may help, as pairs of a sentence of ours and a URL; `retry_after`: seconds after which
        trying again makes sense, None if that is not known.
        """
        links = tuple(link(url, "describedby") for _, url in help_at)
        links += () if retry_after is None else (("retry-after", str(retry_after)),)
        if request.form == "html":
            # The resolver may know where the missing item is.
            name = why.details.get("name") if isinstance(why, NotHeld) and self._place.resolver else None
            elsewhere = f"{self._place.root}/{name}" if name is not None else ""
            notice = NoticePage(
                status, why, help_at, self._place, elsewhere, retry_after=retry_after, reads=request.reads
            )
            return self.page(request, notice).having(*links)
        language = self.language(request)[0]
        sentence = say(why, language)
        if request.form == "json":
            problem: dict[str, Any] = {"type": "about:blank", "status": status, "detail": sentence}
            if help_at:
                problem["links"] = [url for _, url in help_at]
            return Response(status, json.dumps(problem).encode(), PROBLEM, (*NO_STORE, *links))
        caret = f"\n{why.caret()}" if isinstance(why, ParseError) and why.text else ""
        further_lines = "".join(f"\n{say(words, language)}: {url}" for words, url in help_at)
        text = f"{sentence}{caret}{further_lines}\n".encode("utf-8", "replace")
        return Response(status, text, PLAIN, (*NO_STORE, *links)).having(("content-language", language))

    def _render_again(
        self, before: _RenderedPage | None, version: object, page: SitePage, language: str, chosen: str
    ) -> _RenderedPage:
        """Render a page, or reuse the rendered one if the page is equal."""
        if before is not None and before.page == page:
            return before._replace(version=version)
        body = self._body(page, language, chosen)
        head, _, rest = body.partition(USAGE_MARKERS[0])
        # The links are part of the page value, so they change only together with it.
        links = headers(page.links) if isinstance(page, ItemPage | MetadataPage) else ()
        links += page.heads if isinstance(page, ItemPage) else ()
        digest = hashlib.sha256(head + rest.partition(USAGE_MARKERS[1])[2])
        return _RenderedPage(version, page, body, f'W/"{digest.hexdigest()[:32]}"', links)

    def _body(self, page: SitePage, language: str, chosen: str) -> bytes:
        return self._renderer.render(replace(page, lang=chosen) if chosen else page, language)

    def _keep(self, key: Hashable, rendered: _RenderedPage) -> _RenderedPage:
        """Put a rendered page into the cache; drop the least recently used ones when it is full."""
        before = self._rendered.pop(key, None)
        self._size += len(rendered.body) - (len(before.body) if before is not None else 0)
        self._rendered[key] = rendered
        while self._size > MOST_KEPT:
            self._size -= len(self._rendered.popitem(last=False)[1].body)
        return rendered
