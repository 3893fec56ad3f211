"""Which label was meant: the characters that look alike, and the years in which a label can have been made."""

from __future__ import annotations

import pytest

from ibi.identifier.typos import likely_spelling

LABEL = "sid.inpe.br/mtc-m18@80/2009/02.16.17.46"


@pytest.mark.parametrize(
    ("plain", "twins"),
    [
        ("/", "\\\u2044\u2215\u2571\uff0f"),
        ("-", "\u2010\u2011\u2012\u2013\u2014\u2212\uff0d"),
        (".", "\u2024\u00b7\u2022\u3002\uff0e"),
        ("@", "\uff20"),
        ("s", "\uff53"),
        ("2", "\uff12"),
    ],
)
def test_a_character_that_looks_like_another_is_read_as_that(plain: str, twins: str) -> None:
    for twin in twins:
        assert likely_spelling(LABEL.replace(plain, twin)) == LABEL, ascii(twin)
    assert likely_spelling(LABEL.replace(plain, "\u2023")) is None


@pytest.mark.parametrize(
    ("year", "meant"), [("1994", False), ("1995", True), ("2099", True), ("2100", False)]
)
def test_a_label_is_guessed_only_of_a_year_in_which_it_can_have_been_made(year: str, meant: bool) -> None:
    typed = LABEL.replace("2009", year.replace("0", "O").replace("1", "l"))
    assert likely_spelling(typed) == (LABEL.replace("2009", year) if meant else None)
