"""The form of an item, read as JSON and filled from an item: each field, each fault with its sentence and its place."""

from __future__ import annotations

from typing import Any

import pytest

from ibi.accounts.layout import Form
from ibi.archive.admin.item_form import (
    FIELDS,
    MOST_STATEMENTS,
    PersonRow,
    changes_from_form,
    differences,
    drops_embargo,
    embargo_end,
    iso_date,
    item_from_form,
    people_rows,
    problems_in,
    typed_values,
    values_of,
)
from ibi.archive.model.item import Access, Holding, MetadataValue
from ibi.archive.model.record_values import ADVISER
from ibi.errors import BadItem
from ibi.identifier.forms import IBIForms

ORCID = "0000-0002-1825-0097"


def form(*fields: tuple[str, str]) -> Form:
    return Form(fields)


def held(metadata: dict[str, list[tuple[str, str | None]]] | None = None, **facts: Any) -> Holding:
    statements = {
        name: tuple(MetadataValue(*value) for value in values) for name, values in (metadata or {}).items()
    }
    return Holding(
        forms=IBIForms.parse("rep a.example/b/2013/01.02.00.00"),
        timestamp="2026-09-15T16:40:00Z",
        metadata=statements or None,
        **facts,
    )


def person(
    who: str, family: str, given: str = "", orcid: str = "", role: str = "creator"
) -> tuple[tuple[str, str], ...]:
    return (
        ("who", who),
        ("who.family", family),
        ("who.given", given),
        ("who.orcid", orcid),
        ("who.role", role),
    )


def test_a_whole_form_is_the_json_of_an_item() -> None:
    whole = form(
        ("kind", "article"),
        ("language", "pt"),
        ("language_other", "gn"),
        ("licence", "https://licence.example/by"),
        ("licence_url", ""),
        ("rights", " Keep it whole "),
        ("access", "embargoed"),
        ("embargo", "31/01/2027"),
        ("transferable", "no"),
        ("file_list_public", "yes"),
        ("dc.title", " A title\r\nof two \n"),
        ("dc.title.lang", "en"),
        ("dc.title", "Um título"),
        ("dc.title.lang", ""),
        ("dc.title", " "),
        ("dc.title.lang", "pt"),
        *person("person", "Silva", "Ana", ORCID),
        *person("institution", "Instituto do Mar"),
        *person("person", "Souza", "Rui", role="contributor"),
        *person("person", "Banon", "Gerald", role=ADVISER),
        *person("person", " ", " "),
        ("dc.creator", "Whole, Name"),
        ("dc.date", "12/03/2026"),
        ("source.name", "Revista do Mar"),
        ("source.volume", "12"),
        ("source.number", "3"),
        ("source.pages", "45-67"),
        ("doi", "10.1234/abc"),
        ("issn", "1234-5678"),
        ("isbn", "978-85-1234567-0"),
        ("dc.identifier", "x"),
        ("subjects", "a; b\nc;"),
        ("subjects.lang", "pt"),
        ("dc.subject", "d"),
        ("subtype", "article"),
        ("type_shown", "article"),
        ("type_text", "Journal Article"),
        ("~source.name", "of another kind"),
    )  # fmt: skip
    assert item_from_form(whole) == {
        "language": "gn",
        "access": "embargoed",
        "embargo": "2027-01-31",
        "rights": "Keep it whole",
        "licence": "https://licence.example/by",
        "transferable": False,
        "metadata": {
            "title": [{"value": "A title\nof two", "lang": "en"}, "Um título"],
            "creator": [f"Silva, Ana (https://orcid.org/{ORCID})", "Instituto do Mar", "Whole, Name"],
            "subject": [*({"value": each, "lang": "pt"} for each in "abc"), "d"],
            "contributor": ["Souza, Rui", PersonRow(family="Banon", given="Gerald", role=ADVISER).value],
            "date": ["2026-03-12"],
            "type": ["Journal Article"],
            "identifier": ["10.1234/abc", "ISSN 1234-5678", "ISBN 978-85-1234567-0", "x"],
            "source": ["Revista do Mar, v. 12, n. 3, p. 45-67"],
        },
    }
    assert item_from_form(form()) == {}
    assert item_from_form(form(("access", "open"), ("transferable", "yes"))) == {}
    assert item_from_form(form(("subtype", "review"), ("type_shown", "article"), ("type_text", "x"))) == {
        "metadata": {"type": ["review"]}
    }
    assert item_from_form(form(("licence", "a"), ("licence_url", "b")))["licence"] == "b"


@pytest.mark.parametrize(
    ("access", "embargo", "dropped"),
    [("embargoed", "2027", False), ("", "2027", False), ("open", "2027", True), ("closed", "2027", True),
     ("open", "", False)],
)  # fmt: skip
def test_an_end_of_an_embargo_stays_with_an_embargo_alone(
    access: str, embargo: str, *, dropped: bool
) -> None:
    typed = form(("access", access), ("embargo", embargo))
    assert drops_embargo(typed) is dropped
    kept = bool(embargo) and not dropped
    assert item_from_form(typed).get("embargo") == ("2028-01-01" if kept else None)


@pytest.mark.parametrize(
    ("text", "date", "end"),
    [
        ("12/03/2026", "2026-03-12", "2026-03-12"),
        ("03/2026", "2026-03", "2026-04-01"),
        ("12/2026", "2026-12", "2027-01-01"),
        ("2026", "2026", "2027-01-01"),
        ("2026-11", "2026-11", "2026-12-01"),
        (" 2026-11-30 ", "2026-11-30", "2026-11-30"),
        ("12 de março de 2026", "2026-03-12", "2026-03-12"),
        ("2026 março", "2026 março", "2026 março"),
        ("about 1900", "about 1900", "about 1900"),
        ("2003/2021", "2003/2021", "2003/2021"),
        ("9998", "9998", "9999-01-01"),
        ("9999", "9999", "9999"),
        ("", "", ""),
    ],
)
def test_a_date_may_be_written_as_people_write_it(text: str, date: str, end: str) -> None:
    assert (iso_date(text), embargo_end(text)) == (date, end)


WHOLE = (
    ("kind", "article"), ("dc.title", "x"), ("language", "pt"), ("dc.date", "2026"), ("access", "embargoed"),
    ("embargo", "2027"), ("doi", "10.1234/abc"), ("issn", "1234567X"), ("isbn", "85 1234 567 X"),
    *person("person", "Silva", "Ana", ORCID),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "sentence", "place"),
    [
        ("kind", "", "choose what it is", "kind"),
        ("dc.title", " ", "give it a title", "title"),
        ("language", "", "choose the language of the item", "language"),
        ("dc.date", " ", "give its date; the year is enough", "date"),
        ("dc.date", " 31/02/2026 ", "no calendar has the date 31/02/2026", "date"),
        ("embargo", "soon", "this is no date; write a day, 31/01/2027, a month, 01/2027, or a year", "embargo"),
        ("doi", "11.1234/abc", "a DOI begins with 10. and has a slash, such as 10.1234/abc", "doi"),
        ("issn", "1234-567", "an ISSN has eight characters, such as 2965-0000", "issn"),
        ("issn", "1234-567XX", "an ISSN has eight characters, such as 2965-0000", "issn"),
        ("isbn", "97885123456", "an ISBN has 13 digits, or 10", "isbn"),
        ("isbn", "978851234567X", "an ISBN has 13 digits, or 10", "isbn"),
        ("who.orcid", "0000-0002-1825-0098",
         "0000-0002-1825-0098 is no ORCID iD: it has 16 characters, and the last one checks the others", "who-1-orcid"),
    ],
)  # fmt: skip
def test_each_fault_of_a_form_has_its_sentence_at_its_place(
    name: str, text: str, sentence: str, place: str
) -> None:
    typed = form(*((each, text if each == name else value) for each, value in WHOLE))
    assert [(str(each), each.details["name"]) for each in problems_in(typed, is_new=True)] == [
        (sentence, place)
    ]
    missing = name in {"kind", "dc.title", "language"} or not text.strip()
    assert len([*problems_in(typed, is_new=False)]) == (0 if missing else 1)


@pytest.mark.parametrize(
    "changed",
    [
        {}, {"language": "", "language_other": "gn"}, {"access": "open", "embargo": "soon"},
        {"issn": "1234-5678"}, {"isbn": "9788512345670"}, {"isbn": "978-85-123-4567-0"}, {"dc.date": "about 1900"},
    ],
)  # fmt: skip
def test_a_form_without_faults_has_no_problems(changed: dict[str, str]) -> None:
    typed = form(*({**dict(WHOLE), **changed}).items())
    assert [*map(str, problems_in(typed, is_new=True))] == []


def test_what_another_program_sends_is_not_looked_at() -> None:
    assert [*problems_in(form(("doi", "x"), ("dc.date", "31/02/2026")), is_new=True)] == []


@pytest.mark.parametrize(
    ("text", "role", "row"),
    [
        ("Silva, Ana", "creator", PersonRow(True, "Silva", "Ana")),
        (f"Silva, Ana (https://orcid.org/{ORCID})", "creator", PersonRow(True, "Silva", "Ana", ORCID)),
        ("Instituto do Mar", "creator", PersonRow(False, "Instituto do Mar")),
        (f"Madonna (https://orcid.org/{ORCID})", "creator", PersonRow(True, "Madonna", "", ORCID)),
        ("Silva,", "contributor", PersonRow(False, "Silva,", role="contributor")),
        (", Ana", "contributor", PersonRow(False, ", Ana", role="contributor")),
        ("Banon, Gerald (orientador)", "contributor", PersonRow(True, "Banon", "Gerald", role=ADVISER)),
    ],
)  # fmt: skip
def test_a_name_is_divided_and_stays_as_it_is_while_its_parts_stay(
    text: str, role: str, row: PersonRow
) -> None:
    read = PersonRow.of(text, "pt", role)
    assert read == row._replace(text=text, language="pt")
    assert (read.value, read.element) == (text, role)
    assert not read.is_empty
    assert read._replace(given="Eva").value != text
    assert read._replace(text="Other, Text").value != "Other, Text"


def test_rows_of_people_are_as_many_as_their_first_column() -> None:
    columns = {
        "who": ["person", "institution"],
        "who.family": [" a "],
        "who.given": ["b", "c", "d"],
        "who.lang": ["pt"],
    }
    assert people_rows(lambda name: columns.get(name, [])) == [
        PersonRow(True, "a", "b", language="pt"), PersonRow(False, "", "c"),
    ]  # fmt: skip
    assert PersonRow().is_empty
    assert not PersonRow(orcid="x").is_empty
    assert not PersonRow(given="x").is_empty


ITEM = held(
    {
        "title": [(" A title ", "en")],
        "creator": [("Silva, Ana", None)],
        "subject": [("a;b", "pt"), ("c", None)],
        "date": [("12/03/2026", None)],
        "identifier": [("x", None), ("10.1234/abc", None)],
    },
    language="pt",
    access=Access.CLOSED,
    transferable=False,
    rights="Some",
)
SAME = (
    ("language", "pt"), ("access", "closed"), ("transferable", "no"), ("file_list_public", "yes"), ("rights", "Some"),
    ("dc.title", "A title"), ("dc.title.lang", "en"), *person("person", "Silva", "Ana"),
    ("subjects", "a"), ("subjects.lang", "pt"), ("subjects", "b"), ("subjects.lang", "pt"), ("dc.subject", "c"),
    ("dc.date", "2026-03-12"), ("doi", "10.1234/abc"), ("dc.identifier", "x"),
)  # fmt: skip


def test_a_form_that_says_the_same_in_another_way_changes_nothing() -> None:
    assert changes_from_form(form(*SAME), ITEM) == {}
    assert differences(form(*SAME), ITEM) == {}
    dated = held({"date": [("13/03/2026", "pt")]})
    typed = form(("dc.date", "2026-03-13"), ("dc.date.lang", "pt"))
    assert "date" not in changes_from_form(typed, dated).get("metadata", {})


@pytest.mark.parametrize(
    ("name", "text", "changes", "present"),
    [
        ("language", "en", {"language": "en"}, {"language": "pt"}),
        ("rights", "", {"rights": None}, {"rights": "Some"}),
        ("transferable", "yes", {"transferable": None}, {"transferable": "no"}),
        ("file_list_public", "no", {"file_list_public": False}, {"file_list_public": "yes"}),
        ("access", "open", {"access": None}, {"access": "closed"}),
        ("dc.title", "Another", {"metadata": {"title": [{"value": "Another", "lang": "en"}]}},
         {"dc.title": " A title "}),
        ("dc.date", "2026", {"metadata": {"date": ["2026"]}}, {"dc.date": "12/03/2026"}),
        ("dc.identifier", "y", {"metadata": {"identifier": ["10.1234/abc", "y"]}}, {"dc.identifier": "x; 10.1234/abc"}),
        ("dc.identifier", "", {"metadata": {"identifier": ["10.1234/abc"]}}, {"dc.identifier": "x; 10.1234/abc"}),
        ("dc.subject", "d", {"metadata": {"subject": [
            {"value": "a", "lang": "pt"}, {"value": "b", "lang": "pt"}, "d",
        ]}}, {"dc.subject": "a;b; c"}),
    ],
)  # fmt: skip
def test_a_change_is_told_with_what_the_item_has_now(
    name: str, text: str, changes: dict[str, Any], present: dict[str, str]
) -> None:
    typed = form(*((each, text if each == name else value) for each, value in SAME))
    found = changes_from_form(typed, ITEM)
    if "metadata" in changes:
        assert list(found) == ["metadata"]
        assert {each: found["metadata"][each] for each in changes["metadata"]} == changes["metadata"]
        assert found["metadata"]["creator"] == ["Silva, Ana"]
    else:
        assert found == changes
    assert differences(typed, ITEM) == present


def test_a_form_without_any_metadata_takes_them_away() -> None:
    assert changes_from_form(form(("dc.title", "")), held({"title": [("x", None)]})) == {"metadata": None}
    assert differences(form(), held({"title": [("x", None)]})) == {"dc.title": "x"}
    assert changes_from_form(form(("dc.title", "y")), held()) == {"metadata": {"title": ["y"]}}
    assert set(FIELDS) >= {"access", "embargo", "language", "licence", "rights", "transferable", "metadata"}


def test_an_item_is_shown_in_its_form() -> None:
    shown = values_of(ITEM)
    assert {name: rows for name, rows in shown.items() if rows != [("", "")]} == {
        "contenttype": [("Data", "")],
        "language": [("pt", "")],
        "access": [("closed", "")],
        "rights": [("Some", "")],
        "transferable": [("no", "")],
        "file_list_public": [("yes", "")],
        "dc.title": [(" A title ", "en")],
        "dc.creator": [("Silva, Ana", "")],
        "dc.subject": [("a;b", "pt"), ("c", "")],
        "dc.date": [("12/03/2026", "")],
        "dc.identifier": [("x", ""), ("10.1234/abc", "")],
    }
    assert values_of(held())["access"] == [("open", "")]
    left = values_of(ITEM, leaving=["access", "title", "language"])
    assert not {"access", "dc.title", "language"} & left.keys()
    assert "rights" in left


def test_a_form_has_so_many_statements_and_no_more() -> None:
    def many(number: int) -> Holding:
        return held({"subject": [(str(each), None) for each in range(number)], "title": [("x", None)]})

    assert len(values_of(many(MOST_STATEMENTS - 1))["dc.subject"]) == MOST_STATEMENTS - 1
    with pytest.raises(BadItem) as caught:
        values_of(many(MOST_STATEMENTS))
    assert str(caught.value) == (
        "so many statements are too many for a form; use the command: ibi archive edit"
    )


def test_what_was_typed_is_shown_again() -> None:
    typed = form(
        ("access", " open "), ("dc.title", "a"), ("dc.title.lang", "pt"), ("dc.title", ""), ("dc.title.lang", ""),
        ("dc.title", ""), ("dc.title.lang", "en"), ("dc.date", "12/03/2026"), ("subjects", "a; b"), ("subjects", ""),
        ("kind", "book"), ("~isbn", "1"), ("~isbn", "2"),
    )  # fmt: skip
    shown = typed_values(typed)
    assert shown["access"] == [("open", "")]
    assert shown["dc.title"] == [("a", "pt"), ("", "en")]
    assert shown["dc.date"] == [("2026-03-12", "")]
    assert shown["dc.creator"] == []
    assert shown["subjects"] == [("a; b", "")]
    assert shown["kind"] == [("book", "")]
    assert shown["~isbn"] == [("1", ""), ("2", "")]
    assert shown["rights"] == [("", "")]
