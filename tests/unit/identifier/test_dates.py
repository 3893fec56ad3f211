"""Dates of labels, and granularities."""

import pytest

from ibi.errors import ParseError
from ibi.identifier.dates import GRANULARITIES, TICKS, LabelDate, granularity_text, parse_granularity


@pytest.mark.proves("GEN-17")
def test_a_date_is_shown_in_utc_always_with_seconds() -> None:
    assert LabelDate(1234806360, "", shows_seconds=False).text == "2009-02-16T17:46:00Z"
    assert LabelDate(1234806360, "05", shows_seconds=True).text == "2009-02-16T17:46:00.05Z"


@pytest.mark.proves("AMB-13")
def test_a_date_that_no_calendar_has_has_no_text_and_no_ticks() -> None:
    impossible = LabelDate(None, "", shows_seconds=False)
    assert impossible.text is None
    assert impossible.ticks is None


def test_the_precision_is_that_of_the_last_digit_shown() -> None:
    shown = [
        LabelDate(0, "", shows_seconds=False),
        LabelDate(0, "", shows_seconds=True),
        LabelDate(0, "123", shows_seconds=True),
    ]
    assert [date.precision for date in shown] == [60, 1, 0.001]


def test_ticks_are_nanoseconds() -> None:
    assert LabelDate(1, "5", shows_seconds=True).ticks == 1_500_000_000
    assert LabelDate(1, "1234567899", shows_seconds=True).ticks == 1_123_456_789


@pytest.mark.proves("GEN-30", "AMB-17")
def test_only_elements_of_g_are_granularities() -> None:
    texts = ["60", "1", "0.1", "1/10", "0.001", "1/1000", "0.000000001"]
    assert [parse_granularity(text) for text in texts] == [
        60 * TICKS, TICKS, TICKS // 10, TICKS // 10, TICKS // 1000, TICKS // 1000, 1,
    ]  # fmt: skip
    for text in ("10", "0.5", "2", "600", "", "1.0", "0.0000000001", "-1", "１"):
        with pytest.raises(ParseError):
            parse_granularity(text)


def test_granularities_are_written_as_they_are_read() -> None:
    assert [parse_granularity(granularity_text(ticks)) for ticks in GRANULARITIES] == list(GRANULARITIES)
