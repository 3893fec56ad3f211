"""The library's label parsers against the grammars of the standard, as two slow parsers read them."""

from __future__ import annotations

import re

import abnf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.identifier.forms import parse_ibi
from ibi.identifier.ibip import IBIp
from ibi.identifier.repository import UniformRepositoryName
from support.oracles import grammars
from support.oracles.attempts import accepts
from support.oracles.texts import LABELS, MANY, ibips, repositories, spoiled
from support.printed_tables import is_loose_ibip

RULES = ["repository", "loose-ibip", "ibip"]


class Standard(abnf.Rule):
    """The same rules, read by the abnf package."""


for _line in re.sub(r"\n +", " ", grammars.LABELS.source).strip().splitlines():
    if _line:
        Standard.create(_line)


def second_opinion(rule: str, text: str) -> bool:
    try:
        Standard(rule).parse_all(text)
    except abnf.ParseError:
        return False
    return True


# Words and marks near the edges of every rule; short enough for slow parsers.
edges = st.lists(
    st.sampled_from(
        ["a", "B", "9", "0", "-", ".", "@", "/", "2009", "02.16.17.46", ".05", "W", "x", "LK47B6W", "i", "V"]
    ),
    max_size=9,
).map("".join)
near = edges | spoiled([label for label in LABELS if len(label) < 40]) | repositories() | ibips()


@pytest.mark.proves("GEN-10", "GEN-14", "GEN-19", "GEN-60", "GEN-61", "GEN-63", "AMB-02", "AMB-11")
@given(text=near)
@MANY
def test_labels_are_read_exactly_where_the_grammar_derives_them(text: str) -> None:
    assert accepts(UniformRepositoryName.parse, text) == grammars.LABELS.matches("repository", text)
    assert accepts(IBIp.parse, text) == grammars.LABELS.matches("ibip", text)
    assert is_loose_ibip(text) == grammars.LABELS.matches("loose-ibip", text)


@pytest.mark.proves("AMB-38")
@given(text=near)
@MANY
def test_no_text_is_both_forms_and_parse_ibi_takes_either(text: str) -> None:
    rep, ibip = accepts(UniformRepositoryName.parse, text), accepts(IBIp.parse, text)
    assert not (rep and ibip)
    assert accepts(parse_ibi, text) == (rep or ibip)


@pytest.mark.proves("GEN-10", "GEN-60", "GEN-63")
@pytest.mark.parametrize("rule", RULES)
@given(text=near)
@MANY
def test_the_two_oracles_agree_on_the_grammars(rule: str, text: str) -> None:
    if text.isascii():
        assert grammars.LABELS.matches(rule, text) == second_opinion(rule, text)


@pytest.mark.proves("GEN-10", "GEN-13", "GEN-62")
@pytest.mark.parametrize("letter", ["\u212a", "\u0130", "\u0131", "\u017f", "\uff11", "\u0661", "\u00b2"])
def test_letters_and_digits_that_only_fold_into_ascii_are_refused(letter: str) -> None:
    for text in (
        f"{letter}.br/a/2009/02.16.17.46",
        f"sid.inpe.br/{letter}/2009/02.16.17.46",
        f"a.br/b/200{letter}/02.16.17.46",
    ):
        assert not accepts(UniformRepositoryName.parse, text)
    assert not accepts(IBIp.parse, f"LK47B6W/{letter}")


@pytest.mark.proves("GEN-10", "GEN-63")
@pytest.mark.parametrize("tail", ["\n", "\r\n", " ", "\x00", "\u2028", "\x85"])
def test_nothing_may_hang_on_after_a_label(tail: str) -> None:
    assert not accepts(UniformRepositoryName.parse, f"sid.inpe.br/mtc-m18/2009/02.16.17.46{tail}")
    assert not accepts(IBIp.parse, f"8JMKD3MGP8W/34PGRBS{tail}")
