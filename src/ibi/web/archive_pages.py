"""The pages of an Archive, as HTML in the reader's language (SVC-12, note 27)."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, NamedTuple

from ibi.archive.dublin_core import ELEMENTS
from ibi.archive.finding.pages import BrowsePage, SearchPage
from ibi.archive.website.pages import ArchivePage, FileListPage, ItemPage, MetadataPage, NoticePage
from ibi.errors import ParseError
from ibi.texts import say
from ibi.web import finding_pages, item_page
from ibi.web.head import link_elements
from ibi.web.item_page import FAULTS
from ibi.web.rendering import html

if TYPE_CHECKING:
    from ibi.archive.holding import Holding
    from ibi.identifier.forms import IBI

ELEMENT_NAMES = {
    "title": "Title",
    "creator": "Creator",
    "subject": "Subject",
    "description": "Description",
    "publisher": "Publisher",
    "contributor": "Contributor",
    "date": "Date",
    "type": "Type",
    "format": "Format",
    "identifier": "Identifier",
    "source": "Source",
    "language": "Language",
    "relation": "Relation",
    "coverage": "Coverage",
    "rights": "Rights",
}
"""The fifteen elements of Dublin Core, as a person calls them."""

NOTICE_TITLES = {
    400: "This request cannot be understood",
    403: "Access is not permitted",
    404: "There is nothing here",
    405: "This Archive is only read",
    410: "This item was removed",
    503: "This Archive cannot answer now",
    0: "This did not work",
}
"""What a notice is headed with, by its status; 0 for any other."""


@singledispatch
def render(page: object, language: str) -> bytes:
    """A page (one of `ibi.archive.website.pages.Page`) as HTML in one of our languages."""
    raise TypeError(page, language)  # a kind of page nobody has written a template for


@render.register
def _(page: FileListPage, language: str) -> bytes:
    return html("files.html", language, page=page, faults=FAULTS, **_titled(page.holding, language))


@render.register
def _(page: ItemPage, language: str) -> bytes:
    return html("item.html", language, **item_page.values(page, language))


@render.register
def _(page: MetadataPage, language: str) -> bytes:
    rows = [(ELEMENT_NAMES[name], page.metadata[name]) for name in ELEMENTS if name in page.metadata]
    return html(
        "metadata.html",
        language,
        page=page,
        rows=rows,
        links=link_elements(page.links),
        formats=item_page.labelled(page.formats),
        main=page.holding.forms.main,
        **_titled(page.holding, language),
    )


@render.register
def _(page: ArchivePage, language: str) -> bytes:
    return html("archive.html", language, page=page, newest=[_new(each, language) for each in page.newest])


@render.register
def _(page: NoticePage, language: str) -> bytes:
    problem = page.problem
    caret = problem.caret().split("\n", 1) if isinstance(problem, ParseError) and problem.text else None
    return html(
        "notice.html",
        language,
        page=page,
        title=say(NOTICE_TITLES.get(page.status, NOTICE_TITLES[0]), language),
        detail=say(problem, language, **page.details),
        caret=caret,
        suggestion=getattr(problem, "suggestion", None),
    )


@render.register
def _(page: SearchPage, language: str) -> bytes:
    return finding_pages.search_page(page, language)


@render.register
def _(page: BrowsePage, language: str) -> bytes:
    return finding_pages.browse_page(page, language)


def title(holding: Holding, language: str) -> str:
    """What an item is called in the reader's language, or its name where it has no title; cut where it is too long."""
    return item_page.short_title(holding, language)


class _New(NamedTuple):
    """An item on the front page."""

    name: IBI
    title: str
    language: str
    day: str


def _new(holding: Holding, language: str) -> _New:
    """`day`: when it got its name, as its name tells it."""
    named = _titled(holding, language)
    main = holding.forms.main
    return _New(main, named["title"], named["title_language"], (main.date.text or "")[:10])


def _titled(holding: Holding, language: str) -> dict[str, str]:
    """What an item is called in the reader's language, or its name; and the language of that, "" if none is told."""
    found = item_page.best(holding.metadata or {}, "title", language)
    known = found.language if found else None
    return {"title": title(holding, language), "title_language": known or ""}
