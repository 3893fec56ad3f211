"""What the fields of a BibTeX entry say of an item: LaTeX decoded, names turned, Dublin Core made (pure).

"Gerald Jean Francis Banon and others" becomes "Banon, Gerald Jean Francis".
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final

import latexcodec  # noqa: F401 - it registers the codec "ulatex"
from pybtex.bibtex.utils import split_name_list
from pybtex.database import Person
from pybtex.exceptions import PybtexError

from ibi.archive.intake.sources.values import doi_address, is_persistent, language_of, names_in, web_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NAMING: Final = ("ibi", "rep", "repository", "ibip", "identifier")
"""Fields that hold a name of the item, if they hold one at all."""

_SAID: Final[Mapping[str, tuple[str, ...]]] = {
    "title": ("title",),
    "description": ("abstract", "note"),
    "publisher": ("publisher", "school", "institution", "organization"),
    "source": ("journal", "journaltitle", "booktitle"),
    "rights": ("copyright", "rights", "licence", "license"),
    "language": ("language", "langid"),
}
"""Elements of Dublin Core, and the fields of which the first that is there tells them."""

_LATEX: Final[Any] = codecs.lookup("ulatex")
_LONGEST_NAME: Final = 300  # characters; a longer one is taken as it stands
_COMMAND: Final = re.compile(
    r"\\(?:emph|text[a-z]{2,5}|math[a-z]{2,4}|mbox|url|uppercase|lowercase|em|it|bf|tt|sc|rm|sl|sf|sffamily"
    r"|small|large|footnotesize|protect|noopsort)(?![A-Za-z])\s*"
)
_DOTLESS: Final = re.compile(r"(\\(?:[`'^\"~=.]|[uvHbcdkrt](?![A-Za-z]))\s*)\{\s*\\([ij])\s*\}")
_MARKED: Final = re.compile(r"[\\~]|--|``|''")
_MONTHS: Final = (
    "january february march april may june july august september october november december".split()
)
_YEAR: Final = re.compile(r"[12][0-9]{3}")


def item_of(kind: str, key: str, fields: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The object of an entry, as a JSON line would have it. `fields` by their names in lower case; the first counts."""
    raw = {name: " ".join(value.split()) for name, value in reversed(fields)}
    said = {name: plain(value) for name, value in raw.items() if value}
    value: dict[str, Any] = names_in(raw[name].strip("{}") for name in _NAMING if raw.get(name))
    link = _address(raw.get("url") or raw.get("howpublished", ""))
    doi = doi_address(_bare(raw.get("doi", "")))
    if link and is_persistent(link):
        value = {**names_in([link]), **value}
    elif link or doi:
        value["url"] = link or doi
    if "rep" not in value and "ibip" not in value:
        value["key"] = key
    if (language := language_of(said.get("language") or said.get("langid", ""))) is not None:
        value["language"] = language
    metadata = {
        "title": [], "creator": _people(raw.get("author", "")), "subject": _subjects(said.get("keywords", "")),
        "contributor": _people(raw.get("editor", "")), "date": _date(said), "type": [kind],
        "identifier": [each for each in (link, doi, *_numbers(said)) if each],
    }  # fmt: skip
    for element, names in _SAID.items():
        metadata[element] = [said[name] for name in names if name in said][:1]
    return value | {"metadata": {element: values for element, values in metadata.items() if values}}


def plain(text: str) -> str:
    """LaTeX as plain text: accents, dashes and quotation marks decoded, braces and emphasis gone."""
    if _MARKED.search(text):
        marked = _DOTLESS.sub(r"\1{\2}", _COMMAND.sub("", text))
        try:
            text = _LATEX.decode(marked, "ignore")[0]
        except (ValueError, LookupError):
            text = marked
    return unicodedata.normalize("NFC", " ".join(text.replace("{", "").replace("}", "").split()))


def _bare(text: str) -> str:
    r"""An address as it is meant: without \url and braces, and with the characters that LaTeX wants marked."""
    return re.sub(r"\\([_%&#~$])", r"\1", _COMMAND.sub("", text).replace("{", "").replace("}", "")).strip()


def _address(text: str) -> str | None:
    return web_address(_bare(text))


def _people(text: str) -> list[str]:
    """Each person with the family name first, and no "others"."""
    names = split_name_list(text) if text else []
    return [_person(name) for name in names if name.strip() and name.lower() != "others"]


def _person(name: str) -> str:
    if len(name) > _LONGEST_NAME:
        return plain(name)
    try:
        person = Person(name)
    except (PybtexError, ValueError, IndexError):
        return plain(name)
    family = " ".join([*person.prelast_names, *person.last_names])
    given = " ".join([*person.first_names, *person.middle_names])
    return plain(", ".join(part for part in (family, *person.lineage_names, given) if part))


def _subjects(text: str) -> list[str]:
    marks = ";" if ";" in text else ","
    return [each.strip(" .") for each in text.split(marks) if each.strip(" .")]


def _date(said: Mapping[str, str]) -> list[str]:
    """The date as ISO 8601 as far as it is known, or as it was written."""
    date, year, month = said.get("date", ""), said.get("year", ""), said.get("month", "").lower().strip(".")
    number = int(month) if month.isascii() and month.isdecimal() and len(month) < len("123") else 0
    if number == 0 and len(month) >= len("jan"):
        number = next((n for n, name in enumerate(_MONTHS, 1) if name.startswith(month)), 0)
    if date or not year:
        return [date] if date else []
    return [f"{year}-{number:02}" if _YEAR.fullmatch(year) and 1 <= number <= len(_MONTHS) else year]


def _numbers(said: Mapping[str, str]) -> list[str]:
    return [f"{name.upper()} {said[name]}" for name in ("isbn", "issn") if name in said]
