"""Typing errors: the label that was probably meant by a text that is no label, and labels that differ little.

A label is proposed only if it is the only plausible one, because a wrong proposal is worse than none.
"""

from __future__ import annotations

import re
from itertools import pairwise, product
from typing import TYPE_CHECKING

from ibi.errors import ParseError
from ibi.identifier.ibip import IBIp
from ibi.identifier.numerals import IBIP
from ibi.identifier.repository import UniformRepositoryName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.identifier.forms import Name

MAX_CORE = 256
"""Characters of the longest text for which a label is guessed."""

MOST_TYPED = 24
"""Characters of the longest part of a label in which typing errors are made up: about 1,400 names."""

_MAX_READINGS = 64  # spellings of one text that are tried
_YEARS = range(1995, 2100)  # of labels that are guessed, in either form

# Typographic and full-width twins of the characters that labels are made of, by code point.
_TWINS: dict[int, int | str] = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys((0x5C, 0x2044, 0x2215, 0x2571), "/"),
    **dict.fromkeys((0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2212), "-"),
    **dict.fromkeys((0x2024, 0xB7, 0x2022, 0x3002), "."),
}
_DIGIT_TWINS = str.maketrans("OoQIil|", "0001111")

# The characters for which an excluded character may have been misread (GEN-61: letters that look alike). None
# resembles Y.
_MEANT = {"0": "QD", "O": "QD", "1": "L", "I": "L", "V": "U", "Z": "2", "Y": ""}
_MEANT_IN_PREFIX = {**_MEANT, "V": "UW"}  # the prefix of an IPv4 address has a W
_COMMON_PORTS = range(80, 10000)
_COMMON_SUFFIX = range(6, 8)  # base-27 digits: from January 1996 to 2007, and on to the 23rd century

_LIKE_REPOSITORY = re.compile(
    r"(?P<subdomain>[0-9A-Za-z.-]+)[ /]+"
    r"(?P<word>[0-9A-Za-z-]+?(?:[.@][0-9]+)?)[ /]*"
    r"(?P<year>[12Il|][0-9OoQIil|]{3})[ ./,:;_-]+"
    r"(?P<rest>[0-9OoQIil|][0-9OoQIil| ./,:;_-]*)"
)
_LIKE_IBIP = re.compile(r"(?P<prefix>[0-9A-Za-z]+)[ /|_.,;-]+(?P<suffix>[0-9A-Za-z]+)")
_UNDIVIDED = re.compile(r"(?P<coded>[0-9A-Za-z]+?[WXwx])(?P<rest>[0-9A-Za-z]+)")


def likely_spelling(core: str) -> str | None:
    """Return the label that was probably meant by a text; None unless exactly one is plausible."""
    if len(core) > MAX_CORE:
        return None
    text = core.strip().translate(_TWINS)
    readings = {*_repository_readings(text), *_ibip_readings(text)}
    return readings.pop() if len(readings) == 1 else None


def _repository_readings(text: str) -> Iterator[str]:
    like = _LIKE_REPOSITORY.fullmatch(text)
    if like is None:
        return
    year, rest = (like[part].translate(_DIGIT_TWINS) for part in ("year", "rest"))
    fields = re.findall("[0-9]+", rest)
    if len(fields) not in {4, 5}:
        fields = re.findall("..", "".join(fields)) if len("".join(fields)) in {8, 10} else []
    if len(fields) not in {4, 5} or max(map(len, fields)) > len("59"):
        return
    date = ".".join(field.zfill(2) for field in fields)
    subdomain = re.sub(r"\.{2,}", ".", like["subdomain"])
    try:
        name = UniformRepositoryName.parse(f"{subdomain}/{like['word']}/{year}/{date}")
    except ParseError:
        return
    if name.date.seconds is not None and int(year) in _YEARS:
        yield str(name)


def _ibip_readings(text: str) -> Iterator[str]:
    like = _LIKE_IBIP.fullmatch(text)
    divided = [(like["prefix"], like["suffix"])] if like else list(_divisions(text))
    for prefix, suffix in divided:
        for spelling in _spellings(f"{prefix}/{suffix}"):
            if _is_plausible_ibip(spelling):
                yield spelling


def _divisions(text: str) -> Iterator[tuple[str, str]]:
    """Yield where a missing slash may have been: after the W or X and at most four digits of a port."""
    like = _UNDIVIDED.fullmatch(text)
    if like:
        for port in range(5):
            yield like["coded"] + like["rest"][:port], like["rest"][port:]


def _spellings(text: str) -> Iterator[str]:
    """Yield the text with its excluded characters replaced in each likely way; nothing if these are many."""
    slash = text.index("/")
    choices = [
        (_MEANT_IN_PREFIX if at < slash else _MEANT).get(char.upper(), char) for at, char in enumerate(text)
    ]
    # Count first, because the number of combinations grows exponentially with the length of the text.
    count = 1
    for choice in choices:
        count *= len(choice)
    if count <= _MAX_READINGS:
        for letters in product(*choices):
            yield "".join(letters)


def _is_plausible_ibip(text: str) -> bool:
    """Return whether a text is a label with an IP address, a likely port and a date from 1995 to 2099."""
    try:
        label = IBIp.parse(text)
    except ParseError:
        return False
    year = (label.date.text or "0").partition("-")[0]
    return (
        label.ip is not None
        and label.port in _COMMON_PORTS
        and len(label.suffix.upper().partition("W")[0]) in _COMMON_SUFFIX
        and int(year) in _YEARS
    )


def near_names(name: Name) -> Iterator[str]:
    """Yield the canonical names that differ from this one by one typing error.

    That is one wrong character, one too many, one lost, or two neighbours exchanged; in a uniform repository name a
    wrong digit of its date, or two exchanged. Not all are names that can be. None for an opaque id from before the
    standard, nor for a very long label.
    """
    canonical = name.canonical
    if isinstance(name, IBIp):
        prefix, _, suffix = canonical.rpartition("/")
        if len(suffix) <= MOST_TYPED:
            yield from (f"{prefix}/{each}" for each in _altered(suffix, IBIP.digits))
        if len(prefix) <= MOST_TYPED:
            yield from (f"{each}/{suffix}" for each in _altered(prefix, IBIP.digits))
    elif isinstance(name, UniformRepositoryName):
        repository, year, rest = canonical.rsplit("/", 2)
        date = f"{year}/{rest}"
        if len(date) <= MOST_TYPED:
            yield from (f"{repository}/{each}" for each in _exchanged(date, "0123456789"))


def _altered(text: str, digits: str) -> Iterator[str]:
    """Yield the texts that differ by one typing error."""
    yield from _exchanged(text, digits)
    for at in range(len(text)):
        yield text[:at] + text[at + 1 :]
    for at in range(len(text) + 1):
        for digit in digits:
            yield text[:at] + digit + text[at:]


def _exchanged(text: str, digits: str) -> Iterator[str]:
    """Yield the texts of the same length in which one digit is another one, or two neighbours have changed places."""
    for at, (char, following) in enumerate(pairwise(text)):
        if char != following:
            yield text[:at] + following + char + text[at + 2 :]
    for at, char in enumerate(text):
        if char in digits:
            for digit in digits:
                if digit != char:
                    yield text[:at] + digit + text[at + 1 :]
