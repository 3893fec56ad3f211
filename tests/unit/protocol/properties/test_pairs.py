"""Queries, keys and pair lists under bytes drawn at random."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ibi.errors import ParseError
from ibi.protocol.messages import is_key
from ibi.protocol.pair_list import read_pairs, write_pairs
from ibi.protocol.query_string import escape, read_query, unescape, write_query
from support.oracles.attempts import attempt
from support.oracles.grammars import PAIR_LISTS
from support.oracles.texts import (
    BODIES,
    LOOKALIKES,
    MANY,
    QUERIES,
    hostile,
    spoiled,
)
from support.printed_tables import is_printed_pair_list

if TYPE_CHECKING:
    from ibi.protocol.pair_list import PairList, Value

bytes_of_any_kind = st.binary(max_size=80) | hostile(BODIES).map(
    lambda text: text.encode("utf-8", "surrogatepass")
)
byte_text = st.text(st.characters(max_codepoint=255), max_size=40)
word = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="{}"), min_size=1, max_size=12
)


@pytest.mark.proves("MSG-07", "AMB-37", "AMB-31")
@given(query=byte_text | hostile(QUERIES))
@MANY
def test_a_query_is_decoded_once_and_only_where_it_says_so(query: str) -> None:
    try:
        pairs = read_query(query)
    except ParseError:
        return
    elements = [element for element in query.split("&") if element]
    assert len(pairs) == len(elements)
    for element, (name, value) in zip(elements, pairs, strict=True):
        raw_name, _, raw_value = element.partition("=")
        assert (name, value) == (naive_unescape(raw_name), naive_unescape(raw_value))


def naive_unescape(text: str) -> str:
    """One pass from left to right, character by character."""
    decoded, at = "", 0
    while at < len(text):
        if text[at] == "%" and re.fullmatch("[0-9A-Fa-f]{2}", text[at + 1 : at + 3]):
            decoded += chr(int(text[at + 1 : at + 3], 16))
            at += 3
        else:
            decoded += " " if text[at] == "+" else text[at]
            at += 1
    return decoded


@pytest.mark.proves("MSG-06", "MSG-13", "AMB-27", "AMB-31")
@given(value=byte_text)
@MANY
def test_an_escaped_value_is_harmless_in_a_url_and_comes_back_as_it_was(value: str) -> None:
    escaped = escape(value)
    assert re.fullmatch(r"[!$'()*,\-./0-9:;@A-Z\[\]_a-z~%]*", escaped)
    assert unescape(escaped) == value
    assert read_query(f"name={escaped}&other=1") == [("name", value), ("other", "1")]
    assert read_query(write_query([("name", value)])) == [("name", value)]


@pytest.mark.proves("MSG-06", "MSG-13")
@pytest.mark.parametrize("character", [character for character in LOOKALIKES if ord(character) > 255])
def test_a_character_that_is_no_byte_cannot_be_escaped(character: str) -> None:
    with pytest.raises(ParseError):
        escape(character)


@pytest.mark.proves("MSG-21")
@given(
    text=st.from_regex(r"[0-9]{8,12}(-[0-9]{8,12}){0,2}", fullmatch=True) | spoiled(["1234567890-1234567890"])
)
@MANY
def test_keys_are_what_the_grammar_derives(text: str) -> None:
    assert is_key(text) == PAIR_LISTS.matches("key", text)


@pytest.mark.proves("MSG-11", "MSG-14", "AMB-25", "AMB-26")
@given(body=bytes_of_any_kind)
@example(body=b"a {b")
@example(body=b"a b}")
@example(body=b"a {b {c} d}")
@example(body=b"a{b}")
@example(body=b"a {b}c d")
@example(body=b"a")
@example(body=b"{a} b")
@example(body=b"a b a c")
@example(body=b"\xff a b")
@example(body=b"\xef\xbb\xbfa b")
@MANY
def test_any_bytes_are_a_pair_list_or_the_one_parse_error(body: bytes) -> None:
    pairs = attempt(read_pairs, body)
    if isinstance(pairs, ParseError):
        assert str(pairs)
        assert pairs.caret().isascii()
        assert not naive_pairs(body)[1]
        return
    expected, well_formed = naive_pairs(body)
    assert well_formed
    assert pairs == expected
    assert read_pairs(write_pairs(pairs)) == {name: bare(value) for name, value in pairs.items()}


def bare(value: Value) -> Value:
    """One word in braces is written without them."""
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


def naive_pairs(body: bytes) -> tuple[PairList, bool]:
    """MSG-14 by setting blanks around braces that stand free: the pairs, and whether the list is well formed."""
    malformed: tuple[PairList, bool] = {}, False
    text = body.decode("latin-1")
    if re.search(r"[^\t\r\n -~]|[^ \t\r\n]\{|\}[^ \t\r\n]", text):
        return malformed
    values: list[Value] = []
    inside: list[str] | None = None
    for token in re.sub("([{}])", r" \1 ", text).split():
        if token == "{" and inside is None:
            inside = []
        elif token == "}" and inside is not None:
            values.append(tuple(inside))
            inside = None
        elif token in "{}":
            return malformed
        else:
            (values if inside is None else inside).append(token)
    names = [name for name in values[::2] if isinstance(name, str)]
    if inside is not None or len(values) % 2 or len(set(names)) < len(values) // 2:
        return malformed
    return dict(zip(names, values[1::2], strict=True)), True


@pytest.mark.proves("MSG-11", "MSG-12", "MSG-14", "AMB-25", "AMB-26")
@given(pairs=st.dictionaries(word, word | st.lists(word, max_size=4).map(tuple), max_size=8))
@MANY
def test_pairs_are_written_in_order_and_read_back(pairs: PairList) -> None:
    body = write_pairs(pairs)
    assert read_pairs(body) == {name: bare(value) for name, value in pairs.items()}
    assert list(read_pairs(body)) == sorted(pairs)
    text = body.decode("ascii")
    assert text.count("\r\n") == max(0, len(pairs) - 1)
    if pairs and () not in pairs.values():
        assert is_printed_pair_list(text)
        assert PAIR_LISTS.matches("pair-list", text)


@pytest.mark.proves("MSG-11", "AMB-25", "AMB-26")
@given(
    text=hostile(BODIES[6:])
    | st.text(st.sampled_from("ab{} \r\n|~"), max_size=16).map(lambda t: t.replace("\r", "\r\n"))
)
@MANY
def test_pair_lists_are_called_printed_exactly_where_the_grammar_derives_them(text: str) -> None:
    if len(text) < 200:
        assert is_printed_pair_list(text) == PAIR_LISTS.matches("pair-list", text)


@pytest.mark.proves("MSG-12", "MSG-13")
@pytest.mark.parametrize("bad", ["", " ", "a b", "é", "{", "}", "a\r\n", "\x7f", "\x00"])
def test_what_no_pair_list_can_carry_is_not_written(bad: str) -> None:
    for pairs in ({bad: "x"}, {"x": bad}, {"x": ("y", bad)}):
        with pytest.raises(ParseError):
            write_pairs(pairs)
