"""Identifiers out of the texts in which they live."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi, parse_name
from ibi.identifier.typos import MOST_TYPED, likely_spelling, near_names
from ibi.identifier.unwrapping import MAX_TEXT, Unwrapped, unwrap
from ibi.identifier.wrappers import before

WILD = Path(__file__).parents[3] / "conformance/wild/real_identifiers.jsonl"
RECORDS = [json.loads(line) for line in WILD.read_text(encoding="utf-8").splitlines()]
FOUND = [(record["ibi"], text) for record in RECORDS for text in record["found_as"]]

# The person's name in these three texts was replaced by "someone" where they were collected, but not in the identifier.
RENAMED = {"sid.inpe.br/marciana/2002/09.26.17.24", "sid.inpe.br/marciana/2004/10.07.14.05"}

# A link to a viewer names the viewer, the item to show, and where to return to. It is about the item to show (or, if
# no viewer is named, the first); all others are named too.
ALSO_THERE = {
    # the viewer itself
    "dpi.inpe.br/banon/2004/02.16.09.30.00",
    "sid.inpe.br/banon/2001/04.06.10.52.39",
    "sid.inpe.br/mtc-m18@80/2008/03.17.15.17.24",
    "urlib.net/www/2021/06.04.03.40.25",
    # the page of an item that passes on to another item
    "sid.inpe.br/banon/2002/09.23.16.10",
    # the value of lastupdate: where the catalogue entry was changed
    "cptec.inpe.br/walmeida/2003/04.25.17.12",
    "sid.inpe.br/banon/2001/03.30.15.38",
    "sid.inpe.br/banon/2001/04.06.10.52",
    "sid.inpe.br/bibdigital@80/2006/04.07.15.50",
    "sid.inpe.br/mtc-m18@80/2008/03.17.15.17",
    "sid.inpe.br/mtc-m19@80/2009/08.21.17.02",
    "sid.inpe.br/mtc-m21b/2013/09.26.14.25.20",
    # the metadata, or the mirror, of the item that the link is about
    "sid.inpe.br/mtc-m12e/2026/01.02.12.20.17",
    "sid.inpe.br/mtc-m21c/2019/05.16.15.18.01",
    "sid.inpe.br/mtc-m21c/2019/12.16.01.24.52",
    "sid.inpe.br/sibgrapi/2018/09.03.21.36.30",
    "sid.inpe.br/mtc-m19@80/2009/08.21.17.02.53",
    "urlib.net/www/2017/11.22.19.04.03",
    "urlib.net/www/2025/02.16.04.07.51",
}


def outcome(text: str) -> Unwrapped | ParseError:
    try:
        return unwrap(text)
    except ParseError as error:
        return error


def named(text: str) -> set[tuple[str, str]]:
    return {(kind, piece) for kind, piece in unwrap(text).wrappers}


# --- all that was found in the wild --------------------------------------------------------------------------------


@pytest.mark.proves("WILD-01")
def test_the_wild_is_whole() -> None:
    assert len(RECORDS) == 198
    assert len(FOUND) == 232
    assert {record["ibi"] for record in RECORDS} > ALSO_THERE | RENAMED


@pytest.mark.proves("WILD-01")
@pytest.mark.parametrize(("ibi", "text"), FOUND)
def test_every_text_of_the_wild_unwraps_to_its_identifier(ibi: str, text: str) -> None:
    found = unwrap(text)

    if ibi in RENAMED:
        assert str(found.ibi) == ibi.replace("marciana", "someone")
    elif ibi in ALSO_THERE:
        assert parse_name(ibi) in found.others
    else:
        assert found.ibi == parse_name(ibi)
    assert all(kind and piece for kind, piece in found.wrappers)


@pytest.mark.proves("WILD-01")
@pytest.mark.parametrize("ibi", sorted(ALSO_THERE))
def test_what_is_only_also_there_really_stands_beside_another(ibi: str) -> None:
    texts = [text for found, text in FOUND if found == ibi]
    assert texts
    assert all(unwrap(text).ibi != parse_name(ibi) for text in texts)


@pytest.mark.proves("WILD-01")
@pytest.mark.parametrize("ibi", [record["ibi"] for record in RECORDS])
def test_a_bare_identifier_has_nothing_to_take_off(ibi: str) -> None:
    assert unwrap(ibi) == (parse_name(ibi), "", (), ())


# --- each thing that is taken off has a name -----------------------------------------------------------------------


@pytest.mark.proves("WILD-01")
@pytest.mark.parametrize(
    ("text", "kind", "piece"),
    [
        ("http://urlib.net/8JMKD3MGP7W/385N5PE", "resolver address", "http://urlib.net/"),
        ("HTTPS://WWW.URLIB.NET:80/8JMKD3MGP7W/385N5PE", "resolver address", "HTTPS://WWW.URLIB.NET:80/"),
        ("urlib.net/8JMKD3MGP7W/385N5PE", "resolver address", "urlib.net/"),
        ("http://[::1]:8080/8JMKD3MGP7W/385N5PE", "archive address", "http://[::1]:8080/"),
        (
            "http://localhost:8080/sid.inpe.br/iris/2005/05.19.15.27",
            "archive address",
            "http://localhost:8080/",
        ),
        ("http://mtc-m16.sid.inpe.br/goto-/8JMKD3MGP7W/385N5PE", "archive path", "goto-/"),
        ("http://mtc-m16.sid.inpe.br/archive.cgi/8JMKD3MGP7W/385N5PE", "cgi wrapper", "archive.cgi/"),
        ("upn:9HFNHE-:QABCDSTQQW/4E7MG35/federatedArchives.txt", "upn", "upn:9HFNHE-:"),
        ("ibi:8JMKD3MGP7W/385N5PE", "ibi scheme", "ibi:"),
        ("sid.inpe.br/mtc-m19/2011/08.02.16.43-TDI)", "report code", "-TDI"),
        ("sid.inpe.br/mtc-m19/2011/08.02.16.43-TDI)", "punctuation", ")"),
        ("http://urlib.net/8JMKD3MGP7W/385N5PE#page=2", "fragment", "#page=2"),
        ("8JMKD3MGP7W/385N5PE&gt;", "entity", "&gt;"),
        ("sid.inpe.br&#47;iris/2005/05.19.15.27", "entity", "&#47;"),
        ("8JMKD3MGP7W\u200b/385N5PE", "invisible characters", "\u200b"),
        ("sid.inpe.br%2Fmtc-m18%4080%2F2008%2F03.17.15.17", "percent encoding", "%2F %40"),
        ("sid.inpe.br%252Fmtc-m18%252F2008%252F03.17.15.17", "percent encoding", "%2F"),
        ("sid.inpe.br/ePrint@1905            /2005/10.26.13.54", "blanks", " " * 12),
        ("8JMKD3MGP3W34P/3JJ\n  UR2L", "line break", "\n  "),
        ("sid.inpe.br/mtc-m18/2008/03.17.\r\n15.17", "blanks", "\r\n"),
        (
            "https://x.example/?sl=pt&u=http://urlib.net/8JMKD3MGP7W/385N5PE",
            "wrapper site",
            "https://x.example/?sl=pt&",
        ),
        ("see 8JMKD3MGP7W/385N5PE, please", "words", "see"),
        ("see 8JMKD3MGP7W/385N5PE, please", "words", "please"),
        ("8JMKD3MGP7W/385N5PE: a title", "punctuation", ":"),
        ("../../../sid.inpe.br/iris/2005/05.19.15.27/doc/x.pdf", "relative path", "../../../"),
        ("sid.inpe.br/mtc-m18/2012/07.12.18.08+{D+2015}", "words", "+{D+2015}"),
        ("http://a.example/col/sid.inpe.br/iris/2005/05.19.15.27/doc/x.pdf", "archive path", "/doc"),
        ("http://a.example/col/sid.inpe.br/iris/2005/05.19.15.27/x/y.pdf", "archive path", "/x/y.pdf"),
    ],
)
def test_each_thing_taken_off_is_named(text: str, kind: str, piece: str) -> None:
    assert (kind, piece) in named(text)


@pytest.mark.proves("WILD-01", "URL-01")
@pytest.mark.parametrize(
    ("text", "ibi", "after"),
    [
        ("http://urlib.net/J8LNKB5R7W/3G2EKR5!:(oai_dc)", "J8LNKB5R7W/3G2EKR5", "!:(oai_dc)"),
        ("http://urlib.net/J8LNKB5R7W/3G2EKR5%21%3A", "J8LNKB5R7W/3G2EKR5", "%21%3A"),
        ("8JMKD3MGP7W/385N5PE??", "8JMKD3MGP7W/385N5PE", "??"),
        ("is it 8JMKD3MGP7W/385N5PE?", "8JMKD3MGP7W/385N5PE", ""),
        ("(8JMKD3MGP7W/385N5PE/a/b(1).pdf).", "8JMKD3MGP7W/385N5PE", "/a/b(1).pdf"),
        (
            "http://a.example/col/sid.inpe.br/iris/2005/05.19.15.27/doc/x/y.pdf",
            "sid.inpe.br/iris/2005/05.19.15.27",
            "/x/y.pdf",
        ),
        ("http://a.example/col/sid.inpe.br/iris/2005/05.19.15.27/", "sid.inpe.br/iris/2005/05.19.15.27", ""),
        (
            "http://marte.sid.inpe.br/dpi.inpe.br/sbsr@80/2006/11.12.23.09.50:(BibINPE)?ibiurl.backgroundlanguage=en",
            "dpi.inpe.br/sbsr@80/2006/11.12.23.09.50",
            ":(BibINPE)?ibiurl.backgroundlanguage=en",
        ),
        ("8JMKD3MGP7W/385N5PE:!", "8JMKD3MGP7W/385N5PE", ":!"),  # no such modifier, but meant as one
        ("8JMKD3MGP7W/385N5PE: a title", "8JMKD3MGP7W/385N5PE", ""),
        ("8JMKD3MGP7W/385N5PE:", "8JMKD3MGP7W/385N5PE", ":"),
        ("8JMKD3MGP7W/385N5PE!: a title", "8JMKD3MGP7W/385N5PE", "!:"),
        ("see <http://urlib.net/8JMKD3MGP7W/385N5PE!> there", "8JMKD3MGP7W/385N5PE", "!"),
        ("\u201c8JMKD3MGP7W/385N5PE:\u201d", "8JMKD3MGP7W/385N5PE", ":"),
        ("<8JMKD3MGP7W/385N5PE!+(en)>", "8JMKD3MGP7W/385N5PE", "!+(en)"),
        ("look at 8JMKD3MGP7W/385N5PE! It is there", "8JMKD3MGP7W/385N5PE", ""),
        ("http://urlib.net/urlib.net/www/2021/06.04.03.40.25", "urlib.net/www/2021/06.04.03.40.25", ""),
        ("http://urlib.net/www/2021/06.04.03.40.25", "urlib.net/www/2021/06.04.03.40.25", ""),
        ("mx/face/2020/01.02.03.04", "mx/face/2020/01.02.03.04", ""),  # "mx/face" is an IBIp of no address
        ("br/www/2009/09.09.22.01", "br/www/2009/09.09.22.01", ""),
        ("http://urlib.net/new/page", "new/page", ""),
        ("sid.inpe.br/mtc-m18/2009/02.16.17.46.05.250", "sid.inpe.br/mtc-m18/2009/02.16.17.46.05.250", ""),
        ("dpi.inpe.br/banon/2004/02.16.09.30.00", "dpi.inpe.br/banon/2004/02.16.09.30.00", ""),
        ("sid.INPE.br/MTC-m18@80/2008/03.17.15.17", "sid.INPE.br/MTC-m18@80/2008/03.17.15.17", ""),
    ],
)
def test_what_follows_an_identifier_stays_raw(text: str, ibi: str, after: str) -> None:
    found = unwrap(text)
    assert (str(found.ibi), found.after) == (ibi, after)


def nearest_spelling(text: str) -> str | None:
    try:
        return str(unwrap(text).ibi)
    except ParseError as error:
        return error.suggestion


@pytest.mark.proves("URL-03", "AMB-38")
def test_words_of_an_ordinary_address_are_no_ibip() -> None:
    assert nearest_spelling("http://archive.example/new/page") is None
    assert str(unwrap("http://archive.example/new/8JMKD3MGP7W/385N5PE").ibi) == "8JMKD3MGP7W/385N5PE"


# --- typing errors -------------------------------------------------------------------------------------------------


@pytest.mark.proves("WILD-01", "GEN-61")
@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("sid.inpe.br/mtc-m18/2009/O2.I6.l7.46", "sid.inpe.br/mtc-m18/2009/02.16.17.46"),
        ("sid.inpe.br\\mtc-m18\\2009\\02.16.17.46", "sid.inpe.br/mtc-m18/2009/02.16.17.46"),
        ("sid.inpe.br//mtc-m18//2009/02.16.17.46", "sid.inpe.br/mtc-m18/2009/02.16.17.46"),
        ("sid.inpe.br/mtc-m18/2009/2.16.17.46", "sid.inpe.br/mtc-m18/2009/02.16.17.46"),
        ("sid.inpe.br/mtc-m18/2009/02.16.17.46.5", "sid.inpe.br/mtc-m18/2009/02.16.17.46.05"),
        ("sid.inpe.br/mtc-m18/2009.02.16.17.46", "sid.inpe.br/mtc-m18/2009/02.16.17.46"),
        ("sid.inpe.br/mtc-m18/2009/02/16/17/46", "sid.inpe.br/mtc-m18/2009/02.16.17.46"),
        ("sid.inpe.br/mtc-m18/2009-02-16 17:46", "sid.inpe.br/mtc-m18/2009/02.16.17.46"),
        ("sid.inpe.br/mtc-m18/2009/0216.1746", "sid.inpe.br/mtc-m18/2009/02.16.17.46"),
        ("sid.inpe.br/mtc-m182009/02.16.17.46", "sid.inpe.br/mtc-m18/2009/02.16.17.46"),
        ("sid.inpe.br/mtc\u2013m18/2009/02.16.17.46", "sid.inpe.br/mtc-m18/2009/02.16.17.46"),
        (
            "http://urlib.net/rep/sid.inpe.br/mtc-m18/2009/O2.16.17.46!:",
            "sid.inpe.br/mtc-m18/2009/02.16.17.46",
        ),
        ("(sid.inpe.br/mtc-m18/2009/2.16.17.46).", "sid.inpe.br/mtc-m18/2009/02.16.17.46"),
        ("8JMKD3MGP7W\\385N5PE", "8JMKD3MGP7W/385N5PE"),
        ("8JMKD3MGP7W 385N5PE", "8JMKD3MGP7W/385N5PE"),
        ("8JMKD3MGP7W385N5PE", "8JMKD3MGP7W/385N5PE"),
        ("8JMKD3MGP3W34P3JJUR2L", "8JMKD3MGP3W34P/3JJUR2L"),
        ("8JMKD3MGP7V/385N5PE", "8JMKD3MGP7W/385N5PE"),
        ("J8LNKB5R7W/3G2EKV5", "J8LNKB5R7W/3G2EKU5"),
        ("J81NKB5R7W/3G2EKR5", "J8LNKB5R7W/3G2EKR5"),
        ("J8INKB5R7W/3G2EKR5", "J8LNKB5R7W/3G2EKR5"),
        ("J8LNKB5R7W/3GZEKR5", "J8LNKB5R7W/3G2EKR5"),
        ("\uff2a8LNKB5R7W\uff0f3G2EKR5", "J8LNKB5R7W/3G2EKR5"),
        ("sid.inpe.br/mtc-m19/2011/08.02.16.43-RPQ", "sid.inpe.br/mtc-m19/2011/08.02.16.43"),
        ("J8LNKB5R7W/3G2EKR5", "J8LNKB5R7W/3G2EKR5"),
    ],
)
def test_a_slip_with_one_plausible_reading_is_understood(slip: str, meant: str) -> None:
    assert nearest_spelling(slip) == meant


@pytest.mark.proves("WILD-01", "GEN-61")
@pytest.mark.parametrize(
    "text",
    [
        "J8LNKB5R7W/3G2EKO5",  # Q or D
        "J8LNKB5R7W/3G2EKY5",  # nothing looks like Y
        "J8LNKB5R7W/OOOOOOO",
        "sid.inpe.br/mtc-m18:80/2009/02.16.17.46",  # "@80" or ".80": two names
        "sid.inpe.br/mtc-m18/2009/O2.30.17.46",  # no such day
        "sid.inpe.br/mtc-m18/2009/2.16",
        "sid.inpe.br/mtc-m18/1066/O2.16.17.46",
        "6RPa7uma/UaJFT",
        "hello world",
        "http://archive.example/",
        "",
        "0" * 300,
    ],
)
def test_no_guess_is_made_where_there_are_two_readings_or_none(text: str) -> None:
    assert nearest_spelling(text) is None


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("see http://urlib.net/rep/sid.inpe.br/mtc-m18/2009/O2.16.17.46.", 50, 61),
        ("http://urlib.net/J8LNKB5R7W/3G2EKO5", 33, 34),
        ("sid.inpe.br/mtc_m18/2009/02.16.17.46", 15, 16),
        ("http://archive.example/new/page", 23, 31),
        ("hello world", 0, 11),
        ("", 0, 0),
    ],
)
def test_the_caret_stands_under_the_fault_in_the_text_that_was_given(text: str, start: int, end: int) -> None:
    with pytest.raises(ParseError) as caught:
        unwrap(text)
    assert (caught.value.what, caught.value.text) == ("IBI", text)
    assert (caught.value.start, caught.value.end) == (start, end)


# --- hostile texts -------------------------------------------------------------------------------------------------


def test_a_text_that_is_too_long_is_refused_unread() -> None:
    assert unwrap("8JMKD3MGP7W/385N5PE".ljust(MAX_TEXT))
    with pytest.raises(ParseError, match="longer than 4096 characters"):
        unwrap("8JMKD3MGP7W/385N5PE".ljust(MAX_TEXT + 1))


@pytest.mark.parametrize(
    "piece",
    ["a", "a.", "a-", "a/", "aW/", "2W", "aZ", "aXb", "1.", "&", "&#47;", "%41", "%25", " ", "a ", "\n", "/", "../",
     "(", "x=", "http://", "http://a/", "ibi:", "upn:a:", "col/", "a.cgi/", "sid.inpe.br/a/2009/02.16.17.46 ",
     "8JMKD3MGP7W/385N5PE/", "2009/02.16.17.46", "\\", "\u00e9", "\u200b", "[", "a@1/", "aW/a\n"],
)  # fmt: skip
@pytest.mark.parametrize("around", ["", "8JMKD3MGP7W/385N5PE"])
def test_repetition_makes_no_text_strange_and_nothing_hang(piece: str, around: str) -> None:
    text = (piece * MAX_TEXT)[: MAX_TEXT - 2 * len(around)]
    for hostile in (text, around + text, text + around, around + text + around):
        found = outcome(hostile)
        if isinstance(found, ParseError):
            assert found.caret()
        else:
            assert str(found.ibi) in hostile.replace("\u200b", "")


PIECES = st.sampled_from(
    ["8JMKD3MGP7W", "385N5PE", "sid.inpe.br", "mtc-m18@80", "2009", "02.16.17.46", ".05", "/", "!", "+", ":", "?", "&",
     "=", "(oai_dc)", "%2F", "%", "&gt", " ", "\n", "http://", "urlib.net", "/col/", "/doc/", "a.cgi/", "upn:X:",
     "ibi:", "-TDI", ")", "(", "6RPa7umaZ/UaJFT", "O", "I", "\\", "\u00e9", "\x00", "\ud800", "metadatarepository=",
     "mirrorget.cgi?"]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=12).map("".join))


@given(TEXTS)
def test_any_text_is_an_identifier_or_the_one_parse_error(text: str) -> None:
    found = outcome(text)
    if isinstance(found, ParseError):
        assert found.text == text
        assert found.suggestion is None or nearest_spelling(found.suggestion) == found.suggestion
        return
    assert parse_name(str(found.ibi)) == found.ibi
    assert found.ibi not in found.others
    assert unwrap(str(found.ibi) + found.after).ibi == found.ibi


@pytest.mark.parametrize("number", [1, 23, 24, 25, 30])
def test_two_dozen_nested_wrappers_are_told_apart_and_the_rest_stays_in_one_piece(number: int) -> None:
    kinds = [wrapper.kind for wrapper in before("col/" * number)]
    assert kinds == ["wrapper site"] * (number > 24) + ["archive path"] * min(number, 24)


# --- typing errors: characters that look alike, and years in which a label can have been made ---

LABEL = "sid.inpe.br/mtc-m18@80/2009/02.16.17.46"


@pytest.mark.parametrize(
    ("plain", "twins"),
    [
        ("/", "\\\u2044\u2215\u2571\uff0f"),
        ("-", "\u2010\u2011\u2012\u2013\u2014\u2212\uff0d"),
        (".", "\u2024\u00b7\u2022\u3002\uff0e"),
        ("@", "\uff20"),
        ("s", "\uff53"),
        ("2", "\uff12"),
    ],
)
def test_a_character_that_looks_like_another_is_read_as_that(plain: str, twins: str) -> None:
    for twin in twins:
        assert likely_spelling(LABEL.replace(plain, twin)) == LABEL, ascii(twin)
    assert likely_spelling(LABEL.replace(plain, "\u2023")) is None


@pytest.mark.parametrize(
    ("year", "meant"), [("1994", False), ("1995", True), ("2099", True), ("2100", False)]
)
def test_a_label_is_guessed_only_of_a_year_in_which_it_can_have_been_made(year: str, meant: bool) -> None:
    typed = LABEL.replace("2009", year.replace("0", "O").replace("1", "l"))
    assert likely_spelling(typed) == (LABEL.replace("2009", year) if meant else None)


MEANT = "8JMKD3MGP8W/4D7L2QE"
MEANT_NAME = "dpi.inpe.br/banon/1998/08.02.08.56"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("8JMKD3MGP8W/4D7L2Q", MEANT),
        ("8JMKD3MGP8W/4D7LQ2E", MEANT),
        ("8JMKD3MGP8W/4D7L2QF", MEANT),
        ("8JMKD3MGP8W/4D7L22QE", MEANT),
        ("8JMKD3MPG8W/4D7L2QE", MEANT),
        ("dpi.inpe.br/banon/1998/08.02.08.65", MEANT_NAME),
        ("dpi.inpe.br/banon/1989/08.02.08.56", MEANT_NAME),
        ("DPI.inpe.br/banon/1998/08.12.08.56", MEANT_NAME),
    ],
)
def test_a_name_is_one_typing_error_from_what_was_meant(typed: str, meant: str) -> None:
    assert meant in near_names(parse_ibi(typed))


def test_near_names_are_few_and_never_the_name_itself() -> None:
    for text in (MEANT, MEANT_NAME):
        found = list(near_names(parse_ibi(text)))
        assert text not in found
        assert len(found) < 1500
    long = "2" * (MOST_TYPED + 1)
    assert all(each.endswith(f"/{long}") for each in near_names(parse_ibi(f"8JMKD3MGP8W/{long}")))
    assert list(near_names(parse_name("83LX3pFwXQZeBBx/BbsHa"))) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("8JMKD3MGP8W/34PGRBS", 1016),
        (f"8JMKD3MGP8W/2W{'3' * (MOST_TYPED - 2)}", 1904),
        (f"8JMKD3MGP8W/2W{'3' * (MOST_TYPED - 1)}", 605),  # errors in its first word alone
        (f"{'8' * (MOST_TYPED - 1)}W/2", 1379),
        (f"{'8' * MOST_TYPED}W/2", 81),
        ("a.br/b/2009/02.16.17.46.05.1234", 184),
        ("a.br/b/2009/02.16.17.46.05.12345", 0),
    ],
)
def test_so_many_errors_are_made_up_and_none_in_a_long_part(text: str, count: int) -> None:
    assert len(list(near_names(parse_ibi(text)))) == count


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("02161746", "02.16.17.46"),
        ("0216174605", "02.16.17.46.05"),
        ("021617460", None),
        ("2.16.17.46", "02.16.17.46"),
        ("02.16.17.46.5", "02.16.17.46.05"),
        ("02.16.17.046", None),
        ("02.16.17.46.05.1", None),
        ("02.16.17", None),
    ],
)
def test_the_date_of_a_name_may_be_written_otherwise(written: str, meant: str | None) -> None:
    start = "sid.inpe.br/mtc-m18/2009/"
    assert likely_spelling(f"{start} {written}") == (f"{start}{meant}" if meant else None)


NAME = "sid.inpe.br/mtc-m18/2009/02.16.17.46"


@pytest.mark.parametrize("times", range(4))
def test_a_link_is_read_that_was_escaped_at_most_twice(times: int) -> None:
    written = NAME
    for _ in range(times):
        written = quote(written, safe="")
    try:
        found = str(unwrap(f"http://x.example/?u={written}").ibi)
    except ParseError:
        found = ""
    assert found == (NAME if times <= 2 else "")


@pytest.mark.parametrize(
    ("text", "ibi"),
    [
        ("8JMKD3MGP8W/34PGR\nBS", "8JMKD3MGP8W/34PGRBS"),
        ("8JMKD3MGP8W/34PGR\nB", "8JMKD3MGP8W/34PGRB"),
        ("8JMKD3MGP8W/34PGR\nBSS", "8JMKD3MGP8W/34PGR"),
        ("8JMKD3MGP8W/34PGRB\nS", "8JMKD3MGP8W/34PGRB"),  # long enough, so that the next line is another word
    ],
)
def test_a_label_goes_on_in_the_next_line_only_if_it_is_too_short(text: str, ibi: str) -> None:
    assert str(unwrap(text).ibi) == ibi


def test_a_label_is_guessed_also_where_no_digit_stands() -> None:
    with pytest.raises(ParseError) as raised:
        unwrap("CCNDRGLUUHW AAAAAAA")
    assert (str(raised.value), raised.value.suggestion) == (
        "there is no IBI in this text",
        "CCNDRGLUUHW/AAAAAAA",
    )


@pytest.mark.parametrize(("start", "digit"), [(f"{NAME}.05.", "1"), ("8JMKD3MGP8W/2W", "3")])
def test_the_longest_label_is_found_and_a_longer_one_is_none(start: str, digit: str) -> None:
    longest = start.ljust(512, digit)
    assert str(unwrap(longest).ibi) == longest
    with pytest.raises(ParseError, match="longer than 512 characters"):
        unwrap(longest + digit)


def test_a_name_begins_right_after_the_slash_of_what_is_none() -> None:
    """`2X3/8JMKD3MGP8W34P` has the form of an IBIp, and spells no address: the name begins with its second half."""
    assert str(unwrap("see 2X3/8JMKD3MGP8W34P/385N5PE").ibi) == "8JMKD3MGP8W34P/385N5PE"
