"""Texts made to be slow or deep: refused or read, without recursion and in proportion to their length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ibi.errors import ParseError
from ibi.identifier.forms import IBIForms, parse_name
from ibi.identifier.ibip import canonical_ip
from ibi.identifier.numerals import IBIP
from ibi.identifier.repository import rep_prefix
from ibi.identifier.unwrapping import unwrap
from ibi.protocol.language import LanguagePreference
from ibi.protocol.messages import is_key, read_request, split_hostport
from ibi.protocol.pair_list import read_pairs
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.query_string import read_query
from ibi.protocol.relation import Relation
from ibi.protocol.replies import Confirmation
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from support.oracles.attempts import attempt
from support.oracles.effort import calls, letters_seen
from support.printed_tables import is_loose_ibip, is_printed_modifier, is_printed_pair_list

if TYPE_CHECKING:
    from collections.abc import Callable

PARSERS: dict[str, Callable[[str], object]] = {
    "name": parse_name,
    "forms": IBIForms.parse,
    "loose IBIp": is_loose_ibip,
    "IP address": canonical_ip,
    "numeral": IBIP.read,
    "host": rep_prefix,
    "peeling": unwrap,
    "persistent URL": PersistentURL.from_text,
    "request path": PersistentURL.parse,
    "own query": lambda text: PersistentURL.parse("/LK47B6W/362SFKH", text),
    "modifier": Relation.from_modifier,
    "qualifier": Relation.from_qualifier,
    "printed modifier": is_printed_modifier,
    "verb list": VerbList.parse,
    "query": read_query,
    "request": read_request,
    "key": is_key,
    "address": split_hostport,
    "language preference": lambda text: LanguagePreference.parse(text).choose(["en", "pt-BR"]),
    "pair list": lambda text: read_pairs(text.encode()),
    "URL list": lambda text: list(UrlList.read(text.encode()).relations()),
    "printed pair list": is_printed_pair_list,
    "reply": lambda text: Confirmation.read(text.encode()),
}
NAME = "sid.inpe.br/mtc-m18/2009/02.16.17.46"
SHAPES = {  # something before, something again and again, something behind
    "letters": ("", "a", ""),
    "letters and a fault": ("", "a", "!"),
    "words": ("", "a.", "/b/2009/02.16.17.46"),
    "hyphens": ("", "a-", "_"),
    "slashes": ("", "/", ""),
    "digits": ("", "9", "x"),
    "fraction": (f"{NAME}.00.", "0", "-"),
    "year": ("a.br/b/", "1", "/02.16.17.46"),
    "port": ("a.br/b@", "1", "/2009/02.16.17.46."),
    "base 27": ("", "2", "W/2"),
    "wrappers": ("/", "ibi/", ""),
    "wrappers around a name": ("/", "rep/ibi/", NAME),
    "full stops": ("/LK47B6W/362SFKH", ".", ""),
    "full stops behind nothing": ("/a/", ".", ""),
    "brackets": (f"/{NAME}", ")'\"", ""),
    "pluses": ("/LK47B6W/362SFKH", "+", ""),
    "escapes": ("/LK47B6W/362SFKH", "%2B", ""),
    "half escapes": ("/LK47B6W/362SFKH/", "%", ""),
    "names": ("", f"{NAME} ", ""),
    "names glued": ("", NAME, ""),
    "labels": ("", "LK47B6W/362SFKH ", ""),
    "pairs": ("", "x=1&", ""),
    "verbs": ("ibiurl.verblist=", "GetMetadata+", ""),
    "relations": ("", ".metadata(a)", ""),
    "open brackets": ("", "+(", ""),
    "languages": ("", "pt-BR;q=0.5,", ""),
    "subtags": ("", "a-", ""),
    "braces": ("a ", "{", ""),
    "words in braces": ("a {", "b ", "}"),
    "open brace": ("a {", "b ", ""),
    "blanks": ("a", " ", ""),
    "blanks and a fault": ("a", " ", "\x00"),
    "many pairs": ("", "\r\na b", ""),
    "same key": ("servicesubject=urlRequest&", "a=b&", ""),
    "long key": ("", "1234567890", "-"),
    "addresses": ("servicesubject=urlRequest&clientinformation.ipaddress=", "1.1.1.1+", ""),
}


def grown(shape: str, length: int) -> str:
    before, again, behind = SHAPES[shape]
    return before + again * (length // len(again)) + behind


@pytest.mark.long
@pytest.mark.proves("MSG-14", "URL-03", "GEN-10")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("parser", PARSERS)
def test_a_megabyte_is_refused_or_read_at_once(parser: str) -> None:
    for shape in SHAPES:
        read = attempt(PARSERS[parser], grown(shape, 1_000_000))
        if isinstance(read, ParseError):
            assert str(read), shape
            assert len(read.caret()) < 1000, shape


@pytest.mark.long
@pytest.mark.proves("MSG-14", "URL-03", "GEN-10")
@pytest.mark.parametrize("parser", PARSERS)
def test_effort_grows_no_faster_than_the_text(parser: str) -> None:
    """Calls, and letters handed around, stay within a constant times the length; what is quadratic needs a hundred
    times that near the limits of length."""
    for shape in SHAPES:
        for length in (100, 500, 2000, 4000, 7900):
            text = grown(shape, length)
            assert calls(PARSERS[parser], text) <= 500 + 25 * len(text), (shape, length)
            assert letters_seen(PARSERS[parser], text) <= 50_000 + 600 * len(text), (shape, length)
