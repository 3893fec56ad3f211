"""Prepare the values for the template of the form of an item: the fields of its kind, people, dates, languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.admin.item_form import (
    DUBLIN_CORE,
    MOST_PEOPLE,
    NUMBERS,
    OF_ANOTHER_KIND,
    PARTS_OF_SOURCE,
    PersonRow,
    embargo_end,
    iso_date,
    people_rows,
)
from ibi.archive.admin.kept_files import MOST_KEPT
from ibi.archive.model.item import ELEMENTS
from ibi.archive.model.record_values import Source, day_of, doi_of
from ibi.web.formats.record import OTHER, kind_of
from ibi.web.rendering import day, language_name, month

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ibi.archive.admin.item_pages import ItemFormPage

    Rows = list[tuple[str, str]]


class DepositKind(NamedTuple):
    """A kind of item in the form: the types that it is written as, and its fields.

    `source`: the parts of its source; `numbers`: its identifiers; `elements`: elements of Dublin Core that
    belong to it.
    """

    types: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ("doi",)
    elements: tuple[str, ...] = ()


DEPOSIT_KINDS: Final = {
    "article": DepositKind(("article", "conference paper", "preprint"), PARTS_OF_SOURCE, ("doi", "issn")),
    "thesis": DepositKind(("doctoral thesis", "master thesis", "bachelor thesis"), elements=("publisher",)),
    "dataset": DepositKind(("dataset",), elements=("coverage", "relation")),
    "report": DepositKind(("report",), ("name", "number"), elements=("publisher",)),
    "book": DepositKind(("book", "book part"), ("name", "pages"), ("isbn", "doi"), ("publisher",)),
    "map": DepositKind(("map",), elements=("format", "coverage")),
    "image": DepositKind(("image",), elements=("format", "coverage")),
    "other": DepositKind(),
}
"""The kinds of items that the form knows, by the value of the field `kind`."""

DEPOSIT_KIND_NAMES: Final = {
    "article": "Article",
    "thesis": "Thesis or dissertation",
    "dataset": "Data",
    "report": "Report",
    "book": "Book or chapter",
    "map": "Map",
    "image": "Photograph or picture",
    "other": "Other type",
}
"""Kind -> its label."""

PARTS: Final = {
    "files": "Files",
    "kind": "Kind and title",
    "people": "People",
    "publication": "Publication",
    "description": "Description",
    "rules": "Access and licence",
    "relations": "Relations and more",
}
"""Part of the form -> its heading."""

TYPE_NAMES: Final = {
    "article": "Article in a journal",
    "conference paper": "Paper of a conference",
    "preprint": "Preprint",
    "doctoral thesis": "Doctoral thesis",
    "master thesis": "Master's dissertation",
    "bachelor thesis": "Final paper of a first degree",
    "book": "Whole book",
    "book part": "Chapter of a book",
}
"""Type -> its label, where a kind has several."""

PART_NAMES: Final = {
    "name": "Journal or proceedings",
    "volume": "Volume",
    "number": "Number",
    "pages": "Pages",
    "report.name": "Series",
    "book.name": "Title of the whole book, for a chapter",
}
"""Part of a source -> its label, of some kinds with a word before it."""

MORE_NAMES: Final = {
    "thesis.publisher": "Institution that gives the degree",
    "dataset.coverage": "Period and place of the data",
    "dataset.relation": "Related article",
    "report.publisher": "Institution",
    "book.publisher": "Publisher of the book",
    "map.format": "Technique, size or scale",
    "map.coverage": "Place and period shown",
    "image.format": "Technique or size",
    "image.coverage": "Place and period shown",
}
"""Kind and element of Dublin Core -> the label of its field."""

MORE_HELP: Final = {
    "dataset.coverage": "Such as 2003/2021, or the name of a valley; each in a field of its own.",
    "dataset.relation": "Its persistent link, or its DOI.",
    "map.format": "Such as lithograph, 40 x 60 cm, or 1:50 000; each in a field of its own.",
    "image.format": "Such as watercolour, or 40 x 60 cm; each in a field of its own.",
}
"""Kind and element of Dublin Core -> help at its field."""

NUMBER_NAMES: Final = {"doi": "DOI, if it has one", "issn": "ISSN", "isbn": "ISBN"}
"""Field of an identifier -> its label."""

ACCESS_NAMES: Final = {
    "open": "Open access",
    "embargoed": "Embargoed",
    "restricted": "Restricted",
    "closed": "Closed",
}
"""Access of an item -> its label."""

ITEM_LANGUAGES: Final = tuple("pt-BR pt en es fr de it gn la nl ru ja zh ar".split())
"""Languages that can be chosen; what an item has besides them can be chosen, too."""

LICENCES: Final = {
    "https://creativecommons.org/licenses/by/4.0/": "CC BY 4.0: may be copied and adapted, with credit",
    "https://creativecommons.org/licenses/by-sa/4.0/": "CC BY-SA 4.0: the same, under the same licence",
    "https://creativecommons.org/licenses/by-nc/4.0/": "CC BY-NC 4.0: with credit, not for commerce",
    "https://creativecommons.org/licenses/by-nc-nd/4.0/": "CC BY-NC-ND 4.0: unchanged, with credit, not for commerce",
    "https://creativecommons.org/publicdomain/zero/1.0/": "CC0 1.0: no rights reserved",
}
"""URL of a licence -> its words."""

_OWN: Final = ("title", "creator", "contributor", "description", "date", "subject", "type")
"""The elements that have fields of their own in the form of each kind."""
_PART_FIELDS: Final = (*(f"source.{part}" for part in PARTS_OF_SOURCE), *NUMBERS)
_MOST_WITH_PEOPLE: Final = 600  # values beside which each person can have seven fields
_DAY: Final = 3  # parts of a whole date


def values(page: ItemFormPage, language: str) -> dict[str, Any]:
    """Return the values for the template of the page."""
    typed = {name: list(rows) for name, rows in page.values.items()}
    kind, types = _kind(page, typed)
    shown = DEPOSIT_KINDS.get(kind, DepositKind())
    parts = _parts(shown, typed)
    rest, absent = _others(page, shown, typed)
    titles = [tag for _, tag in (*typed.get("dc.title", ()), *typed.get("dc.description", ())) if tag]
    return {
        "kinds": DEPOSIT_KIND_NAMES,
        "kind": kind,
        "shown": shown,
        "people": _people(page, typed),
        "source": _labelled(kind, shown, parts["source"]),
        "numbers": [(name, NUMBER_NAMES[name], parts["numbers"][name]) for name in shown.numbers],
        "parked": _parked(shown, typed),
        "own": [(name, MORE_NAMES[f"{kind}.{name}"], MORE_HELP.get(f"{kind}.{name}", "")) for name in shown.elements],
        "dates": [
            (_typed_date(text, language), tag, _date_words(text, language))
            for text, tag in _rows(page, typed, "date")
        ],
        "subjects": _subjects(page, typed),
        "rest": rest,
        "absent": absent,
        "rows": lambda element: _rows(page, typed, element),
        "tongues": _languages([page.one("language"), page.one("language_other"), *titles], language),
        "proposed": page.one("language") or _proposed(page, language),
        "licence_words": LICENCES,
        "access_names": ACCESS_NAMES,
        "embargo": _typed_date(page.one("embargo"), language),
        "opening": _date_words(embargo_end(page.one("embargo")), language),
        "focus": _focus(page),
        "fresh": _proposed(page, language),
        "part_names": PARTS,
        "most_kept": MOST_KEPT,
        "filled": _filled(page, typed, kind),
        **types,
    }  # fmt: skip


def _others(page: ItemFormPage, shown: DepositKind, typed: Mapping[str, Rows]) -> tuple[list[str], list[str]]:
    """Return the elements without a place of their own in the form: those with fields, those that a button adds."""
    used = {
        *(name for name, rows in typed.items() if rows),
        *page.theirs,
        page.step.replace("row:", DUBLIN_CORE),
    }
    others = [name for name in ELEMENTS if name not in {*_OWN, *shown.elements}]
    rest = [name for name in others if f"{DUBLIN_CORE}{name}" in used]
    return rest, [name for name in others if name not in rest]


def _kind(page: ItemFormPage, typed: dict[str, Rows]) -> tuple[str, dict[str, Any]]:
    """Return the chosen kind, and the values of the fields of its type."""
    word, _, which = page.step.partition(":")
    types = [text for text, _ in typed.get("dc.type", ())]
    before, known = page.one("kind"), ""
    if not typed.get("kind") and types:
        known = _kind_of(types[0])
        before = known or "other"
    kind = which if word == "kind" and which in DEPOSIT_KINDS else before
    chosen, kept, other = page.one("subtype"), page.one("type_text"), page.one("type_other")
    shown = page.one("type_shown")
    if known and kind == known:
        kept, types = types[0], types[1:]
        chosen = shown = _type_of(kept, kind)
    elif before == "other" and kind != "other" and types:
        other, types = types[0], types[1:]
    elif known and kind == "other":
        types = types[1:]
    if kind == "other" and other and before != "other":
        types = [other, *types]
    options = DEPOSIT_KINDS[kind].types if kind else ()
    if chosen not in options:
        chosen, kept, shown = next(iter(options), ""), "", ""
    return kind, {
        "types": types, "chosen": chosen, "type_text": kept, "type_shown": shown, "type_other": other,
        "type_options": [(word, TYPE_NAMES.get(word, "")) for word in options],
    }  # fmt: skip


def _kind_of(text: str) -> str:
    """Return the kind of the form that a type belongs to; "" for another type."""
    meant = kind_of([text])
    known = (
        name for name, each in DEPOSIT_KINDS.items() if any(kind_of([word]) == meant for word in each.types)
    )
    return next(known, "") if meant != OTHER else ""


def _type_of(text: str, kind: str) -> str:
    """Return the word of the form for a type of a kind."""
    return next(word for word in DEPOSIT_KINDS[kind].types if kind_of([word]) == kind_of([text]))


def _parts(shown: DepositKind, typed: dict[str, Rows]) -> dict[str, Any]:
    """Take the parts of the source and the identifiers of a kind out of what was typed, and of whole values."""

    def given(name: str) -> str:
        rows = typed.get(name) or typed.get(f"{OF_ANOTHER_KIND}{name}") or [("", "")]
        return rows[0][0]

    source = [given(f"source.{part}") for part in PARTS_OF_SOURCE]
    whole = typed.get("dc.source", [])
    if shown.source and whole and not whole[0][1] and not any(source):
        read = Source.parse(whole[0][0])
        if str(Source.of(*read)) == whole[0][0]:
            source, typed["dc.source"] = list(read), whole[1:]
    numbers = {}
    for name in shown.numbers:
        numbers[name] = given(name)
        rows = typed.get("dc.identifier", [])
        found = next((row for row in rows if not row[1] and _number_in(name, row[0])), None)
        if found and not numbers[name]:
            numbers[name] = _number_in(name, found[0])
            rows.remove(found)
    return {"source": dict(zip(PARTS_OF_SOURCE, source, strict=True)), "numbers": numbers}


def _labelled(kind: str, shown: DepositKind, source: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return (part, label, value) of a source; without a label for a part that only comes back as it is."""
    if not shown.source:
        return []
    labels = {part: PART_NAMES.get(f"{kind}.{part}", PART_NAMES[part]) for part in shown.source}
    return [(part, labels.get(part, ""), value) for part, value in source.items()]


def _number_in(name: str, text: str) -> str:
    """Return the identifier of this kind in a value; "" if it is none, or written in another way than ours."""
    if name == "doi":
        return text if doi_of(text) else ""
    return text.removeprefix(f"{name.upper()} ") if text.startswith(f"{name.upper()} ") else ""


def _parked(shown: DepositKind, typed: Mapping[str, Rows]) -> list[tuple[str, str]]:
    """Return the fields that the chosen kind does not have, with what was typed into them for another kind."""
    here = {*(f"source.{part}" for part in PARTS_OF_SOURCE if shown.source), *shown.numbers}
    parked = []
    for name in _PART_FIELDS:
        rows = typed.get(name) or typed.get(f"{OF_ANOTHER_KIND}{name}") or []
        if name not in here and any(text for text, _ in rows):
            parked.append((f"{OF_ANOTHER_KIND}{name}", rows[0][0]))
    return parked


def _people(page: ItemFormPage, typed: Mapping[str, Rows]) -> list[PersonRow] | None:
    """Return the rows of people, changed by the step of the form; None if they are too many for such rows."""
    whole = [
        (text, tag, role) for role in ("creator", "contributor") for text, tag in typed.get(f"dc.{role}", ())
    ]
    rows = people_rows(lambda name: [text for text, _ in typed.get(name, ())])
    rows += [PersonRow.of(*each) for each in whole]
    others = sum(len(each) for name, each in typed.items() if name.startswith(DUBLIN_CORE)) - len(whole)
    if len(rows) > MOST_PEOPLE or len(rows) + others > _MOST_WITH_PEOPLE:
        return None
    word, _, which = page.step.partition(":")
    place = int(which) - 1 if which.isdecimal() and len(which) < _DAY + 1 else -1
    if word == "remove" and 0 <= place < len(rows):
        del rows[place]
    elif word == "up" and 0 < place < len(rows):
        rows[place - 1 : place + 1] = rows[place], rows[place - 1]
    elif word in {"person", "institution"}:
        rows.append(PersonRow(is_person=word == "person"))
    return rows or [PersonRow()]


def _rows(page: ItemFormPage, typed: Mapping[str, Rows], element: str) -> Rows:
    """Return the values of an element: at least one row, and one more if the form was sent for it."""
    rows = list(typed.get(f"{DUBLIN_CORE}{element}", ()))
    return [*rows, ("", "")] if not rows or page.step == f"row:{element}" else rows


def _subjects(page: ItemFormPage, typed: Mapping[str, Rows]) -> Rows:
    """Join subjects of the same language with semicolons."""
    joined: Rows = []
    for text, tag in (*typed.get("subjects", ()), *typed.get("dc.subject", ())):
        if joined and joined[-1][1] == tag:
            joined[-1] = (f"{joined[-1][0]}; {text}", tag)
        else:
            joined.append((text, tag))
    return [*joined, ("", "")] if not joined or page.step == "row:subjects" else joined


def _languages(more: Iterable[str], language: str) -> list[tuple[str, str]]:
    """Return the languages that can be chosen, by their names in the language of the page."""
    return [
        (tag, language_name(tag, language)) for tag in dict.fromkeys((*ITEM_LANGUAGES, *filter(None, more)))
    ]


def _typed_date(text: str, language: str) -> str:
    """Return a date as people write it: "12/03/2026", "03/2026" in Portuguese, ISO 8601 in English."""
    known = day_of(text)
    if language.startswith("pt") and known and str(known) == text:
        return "/".join(reversed(text.split("-")))
    return text


def _date_words(text: str, language: str) -> str:
    """Return a date in words: "12 de março de 2026"; "" if it is none, or only a year."""
    written = iso_date(text)
    known = day_of(written)
    if not known or str(known) != written:
        return ""
    return day(written, language) if known.day else month(written, language) if known.month else ""


def _filled(page: ItemFormPage, typed: Mapping[str, Rows], kind: str) -> set[str]:
    """Return the parts of the form in which the most important fields have values."""

    def has(*names: str) -> bool:
        return any(text for name in names for text, _ in typed.get(name, ()))

    values = {
        "files": bool(page.files),
        "kind": bool(kind) and has("dc.title"),
        "people": has("dc.creator", "dc.contributor", "who.family"),
        "publication": has("dc.date"),
        "description": has("dc.description", "dc.subject", "subjects"),
        "rules": has("licence", "licence_url", "rights"),
    }
    return {part for part, is_filled in values.items() if is_filled}


def _focus(page: ItemFormPage) -> str:
    """Return the id of the field where the reader goes on after a step."""
    word, _, which = page.step.partition(":")
    return {"kind": "kind", "row": f"row {which}", "files": "file", "drop": "file"}.get(word, word)


def _proposed(page: ItemFormPage, language: str) -> str:
    """Return the language that a new item probably has: that of the page, but not for a translation."""
    if page.place not in {"", "edition_of"} or page.step:
        return ""
    return page.one("language") or language.partition("-")[0]


def type_name(text: str) -> str:
    """Return the label of a type, or the type itself if the form has no label for it."""
    return TYPE_NAMES.get(text) or DEPOSIT_KIND_NAMES.get(text) or text


def field_of(name: str) -> str:
    """Return the id of a field that has no name in an item or in Dublin Core; "" if the form has no such field."""
    return name if name in {"kind", "file", *NUMBERS} or name.startswith("who-") else ""
