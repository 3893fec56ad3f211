"""What stands around an identifier is split into its pieces, whole."""

from __future__ import annotations

import pytest

from ibi.identifier.wrappers import Wrapper, before, behind

PARAMETER, CGI = Wrapper("query parameter", "ibi="), Wrapper("cgi wrapper", "x.cgi?a=")
SITE, SITE_WITH_QUERY = Wrapper("wrapper site", "http://x/y/"), Wrapper("wrapper site", "x?y=")
RELATIVE, STORED = Wrapper("relative path", "../"), Wrapper("archive path", "col/")
BRACKET = Wrapper("punctuation", "(")
Pieces = list[tuple[str, str]]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("word", [("words", "word")]),
        ("word ", [("words", "word")]),
        ("(", [("punctuation", "(")]),
        ("?", [("punctuation", "?")]),
        ("/", [("punctuation", "/")]),
        ("a/b", [("wrapper site", "a/b")]),
        ("see 12/", [("words", "see"), ("wrapper site", "12/")]),
        ("see abc?", [("words", "see"), ("wrapper site", "abc?")]),
        ("see ftp://x/", [("words", "see"), ("wrapper site", "ftp://x/")]),
        ("x y/z ", [("words", "x y/z")]),
        ("see .cgi?x=", [("words", "see"), ("cgi wrapper", ".cgi?"), ("query parameter", "x=")]),
        (
            "see http://archive.example/y.cgi?ibi=",
            [("words", "see"), ("cgi wrapper", "http://archive.example/y.cgi?"), ("query parameter", "ibi=")],
        ),
    ],
)
def test_what_stands_before_is_split_from_left_to_right(text: str, pieces: Pieces) -> None:
    assert before(text) == pieces


@pytest.mark.parametrize(
    ("text", "ahead", "url", "pieces"),
    [
        # Further parameters of a query, and the same characters where there is none.
        ("&x=1 end", [PARAMETER], "", [("query parameter", "&x=1 end")]),
        ("& and more", [PARAMETER], "", [("query parameter", "& and more")]),
        ("+more", [PARAMETER], "", [("query parameter", "+more")]),
        (" ...", [PARAMETER], "", [("punctuation", "...")]),
        ("&lang=pt words", [CGI], "", [("query parameter", "&lang=pt words")]),
        ("&x", [SITE_WITH_QUERY], "", [("query parameter", "&x")]),
        ("&lang=pt", [SITE], "", [("words", "&lang=pt")]),
        ("&x=1", [], "", [("words", "&x=1")]),
        ("+more", [], "", [("words", "+more")]),
        # Modifiers, and marks of the sentence.
        ("!", [], "!", []),
        ("!:", [], "!:", []),
        ("%3A%28pt%29", [], "%3A%28pt%29", []),
        (": next", [], "", [("punctuation", ":"), ("words", "next")]),
        ("! next", [], "", [("punctuation", "!"), ("words", "next")]),
        (':"', [], ":", [("punctuation", '"')]),
        ("!>", [], "!", [("punctuation", ">")]),
        ("!).", [], "!", [("punctuation", ").")]),
        (":(pt)).", [], ":(pt)", [("punctuation", ").")]),
        ("??", [], "??", []),
        ("?", [], "", [("punctuation", "?")]),
        ("?!", [], "", [("punctuation", "?!")]),
        ("...", [], "", [("punctuation", "...")]),
        ("*]", [], "", [("punctuation", "*]")]),
        (" more, and 3", [], "", [("words", "more, and 3")]),
        # Characters that no URL has, right behind a mark.
        ("+{x}", [], "", [("words", "+{x}")]),
        ("+`x", [], "", [("words", "+`x")]),
        ("/a+{x}", [], "/a+", [("words", "{x}")]),
        ("?a=1|b", [], "?a=1", [("words", "|b")]),
        # Paths and their brackets.
        ("(x)", [], "", [("words", "(x)")]),
        ("/a(b)", [], "/a(b)", []),
        ("/a(b))", [], "/a(b)", [("punctuation", ")")]),
        ("/a)", [], "/a", [("punctuation", ")")]),
        ("/a:", [], "/a", [("punctuation", ":")]),
        ("?b!", [], "?b", [("punctuation", "!")]),
        ("#frag more", [], "", [("fragment", "#frag"), ("words", "more")]),
        # Codes of reports.
        ("-BR/x", [], "/x", [("report code", "-BR")]),
        ("-BR) x", [], "", [("report code", "-BR"), ("punctuation", ")"), ("words", "x")]),
        ("-br", [], "", [("words", "-br")]),
        # Behind a folder of an Archive, the path leads to a file of the item, if that is the last piece before.
        ("/doc/a.pdf", [STORED], "/a.pdf", [("archive path", "/doc")]),
        ("/x/y?z", [STORED], "?z", [("archive path", "/x/y")]),
        ("/doc/a.pdf#x", [STORED], "/a.pdf", [("archive path", "/doc"), ("fragment", "#x")]),
        ("/2009/", [RELATIVE], "", [("archive path", "/2009/")]),
        ("/doc/a.pdf", [SITE, STORED], "/a.pdf", [("archive path", "/doc")]),
        ("/doc/a.pdf", [STORED, BRACKET], "/doc/a.pdf", []),
    ],
)
def test_what_stands_behind_is_the_rest_of_a_url_and_pieces(
    text: str, ahead: list[Wrapper], url: str, pieces: Pieces
) -> None:
    assert behind(text, ahead) == (url, pieces)
