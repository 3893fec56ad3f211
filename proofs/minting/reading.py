"""Labels read back to the moment they name, by the words of the standard alone (GEN-10, GEN-17, GEN-69 to GEN-73).

A second reading: nothing of the library is used, so that a fault of writing and the same fault of reading cannot
cancel out. Moments are ticks, nanoseconds since 1970 as POSIX counts them.
"""

from __future__ import annotations

from calendar import timegm
from functools import lru_cache

TICKS = 10**9
EPOCH = 807235200  # GEN-70
LETTERS = "23456789ABCDEFGHJKLMNPQRSTU"  # GEN-64
_VALUE = {letter: value for value, letter in enumerate(LETTERS)}
_DIGITS = 9  # of a fraction of a second


def moment_of_rep(label: str) -> int:
    """The moment of "sid.inpe.br/mtc-m18/2009/02.16.17.46.00.25". Raises ValueError if it shows none."""
    *_, year, rest = label.split("/")
    month, day, hour, minute, *more = rest.split(".")
    second, fraction = (*more, "", "")[:2]
    if len(more) > 2:
        msg = f"too many parts: {label}"
        raise ValueError(msg)
    date = _second(year, month, day, hour, minute, second)
    return date * TICKS + (_decimal(fraction) if len(more) == 2 else 0)


@lru_cache(maxsize=4096)
def _second(year: str, month: str, day: str, hour: str, minute: str, second: str) -> int:
    return timegm((int(year), int(month), int(day), int(hour), int(minute), int(second or "0")))


def moment_of_ibip(label: str) -> int:
    """The moment of "8JMKD3MGP7W/34PGRBSWT". Raises ValueError or KeyError if it shows none."""
    _, suffix = label.split("/")
    whole, point, coded = suffix.partition("W")
    date = (EPOCH + _number(whole)) * TICKS
    if not point:
        return date
    number = coded.lstrip(LETTERS[0])
    return date + _decimal("0" * (len(coded) - len(number)) + str(_number(number)))


def _number(written: str) -> int:
    if not written:
        msg = "no digits"
        raise ValueError(msg)
    number = 0
    for letter in written:
        number = number * len(LETTERS) + _VALUE[letter]
    return number


def _decimal(fraction: str) -> int:
    """Ticks of the digits after the point; a last zero would be a second spelling of the same moment (AMB-06)."""
    if not fraction.isdigit() or fraction.endswith("0") or len(fraction) > _DIGITS:
        msg = f"no fraction of a second: {fraction}"
        raise ValueError(msg)
    return int(fraction.ljust(_DIGITS, "0"))
