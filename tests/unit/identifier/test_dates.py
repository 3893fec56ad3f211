"""Dates of labels, and granularities."""

import time
from collections.abc import Iterator

import pytest

from ibi.errors import ParseError
from ibi.identifier.dates import (
    GRANULARITIES,
    TICKS,
    LabelDate,
    date_text,
    granularity_text,
    parse_granularity,
)
from ibi.identifier.generator import LabelGenerator


@pytest.mark.proves("GEN-17")
def test_a_date_is_shown_in_utc_always_with_seconds() -> None:
    assert LabelDate(1234806360, "", shows_seconds=False).text == "2009-02-16T17:46:00Z"
    assert LabelDate(1234806360, "05", shows_seconds=True).text == "2009-02-16T17:46:00.05Z"


@pytest.fixture(params=["BRT3BRST,M10.3.0/0,M2.3.0/0", "NZST-12NZDT,M9.5.0,M4.1.0/3", "IST-5:30"])
def elsewhere(request: pytest.FixtureRequest) -> Iterator[None]:
    """The clock of the machine shows another time than UTC, in two of three places with daylight saving."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        assert time.localtime(1234806360)[:5] != time.gmtime(1234806360)[:5]
        yield
    time.tzset()


@pytest.mark.proves("GEN-17")
@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("seconds", "name", "shown"),
    [
        (1234806360, "2009/02.16.17.46", "2009-02-16T17:46:00Z"),  # printed; daylight saving in both
        (1283776740, "2010/09.06.12.39", "2010-09-06T12:39:00Z"),
        (1287587646, "2010/10.20.15.14.06", "2010-10-20T15:14:06Z"),  # printed
        (1266710400, "2010/02.21.00.00", "2010-02-21T00:00:00Z"),  # the hour that Brazil had twice is near
    ],
)
def test_labels_are_made_and_read_in_utc_wherever_the_machine_is(seconds: int, name: str, shown: str) -> None:
    forms = LabelGenerator("mtc-m18.sid.inpe.br", ip="150.163.34.243").label(seconds * TICKS)
    assert forms.rep is not None
    assert forms.ibip is not None
    assert forms.rep.text == f"sid.inpe.br/mtc-m18/{name}"
    assert (forms.rep.date.seconds, forms.ibip.date.seconds) == (seconds, seconds)
    assert [forms.rep.date.text, forms.ibip.date.text, date_text(seconds * TICKS)] == [shown] * 3


@pytest.mark.proves("AMB-13")
def test_a_date_that_no_calendar_has_has_no_text_and_no_ticks() -> None:
    impossible = LabelDate(None, "", shows_seconds=False)
    assert impossible.text is None
    assert impossible.ticks is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, None),
        (0, "1970-01-01T00:00:00Z"),
        (253_402_300_799, "9999-12-31T23:59:59Z"),
        (253_402_300_800, None),
    ],
)
def test_the_first_and_the_last_second_have_a_text(seconds: int, text: str | None) -> None:
    assert LabelDate(seconds, "", shows_seconds=True).text == text


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
