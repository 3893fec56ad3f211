"""What a reader looks for, and how it is asked of the index: no word of a reader is ever more than a word.

text=sensoriamento "uso da terra" imag    all of these; words in quotation marks in this order, or more than eight of
                                          them in this order by eights; imag… begins a word
person=Gerald Banon                       someone of these names, in any order
year=2011  language=pt  kind=Thesis  as the facets of an answer have them
page=2     before=1234                    further results: of a search for words, of a list
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from unicodedata import normalize
from urllib.parse import urlencode

from ibi.archive.finding.words import fold, mark
from ibi.errors import ParseError
from ibi.protocol.query_string import read_query

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LONGEST_TEXT: Final = 500
"""Characters of a text to be looked for."""

MOST_WORDS: Final = 32
"""Words of a text or a name, those inside quotation marks too: each may stand in every item that is held."""

MOST_IN_PHRASE: Final = 8
"""Words that have to follow one upon another; what a phrase costs grows with them in every item that has them all."""

PER_PAGE: Final = 20
MOST_PAGES: Final = 50
"""Pages of the results of a search for words; a list of a year or a person has no end."""

NAMES: Final = ("text", "person", "year", "language", "kind", "page", "before")
"""The words of a query that are understood; all others are passed over."""

_PIECE: Final = re.compile(r'"([^"]*)"|([^\s"]+)')
# Vowel signs that count as letters here, and that the index takes for ends of words.
_WORD: Final = re.compile("[^\\W_\u19b0-\u19c0\u19c8\u19c9\u1cf2\u1cf3]+")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ue000-\uf8ff\U000f0000-\U0010ffff]")
_NEAR: Final = 3  # words that may stand between those of a person's name
_LONGEST_NUMBER: Final = 15


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for. Empty texts and 0 mean: anything; `before`: only items of a lower number."""

    text: str = ""
    person: str = ""
    year: int = 0
    language: str = ""
    kind: str = ""
    page: int = 1
    before: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing in particular is looked for."""
        return not (self.text or self.person or self.year or self.language or self.kind)

    @property
    def ranked(self) -> bool:
        """Whether some answers are better than others; a list of a year, a kind or a language has no best."""
        return bool(self.text)

    @property
    def conditions(self) -> int:
        """How many things are asked for at once."""
        return sum(map(bool, (self.text, self.person, self.year, self.language, self.kind)))

    def having(self, **changes: str | int) -> Question:
        """The same question with something else in it, from its first page on."""
        return replace(self, **{"page": 1, "before": 0, **changes})  # type: ignore[arg-type]  # fields of ours

    def query(self) -> str:
        """The question as the query of a URL."""
        said = {name: getattr(self, name) for name in NAMES}
        return urlencode(
            {name: value for name, value in said.items() if value and (name, value) != ("page", 1)}
        )


def read_question(raw: str) -> Question:
    """The question of a raw query, which is read as UTF-8. Raises ParseError with the word that is no good."""
    said = {name: value.encode("latin-1").decode("utf-8", "replace") for name, value in read_query(raw)}
    return question_of(said)


def question_of(said: Mapping[str, str]) -> Question:
    """The question of decoded words. Raises ParseError."""
    given = {name: _CONTROL.sub(" ", said.get(name, "")).strip() for name in NAMES}
    for name in ("text", "person"):
        if len(given[name]) > LONGEST_TEXT:
            problem = "a search has at most {most} characters"
            raise ParseError(name, given[name], problem, LONGEST_TEXT, most=LONGEST_TEXT)
        if len(_WORD.findall(normalize("NFC", given[name]))) > MOST_WORDS:
            raise ParseError(name, given[name], "a search has at most {most} words", most=MOST_WORDS)
    page = _number("page", given["page"] or "1")
    if not 1 <= page <= MOST_PAGES:
        problem = "a search shows at most {most} pages: say more exactly what you look for"
        raise ParseError("page", given["page"], problem, most=MOST_PAGES)
    return Question(
        text=given["text"],
        person=given["person"],
        year=_number("year", given["year"] or "0"),
        language=_tag("language", given["language"].partition("-")[0]).lower(),
        kind=_tag("kind", given["kind"]),
        page=page,
        before=_number("before", given["before"] or "0"),
    )


def asked_path(path: str, question: Question) -> str:
    """A path with a question behind it."""
    query = question.query()
    return f"{path}?{query}" if query else path


def expression(question: Question, *, known: bool, begun: bool = True, only: str = "") -> str:
    """The question in the language of FTS5, "" where nothing is looked for.

    `known`: whether somebody is listed under exactly its name; `begun`: whether its last word may be the beginning of
    one; `only`: the columns in which its words must be. Everything of a reader stands between quotation marks, in
    which nothing has a meaning.
    """
    parts = []
    if words := " AND ".join(_words(question.text, begun=begun)):
        parts.append(f"{{{only}}} : ({words})" if only else words)
    if known:
        parts.append(f'"{mark("person", fold(question.person))}"')
    elif names := _WORD.findall(normalize("NFC", question.person)):
        near = " ".join(f'"{name}"' for name in dict.fromkeys(names))
        parts.append(f"people : NEAR({near}, {_NEAR})")
    marked = ((what, getattr(question, what)) for what in ("year", "language", "kind"))
    parts += [f'"{mark(what, str(value))}"' for what, value in marked if value]
    return " AND ".join(parts)


def has_words(question: Question) -> bool:
    """Whether there is anything in its text and person that can be found at all."""
    said = [text for text in (question.text, question.person) if text]
    return all(_WORD.search(text) for text in said)


def _words(text: str, *, begun: bool) -> list[str]:
    """Each word or phrase between quotation marks; the last word may be the beginning of one, if it is `begun`."""
    found = [(phrase or word, bool(word)) for phrase, word in _PIECE.findall(normalize("NFC", text))]
    pieces = [(piece, plain) for piece, plain in found if _WORD.search(piece)]
    words = [f'"{run}"' for piece, _ in pieces for run in _runs(piece)]
    if (
        begun
        and pieces
        and pieces[-1][1]
        and len(_WORD.findall(pieces[-1][0])[-1]) > 1
        and pieces[-1][0][-1].isalnum()
    ):
        words[-1] += " *"
    return list(dict.fromkeys(words))


def _runs(piece: str) -> Iterator[str]:
    """A word or a phrase as it is; a longer one in parts of so many words, each of which has to be found."""
    places = [word.start() for word in _WORD.finditer(piece)][::MOST_IN_PHRASE]
    for begin, end in zip([0, *places[1:]], [*places[1:], len(piece)], strict=True):
        yield piece[begin:end]


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER):
        raise ParseError(name, text, "this is no whole number: {name}", name=name)
    return int(text)


def _tag(name: str, text: str) -> str:
    if text and not (text.isascii() and text.isalnum() and len(text) <= 40):  # noqa: PLR2004 - longer than any
        raise ParseError(name, text, "this is no {name} that can be looked for", name=name)
    return text
