"""Write citations of one item for people, and references for their citation programs (pure).

A citation is a line of text by ABNT NBR 6023:2018 or APA 7, in Portuguese or English. References are CSL JSON
(CSL 1.0.2), BibTeX and RIS, all in UTF-8.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.model.record_values import ADVISER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ibi.archive.model.record_values import Source
    from ibi.web.formats.record import ItemRecord, Person


_INITIALS: Final = re.compile(r"[^\s.\-]+|-")
_PARTICLES: Final = frozenset("da das de del della der di do dos du e la le van von y".split())
"""Words in names that get no initial: João da Conceição becomes J. C."""
_DASH: Final = "\N{EN DASH}"
_MOST_IN_APA: Final = 20  # authors that APA names
_MOST_IN_ABNT: Final = 3  # authors that ABNT names before “et al.”
_ON_A_DAY: Final = frozenset(
    {"speech", "motion_picture"}
)  # kinds that APA cites with the day, not only the year
_IN_A_BOOK: Final = frozenset({"chapter", "paper-conference"})
_SHORT: Final = 3
"""Letters of an article, which is raised together with the next word at the head of an entry: "O NOME"."""


class _Words(NamedTuple):
    """The words of a language in citations."""

    months: tuple[str, ...]
    short_months: tuple[str, ...]
    apa_day: str
    at: str
    visited: str
    genres: Mapping[str, str]
    theses: Mapping[str, str]


_WORDS: Final = {
    "en": _Words(
        tuple("January February March April May June July August September October November December".split()),
        tuple("Jan. Feb. Mar. Apr. May June July Aug. Sept. Oct. Nov. Dec.".split()),
        "{month} {day}",
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


class TextRun(NamedTuple):
    """A part of a citation; `emphasised`: in bold for ABNT, in italics for APA."""

    text: str
    emphasised: bool = False


Citation = tuple[TextRun, ...]


def _words(language: str) -> _Words:
    """Return the words of a language; those of English where this one has none."""
    return _WORDS.get(language, _WORDS["en"])


def plain(citation: Citation) -> str:
    """Return a citation as a line of text."""
    return "".join(run.text for run in citation)


def apa(item: ItemRecord, language: str, _day: str) -> Citation:
    """Cite by APA 7: authors, date, title, source, URL. `language`: a member of LANGUAGES."""
    words = _words(language)
    when = f"({_apa_date(item, words)})."
    authors = _apa_authors(item.creators)
    genre = words.genres.get(item.kind.genre, "")
    if item.kind.genre in words.theses:
        genre = f"{genre}, {item.publisher}"
    where = _apa_source(item.source) if item.source.name else [TextRun(item.publisher)]
    if item.kind.genre in words.theses or plain(tuple(where)) in {person.name for person in item.creators}:
        where = []  # the school is in the brackets already, and an author is not named twice
    # The title of a part of a larger work is in plain letters, and the title of that work in italics.
    title = [TextRun(item.title, not item.source.name), *([TextRun(f" [{genre}]")] if genre else [])]
    head = (
        [[TextRun(f"{_ended(authors)} {when}")], _closed(title)]
        if authors
        else [_closed(title), [TextRun(when)]]
    )
    return _joined(*head, _closed(where), [TextRun(item.url)])


def abnt(item: ItemRecord, language: str, day: str) -> Citation:
    """Cite by ABNT NBR 6023:2018; `day`: that of the visit ("2026-11-22"), which ABNT wants with a URL."""
    words = _words(language)
    many = len(item.creators) > _MOST_IN_ABNT
    authors = "; ".join(
        f"{person.family.upper()}, {person.given}" if person.family else person.name.upper()
        for person in item.creators[: 1 if many else None]
    )
    if many:
        authors += " et al."
    year, month, today = map(int, day.split("-"))
    visited = f"{today} {words.short_months[month - 1]} {year}"
    return _joined(
        [TextRun(_ended(authors))] if authors else [],
        _closed(_abnt_title(item)),
        _abnt_place(item, words),
        [TextRun(f"{words.at}: {item.url}. {words.visited}: {visited}.")],
    )


STYLES: Final[Mapping[str, Callable[[ItemRecord, str, str], Citation]]] = {"abnt": abnt, "apa": apa}
"""Styles by name: (item, language "en" or "pt-BR", day of the visit) -> the citation."""


def _joined(*parts: Sequence[TextRun]) -> Citation:
    """Join the parts that are not empty with blanks."""
    runs: list[TextRun] = []
    for part in filter(None, parts):
        runs += [*([TextRun(" ")] if runs else []), *part]
    return tuple(runs)


def _closed(part: Sequence[TextRun]) -> list[TextRun]:
    """Return a part with a full stop at its end."""
    ended = bool(part) and part[-1].text.endswith((".", "?", "!"))
    return [*part] if ended or not part else [*part, TextRun(".")]


def _apa_authors(people: Sequence[Person]) -> str:
    names = [
        f"{person.family}, {_initials(person.given)}" if person.family else person.name for person in people
    ]
    if len(names) > _MOST_IN_APA:
        return ", ".join(names[: _MOST_IN_APA - 1]) + f", … {names[-1]}"
    return ", ".join(names[:-1]) + f", & {names[-1]}" if len(names) > 1 else "".join(names)


def _initials(given: str) -> str:
    """Write "Maria Clara" as "M. C.", "Jean-Luc" as "J.-L.", "João da Conceição" as "J. C."."""
    found = _INITIALS.findall(given)
    named = [part for part in found if part not in _PARTICLES] or found
    parts = ["-" if part == "-" else f"{part[0].upper()}." for part in named]
    return " ".join(parts).replace(" - ", "-")


def _apa_date(item: ItemRecord, words: _Words) -> str:
    """Return the year, or for a presentation or film the day."""
    day = item.issued
    if day is None:
        return str(item.year)  # in which the Archive published it, as DataCite has it
    if not day.month or item.kind.csl not in _ON_A_DAY:
        return str(day.year)
    month = words.months[day.month - 1]
    return f"{day.year}, " + (words.apa_day.format(month=month, day=day.day) if day.day else month)


def _apa_source(source: Source) -> list[TextRun]:
    """Return a journal with its volume (number) and pages."""
    runs = [TextRun(source.name, emphasised=True)]
    if source.volume:
        runs += [TextRun(", "), TextRun(source.volume, emphasised=True)]
    if source.number:
        runs.append(TextRun(f"({source.number})" if source.volume else f", ({source.number})"))
    if source.pages:
        runs.append(TextRun(f", {source.pages.replace('-', _DASH)}"))
    return runs


def _abnt_title(item: ItemRecord) -> list[TextRun]:
    """Return the title: raised if it begins the entry, plain in a larger work, else bold to a colon."""
    if not item.creators:
        return [TextRun(_raised(item.title))]
    if item.source.name:
        return [TextRun(item.title)]
    title, colon, subtitle = item.title.partition(":")
    return [TextRun(title, emphasised=True), *([TextRun(colon + subtitle)] if colon else [])]


def _abnt_place(item: ItemRecord, words: _Words) -> list[TextRun]:
    """Return where and when the item was published; the place is "s. l.", because Dublin Core has none."""
    year = when = "[s. d.]"
    if item.issued is not None:
        year = str(item.issued.year)
        month = words.short_months[item.issued.month - 1] if item.issued.month else ""
        when = " ".join(filter(None, (str(item.issued.day or ""), month, year)))
    if item.kind.genre in words.theses:
        school = f"{words.theses[item.kind.genre]} {_DASH} {item.publisher}, [s. l.], {_ended(year)}"
        return [TextRun(f"{_ended(year)} {school}")]
    where = str(item.source._replace(name=""))
    published = f"[S. l.]: {item.publisher}, {_ended(when)}" + (f" {where}." if where else "")
    if not item.source.name:
        return [TextRun(published)]
    if item.kind.csl in _IN_A_BOOK:
        return [TextRun("In: "), TextRun(item.source.name, emphasised=True), TextRun(f". {published}")]
    numbers = f"{where}, " if where else ""
    return [TextRun(item.source.name, emphasised=True), TextRun(f", [s. l.], {numbers}{_ended(when)}")]


def _raised(title: str) -> str:
    """Return a title with its first word in capitals; if that is an article, also the second."""
    words = title.split(" ")
    count = 2 if len(words[0]) <= _SHORT else 1
    return " ".join([*(word.upper() for word in words[:count]), *words[count:]])


def _ended(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


_ENCODE: Final = json.JSONEncoder(ensure_ascii=False).encode


def write(item: ItemRecord) -> bytes:
    """Write the item as one object of CSL JSON, one member a line, in UTF-8."""
    value: dict[str, Any] = {
        "id": item.names[0],
        "type": item.kind.csl,
        "title": item.title,
        "author": [_name(person) for person in item.creators],
        "contributor": [_name(person) for person in item.contributors],
        "issued": {"date-parts": [[part for part in item.issued if part]]} if item.issued else None,
        "publisher": item.publisher,
        "container-title": item.source.name,
        "volume": item.source.volume,
        "issue": item.source.number,
        "page": item.source.pages,
        "DOI": item.doi,
        "URL": item.url,
        "abstract": "\n".join(text.value for text in item.descriptions),
        "keyword": ", ".join(text.value for text in item.subjects),
        "language": item.language,
        "note": f"removed on {item.updated[:10]}" if item.removed else "",
    }
    lines = ",\n ".join(f'"{name}": {_ENCODE(each)}' for name, each in value.items() if each)
    return f"{{\n {lines}\n}}".encode()


def _name(person: Person) -> dict[str, str]:
    if person.family:
        return {"family": person.family, "given": person.given}
    return {"literal": person.name}


_SPECIAL: Final = str.maketrans({
    "{": r"\textbraceleft{}",
    "}": r"\textbraceright{}",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{char: f"\\{char}" for char in "%&#$_"},
})  # fmt: skip
_NO_KEY: Final = re.compile(r"[^A-Za-z0-9]+")
_NOT_IN_URL: Final = re.compile(r"[{}\\\s]")
_PUBLISHED_BY: Final = {"phdthesis": "school", "mastersthesis": "school", "techreport": "institution"}
_INSIDE: Final = {"article": "journal", "inproceedings": "booktitle", "incollection": "booktitle"}


def write_bibtex(item: ItemRecord) -> bytes:
    """Write the item as one BibTeX entry, whose key is made from the item's name."""
    kind = item.kind.bibtex
    fields = {
        "title": f"{{{_tex(item.title)}}}",  # the second pair of braces preserves capital letters
        "author": " and ".join(map(_bibtex_name, item.creators)),
        "advisor": " and ".join(_bibtex_name(each) for each in item.contributors if each.role == ADVISER),
        "year": str(item.issued.year) if item.issued else "",
        "month": str(item.issued.month or "") if item.issued else "",
        _PUBLISHED_BY.get(kind, "publisher"): _tex(item.publisher),
        _INSIDE.get(kind, "howpublished"): _tex(item.source.name),
        "volume": _tex(item.source.volume),
        "number": _tex(item.source.number),
        "pages": _tex(item.source.pages.replace("-", "--")),
        "keywords": _tex(", ".join(text.value for text in item.subjects)),
        "abstract": _tex(" ".join(text.value for text in item.descriptions)),
        "language": _tex(item.language),
        "doi": _NOT_IN_URL.sub("", item.doi),
        "url": _NOT_IN_URL.sub("", item.url),
        "note": f"removed on {item.updated[:10]}" if item.removed else "",
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    key = _NO_KEY.sub("-", item.names[0])
    return "\n".join((f"@{kind}{{{key},", *lines, "}", "")).encode("utf-8", "replace")


def _bibtex_name(person: Person) -> str:
    """Return family and given name; an undivided name is put in braces, so that no "and" or comma cuts it."""
    if not person.family:
        return f"{{{_tex(person.name)}}}"
    parts = (person.family, person.given)
    return ", ".join(
        f"{{{_tex(part)}}}" if "," in part or " and " in f" {part.lower()} " else _tex(part) for part in parts
    )


def _tex(text: str) -> str:
    return text.translate(_SPECIAL)


def write_ris(item: ItemRecord) -> bytes:
    """Write the item as one RIS reference."""
    issued = item.issued
    first_page, _, last_page = item.source.pages.partition("-")
    fields = {
        "TY": [item.kind.ris],
        "TI": [item.title],
        "AU": [person.name for person in item.creators],
        "A2": [person.name for person in item.contributors if person.role != ADVISER],
        "A3": [person.name for person in item.contributors if person.role == ADVISER],
        "PY": [f"{issued.year:04}"] if issued else [],
        "DA": ["/".join(f"{part:02}" if part else "" for part in (*issued, 0))] if issued else [],
        "PB": [item.publisher],
        "T2": [item.source.name],
        "VL": [item.source.volume],
        "IS": [item.source.number],
        "SP": [first_page],
        "EP": [last_page],
        "KW": [text.value for text in item.subjects],
        "AB": [text.value for text in item.descriptions],
        "LA": [item.language],
        "DO": [item.doi],
        "UR": [item.url],
        "ID": [item.names[0]],
        "N1": [f"removed on {item.updated[:10]}"] if item.removed else [],
    }
    lines = [f"{tag}  - {value}".rstrip(" ") for tag, values in fields.items() for value in values if value]
    return "".join(f"{line}\r\n" for line in (*lines, "ER  - ")).encode("utf-8", "replace")
