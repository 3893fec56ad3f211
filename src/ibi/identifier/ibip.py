"""The IBIp: the opaque form of an IBI, made from an IP address (G15 chapter 7).

    8JMKD3MGP W    / 34PGRBS
    the IP    port   seconds since August 1995, perhaps W and a fraction

W follows an IPv4 address, X an IPv6 address. The address tells where the item was named, not where it is.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from typing import Final, final

from ibi.errors import ParseError
from ibi.identifier import _grammar
from ibi.identifier.dates import TICKS, LabelDate, fraction_digits
from ibi.identifier.numerals import IBIP, IPV4, IPV6
from ibi.identifier.ordering import TimeOrdered, set_canonical, set_text
from ibi.identifier.repository import LAST_PORT

EPOCH: Final = 807235200
"""1995-08-01T00:00:00Z in POSIX seconds: the month of the first label (GEN-70: the epoch is August 1995)."""

DEFAULT_PORT: Final = 800
"""The port that is not written in this form; port 80 is written (GEN-67: port 800 is left out)."""

WHAT: Final = "IBIp"
_LONGEST_IP = 35  # base-27 digits; the longest IPv6 text needs 34
_LONGEST_SECONDS = 9  # base-27 digits; the end of the year 9999 needs 8
_LONGEST_FRACTION = 64  # base-27 digits of a fraction that are read as a number
_LONGEST_PORT = 4  # base-27 digits; 65535 needs 4


@final
class IBIp(TimeOrdered):
    """An IBIp; immutable. `str` keeps the spelling, `==` compares the canonical form (GEN-62: capitals).

    The strict grammar is used, so that an IBIp can always be distinguished from a path. Two spellings are different
    labels even if they decode to the same address and date (AMB-12: odd spellings).
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> IBIp:
        """Read a label (GEN-63: the narrow grammar). Raises ParseError, which points at the wrong character."""
        if len(text) > _grammar.MAX_LABEL or _grammar.ibip_match(text) is None:
            raise _fault(text)
        return cls.known(text)

    @classmethod
    def known(cls, text: str) -> IBIp:
        """Make a label of a text that is known to be valid, such as our own spelling; nothing is checked."""
        label = object.__new__(cls)
        set_text(label, text)
        set_canonical(label, text.upper())
        return label

    @classmethod
    def make(cls, ip: str, port: int, ticks: int) -> IBIp:
        """Make the label of an IP address, a port and a date of the distributor (Algorithms 5 to 7)."""
        return cls.known(f"{ibip_prefix(ip, port)}/{ibip_suffix(ticks)}")

    @property
    def ip(self) -> str | None:
        """The IP address at the moment of naming, canonical text; None if the digits spell none (AMB-09)."""
        coded, marker, _ = self._split_prefix()
        if len(coded) > _LONGEST_IP:
            return None
        number = IBIP.read(coded)
        if marker == "W":
            text = IPV4.write(number)
            text = f"0{text}" if text.startswith(".") else text
        else:
            text = IPV6.write(number)
            text = f"0{text}" if text.startswith(":") and not text.startswith("::") else text
        try:
            canonical = canonical_ip(text)
        except ParseError:
            return None
        return canonical if (":" in canonical) == (marker == "X") else None

    @property
    def port(self) -> int | None:
        """The port at the moment of naming, 800 if none is shown; None if no computer has such a port."""
        coded = self._split_prefix()[2]
        if not coded:
            return DEFAULT_PORT
        port = IBIP.read(coded) if len(coded) <= _LONGEST_PORT else 0
        return port if 0 < port <= LAST_PORT else None

    @property
    def date(self) -> LabelDate:
        """The moment of naming; a full minute counts as a date without seconds, as in the distributor."""
        coded, _, coded_fraction = self.suffix.upper().partition("W")
        if len(coded) > _LONGEST_SECONDS or len(coded_fraction) > _LONGEST_FRACTION:
            return LabelDate(None, "", shows_seconds=True)
        seconds = EPOCH + IBIP.read(coded)
        fraction = _read_fraction(coded_fraction)
        return LabelDate(seconds, fraction, shows_seconds=bool(fraction) or seconds % 60 != 0)

    def _split_prefix(self) -> tuple[str, str, str]:
        coded, marker, port = re.split("([WX])", self.prefix.upper())
        return coded, marker, port


def canonical_ip(text: str) -> str:
    """Return the spelling of an IP address that labels encode.

    It is dotted decimal, or RFC 5952 in lower case. IPv4-mapped IPv6 becomes IPv4, and zone identifiers are dropped.
    Raises ParseError for anything else. See GEN-68: canonical IP addresses; AMB-08: canonical texts.
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        raise ParseError("IP address", text, "this is not an IP address") from None
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return str(address)


def ibip_prefix(ip: str, port: int = DEFAULT_PORT) -> str:
    """Return the prefix of an IP address and port (Algorithm 5, GEN-66)."""
    address = canonical_ip(ip)
    coded_port = "" if port == DEFAULT_PORT else IBIP.write(port)
    if ":" in address:
        return f"{IBIP.write(IPV6.read(address))}X{coded_port}"
    return f"{IBIP.write(IPV4.read(address))}W{coded_port}"


def ibip_suffix(ticks: int) -> str:
    """Return the suffix of a date (Algorithm 6 with the injective fraction of GEN-71).

    Raises ParseError for moments before August 1995 (GEN-70: the epoch is August 1995).
    """
    seconds, rest = divmod(ticks, TICKS)
    if seconds < EPOCH:
        raise ParseError("date", str(ticks), "no label is older than August 1995")
    suffix = IBIP.write(seconds - EPOCH)
    return f"{suffix}W{write_fraction(fraction_digits(rest))}" if rest else suffix


def write_fraction(digits: str) -> str:
    """Write a zero digit ("2") for each leading zero, then the rest as a number: it is injective (AMB-07)."""
    significant = digits.lstrip("0")
    return IBIP.digits[0] * (len(digits) - len(significant)) + IBIP.write(int(significant))


def _read_fraction(coded: str) -> str:
    significant = coded.lstrip(IBIP.digits[0])
    zeros = "0" * (len(coded) - len(significant))
    return zeros + str(IBIP.read(significant)) if significant else zeros


def _fault(text: str) -> ParseError:
    """Return the error of a text that is no IBIp, pointing at the wrong character."""
    if len(text) > _grammar.MAX_LABEL:
        problem = "it is longer than {limit} characters"
        return ParseError(WHAT, text, problem, _grammar.MAX_LABEL, limit=_grammar.MAX_LABEL)
    for at, char in enumerate(text):
        if char in _grammar.EXCLUDED_LETTERS:
            return ParseError(
                WHAT, text, "the characters 0, 1, I, O, V, Y and Z do not occur in an IBIp", at, at + 1
            )
        if not (char.isascii() and char.isalnum()) and char != "/":
            return ParseError(WHAT, text, "an IBIp has only letters, digits and one slash", at, at + 1)
    prefix, slash, suffix = text.partition("/")
    if not prefix or not suffix or "/" in suffix:
        second = len(prefix) + 1 + suffix.find("/") if "/" in suffix else len(prefix)
        return ParseError(WHAT, text, "an IBIp is two words with one slash between them", second, second + 1)
    markers = [at for at, char in enumerate(prefix.upper()) if char in "WX"]
    if len(markers) != 1 or markers[0] == 0:
        problem = "the first word has one W or X, after the coded IP address"
        return ParseError(WHAT, text, problem, markers[-1] if markers else 0, len(prefix))
    problem = "the second word has at most one W, between the seconds and the fraction"
    return ParseError(WHAT, text, problem, len(prefix) + len(slash), len(text))
