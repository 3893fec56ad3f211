"""The header Accept: what is chosen by it, and that no value of it is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.http.accept import PAGES, accepted_format, media_ranges
from ibi.http.request import Request
from ibi.protocol.vocabulary import FORMAT_BY_TYPE, METADATA_FORMATS

TYPES = [*FORMAT_BY_TYPE, *PAGES, "*/*", "text/*", "application/*", "application/pdf", "image/png"]
QUALITIES = st.sampled_from(["0", "0.0", "0.001", "0.5", "0.999", "1", "1.000"])
RANGES = st.lists(st.tuples(st.sampled_from(TYPES), QUALITIES), min_size=1, max_size=8)


def written(ranges: list[tuple[str, str]]) -> str:
    return ", ".join(f"{kind};q={quality}" for kind, quality in ranges)


@pytest.mark.parametrize(
    ("accept", "name", "page"),
    [
        ("application/x-bibtex", "bibtex", False),
        ("TEXT/X-BIBTEX ; Q=0.5", "bibtex", False),
        ("application/x-bibtex, */*", "bibtex", True),
        ("application/x-bibtex;q=0.5, */*", None, True),
        ("application/x-bibtex;q=0, text/html", None, True),
        ("application/x-bibtex, text/html", None, True),
        ("application/x-bibtex;q=0", None, False),
        ("text/html;q=0, application/ld+json", "jsonld", False),
        ("application/ld+json;q=0.9, application/vnd.citationstyles.csl+json;q=0.8", "jsonld", False),
        ("application/ld+json;q=0.8, application/vnd.citationstyles.csl+json;q=0.9", "csl", False),
        ("application/ld+json;q=odd, application/x-bibtex", "jsonld", False),
        ("application/ld+json, application/x-bibtex;q=odd", "jsonld", False),
        ("application/ld+json, application/x-bibtex;q=1.5", "jsonld", False),
        (",;=,;q,q=;\xff", None, False),
        ("x/y," * 31 + "application/x-bibtex", "bibtex", False),
        ("x/y," * 32 + "application/x-bibtex", None, False),
        ("application/x-bibtex".rjust(2000), "bibtex", False),
        ("application/x-bibtex".rjust(2001), None, False),
        ("", None, True),
    ],
)
def test_accept_is_read_with_its_qualities(accept: str, name: str | None, page: bool) -> None:
    choice = accepted_format(accept, FORMAT_BY_TYPE)
    assert (choice.name, choice.page) == (name, page)


def test_the_options_of_a_range_are_read_without_their_quotation_marks() -> None:
    [found] = media_ranges('text/x-bibliography; Style="ABNT" ;locale = pt-BR; q=0.5')
    assert found == ("text/x-bibliography", {"style": "abnt", "locale": "pt-br"}, 0.5)


@given(RANGES)
def test_nothing_that_is_refused_is_chosen_and_nothing_that_is_wanted_more_is_passed_over(
    ranges: list[tuple[str, str]],
) -> None:
    best: dict[str | None, float] = {}
    for kind, quality in ranges:
        name = FORMAT_BY_TYPE.get(kind)
        if name is not None or kind in PAGES or kind.endswith("/*"):
            best[name] = max(best.get(name, 0.0), float(quality))
    chosen = accepted_format(written(ranges), FORMAT_BY_TYPE).name
    pages = [float(quality) for kind, quality in ranges if kind in PAGES]
    if chosen is None:
        named = max((quality for name, quality in best.items() if name is not None), default=0.0)
        assert named == 0 or named < best.get(None, 0.0) or named <= max(pages, default=0.0)
    else:
        assert best[chosen] == max(best.values()) > max(pages, default=0.0)


@given(RANGES, st.sampled_from([",", " , ", ",,", "\t,"]), st.booleans())
def test_the_spelling_of_the_header_does_not_matter(
    ranges: list[tuple[str, str]], comma: str, upper: bool
) -> None:
    text = comma.join(f"{kind}\t; q={quality}" for kind, quality in ranges)
    other = accepted_format(text.upper() if upper else text, FORMAT_BY_TYPE)
    assert other.name == accepted_format(written(ranges), FORMAT_BY_TYPE).name


@given(st.binary(max_size=3000) | RANGES.map(lambda ranges: written(ranges).encode()))
def test_no_value_of_the_header_is_an_error(value: bytes) -> None:
    choice = accepted_format(value.decode("latin-1"), FORMAT_BY_TYPE)
    assert choice.name is None or choice.name in METADATA_FORMATS
    assert Request("GET", "/", "", {b"accept": value}).form in {"html", "json", "text"}
