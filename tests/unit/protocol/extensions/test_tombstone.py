"""What an Archive says of a removed item: hostile until it was read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.identifier.forms import IBIForms
from ibi.protocol.extensions.tombstone import LONGEST_REASON, LONGEST_TITLE, Tombstone
from ibi.protocol.pair_list import read_pairs, write_pairs

REPLACEMENT = IBIForms.parse("rep dpi.inpe.br/banon/1998/08.02.08.56")


@given(st.text(max_size=2000), st.text(max_size=2000), st.text(max_size=9000))
def test_what_is_written_is_read_on_one_line_and_not_too_long(title: str, people: str, reason: str) -> None:
    try:
        f"{title}{people}{reason}".encode()
    except UnicodeEncodeError:
        return  # half a character, which no item has
    written = Tombstone(title, people, "2024-03", reason, REPLACEMENT).pairs
    found = Tombstone.of(read_pairs(write_pairs(written)))
    assert (found.date, found.replacement) == ("2024-03", REPLACEMENT)
    for text, most in (
        (found.title, LONGEST_TITLE),
        (found.people, LONGEST_TITLE),
        (found.reason, LONGEST_REASON),
    ):
        assert text == text.strip()
        assert text.isprintable()
        assert len(text) <= most
    assert Tombstone.of(found.pairs) == found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("title", "%FF"),
        ("title", ("two", "words")),
        ("title", "%41" * 2000),
        ("reason", "%E2%80%AE"),
        ("date", "yesterday"),
        ("date", "2024-3"),
        ("replacement", "dpi.inpe.br/banon/1998/08.02.08.56"),
        ("replacement", ("rep", "no name")),
    ],
)
def test_a_value_of_another_form_is_absent(name: str, value: str | tuple[str, ...]) -> None:
    assert Tombstone.of({f"tombstone.{name}": value}) == Tombstone()


@pytest.mark.parametrize(
    ("title", "written"),
    [
        ("a/b é", "a%2Fb%20%C3%A9"),
        ("x" * LONGEST_TITLE, "x" * LONGEST_TITLE),
        ("x" * (LONGEST_TITLE + 1), "x" * (LONGEST_TITLE - 1) + "%E2%80%A6"),
        (" " * (4 * LONGEST_TITLE - 1) + "x", "x"),
        (" " * (4 * LONGEST_TITLE) + "x", None),
        ("a\u202eb\n c", "a%20b%20c"),
    ],
)
def test_a_text_is_written_on_one_line_and_cut(title: str, written: str | None) -> None:
    assert Tombstone(title).pairs.get("tombstone.title") == written


@pytest.mark.parametrize("more", [0, 1])
def test_the_longest_text_is_read_however_it_is_escaped(more: int) -> None:
    longest = "%F0%90%90%80" * LONGEST_TITLE
    found = Tombstone.of({"tombstone.title": longest + "x" * more}).title
    assert found == ("" if more else "\U00010400" * LONGEST_TITLE)
