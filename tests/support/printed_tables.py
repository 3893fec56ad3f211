"""The tables of the standards as printed, letter by letter; the source reads more, and less, and says where."""

from __future__ import annotations

import re

from ibi.identifier._grammar import MAX_LABEL
from ibi.protocol.pair_list import MAX_BODY

_LONGEST_MODIFIER = 256
_LOOSE_WORD = "[2-9A-HJ-NP-UWXa-hj-np-uwx]+"
_WORD = "[!-z|~]++"
_PAIR = rf"{_WORD} ++(?:{_WORD}|\{{{_WORD}(?: ++{_WORD})++\}})"
# Table 8.1: mdf is ([u [t]] | [t [u]]) [m [t]], where u is "!", t is "+" ["(" language ["-" country] ")"], and m is
# ":" ["(oai_dc)"].
_T = r"\+(?:\([a-z]{2}(?:-[A-Z]{2})?\))?"

_loose_ibip_match = re.compile(f"{_LOOSE_WORD}/{_LOOSE_WORD}", re.ASCII).fullmatch
_pair_list_match = re.compile(rf"{_PAIR}(?:(?: |\r\n){_PAIR})*+", re.ASCII).fullmatch
_modifier_match = re.compile(rf"(?:!(?:{_T})?|{_T}!?)?(?::(?:\(oai_dc\))?(?:{_T})?)?").fullmatch


def is_loose_ibip(text: str) -> bool:
    """Whether the text satisfies Table 7.1 as printed; it may still be no IBIp that anything decodes (AMB-11)."""
    return len(text) <= MAX_LABEL and _loose_ibip_match(text) is not None


def is_printed_pair_list(text: str) -> bool:
    """Whether a body satisfies Table 6.2 as printed: one pair or more, no empty braces, nothing tolerated."""
    return len(text) <= MAX_BODY and _pair_list_match(text) is not None


def is_printed_modifier(text: str) -> bool:
    """Whether a modifier stands in Table 8.1 as printed: exact case, oai_dc the only format."""
    return len(text) <= _LONGEST_MODIFIER and _modifier_match(text) is not None
