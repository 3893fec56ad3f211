"""The values of the form of an item, whole: of an item that is edited, of a new one, after each step of the form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ibi.archive.admin.item_form import MOST_PEOPLE, PersonRow
from ibi.archive.admin.item_pages import ItemFormPage
from ibi.archive.admin.kept_files import MOST_KEPT, KeptFile
from ibi.archive.model.item import StoredFile
from ibi.web.administration.deposit_form import (
    ACCESS_NAMES,
    DEPOSIT_KIND_NAMES,
    DEPOSIT_KINDS,
    ITEM_LANGUAGES,
    LICENCES,
    PARTS,
    DepositKind,
    field_of,
    type_name,
    values,
)

ARTICLE: Mapping[str, Any] = {
    "dc.title": [("Água", "pt"), ("Water", "en")],
    "dc.creator": [("Silva, Ana (https://orcid.org/0000-0002-1825-0097)", ""), ("Instituto do Mar", "")],
    "dc.contributor": [("Banon, Gerald (orientador)", "")],
    "dc.type": [("article", ""), ("second", "")],
    "dc.date": [("2026-03-12", ""), ("2026-03", ""), ("2026", ""), ("spring", "en")],
    "dc.source": [("Revista do Mar, v. 12, n. 3, p. 45-67", ""), ("other", "")],
    "dc.identifier": [("x", ""), ("ISSN 1234-5678", ""), ("10.1234/abc", "en"), ("10.1234/abc", "")],
    "dc.subject": [("names", "en"), ("links", "en"), ("nomes", "pt")],
    "dc.description": [("Rivers", "qu")],
    "dc.coverage": [("Amazônia", "")],
    "language": [("pt", "")],
    "embargo": [("2031-01-31", "")],
    "licence": [("https://licence.example/", "")],
    "isbn": [("978-3", "")],
}
ADA = PersonRow(
    True, "Silva", "Ana", "0000-0002-1825-0097", text="Silva, Ana (https://orcid.org/0000-0002-1825-0097)"
)
SEA = PersonRow(False, "Instituto do Mar", text="Instituto do Mar")
RUI = PersonRow(True, "Banon", "Gerald", role="adviser", text="Banon, Gerald (orientador)")
ALWAYS = {
    "kinds": DEPOSIT_KIND_NAMES, "licence_words": LICENCES, "access_names": ACCESS_NAMES, "part_names": PARTS,
    "most_kept": MOST_KEPT,
}  # fmt: skip


def shown(page: ItemFormPage, language: str = "en") -> dict[str, Any]:
    """The values of a page, without those that are always the same and without what names languages."""
    found = values(page, language)
    assert {name: found.pop(name) for name in ALWAYS} == ALWAYS
    tongues = found.pop("tongues")
    assert [tag for tag, _ in tongues][: len(ITEM_LANGUAGES)] == [*ITEM_LANGUAGES]
    return {**found, "more": tongues[len(ITEM_LANGUAGES) :], "rows": found["rows"]("title")}


def test_an_item_that_is_edited_is_in_the_fields_of_its_kind() -> None:
    assert shown(ItemFormPage(ARTICLE, "edit", theirs={"dc.rights": "x"})) == {
        "kind": "article",
        "shown": DEPOSIT_KINDS["article"],
        "people": [ADA, SEA, RUI],
        "source": [
            ("name", "Journal or proceedings", "Revista do Mar"),
            ("volume", "Volume", "12"),
            ("number", "Number", "3"),
            ("pages", "Pages", "45-67"),
        ],
        "numbers": [("doi", "DOI, if it has one", "10.1234/abc"), ("issn", "ISSN", "1234-5678")],
        "parked": [("~isbn", "978-3")],
        "own": [],
        "dates": [
            ("2026-03-12", "", "March 12, 2026"), ("2026-03", "", "Mar 2026"), ("2026", "", ""), ("spring", "en", ""),
        ],
        "subjects": [("names; links", "en"), ("nomes", "pt")],
        "rest": ["identifier", "source", "coverage", "rights"],
        "absent": ["publisher", "format", "language", "relation"],
        "rows": [("Água", "pt"), ("Water", "en")],
        "more": [("qu", "Quechua")],
        "proposed": "pt",
        "embargo": "2031-01-31",
        "opening": "January 31, 2031",
        "focus": "",
        "fresh": "",
        "filled": {"kind", "people", "publication", "description", "rules"},
        "types": ["second"],
        "chosen": "article",
        "type_text": "article",
        "type_shown": "article",
        "type_other": "",
        "type_options": [
            ("article", "Article in a journal"), ("conference paper", "Paper of a conference"),
            ("preprint", "Preprint"),
        ],
    }  # fmt: skip


def test_another_kind_has_other_fields_and_loses_nothing() -> None:
    found = shown(ItemFormPage({**ARTICLE, "kind": [("article", "")]}, step="kind:book"), "pt-BR")
    assert {name: found[name] for name in ("kind", "source", "numbers", "own", "parked", "rest", "chosen")} == {
        "kind": "book",
        "source": [
            ("name", "Title of the whole book, for a chapter", "Revista do Mar"), ("volume", "", "12"),
            ("number", "", "3"), ("pages", "Pages", "45-67"),
        ],
        "numbers": [("isbn", "ISBN", "978-3"), ("doi", "DOI, if it has one", "10.1234/abc")],
        "own": [("publisher", "Publisher of the book", "")],
        "parked": [],
        "rest": ["identifier", "source", "coverage"],
        "chosen": "book",
    }  # fmt: skip
    assert found["dates"][:2] == [("12/03/2026", "", "12 de março de 2026"), ("03/2026", "", "mar. de 2026")]
    assert (found["embargo"], found["opening"], found["focus"], found["fresh"]) == (
        "31/01/2031", "31 de janeiro de 2031", "kind", "",
    )  # fmt: skip
    data = shown(ItemFormPage({**ARTICLE, "kind": [("dataset", "")], "source.volume": [("9", "")]}))
    assert data["source"] == []
    assert data["parked"] == [("~source.volume", "9"), ("~isbn", "978-3")]
    assert data["own"] == [
        (
            "coverage",
            "Period and place of the data",
            "Such as 2003/2021, or the name of a valley; each in a field of its own.",
        ),
        ("relation", "Related article", "Its persistent link, or its DOI."),
    ]
    again = shown(
        ItemFormPage({"kind": [("article", "")], "~source.volume": [("9", "")], "~issn": [("1", "")]})
    )
    assert (again["source"][1], again["numbers"][1], again["parked"]) == (
        ("volume", "Volume", "9"), ("issn", "ISSN", "1"), [],
    )  # fmt: skip


def test_a_new_item_has_an_empty_form_in_the_language_of_the_page() -> None:
    assert shown(ItemFormPage({}), "pt-BR") == {
        "kind": "", "shown": DepositKind(), "people": [PersonRow()], "source": [],
        "numbers": [("doi", "DOI, if it has one", "")], "parked": [], "own": [], "dates": [("", "", "")],
        "subjects": [("", "")], "rest": [],
        "absent": ["publisher", "format", "identifier", "source", "language", "relation", "coverage", "rights"],
        "rows": [("", "")], "more": [], "proposed": "pt", "embargo": "", "opening": "", "focus": "", "fresh": "pt",
        "filled": set(), "types": [], "chosen": "", "type_text": "", "type_shown": "", "type_other": "",
        "type_options": [],
    }  # fmt: skip


@pytest.mark.parametrize("step", ["kind:nothing", "kind:", "row:book", "book", "up:1"])
def test_no_other_step_chooses_a_kind(step: str) -> None:
    assert shown(ItemFormPage({"kind": [("article", "")]}, step=step))["kind"] == "article"


@pytest.mark.parametrize(
    ("place", "step", "language", "fresh", "proposed"),
    [
        ("", "", "", "en", "en"), ("edition_of", "", "", "en", "en"), ("edition_of", "", "de", "de", "de"),
        ("translation_of", "", "", "", ""), ("edit", "", "", "", ""), ("", "person", "", "", ""),
        ("", "person", "de", "", "de"),
    ],
)  # fmt: skip
def test_the_language_of_a_new_item_is_proposed(
    place: str, step: str, language: str, fresh: str, proposed: str
) -> None:
    found = shown(ItemFormPage({"language": [(language, "")] if language else []}, place, step=step))
    assert (found["fresh"], found["proposed"]) == (fresh, proposed)


@pytest.mark.parametrize(
    ("source", "parts", "rest"),
    [
        ([("Mar, v. 1", "en")], ["", "", "", ""], True),
        ([("Mar v1", "")], ["Mar v1", "", "", ""], False),
        ([("Mar, v. 1", ""), ("b", "")], ["Mar", "1", "", ""], True),
    ],
)
def test_a_source_is_divided_where_its_parts_give_it_again(source: Any, parts: Any, rest: Any) -> None:
    found = shown(ItemFormPage({"kind": [("article", "")], "dc.source": source}))
    assert [value for *_, value in found["source"]] == parts
    assert ("source" in found["rest"]) is rest
    typed = shown(ItemFormPage({"kind": [("article", "")], "dc.source": source, "source.pages": [("7", "")]}))
    assert ([value for *_, value in typed["source"]], "source" in typed["rest"]) == (["", "", "", "7"], True)


def test_numbers_are_found_among_identifiers_unless_they_were_typed() -> None:
    identifiers = [("ISBN 1", "en"), ("ISBN 2", ""), ("ISBN 3", ""), ("ISBN", ""), ("10.1/x y", "")]
    found = shown(ItemFormPage({"kind": [("book", "")], "dc.identifier": identifiers}))
    assert [value for *_, value in found["numbers"]] == ["2", ""]
    found = shown(
        ItemFormPage({"kind": [("book", "")], "dc.identifier": [("ISBN 2", "")], "isbn": [("5", "")]})
    )
    assert [value for *_, value in found["numbers"]] == ["5", ""]
    assert found["rest"] == ["identifier"]
    taken = shown(ItemFormPage({"kind": [("book", "")], "dc.identifier": [("ISBN 2", "")]}))
    assert (taken["rest"], taken["numbers"][0]) == ([], ("isbn", "ISBN", "2"))


def people(step: str, *names: str) -> list[str]:
    given = {"dc.creator": [(name, "") for name in names or ("A, a", "B, b", "C, c")]}
    return [each.family for each in shown(ItemFormPage(given, "edit", step=step))["people"]]


@pytest.mark.parametrize(
    ("step", "rows"),
    [
        ("", "ABC"), ("up:1", "ABC"), ("up:2", "BAC"), ("up:3", "ACB"), ("up:4", "ABC"), ("up:0", "ABC"),
        ("up:x", "ABC"), ("up:0002", "ABC"), ("up:002", "BAC"), ("up:", "ABC"), ("remove:1", "BC"), ("remove:3", "AB"),
        ("remove:4", "ABC"), ("remove:0", "ABC"), ("down:2", "ABC"), ("row:title", "ABC"),
    ],
)  # fmt: skip
def test_people_are_moved_and_removed_by_a_step(step: str, rows: str) -> None:
    assert people(step) == [*rows]


def test_people_are_added_by_a_step_and_there_is_always_one_row() -> None:
    assert people("person") == ["A", "B", "C", ""]
    for step, is_person in (("person", True), ("institution", False)):
        page = ItemFormPage({"dc.creator": [("A, a", "")]}, step=step)
        assert shown(page)["people"][1:] == [PersonRow(is_person=is_person)]
        assert shown(page)["focus"] == step
    assert people("remove:1", "A, a") == [""]


@pytest.mark.parametrize(("count", "others", "in_rows"), [
    (MOST_PEOPLE, 0, True), (MOST_PEOPLE + 1, 0, False), (1, 599, True), (1, 600, False), (2, 599, False),
])  # fmt: skip
def test_so_many_people_have_rows_of_their_own(count: int, others: int, *, in_rows: bool) -> None:
    given = {
        "dc.creator": [(f"A{number}, a", "") for number in range(count)], "dc.format": [("x", "")] * others,
        "language": [("x", "")] * 900,
    }  # fmt: skip
    found = shown(ItemFormPage(given, "edit"))["people"]
    assert (found is not None) is in_rows
    assert not in_rows or len(found) == count


def test_a_step_adds_one_row_to_its_field() -> None:
    page = ItemFormPage(
        {"dc.title": [("a", "pt")], "dc.subject": [("b", "")], "subjects": [("c", "")]}, step="row:title"
    )
    found = shown(page)
    assert (found["rows"], found["subjects"], found["focus"]) == (
        [("a", "pt"), ("", "")],
        [("c; b", "")],
        "row title",
    )
    found = shown(ItemFormPage({"dc.subject": [("b", "")]}, step="row:subjects"))
    assert (found["subjects"], found["focus"]) == ([("b", ""), ("", "")], "row subjects")
    found = shown(ItemFormPage({}, step="row:date"))
    assert found["dates"] == [("", "", "")]
    found = shown(ItemFormPage({}, step="row:format"))
    assert (found["rest"], "format" in found["absent"]) == (["format"], False)
    for step in ("files", "drop:1"):
        assert shown(ItemFormPage({}, step=step))["focus"] == "file"


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"dc.title": [("a", "")], "kind": [("book", "")]}, {"kind"}), ({"dc.title": [("a", "")]}, set()),
        ({"kind": [("book", "")]}, set()), ({"who.family": [("", ""), ("a", "")]}, {"people"}),
        ({"dc.contributor": [("a", "")]}, {"people"}), ({"dc.date": [("a", "")]}, {"publication"}),
        ({"subjects": [("a", "")]}, {"description"}), ({"rights": [("a", "")]}, {"rules"}),
        ({"licence_url": [("a", "")]}, {"rules"}), ({"dc.rights": [("a", "")]}, set()),
    ],
)  # fmt: skip
def test_a_part_is_filled_where_its_most_important_fields_are(given: Any, part: set[str]) -> None:
    assert shown(ItemFormPage(given))["filled"] == part
    with_file = ItemFormPage(given, files=[KeptFile("id", StoredFile("a.pdf", 1, "", "application/pdf"))])
    assert shown(with_file)["filled"] == part | {"files"}


def test_types_and_fields_have_names() -> None:
    named = [type_name(each) for each in ("book", "thesis", "other", "weblog", "")]
    assert named == ["Whole book", "Thesis or dissertation", "Other type", "weblog", ""]
    fields = ["kind", "file", "doi", "issn", "isbn", "who-1", "who", "title"]
    assert [field_of(each) for each in fields] == [*fields[:6], "", ""]
