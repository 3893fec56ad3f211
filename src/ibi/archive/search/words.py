"""The words of a search and of an item: a query as an FTS5 expression, and the words that find an item.

text=sensoriamento "uso da terra" imag    all of these; words in quotation marks in this order (of more than
                                          eight each run of eight); imag may be the beginning of a word
text=souza 2016                           2016 stands in the item, or is its year
person=Gerald Banon                       a person with these names, in any order
year=2011  language=pt  kind=Thesis       values of the facets in an answer; year=none: items without a date
subject=hidrologia                        a subject, as it is spelled in lists
order=best newest date title              best: of words, where they stand; newest: the last deposits first
page=2     before=1234                    further results: of a search for words, of a list

No text of a reader can become syntax of the expression.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple
from unicodedata import normalize
from urllib.parse import urlencode

from ibi.archive.model.record_values import author, contributor, date_in, doi_of, language_of
from ibi.errors import ParseError
from ibi.protocol.query_string import read_query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


MOST_PEOPLE: Final = 100
"""People of an item in whose lists it appears; a search for words finds it by all its people."""

MOST_SUBJECTS: Final = 50
"""Subjects of an item in whose lists it appears; a search for words finds it by all its subjects."""

LONGEST_PERSON: Final = 200
"""Characters of the name of a person, or of a subject, in lists."""
LONGEST_ITEM_TEXT: Final = 20_000
"""Characters of the titles, people, subjects or abstracts of one item that can be found."""

PRIVATE: Final = "\ue000"
"""A character of private use: the index treats it as a letter, and it is removed from all texts."""

_ODD: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ue000-\uf8ff\ufeff\ufffe\uffff]+"
)
_NOT_A_WORD: Final = re.compile(r"[\W_]+")

Metadata = dict[str, list[tuple[str, str | None]]]
"""Dublin Core as it is stored in the catalogue."""


class ItemWords(NamedTuple):
    """The words that find an item.

    `people`, `subjects`: as spelled, each once; `year` is 0 and `language` "" if unknown.
    """

    title: str
    people: tuple[str, ...]
    all_people: str
    subject: str
    abstract: str
    year: int
    language: str
    kind: str
    subjects: tuple[str, ...] = ()


def words_of(
    metadata: str | None, language: str | None, kind_of: Callable[[Iterable[str]], str]
) -> ItemWords:
    """Return the words of an item with these metadata (JSON) and this language."""
    dublin_core: Metadata = json.loads(metadata) if metadata else {}

    def text(*elements: str) -> str:
        values = (value for element in elements for value, _ in dublin_core.get(element, ()))
        return _plain(" ".join(values)[:LONGEST_ITEM_TEXT])

    people = (
        read(value).name
        for name, read in (("creator", author), ("contributor", contributor))
        for value, _ in dublin_core.get(name, ())
    )
    language_text = language or next((value for value, _ in dublin_core.get("language", ())), "")
    # No language changes the year of a date.
    dated = date_in((value, "") for value, _ in dublin_core.get("date", ()))
    identifiers = _plain(
        " ".join(_by_itself(value) for value, _ in dublin_core.get("identifier", ()))[:LONGEST_ITEM_TEXT]
    )
    return ItemWords(
        title=text("title"),
        people=_listed(people, MOST_PEOPLE),
        all_people=text("creator", "contributor"),
        subject=f"{text('subject', 'coverage', 'source', 'publisher')} {identifiers}".strip(),
        abstract=text("description"),
        year=dated.year if dated else 0,
        language=_language_code(language_text),
        kind=kind_of([value for value, _ in dublin_core.get("type", ())]),
        subjects=_listed((value for value, _ in dublin_core.get("subject", ())), MOST_SUBJECTS),
    )


def _listed(texts: Iterable[str], most: int) -> tuple[str, ...]:
    """Return the first `most` texts, each on one line and once, those that fold to the same taken as one."""
    found: dict[str, str] = {}
    for text in texts:
        line = " ".join(_plain(text).split())[:LONGEST_PERSON]
        if key := fold(line):
            found.setdefault(key, line)
    return tuple(found.values())[:most]


@lru_cache(maxsize=10_000)
def fold(text: str) -> str:
    """Return a text as a sort key: no accents, capitals or punctuation. "Câmara, G." becomes "camara g"."""
    letters = (each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    return _NOT_A_WORD.sub(" ", "".join(letters).casefold()).strip()


def _by_itself(text: str) -> str:
    """Return a DOI without its prefix, such as "doi:"; any other text as it is."""
    return doi_of(text) or text


_FOLDED: Final = frozenset({"person", "subject"})  # facets of which a word is a hash


def facet_word(what: str, value: str) -> str:
    """Return the word that finds the items of a year, a language, a kind, a person or a subject (folded).

    It begins with a character that is in no text of an item or a reader, so no search can contain it. By such
    words every condition is an intersection of sorted lists within the full-text index (decision 0021).
    """
    if what in _FOLDED:
        value = blake2b(value.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"{PRIVATE}{what[0]}{value.lower()}"


def facet_words(words: ItemWords) -> str:
    """Return the words by which the lists of its facets find an item."""
    facets = [
        ("kind", words.kind),
        *(("person", fold(person)) for person in words.people),
        *(("subject", fold(subject)) for subject in words.subjects),
        ("year", str(words.year or _NO_YEAR)),
        ("language", words.language),
    ]
    return " ".join(facet_word(what, value) for what, value in facets if value)


def _plain(text: str) -> str:
    return _ODD.sub(" ", text).strip()


@lru_cache(maxsize=1024)
def _language_code(text: str) -> str:
    """Return a language without its country: "pt" for "pt-BR", "por" or "Portuguese"; "" if it is unknown."""
    return (language_of(text[:100]) or "").partition("-")[0] if text else ""


LONGEST_TEXT: Final = 500
"""Characters of the text of a search."""

MOST_WORDS: Final = 32
"""Words of a text or name, also in quotation marks: a word may be in every item, and costs its whole list."""

MOST_IN_PHRASE: Final = 8
"""Words that must follow each other: in each item with all of them, the cost grows with their number."""

PER_PAGE: Final = 20
MOST_PAGES: Final = 50
"""Pages of the results of a search for words; the list of a year or a person has no limit."""

NO_YEAR: Final = -1
"""The year of a search for the items without a date; in a URL: year=none."""

NAMES: Final = ("text", "person", "subject", "year", "language", "kind", "order", "page", "before")
"""The parameters of a query that are understood; all others are ignored."""
NARROWING: Final = ("kind", "year", "language", "person", "subject")
"""The conditions that narrow a search down, besides its text."""

ORDERS: Final = ("best", "newest", "date", "title")
"""The orders of results. `date`: the latest year first; `title`: by the first title, accents and capitals ignored."""

_NO_YEAR: Final = "none"
_YEAR: Final = re.compile(r'"[\W_]*([0-9]{4})[\W_]*"(?: \*)?')
_PIECE: Final = re.compile(r'"([^"]*)"|([^\s"]+)')
# Python counts these vowel signs as letters, but in the index they end words.
WORD: Final = re.compile("[^\\W_\u19b0-\u19c0\u19c8\u19c9\u1cf2\u1cf3]+")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ue000-\uf8ff\U000f0000-\U0010ffff]")
# Words that may stand between the words of a person's name.
_NEAR: Final = 3
_LONGEST_NUMBER: Final = 15  # digits of a number


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search. An empty text, or 0, is no condition; `before`: only items with a lower number.

    `year`: NO_YEAR for items without a date; `order`: one of ORDERS, "" for the usual one.
    """

    text: str = ""
    person: str = ""
    year: int = 0
    language: str = ""
    kind: str = ""
    page: int = 1
    before: int = 0
    subject: str = ""
    order: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether the search has no condition."""
        return self.conditions == 0

    @property
    def conditions(self) -> int:
        """The number of its conditions."""
        return sum(map(bool, (self.text, self.person, self.subject, self.year, self.language, self.kind)))

    @property
    def year_text(self) -> str:
        """The year as in a URL: "2011", "none", or "" for no condition."""
        return _NO_YEAR if self.year == NO_YEAR else str(self.year or "")

    def having(self, **changes: str | int) -> SearchQuery:
        """Return the search with these changes, from its first page on."""
        return replace(self, **{"page": 1, "before": 0, **changes})  # type: ignore[arg-type]  # fields of ours

    def without(self, name: str) -> SearchQuery:
        """Return the search without one of its conditions, from its first page on."""
        return self.having(**{name: 0 if name == "year" else ""})

    def query_string(self) -> str:
        """Return the search as the query of a URL."""
        values = {name: getattr(self, name) for name in NAMES} | {"year": self.year_text}
        return urlencode(
            {name: value for name, value in values.items() if value and (name, value) != ("page", 1)}
        )


def read_search_query(raw: str) -> SearchQuery:
    """Read the raw query of a URL, as UTF-8. Raises ParseError with the wrong parameter."""
    values = {name: value.encode("latin-1").decode("utf-8", "replace") for name, value in read_query(raw)}
    return search_query(values)


def search_query(values: Mapping[str, str]) -> SearchQuery:
    """Make a search of decoded parameters. Raises ParseError."""
    given = {name: _CONTROL.sub(" ", values.get(name, "")).strip() for name in NAMES}
    for name in ("text", "person", "subject"):
        if len(given[name]) > LONGEST_TEXT:
            problem = "a search has at most {most} characters"
            raise ParseError(name, given[name], problem, LONGEST_TEXT, most=LONGEST_TEXT)
        if len(WORD.findall(normalize("NFC", given[name]))) > MOST_WORDS:
            raise ParseError(name, given[name], "a search has at most {most} words", most=MOST_WORDS)
    page = _number("page", given["page"] or "1")
    if not 1 <= page <= MOST_PAGES:
        problem = "a search shows at most {most} pages: narrow it down"
        raise ParseError("page", given["page"], problem, most=MOST_PAGES)
    return SearchQuery(
        text=given["text"],
        person=given["person"],
        year=NO_YEAR if given["year"] == _NO_YEAR else _number("year", given["year"] or "0"),
        language=_tag("language", given["language"].partition("-")[0]).lower(),
        kind=_tag("kind", given["kind"]),
        page=page,
        before=_number("before", given["before"] or "0"),
        subject=given["subject"],
        order=_order(given["order"]),
    )


def path_with_query(path: str, query: SearchQuery) -> str:
    """Return a path with the search as its query."""
    text = query.query_string()
    return f"{path}?{text}" if text else path


def match_expression(query: SearchQuery, *, known: bool, begun: bool = True, only: str = "") -> str:
    """Return the search as an FTS5 expression, "" if it has no condition.

    `known`: whether a person is listed under exactly this name; `begun`: whether the last word may be the
    beginning of a word; `only`: the columns in which the words of the text must be.
    """
    # All text of the reader is put between quotation marks, in which FTS5 knows no operator.
    parts = []
    if words := " AND ".join(_words(query.text, begun=begun)):
        # The year of an item counts like its people and subjects. Without a year no more columns are looked into.
        columns = f"{only} marks" if "people" in only and PRIVATE in words else only
        parts.append(f"{{{columns}}} : ({words})" if columns else words)
    if known:
        parts.append(f'"{facet_word("person", fold(query.person))}"')
    elif names := WORD.findall(normalize("NFC", query.person)):
        near = " ".join(f'"{name}"' for name in dict.fromkeys(names))
        parts.append(f"people : NEAR({near}, {_NEAR})")
    marked = {
        "subject": fold(query.subject),
        "year": query.year_text,
        "language": query.language,
        "kind": query.kind,
    }
    parts += [f'"{facet_word(what, value)}"' for what, value in marked.items() if value]
    return " AND ".join(parts)


def has_words(query: SearchQuery) -> bool:
    """Return whether its text and its person, if given, contain a word that can be searched for."""
    values = [text for text in (query.text, query.person, query.subject) if text]
    return all(WORD.search(text) for text in values)


def _words(text: str, *, begun: bool) -> list[str]:
    """Return each word or phrase in quotation marks; if `begun`, the last word as the beginning of a word."""
    found = [(phrase or word, bool(word)) for phrase, word in _PIECE.findall(normalize("NFC", text))]
    pieces = [(piece, plain) for piece, plain in found if WORD.search(piece)]
    words = [f'"{run}"' for piece, _ in pieces for run in _runs(_by_itself(piece))]
    if (
        begun
        and pieces
        and pieces[-1][1]
        and len(WORD.findall(pieces[-1][0])[-1]) > 1
        and pieces[-1][0][-1].isalnum()
    ):
        words[-1] += " *"
    return list(dict.fromkeys(map(_or_of_year, words)))


def _or_of_year(word: str) -> str:
    """Return a word of an expression, or, if it is a year, such as "(2016)", what also finds the items of the year."""
    found = _YEAR.fullmatch(word)
    return f'({word} OR "{facet_word("year", found[1].lstrip("0"))}")' if found else word


def _runs(piece: str) -> Iterator[str]:
    """Yield a word or a phrase; a long phrase in runs of MOST_IN_PHRASE words, which must all be found."""
    places = [word.start() for word in WORD.finditer(piece)][::MOST_IN_PHRASE]
    for begin, end in zip([0, *places[1:]], [*places[1:], len(piece)], strict=True):
        yield piece[begin:end]


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER):
        raise ParseError(name, text, "this is no whole number: {name}", name=name)
    return int(text)


def _order(text: str) -> str:
    if text and text not in ORDERS:
        raise ParseError("order", text, "the order is one of {orders}", orders=", ".join(ORDERS))
    return text


def _tag(name: str, text: str) -> str:
    if text and not (text.isascii() and text.isalnum() and len(text) <= 40):  # noqa: PLR2004 - longer than any
        raise ParseError(name, text, "this is no {name} that can be looked for", name=name)
    return text
