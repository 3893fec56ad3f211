"""The language of a page of a resolver, and how the links on it keep a language that was chosen.

The query of a persistent URL belongs to the standard and to the item (URL-15: foreign pairs go on): `?lang=` there
would be another question, and would travel on to the item. So a page that answers a persistent URL is read in another
language below a path of the resolver's own:

    /-/in/pt-BR/8JMKD3MGP8W/35MMLL8!+(en)?ibiurl.requireditemstatus=Original
    /-/in/pt-BR/-/explain/8JMKD3MGP8W/35MMLL8

It answers what the persistent URL answers, redirects too. All other pages have `?lang=pt-BR`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.http.request import Request
from ibi.resolver.pages.programs import EXPLAIN
from ibi.runtime.i18n import LANGUAGES, chosen_language, preferred_language

if TYPE_CHECKING:
    from collections.abc import Collection

IN_LANGUAGE: Final = "/-/in/"
"""What a path begins with that shows a persistent URL's page in a chosen language; the tag follows."""


class PageLanguage(NamedTuple):
    """The language of a page.

    `language`: one of LANGUAGES; `chosen`: whether the reader chose it with a link, so that links keep it;
    `target`: the persistent URL or explanation that the page answers, "" for all other pages.
    """

    language: str
    chosen: bool = False
    target: str = ""

    @property
    def lang(self) -> str:
        """The query of links to other pages: "?lang=…", "" unless the reader chose the language."""
        return f"?lang={self.language}" if self.chosen else ""

    def to(self, target: str) -> str:
        """Return a target at this resolver that keeps a chosen language."""
        if not self.chosen:
            return target
        if is_question(target.partition("?")[0]):
            return f"{IN_LANGUAGE}{self.language}{target}"
        return f"{target}{'&' if '?' in target else '?'}lang={self.language}"


@dataclass(slots=True)
class RequestInLanguage(Request):
    """A request for a persistent URL, or its explanation, whose page the reader wants in `language`."""

    language: str = field(kw_only=True)


def is_question(path: str, others: Collection[str] = ("/",)) -> bool:
    """Whether a path is a persistent URL or the explanation of one. `others`: paths beside `/-/` that are none."""
    if path.startswith(EXPLAIN):
        return True
    return path not in others and not path.startswith(("/-/", "/.well-known/"))


def read_request_in_language(request: Request, others: Collection[str]) -> RequestInLanguage | None:
    """Read a request for a page in a chosen language; None for any other path, and for an unknown language."""
    if not request.path.startswith(IN_LANGUAGE):
        return None
    language, slash, rest = request.path.removeprefix(IN_LANGUAGE).partition("/")
    path = slash + rest
    if language not in LANGUAGES or not path or not is_question(path, others):
        return None
    return RequestInLanguage(
        request.method,
        path,
        request.query,
        request.headers,
        request.addresses,
        request.peer,
        request.secure,
        language=language,
    )


def page_language(request: Request, others: Collection[str]) -> PageLanguage:
    """Return the language of the page that answers a request: the chosen one, else the browser's."""
    target = request.target if is_question(request.path, others) else ""
    if isinstance(request, RequestInLanguage):
        return PageLanguage(request.language, chosen=True, target=target)
    chosen = chosen_language(request.query)
    preferred = preferred_language(request.header(b"accept-language"))
    return PageLanguage(chosen or preferred, chosen=bool(chosen), target=target)
