"""Titles in lists: in one line, and no longer than they may be."""

from __future__ import annotations

import pytest

from ibi.web.item_page import shortened


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("a b", "a b"),
        ("1234567890", "1234567890"),
        ("12345678901", "1234567890 …"),
        ("123 567 901", "123 567 …"),
        ("123 5678901", "123 …"),
        ("1234567890 2", "1234567890 …"),
        (" a \n b ", "a b"),
        ("a" + " " * 30 + "b", "a b"),
        ("a" + " " * 39 + "b", "a"),
    ],
)
def test_a_text_is_cut_after_a_word_to_ten_characters(text: str, shown: str) -> None:
    assert shortened(text, 10) == shown
