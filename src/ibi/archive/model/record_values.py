"""Normalises values of records from other systems: names, URLs, languages, dates, sources, authors (pure).

Silva, Maria da (https://orcid.org/0000-0002-1825-0097)
Silva, Maria da [ORCID: 0000-0002-1825-0097]
12/03/2026, 12 de março de 2026, March 12, 2026: 2026-03-12
Revista do Mar, v. 12, n. 3, p. 45-67
"""

from __future__ import annotations

import html
import re
from datetime import date
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from babel import Locale
from babel.core import get_global

from ibi.errors import BadItem, ParseError
from ibi.identifier.ibip import IBIp
from ibi.identifier.legacy import LegacyId
from ibi.identifier.repository import UniformRepositoryName
from ibi.identifier.unwrapping import unwrap
from ibi.protocol.language import canonical_language

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ibi.archive.model.item import MetadataValue
    from ibi.identifier.forms import Name
    from ibi.identifier.unwrapping import Unwrapped


_WEB: Final = re.compile(r"https?://[0-9A-Za-z.\[\]:-]+(?:[/?#].*)?", re.IGNORECASE | re.DOTALL)
_DOI: Final = re.compile(
    r"(?:https?://(?:dx\.)?doi\.org/|doi:\s*|info:doi/)?(10\.[0-9]{4,9}/\S+)", re.IGNORECASE
)
_IN_A_URL: Final = "!#$%&'()*+,/:;=?@[]~"
_ONLY_AROUND: Final = frozenset({"resolver address", "url scheme", "upn", "ibi scheme", "punctuation"})
_BY_HAND: Final = {
    "american": "en-US", "british": "en-GB", "usenglish": "en-US", "ukenglish": "en-GB", "ngerman": "de",
    "brazil": "pt-BR", "brazilian": "pt-BR", "brazilian portuguese": "pt-BR", "portuguese (brazil)": "pt-BR",
    "português do brasil": "pt-BR", "português (brasil)": "pt-BR", "castilian": "es",
}  # fmt: skip
"""Names of languages in BibTeX and catalogues that Babel does not know."""


def names_in(texts: Iterable[str], *, only_names: bool = False) -> dict[str, Any]:
    """Find the names of an item in texts: the first name of each form, and every older opaque id.

    Returns them as fields of an item: {"rep": …, "ibip": …, "aliases": […]}. With `only_names`, a text is
    skipped if it has more in it than a name and the address of a resolver.
    """
    found: dict[str, Any] = {}
    for text in texts:
        unwrapped = _unwrapped(text)
        if unwrapped is None or (only_names and not is_only_a_name(unwrapped)):
            continue
        name = unwrapped.ibi
        if isinstance(name, LegacyId):
            found.setdefault("aliases", []).append(str(name))
        elif isinstance(name, UniformRepositoryName):
            found.setdefault("rep", str(name))
        elif name.ip is not None:
            # An IBIp without an IP, two words with a slash between them, is not certainly a name.
            found.setdefault("ibip", str(name))
    return found


def name_in(text: str) -> Name | None:
    """Return the name in a text; None without one, or if it is an IBIp without IP, which is uncertain."""
    unwrapped = _unwrapped(text)
    if unwrapped is None or (isinstance(unwrapped.ibi, IBIp) and unwrapped.ibi.ip is None):
        return None
    return unwrapped.ibi


def _unwrapped(text: str) -> Unwrapped | None:
    try:
        return unwrap(text)
    except ParseError:
        return None


def is_only_a_name(unwrapped: Unwrapped) -> bool:
    """Return whether a text is nothing but a name, with or without the address of a resolver."""
    kinds = {piece.kind for piece in unwrapped.wrappers}
    wrapped = any(piece.text in {"ibi/", "rep/"} for piece in unwrapped.wrappers)
    return not unwrapped.after and kinds <= (_ONLY_AROUND | {"archive path"} if wrapped else _ONLY_AROUND)


def is_persistent(url: str) -> bool:
    """Return whether a URL is a persistent URL, which names an item but is not its location."""
    unwrapped = _unwrapped(url)
    return unwrapped is not None and is_only_a_name(unwrapped)


def web_address(text: str) -> str | None:
    """Return an http or https URL, encoded for a redirect; None if the text is no such URL."""
    stripped = text.strip()
    if not _WEB.fullmatch(stripped):
        return None
    return quote(" ".join(stripped.split()), safe=_IN_A_URL)


def doi_address(text: str) -> str | None:
    """Return the URL of a DOI in any usual spelling; None if the text is no DOI."""
    doi = doi_of(text)
    return f"https://doi.org/{quote(doi, safe=_IN_A_URL)}" if doi else None


def doi_of(text: str) -> str | None:
    """Return the bare DOI ("10.1234/abc") of any usual spelling; None if the text is no DOI."""
    match = _DOI.fullmatch(text.strip())
    return match[1] if match else None


def without_html(text: str) -> str:
    """Return a text without the HTML of an editor: its tags go, its entities become characters.

    A text without such a tag stays as it is: "x < y" and "<sic>" are no HTML.
    """
    if not _TAG.search(text):
        return text
    kept = _TAG.sub(lambda tag: " " if tag["block"] else "", text)
    return " ".join(html.unescape(kept).split())


def licence_among(rights: Iterable[str]) -> str:
    """Return the first URL of a licence that many use; "" without one."""
    urls = (url for text in rights if (url := web_address(text)) is not None)
    return next((url for url in urls if _LICENCE.match(url)), "")


_LICENCE: Final = re.compile(r"https?://(?:www\.)?(?:creativecommons|rightsstatements)\.org/", re.IGNORECASE)
_TAG: Final = re.compile(
    r"</?(?:(?P<block>p|br|div|li|ul|ol|h[1-6]|blockquote|table|tr|td|th)"
    r"|em|i|b|u|strong|sup|sub|span|a|small|font)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)


def language_of(text: str) -> str | None:
    """Return the tag (pt, pt-BR) of a language, given its tag, three-letter code or name; None if unknown."""
    name = " ".join(text.replace("_", "-").split()).lower()
    if name in _BY_HAND:
        return _BY_HAND[name]
    first, hyphen, rest = name.partition("-")
    known = _languages().get(name) or get_global("language_aliases").get(first, first) + hyphen + rest
    try:
        return canonical_language(known)
    except ParseError:
        return None


@cache
def _languages() -> dict[str, str]:
    """Return the two-letter codes of languages by their names in English, Portuguese and Spanish."""
    codes = [code for code in map(str, Locale("en").languages) if len(code) == len("pt")]
    names: dict[str, str] = {}
    for locale in ("es", "pt", "en"):
        written = Locale(locale).languages
        names |= {written[code].lower(): code for code in codes if code in written}
    return names


class Day(NamedTuple):
    """A date; `month` and `day` are 0 if they are unknown."""

    year: int
    month: int = 0
    day: int = 0

    def __str__(self) -> str:
        """Return it as ISO 8601: "2026-09-14", "2026-09" or "2026"."""
        known = [f"{self.year:04}", *(f"{part:02}" for part in (self.month, self.day) if part)]
        return "-".join(known)


_MONTHS: Final = (
    ("january", "janeiro"), ("february", "fevereiro"), ("march", "março"), ("april", "abril"), ("may", "maio"),
    ("june", "junho"), ("july", "julho"), ("august", "agosto"), ("september", "setembro"), ("october", "outubro"),
    ("november", "novembro"), ("december", "dezembro"),
)  # fmt: skip
_YEAR_FIRST: Final = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?|/([0-9]{1,2})/([0-9]{1,2}))?(?:[T/ ].*)?", re.ASCII
)
_YEAR_LAST: Final = re.compile(r"(?:([0-9]{1,2})([./-]))?([0-9]{1,2})[./-]([0-9]{4})(?: .*)?", re.ASCII)
_DAY_AND_NAME: Final = re.compile(
    r"(?:([0-9]{1,2})(?:º|st|nd|rd|th)?\s+(?:de\s+)?)?([^\W\d_]{3,})\.?,?\s+(?:de\s+)?([0-9]{4})"
)
_NAME_AND_DAY: Final = re.compile(r"([^\W\d_]{3,})\.?\s+([0-9]{1,2})(?:st|nd|rd|th)?,?\s+([0-9]{4})")
_ANY_YEAR: Final = re.compile(r"(?<![0-9])[12][0-9]{3}(?![0-9])", re.ASCII)
_LONGEST_DATE: Final = 100  # characters of a text in which a date is looked for


def date_in(texts: Iterable[tuple[str, str]]) -> Day | None:
    """Return the first date in (text, language) pairs, else the first year that is alone in its text."""
    known = list(texts)
    if day := next(filter(None, (day_of(text, language) for text, language in known)), None):
        return day
    years = (set(_ANY_YEAR.findall(text[:_LONGEST_DATE])) for text, _ in known)
    return next((Day(int(found.pop())) for found in years if len(found) == 1), None)


@lru_cache(maxsize=4096)
def day_of(text: str, language: str = "") -> Day | None:
    """Return the day, month or year in a text, or the beginning of a period; None if the text is no date.

    12/03/2026 is a day in March; only in US English ("en-US") the month stands first.
    """
    text = text.strip()[:_LONGEST_DATE]
    if found := _YEAR_FIRST.fullmatch(text):
        year, month, day, other_month, other_day = found.groups()
        return _day(year, month or other_month, day or other_day)
    if found := _YEAR_LAST.fullmatch(text):
        first, _, second, year = found.groups()
        orders = [(second, first), (first, second)] if first else [(second, None)]
        if language.lower() == "en-us":
            orders.reverse()
        return next((each for month, day in orders if (each := _day(year, month, day))), None)
    if found := _DAY_AND_NAME.fullmatch(text):
        return _day(found[3], _month(found[2]), found[1])
    if found := _NAME_AND_DAY.fullmatch(text):
        return _day(found[3], _month(found[1]), found[2])
    return None


def is_impossible(text: str, language: str = "") -> bool:
    """Return whether a text has the form of a date that no calendar has: "31/02/2026", "2026-13".

    False for a text without that form, such as "about 1900". `language`: as for `day_of`.
    """
    text = text.strip()[:_LONGEST_DATE]
    if _YEAR_FIRST.fullmatch(text) or _YEAR_LAST.fullmatch(text):
        return day_of(text, language) is None
    named = _DAY_AND_NAME.fullmatch(text)
    month = named[2] if named else found[1] if (found := _NAME_AND_DAY.fullmatch(text)) else ""
    return month != "" and _month(month) != "0" and day_of(text, language) is None


def impossible_dates(
    metadata: Mapping[str, tuple[MetadataValue, ...]] | None,
    before: Mapping[str, tuple[MetadataValue, ...]] | None = None,
) -> Iterator[BadItem]:
    """Yield an error for each date in metadata that no calendar has, but not for the dates of `before`."""
    known = {value for value, _ in (before or {}).get("date", ())}
    for value, language in (metadata or {}).get("date", ()):
        if value not in known and is_impossible(value, language or ""):
            yield BadItem("{name}: no calendar has the date {value}", name="date", value=value)


def _day(year: str, month: str | None, day: str | None) -> Day | None:
    """Return the date of these digits; None if no calendar has it."""
    known = Day(int(year), int(month or 0), int(day or 0))
    try:
        date(known.year, known.month or 1, known.day or 1)
    except ValueError:
        return None
    return known if known.month or month is None else None


def _month(word: str) -> str:
    """Return the number of a month by its English or Portuguese name or its first letters; "0" if unknown."""
    short = word.lower()
    found = (
        number for number, names in enumerate(_MONTHS, 1) if any(name.startswith(short) for name in names)
    )
    return str(next(found, 0))


class Source(NamedTuple):
    """The larger work in which a text appeared, as one value of Dublin Core; unknown parts are "".

    `pages`: "45-67". Its text: "Revista do Mar, v. 12, n. 3, p. 45-67".
    """

    name: str = ""
    volume: str = ""
    number: str = ""
    pages: str = ""

    def __str__(self) -> str:
        """Return its text, with the abbreviations of ABNT, which other reference lists understand, too."""
        prefixes = ("", "v. ", "n. ", "p. ")
        known = (f"{prefix}{value}" for prefix, value in zip(prefixes, self, strict=True) if value)
        return ", ".join(known)

    @classmethod
    def of(cls, name: str, volume: str, number: str, pages: str) -> Source:
        """Make a source from the fields of a reference; commas become semicolons, and dashes hyphens."""
        volume, number, pages = (each.replace(",", ";").strip() for each in (volume, number, pages))
        return cls(name, volume, number, _DASHES.sub("-", pages))

    @classmethod
    def parse(cls, text: str) -> Source:
        """Read a text, also as OJS writes it; whatever has no abbreviation before it belongs to the name."""
        journal = _JOURNAL_ISSUE.fullmatch(" ".join(text.split()))
        if journal and (journal["volume"] or journal["number"]):
            return cls(*(value or "" for value in journal.group("name", "volume", "number", "pages")))
        rest, found = text, dict[str, str]()
        while match := _LAST_PART.fullmatch(rest):
            kind = next(name for name in ("volume", "number", "pages") if match[name])
            if kind in found:
                break
            found[kind] = match[kind].strip()
            rest = match["rest"]
        return cls(name=rest.strip().removesuffix(",").rstrip(), **found)


_DASHES: Final = re.compile(r"\s*[-\u2010-\u2015]+\s*")
_JOURNAL_ISSUE: Final = re.compile(
    # Revista do Mar; v. 12 n. 3 (2021): Edição especial; 45-67
    r"(?P<name>[^;]+); ?(?:v(?:ol)?(?:\. ?| )(?P<volume>[^ ;,():]+))?,?"
    r" ?(?:(?:no?|n\u00ba|n\u00fam)(?:\. ?| )(?P<number>[^ ;():]+))?"
    r" ?(?:\([0-9]{4}\))? ?(?::[^;]*)?(?:; ?(?P<pages>[^;]+))?",
    re.IGNORECASE,
)
"""The source of an article as OJS writes it in English, Portuguese and Spanish."""
_LAST_PART: Final = re.compile(
    r"(?P<rest>|.*?,)\s*(?:v(?:ol)?\.\s*(?P<volume>[^,]+)|n[o\u00ba]?\.\s*(?P<number>[^,]+)"
    r"|pp?\.\s*(?P<pages>[^,]+)),?",
    re.IGNORECASE,
)


_ORCID: Final = re.compile(
    r"[\s,;(\[<]*(?:orcid(?:\s*id)?\s*[:=]?\s*)?(?:https?://)?(?:www\.)?(?:orcid\.org/)?"
    r"(?<![0-9-])(\d{4}-\d{4}-\d{4}-\d{3}[\dX])(?![0-9-])[\s)\]>]*",
    re.ASCII | re.IGNORECASE,
)
_LONGEST_ROLE: Final = 20  # characters of a role behind a name, with its brackets
_LONGEST: Final = 500
"""Characters of a name in which an ORCID is looked for."""


class Author(NamedTuple):
    """A name without its ORCID, and the ORCID ("0000-0002-1825-0097"), "" if there is none.

    `role`: ADVISER, or "" for other contributors and for creators.
    """

    name: str
    orcid: str = ""
    role: str = ""

    @property
    def url(self) -> str:
        """The URL of the ORCID, "" without one."""
        return f"https://orcid.org/{self.orcid}" if self.orcid else ""


@lru_cache(maxsize=4096)
def author(text: str) -> Author:
    """Split a name and its ORCID. A number with a wrong check digit is no ORCID: it stays in the name."""
    found = _ORCID.search(text[:_LONGEST])
    if found is None or not _checks(found[1]):
        return Author(text)
    name = f"{text[: found.start()]} {text[found.end() :]}".strip(" \t,;")
    return Author(name or found[1], found[1].upper())


ADVISER: Final = "adviser"
"""The role of a contributor who advised a thesis."""
_ADVISER: Final = re.compile(r"[(\[](?:advis[eo]r|supervisor|orientador(?:a|\(a\))?)[)\]]$", re.IGNORECASE)


@lru_cache(maxsize=4096)
def contributor(text: str) -> Author:
    """Split a name, its ORCID and its role: "Silva, Maria (orientadora)" and "Silva, Maria [adviser]" advised."""
    known = author(text)
    name = known.name.rstrip()
    found = _ADVISER.search(name, max(0, len(name) - _LONGEST_ROLE))
    if found is None or not name[: found.start()].strip():
        return known
    return known._replace(name=name[: found.start()].rstrip(" \t,;"), role=ADVISER)


def as_adviser(name: str) -> str:
    """Return the value of `contributor` for an adviser of this name, which may have an ORCID with it."""
    known = contributor(name)
    return f"{known.name} [{ADVISER}]{f' ({known.url})' if known.url else ''}"


def _checks(orcid: str) -> bool:
    """Return whether the last character is the check digit of the other digits (ISO 7064, MOD 11-2)."""
    digits = orcid.replace("-", "").upper()
    total = 0
    for digit in digits[:-1]:
        total = (total + int(digit)) * 2
    check = (12 - total % 11) % 11
    return digits[-1] == ("X" if check == 10 else str(check))  # noqa: PLR2004 - ISO 7064 writes ten as X
