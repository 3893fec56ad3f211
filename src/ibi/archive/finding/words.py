"""What of an item goes into the index: its words, its people, its year, its language."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.intake.sources.values import language_of
from ibi.archive.website.people import author

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST_PEOPLE: Final = 100
"""People of an item by whom it is found in lists; by their words all are found."""

LONGEST_PERSON: Final = 200
LONGEST_TEXT: Final = 20_000
"""Characters of the titles, people, subjects or abstracts of one item that can be found."""

PRIVATE: Final = "\ue000"
"""A letter to the index, and nothing to anybody else."""

_ODD: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ue000-\uf8ff\ufeff\ufffe\uffff]+"
)
_YEAR: Final = re.compile(r"([0-9]{4})(?:[-/T ].*)?", re.ASCII | re.DOTALL)
_NO_WORD: Final = re.compile(r"[\W_]+")

Metadata = dict[str, list[tuple[str, str | None]]]
"""Dublin Core as the catalogue keeps it."""


class Words(NamedTuple):
    """What an item is found by. `people` as they are written; `year` 0 and `language` "" where nobody tells."""

    title: str
    people: tuple[str, ...]
    all_people: str
    subject: str
    abstract: str
    year: int
    language: str
    kind: str


def words_of(metadata: str | None, language: str | None, kind_of: Callable[[Iterable[str]], str]) -> Words:
    """The words of an item with these metadata (JSON) and this language."""
    said: Metadata = json.loads(metadata) if metadata else {}

    def text(*elements: str) -> str:
        values = (value for element in elements for value, _ in said.get(element, ()))
        return _plain(" ".join(values)[:LONGEST_TEXT])

    people = [
        " ".join(_plain(author(value).name).split())[:LONGEST_PERSON]
        for name in ("creator", "contributor")
        for value, _ in said.get(name, ())
    ]
    tongue = language or next((value for value, _ in said.get("language", ())), "")
    return Words(
        title=text("title"),
        people=tuple(dict.fromkeys(person for person in people if fold(person)))[:MOST_PEOPLE],
        all_people=text("creator", "contributor"),
        subject=text("subject", "coverage", "source", "publisher"),
        abstract=text("description"),
        year=_year(value for value, _ in said.get("date", ())),
        language=_tongue(tongue),
        kind=kind_of([value for value, _ in said.get("type", ())]),
    )


@lru_cache(maxsize=10_000)
def fold(text: str) -> str:
    """A text as lists sort it: no accents, no capitals, one blank between words. "Câmara, G." is "camara g"."""
    letters = (each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    return _NO_WORD.sub(" ", "".join(letters).casefold()).strip()


def mark(what: str, value: str) -> str:
    """The word by which the list of a year, a language, a kind or a person (their folded name) finds its items.

    It begins with a character that is in no text, neither of an item nor of a reader.
    """
    if what == "person":
        value = blake2b(value.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"{PRIVATE}{what[0]}{value.lower()}"


def marks_of(words: Words) -> str:
    """The marks of an item."""
    marks = [mark("kind", words.kind), *(mark("person", fold(person)) for person in words.people)]
    if words.year:
        marks.append(mark("year", str(words.year)))
    if words.language:
        marks.append(mark("language", words.language))
    return " ".join(marks)


def _plain(text: str) -> str:
    return _ODD.sub(" ", text).strip()


def _year(dates: Iterable[str]) -> int:
    """The first year that a date begins with; 0 if there is none."""
    found = (match for match in (_YEAR.fullmatch(text.strip()) for text in dates) if match)
    return next((int(match[1]) for match in found if match[1] != "0000"), 0)


@lru_cache(maxsize=1024)
def _tongue(text: str) -> str:
    """A language without its country: "pt" of "pt-BR", "por" or "Portuguese"; "" if it cannot be told."""
    return (language_of(text[:100]) or "").partition("-")[0] if text else ""
