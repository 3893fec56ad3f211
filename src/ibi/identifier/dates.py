"""The dates in labels, without any rounding.

A moment that we mint is an integer number of *ticks*, nanoseconds since 1970 in POSIX time: integers never drift
(AMB-17: exact arithmetic), and we mint at most nine fraction digits. A date that is read keeps all its digits.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ibi.errors import ClockError, ParseError

TICKS = 10**9
"""Ticks in a second."""

MINUTE = 60 * TICKS
GRANULARITIES: tuple[int, ...] = (MINUTE, *(10**power for power in range(9, -1, -1)))
"""G, from the coarsest to the finest that we mint, in ticks (GEN-30: allowed granularities): 60, 1, 1/10, ... 1/10^9
seconds."""

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = 253402300799  # 9999-12-31T23:59:59Z, the last second that a calendar date can show
_CALENDAR_ENDS = _LAST - 366 * 86_400  # a date calculated from a clock may lie a year later


class LabelDate(NamedTuple):
    """The moment in a label.

    `seconds`: POSIX seconds; None if the label has a date that no calendar has. `fraction`: the digits after
    the point with leading zeros, "" if none. `shows_seconds`: False if the label ends with the minute.
    """

    seconds: int | None
    fraction: str
    shows_seconds: bool

    @property
    def text(self) -> str | None:
        """RFC 3339 in UTC, always with seconds ("2009-02-16T17:46:00Z"); None for a date that no calendar has."""
        if self.seconds is None or not 0 <= self.seconds <= _LAST:
            return None
        moment = _1970 + timedelta(seconds=self.seconds)
        point = f".{self.fraction}" if self.fraction else ""
        return f"{moment:%Y-%m-%dT%H:%M:%S}{point}Z"

    @property
    def precision(self) -> float | int:
        """The value of the last digit shown, in seconds: 60, 1, 0.1, 0.01, ..."""
        if self.fraction:
            return float(f"1e-{len(self.fraction)}")
        return 1 if self.shows_seconds else 60

    @property
    def ticks(self) -> int | None:
        """The moment in ticks, cut to nanoseconds; None for a date that no calendar has."""
        if self.seconds is None:
            return None
        return self.seconds * TICKS + int(self.fraction[:9].ljust(9, "0"))


def date_text(ticks: int) -> str:
    """Return a moment in the form of `LabelDate.text`: "2009-02-16T17:46:00.25Z", or without a fraction.

    A moment after the year 9999 is shown as the last second of that year.
    """
    year, month, day, hour, minute, second, fraction = civil(min(ticks, _LAST * TICKS))
    point = f".{fraction}" if fraction else ""
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}{point}Z"


def check_calendar(now: int) -> None:
    """Raise ClockError if a clock that reads `now` (ticks) is too late to calculate dates (T32: clock jumps)."""
    if now > _CALENDAR_ENDS * TICKS:
        raise ClockError("the clock of this machine is past the year 9998: set it right")


def civil(ticks: int) -> tuple[str, str, str, str, str, str, str]:
    """Return year, month, day, hour, minute, second and fraction ("" if none) of a moment: padded, in UTC."""
    seconds, rest = divmod(ticks, TICKS)
    at = _1970 + timedelta(seconds=seconds)
    return (
        f"{at.year:04d}", f"{at.month:02d}", f"{at.day:02d}",
        f"{at.hour:02d}", f"{at.minute:02d}", f"{at.second:02d}",
        fraction_digits(rest),
    )  # fmt: skip


def fraction_digits(rest: int) -> str:
    """Return the decimals of `rest` ticks (less than a second): with leading, no trailing zeros (AMB-06)."""
    return f"{rest:09d}".rstrip("0")


def posix_seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int | None:
    """Return POSIX seconds of a UTC date; None if no calendar has it, as in some foreign labels (AMB-13)."""
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    elapsed = moment - _1970
    return elapsed.days * 86400 + elapsed.seconds


_GRANULARITY_TEXTS: dict[str, int] = {"60": MINUTE, "1": TICKS}
for _power in range(1, 10):
    _ticks = 10 ** (9 - _power)
    _GRANULARITY_TEXTS["0." + "0" * (_power - 1) + "1"] = _ticks
    _GRANULARITY_TEXTS["1/1" + "0" * _power] = _ticks


AUTOMATIC = "auto"
"""The granularity that follows the demand: the coarsest at which all requested labels are due in a second."""


def parse_granularity(text: str) -> int:
    """Return the ticks of "60", "1", "0.1" or "1/10", "0.01" or "1/100", ... (GEN-30). Raises ParseError."""
    ticks = _GRANULARITY_TEXTS.get(text)
    if ticks is None:
        raise ParseError(
            "granularity", text, "a granularity is 60, 1, 0.1, 0.01, ... down to 0.000000001 seconds"
        )
    return ticks


def granularity_of(text: str) -> int | None:
    """Return the ticks of a granularity, as `parse_granularity`; None for AUTOMATIC. Raises ParseError."""
    return None if text == AUTOMATIC else parse_granularity(text)


def granularity_text(ticks: int) -> str:
    """Write a granularity in seconds: "60", "1", "0.1" ... Raises KeyError for ticks not in GRANULARITIES."""
    return _TEXT_OF_GRANULARITY[ticks]


_TEXT_OF_GRANULARITY = {ticks: text for text, ticks in _GRANULARITY_TEXTS.items() if "/" not in text}
