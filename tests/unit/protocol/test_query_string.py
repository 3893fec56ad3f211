"""Query strings."""

import pytest

from ibi.errors import ParseError
from ibi.protocol.query_string import MAX_PAIRS, escape, read_query, unescape, write_query


@pytest.mark.proves("MSG-06", "AMB-27")
def test_what_could_cut_or_break_a_url_is_escaped() -> None:
    assert escape("1997-07-16T19:20+01:00") == "1997-07-16T19:20%2B01:00"
    assert (
        escape(' %&+=?#"<>\\^{|}`\r\n\x00\x7f')
        == "%20%25%26%2B%3D%3F%23%22%3C%3E%5C%5E%7B%7C%7D%60%0D%0A%00%7F"
    )
    assert escape("/:@()!") == "/:@()!"


@pytest.mark.proves("MSG-07", "AMB-27", "AMB-29")
def test_values_are_decoded_exactly_once() -> None:
    assert read_query("a=1%2B2&b=x+y&c=%2541&d=%zz&e") == [
        ("a", "1+2"),
        ("b", "x y"),
        ("c", "%41"),
        ("d", "%zz"),
        ("e", ""),
    ]


@pytest.mark.proves("AMB-37")
def test_a_pair_is_split_at_its_first_equals_sign_and_semicolons_split_nothing() -> None:
    assert read_query("a=b=c;d=e&&f=g") == [("a", "b=c;d=e"), ("f", "g")]


@pytest.mark.proves("MSG-04", "AMB-31")
def test_bytes_come_out_as_they_went_in() -> None:
    every_byte = "".join(map(chr, range(256)))
    assert unescape(escape(every_byte)) == every_byte
    assert read_query(write_query([("name", every_byte)])) == [("name", every_byte)]


def test_a_character_that_is_no_byte_cannot_be_sent() -> None:
    with pytest.raises(ParseError):
        escape("名")
    with pytest.raises(ParseError):
        escape("\u0100")
    assert escape("\xff") == "%FF"


def test_endless_queries_are_refused() -> None:
    with pytest.raises(ParseError):
        read_query("a=b&" * MAX_PAIRS)
    with pytest.raises(ParseError):
        read_query("a" * 20_000)
