"""The header by which resolvers know what other resolvers have passed on (RFC 8586)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.http.client import LOOP_NAME
from ibi.resolver.model.hops import MOST_HOPS, NAME, Hops

OURS = "J8LNKB5R7W/3FUQHC5"  # a label is written in capitals
OTHER = "urlib.net/www/2014/03.22.01.53"


def test_the_mark_is_the_one_that_all_questions_carry() -> None:
    assert NAME == LOOP_NAME
    assert NAME.lower() == NAME


@pytest.mark.parametrize(
    "header",
    [
        "ibi-resolver",
        "IBI-Resolver",
        "fastly, ibi-resolver",
        "ibi-resolver; id=",
        'ibi-resolver; id=""',
        'ibi-resolver; id="a b"',
        'ibi-resolver; id="a/b" x',
        'xibi-resolver; id="a/b"',
        f'ibi-resolver; id="{OTHER}", ibi-resolver',
        f'ibi-resolver; id="{"a" * 700}"',
    ],
)
def test_a_mark_without_a_name_is_a_question_for_an_archive(header: str) -> None:
    assert Hops.read(header) is None


@pytest.mark.parametrize("header", ["", "fastly", 'cdn.example; v="1, 2", fastly', ",,"])
def test_what_content_networks_write_is_passed_over(header: str) -> None:
    assert Hops.read(header) == Hops()


def test_a_request_goes_from_resolver_to_resolver_and_is_known_where_it_was() -> None:
    first = Hops.read("fastly")
    assert first is not None
    assert not first.loops({OURS})
    header = first.onward(OURS)
    assert header == f'ibi-resolver; id="{OURS}"'
    second = Hops.read(f"{header}, fastly")
    assert second == Hops((OURS,))
    assert not second.loops({OTHER})
    back = Hops.read(second.onward(OTHER) or "")
    assert back == Hops((OURS, OTHER))
    assert back.loops({OURS})
    assert back.loops({OTHER, "elsewhere"})


def test_a_request_is_passed_on_four_times_and_no_more() -> None:
    hops = Hops()
    for number in range(MOST_HOPS):
        header = hops.onward(f"r{number}/x")
        assert header is not None
        read = Hops.read(header)
        assert read is not None
        hops = read
        assert not hops.loops({OURS})
    assert len(hops.through) == MOST_HOPS == 4
    assert hops.onward(OURS) is None
    forged = Hops((*hops.through, "one/more"))
    assert forged.loops({OURS})


@given(st.text(max_size=200))
def test_any_header_can_be_read(text: str) -> None:
    hops = Hops.read(text)
    if hops is None:
        assert NAME in text.lower()
    elif hops.through:
        assert Hops.read((Hops(hops.through[:-1]).onward(hops.through[-1])) or "") in {hops, Hops()}
