"""The pages of an Archive, as HTML in the reader's language (SVC-12, note 27)."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from ibi.archive.dublin_core import ELEMENTS
from ibi.archive.holding import Access
from ibi.archive.website.pages import ArchivePage, FileListPage, ItemPage, MetadataPage, NoticePage
from ibi.errors import ParseError
from ibi.protocol.language import LanguagePreference
from ibi.texts import say
from ibi.web.formats.table import CITATION, FORMATS, citations
from ibi.web.rendering import html, web_link
from ibi.web.wording import moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.archive.holding import Holding

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


ACCESS_WORDS = {
    Access.EMBARGOED: "Under embargo until {moment}",
    Access.RESTRICTED: "Only in networks that have a licence",
    Access.CLOSED: "Kept here, but not given to readers",
}
"""Who may have the data of an item that is not open to everybody."""


@singledispatch
def render(page: object, language: str) -> bytes:
    """A page (one of `ibi.archive.website.pages.Page`) as HTML in one of our languages."""
    raise TypeError(page, language)  # a kind of page nobody has written a template for


@render.register
def _(page: FileListPage, language: str) -> bytes:
    return html("files.html", language, page=page, title=title(page.holding, language))


@render.register
def _(page: ItemPage, language: str) -> bytes:
    root = web_link(page.resolver).rstrip("/")  # without a resolver, our own address resolves what we hold
    names = [f"{root}/{name}" for name in page.holding.names] if root else []
    return html(
        "item.html",
        language,
        page=page,
        title=title(page.holding, language),
        description=_best(page.holding, "description", language),
        root=root,
        persistent=names,
        main=page.holding.forms.main,
        access=_access(page, language),
        citations=citations(page.described, language) if page.described else [],
        formats=_labelled(page.formats),
    )


@render.register
def _(page: MetadataPage, language: str) -> bytes:
    rows = [(ELEMENT_NAMES[name], page.metadata[name]) for name in ELEMENTS if name in page.metadata]
    return html(
        "metadata.html",
        language,
        page=page,
        title=title(page.holding, language),
        rows=rows,
        formats=_labelled(page.formats),
        main=page.holding.forms.main,
    )


@render.register
def _(page: ArchivePage, language: str) -> bytes:
    return html("archive.html", language, page=page)


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


def title(holding: Holding, language: str) -> str:
    """What an item is called in the reader's language, or its name where it has no title."""
    return _best(holding, "title", language) or str(holding.forms.main)


def _labelled(formats: Mapping[str, str]) -> list[tuple[str, str]]:
    """Where formats are, under the names that people give them; citations are texts, not links."""
    labels = {each.name: each.label for each in FORMATS}
    return [(labels.get(name, name), url) for name, url in formats.items() if name != CITATION.name]


def _access(page: ItemPage, language: str) -> str:
    """Who may have the data; "" where nothing keeps them back from anybody, or nothing is left."""
    holding = page.holding
    over = holding.access is Access.EMBARGOED and page.access is Access.OPEN
    if holding.deleted or over or holding.access is Access.OPEN:
        return ""
    begin = moment(f"{holding.embargo}T00:00:00Z", language)
    return say(ACCESS_WORDS[holding.access], language, moment=begin)


def _best(holding: Holding, element: str, language: str) -> str:
    """The value of a Dublin Core element that suits the reader best; "" if there is none."""
    statements = (holding.metadata or {}).get(element, ())
    by_language = {statement.language: statement.value for statement in reversed(statements)}
    chosen = LanguagePreference.parse(language).choose([tag for tag in by_language if tag])
    return by_language[chosen] if chosen else statements[0].value if statements else ""
