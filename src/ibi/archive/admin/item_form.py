"""The form of an item: read as the JSON of the JSON interface, and filled with the values of an item (pure).

The form asks for more than Dublin Core has elements; each field is a part of a value of one element:

    who, who.family, who.given, who.orcid, who.role   creator, contributor (an adviser too): "Silva, Maria (https://orcid.org/…)"
    source.name, .volume, .number, .pages             source: "Revista do Mar, v. 12, n. 3, p. 45-67"
    doi, issn, isbn                                   identifier: "10.1234/abc", "ISSN 1234-5678"
    subjects                                          subject: one value before and after each semicolon
    subtype, type_text, type_shown                    type: the text of the item stays if the choice stays

A field `dc.<element>` is a whole value. A field whose name begins with "~" belongs to another kind of item: it
is not read, and comes back when that kind is chosen again.
"""

from __future__ import annotations

import re
from datetime import MAXYEAR
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.model.item import ELEMENTS
from ibi.archive.model.item_fields import EDITED, FormKind
from ibi.archive.model.item_json import usual_facts, write_item
from ibi.archive.model.record_values import (
    ADVISER,
    Day,
    Source,
    as_adviser,
    author,
    contributor,
    day_of,
    doi_of,
    is_impossible,
)
from ibi.errors import BadItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ibi.accounts.layout import Form
    from ibi.archive.model.item import Holding

    Rows = list[tuple[str, str]]
    Values = Mapping[str, Sequence[tuple[str, str]]]


TEXTS: Final = tuple(each.name for each in EDITED if each.form not in {FormKind.NONE, FormKind.TRUTH})
"""Fields of one text each; empty ones are left out."""
TRUTHS: Final = tuple(each.name for each in EDITED if each.form is FormKind.TRUTH)
"""Fields that are true by default: "yes" or "no"."""
FIELDS: Final = (*TEXTS, *TRUTHS, "metadata")
"""The facts of an item that the form edits."""

MOST_STATEMENTS: Final = 900
"""Metadata values in one form. Each takes two of the fields that a form may have."""
MOST_PEOPLE: Final = 100
"""People with fields for each part of a name; more people have one field each."""

_USUAL: Final = {
    each.name: each.write(usual_facts([each.name])[each.attribute])
    for each in EDITED
    if each.form is FormKind.CHOICE
}
DUBLIN_CORE: Final = "dc."
"""The prefix of Dublin Core fields. It is needed because an item itself has a language and rights, too."""
OF_ANOTHER_KIND: Final = "~"
"""The prefix of the fields that the chosen kind does not have."""
PARTS_OF_SOURCE: Final = ("name", "volume", "number", "pages")
"""The fields of a source, behind "source."."""
NUMBERS: Final = ("doi", "issn", "isbn")
"""The fields of identifiers."""

_LANGUAGE: Final = ".lang"
_NUMERIC: Final = re.compile(r"(?:[0-9]{1,2}[./-])?[0-9]{1,2}[./-][0-9]{4}", re.ASCII)
_WORDED: Final = re.compile(r"[^\n]*[^\W\d_]{3,}[^\n]*[0-9]{4}")
_WITHOUT_ORDER: Final = frozenset({"identifier", "subject"})
_SERIAL: Final = re.compile(r"[0-9]{4}-?[0-9]{3}[0-9Xx]", re.ASCII)
_BOOK: Final = re.compile(r"(?:[0-9][ -]?){9}[0-9Xx]|(?:[0-9][ -]?){12}[0-9]", re.ASCII)


class PersonRow(NamedTuple):
    """One row of people: a person, whose name is divided, or an institution, whose name is in `family`.

    `text`: the whole value as the item has it, which stays as long as its parts stay; "" for a new row.
    """

    is_person: bool = True
    family: str = ""
    given: str = ""
    orcid: str = ""
    role: str = "creator"
    text: str = ""
    language: str = ""

    @classmethod
    def of(cls, text: str, language: str = "", role: str = "creator") -> PersonRow:
        """Divide a value of `creator` or `contributor`."""
        name, orcid, found = author(text) if role == "creator" else contributor(text)
        role = found or role
        family, comma, given = (part.strip() for part in name.partition(","))
        if comma and family and given:
            return cls(family=family, given=given, orcid=orcid, role=role, text=text, language=language)
        return cls(bool(orcid), name, orcid=orcid, role=role, text=text, language=language)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was typed."""
        return not (self.family or self.given or self.orcid)

    @property
    def element(self) -> str:
        """The element of Dublin Core that it is a value of."""
        return "contributor" if self.role == ADVISER else self.role

    @property
    def value(self) -> str:
        """The value of `creator` or `contributor`."""
        if self.text and self.of(self.text, role=self.element)[1:5] == self[1:5]:
            return self.text
        name = ", ".join(filter(None, (self.family, self.given)))
        orcid = author(f"- {self.orcid}").orcid
        value = f"{name} (https://orcid.org/{orcid})".strip() if orcid else name
        return as_adviser(value) if self.role == ADVISER else value


def item_from_form(form: Form) -> dict[str, Any]:
    """Make the JSON of an item from a form; defaults are left out."""
    value: dict[str, Any] = {}
    for name in TEXTS:
        text = form.one(name)
        if text and text != _USUAL.get(name):
            value[name] = text
    # What is typed because it is in no list goes before what is chosen in the list.
    for name, typed in (("language", "language_other"), ("licence", "licence_url")):
        if form.one(typed):
            value[name] = form.one(typed)
    if drops_embargo(form):
        value.pop("embargo", None)
    elif "embargo" in value:
        value["embargo"] = embargo_end(value["embargo"])
    value |= {name: False for name in TRUTHS if form.one(name) == "no"}
    metadata = {element: values for element in ELEMENTS if (values := _statements(form, element))}
    if metadata:
        value["metadata"] = metadata
    return value


def drops_embargo(form: Form) -> bool:
    """Return whether a form has the end of an embargo, but another access, so that the end is not kept."""
    return bool(form.one("embargo")) and form.one("access") not in {"", "embargoed"}


def changes_from_form(form: Form, holding: Holding) -> dict[str, Any]:
    """Return the fields in which a form differs from the item, for an edit: None for a deleted value."""
    new, old = item_from_form(form), write_item(holding)
    if "metadata" in old:
        before, after = old["metadata"], new.get("metadata", {})
        old["metadata"] = {name: [_stripped(each) for each in values] for name, values in before.items()}
        # A value that is only written in another way stays as it is.
        for name in after:
            if _is_equal(name, before.get(name, []), after[name]):
                after[name] = old["metadata"][name]
    return {name: new.get(name) for name in FIELDS if new.get(name) != old.get(name)}


def problems_in(form: Form, *, is_new: bool) -> Iterator[BadItem]:
    """Yield what is missing or wrong in the form of a page; `details["name"]` is the field."""
    if not form.many("kind"):  # another program sends only what it wants to keep
        return
    if is_new:
        yield from _missing(form)
    for text in form.many("dc.date"):
        if is_impossible(text):
            yield BadItem("no calendar has the date {value}", name="date", value=text.strip())
    if (
        form.one("access") == "embargoed"
        and form.one("embargo")
        and not _is_day(embargo_end(form.one("embargo")))
    ):
        yield BadItem("this is no date; write a day, 31/01/2027, a month, 01/2027, or a year", name="embargo")
    yield from _wrong_numbers(form)


def _is_day(text: str) -> bool:
    known = day_of(text)
    return known is not None and known.day > 0 and str(known) == text


def _missing(form: Form) -> Iterator[BadItem]:
    if not form.one("kind"):
        yield BadItem("choose what it is", name="kind")
    if not any(map(str.strip, form.many("dc.title"))):
        yield BadItem("give it a title", name="title")
    if not (form.one("language") or form.one("language_other")):
        yield BadItem("choose the language of the item", name="language")
    if not any(map(str.strip, form.many("dc.date"))):
        yield BadItem("give its date; the year is enough", name="date")


def _wrong_numbers(form: Form) -> Iterator[BadItem]:
    doi, issn, isbn = map(form.one, NUMBERS)
    if doi and doi_of(doi) is None:
        yield BadItem("a DOI begins with 10. and has a slash, such as 10.1234/abc", name="doi")
    if issn and not _SERIAL.fullmatch(issn):
        yield BadItem("an ISSN has eight characters, such as 2965-0000", name="issn")
    if isbn and not _BOOK.fullmatch(isbn):
        yield BadItem("an ISBN has 13 digits, or 10", name="isbn")
    for number, row in enumerate(people_rows(form.many), 1):
        if row.orcid and not author(f"- {row.orcid}").orcid:
            problem = "{value} is no ORCID iD: it has 16 characters, and the last one checks the others"
            yield BadItem(problem, name=f"who-{number}-orcid", value=row.orcid)


def typed_values(form: Form) -> Values:
    """Return the values of a form, to show them again."""
    shown: dict[str, Rows] = {name: [(form.one(name), "")] for name in (*TEXTS, *TRUTHS)}
    for element in ELEMENTS:
        shown[f"{DUBLIN_CORE}{element}"] = [pair for pair in _rows(form, element) if any(pair)]
    shown["subjects"] = [pair for pair in _pairs(form, "subjects") if any(pair)]
    others = dict.fromkeys(name for name, _ in form.fields if name not in shown)
    return shown | {name: [(text, "") for text in form.many(name)] for name in others}


def people_rows(many: Callable[[str], list[str]]) -> list[PersonRow]:
    """Return the rows of people, also empty ones. `many` returns all values of a field."""
    names = ("who", "who.family", "who.given", "who.orcid", "who.role", "who.text", "who.lang")
    columns = [many(name) for name in names]
    padded = [column + [""] * (len(columns[0]) - len(column)) for column in columns]
    return [
        PersonRow(who == "person", family.strip(), given.strip(), orcid.strip(), role or "creator", text, tag)
        for who, family, given, orcid, role, text, tag in zip(*padded, strict=False)
    ]


def values_of(holding: Holding, *, leaving: Sequence[str] = ()) -> Values:
    """Return the values of an item, to show them in its form, without the fields in `leaving`.

    Raises BadItem if there are more values than a form may have.
    """
    # A form with more fields would be refused when it comes back.
    if sum(map(len, (holding.metadata or {}).values())) > MOST_STATEMENTS:
        raise BadItem("so many statements are too many for a form; use the command: ibi archive edit")
    written = write_item(holding)
    shown: dict[str, Rows] = {
        name: [(str(written.get(name, _USUAL.get(name, ""))), "")] for name in TEXTS if name not in leaving
    }
    shown |= {name: [("no" if written.get(name) is False else "yes", "")] for name in TRUTHS}
    for element, statements in (holding.metadata or {}).items():
        if element not in leaving:
            shown[f"{DUBLIN_CORE}{element}"] = [(value, language or "") for value, language in statements]
    return shown


def differences(form: Form, holding: Holding) -> dict[str, str]:
    """Return the present value of the item, as one text, for each field that differs from the form."""
    now, changes = values_of(holding), changes_from_form(form, holding)
    names = [name for name in changes if name != "metadata"]
    if "metadata" in changes:
        old, new = write_item(holding).get("metadata", {}), changes["metadata"] or {}
        names += [
            f"{DUBLIN_CORE}{element}"
            for element in ELEMENTS
            if [_stripped(each) for each in old.get(element, [])] != new.get(element, [])
        ]
    return {name: "; ".join(text for text, _ in now.get(name, ())) for name in names}


def iso_date(text: str) -> str:
    """Return a date as ISO 8601, if it is written as people do: "12/03/2026", "03/2026", "12 de março de 2026".

    The day stands before the month. Other texts, such as "about 1900" or "2003/2021", stay as they are.
    """
    stripped = text.strip()
    is_date = _NUMERIC.fullmatch(stripped) or (_WORDED.fullmatch(stripped) and not stripped[:4].isdigit())
    day = day_of(stripped) if is_date else None
    return str(day) if day else stripped


def embargo_end(text: str) -> str:
    """Return the day on which an embargo ends: the first one after a month or a year, "2028-01-01" of "2027".

    Who writes "until 2027" may mean any day of it, and what was opened too early cannot be closed again. Other
    texts than dates stay as they are.
    """
    written = iso_date(text)
    known = day_of(written)
    if known is None or known.day or str(known) != written or known.year >= MAXYEAR:
        return written
    year, month = divmod(12 * known.year + (known.month or 12), 12)
    return str(Day(year, month + 1, 1))


def _statements(form: Form, element: str) -> list[Any]:
    """Return the values of an element that are not empty, each with its language if one was typed."""
    return [
        {"value": _tidy(value), "lang": language.strip()} if language.strip() else _tidy(value)
        for value, language in (*_composed(form, element), *_rows(form, element))
        if value.strip()
    ]


def _composed(form: Form, element: str) -> Rows:
    """Return the values of an element that are made of other fields, in front of its own."""
    match element:
        case "creator" | "contributor":
            rows = [each for each in people_rows(form.many) if each.element == element and not each.is_empty]
            return [(each.value, each.language) for each in rows]
        case "source":
            return [(str(Source.of(*(form.one(f"source.{part}") for part in PARTS_OF_SOURCE))), "")]
        case "identifier":
            named = ((name, form.one(name)) for name in NUMBERS)
            return [(text if name == "doi" else f"{name.upper()} {text}", "") for name, text in named if text]
        case "subject":
            typed = _pairs(form, "subjects")
            return [(part, language) for text, language in typed for part in re.split(r"[;\n]", text)]
        case "type":
            chosen = form.one("subtype")
            return [(form.one("type_text") if chosen == form.one("type_shown") else chosen, "")]
    return []


def _rows(form: Form, element: str) -> Rows:
    rows = _pairs(form, f"{DUBLIN_CORE}{element}")
    return [(iso_date(text), language) for text, language in rows] if element == "date" else rows


def _pairs(form: Form, name: str) -> Rows:
    values, languages = form.many(name), form.many(f"{name}{_LANGUAGE}")
    return list(zip(values, languages + [""] * (len(values) - len(languages)), strict=False))


def _is_equal(element: str, old: Sequence[Any], new: Sequence[Any]) -> bool:
    """Return whether values are the same, even if dates are written in another way or the order is another."""
    before, after = ([_stripped(each) for each in values] for values in (old, new))
    if element == "date":
        before, after = ([_dated(each) for each in values] for values in (before, after))
    if element == "subject":
        before, after = ([part for each in values for part in _divided(each)] for values in (before, after))
    if element in _WITHOUT_ORDER:
        before, after = sorted(before, key=str), sorted(after, key=str)
    return before == after


def _divided(statement: Any) -> list[Any]:
    """Divide a subject at its semicolons, as the form does."""
    if isinstance(statement, dict):
        return [{**statement, "value": each.strip()} for each in statement["value"].split(";")]
    return [each.strip() for each in statement.split(";")]


def _dated(statement: Any) -> Any:
    if isinstance(statement, dict):
        return {**statement, "value": iso_date(statement["value"])}
    return iso_date(statement)


def _stripped(statement: Any) -> Any:
    if isinstance(statement, dict):
        return {**statement, "value": _tidy(statement["value"])}
    return _tidy(statement)


def _tidy(text: str) -> str:
    """Remove blanks around a text and at the ends of lines, because they are invisible in a form."""
    return "\n".join(line.rstrip() for line in text.strip().replace("\r\n", "\n").split("\n"))
