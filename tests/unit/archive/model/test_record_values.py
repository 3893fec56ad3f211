"""Values as other systems write them: dates, people with an ORCID or a role, licences, and what no calendar has."""

from __future__ import annotations

import pytest

from ibi.archive.model.item import MetadataValue
from ibi.archive.model.record_values import (
    ADVISER,
    Author,
    Source,
    as_adviser,
    author,
    contributor,
    date_in,
    day_of,
    doi_address,
    impossible_dates,
    is_impossible,
    licence_among,
    name_in,
)

ORCID, OTHER = "0000-0002-1825-0097", "0000-0002-1694-233X"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("see 8JMKD3MGP8W/35MME4E", "8JMKD3MGP8W/35MME4E"),
        ("http://urlib.net/dpi.inpe.br/x/2006/11.15.22.53", "dpi.inpe.br/x/2006/11.15.22.53"),
        ("6RPa7umaZ/UaJFT", "6RPa7umaZ/UaJFT"),
        ("PUBLIC/2345", None),
        ("nothing", None),
        ("x" * 100_000, None),
    ],
)
def test_a_name_is_found_in_a_text_unless_it_may_be_two_words(text: str, name: str | None) -> None:
    found = name_in(text)
    assert (found and str(found)) == name


@pytest.mark.parametrize(
    ("text", "language", "day"),
    [
        ("2026-03-12", "", "2026-03-12"),
        (" 2026-03 ", "", "2026-03"),
        ("2026", "", "2026"),
        ("2026/3/2", "", "2026-03-02"),
        ("2026-03-12T10:00:00Z", "", "2026-03-12"),
        ("2026/2027", "", "2026"),
        ("12/03/2026", "", "2026-03-12"),
        ("12/03/2026", "en-US", "2026-12-03"),
        ("13/03/2026", "EN-us", "2026-03-13"),
        ("03/13/2026", "", "2026-03-13"),
        ("3/2026", "", "2026-03"),
        ("12.3.2026 at noon", "", "2026-03-12"),
        ("12 de março de 2026", "", "2026-03-12"),
        ("1º de maio de 2026", "", "2026-05-01"),
        ("janeiro de 2026", "", "2026-01"),
        ("dez. 2026", "", "2026-12"),
        ("March 2nd, 2026", "", "2026-03-02"),
        ("Sep 30 2026", "", "2026-09-30"),
        ("29/02/2024", "", "2024-02-29"),
        ("29/02/2026", "", None),
        ("13/13/2026", "", None),
        ("2026-00", "", None),
        ("2026-00-03", "", None),
        ("2026-13", "", None),
        ("0000", "", None),
        ("12 de brumário de 2026", "", None),
        ("about 2026", "", None),
        ("2026-3", "", None),
        (f"12 {' ' * 87}March 2026", "", "2026-03-12"),
        (f"12 {' ' * 88}March 2026", "", None),
    ],
)
def test_a_date_is_read_as_it_is_usual(text: str, language: str, day: str | None) -> None:
    found = day_of(text, language)
    assert (str(found) if found else None) == day


@pytest.mark.parametrize(
    ("texts", "day"),
    [
        ([("spring", ""), ("2026-03", ""), ("2025", "")], "2026-03"),
        ([("spring 2026", ""), ("about 1998", "")], "2026"),
        ([("1998-1999, twice", ""), ("about 1998, or 1998", "")], "1998"),
        ([("either 1998 or 1999", ""), ("12345", "")], None),
        ([("12/03/2026", "en-US")], "2026-12-03"),
        ([("x" * 96 + "1998", "")], "1998"),
        ([("x" * 97 + "1998", "")], None),
        ([], None),
    ],
)
def test_the_first_date_is_taken_else_a_year_that_is_alone(
    texts: list[tuple[str, str]], day: str | None
) -> None:
    found = date_in(texts)
    assert (str(found) if found else None) == day


@pytest.mark.parametrize(
    ("text", "impossible"),
    [
        ("31/02/2026", True),
        ("2026-13", True),
        ("31 de fevereiro de 2026", True),
        ("February 31, 2026", True),
        ("12 de brumário de 2026", False),
        ("Brumaire 31, 2026", False),
        ("about 1900", False),
        ("2026", False),
        ("12 de março de 2026", False),
        ("March 12, 2026", False),
    ],
)
def test_a_date_that_no_calendar_has_is_told_from_what_is_no_date(text: str, impossible: bool) -> None:
    assert is_impossible(text) is impossible


def test_only_new_dates_are_told_to_be_impossible() -> None:
    dates = {
        "date": (MetadataValue("31/02/2026"), MetadataValue("2026-13"), MetadataValue("12/31/2026", "en-US"))
    }
    before = {"date": (MetadataValue("2026-13"),)}
    assert [str(error) for error in impossible_dates(dates, before)] == [
        "date: no calendar has the date 31/02/2026"
    ]
    assert len(list(impossible_dates(dates))) == 2
    assert list(impossible_dates(None)) == list(impossible_dates({}, None)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Silva, Maria ({ORCID})", Author("Silva, Maria", ORCID)),
        (f"Silva, Maria [ORCID: {ORCID}]", Author("Silva, Maria", ORCID)),
        (f"Silva, Maria; https://orcid.org/{OTHER.lower()}", Author("Silva, Maria", OTHER)),
        (f"{ORCID} Silva, Maria", Author("Silva, Maria", ORCID)),
        (ORCID, Author(ORCID, ORCID)),
        ("Silva, Maria (0000-0002-1825-0098)", Author("Silva, Maria (0000-0002-1825-0098)")),
        ("Silva, Maria", Author("Silva, Maria")),
        ("x" * 480 + f" {ORCID}", Author("x" * 480, ORCID)),
        ("x" * 481 + f" {ORCID}", Author("x" * 481 + f" {ORCID}")),
    ],
)
def test_an_orcid_is_told_from_a_name(text: str, expected: Author) -> None:
    assert author(text) == expected
    assert author(text).url == (f"https://orcid.org/{expected.orcid}" if expected.orcid else "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Silva, Maria (orientadora)", Author("Silva, Maria", "", ADVISER)),
        ("Silva, Maria [Advisor]", Author("Silva, Maria", "", ADVISER)),
        (f"Silva, Maria; [orientador(a)] ({ORCID})", Author("Silva, Maria", ORCID, ADVISER)),
        ("Silva, Maria (adviser) and others", Author("Silva, Maria (adviser) and others")),
        ("(adviser)", Author("(adviser)")),
        ("Silva, Maria (editor)", Author("Silva, Maria (editor)")),
    ],
)
def test_a_role_is_told_from_a_name(text: str, expected: Author) -> None:
    assert contributor(text) == expected


@pytest.mark.parametrize("last", range(11))
def test_each_check_digit_of_an_orcid_is_known(last: int) -> None:
    """ISO 7064, MOD 11-2: the sum of all digits with their weights is 1 but for a multiple of 11."""
    for number in range(100):
        digits = [*map(int, f"00000002{number:07}"), last]
        orcid = f"0000-0002-{number // 1000:04}-{number % 1000:03}{'X' if last == 10 else last}"
        total = sum(digit << (15 - place) for place, digit in enumerate(digits))
        assert bool(author(f"Silva ({orcid})").orcid) == (total % 11 == 1)


def test_an_adviser_is_written_as_it_is_read() -> None:
    for text in ("Silva, Maria", f"Silva, Maria ({ORCID})", "Silva, Maria (orientador)"):
        assert contributor(as_adviser(text)) == contributor(text)._replace(role=ADVISER)
    assert as_adviser(f"Silva ({ORCID})") == f"Silva [adviser] (https://orcid.org/{ORCID})"


def test_the_url_of_a_doi_keeps_what_may_stand_in_a_url() -> None:
    assert doi_address("doi: 10.1234/a(b);c<d>") == "https://doi.org/10.1234/a(b);c%3Cd%3E"


def test_the_first_licence_that_many_use_is_taken() -> None:
    licence = "https://creativecommons.org/licenses/by/4.0/"
    rights = [
        "Copyright 2026",
        "http://far.example/rights",
        licence,
        "http://rightsstatements.org/vocab/InC/1.0/",
    ]
    assert licence_among(rights) == licence
    assert licence_among(rights[:2]) == licence_among([]) == ""


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("Revista do Mar", "12", "3", "45--67"), "Revista do Mar, v. 12, n. 3, p. 45-67"),
        (("Mar, Terra", "1,2 ", " 3", "4 \u2013 5, 7"), "Mar, Terra, v. 1;2, n. 3, p. 4-5; 7"),
        (("", "", "3", ""), "n. 3"),
        (("", "", "", ""), ""),
    ],
)
def test_a_source_is_written_as_one_text(parts: tuple[str, str, str, str], text: str) -> None:
    assert str(Source.of(*parts)) == text


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Revista do Mar, v. 12, n. 3, p. 45-67", ("Revista do Mar", "12", "3", "45-67")),
        ("Mar, Terra, vol. 1, pp. 4-5,", ("Mar, Terra", "1", "", "4-5")),
        ("Mar, v. 1, v. 2", ("Mar, v. 1", "2", "", "")),
        ("Mar; v. 1", ("Mar", "1", "", "")),
        ("Mar", ("Mar", "", "", "")),
        ("", ("", "", "", "")),
    ],
)
def test_a_source_is_read_from_its_text(text: str, parts: tuple[str, str, str, str]) -> None:
    assert tuple(Source.parse(text)) == parts
