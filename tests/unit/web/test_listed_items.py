"""What a line of a list says of an item, whole: all that is known, the snippet that was found, its licence in words."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ibi.archive.model.item import Access, Holding, MetadataValue, StoredFile
from ibi.archive.pages.models import ListedItem
from ibi.identifier.forms import IBIForms
from ibi.protocol.vocabulary import ItemState
from ibi.web.assets import assets
from ibi.web.formats.record import ITEM_KINDS, OTHER
from ibi.web.item_values import LONGEST_TITLE
from ibi.web.licences import licence_of
from ibi.web.listed_items import (
    KIND_NAMES,
    KIND_PLURALS,
    LONGEST_SNIPPET,
    MOST_SEARCHED,
    file_format,
    icon_of,
    kind_name,
    listed,
    marked,
    searched,
)

NAME = "a.example/b/2013/01.02.00.00"
PDF = StoredFile("a%20b.pdf", 2048, "0" * 64, "application/pdf; x=y")
DATA = StoredFile("c", 1024, "0" * 64, "text/csv; header=present")


def item(
    metadata: dict[str, list[tuple[str, str | None]]] | None = None,
    access: Access = Access.OPEN,
    **facts: Any,
) -> ListedItem:
    holding = Holding(forms=IBIForms.parse(f"rep {NAME}"), timestamp="2026-09-15T16:40:00Z", **facts)
    statements = {
        name: tuple(MetadataValue(value, language) for value, language in values)
        for name, values in (metadata or {}).items()
    }
    return ListedItem(holding, statements, access)


def test_all_of_an_item_is_in_its_line() -> None:
    whole = item(
        {
            "title": [("Water  quality", "en"), ("Qualidade da água", "pt")],
            "creator": [
                ("Silva, Ana (https://orcid.org/0000-0002-1825-0097)", None),
                (" ", None),
                *[(f"Name {number}", None) for number in range(6)],
            ],
            "date": [("2011-05-03", None)],
            "type": [("dataset", None)],
            "source": [("Revista do Mar, v. 12, n. 3, p. 45-67", None)],
            "description": [("Rivers of the valley", "en")],
            "subject": [("Amazônia", None)],
        },
        files=(PDF, DATA),
        target="a%20b.pdf",
        language="pt",
        state=ItemState.COPY,
    )
    line = {
        "page": f"/-/item/{NAME}?lang=en",
        "name": whole.holding.forms.main,
        "title": "Water quality",
        "is_titled": True,
        "title_language": "en",
        "kind": "Dataset",
        "icon": "data",
        "access": Access.OPEN,
        "access_words": "Open access",
        "people": ["Silva, Ana", "Name 0", "Name 1", "Name 2", "Name 3"],
        "more_people": 2,
        "source": "Revista do Mar, v. 12, n. 3",
        "facts": ["May 3, 2011", "2 files, 3.1 kB", "Portuguese", "Copy"],
        "file": {"path": f"/col/{NAME}/doc/a%20b.pdf", "format": "PDF", "size": 2048, "more": 1},
        "snippet": [("Rivers of the valley", False)],
    }
    assert listed(whole, "en", "?lang=en") == line
    in_portuguese = listed(whole, "pt-BR", "")
    assert in_portuguese["page"] == f"/-/item/{NAME}"
    assert (in_portuguese["title"], in_portuguese["title_language"]) == ("Qualidade da água", "pt")
    assert listed(whole, "en", "", ["rivers"])["snippet"] == [("Rivers", True), (" of the valley", False)]
    assert listed(whole, "en", "", ["amazonia"])["snippet"] == [("Amazônia", True)]
    assert listed(whole, "en", "", ["nowhere"])["snippet"] == [("Rivers of the valley", False)]


def test_an_item_of_which_nothing_is_known_is_named_by_its_date() -> None:
    assert listed(item(), "en", "") == {
        "page": f"/-/item/{NAME}",
        "name": item().holding.forms.main,
        "title": "Item, January 2, 2013",
        "is_titled": False,
        "title_language": "",
        "kind": "",
        "icon": "item",
        "access": Access.OPEN,
        "access_words": "Open access",
        "people": [],
        "more_people": 0,
        "source": "",
        "facts": [],
        "file": None,
        "snippet": [],
    }
    assert listed(item({"type": [("tese", None)], "title": [(" ", "pt")]}), "en", "")["title"] == (
        "Thesis or dissertation, January 2, 2013"
    )


@pytest.mark.parametrize(
    ("tag", "language", "shown"),
    [("en-US", "pt", "March 4, 2015"), (None, "en-US", "March 4, 2015"), (None, None, "April 3, 2015"),
     ("pt", "en-US", "April 3, 2015")],
)  # fmt: skip
def test_a_date_is_read_in_its_language_or_in_that_of_its_item(
    tag: str | None, language: str | None, shown: str
) -> None:
    dated = item({"title": [("x", None)], "date": [("03/04/2015", tag)]}, language=language)
    assert listed(dated, "en", "")["facts"][0] == shown


@pytest.mark.parametrize(
    ("facts", "access", "file"),
    [
        ({"files": (PDF,), "target": "a%20b.pdf"}, Access.OPEN, ("PDF", 0)),
        ({"files": (PDF, DATA, DATA), "target": "c"}, Access.OPEN, ("text/csv", 2)),
        ({"files": (PDF, DATA), "target": "c", "file_list_public": False}, Access.OPEN, ("text/csv", 0)),
        ({"files": (PDF,), "target": "a%20b.pdf"}, Access.CLOSED, None),
        ({"files": (PDF, DATA)}, Access.OPEN, None),
    ],
)
def test_a_line_leads_to_the_document_that_every_reader_may_have(
    facts: dict[str, Any], access: Access, file: tuple[str, int] | None
) -> None:
    found = listed(item(access=access, **facts), "en", "")["file"]
    assert (found and (found["format"], found["more"])) == file


@pytest.mark.parametrize(
    ("type_", "facts", "words"),
    [
        ("dataset", {"files": (PDF,)}, ["1 file, 2.0 kB"]),
        ("dataset", {"files": (PDF,), "file_list_public": False}, []),
        ("dataset", {}, []),
        ("article", {"files": (PDF,)}, []),
    ],
)
def test_the_files_of_a_dataset_are_counted(type_: str, facts: dict[str, Any], words: list[str]) -> None:
    line = listed(item({"type": [(type_, None)], "title": [("x", None)]}, **facts), "en", "")
    assert line["facts"][1:] == words


def test_long_texts_of_a_line_are_cut() -> None:
    word = "x" * 9 + " "
    long = word * LONGEST_TITLE
    line = listed(
        item({"title": [(long, None)], "description": [(long, None)], "source": [(f"{long}, v. 1", None)]}),
        "en",
        "",
    )
    assert line["title"] == f"{(word * 30).strip()} …"
    assert line["source"].startswith("x" * 9)
    assert len(line["source"]) <= LONGEST_TITLE + 2
    assert line["snippet"] == [(f"{(word * (LONGEST_SNIPPET // 10)).strip()} …", False)]
    for length, found in ((MOST_SEARCHED, True), (MOST_SEARCHED + 1, False)):
        text = f"{'y ' * (length // 2)}"[: length - 6] + "needle"
        snippet = listed(item({"description": [(text, None)]}), "en", "", ["needle"])["snippet"]
        assert (("needle", True) in snippet) is found


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("Revista do Mar, v. 12, n. 3, p. 45-67", "Revista do Mar, v. 12, n. 3"),
        ("Revista do Mar, v. 12", "Revista do Mar, v. 12"),
        ("Revista do Mar", "Revista do Mar"),
    ],
)
def test_a_source_is_named_with_volume_and_number(source: str, shown: str) -> None:
    assert listed(item({"source": [(source, None), ("other", None)]}), "en", "")["source"] == shown


@pytest.mark.parametrize(
    ("name", "media_type", "shown"),
    [("a.PDF", "x/y", "PDF"), ("a.tar.gz", "x/y", "GZ"), ("a.12345678", "x/y", "12345678"),
     ("a.123456789", "x/y", "x/y"), ("a.", "text/plain; charset=utf-8", "text/plain"), ("b", "x/y", "x/y")],
)  # fmt: skip
def test_a_format_is_named_by_the_ending_of_a_file(name: str, media_type: str, shown: str) -> None:
    assert file_format(StoredFile(name, 1, "", media_type)) == shown


def test_every_kind_has_a_name_for_one_item_and_for_several() -> None:
    kinds = {kind.datacite for kind in (*ITEM_KINDS, OTHER)}
    assert kinds == set(KIND_NAMES) == set(KIND_PLURALS)


def test_kinds_have_names_but_the_one_of_all_others() -> None:
    assert kind_name("Book", "en") == "Book"
    assert kind_name("Book", "pt-BR") == "Livro"
    assert kind_name("Other", "en") == kind_name("Unheard", "en") == ""
    assert all(kind_name(kind, "en") for kind in KIND_NAMES if kind != "Other")
    assert searched("Água, _x_ & 2") == ["agua", "x", "2"]


TEXT = "Medições de turbidez e da qualidade da água no médio vale; a água ficou mais clara."


def _shown(text: str, query: str) -> str:
    return "".join(f"[{part}]" if hit else part for part, hit in marked(text, searched(query)))


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("agua", TEXT.replace("água", "[água]")),
        ("QUALIDADE", TEXT.replace("qualidade", "[qualidade]")),
        ("turbidez qual", TEXT.replace("turbidez", "[turbidez]").replace("qualidade", "[qualidade]")),
        ("qual turbidez", TEXT.replace("turbidez", "[turbidez]")),  # only the last word may be a beginning
        ("floresta", ""),
        ("", ""),
        ("<b>", ""),
    ],
)
def test_words_are_marked_without_accents_and_capitals(query: str, shown: str) -> None:
    assert _shown(TEXT, query) == shown


def test_a_snippet_is_cut_between_words_around_the_first_one_that_was_found() -> None:
    long = "before " * 200 + "needle" + " after" * 200
    shown = _shown(long, "needle")
    assert shown.startswith("… before ")
    assert shown.endswith("after …")
    assert "[needle]" in shown
    assert len(shown) < LONGEST_SNIPPET + 20
    assert _shown("x" * 1000, "x" * 1000) == f"[{'x' * 1000}]"


@pytest.mark.parametrize(
    ("url", "name", "word"),
    [
        ("https://creativecommons.org/licenses/by/4.0/", "CC BY 4.0", "credit"),
        ("http://creativecommons.org/licenses/by-nc-sa/3.0/br/", "CC BY-NC-SA 3.0", "money"),
        ("https://creativecommons.org/publicdomain/zero/1.0/", "CC0 1.0", "No rights"),
        ("https://creativecommons.org/publicdomain/mark/1.0/deed.pt", "Public Domain Mark 1.0", "rights"),
        (
            "https://creativecommons.org/licenses/strange/4.0/",
            "https://creativecommons.org/licenses/strange/4.0/",
            "",
        ),
        ("https://licence.example/by/4.0/", "https://licence.example/by/4.0/", ""),
        ("", "", ""),
    ],
)
def test_a_licence_of_creative_commons_has_a_name_and_words(url: str, name: str, word: str) -> None:
    licence = licence_of(url)
    assert licence.name == name
    assert word in licence.words
    assert bool(licence.words) == bool(word)


def test_sheets_are_served_without_comments_and_blanks_and_mean_the_same() -> None:
    for name in (
        "style.css",
        "archive.css",
        "item.css",
        "resolver.css",
        "admin.css",
        "items.css",
        "deposit.css",
    ):
        body = assets()[name].body.decode()
        assert "/*" not in body
        assert "\n" not in body
        assert body.count("{") == body.count("}") > 0
    style, item = (assets()[name].body.decode() for name in ("style.css", "item.css"))
    assert 'content:" (" attr(href) ")"' in style
    assert "calc(.6rem - 1px)" in item
    assert "main>section + section>h2{" in item


def test_every_kind_has_an_icon_of_the_one_file_that_has_them() -> None:
    drawn = set(re.findall(r'<symbol id="(\w+)" viewBox="0 0 24 24">', assets()["kinds.svg"].body.decode()))
    assert {icon_of(kind) for kind in (*KIND_NAMES, "unknown")} == drawn
