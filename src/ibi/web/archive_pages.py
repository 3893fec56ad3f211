"""Write the pages of an Archive as HTML in the reader's language: items, files, search (SVC-12, note 27).

Each page is made from a page model of `ibi.archive.pages.models`; nothing is looked up.
"""

from __future__ import annotations

import re
from functools import partial, singledispatch
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from ibi.archive.model.item import ELEMENTS, MetadataValue
from ibi.archive.pages.models import (
    ArchivePage,
    BrowsePage,
    FileListPage,
    ItemPage,
    MetadataPage,
    NoticePage,
    ProgramsPage,
    Renderer,
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
from ibi.web.assets import svg
from ibi.web.branding import Branding
from ibi.web.formats import FORMATS, schema_kind
from ibi.web.item_page import FAULTS, LONGEST_TITLE, link_elements, shortened
from ibi.web.rendering import html, language_name, page_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.model.item import Holding
    from ibi.archive.search.search import FacetValue, SearchHit
    from ibi.archive.search.words import SearchQuery


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
"""The labels of the fifteen elements of Dublin Core."""

NOTICE_TITLES = {
    400: "This request cannot be understood",
    403: "Access is not permitted",
    404: "There is nothing here",
    405: "This Archive is only read",
    410: "This item was removed",
    503: "This Archive cannot answer now",
    0: "This did not work",
}
"""Status of a notice -> its heading; 0 for all other statuses."""


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
"""Kind of an item -> its label."""

HEADS: Final = {"text": "Words", "year": "Year", "language": "Language", "kind": "Kind", "person": "Person"}
_STATES: Final = {ItemState.ORIGINAL: "Original", ItemState.COPY: "Copy", ItemState.DELETED: "Removed"}
_FACETS: Final = ("person", "year", "language", "kind")
_SHOWN_PEOPLE: Final = 5
_WORDS: Final = re.compile("[A-Za-z]{3,30}").findall  # of a title, for an example of a search
_LONGEST_ABSTRACT: Final = 160  # characters of an abstract in the description of a page


@singledispatch
def render(page: object, language: str, branding: Branding) -> bytes:
    """Write a page (one of `ibi.archive.pages.models.SitePage`) as HTML in one of our languages."""
    raise TypeError(page, language, branding)  # a page model without a template


@render.register
def _(page: FileListPage, language: str, branding: Branding) -> bytes:
    return html("files.html", language, branding, page=page, faults=FAULTS, **_titled(page.holding, language))


@render.register
def _(page: ItemPage, language: str, branding: Branding) -> bytes:
    found = item_page.values(page, language)
    kind = found["record"].kind.datacite if found["record"] else ""
    known = kind in KIND_NAMES and kind != "Other"
    return html(
        "item.html",
        language,
        branding,
        kind=kind,
        kind_name=say(KIND_NAMES[kind], language) if known else "",
        query=lambda **words: urlencode(words),
        more_lang=f"&{page.lang[1:]}" if page.lang else "",
        **found,
    )


@render.register
def _(page: MetadataPage, language: str, branding: Branding) -> bytes:
    rows = [(ELEMENT_NAMES[name], page.metadata[name]) for name in ELEMENTS if name in page.metadata]
    return html(
        "metadata.html",
        language,
        branding,
        page=page,
        rows=rows,
        links=link_elements(page.links),
        formats=item_page.labelled(page.formats),
        main=page.holding.forms.main,
        **_titled(page.holding, language),
    )


@render.register
def _(page: ArchivePage, language: str, branding: Branding) -> bytes:
    newest = []
    for holding in page.newest:
        name = holding.forms.main
        # `day`: when the item got its name.
        newest.append({"name": name, "day": (name.date.text or "")[:10], **_titled(holding, language)})
    return html("archive.html", language, branding, page=page, newest=newest)


@render.register
def _(page: ProgramsPage, language: str, branding: Branding) -> bytes:
    words = sorted(_WORDS(item_page.title(page.item, language)), key=len) if page.item else []
    name, word = (page.item.forms.main if page.item else ""), (words[-1] if words else "")
    return html("programs.html", language, branding, page=page, base=page.place.base, ibi=name, word=word)


@render.register
def _(page: NoticePage, language: str, branding: Branding) -> bytes:
    problem = page.problem
    caret = problem.caret().split("\n", 1) if isinstance(problem, ParseError) and problem.text else None
    return html(
        "notice.html",
        language,
        branding,
        page=page,
        title=say(NOTICE_TITLES.get(page.status, NOTICE_TITLES[0]), language),
        detail=say(problem, language),
        caret=caret,
        suggestion=getattr(problem, "suggestion", None),
    )


def _titled(holding: Holding, language: str) -> dict[str, str]:
    """Return the title of an item in the reader's language, or its name, and the language, "" if unknown."""
    found = item_page.best(holding.metadata or {}, "title", language)
    known = found.language if found else None
    return {"title": item_page.short_title(holding, language), "title_language": known or ""}


@render.register
def _(page: SearchPage, language: str, branding: Branding) -> bytes:
    question, found = page.question, page.found
    narrowed = [name for name in _FACETS if getattr(question, name)]
    facets = found.facets.items() if found else ()
    is_list = worth_indexing(question)
    return html(
        "search.html",
        language,
        branding,
        page=page,
        question=question,
        found=found,
        rows=[_row(each, language, page.lang) for each in page.results],
        chosen=[_chosen(name, page, language) for name in narrowed],
        facets=[
            (say(HEADS[what], language), _facet(what, values, page, language)) for what, values in facets
        ],
        heading=_label(narrowed[0], str(getattr(question, narrowed[0])), language) if is_list else "",
        looked_at=LOOKED_AT,
        next_path=_path(found.next, page.lang) if found and found.next else "",
        first_path=_path(question.having(), page.lang) if question.page > 1 or question.before else "",
        leads=page.leads,
        feed=path_with_query("/-/feed", question.having()),
        kept_query=question.query_string(),
        indexed=found is None or (worth_indexing(question) and bool(found.count)),
    )


@render.register
def _(page: BrowsePage, language: str, branding: Branding) -> bytes:
    def choices(what: str, values: Sequence[FacetValue]) -> list[tuple[str, int, str]]:
        named = [(each.label or each.value, each.items) for each in values]
        return [
            (_label(what, name, language), items, link("search", **{what: name})) for name, items in named
        ]

    def link(where: str, **words: str) -> str:
        return _with_language(f"/-/{where}?{urlencode(words)}", page.lang)

    return html(
        "browse.html",
        language,
        branding,
        page=page,
        years=choices("year", page.years),
        languages_held=choices("language", page.languages),
        kinds=choices("kind", page.kinds),
        people=choices("person", page.people),
        letters=[
            (each.value.upper(), each.items, link("browse", letter=each.value)) for each in page.letters
        ],
        more=link("browse", letter=page.letter, after=page.after) if page.after else "",
        kept_query=urlencode({"letter": page.letter}) if page.letter else "",
    )


def _row(result: SearchHit, language: str, lang: str) -> dict[str, object]:
    entry = result.entry
    title = best_value(result.titles, language)
    known_kind = entry.kind in KIND_NAMES and entry.kind != "Other"
    return {
        "page": f"{result.page}{lang}",
        "name": result.name,
        "title": _cut(title, LONGEST_TITLE) or result.name,
        "language": (title.language or "") if title else "",
        "abstract": _cut(best_value(result.abstracts, language), _LONGEST_ABSTRACT),
        "people": result.people[:_SHOWN_PEOPLE],
        "more_people": max(0, len(result.people) - _SHOWN_PEOPLE),
        "year": entry.year,
        "tongue": language_name(entry.language, language) if entry.language else "",
        "kind": say(KIND_NAMES[entry.kind], language) if known_kind else "",
        "state": say(_STATES[result.state], language),
    }


def _chosen(what: str, page: SearchPage, language: str) -> dict[str, str]:
    """Describe a chosen facet of a search: its heading, its value, and the path of the search without it."""
    without = page.question.having(**{what: 0 if what == "year" else ""})
    label = _label(what, str(getattr(page.question, what)), language)
    return {"head": say(HEADS[what], language), "label": label, "path": _path(without, page.lang)}


def _facet(
    what: str, values: Sequence[FacetValue], page: SearchPage, language: str
) -> list[tuple[str, int, str]]:
    """List the values of a facet: label, number of items, and the path of the narrower search."""
    choices = []
    for each in values:
        narrower = page.question.having(**{what: int(each.value) if what == "year" else each.value})
        label = _label(what, each.label or each.value, language)
        choices.append((label, each.items, _path(narrower, page.lang)))
    return choices


def _label(what: str, value: str, language: str) -> str:
    if what == "language":
        return language_name(value, language)
    if what == "kind":
        known = {name.lower(): words for name, words in KIND_NAMES.items()}
        return say(known[value.lower()], language) if value.lower() in known else value
    return value.lstrip("0") if what == "year" else value


def _cut(statement: MetadataValue | None, longest: int) -> str:
    return shortened(statement.value, longest) if statement else ""


def _path(question: SearchQuery, lang: str) -> str:
    return _with_language(path_with_query("/-/search", question), lang)


def _with_language(path: str, lang: str) -> str:
    """Return a path with the language that the reader has chosen: "?lang=pt-BR", or "" for none."""
    return f"{path}&{lang.removeprefix('?')}" if lang and "?" in path else f"{path}{lang}"


def renderer(branding: Branding) -> Renderer:
    """Return the renderer of the pages of an Archive with this branding."""
    draw = partial(_rendered, branding)
    return Renderer(draw, page_headers, FORMATS, schema_kind, svg, branding.institution.as_publisher)


def _rendered(branding: Branding, page: object, language: str) -> bytes:
    return render(page, language, branding)
