"""What readers call an Archive, as a header brings it: hostile until it was read."""

from __future__ import annotations

import pytest

from ibi.protocol.messages import LONGEST_TITLE, ArchiveTitles, checked_title, read_title, written_title


@pytest.mark.parametrize(
    "title",
    [
        "Instituto de Pesquisas do Vale",
        "São João & Cia. <b>",
        "東京大学",
        "x" * LONGEST_TITLE,
        "𐐀" * LONGEST_TITLE,
        "",
    ],
)
def test_a_title_is_read_as_it_was_written(title: str) -> None:
    assert read_title(written_title(title)) == title
    assert written_title(title).isascii()


def test_a_header_has_no_character_that_is_not_escaped() -> None:
    assert written_title("a/b c~é") == "a%2Fb%20c~%C3%A9"


@pytest.mark.parametrize(
    "raw",
    [
        "a%0Ab",
        "a%00b",
        "%1B%5B2J",
        "%E2%80%AEabc",
        "%FF",
        "x" * (LONGEST_TITLE + 1),
        "%41" * 1000,
        "%20",
        "%E2%80%8B",
    ],
)
def test_anything_but_one_printable_line_is_no_title(raw: str) -> None:
    assert read_title(raw) == ""


def test_blanks_around_and_between_are_single() -> None:
    assert checked_title("  A   B ") == "A B"


@pytest.mark.parametrize(
    ("titles", "english", "portuguese"),
    [
        (ArchiveTitles("Valley", "Vale"), "Valley", "Vale"),
        (ArchiveTitles("Valley"), "Valley", "Valley"),
        (ArchiveTitles("", "Vale"), "Vale", "Vale"),
        (ArchiveTitles(), "", ""),
    ],
)
def test_a_page_has_the_name_in_its_language_or_the_one_that_there_is(
    titles: ArchiveTitles, english: str, portuguese: str
) -> None:
    assert (titles.in_language("en"), titles.in_language("pt-BR")) == (english, portuguese)
    others = ArchiveTitles("Other")
    assert titles.or_else(others) == (titles if english else others)
