"""The form of a deposit step by step, as a browser without scripts sends it, and what the fields become."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from ibi.accounts.layout import Form
from ibi.archive.admin import kept_files
from ibi.archive.admin.item_form import (
    PersonRow,
    changes_from_form,
    drops_embargo,
    iso_date,
    item_from_form,
    typed_values,
    values_of,
)
from ibi.archive.admin.item_pages import ItemFormPage
from ibi.archive.admin.kept_files import MOST_KEPT
from ibi.archive.api import uploads
from ibi.archive.model.item import Holding
from ibi.archive.model.item_json import read_facts
from ibi.identifier.forms import IBIForms
from ibi.web.administration import deposit_form
from ibi.web.assets import assets
from support.archive.administration_fixture import (
    PASSWORD,
    AdministeredArchive,
    Librarian,
    administered_archive,
)
from support.archive.archive_fixture import Answer
from support.checks.full_disk import files_of_at_most

NAME = "rep archive.example/w/2022/01.01.00.00"
ORCID = "0000-0002-1825-0097"
DEPOSIT = "/-/admin/deposit"
ARTICLE = (
    ("kind", "article"), ("subtype", "article"), ("dc.title", "Água"), ("dc.title.lang", "pt"), ("language", "pt"),
    ("dc.date", "12/03/2026"),
)  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdministeredArchive]:
    with administered_archive(tmp_path_factory.mktemp("forms"), largest_upload=5_000_000) as made:
        yield made


@pytest.fixture
def maria(served: AdministeredArchive) -> Librarian:
    return served.new_browser("maria")


def send(
    librarian: Librarian,
    *fields: tuple[str, str],
    files: tuple[tuple[str, bytes], ...] = (),
    after: tuple[tuple[str, str], ...] = (),
    language: str = "en",
) -> Answer:
    """Send the form of a deposit, with fields before and `after` its files, and keep the page that comes."""
    before, behind = ([(name, None, text.encode()) for name, text in each] for each in (fields, after))
    files_sent = [("file", name, body) for name, body in files]
    answer = librarian.send_files(DEPOSIT, *before, *files_sent, *behind, accept_language=language)
    if answer.status in {200, 422, 507}:
        librarian.page = answer
    return answer


def fields_of(page: Answer, path: str = DEPOSIT) -> list[tuple[str, str]]:
    """What a browser would send of the form of a page: hidden fields, texts, and what is chosen."""
    form = re.search(rf'<form[^>]*action="{path}".*?</form>', page.text, re.DOTALL)
    assert form
    found: list[tuple[str, str]] = []
    for tag in re.finditer(
        r"<(?P<what>input|select|textarea)(?P<attributes>[^>]*)>(?P<rest>[^<]*(?:<option.*?</select>)?)",
        form[0],
        re.DOTALL,
    ):
        attributes = dict(re.findall(r'([\w-]+)="([^"]*)"', tag["attributes"]))
        text = attributes.get("value", "")
        if tag["what"] == "select":
            chosen = re.search(r'value="([^"]*)" selected', tag["rest"])
            text = chosen[1] if chosen else re.findall(r'value="([^"]*)"', tag["rest"])[0]
        elif tag["what"] == "textarea":
            text = tag["rest"].removeprefix("\n")
        elif attributes.get("type") == "file" or (
            attributes.get("type") == "radio" and not re.search(r"\bchecked\b", tag["attributes"])
        ):
            continue
        if attributes.get("name", "form_token") != "form_token":
            found.append((unescape(attributes["name"]), unescape(text)))
    return found


def item(librarian: Librarian, answer: Answer) -> dict[str, Any]:
    """What the JSON interface shows of an item that was deposited."""
    assert answer.status == 303, answer.text
    name = answer.headers["location"].removeprefix("/-/admin/items/").partition("?")[0]
    value: dict[str, Any] = json.loads(librarian.ask("GET", f"/-/api/items/{name}").body)
    return value


def holding_of(metadata: dict[str, Any], **more: Any) -> Holding:
    facts = read_facts({"metadata": metadata, **more})
    return Holding(forms=IBIForms.parse(NAME), timestamp="2022-01-01T00:00:00Z", **facts)


def sent_back(holding: Holding, step: str = "", language: str = "en") -> Form:
    """The form of an item as it comes back if nothing is changed in it."""
    page = ItemFormPage(values_of(holding), "edit", holding, step=step)
    shown = deposit_form.values(page, language)
    fields = [(name, text) for name, rows in page.values.items() if "dc." not in name for text, _ in rows]
    fields += [
        ("kind", shown["kind"]),
        ("type_text", shown["type_text"]),
        ("type_shown", shown["type_shown"]),
    ]
    fields += [("subtype", shown["chosen"])] if shown["kind"] not in {"", "other"} else []
    fields += [("dc.type", text) for text in shown["types"]]
    for person in shown["people"]:
        who = ("person" if person.is_person else "body", *person[1:])
        names = ("who", "who.family", "who.given", "who.orcid", "who.role", "who.text", "who.lang")
        fields += zip(names, who, strict=True)
    fields += [(f"source.{part}", text) for part, _, text in shown["source"]]
    fields += [(name, text) for name, _, text in shown["numbers"]]
    for text, tag in shown["subjects"]:
        fields += [("subjects", text), ("subjects.lang", tag)]
    for text, tag, _ in shown["dates"]:
        fields += [("dc.date", text), ("dc.date.lang", tag)]
    for element in ("title", "description", *(name for name, _, _ in shown["own"]), *shown["rest"]):
        for text, tag in shown["rows"](element):
            fields += [(f"dc.{element}", text), (f"dc.{element}.lang", tag)]
    return Form(fields)


@pytest.mark.parametrize("language", ["en", "pt-BR"])
@pytest.mark.parametrize(
    "metadata",
    [
        {"title": ["T"], "type": ["Artigo", "second"], "source": ["Revista, v. 1, n. 2, p. 3-4", "other"]},
        {"type": ["score"], "source": ["Revista, v. 1"], "identifier": ["ISSN 2965-0000", "10.1234/abc"]},
        {"type": ["article"], "identifier": ["x", "https://doi.org/10.1234/abc", "ISSN 2965-0000"]},
        {"creator": ["Silva, Maria da", "INPE", f"Lima, J. [ORCID: {ORCID}]"], "contributor": ["Reis, T."]},
        {"date": ["2026-03-12", "12/03/2026", "about 1900", "2003/2021", "2026-03"]},
        {"subject": [{"value": "a", "lang": "pt"}, "b; c", {"value": "d", "lang": "pt"}, "e"]},
        {"type": ["master thesis"], "publisher": ["INPE", "second"], "coverage": ["1999"]},
        {"type": ["report"], "source": ["Série, v. 2, n. 3"]},
        {"description": ["two\nlines"], "creator": [{"value": "Silva, M.", "lang": "pt"}], "rights": ["r"]},
    ],
)
def test_a_form_in_which_nothing_was_changed_changes_nothing(metadata: dict[str, Any], language: str) -> None:
    holding = holding_of(metadata, target="", language="pt")
    assert changes_from_form(sent_back(holding, language=language), holding) == {}


def test_the_file_that_is_shown_first_stays_through_an_edit(maria: Librarian) -> None:
    maria.look(DEPOSIT)
    files = (("a.txt", b"a"), ("b.txt", b"b"))
    answer = send(maria, ("dc.title", "T"), ("target", "b.txt"), files=files)
    name = answer.headers["location"].removeprefix("/-/admin/items/").partition("?")[0]
    assert 'name="target" value="b.txt"' in maria.look(f"/-/admin/edit/{name}").text


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("12/03/2026", "2026-03-12"), ("1.3.2026", "2026-03-01"), ("03/2026", "2026-03"), ("2026", "2026"),
        ("2026-03-12", "2026-03-12"), ("12 de março de 2026", "2026-03-12"), ("março de 2026", "2026-03"),
        ("31/02/2026", "31/02/2026"), ("about 1900", "about 1900"), ("2003/2021", "2003/2021"), ("", ""),
    ],
)  # fmt: skip
def test_dates_are_read_as_people_write_them(typed: str, kept: str) -> None:
    assert iso_date(typed) == kept


@pytest.mark.parametrize(
    ("row", "value"),
    [
        (PersonRow(family="Silva", given="Maria"), "Silva, Maria"),
        (PersonRow(family="Silva", given="Maria", orcid=ORCID), f"Silva, Maria (https://orcid.org/{ORCID})"),
        (PersonRow(family="S", orcid=f"https://orcid.org/{ORCID}"), f"S (https://orcid.org/{ORCID})"),
        (PersonRow(is_person=False, family="INPE"), "INPE"),
        (PersonRow.of(f"Silva, M. [ORCID: {ORCID}]"), f"Silva, M. [ORCID: {ORCID}]"),
        (PersonRow.of("Silva, M.")._replace(given="Maria"), "Silva, Maria"),
    ],
)
def test_a_row_of_people_becomes_one_value(row: PersonRow, value: str) -> None:
    assert row.value == value


def test_the_fields_of_a_kind_become_dublin_core() -> None:
    form = Form(
        [
            *ARTICLE, ("source.name", "Revista"), ("source.volume", "14"), ("source.number", "2"),
            ("source.pages", "115 – 138"), ("doi", "10.5555/x"), ("issn", "2965-0000"), ("subjects", "a; b;"),
            ("subjects.lang", "pt"), ("~isbn", "of another kind"), ("type_other", "of another kind"),
        ]
    )  # fmt: skip
    assert item_from_form(form)["metadata"] == {
        "title": [{"value": "Água", "lang": "pt"}],
        "subject": [{"value": "a", "lang": "pt"}, {"value": "b", "lang": "pt"}],
        "date": ["2026-03-12"],
        "type": ["article"],
        "identifier": ["10.5555/x", "ISSN 2965-0000"],
        "source": ["Revista, v. 14, n. 2, p. 115-138"],
    }


def test_what_was_typed_for_one_kind_comes_back_with_it() -> None:
    typed = Form([*ARTICLE, ("source.name", "Revista"), ("issn", "2965-0000"), ("step", "kind:thesis")])
    as_thesis = deposit_form.values(ItemFormPage(typed_values(typed), step="kind:thesis"), "en")
    assert (as_thesis["kind"], as_thesis["chosen"], as_thesis["source"]) == ("thesis", "doctoral thesis", [])
    assert as_thesis["parked"] == [("~source.name", "Revista"), ("~issn", "2965-0000")]
    again = Form([("kind", "thesis"), *as_thesis["parked"]])
    as_article = deposit_form.values(ItemFormPage(typed_values(again), step="kind:article"), "en")
    assert as_article["source"][0][2] == "Revista"
    assert {name: text for name, _, text in as_article["numbers"]}["issn"] == "2965-0000"


def test_a_type_in_own_words_waits_while_another_kind_is_chosen() -> None:
    other = Form([("kind", "other"), ("dc.type", "score")])
    as_map = deposit_form.values(ItemFormPage(typed_values(other), step="kind:map"), "en")
    assert (as_map["types"], as_map["type_other"], as_map["chosen"]) == ([], "score", "map")
    back = Form([("kind", "map"), ("subtype", "map"), ("type_other", "score")])
    as_other = deposit_form.values(ItemFormPage(typed_values(back), step="kind:other"), "en")
    assert as_other["types"] == ["score"]
    several = Form([("kind", "other"), *(("dc.type", text) for text in ("score", "tune", "song"))])
    as_map = deposit_form.values(ItemFormPage(typed_values(several), step="kind:map"), "en")
    assert (as_map["types"], as_map["type_other"]) == (["tune", "song"], "score")


def test_the_end_of_an_embargo_counts_only_with_an_embargo(maria: Librarian) -> None:
    form = Form([("access", "open"), ("embargo", "31/01/2999")])
    assert drops_embargo(form)
    assert "embargo" not in item_from_form(form)
    form = Form([("access", "embargoed"), ("embargo", "31/01/2999")])
    assert item_from_form(form) == {"access": "embargoed", "embargo": "2999-01-31"}
    maria.look(DEPOSIT)
    answer = send(maria, *ARTICLE, ("access", "open"), ("embargo", "31/01/2999"))
    assert "without the end of an embargo" in maria.gone_to(answer).text


@pytest.mark.parametrize(
    ("typed", "opens"),
    [
        ("2027", "2028-01-01"),
        ("03/2027", "2027-04-01"),
        ("2027-12", "2028-01-01"),
        ("31/01/2027", "2027-01-31"),
        ("março de 2027", "2027-04-01"),
        ("9999", "9999"),
        ("soon", "soon"),
    ],
)
def test_an_embargo_until_a_month_or_a_year_lasts_to_its_end(typed: str, opens: str) -> None:
    form = Form([("access", "embargoed"), ("embargo", typed)])
    assert item_from_form(form)["embargo"] == opens


def test_the_end_of_an_embargo_is_read_back_in_words_and_a_wrong_one_is_explained(maria: Librarian) -> None:
    shown = ItemFormPage(typed_values(Form([("kind", "article"), ("embargo", "2027")])))
    assert deposit_form.values(shown, "pt-BR")["opening"] == "1 de janeiro de 2028"
    maria.look(DEPOSIT)
    page = send(maria, *ARTICLE, ("access", "embargoed"), ("embargo", "31/02/2999"))
    assert "write a day, 31/01/2027, a month, 01/2027, or a year" in page.text
    assert "2027-01-31" not in page.text


def test_all_that_is_missing_is_named_at_once_with_links(maria: Librarian) -> None:
    maria.look(DEPOSIT)
    page = send(
        maria, ("kind", ""), ("dc.title", ""), ("who", "person"), ("who.orcid", "0000-0002-1825-0098")
    )
    assert page.status == 422
    for field in ("kind", "dc.title", "language", "dc.date", "who-1-orcid"):
        assert f'href="#{field}"' in page.text, field
        assert f'id="fault-{field}"' in page.text, field
        assert f'id="{field}"' in page.text, field


@pytest.mark.parametrize(
    ("field", "text"),
    [("dc.date", "31/02/2026"), ("doi", "no DOI"), ("issn", "12"), ("isbn", "12"), ("dc.date", "13/2026")],
)
def test_what_cannot_be_is_refused_at_its_field_and_stays_there(
    maria: Librarian, field: str, text: str
) -> None:
    maria.look(DEPOSIT)
    kind = (("kind", "book"), ("subtype", "book")) if field == "isbn" else ARTICLE[:2]
    page = send(maria, *kind, *(pair for pair in ARTICLE[2:] if pair[0] != field), (field, text), *(
        [("dc.date", "2026")] if field != "dc.date" else []
    ))  # fmt: skip
    assert page.status == 422
    assert f'href="#{field}"' in page.text
    assert f'value="{text}"' in page.text
    assert 'aria-invalid="true"' in page.text


def test_each_step_keeps_what_was_typed_and_received(maria: Librarian) -> None:
    maria.look(DEPOSIT)
    page = send(maria, *ARTICLE, ("step", "files"), files=(("São José.txt", b"first"), ("b.txt", b"second")))
    assert page.status == 200
    assert "São José.txt" in page.text
    for step in ("kind:thesis", "person", "institution", "row:title", "row:subjects", "kind:article", "up:2"):
        typed = [pair for pair in fields_of(page) if pair[0] != "step"]
        page = send(maria, *typed, ("step", step))
        assert page.status == 200, step
        assert page.text.count('name="upload"') == 2, step
        assert 'value="Água"' in page.text, step
    assert page.text.count('name="who"') == 3
    assert page.text.count('name="dc.title"') == 1  # an empty row is for one answer only
    typed = [pair for pair in fields_of(page) if pair[0] not in {"target", "step"}]
    answer = send(maria, *typed, ("target", "b.txt"))
    shown = item(maria, answer)
    assert {name: each["size"] for name, each in shown["files"].items()} == {
        "S%C3%A3o%20Jos%C3%A9.txt": 5,
        "b.txt": 6,
    }
    assert shown["target"] == "b.txt"
    assert shown["metadata"]["type"] == ["article"]


def test_files_survive_an_error_are_replaced_and_removed(maria: Librarian) -> None:
    maria.look(DEPOSIT)
    files = (("a.txt", b"old"), ("b.txt", b"b"))
    page = send(maria, *ARTICLE[:-1], ("dc.date", "31/02/2026"), files=files)
    assert page.status == 422
    typed = [pair for pair in fields_of(page) if pair[0] != "dc.date"]
    [b] = [text for name, text in typed if name == "upload" and text.endswith(" b.txt")]
    page = send(maria, *typed, ("step", f"drop:{b}"), files=(("a.txt", b"newer"),))
    assert "b.txt" not in page.text
    typed = [pair for pair in fields_of(page) if pair[0] not in {"dc.date", "step", "target"}]
    page = send(maria, *typed, ("step", f"drop:{b}"))  # the button was pressed twice
    assert page.status == 200
    # The file that was to open first is no longer there.
    shown = item(maria, send(maria, *typed, ("dc.date", "2026"), ("target", "b.txt")))
    assert {name: each["size"] for name, each in shown["files"].items()} == {"a.txt": 5}
    assert shown.get("target", "a.txt") == "a.txt"


def test_of_two_errors_the_first_one_is_shown(maria: Librarian, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_files, "MOST_KEPT", 1)
    maria.look(DEPOSIT)
    files = (("a.txt", b"a"), ("b.txt", b"b"))
    page = send(maria, *ARTICLE[:-1], ("dc.date", "31/02/2026"), files=files)
    assert page.status == 422
    assert 'href="#dc.date"' in page.text
    assert "at most 1 files can wait" not in page.text


def test_a_full_disk_loses_nothing_that_was_typed(served: AdministeredArchive, maria: Librarian) -> None:
    maria.look(DEPOSIT)
    with files_of_at_most(2_000_000):
        files = (("small.txt", b"1"), ("large.txt", bytes(3_000_000)), ("last.txt", b"2"))
        # The file is in the midst of the form: what comes after it is read too.
        page = send(maria, *ARTICLE[:-1], files=files, after=(ARTICLE[-1],))
    assert page.status == 507
    assert "<p>The disk of this server takes no more at the moment</p>" in page.text
    assert 'value="Água"' in page.text
    assert 'value="2026-03-12"' in page.text
    assert "small.txt" not in page.text  # no file is kept: all are chosen again
    staging = served.archive.data / "staging"
    assert not [each for each in staging.iterdir() if each.stat().st_size]
    shown = item(maria, send(maria, *ARTICLE, files=files[:1]))
    assert list(shown["files"]) == ["small.txt"]


def test_more_files_than_wait_in_a_form_come_with_the_deposit_itself(maria: Librarian) -> None:
    many = tuple((f"{number}.txt", b"1") for number in range(MOST_KEPT + 1))
    maria.look(DEPOSIT)
    page = send(maria, *ARTICLE, ("step", "files"), files=many)
    assert page.status == 422
    assert 'href="#file"' in page.text
    assert 'value="Água"' in page.text
    assert len(item(maria, send(maria, *ARTICLE, files=many))["files"]) == len(many)


def test_an_account_with_too_many_files_in_forms_is_told_so(
    served: AdministeredArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_UPLOADS", 1)
    joao = served.new_browser("joao")
    joao.look(DEPOSIT)
    assert send(joao, *ARTICLE, ("step", "files"), files=(("a.txt", b"1"),)).status == 200
    page = send(joao, *ARTICLE, ("step", "files"), files=(("b.txt", b"1"),))
    assert "Too many files wait in forms of this account" in page.text


def test_two_files_of_one_name_are_both_received(maria: Librarian) -> None:
    maria.look(DEPOSIT)
    files = (("a.txt", b"one"), ("a.txt", b"second"), ("b", b""), ("b", b"1"))
    shown = item(maria, send(maria, *ARTICLE, files=files))
    sizes = {name: each["size"] for name, each in shown["files"].items()}
    assert sizes == {"a.txt": 3, "a%20(2).txt": 6, "b": 0, "b%20(2)": 1}


def test_a_file_that_is_no_longer_here_is_named(served: AdministeredArchive, maria: Librarian) -> None:
    maria.look(DEPOSIT)
    page = send(maria, *ARTICLE, ("step", "files"), files=(("a.txt", b"a"),))
    others = served.new_browser("root")
    others.look(DEPOSIT)
    page = send(others, *fields_of(page))
    assert page.status == 404  # files belong to the librarian who has brought them
    assert "1 file is no longer here" in page.text


def test_the_review_shows_the_item_before_anything_is_deposited(maria: Librarian) -> None:
    before = re.findall('href="/-/admin/items/[^"]*"', maria.look("/-/admin/items").text)
    maria.look(DEPOSIT)
    people = (("who", "person"), ("who.family", "Silva"), ("who.given", "Maria"), ("who.role", "creator"))
    rest = (("source.name", "Revista"), ("source.volume", "14"), ("access", "open"))
    page = send(maria, *ARTICLE, *people, *rest, ("step", "review"), files=(("a.txt", b"a"),))
    assert page.status == 200
    for words in ("SILVA, Maria.", "Revista", "a.txt", "Nothing has been deposited yet", "March 12, 2026"):
        assert words in page.text, words
    assert f"http://127.0.0.1:{maria.port}/" in page.text
    assert re.findall('href="/-/admin/items/[^"]*"', maria.look("/-/admin/items").text) == before
    maria.page = page
    form = send(maria, *fields_of(page), ("step", "form"))
    assert 'value="Silva"' in form.text
    assert form.text.count('name="upload"') == 1
    shown = item(maria, send(maria, *fields_of(page)))
    assert shown["metadata"]["creator"] == ["Silva, Maria"]
    assert list(shown["files"]) == ["a.txt"]


def test_a_review_refuses_what_a_deposit_would_refuse(maria: Librarian) -> None:
    maria.look(DEPOSIT)
    page = send(maria, *ARTICLE, ("access", "embargoed"), ("step", "review"))
    assert page.status == 422
    assert 'value="Água"' in page.text


def test_a_form_whose_session_has_ended_comes_back_with_its_texts_and_received_files(
    served: AdministeredArchive,
) -> None:
    maria = served.new_browser("maria")
    maria.look(DEPOSIT)
    page = send(maria, *ARTICLE, ("step", "files"), files=(("a.txt", b"a"),))
    typed = fields_of(page)
    maria.cookies.clear()
    late = maria.send_files(DEPOSIT, *((name, None, text.encode()) for name, text in typed))
    assert late.status == 403
    maria.page = late
    kept = (("next", maria.hidden("next")), ("kept", maria.hidden("kept")))
    maria.page = maria.post("/-/admin/sign-in", ("name", "maria"), ("password", PASSWORD), *kept)
    assert 'value="Água"' in maria.page.text
    assert maria.page.text.count('name="upload"') == 1
    assert list(item(maria, send(maria, *fields_of(maria.page)))["files"]) == ["a.txt"]


def test_a_language_that_is_in_no_list_is_typed_and_can_be_chosen_from_then_on(maria: Librarian) -> None:
    maria.look(DEPOSIT)
    typed = [pair for pair in ARTICLE if pair[0] != "language"]
    answer = send(maria, *typed, ("language", ""), ("language_other", "sv"))
    assert item(maria, answer)["language"] == "sv"
    name = answer.headers["location"].removeprefix("/-/admin/items/").partition("?")[0]
    assert '<option value="sv" selected>Swedish' in maria.look(f"/-/admin/edit/{name}").text


def test_another_item_like_one_begins_with_its_people_and_kind(maria: Librarian) -> None:
    maria.look(DEPOSIT)
    people = (("who", "person"), ("who.family", "Silva"), ("who.given", "Maria"), ("who.role", "creator"))
    answer = send(maria, *ARTICLE, *people, ("source.name", "Revista"))
    page = maria.gone_to(answer)
    [like] = re.findall(r'href="(/-/admin/deposit\?like=[^"]*)"', page.text)
    page = maria.look(unescape(like))
    assert 'value="Silva"' in page.text
    assert 'value="Revista"' in page.text
    assert 'value="Água"' not in page.text
    assert "edition of" not in page.text.partition("</h1>")[0]


def test_an_edit_is_reviewed_before_anything_is_changed(maria: Librarian) -> None:
    maria.look(DEPOSIT)
    answer = send(maria, *ARTICLE, files=(("a.txt", b"a"),))
    name = answer.headers["location"].removeprefix("/-/admin/items/").partition("?")[0]
    path = f"/-/admin/edit/{name}"
    form = fields_of(maria.look(path), path)
    changed = [(field, "Rio" if text == "Água" else text) for field, text in form if field != "step"]
    page = maria.send(path, *changed, ("step", "review"))
    assert page.status == 200
    for words in ("Rio", "a.txt", f"/{name}", "Nothing has been changed yet"):
        assert words in page.text, words
    assert item(maria, answer)["metadata"]["title"] == [{"value": "Água", "lang": "pt"}]
    bad = [*(pair for pair in changed if pair[0] != "access"), ("access", "embargoed"), ("step", "review")]
    refused = maria.send(path, *bad)
    assert (refused.status, 'href="#embargo"' in refused.text) == (422, True)
    maria.page = page
    assert maria.send(path, *fields_of(page, path)).status == 303
    after = item(maria, answer)
    assert after["metadata"]["title"] == [{"value": "Rio", "lang": "pt"}]
    assert list(after["files"]) == ["a.txt"]


def test_an_edit_keeps_what_was_typed_through_a_step(maria: Librarian) -> None:
    maria.look(DEPOSIT)
    answer = send(maria, *ARTICLE)
    name = answer.headers["location"].removeprefix("/-/admin/items/").partition("?")[0]
    maria.look(f"/-/admin/edit/{name}")
    since = ("since", maria.hidden("since"))
    page = maria.send(f"/-/admin/edit/{name}", since, *ARTICLE[:2], ("dc.title", "Typed"), ("step", "person"))
    assert page.status == 200
    assert 'value="Typed"' in page.text
    assert item(maria, answer)["metadata"]["title"] == [{"value": "Água", "lang": "pt"}]


def test_dates_are_shown_as_the_language_of_the_page_writes_them(maria: Librarian) -> None:
    maria.look(DEPOSIT)
    answer = send(maria, *ARTICLE)
    name = answer.headers["location"].removeprefix("/-/admin/items/").partition("?")[0]
    in_portuguese = maria.look(f"/-/admin/edit/{name}", "pt-BR").text
    assert 'value="12/03/2026"' in in_portuguese
    assert "12 de março de 2026" in in_portuguese
    assert 'value="2026-03-12"' in maria.look(f"/-/admin/edit/{name}").text


@pytest.mark.parametrize("language", ["en", "pt-BR"])
def test_the_form_of_each_kind_weighs_no_more_than_a_page_may(
    served: AdministeredArchive, language: str
) -> None:
    root = served.new_browser("root")  # has the longest menu
    root.look(DEPOSIT, language)
    for kind in ("", *deposit_form.DEPOSIT_KINDS):
        once = ("once", root.hidden("once"))
        page = (
            send(root, ("step", f"kind:{kind}"), once, language=language)
            if kind
            else root.look(DEPOSIT, language)
        )
        assert f'value="kind:{kind}" aria-current="true"' in page.text or not kind
        weight = len(page.body) + sum(len(assets()[name].body) for name in ("style.css", "deposit.css"))
        assert weight <= 30 * 1024, (kind, weight)


def test_an_element_that_is_seldom_used_is_added_by_a_button(maria: Librarian) -> None:
    assert 'name="dc.coverage"' not in maria.look(DEPOSIT).text
    page = send(
        maria, ("step", "row:coverage"), ("dc.relation", "doi:10.1/a"), ("once", maria.hidden("once"))
    )
    assert [text for name, text in fields_of(page) if name in {"dc.coverage", "dc.relation"}] == [
        "doi:10.1/a",
        "",
    ]
    assert 'value="row:publisher"' in page.text
    assert page.text.index("<details open>") < page.text.index('name="dc.coverage"')
