"""Pages and refusals, in the form and the language that suit who asks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ibi.archive.website.pages import NoticePage
from ibi.errors import ParseError
from ibi.exchange import HTML, NO_STORE, PLAIN, PROBLEM, Response, link

if TYPE_CHECKING:
    from ibi.archive.website.pages import Page, Renderer
    from ibi.errors import IbiError
    from ibi.exchange import Asked


class Showing:
    """Shows values as answers. Without a renderer they are plain text, in English."""

    def __init__(self, renderer: Renderer | None) -> None:
        self._renderer = renderer

    def page(self, asked: Asked, page: Page) -> Response:
        """A page in the reader's language; without a renderer, its bare facts."""
        if self._renderer is None:
            return Response(page.status, f"{page}\n".encode("utf-8", "replace"), PLAIN, NO_STORE)
        language = self._language(asked)
        body = self._renderer.render(page, language)
        return Response(page.status, body, HTML, (*NO_STORE, *self._renderer.headers(language)))

    def refuse(self, asked: Asked, status: int, why: IbiError, *help_at: tuple[str, str]) -> Response:
        """Say why there is nothing else: HTML for browsers, problem+json where that is accepted, else plain text.

        `help_at`: what may help, as pairs of a sentence of ours and a URL.
        """
        links = tuple(link(url, "describedby") for _, url in help_at)
        if asked.form == "html" and self._renderer:
            return self.page(asked, NoticePage(status, why, links=help_at)).having(*links)
        language = self._language(asked)
        sentence = self._said(language, why.problem, why.details) if self._renderer else str(why)
        if asked.form == "json":
            problem: dict[str, Any] = {"type": "about:blank", "status": status, "detail": sentence}
            if help_at:
                problem["links"] = [url for _, url in help_at]
            return Response(status, json.dumps(problem).encode(), PROBLEM, (*NO_STORE, *links))
        caret = f"\n{why.caret()}" if isinstance(why, ParseError) and why.text else ""
        further = "".join(f"\n{self._said(language, words, {})}: {url}" for words, url in help_at)
        text = f"{sentence}{caret}{further}\n".encode("utf-8", "replace")
        return Response(status, text, PLAIN, (*NO_STORE, *links)).having(("content-language", language))

    def _language(self, asked: Asked) -> str:
        return self._renderer.language(asked.header(b"accept-language")) if self._renderer else "en"

    def _said(self, language: str, problem: str, details: Any) -> str:
        return self._renderer.say(language)(problem, details) if self._renderer else problem
