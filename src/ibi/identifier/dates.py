"""The dates that labels carry, exactly.

A moment of our own making is an integer count of *ticks*, nanoseconds since 1970 in POSIX time: integers never
drift (AMB-17), and nine fraction digits are the most that we mint. A date read from a label keeps the digits that
stand there, however many.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ibi.errors import ClockError, ParseError

TICKS = 10**9
"""Ticks in a second."""

MINUTE = 60 * TICKS
GRANULARITIES: tuple[int, ...] = (MINUTE, *(10**power for power in range(9, -1, -1)))
"""G, from the coarsest to the finest that we mint, in ticks (GEN-30): 60, 1, 1/10, ... 1/10^9 seconds."""

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = 253402300799  # 9999-12-31T23:59:59Z, the last second that a calendar date can show
_CALENDAR_ENDS = _LAST - 366 * 86_400  # what is reckoned from a clock may lie a year later


class LabelDate(NamedTuple):
    """The moment a label names.

    `seconds`: POSIX seconds, None if the label shows a date that no calendar has. `fraction`: the digits after the
    point, leading zeros kept, "" if none. `shows_seconds`: False where the label stops at the minute.
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
        """Seconds that the last digit shown stands for: 60, 1, 0.1, 0.01, ..."""
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
    """A moment as `LabelDate.text` shows it, fraction digits only where there are any: "2009-02-16T17:46:00.25Z".

    One after the year 9999 is shown as its last second.
    """
    year, month, day, hour, minute, second, fraction = civil(min(ticks, _LAST * TICKS))
    point = f".{fraction}" if fraction else ""
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}{point}Z"


def check_calendar(now: int) -> None:
    """Return if dates can be reckoned from a clock that reads `now` (ticks). Raises ClockError (threat T32)."""
    if now > _CALENDAR_ENDS * TICKS:
        raise ClockError("the clock of this machine is past the year 9998: set it right")


def civil(ticks: int) -> tuple[str, str, str, str, str, str, str]:
    """Year, month, day, hour, minute, second and fraction digits ("" if none) of a moment, zero-padded, in UTC."""
    seconds, rest = divmod(ticks, TICKS)
    at = _1970 + timedelta(seconds=seconds)
    return (
        f"{at.year:04d}", f"{at.month:02d}", f"{at.day:02d}",
        f"{at.hour:02d}", f"{at.minute:02d}", f"{at.second:02d}",
        fraction_digits(rest),
    )  # fmt: skip


def fraction_digits(rest: int) -> str:
    """The decimal digits of `rest` ticks (less than a second): leading zeros kept, trailing dropped (AMB-06)."""
    return f"{rest:09d}".rstrip("0")


def posix_seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int | None:
    """POSIX seconds of a UTC date, or None if no calendar has it (AMB-13: foreign labels may show any digits)."""
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
"""The granularity that follows the demand: the coarsest at which all labels asked for are due within a second."""


def parse_granularity(text: str) -> int:
    """Ticks of a granularity written in seconds: "60", "1", "0.1" or "1/10", "0.01" or "1/100", ... (GEN-30)."""
    ticks = _GRANULARITY_TEXTS.get(text)
    if ticks is None:
        raise ParseError(
            "granularity", text, "a granularity is 60, 1, 0.1, 0.01, ... down to 0.000000001 seconds"
        )
    return ticks


def granularity_of(text: str) -> int | None:
    """A granularity in ticks as `parse_granularity` reads it; None for AUTOMATIC. Raises ParseError."""
    return None if text == AUTOMATIC else parse_granularity(text)


def granularity_text(ticks: int) -> str:
    """A granularity in seconds: "60", "1", "0.1", ... Raises KeyError for ticks outside GRANULARITIES."""
    return _TEXT_OF_GRANULARITY[ticks]


_TEXT_OF_GRANULARITY = {ticks: text for text, ticks in _GRANULARITY_TEXTS.items() if "/" not in text}
