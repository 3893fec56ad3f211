"""What Archives said, in words and as JSON: whole, of one round and of several; and where their URLs lead."""

from __future__ import annotations

import pytest

from ibi.errors import ForbiddenAddress, IbiError, PeerGarbled, PeerSilent, QueryNotSent, ResponseNotRead
from ibi.protocol.url_list import UrlList
from ibi.resolver.model.alert import in_english
from ibi.resolver.model.statements import (
    ArchiveStatement,
    RoundStatements,
    Statements,
    What,
    roots_of,
    silence,
)

IBI = "example.org/x/2020/01.02.00.00"
COPY = ArchiveStatement("a/b", "a.example:81", "copy", claimed_root="https://a.example")
SILENT = ArchiveStatement("c/d", "c.example", "silent", PeerSilent("no answer within {n} s", n=3))
FIRST = RoundStatements(1, IBI, ("GetLastEdition", "GetMetadata"), "", (COPY, SILENT), (("removed", 2),))
SECOND = RoundStatements(2, IBI, (), "/a.pdf", (), (("nothing known", 5), ("garbled", 1)))


@pytest.mark.parametrize(
    ("address", "claimed", "root"),
    [
        ("a.example:81", None, "http://a.example:81"),
        ("a.example", "", "http://a.example"),
        ("a.example:81", "https://a.example", "https://a.example"),
        ("a.example:81", "https://A.Example:444", "https://A.Example:444"),
        ("A.EXAMPLE", "http://a.example", "http://a.example"),
        ("a.example:81", "https://b.example", "http://a.example:81"),
        ("a.example", "https://a.example/x", "http://a.example"),
        ("a.example", "ftp://a.example", "http://a.example"),
    ],
)
def test_an_archive_may_claim_another_scheme_and_port_for_its_urls_but_no_other_host(
    address: str, claimed: str | None, root: str
) -> None:
    statement = ArchiveStatement("a/b", address, "copy", claimed_root=claimed)
    assert statement.root == root
    assert roots_of([statement, SILENT]) == ({} if claimed is None else {"a/b": root})


def test_of_an_answer_its_key_is_not_shown_and_what_decides_is_what_leads_somewhere() -> None:
    answer = UrlList(
        {
            "ibi": ("rep", IBI),
            "ibi.archiveservice": ("rep", IBI),
            "ibi.platformsoftware": ("rep", IBI),
            "edition.farthest": ("rep", IBI),
            "state": "Copy",
            "url.metadata": "http://a.example/m",
            "timestamp": "2020",
            "urlkey": "1234567890",
        }
    )
    shown = ArchiveStatement("a/b", "a.example", "copy", answer=answer)
    assert shown.pairs == {name: value for name, value in answer.pairs.items() if name != "urlkey"}
    assert shown.deciding == [
        ("ibi", f"rep {IBI}"),
        ("edition.farthest", f"rep {IBI}"),
        ("state", "Copy"),
        ("url.metadata", "http://a.example/m"),
    ]
    assert (COPY.pairs, COPY.deciding) == ({}, [])


def test_statements_are_told_to_people_and_programs_round_by_round() -> None:
    both, one = Statements((FIRST, SECOND)), Statements((FIRST,))
    named = [
        "  a/b: it holds a copy",
        "  c/d: no answer: no answer within 3 s",
        "  Others: 2: it says that the item was removed",
    ]
    assert one.lines(in_english) == named
    assert both.lines(in_english) == [
        f"Round 1: {IBI} GetLastEdition GetMetadata",
        *named,
        f"Round 2: {IBI} /a.pdf",
        "  Archives: 5: it does not know the item",
        "  Archives: 1: what it answered is not a valid answer",
    ]
    statements = [
        {"round": 1, "archive": "a/b", "says": "copy", "sentence": "it holds a copy", "why": ""},
        {
            "round": 1,
            "archive": "c/d",
            "says": "silent",
            "sentence": "no answer",
            "why": "no answer within 3 s",
        },
    ]
    others = [
        {"round": 1, "says": "removed", "sentence": "it says that the item was removed", "number": 2},
        {"round": 2, "says": "nothing known", "sentence": "it does not know the item", "number": 5},
        {"round": 2, "says": "garbled", "sentence": "what it answered is not a valid answer", "number": 1},
    ]
    assert both.as_dict(in_english) == {"statements": statements, "others": others}
    assert (both.named, both.roots) == (2, {"a/b": "https://a.example"})
    few = Statements((FIRST._replace(others=()),))
    assert few.as_dict(in_english) == {"statements": statements}


@pytest.mark.parametrize(
    ("why", "what"),
    [
        (QueryNotSent("x"), "not asked"),
        (ForbiddenAddress("x"), "not asked"),
        (ResponseNotRead("x"), "silent"),
        (PeerSilent("x"), "silent"),
        (PeerGarbled("x"), "garbled"),
        (IbiError("x"), "garbled"),
    ],
)
def test_why_an_archive_gave_no_answer_that_counts(why: IbiError, what: What) -> None:
    assert silence(why) == what
