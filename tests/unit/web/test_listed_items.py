"""What a line of a list says of an item: the snippet that was found, its licence in words."""

from __future__ import annotations

import re

import pytest

from ibi.web.assets import assets
from ibi.web.licences import licence_of
from ibi.web.listed_items import KIND_NAMES, LONGEST_SNIPPET, icon_of, marked, searched

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
