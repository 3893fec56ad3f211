"""Pair lists."""

import pytest

from ibi.errors import ParseError
from ibi.protocol.pair_list import (
    MAX_BODY,
    MAX_PAIRS,
    PairList,
    Value,
    read_pairs,
    write_pairs,
)
from support.printed_tables import is_printed_pair_list


@pytest.mark.proves("MSG-10", "MSG-11", "MSG-12", "MSG-15")
def test_words_and_lists_are_told_apart() -> None:
    assert read_pairs(b"a1 {a2 a3} a4 a5") == {"a1": ("a2", "a3"), "a4": "a5"}
    assert read_pairs(b"ibi {rep x}") == {"ibi": ("rep", "x")}


@pytest.mark.proves("MSG-14", "AMB-25", "AMB-26")
def test_reading_is_generous_with_blanks_and_braces() -> None:
    assert read_pairs(b"  a \t b\r\n\r\nc\n{ d  e }\r") == {"a": "b", "c": ("d", "e")}
    assert read_pairs(b"a {} b {c}") == {"a": (), "b": ("c",)}
    assert read_pairs(b"") == read_pairs(b" \r\n") == {}
    assert not is_printed_pair_list("a {}")
    assert is_printed_pair_list("a1 {a2 a3} a4 a5")


@pytest.mark.parametrize(
    "body",
    [
        b"a",
        b"a b c",
        b"a {b",
        b"a b}",
        b"a {b {c}}",
        b"a {b}c d",
        b"{a} b",
        b"a b a c",
        b"a\x00b c",
        b"a \xe1",
        b"} a",
        b"a b\x0bc d",
    ],
)
def test_a_body_that_is_no_pair_list_is_refused(body: bytes) -> None:
    with pytest.raises(ParseError):
        read_pairs(body)


@pytest.mark.proves("MSG-14")
def test_writing_is_strict() -> None:
    pairs: PairList = {"state": "Original", "ibi": ("rep", "x"), "ibi.platformsoftware": (), "one": ("word",)}
    assert write_pairs(pairs) == b"ibi {rep x}\r\nibi.platformsoftware {}\r\none word\r\nstate Original"


@pytest.mark.proves("MSG-13", "AMB-31")
def test_only_printable_ascii_is_written() -> None:
    values: tuple[Value, ...] = ("a b", "", "a{b", "a\r\nb", "relatório", ("a", "b c"))
    for value in values:
        with pytest.raises(ParseError):
            write_pairs({"name": value})
    with pytest.raises(ParseError):
        write_pairs({"a name": "value"})


def test_endless_answers_are_cut_short() -> None:
    with pytest.raises(ParseError, match="longer than"):
        read_pairs(b"a " + b"b" * MAX_BODY)
    with pytest.raises(ParseError, match="more than"):
        read_pairs(b" ".join(b"n%d v" % number for number in range(MAX_PAIRS + 1)))
    with pytest.raises(ParseError, match="more than"):  # whatever follows is not looked at
        read_pairs(b" ".join(b"n%d v" % (number % 50_000) for number in range(MAX_PAIRS + 1)) + b" n1 v {")
    assert (
        len(read_pairs(b" ".join(b"n%d v" % number for number in range(MAX_PAIRS)) + b" \r\n")) == MAX_PAIRS
    )
