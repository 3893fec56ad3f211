"""Pages and refusals, in the form and the language that suit who asks; pages that stay the same are made once."""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.holding import Access
from ibi.archive.website.conditions import unchanged
from ibi.archive.website.pages import FIGURES, ItemPage, MetadataPage, NoticePage
from ibi.archive.website.place import NOWHERE
from ibi.archive.website.signposting import headers
from ibi.errors import NotHeld, ParseError
from ibi.exchange import HTML, NO_STORE, PLAIN, PROBLEM, Response, link
from ibi.texts import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ibi.archive.website.pages import Page, Renderer
    from ibi.archive.website.place import Place
    from ibi.errors import IbiError
    from ibi.exchange import Asked, Headers

MOST_KEPT: Final = 16 << 20
"""Bytes of the pages that are kept, so that they need not be made again while nothing in them has changed."""

_LANG: Final = re.compile(r"(?:^|&)lang=([A-Za-z]{2}(?:-[A-Za-z]{2})?)(?:&|$)")
_OURS: Final = {tag.lower(): tag for tag in LANGUAGES}
_FOR_ALL: Final = "public, no-cache"
_FOR_ONE: Final = "private, no-cache"


class _Made(NamedTuple):
    """A page and what became of it; `version`: that of what was read for it last."""

    version: object
    page: Page
    body: bytes
    tag: str
    links: Headers


class Showing:
    """Shows values as answers. Without a renderer they are plain text, in English."""

    def __init__(self, renderer: Renderer | None, place: Place = NOWHERE) -> None:
        self._renderer = renderer
        self._place = place
        self._made: OrderedDict[Hashable, _Made] = OrderedDict()
        self._size = 0

    def page(self, asked: Asked, page: Page) -> Response:
        """A page in the reader's language; without a renderer, its bare facts."""
        if self._renderer is None:
            return Response(page.status, f"{page}\n".encode("utf-8", "replace"), PLAIN, NO_STORE)
        language, chosen = self._language(asked)
        body = self._renderer.render(replace(page, lang=chosen), language)
        return Response(page.status, body, HTML, (*NO_STORE, *self._renderer.headers(language)))

    def language(self, asked: Asked) -> str:
        """The language in which who asks gets a page."""
        return self._language(asked)[0]

    def lasting(self, asked: Asked, key: Hashable, version: object, gather: Callable[[], Page]) -> Response:
        """The same of a page that readers may keep, if they ask each time whether it has changed.

        `key` is that of the page alone; `gather` makes it. While `version` is the same, nothing that stands in the page
        has changed; a page that is equal to the one before is not rendered again either.
        """
        if self._renderer is None:
            return self.page(asked, gather())
        language, chosen = self._language(asked)
        key = (key, language, chosen)
        made = self._made.get(key)
        if made is None or made.version != version:
            made = self._keep(key, self._remade(self._renderer, made, version, gather(), (language, chosen)))
        for_all = not isinstance(made.page, ItemPage) or made.page.holding.access is Access.OPEN
        told: Headers = (
            ("etag", made.tag),
            ("cache-control", _FOR_ALL if for_all else _FOR_ONE),
            *self._renderer.headers(language),
            *made.links,
        )
        if asked.header(b"if-none-match") and unchanged(asked, made.tag, ""):
            return Response(304, headers=told)
        return Response(made.page.status, made.body, HTML, told)

    def refuse(self, asked: Asked, status: int, why: IbiError, *help_at: tuple[str, str]) -> Response:
        """Say why there is nothing else: HTML for browsers, problem+json where that is accepted, else plain text.

        `help_at`: what may help, as pairs of a sentence of ours and a URL.
        """
        links = tuple(link(url, "describedby") for _, url in help_at)
        if asked.form == "html" and self._renderer:
            notice = NoticePage(status, why, links=help_at, place=self._place, elsewhere=self._elsewhere(why))
            return self.page(asked, notice).having(*links)
        language = self._language(asked)[0]
        sentence = self._said(language, why.problem, why.details) if self._renderer else str(why)
        if asked.form == "json":
            problem: dict[str, Any] = {"type": "about:blank", "status": status, "detail": sentence}
            if help_at:
                problem["links"] = [url for _, url in help_at]
            return Response(status, json.dumps(problem).encode(), PROBLEM, (*NO_STORE, *links))
        caret = f"\n{why.caret()}" if isinstance(why, ParseError) and why.text else ""
        further_lines = "".join(f"\n{self._said(language, words, {})}: {url}" for words, url in help_at)
        text = f"{sentence}{caret}{further_lines}\n".encode("utf-8", "replace")
        return Response(status, text, PLAIN, (*NO_STORE, *links)).having(("content-language", language))

    @staticmethod
    def _remade(
        renderer: Renderer, made: _Made | None, version: object, page: Page, how: tuple[str, str]
    ) -> _Made:
        """A page as it is made now, or as it was made before if it is still the same."""
        if made is not None and made.page == page:
            return made._replace(version=version)
        language, chosen = how
        body = renderer.render(replace(page, lang=chosen), language)
        before, _, after = body.partition(FIGURES[0])
        links = headers(page.links) if isinstance(page, ItemPage | MetadataPage) else ()
        links += page.heads if isinstance(page, ItemPage) else ()
        digest = hashlib.sha256(before + after.partition(FIGURES[1])[2])
        return _Made(version, page, body, f'W/"{digest.hexdigest()[:32]}"', links)

    def _keep(self, key: Hashable, made: _Made) -> _Made:
        """Remember what was made, in place of what was not asked for the longest."""
        before = self._made.pop(key, None)
        self._size += len(made.body) - (len(before.body) if before is not None else 0)
        self._made[key] = made
        while self._size > MOST_KEPT:
            self._size -= len(self._made.popitem(last=False)[1].body)
        return made

    def _elsewhere(self, why: IbiError) -> str:
        """Where an item may be that is not held here."""
        name = why.details.get("name") if isinstance(why, NotHeld) else None
        if name is None or not self._place.resolver:
            return ""
        return f"{self._place.root}/{name}"

    def _language(self, asked: Asked) -> tuple[str, str]:
        """The language of a page, and what its links to others carry where the reader has chosen it by `?lang=`."""
        found = _LANG.search(asked.query) if asked.query else None
        chosen = _OURS.get(found[1].lower()) if found else None
        if chosen and self._renderer:
            return chosen, f"?lang={chosen}"
        return self._renderer.language(asked.header(b"accept-language")) if self._renderer else "en", ""

    def _said(self, language: str, problem: str, details: Any) -> str:
        return self._renderer.say(language)(problem, details) if self._renderer else problem
