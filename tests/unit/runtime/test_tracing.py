"""The header `traceparent` (W3C Trace Context): which ones are valid, and what is passed on of them."""

from __future__ import annotations

import re

import pytest

from ibi.runtime.tracing import child_headers

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("parent", "flags"),
    [
        (f"00-{TRACE}-{SPAN}-00", "00"),
        (f"00-{TRACE}-{SPAN}-01", "01"),
        (f"00-{TRACE}-{SPAN}-02", "00"),  # no flag that version 00 knows
        (f"00-{TRACE}-{SPAN}-ff", "01"),
        (f"01-{TRACE}-{SPAN}-01", "01"),
        (f"fe-{TRACE}-{SPAN}-01-more", "01"),
        (f"01-{TRACE}-{SPAN}-01-", "01"),
    ],
)
def test_a_request_that_follows_has_the_trace_and_a_new_span(parent: str, flags: str) -> None:
    spans = set[str]()
    for _ in range(9):
        [(name, value)] = child_headers(parent)
        found = re.fullmatch(f"00-{TRACE}-([0-9a-f]{{16}})-{flags}", value)
        assert name == "traceparent"
        assert found is not None
        spans.add(found[1])
    assert len(spans - {SPAN}) == 9


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "garbage",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01\n",
        f"0-{TRACE}-{SPAN}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN[1:]}-01",
        f"01-{TRACE}-{SPAN}-01-m\xe9",
        f"01-{TRACE}-{SPAN}-01more",
    ],
)
def test_of_what_is_no_traceparent_nothing_is_passed_on(parent: str) -> None:
    assert child_headers(parent) == ()
