"""Opaque ids from before the standard, which are read and dated but never made (WILD-02, note 26).

    6RPa7uma Z             / UaJFT     second generation: the IP, perhaps a port; the seconds since August 1995
    6qtX3pFwXQ Z 3r59 Y CT / GUQnU     first generation: subdomain words with X between them, word, Y and a port

Unlike an IBI, such an id is case-sensitive. Every prefix has a Z and no IBIp has one, so no text is both.
The grammar was derived from published ids; if an item also has an IBI, both names tell the same time.
"""

from __future__ import annotations

import re
from typing import Final, final

from ibi.errors import ParseError
from ibi.identifier.dates import LabelDate
from ibi.identifier.ibip import EPOCH, canonical_ip
from ibi.identifier.numerals import IPV4, Numerals
from ibi.identifier.ordering import TimeOrdered, set_canonical, set_text
from ibi.identifier.repository import LAST_PORT

WHAT: Final = "legacy opaque id"
MAX_LENGTH: Final = 128
"""Characters of an older opaque id that is read at most; the longest known one has 27."""

OPAQUE = Numerals("23456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUV")
"""Base 53: without 0, 1, l, I and O, and without W, X, Y and Z, which separate numbers."""

BY_DOMAIN, BY_ADDRESS = 1, 2
"""The two generations of ids: the prefix spells a domain name, or an IP address."""

# A host word is a number in base 37: letters in an unusual order, then digits, then the hyphen. "?" stands
# for f, h, j, k, q and u to z: no id that we know shows their values, so words with them cannot be read.
_HOST_CHARACTERS: Final = "abcoiemn?srld?pt?g????????0123456789-"

# second generation = digit+ "Z" digit* "/" digit+
# first generation  = digit+ *("X" digit+) "Z" digit+ ["Y" digit*] "/" digit+     at least one X
#
# The number after the slash is a date: three digits at least (the first hour), six at most (the year 2697).
_DIGIT = "[2-9a-km-zA-HJ-NP-V]"
SECOND_GENERATION_RULE = rf"{_DIGIT}++Z{_DIGIT}*+/{_DIGIT}{{3,6}}"
FIRST_GENERATION_RULE = rf"{_DIGIT}++(?:X{_DIGIT}++)++Z{_DIGIT}++(?:Y{_DIGIT}*+)?/{_DIGIT}{{3,6}}"
LEGACY_RULE = rf"(?:{FIRST_GENERATION_RULE}|{SECOND_GENERATION_RULE})"
_match = re.compile(LEGACY_RULE, re.ASCII).fullmatch


@final
class LegacyId(TimeOrdered):
    """An opaque id of either generation; immutable, equal only to the very same spelling."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> LegacyId:
        """Read an id. Raises ParseError.

        A prefix of the second generation must spell an IPv4 address: else any words with a Z would be ids.
        """
        if len(text) > MAX_LENGTH:
            raise ParseError(WHAT, text, "it is longer than {limit} characters", MAX_LENGTH, limit=MAX_LENGTH)
        if _match(text) is None:
            raise ParseError(WHAT, text, "this is not an opaque id of the time before the standard")
        name = object.__new__(cls)
        set_text(name, text)
        set_canonical(name, text)
        if name.generation == BY_ADDRESS and name.ip is None:
            raise ParseError(WHAT, text, "the word before Z spells no IP address", 0, text.index("Z"))
        return name

    @property
    def generation(self) -> int:
        """1 if the prefix spells a domain name, 2 if it spells an IP address."""
        return BY_DOMAIN if "X" in self.prefix else BY_ADDRESS

    @property
    def ip(self) -> str | None:
        """The IPv4 address at the moment of naming; None in the first generation."""
        coded = self.prefix.partition("Z")[0]
        if self.generation == BY_DOMAIN or len(coded) > len("255.255.255.255"):
            return None
        text = IPV4.write(OPAQUE.read(coded))
        try:
            return canonical_ip(f"0{text}" if text.startswith(".") else text)
        except ParseError:
            return None

    @property
    def host(self) -> str | None:
        """The host name at the moment of naming; None in the second generation, or where a word cannot be read.

        It may be wrong: "a" is the zero of this numeral system, so leading "a" of a word are lost.
        """
        if self.generation == BY_ADDRESS:
            return None
        subdomain, _, word = self.prefix.partition("Z")
        words = [_host_word(coded) for coded in (word.partition("Y")[0], *subdomain.split("X"))]
        return None if None in words else ".".join(filter(None, words))

    @property
    def port(self) -> int | None:
        """The port at the moment of naming, 80 after a bare Y; None if no possible port is written."""
        host, separator, coded = self.prefix.partition("Y" if self.generation == BY_DOMAIN else "Z")
        if not host or not separator or (self.generation == BY_ADDRESS and not coded):
            return None
        if not coded:
            return 80
        port = OPAQUE.read(coded) if len(coded) <= len("65535") else 0
        return port if 0 < port <= LAST_PORT else None

    @property
    def date(self) -> LabelDate:
        """The moment of naming, in UTC; a full minute counts as a date without seconds."""
        seconds = EPOCH + OPAQUE.read(self.suffix)
        return LabelDate(seconds, "", shows_seconds=seconds % 60 != 0)


def _host_word(coded: str) -> str | None:
    """Return the word that a number of the first generation spells; None for an unknown letter or no word."""
    if len(coded) > MAX_LENGTH // 2:
        return None
    number, letters = OPAQUE.read(coded), []
    while number:
        number, value = divmod(number, len(_HOST_CHARACTERS))
        letters.append(_HOST_CHARACTERS[value])
    word = "".join(reversed(letters))
    return word if word and "?" not in word and not word.startswith("-") and not word.endswith("-") else None
