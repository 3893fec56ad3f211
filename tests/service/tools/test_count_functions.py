"""The counting itself: that it sees the functions on the way of a click and of a `urlRequest`, and no others."""

from __future__ import annotations

import count_functions
from support.ports import free_port


def test_a_click_and_a_url_request_are_counted_each_in_its_own_process() -> None:
    first = free_port(4)
    counted = count_functions.count(range(first, first + 4))
    click, url_request = (
        {function for functions in figures.called.values() for function in functions}
        for figures in (counted.cold_click, counted.url_request)
    )
    assert {"PersistentURL.parse", "Resolution.hear"} <= click
    assert "UrlRequest.of" in url_request
    assert "Resolution.hear" not in url_request
    for figures in (counted.cold_click, counted.url_request):
        assert 0 < figures.modules < figures.functions < figures.calls
    # The bars of decision 0029: a step added to the way of a click takes another one away, or changes the decision.
    assert _beyond(counted.cold_click, modules=36, functions=165, calls=270) == ""
    assert _beyond(counted.url_request, modules=20, functions=85, calls=110) == ""


def _beyond(figures: count_functions.Figures, *, modules: int, functions: int, calls: int) -> str:
    """What was called, if that is more than allowed."""
    within = figures.modules <= modules and figures.functions <= functions and figures.calls <= calls
    return "" if within else f"{figures.modules}, {figures.functions}, {figures.calls}\n{figures.listing()}"
