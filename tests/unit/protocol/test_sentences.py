"""Every refusal of a text of the protocol: the whole sentence, and where it points."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from ibi.errors import ParseError
from ibi.protocol.extensions.holdings import HoldingsFilter
from ibi.protocol.language import canonical_language
from ibi.protocol.messages import read_request
from ibi.protocol.pair_list import read_pairs, write_pairs
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.query_string import escape, read_query, write_query
from ibi.protocol.relation import Relation, parse_verb
from ibi.protocol.replies import Confirmation
from ibi.protocol.verb_list import VerbList

SERVICE = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39"
ITEM = "LK47B6W/362SFKH"
KEY = "1234567890"
URL_REQUEST = {
    "servicesubject": "urlRequest",
    "clientinformation.ipaddress": "1.2.3.4",
    "parsedibiurl.ibi": ITEM,
}
ACKNOWLEDGMENT = {
    "servicesubject": "acknowledgment",
    "clientinformation.ipaddress": "1.2.3.4",
    "contenttype": "Data",
    "url": "http://a.example/x",
    "url.persistent": "http://b.example/y",
    "urlkey": KEY,
}
NOTIFICATION = {"servicesubject": "changeNotification", "ibi.archiveservice": SERVICE}
EXCLUSION = {
    "servicesubject": "exclusionRequest",
    "archiveaddress": "a.example",
    "archiveserviceibi": SERVICE,
    "archiveip": "1.2.3.4",
    "archiveprotocol": "HTTP",
    "archiveplatformversion": "1",
    "archiveadmemailaddress": "m@a.example",
    "registrationkey": KEY,
}
A_KEY = "a key is ten digits or more, perhaps twice with a hyphen between"
A_CHANGE = "a notification tells from 1 to 50 changed names, or has no such pair"
A_COUNT = "an acknowledgment counts from 1 to 100000 readers, and its id is a few digits"
AN_END = "an exclusion ends at a moment such as 2026-11-21T10:00:00Z, or never"
A_PATH = "a path starts with one slash and has no control characters"
A_MODIFIER = "a modifier is made of !, + and :, a language or format in brackets"
A_PARAMETER = "what stands in the brackets is no language and no metadata format"
A_COMPOSITION = "these steps cannot follow one another: see the fourteen compositions"
A_WORD = "a word of an answer is printable ASCII without blanks and braces"
A_QUERY = "a query has at most 16384 characters and 256 pairs"
A_PART = 'a part of a path is neither "." nor "..", and has no backslash and no line end'
ORIGINAL_ONLY = "the only state that can be required is Original"
STATE = "ibiurl.requireditemstatus"
A_FILTER = "its line and its bits do not fit together"


def _refusal(read: Callable[[], object]) -> ParseError:
    with pytest.raises(ParseError) as caught:
        read()
    return caught.value


@pytest.mark.parametrize("pairs", [URL_REQUEST, ACKNOWLEDGMENT, NOTIFICATION, EXCLUSION])
def test_each_pair_that_a_message_must_have_is_missed_by_its_name(pairs: dict[str, str]) -> None:
    read_request(write_query(pairs.items()))
    for name in pairs:
        without = {each: value for each, value in pairs.items() if each != name}
        for spoilt in (without, {**pairs, name: ""}, {**pairs, name: " "}):
            error = _refusal(partial(read_request, write_query(spoilt.items())))
            assert (error.what, error.text, str(error)) == ("request", "", f"the pair {name} is missing")


@pytest.mark.parametrize(
    ("pairs", "name", "value", "what", "text", "sentence"),
    [
        (URL_REQUEST, "servicesubject", "x", "request", "x", "no service knows this subject"),
        (URL_REQUEST, "parsedibiurl.filepath", "//a", "request", "//a", A_PATH),
        (URL_REQUEST, "parsedibiurl.filepath", "a\n", "request", "a\n", A_PATH),
        (ACKNOWLEDGMENT, "urlkey", "12", "key", "12", A_KEY),
        (ACKNOWLEDGMENT, "contenttype", "x", "request", "x", "the value is one of Data, Metadata"),
        (ACKNOWLEDGMENT, "state", "Deleted", "request", "Deleted", "no acknowledgment is sent for what was removed"),
        (ACKNOWLEDGMENT, "acknowledgment.count", "0", "request", "0 ", A_COUNT),
        (ACKNOWLEDGMENT, "acknowledgment.id", "x", "request", "1 x", A_COUNT),
        (ACKNOWLEDGMENT, "acknowledgment.id", "1" * 41, "request", "1 " + "1" * 41, A_COUNT),
        (NOTIFICATION, "changed", "", "request", "", A_CHANGE),
        (NOTIFICATION, "changed", " ", "request", " ", A_CHANGE),
        (NOTIFICATION, "changed", " ".join([ITEM] * 51), "request", " ".join([ITEM] * 51), A_CHANGE),
        (NOTIFICATION, "removed", ITEM, "request", ITEM, "what was removed is among what has changed"),
        (EXCLUSION, "archiveprotocol", "FTP", "request", "FTP", "HTTP is the only protocol"),
        (
            EXCLUSION, "archiveadmemailaddress", "m", "request", "m",
            "the address of the administrator is a mail address",
        ),
        (EXCLUSION, "archiveplatformversion", "é", "request", "é", "a platform version is a short line of ASCII"),
        (EXCLUSION, "archiveplatformversion", "\n1", "request", "\n1", "a platform version is a short line of ASCII"),
        (EXCLUSION, "registrationkey", "12", "key", "", A_KEY),
        (EXCLUSION, "exclusion.end", "soon", "request", "soon", AN_END),
    ],
)  # fmt: skip
def test_a_value_outside_its_domain_is_refused_in_its_own_words(
    pairs: dict[str, str], name: str, value: str, what: str, text: str, sentence: str
) -> None:
    error = _refusal(lambda: read_request(write_query({**pairs, name: value}.items())))
    assert (error.what, error.text, str(error)) == (what, text, sentence)


@pytest.mark.parametrize(
    ("read", "sentence", "start", "end"),
    [
        (lambda: read_query("&" * 256), A_QUERY, 0, 256),
        (lambda: read_request("a=1&a=2"), "this name is given twice", 0, 1),
        (lambda: read_pairs(b"a b\xe1c"), "only ASCII may stand in an answer", 3, 4),
        (lambda: read_pairs(b"a b c"), "a name and its value are expected here", 3, 5),
        (lambda: read_pairs(b"aa b aa c"), "this name is given twice", 5, 7),
        (lambda: write_pairs({"a": ("b", "c d")}), A_WORD, 0, 3),
        (lambda: HoldingsFilter.read(b"x"), "it does not begin with the line of a holdings filter", 0, 0),
        (lambda: HoldingsFilter.read(b"ibi-holdings 1 names=1 hashes=9 bits=8\n"), A_FILTER, 0, 0),
        (lambda: canonical_language("por"), "a language is two letters, perhaps with a country: pt or pt-BR", 0, 3),
        (lambda: parse_verb("Get"), "the verbs are GetLastEdition, GetTranslation, GetMetadata and GetFileList", 0, 3),
        (lambda: parse_verb("GetMetadata(a b)"), A_PARAMETER, 0, 16),
        (lambda: Relation.from_modifier("!x"), A_MODIFIER, 1, 2),
        (lambda: Relation.from_modifier("+!(x)"), A_PARAMETER, 1, 5),
        (lambda: Relation.from_modifier("::"), A_COMPOSITION, 0, 2),
        (lambda: VerbList.parse(" " * 513), "it is longer than 512 characters", 512, 513),
        (lambda: Confirmation.read(b"a b"), "this is not the reply that was expected", 0, 3),
        (
            lambda: PersistentURL.parse(f"/{ITEM}//a"),
            "after the identifier, a path starts with one slash and has no blanks", 16, 19,
        ),
        (lambda: PersistentURL.parse(f"/{ITEM}!!"), A_COMPOSITION, 16, 18),
        (lambda: PersistentURL.parse(f"/{ITEM}/a/../b"), A_PART, 19, 21),
        (lambda: PersistentURL.parse(f"/{ITEM}", "a=é"), "this character cannot stand in a URL as it is", 2, 3),
        (lambda: PersistentURL.parse(f"/{ITEM}", f"{STATE}=&{STATE}="), f"{STATE} is given twice", 0, 53),
        (lambda: PersistentURL.parse(f"/{ITEM}", f"{STATE}=Copy"), ORIGINAL_ONLY, 0, 30),
    ],
)  # fmt: skip
def test_a_fault_is_pointed_at(read: Callable[[], object], sentence: str, start: int, end: int) -> None:
    error = _refusal(read)
    assert (str(error), error.start, error.end) == (sentence, start, end)


def test_what_no_reply_and_no_value_can_be_is_quoted() -> None:
    assert _refusal(lambda: Confirmation.read(b"a b")).text == "a b"
    error = _refusal(lambda: escape("名"))
    assert (error.text, str(error)) == ("名", "a value is made of bytes, and this character is none")
