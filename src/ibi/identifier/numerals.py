"""Positional numerals in the three systems of the generation standard.

The text of an IP address is itself read as a number, in a system where dots or colons are digits too. See GEN-64:
three digit tables; GEN-65: numbers without padding.
"""

from __future__ import annotations

from ibi.errors import ParseError

# An IPv6 address of 39 characters needs 34 base-27 digits. Without a bound, a hostile text would take
# quadratic time to become a number.
MAX_DIGITS = 64


class Numerals:
    """A positional numeral system, given by its digits in order, from zero."""

    def __init__(self, digits: str) -> None:
        self.digits = digits
        self._value = {digit: value for value, digit in enumerate(digits)}
        self._pairs = tuple(high + low for high in digits for low in digits)

    def read(self, text: str) -> int:
        """Return the number that `text` spells, most significant digit first (CONVERTTODECIMAL).

        Raises ParseError on an empty text, a foreign character, or more than MAX_DIGITS characters.
        """
        if not text or len(text) > MAX_DIGITS:
            raise ParseError("number", text, "a number has from 1 to {limit} digits", limit=MAX_DIGITS)
        base, number = len(self.digits), 0
        for at, digit in enumerate(text):
            value = self._value.get(digit)
            if value is None:
                raise ParseError("number", text, "this character is no digit of this system", at, at + 1)
            number = number * base + value
        return number

    def write(self, number: int) -> str:
        """Return the digits of a number, unpadded; zero is the zero digit (CONVERTFROMDECIMAL, AMB-13).

        Raises ValueError on a negative number.
        """
        if number < 0:
            msg = "only numbers from zero upwards can be written"
            raise ValueError(msg)
        base, written = len(self.digits), ""
        # Two digits at a time: minting writes millions of these.
        while number >= base:
            number, value = divmod(number, base * base)
            written = self._pairs[value] + written
        return self.digits[number] + written if number or not written else written


IPV4 = Numerals("0123456789.")
IPV6 = Numerals("0123456789abcdef:")
IBIP = Numerals("23456789ABCDEFGHJKLMNPQRSTU")
