"""The label algorithms of the generation standard on exact fractions, written as the report words them.

Nothing is shared with the library. `literal_` functions do what the printed algorithm does where the library
must not (AMB-01, AMB-07).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

TABLES = {
    "ipv4": "0123456789.",
    "ipv6": "0123456789abcdef:",
    "ibip": "23456789ABCDEFGHJKLMNPQRSTU",
}
EPOCH = 807235200  # GEN-70


def convert_to_decimal(text: str, table: str) -> int:
    """CONVERTTODECIMAL (GEN-65): a sum of powers, from the last digit to the first."""
    digits = TABLES[table]
    return sum(digits.index(c) * len(digits) ** power for power, c in enumerate(reversed(text)))


def convert_from_decimal(number: int, table: str) -> str:
    """CONVERTFROMDECIMAL (GEN-65): find the highest power, then take digit after digit from it downwards."""
    digits = TABLES[table]
    base, power = len(digits), 0
    while base ** (power + 1) <= number:
        power += 1
    written = ""
    for exponent in range(power, -1, -1):
        value = number // base**exponent
        written += digits[value]
        number -= value * base**exponent
    return written


def fraction_digits(date: Fraction) -> str:
    """The decimal digits after the point, found by long division; the date must have finitely many."""
    rest, written = date - int(date), ""
    while rest:
        rest *= 10
        written += str(int(rest))
        rest -= int(rest)
    return written


def repository_suffix(date: Fraction) -> str:
    """Algorithm 2 as GEN-18 reads it."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(date))
    suffix = f"{moment.year:04d}/{moment.month:02d}.{moment.day:02d}.{moment.hour:02d}.{moment.minute:02d}"
    fraction = fraction_digits(date)
    if fraction:
        return f"{suffix}.{moment.second:02d}.{fraction}"
    return suffix if moment.second == 0 else f"{suffix}.{moment.second:02d}"


def repository_prefix(host: str, port: int) -> str:
    """Algorithm 1 as GEN-15 reads it."""
    words = host.lower().split(".")
    return ".".join(words[1:]) + "/" + words[0] + ("" if port == 80 else f".{port}")


def literal_repository_prefix(host: str, port: int) -> str:
    """Algorithm 1 exactly as printed: a dot only switches the part, and is never appended (AMB-01)."""
    first_word, subdomain, part = "", "", 0
    for character in host:
        if character == ".":
            part = 1
        elif part == 0:
            first_word += character
        else:
            subdomain += character
    return f"{subdomain}/{first_word}" if port == 80 else f"{subdomain}/{first_word}.{port}"


def ibip_prefix(ip: str, port: int) -> str:
    """Algorithm 5 (GEN-66)."""
    coded_port = "" if port == 800 else convert_from_decimal(port, "ibip")
    if "." in ip:
        return convert_from_decimal(convert_to_decimal(ip, "ipv4"), "ibip") + "W" + coded_port
    return convert_from_decimal(convert_to_decimal(ip, "ipv6"), "ibip") + "X" + coded_port


def ibip_suffix(date: Fraction) -> str:
    """Algorithm 6 with one `2` for each leading zero of the fraction (GEN-69, GEN-71)."""
    suffix = convert_from_decimal(int(date) - EPOCH, "ibip")
    fraction = fraction_digits(date)
    if not fraction:
        return suffix
    zeros = len(fraction) - len(fraction.lstrip("0"))
    return suffix + "W" + "2" * zeros + convert_from_decimal(int(fraction), "ibip")


def literal_ibip_suffix(date: Fraction) -> str:
    """Algorithm 6 as the Tcl source of 2011 does it: the digits read as an integer, so that .06 and .6 collide."""
    suffix = convert_from_decimal(int(date) - EPOCH, "ibip")
    fraction = fraction_digits(date)
    return suffix + "W" + convert_from_decimal(int(fraction), "ibip") if fraction else suffix
