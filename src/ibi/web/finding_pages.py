"""The pages on which items are looked for, as HTML in the reader's language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from ibi.archive.finding.feeds import best
from ibi.archive.finding.pages import BrowsePage, SearchPage
from ibi.archive.finding.question import asked_path
from ibi.archive.finding.search import LOOKED_AT
from ibi.archive.finding.site import worth_indexing
from ibi.archive.holding import Statement
from ibi.protocol.vocabulary import State
from ibi.texts import say
from ibi.web.item_page import LONGEST_TITLE, shortened
from ibi.web.rendering import html
from ibi.web.wording import language_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.finding.question import Question
    from ibi.archive.finding.results import Result
    from ibi.archive.finding.search import Value

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
_STATES: Final = {State.ORIGINAL: "Original", State.COPY: "Copy", State.DELETED: "Removed"}
_SHOWN_PEOPLE: Final = 5
_LONGEST_ABSTRACT: Final = 160


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


def search_page(page: SearchPage, language: str) -> bytes:
    """A search, or a list, and what was found."""
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
        feed=asked_path("/-/feed", question.having()),
        kept_query=question.query(),
        indexed=found is None or (worth_indexing(question) and bool(found.count)),
    )


def browse_page(page: BrowsePage, language: str) -> bytes:
    """The lists by which everything that is held can be walked through."""
    lang = page.lang.removeprefix("?")

    def choices(what: str, found: Sequence[Value]) -> list[Choice]:
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


def _row(result: Result, language: str, lang: str) -> Row:
    entry = result.entry
    title = best(result.titles, language)
    abstract = best(result.abstracts, language)
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


def _chosen(question: Question, language: str, lang: str) -> list[Chosen]:
    """What the search is narrowed down to, besides its words."""
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


def _heading(question: Question, language: str) -> str:
    """What a list is called; "" for a search."""
    if question.text or question.conditions != 1:
        return ""
    what = next(name for name in ("person", "year", "language", "kind") if getattr(question, name))
    return _label_of(what, str(getattr(question, what)), language)


def _label(what: str, value: Value, language: str) -> str:
    return _label_of(what, value.label or value.value, language)


def _label_of(what: str, value: str, language: str) -> str:
    if what == "language":
        return language_name(value, language)
    if what == "kind":
        known = {name.lower(): words for name, words in KIND_NAMES.items()}
        return say(known[value.lower()], language) if value.lower() in known else value
    return value.lstrip("0") if what == "year" else value


def _cut(statement: Statement | None, longest: int) -> str:
    return shortened(statement.value, longest) if statement else ""


def _path(question: Question, lang: str) -> str:
    path = asked_path("/-/search", question)
    return path if not lang else f"{path}{'&' if '?' in path else '?'}{lang}"


def _search_path(words: dict[str, str], lang: str) -> str:
    return f"/-/search?{urlencode(words)}{'&' if lang else ''}{lang}"


def _browse_path(words: dict[str, Any], lang: str) -> str:
    return f"/-/browse?{urlencode(words)}{'&' if lang else ''}{lang}"
