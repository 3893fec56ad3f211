"""Languages and preferences."""

from string import ascii_lowercase

import pytest

from ibi.errors import ParseError
from ibi.protocol.language import LanguagePreference, canonical_language

pytestmark = pytest.mark.proves("URL-11", "AMB-44", "AMB-45")


def choice(header: str, *available: str) -> str | None:
    return LanguagePreference.parse(header).choose(available)


@pytest.mark.proves("AMB-43")
def test_a_language_is_written_in_one_way() -> None:
    assert canonical_language("PT-br") == "pt-BR"
    for text in ("p", "por", "pt_BR", "pt-", "pt-BRA", "", "ｐt"):
        with pytest.raises(ParseError):
            canonical_language(text)


@pytest.mark.proves("AMB-44")
def test_any_two_letters_are_a_language_and_any_two_a_country() -> None:
    pairs = [first + second for first in ascii_lowercase for second in ascii_lowercase]
    assert [canonical_language(pair) for pair in pairs] == pairs
    assert [canonical_language(f"pt-{pair}") for pair in pairs] == [f"pt-{pair.upper()}" for pair in pairs]


def test_the_printed_header_finds_portuguese_before_english() -> None:
    assert choice("pt-BR,fr;q=0.8,en;q=0.5,pt;q=0.3", "en", "pt") == "pt"


def test_a_bare_language_takes_a_country() -> None:
    assert choice("pt", "pt-PT", "pt-BR") == "pt-BR"


def test_a_country_falls_back_to_its_language_but_not_to_another_country() -> None:
    assert choice("pt-PT", "pt-BR", "pt") == "pt"
    assert choice("pt-PT", "en") is None


def test_long_tags_are_cut_from_their_end() -> None:
    assert choice("zh-Hant-TW", "zh", "en") == "zh"


def test_quality_zero_refuses_and_a_star_chooses_nothing() -> None:
    assert choice("en;q=0, pt;q=0.1", "en", "pt") == "pt"
    assert choice("*", "en") is None


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("en;q=0.5,pt;q=0.6", "pt"),
        ("en;q=0.5,pt;q=0.5", "en"),
        ("pt;q=0.5,en;q=0.5", "pt"),
        ("en;q=1.0,pt;q=9", "en"),  # no quality is above 1
        ("en;q=0.5555555,pt;q=0.5555556", "en"),  # six digits behind the point are read
        ("en;q=0.555555,pt;q=0.555556", "pt"),
        ("en;q=x,pt", "en"),  # what cannot be read is 1
        ("en;q=1,pt;q=x", "en"),
        ("en;level=0.1,pt;q=0.9", "en"),
        (" EN ; Q = 0.5 ,\tpt ; q=0.6", "pt"),
        ("en;q=0.5,*;q=0.9", "en"),
        ("e!n,pt;q=0.1", "pt"),
        ("en;q=0,en", None),
    ],
)
def test_the_best_quality_is_chosen(header: str, chosen: str | None) -> None:
    assert choice(header, "en", "pt") == chosen


def test_only_what_can_be_a_tag_is_a_range() -> None:
    header = "e!n, \xe9t, *, -, , pt;q=0, en-US;q=0.5, fr, *;q=0, e!n;q=0"
    assert LanguagePreference.parse(header) == LanguagePreference(("fr", "en-us"), frozenset({"pt"}))


def test_a_long_header_is_read_up_to_its_limits() -> None:
    assert choice(",".join(["de"] * 31 + ["pt"]), "en", "pt") == "pt"
    assert choice(",".join(["de"] * 32 + ["pt"]), "en", "pt") is None
    assert choice(f"de{' ' * 1019},pt", "pt") == "pt"
    assert choice(f"de{' ' * 1020},pt", "pt") is None


@pytest.mark.parametrize(
    "header",
    ["", ";;;", "q=1", "en;q=x", "en;q=", "\xff", ",,,,", "a" * 5000, "en;q=1e9", "en;q=0.5.5", "-", "٣;q=1"],
)
def test_no_header_is_an_error(header: str) -> None:
    LanguagePreference.parse(header).choose(["en", "pt"])
