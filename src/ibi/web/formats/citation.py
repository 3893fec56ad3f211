"""How people cite an item: one line of text by ABNT NBR 6023:2018 or by APA 7, in Portuguese or English (pure).

Written here rather than by a citation processor: that takes 20 ms for a text, and its ABNT leaves out the address of
many kinds (docs/decisions: formats are our own).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ibi.web.formats.record import Day, Person, Record

_INITIALS: Final = re.compile(r"[^\s.\-]+|-")
_DASH: Final = "\N{EN DASH}"
_MOST_IN_APA: Final = 20
_MOST_IN_ABNT: Final = 3
_SHORT: Final = 3
"""Letters of a word that does not stand alone in capitals at the head of an entry: "O NOME", "THE NAME"."""


class _Words(NamedTuple):
    """What a language puts between the facts."""

    months: tuple[str, ...]
    short_months: tuple[str, ...]
    apa_day: str
    no_date: str
    at: str
    visited: str
    genres: Mapping[str, str]
    theses: Mapping[str, str]


_WORDS: Final = {
    "en": _Words(
        tuple("January February March April May June July August September October November December".split()),
        tuple("Jan. Feb. Mar. Apr. May June July Aug. Sept. Oct. Nov. Dec.".split()),
        "{month} {day}",
        "n.d.",
        "Available at",
        "Accessed on",
        {
            "doctoral": "Doctoral dissertation", "master": "Master's thesis", "bachelor": "Bachelor's thesis",
            "dataset": "Data set", "software": "Computer software", "map": "Map", "image": "Image", "video": "Video",
            "audio": "Audio",
        },
        {"doctoral": "Thesis (Doctorate)", "master": "Dissertation (Master's)", "bachelor": "Monograph (Bachelor's)"},
    ),
    "pt-BR": _Words(
        tuple("janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro".split()),
        tuple("jan. fev. mar. abr. maio jun. jul. ago. set. out. nov. dez.".split()),
        "{day} de {month}",
        "s.d.",
        "Disponível em",
        "Acesso em",
        {
            "doctoral": "Tese de doutorado", "master": "Dissertação de mestrado",
            "bachelor": "Trabalho de conclusão de curso", "dataset": "Conjunto de dados",
            "software": "Programa de computador", "map": "Mapa", "image": "Imagem", "video": "Vídeo", "audio": "Áudio",
        },
        {
            "doctoral": "Tese (Doutorado)", "master": "Dissertação (Mestrado)",
            "bachelor": "Trabalho de Conclusão de Curso (Graduação)",
        },
    ),
}  # fmt: skip


def apa(item: Record, language: str, _day: str) -> str:
    """By APA 7: authors, date, title, where, address. `language`: "en" or "pt-BR"."""
    words = _WORDS[language]
    when = _apa_date(item.issued, words)
    authors = _apa_authors(item.creators)
    genre = words.genres.get(item.kind.genre, "")
    if item.kind.genre in words.theses:
        genre = f"{genre}, {item.publisher}"
    title = f"{item.title} [{genre}]" if genre else item.title
    where = item.source or item.publisher
    if item.kind.genre in words.theses or where in {person.name for person in item.creators}:
        where = ""  # the school stands in the brackets, and an author is not named twice
    head = [_ended(authors) + f" ({when}).", _ended(title)] if authors else [_ended(title), f"({when})."]
    return " ".join([*head, *([_ended(where)] if where else []), item.url])


def abnt(item: Record, language: str, day: str) -> str:
    """By ABNT NBR 6023:2018; `day` is that of the reader's visit, which an address wants with it: "2026-11-22"."""
    words = _WORDS[language]
    authors = "; ".join(map(_abnt_name, item.creators[: 1 if len(item.creators) > _MOST_IN_ABNT else None]))
    if len(item.creators) > _MOST_IN_ABNT:
        authors += " et al."
    title = item.title if authors else _raised(item.title)
    year, month, today = map(int, day.split("-"))
    visited = f"{today} {words.short_months[month - 1]} {year}"
    parts = [_ended(authors)] if authors else []
    parts += [_ended(title), _abnt_place(item, words)]
    return " ".join([*parts, f"{words.at}: {item.url}.", f"{words.visited}: {visited}."])


STYLES: Final[Mapping[str, Callable[[Record, str, str], str]]] = {"abnt": abnt, "apa": apa}
"""Styles by name: (item, language "en" or "pt-BR", day of the visit) -> the citation."""


def _apa_authors(people: Sequence[Person]) -> str:
    names = [
        f"{person.family}, {_initials(person.given)}" if person.family else person.name for person in people
    ]
    if len(names) > _MOST_IN_APA:
        return ", ".join(names[: _MOST_IN_APA - 1]) + f", … {names[-1]}"
    return ", ".join(names[:-1]) + f", & {names[-1]}" if len(names) > 1 else "".join(names)


def _initials(given: str) -> str:
    """Write "Maria Clara" as "M. C.", "Jean-Luc" as "J.-L."."""
    parts = ["-" if part == "-" else f"{part[0].upper()}." for part in _INITIALS.findall(given)]
    return " ".join(parts).replace(" - ", "-")


def _apa_date(day: Day | None, words: _Words) -> str:
    if day is None:
        return words.no_date
    if not day.month:
        return str(day.year)
    month = words.months[day.month - 1]
    return f"{day.year}, " + (words.apa_day.format(month=month, day=day.day) if day.day else month)


def _abnt_name(person: Person) -> str:
    return f"{person.family.upper()}, {person.given}" if person.family else person.name.upper()


def _abnt_date(day: Day | None, words: _Words) -> str:
    if day is None:
        return "[s. d.]"
    month = words.short_months[day.month - 1] if day.month else ""
    return " ".join(filter(None, (str(day.day or ""), month, str(day.year))))


def _abnt_place(item: Record, words: _Words) -> str:
    """Where it came out and when; Dublin Core knows no place, which ABNT wants said."""
    when = _abnt_date(item.issued, words)
    if item.kind.genre in words.theses:
        year = str(item.issued.year) if item.issued else when
        return f"{_ended(year)} {words.theses[item.kind.genre]} {_DASH} {item.publisher}, [s. l.], {_ended(year)}"
    if item.source:
        return f"{item.source}, {_ended(when)}"
    return f"[S. l.]: {item.publisher}, {_ended(when)}"


def _raised(title: str) -> str:
    """A title at the head of an entry: its first word in capitals, the second too behind an article."""
    words = title.split(" ")
    count = 2 if len(words[0]) <= _SHORT else 1
    return " ".join([*(word.upper() for word in words[:count]), *words[count:]])


def _ended(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."
