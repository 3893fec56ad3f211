"""The pages of an Archive for readers, as HTML in their language (SVC-12, note 27): items, files, search, browsing.

A page model of `ibi.archive.pages.models` becomes bytes here; nothing is looked up.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from ibi.archive.model.item import ELEMENTS, MetadataValue
from ibi.archive.pages.models import (
    ArchivePage,
    BrowsePage,
    FileListPage,
    ItemPage,
    MetadataPage,
    NoticePage,
    SearchPage,
)
from ibi.archive.pages.search_pages import worth_indexing
from ibi.archive.search.feeds import best_value
from ibi.archive.search.search import LOOKED_AT
from ibi.archive.search.words import path_with_query
from ibi.errors import ParseError
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.i18n import say
from ibi.web import item_page
from ibi.web.item_page import FAULTS, LONGEST_TITLE, link_elements, shortened
from ibi.web.rendering import html, language_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.model.item import Holding
    from ibi.archive.search.search import FacetValue, SearchHit
    from ibi.archive.search.words import SearchQuery
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


KIND_NAMES: Final = {
    "Audiovisual": "Video",
    "Book": "Book",
    "BookChapter": "Book chapter",
    "Collection": "Collection",
    "ConferencePaper": "Conference paper",
    "Dataset": "Dataset",
    "Dissertation": "Thesis or dissertation",
    "Image": "Image or map",
    "JournalArticle": "Journal article",
    "Other": "Of another kind",
    "Poster": "Poster",
    "Preprint": "Preprint",
    "Presentation": "Presentation",
    "Report": "Report",
    "Software": "Software",
    "Sound": "Sound",
    "Text": "Text",
}
"""The kinds of items, as a person calls them."""

HEADS: Final = {"text": "Words", "year": "Year", "language": "Language", "kind": "Kind", "person": "Person"}
_STATES: Final = {ItemState.ORIGINAL: "Original", ItemState.COPY: "Copy", ItemState.DELETED: "Removed"}
_SHOWN_PEOPLE: Final = 5
_LONGEST_ABSTRACT: Final = 160


@singledispatch
def render(page: object, language: str) -> bytes:
    """Write a page (one of `ibi.archive.pages.models.SitePage`) as HTML in one of our languages."""
    raise TypeError(page, language)  # a page model without a template


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


def title(holding: Holding, language: str) -> str:
    """Return the title of an item in the reader's language, shortened, or its name where it has no title."""
    return item_page.short_title(holding, language)


class _New(NamedTuple):
    """An item on the front page."""

    name: IBI
    title: str
    language: str
    day: str


def _new(holding: Holding, language: str) -> _New:
    """Make the row of an item of the front page; `day` is when it got its name, which its name shows."""
    named = _titled(holding, language)
    main = holding.forms.main
    return _New(main, named["title"], named["title_language"], (main.date.text or "")[:10])


def _titled(holding: Holding, language: str) -> dict[str, str]:
    """Return the title of an item in the reader's language, or its name, and the language of that, "" if unknown."""
    found = item_page.best(holding.metadata or {}, "title", language)
    known = found.language if found else None
    return {"title": title(holding, language), "title_language": known or ""}


class Row(NamedTuple):
    """One item of a list, worded."""

    page: str
    name: str
    title: str
    language: str
    abstract: str
    people: list[str]
    more_people: int
    year: int
    tongue: str
    kind: str
    state: str


class Choice(NamedTuple):
    """Something to choose: what it is called, how many items it has, where it leads."""

    label: str
    items: int
    path: str


class Chosen(NamedTuple):
    """Something that was chosen: under which head, what, and the path of the same search without it."""

    head: str
    label: str
    path: str


@render.register
def _(page: SearchPage, language: str) -> bytes:
    """Write a search, or a list, and its results."""
    question, found = page.question, page.found
    lang = page.lang.removeprefix("?")
    return html(
        "search.html",
        language,
        page=page,
        question=question,
        found=found,
        rows=[_row(each, language, page.lang) for each in page.results],
        chosen=_chosen(question, language, lang),
        facets=_facets(page, language, lang),
        heading=_heading(question, language),
        looked_at=LOOKED_AT,
        next_path=_path(found.next, lang) if found and found.next else "",
        first_path=_path(question.having(), lang) if question.page > 1 or question.before else "",
        leads=page.leads,
        feed=path_with_query("/-/feed", question.having()),
        kept_query=question.query_string(),
        indexed=found is None or (worth_indexing(question) and bool(found.count)),
    )


@render.register
def _(page: BrowsePage, language: str) -> bytes:
    """Write the lists through which every item can be reached."""
    lang = page.lang.removeprefix("?")

    def choices(what: str, found: Sequence[FacetValue]) -> list[Choice]:
        return [
            Choice(
                _label(what, each, language), each.items, _search_path({what: each.label or each.value}, lang)
            )
            for each in found
        ]

    letters = [
        Choice(each.value.upper(), each.items, _browse_path({"letter": each.value}, lang))
        for each in page.letters
    ]
    more = _browse_path({"letter": page.letter, "after": page.after}, lang) if page.after else ""
    return html(
        "browse.html",
        language,
        page=page,
        years=choices("year", page.years),
        languages_held=choices("language", page.languages),
        kinds=choices("kind", page.kinds),
        people=choices("person", page.people),
        letters=letters,
        more=more,
        kept_query=urlencode({"letter": page.letter}) if page.letter else "",
    )


def _row(result: SearchHit, language: str, lang: str) -> Row:
    entry = result.entry
    title = best_value(result.titles, language)
    abstract = best_value(result.abstracts, language)
    return Row(
        page=f"{result.page}{lang}",
        name=result.name,
        title=_cut(title, LONGEST_TITLE) or result.name,
        language=(title.language or "") if title else "",
        abstract=_cut(abstract, _LONGEST_ABSTRACT),
        people=result.people[:_SHOWN_PEOPLE],
        more_people=max(0, len(result.people) - _SHOWN_PEOPLE),
        year=entry.year,
        tongue=language_name(entry.language, language) if entry.language else "",
        kind=say(KIND_NAMES[entry.kind], language)
        if entry.kind in KIND_NAMES and entry.kind != "Other"
        else "",
        state=say(_STATES[result.state], language),
    )


def _chosen(question: SearchQuery, language: str, lang: str) -> list[Chosen]:
    """List the facets that narrow a search down, besides its words."""
    found = []
    for what in ("person", "year", "language", "kind"):
        value = getattr(question, what)
        if value:
            empty: str | int = 0 if what == "year" else ""
            label = _label_of(what, str(value), language)
            found.append(
                Chosen(say(HEADS[what], language), label, _path(question.having(**{what: empty}), lang))
            )
    return found


def _facets(page: SearchPage, language: str, lang: str) -> list[tuple[str, list[Choice]]]:
    facets = page.found.facets if page.found else {}
    return [
        (
            say(HEADS[what], language),
            [
                Choice(
                    _label(what, each, language),
                    each.items,
                    _path(
                        page.question.having(**{what: int(each.value) if what == "year" else each.value}),
                        lang,
                    ),
                )
                for each in values
            ],
        )
        for what, values in facets.items()
    ]


def _heading(question: SearchQuery, language: str) -> str:
    """Return the heading of a list; "" for a search."""
    if question.text or question.conditions != 1:
        return ""
    what = next(name for name in ("person", "year", "language", "kind") if getattr(question, name))
    return _label_of(what, str(getattr(question, what)), language)


def _label(what: str, value: FacetValue, language: str) -> str:
    return _label_of(what, value.label or value.value, language)


def _label_of(what: str, value: str, language: str) -> str:
    if what == "language":
        return language_name(value, language)
    if what == "kind":
        known = {name.lower(): words for name, words in KIND_NAMES.items()}
        return say(known[value.lower()], language) if value.lower() in known else value
    return value.lstrip("0") if what == "year" else value


def _cut(statement: MetadataValue | None, longest: int) -> str:
    return shortened(statement.value, longest) if statement else ""


def _path(question: SearchQuery, lang: str) -> str:
    path = path_with_query("/-/search", question)
    return path if not lang else f"{path}{'&' if '?' in path else '?'}{lang}"


def _search_path(words: dict[str, str], lang: str) -> str:
    return f"/-/search?{urlencode(words)}{'&' if lang else ''}{lang}"


def _browse_path(words: dict[str, Any], lang: str) -> str:
    return f"/-/browse?{urlencode(words)}{'&' if lang else ''}{lang}"
