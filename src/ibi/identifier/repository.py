"""The uniform repository name: the form of an IBI made from a host name (G15 chapter 6).

sid.inpe.br / mtc-m18@80 / 2009 / 02.16.17.46
subdomain     word port    year   rest of the date
└───── prefix ─────────┘   └──── suffix ─────┘
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, final

from ibi.errors import ParseError
from ibi.identifier import _grammar
from ibi.identifier.dates import LabelDate, civil, posix_seconds
from ibi.identifier.ordering import TimeOrdered, set_canonical, set_text

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_PORT: Final = 80
"""The port that is not written in this form (GEN-16: port 80 is left out)."""

LAST_PORT: Final = 65535
"""The highest port that a computer has."""

WHAT: Final = "uniform repository name"
_PARTS = 4


@final
class UniformRepositoryName(TimeOrdered):
    """A uniform repository name; immutable. `str` keeps the spelling, `==` compares the canonical form.

    Spellings of port 80 ("@80", ".80", none) are different names (AMB-03: port 80 in names). See GEN-13: case does
    not count.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> UniformRepositoryName:
        """Read a name (GEN-10: grammar of repository names). Raises ParseError, which points at the wrong part."""
        if len(text) > _grammar.MAX_LABEL or _grammar.repository_match(text) is None:
            raise _fault(text)
        return cls.known(text)

    @classmethod
    def known(cls, text: str) -> UniformRepositoryName:
        """Make a name of a text that is known to be valid, such as our own spelling; nothing is checked."""
        name = object.__new__(cls)
        set_text(name, text)
        set_canonical(name, text.lower())
        return name

    @classmethod
    def make(cls, host: str, port: int, ticks: int) -> UniformRepositoryName:
        """Make the name of a host, a port and a date of the distributor (Algorithms 1 to 3)."""
        return cls.known(f"{rep_prefix(host, port)}/{rep_suffix(ticks)}")

    @property
    def path(self) -> tuple[str, str, str, str]:
        """The four parts, which can be used as the names of four nested directories (GEN-11: four nested folders)."""
        subdomain, word, year, rest = self.text.split("/")
        return subdomain, word, year, rest

    @property
    def prefix(self) -> str:
        """The part for the subsystem that named the item: "sid.inpe.br/mtc-m18@80"."""
        return self.text.rsplit("/", 2)[0]

    @property
    def suffix(self) -> str:
        """The part for the item within its subsystem: "2009/02.16.17.46"."""
        return "/".join(self.text.rsplit("/", 2)[1:])

    @property
    def subdomain(self) -> str:
        """The host name without its first word: "sid.inpe.br"."""
        return self.path[0]

    @property
    def word(self) -> str:
        """The first word of the host name: "mtc-m18"."""
        return re.split("[.@]", self.path[1])[0]

    @property
    def separator(self) -> str:
        """The character before the port: "@" until August 2010, "." since then (GEN-12), "" without port."""
        return self.path[1][len(self.word) :][:1]

    @property
    def port(self) -> int | None:
        """The port shown; None if no port is shown, which means 80, or if no computer can have it."""
        digits = self.path[1][len(self.word) + 1 :].lstrip("0")
        if not digits or len(digits) > len(str(LAST_PORT)) or int(digits) > LAST_PORT:
            return None
        return int(digits)

    @property
    def host(self) -> str:
        """The host at the moment of naming, in lower case; the item may be elsewhere now (GEN-05)."""
        return f"{self.word}.{self.subdomain}".lower()

    @property
    def year(self) -> str:
        """Four digits or more."""
        return self.path[2]

    @property
    def month(self) -> str:
        """Two digits, which need not be a month (AMB-13: zero and odd dates)."""
        return self._field(0)

    @property
    def day(self) -> str:
        """Two digits."""
        return self._field(1)

    @property
    def hour(self) -> str:
        """Two digits."""
        return self._field(2)

    @property
    def minute(self) -> str:
        """Two digits."""
        return self._field(3)

    @property
    def second(self) -> str | None:
        """Two digits, or None if the name ends with the minute."""
        return self._field(4) or None

    @property
    def fraction(self) -> str:
        """The digits after the second, unchanged; "" if none."""
        return self._field(5)

    @property
    def date(self) -> LabelDate:
        """The moment of naming, in UTC (GEN-17: dates in UTC)."""
        _, _, year, rest = self.path
        month, day, hour, minute, second, fraction = (*rest.split("."), "", "")[:6]
        numbers = (month, day, hour, minute, second or "00")
        calendar = len(year) == len("9999")
        seconds = posix_seconds(int(year), *map(int, numbers)) if calendar else None
        return LabelDate(seconds, fraction, shows_seconds=bool(second))

    def _field(self, index: int) -> str:
        fields = self.path[3].split(".")
        return fields[index] if index < len(fields) else ""


def rep_prefix(host: str, port: int = DEFAULT_PORT) -> str:
    """Return the prefix of a host and port, split at the first dot only (Algorithm 1, corrected by AMB-01).

    Raises ParseError for hosts outside the grammar: single words, IP literals, odd characters (AMB-05: hosts without
    a dot).
    """
    first, _, subdomain = host.lower().removesuffix(".").partition(".")
    if not _grammar.word_match(first) or not _grammar.subdomain_match(subdomain):
        problem = "a host that names things is a full domain name, such as archive.example.org"
        raise ParseError("host name", host, problem)
    return f"{subdomain}/{first}" if port == DEFAULT_PORT else f"{subdomain}/{first}.{port}"


def rep_suffix(ticks: int, *, shows_seconds: bool = False) -> str:
    """Return the suffix of a date, with seconds and fraction only if they are not 0 (Algorithm 2, GEN-18).

    With `shows_seconds`, seconds are written even if they are 0, so that a fraction can be appended.
    """
    year, month, day, hour, minute, second, fraction = civil(ticks)
    suffix = f"{year}/{month}.{day}.{hour}.{minute}"
    if fraction:
        return f"{suffix}.{second}.{fraction}"
    return suffix if second == "00" and not shows_seconds else f"{suffix}.{second}"


def _fault(text: str) -> ParseError:
    """Return the error of a text that is no uniform repository name, pointing at the wrong part."""
    if len(text) > _grammar.MAX_LABEL:
        problem = "it is longer than {limit} characters"
        return ParseError(WHAT, text, problem, _grammar.MAX_LABEL, limit=_grammar.MAX_LABEL)
    parts = text.split("/")
    if len(parts) != _PARTS:
        problem = "it has four parts with slashes between them: subdomain/word/year/month.day.hour.minute"
        fourth = len("/".join(parts[:_PARTS])) if len(parts) > _PARTS else 0
        return ParseError(WHAT, text, problem, fourth)
    start = 0
    for part, (matches, problem) in zip(parts, _PART_RULES, strict=True):
        if matches(part) is None:
            # Point at the first character that no label has, or else at the whole part.
            odd = re.search(r"[^A-Za-z0-9.@-]", part)
            at, end = odd.span() if odd else (0, max(1, len(part)))
            return ParseError(WHAT, text, problem, start + at, start + end)
        start += len(part) + 1
    return ParseError(WHAT, text, "it is not a uniform repository name")


_PART_RULES: tuple[tuple[Callable[[str], object], str], ...] = (
    (
        _grammar.subdomain_match,
        "the subdomain is words of letters, digits and inner hyphens, the last starting with a letter",
    ),
    (
        _grammar.name_match,
        "the word is letters, digits and inner hyphens, then perhaps a port after a point or an @",
    ),
    (re.compile(_grammar.YEAR_RULE).fullmatch, "the year has at least four digits"),
    (
        re.compile(_grammar.REST_RULE).fullmatch,
        "the date is month.day.hour.minute, two digits each, then perhaps .second",
    ),
)
