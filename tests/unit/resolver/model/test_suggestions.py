"""What a reader is told of a request as it was understood, and where else to look: all of it, word for word."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest

from ibi.errors import IbiError
from ibi.protocol.messages import ArchiveTitles
from ibi.resolver.model.alert import in_english
from ibi.resolver.model.suggestion import (
    LONGEST_URL,
    ParsedRequest,
    Responsible,
    SuggestedLink,
    Suggestions,
    parse_request,
)

IBI = "8JMKD3MGP8W/35MMLL8"
NAMED = "2009-07-21T14:43:00Z"
LIST = "ibiurl.verblist=GetFileList"


def parsed(rest: str) -> ParsedRequest:
    found = parse_request(f"http://urlib.net/{IBI}{rest}")
    assert found is not None
    return found


def facts(**other: Any) -> dict[str, Any]:
    return {
        "ibi": IBI, "named_on": NAMED, "relation": [], "file": None, "file_list": False,
        "original_required": False, **other,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rest", "words", "described"),
    [
        ("", [], facts()),
        (
            "!+(pt):(bibtex)/a%20b.pdf?x=1&ibiurl.requireditemstatus=Original",
            [
                "the last edition",
                "the translation into: PT",
                "the metadata in the format bibtex",
                "the file a%20b.pdf",
                "the original, never a copy",
            ],
            facts(
                relation=[
                    {"what": "last edition", "parameter": None},
                    {"what": "translation", "parameter": "pt"},
                    {"what": "metadata", "parameter": "bibtex"},
                ],
                file="a%20b.pdf",
                original_required=True,
            ),
        ),
        (
            f"+?{LIST}",
            ["the translation into the language of your browser", "the list of files"],
            facts(relation=[{"what": "translation", "parameter": None}], file_list=True),
        ),
        (":", ["the metadata"], facts(relation=[{"what": "metadata", "parameter": None}])),
    ],
)
def test_what_a_url_asks_for(rest: str, words: list[str], described: dict[str, Any]) -> None:
    found = parsed(rest)
    assert (found.root, found.ibi, found.named_on) == ("http://urlib.net", IBI, NAMED)
    assert found.words(in_english, str.upper) == words
    assert found.as_dict() == described


@pytest.mark.parametrize(
    ("rest", "changes", "path"),
    [
        ("!/a.pdf?x=1", {}, "!/a.pdf?x=1"),
        ("!/a.pdf?x=1", {"steps": ()}, "/a.pdf?x=1"),
        ("!/a.pdf?x=1", {"file": False}, "!"),
        ("!/a.pdf?x=1", {"file_list": True}, f"!/a.pdf?{LIST}&x=1"),
        (f"!?{LIST}", {}, f"!?{LIST}"),
        (f"!?{LIST}", {"file_list": False}, "!"),
    ],
)
def test_a_url_of_the_same_item(rest: str, changes: dict[str, Any], path: str) -> None:
    assert parsed(rest).path(**changes) == f"/{IBI}{path}"


@pytest.mark.parametrize("text", ["nothing", "", f"http://urlib.net/{IBI}/../x y"])
def test_what_is_no_persistent_url(text: str) -> None:
    assert parse_request(text) is None


HELPFUL = Suggestions(
    parsed("!"),
    (SuggestedLink("the item", "/x"), SuggestedLink("elsewhere", "http://a/")),
    (IbiError("it has {n}", n=1),),
    (Responsible("a/b", "a.example", "m@a"), Responsible("c/d", "c.example", "")),
    0,
    ("m@a", "n+é@b"),
)


def test_what_may_help_is_told_to_people_and_programs() -> None:
    assert HELPFUL.as_dict(in_english) == {
        "asked": facts(relation=[{"what": "last edition", "parameter": None}]),
        "offer_nothing": 0,
        "ways": [
            {"title": "the item", "url": "http://urlib.net/x"},
            {"title": "elsewhere", "url": "http://a/"},
        ],
        "slips": ["it has 1"],
        "responsible": [{"service_ibi": "a/b", "mail": "m@a"}],
    }
    assert HELPFUL.lines(in_english) == [
        f"It was understood as: {IBI}, the last edition",
        "Perhaps a typing error: it has 1",
        "the item: http://urlib.net/x",
        "elsewhere: http://a/",
        "Person in charge of a/b: m@a",
    ]


def test_where_nothing_helps_only_the_request_is_told() -> None:
    nothing = Suggestions(parsed(""))
    assert nothing.as_dict(in_english) == {"asked": facts()}
    assert nothing.lines(in_english) == [f"It was understood as: {IBI}, the item itself"]
    assert nothing.letter("x", in_english) == ""


def test_a_letter_starts_with_what_its_reader_needs() -> None:
    letter = HELPFUL.letter("Not found", in_english)
    assert letter.startswith(
        "mailto:m@a,n+%C3%A9@b?subject=Not%20found%3A%208JMKD3MGP8W%2F35MMLL8&body=This%20persist"
    )
    assert "/" not in letter.partition("&body=")[2]
    assert unquote(letter.partition("&body=")[2]) == (
        f"This persistent URL did not lead me to its item:\r\nhttp://urlib.net/{IBI}!\r\n\r\nNot found\r\n\r\n"
        "What I expected to find:\r\n"
    )
    long = Suggestions(parsed("/" + "x" * LONGEST_URL), to=("a@b",)).letter("", in_english)
    url = unquote(long.partition("&body=")[2]).split("\r\n")[1]
    assert (len(url), url[-1]) == (LONGEST_URL, "x")


def test_an_archive_is_called_by_its_name_in_the_language_of_the_page() -> None:
    named = Responsible("a/b", "a.example", "", ArchiveTitles("The Archive", "O Arquivo"))
    assert (named.shown("en"), named.shown("pt-BR")) == ("The Archive", "O Arquivo")
    assert Responsible("a/b", "a.example", "").shown("en") == "a.example"
