"""Write the pages of an Archive as HTML in the reader's language: items, files, search.

Each page is made from a page model of `ibi.archive.pages.models`; nothing is looked up. See SVC-12: a closed file
list; note 27: pages of an Archive.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial, singledispatch
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus, urlencode

from ibi import __version__
from ibi.archive.model.item import ELEMENTS
from ibi.archive.model.record_values import author
from ibi.archive.pages.models import (
    AboutPage,
    ArchivePage,
    BrowsePage,
    FileListPage,
    ItemPage,
    MetadataPage,
    NoticePage,
    ProgramsPage,
    Renderer,
    SearchPage,
    StatisticsPage,
)
from ibi.archive.pages.search_pages import worth_indexing
from ibi.archive.search.search import LOOKED_AT
from ibi.archive.search.words import NARROWING, NO_YEAR, path_with_query
from ibi.errors import IbiError, ParseError
from ibi.runtime.i18n import say
from ibi.web import item_values
from ibi.web.assets import svg
from ibi.web.branding import Branding
from ibi.web.formats import FORMATS, schema_kind
from ibi.web.formats.record import clean
from ibi.web.item_values import FAULTS, bars, link_elements
from ibi.web.listed_items import KIND_NAMES, KIND_PLURALS, file_format, icon_of, kind_name, listed, searched
from ibi.web.rendering import dates_in, html, language_name, page_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.model.item import Holding
    from ibi.archive.search.search import FacetValue
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
    429: "Too much at once",
    503: "This Archive cannot answer now",
    0: "This did not work",
}
"""Status of a notice -> its heading; 0 for all other statuses."""

_TOO_MANY: Final = 429
_TOO_MUCH: Final = "this is more than one reader may ask for at a time"

HEADS: Final = {
    "text": "Words",
    "year": "Year",
    "language": "Language",
    "kind": "Kind",
    "person": "Person",
    "subject": "Subject",
}
"""Condition of a search -> its label."""
ORDER_WORDS: Final = {
    "best": "Best match",
    "newest": "Latest deposits",
    "date": "Date of publication",
    "title": "Title",
}
"""Order of results -> its label."""
_SHOWN_VALUES: Final = 8  # values of a facet beside the results
_WORDS: Final = re.compile("[A-Za-z]{3,30}").findall  # of a title, for an example of a search


@singledispatch
def render(page: object, language: str, branding: Branding) -> bytes:
    """Write a page (one of `ibi.archive.pages.models.SitePage`) as HTML in one of our languages."""
    raise TypeError(page, language, branding)  # a page model without a template


@render.register
def _(page: FileListPage, language: str, branding: Branding) -> bytes:
    return html("files.html", language, branding, page=page, faults=FAULTS, **_titled(page.holding, language))


@render.register
def _(page: ItemPage, language: str, branding: Branding) -> bytes:
    found = item_values.values(page, language)
    kind = found["record"].kind.datacite if found["record"] else ""
    return html(
        "item.html",
        language,
        branding,
        kind=kind,
        kind_name=kind_name(kind, language),
        kind_icon_name=icon_of(kind),
        file_format=file_format,
        most_people=item_values.MOST_PEOPLE,
        quoted=quote_plus,
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
        formats=item_values.labelled(page.formats),
        main=page.holding.forms.main,
        **_titled(page.holding, language),
    )


@render.register
def _(page: ArchivePage, language: str, branding: Branding) -> bytes:
    facts = page.facts
    return html(
        "archive.html",
        language,
        branding,
        page=page,
        rows=[listed(each, language, page.lang) for each in page.newest],
        kinds=[
            (
                _kinds_label(each.value, language),
                each.items,
                _linked("search", page.lang, kind=each.value),
                icon_of(each.value),
            )
            for each in sorted(facts.kinds, key=lambda each: each.value == "Other")
        ],
        subjects=[
            (each.label, each.items, _linked("search", page.lang, subject=each.label))
            for each in facts.subjects
        ],
        examples=_examples(page),
        usage=facts.usage if facts.usage and facts.usage.views else None,
        chart=bars(facts.usage.months) if facts.usage and facts.usage.is_chart else None,
    )


def _examples(page: ArchivePage) -> list[tuple[str, str]]:
    """Return (label, path) of searches that find something: a subject, a person and a year, as far as there are any."""
    people = (
        author(clean(value)).name for each in page.newest for value, _ in each.metadata.get("creator", ())
    )
    subject = page.facts.subjects[0].label if page.facts.subjects else ""
    found = {
        "subject": subject,
        "person": next(filter(None, people), ""),
        "year": page.facts.year.lstrip("0"),
    }
    return [(value, _linked("search", page.lang, **{what: value})) for what, value in found.items() if value]


@render.register
def _(page: AboutPage, language: str, branding: Branding) -> bytes:
    return html("about_archive.html", language, branding, page=page, version=__version__)


@render.register
def _(page: StatisticsPage, language: str, branding: Branding) -> bytes:
    report = page.report
    most = max((downloads for _, downloads in report.kinds), default=0) or 1
    return html(
        "statistics.html",
        language,
        branding,
        page=page,
        report=report,
        chart=bars(report.months) if report.is_chart else None,
        months=report.months,
        rows=[(listed(item, language, page.lang), usage) for item, usage in page.most_read],
        kinds=[
            (_kinds_label(kind, language), downloads, round(100 * downloads / most))
            for kind, downloads in report.kinds
        ],
    )


@render.register
def _(page: ProgramsPage, language: str, branding: Branding) -> bytes:
    words = sorted(_WORDS(item_values.title(page.item, language)), key=len) if page.item else []
    name, word = (page.item.forms.main if page.item else ""), (words[-1] if words else "")
    return html("programs.html", language, branding, page=page, base=page.place.base, ibi=name, word=word)


@render.register
def _(page: NoticePage, language: str, branding: Branding) -> bytes:
    # The sentence for programs has the seconds, which a page says by themselves.
    problem = IbiError(_TOO_MUCH) if page.status == _TOO_MANY else page.problem
    caret = problem.caret().split("\n", 1) if isinstance(problem, ParseError) and problem.text else None
    return html(
        "notice.html",
        language,
        branding,
        page=page,
        title=say(NOTICE_TITLES.get(page.status, NOTICE_TITLES[0]), language),
        detail=say(problem, language, **dates_in(problem, language)),
        caret=caret,
        suggestion=getattr(problem, "suggestion", None),
    )


def _titled(holding: Holding, language: str) -> dict[str, str]:
    """Return the title of an item in the reader's language, or its name, and the language, "" if unknown."""
    found = item_values.best(holding.metadata or {}, "title", language)
    known = found.language if found else None
    return {"title": item_values.short_title(holding, language), "title_language": known or ""}


@render.register
def _(page: SearchPage, language: str, branding: Branding) -> bytes:
    question, found = page.question, page.found
    narrowed = [name for name in NARROWING if getattr(question, name)]
    facets = found.facets if found else {}
    words = searched(question.text)
    is_list = worth_indexing(question)
    return html(
        "search.html",
        language,
        branding,
        page=page,
        question=question,
        found=found,
        rows=[listed(each, language, page.lang, words) for each in page.results],
        chosen=[_chosen(name, page, language) for name in narrowed],
        facets=[
            (say(HEADS[what], language), _facet(what, facets[what], page, language))
            for what in NARROWING
            if what in facets
        ],
        wider=_wider(page, language),
        spellings=[
            {
                "text": each.query.text,
                "path": _path(each.query, page.lang),
                "count": each.items,
                "many": each.many,
                "alone": each.query.conditions < question.conditions,
            }
            for each in (page.hints.spellings if page.hints else ())
        ],
        heading=_label(narrowed[0], str(getattr(question, narrowed[0])), language) if is_list else "",
        looked_at=LOOKED_AT,
        next_path=_path(found.next, page.lang) if found and found.next else "",
        first_path=_path(question.having(), page.lang) if question.page > 1 or question.before else "",
        leads=page.leads,
        orders=[
            (say(words, language), each == found.order, _path(_ordered(question, each), page.lang))
            for each, words in ORDER_WORDS.items()
            if found and each in found.orders
        ],
        feed=path_with_query("/-/feed", question.having(order="")),
        for_programs=path_with_query("/-/api/search", question.having()),
        kept_query=question.query_string(),
        indexed=found is None or (worth_indexing(question) and bool(found.count)),
    )


@render.register
def _(page: BrowsePage, language: str, branding: Branding) -> bytes:
    def choices(what: str, values: Sequence[FacetValue]) -> list[tuple[str, int, str]]:
        named = [(each.label or each.value, each.items) for each in values]
        return [
            (_label(what, name, language), items, _linked("search", page.lang, **{what: name}))
            for name, items in named
        ]

    return html(
        "browse.html",
        language,
        branding,
        page=page,
        years=choices("year", [each for each in page.years if int(each.value) // 10 * 10 == _decade(page)]),
        **_decades(page),
        undated=_linked("search", page.lang, year="none"),
        subjects=choices("subject", page.subjects),
        languages_held=choices("language", page.languages),
        kinds=choices("kind", page.kinds),
        people=choices("person", page.people),
        letters=[
            (
                each.value.upper(),
                each.value == page.letter[:1],
                _linked("browse", page.lang, letter=each.value),
            )
            for each in page.letters
        ],
        more=_linked("browse", page.lang, letter=page.letter, after=page.after) if page.after else "",
        kept_query=urlencode({"letter": page.letter} if page.letter else {"decade": _decade(page)}),
    )


def _decades(page: BrowsePage) -> dict[str, object]:
    """Return the decades in order: each with its number of items, the height of its bar, and its path."""
    counts: Counter[int] = Counter()
    for each in page.years:
        counts[int(each.value) // 10 * 10] += each.items
    most = max(counts.values(), default=1)
    return {
        "decades": [
            (each, items, round(100 * items / most), _linked("browse", page.lang, decade=each))
            for each, items in sorted(counts.items())
        ],
        "decade": _decade(page),
        "span": (int(page.years[-1].value), int(page.years[0].value)) if page.years else None,
    }


def _decade(page: BrowsePage) -> int:
    """Return the decade whose years are shown: the chosen one, else that of the latest year."""
    known = [int(each.value) // 10 * 10 for each in page.years]
    return page.decade if page.decade in known else max(known, default=0)


def _ordered(question: SearchQuery, order: str) -> SearchQuery:
    """Return the search in another order; in its usual one without a word for it."""
    usual = "best" if question.text else "newest"
    return question.having(order="" if order == usual else order)


def _chosen(what: str, page: SearchPage, language: str) -> dict[str, str]:
    """Describe a chosen facet of a search: its heading, its value, and the path of the search without it."""
    label = _label(what, str(getattr(page.question, what)), language)
    path = _path(page.question.without(what), page.lang)
    return {"head": say(HEADS[what], language), "label": label, "path": path}


def _wider(page: SearchPage, language: str) -> dict[str, object] | None:
    """Describe the search without its narrowest condition, if nothing was found: the condition, path and count."""
    if page.hints is None or not page.hints.wider:
        return None
    found = page.hints.wider[0]
    return _chosen(found.condition, page, language) | {"count": found.items, "many": found.many}


def _facet(
    what: str, values: Sequence[FacetValue], page: SearchPage, language: str
) -> list[tuple[str, int, str]]:
    """List the values of a facet: label, number of items, and the path of the narrower search."""
    choices = []
    for each in values[:_SHOWN_VALUES]:
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
    if what == "year":
        return say("no date", language) if value == str(NO_YEAR) else value.lstrip("0")
    return value


def _kinds_label(kind: str, language: str) -> str:
    return say(KIND_PLURALS[kind], language) if kind in KIND_PLURALS else kind


def _path(question: SearchQuery, lang: str) -> str:
    return _with_language(path_with_query("/-/search", question), lang)


def _linked(where: str, lang: str, **words: object) -> str:
    """Return the path of a page of ours with a query, in the language that the reader has chosen."""
    return _with_language(f"/-/{where}?{urlencode(words)}", lang)


def _with_language(path: str, lang: str) -> str:
    """Return a path with the language that the reader has chosen: "?lang=pt-BR", or "" for none."""
    return f"{path}&{lang.removeprefix('?')}" if lang and "?" in path else f"{path}{lang}"


def renderer(branding: Branding) -> Renderer:
    """Return the renderer of the pages of an Archive with this branding."""
    draw = partial(_rendered, branding)
    of = branding.institution
    return Renderer(draw, page_headers, FORMATS, schema_kind, svg, of.as_publisher, of)


def _rendered(branding: Branding, page: object, language: str) -> bytes:
    return render(page, language, branding)
