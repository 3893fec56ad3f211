"""Reads BibTeX, entry by entry: an unreadable one does not affect others; the file may exceed memory.

pybtex parses the entries. It would read the whole file at once and stop at the first error, so the file is
split here, by braces. LaTeX is decoded, and "Gerald Banon and others" becomes "Banon, Gerald".
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final

import latexcodec  # noqa: F401 - it registers the codec "ulatex"
from pybtex.bibtex.utils import split_name_list
from pybtex.database import Person
from pybtex.database.input.bibtex import LowLevelParser, month_names
from pybtex.exceptions import PybtexError
from pybtex.scanner import PybtexSyntaxError

from ibi.archive.ingest.sources.records import (
    SourceRecord,
    TextLines,
    check_encodable,
    printable,
    record,
    reference_object,
)
from ibi.archive.model.record_values import Source, as_adviser, doi_address, names_in, web_address
from ibi.errors import BadItem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO

    from ibi.archive.ingest.sources.records import TextLine


_NAMING: Final = ("ibi", "rep", "repository", "ibip", "identifier")
"""Fields that may hold a name of the item."""

_ELEMENT_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "title": ("title",),
    "description": ("abstract", "note"),
    "publisher": ("publisher", "school", "institution", "organization"),
    "rights": ("copyright", "rights", "licence", "license"),
    "language": ("language", "langid"),
}
"""The fields of an element of Dublin Core; its value is that of the first field in an entry."""
_SOURCE_FIELDS: Final = (
    ("journal", "journaltitle", "booktitle"),
    ("volume",),
    ("number", "issue"),
    ("pages",),
)
"""The fields of the parts of the element `source`: a name, a volume, a number, pages."""

_ADVISERS: Final = ("advisor", "adviser", "supervisor", "orientador")
"""The fields of those who advised a thesis, as theses are exported in practice; BibTeX itself has none."""
_READ: Final = frozenset(
    {*_NAMING, *(name for names in (*_ELEMENT_FIELDS.values(), *_SOURCE_FIELDS) for name in names)}
    | {"url", "howpublished", "doi", "isbn", "issn", "author", "editor", "date", "year", "month", "keywords"}
    | set(_ADVISERS)
)
"""The fields from which items are made."""
_REPEATED: Final = frozenset({"year", "langid"})
"""Fields that mostly repeat the field that is used in their place."""

_LATEX: Final[Any] = codecs.lookup("ulatex")
# Characters of a person's name; a longer name is not split into family and given names.
_LONGEST_NAME: Final = 300
_COMMAND: Final = re.compile(
    r"\\(?:emph|text[a-z]{2,5}|math[a-z]{2,4}|mbox|url|uppercase|lowercase|em|it|bf|tt|sc|rm|sl|sf|sffamily"
    r"|small|large|footnotesize|protect|noopsort)(?![A-Za-z])\s*"
)
_DOTLESS: Final = re.compile(r"(\\(?:[`'^\"~=.]|[uvHbcdkrt](?![A-Za-z]))\s*)\{\s*\\([ij])\s*\}")
_SIGNS: Final = {
    "$": "$", "{": "{", "}": "}", "textasciicircum": "^", "textbraceleft": "{", "textbraceright": "}",
}  # fmt: skip
"""Signs that the decoder does not decode, by the names of their commands."""
_SIGN: Final = re.compile(
    r"(?<!\\)\\(?:([${}])|(text(?:asciicircum|brace(?:left|right)))(?![A-Za-z])(?:\s*\{\}|\s+)?)"
)
_MARKED: Final = re.compile(r"[\\~]|--|``|''")
_MONTHS: Final = (
    "january february march april may june july august september october november december".split()
)
_YEAR: Final = re.compile(r"[12][0-9]{3}")


def item_of(kind: str, key: str, fields: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Make the object of an entry, as in a JSON line. `fields`: lower-case names; the first of a name counts."""
    raw = {name: " ".join(value.split()) for name, value in reversed(fields)}
    values = {name: plain(value) for name, value in raw.items() if value}
    names = names_in(raw[name].strip("{}") for name in _NAMING if raw.get(name))
    link = web_address(_bare(raw.get("url") or raw.get("howpublished", "")))
    doi = doi_address(_bare(raw.get("doi", "")))
    numbers = [f"{name.upper()} {values[name]}" for name in ("isbn", "issn") if name in values]
    metadata = {
        "title": [], "creator": _people(raw.get("author", "")), "subject": _subjects(values.get("keywords", "")),
        "contributor": [
            *_people(raw.get("editor", "")),
            *(as_adviser(each) for name in _ADVISERS for each in _people(raw.get(name, ""))),
        ],
        "date": _date(values), "type": [kind],
        "identifier": [each for each in (link, doi, *numbers) if each],
    }  # fmt: skip
    for element, sources in _ELEMENT_FIELDS.items():
        metadata[element] = [values[name] for name in sources if name in values][:1]
    name, volume, number, pages = (
        next((values[each] for each in fields if each in values), "") for fields in _SOURCE_FIELDS
    )
    metadata["source"] = [str(Source.of(name, volume, number, pages))]
    language = values.get("language") or values.get("langid", "")
    # The DOI is not a second location if an entry has a link.
    value = reference_object(names, [link] if link else [], "" if link else doi or "", language, metadata)
    return value if "rep" in value or "ibip" in value else value | {"key": key}


def left_out(fields: Sequence[tuple[str, str]]) -> list[str]:
    """Return the names of the fields that `item_of` does not use, in their order; `fields`: as there."""
    given = [name for name, value in fields if value.strip()]
    passed_over: set[str] = set()
    for sources in (*_ELEMENT_FIELDS.values(), *_SOURCE_FIELDS, ("url", "howpublished"), ("date", "year")):
        passed_over.update([name for name in sources if name in given][1:])
    return [name for name in dict.fromkeys(given) if name not in _READ or name in passed_over - _REPEATED]


def plain(text: str) -> str:
    """Decode LaTeX to plain text: accents, dashes and quotation marks; braces and emphasis are removed."""
    if _MARKED.search(text):
        marked = _DOTLESS.sub(r"\1{\2}", _COMMAND.sub("", text))
        signs = [_SIGNS[found[1] or found[2]] for found in _SIGN.finditer(marked)]
        texts = [_without_braces(_decoded(piece)) for piece in _SIGN.split(marked)[::3]]
        text = "".join(text + sign for text, sign in zip(texts, [*signs, ""], strict=True))
    else:
        text = _without_braces(text)
    return unicodedata.normalize("NFC", " ".join(text.split()))


def _decoded(text: str) -> str:
    # The decoder drops leading blanks, as LaTeX does on a new line.
    blank = " " if text[:1].isspace() else ""
    return blank + str(_LATEX.decode(text, "ignore")[0])


def _without_braces(text: str) -> str:
    return text.replace("{", "").replace("}", "")


def _bare(text: str) -> str:
    r"""Strip an address of \url, braces, and the backslashes before characters that LaTeX treats specially."""
    return re.sub(r"\\([_%&#~$])", r"\1", _COMMAND.sub("", text).replace("{", "").replace("}", "")).strip()


def _people(text: str) -> list[str]:
    """Return each person with the family name first, without "others"."""
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
    separator = ";" if ";" in text else ","
    return [each.strip(" .") for each in text.split(separator) if each.strip(" .")]


def _date(values: Mapping[str, str]) -> list[str]:
    """Return the date as ISO 8601, or as it is written if it cannot be converted; [] if there is none."""
    date, year = values.get("date", ""), values.get("year", "")
    if date or not year:
        return [date] if date else []
    month = values.get("month", "").lower().strip(".")
    number = int(month) if month.isascii() and month.isdecimal() and len(month) < len("123") else 0
    if number == 0 and len(month) >= len("jan"):
        number = next((n for n, name in enumerate(_MONTHS, 1) if name.startswith(month)), 0)
    return [f"{year}-{number:02}" if _YEAR.fullmatch(year) and 1 <= number <= len(_MONTHS) else year]


LONGEST_ENTRY: Final = 1 << 18
"""Characters of the longest entry that is read."""

# Characters of all @string texts in one entry together.
_MOST_FROM_STRINGS: Final = 1 << 20
_START: Final = re.compile(r"\s*@\s*[A-Za-z]+\s*[{(]")
_CERTAIN_START: Final = re.compile(r'@\s*[A-Za-z]+\s*[{(]\s*[^\s,{}"=]+\s*,')


def read_bibtex(file: BinaryIO) -> Iterator[SourceRecord]:
    """Yield the entries of a BibTeX file as records, in their order."""
    lines, texts = TextLines(file), _Strings(month_names)
    try:
        for first, chunk in _chunks(lines):
            yield from _entries(first, chunk, texts, lines)
    finally:
        lines.leave()


def _chunks(lines: TextLines) -> Iterator[tuple[int, str]]:
    """Yield (first line number, text) of pieces of the file: one entry, or several on one line."""
    piece: list[TextLine] = []
    size = depth = 0
    for line in lines:
        starts = (_CERTAIN_START if depth else _START).match(line.text)
        if piece and starts:
            yield piece[0].number, "".join(each.text for each in piece)
            piece, size, depth = [], 0, 0
        if not piece and not starts:
            # Text between entries is a comment.
            continue
        depth = max(0, depth + line.text.count("{") - line.text.count("}"))
        size += len(line.text)
        if size <= LONGEST_ENTRY:
            piece.append(line)
        else:
            # Too long: only its first line number is kept, for the report.
            piece = [(piece or [line])[0]._replace(text="")]
    if piece:
        yield piece[0].number, "".join(each.text for each in piece)


def _entries(first: int, chunk: str, texts: _Strings, lines: TextLines) -> Iterator[SourceRecord]:
    if not chunk:
        problem = "the entry is longer than {limit} characters"
        yield SourceRecord(first, "", BadItem(problem, limit=LONGEST_ENTRY), lines.read)
        return
    texts.given = 0
    parser = _Entries(chunk, texts)
    try:
        for command, body in parser:
            if command.lower() in {"string", "preamble"}:
                continue
            key, fields = body
            values = [(name.lower(), "".join(parts)) for name, parts in fields]
            try:
                check_encodable([key, *(text for _, text in values)])
            except BadItem as error:
                yield SourceRecord(first + parser.begun, printable(key), error, lines.read)
                continue
            value = item_of(command.lower(), key, values)
            yield record(first + parser.begun, key, value, lines.read, left_out(values))
    except (PybtexSyntaxError, BadItem) as error:
        fault = error
        if isinstance(error, PybtexSyntaxError):
            line, reason = first + error.lineno - 1, printable(str(error.args[0]))
            fault = BadItem("the entry is not BibTeX from line {line} on: {reason}", line=line, reason=reason)
        yield SourceRecord(first + parser.begun, printable(parser.current_entry_key or ""), fault, lines.read)


class _Entries(LowLevelParser):  # type: ignore[misc]  # pybtex ships no types
    """pybtex's parser of entries, but a name without an @string is its own text; other errors are raised."""

    def __init__(self, text: str, texts: _Strings) -> None:
        super().__init__(text, macros=texts)

    @property
    def begun(self) -> int:
        """The number of lines before the entry that is being parsed."""
        return int(self.text[: self.command_start].count("\n"))

    def substitute_macro(self, name: str) -> str:
        """Return the text of the @string of this name, else the name itself."""
        found: str = self.macros.get(name.lower(), name)
        self.macros.give(len(found))
        return found

    def parse_string_body(self, body_end: Any) -> None:
        """Store an @string under its name in lower case."""
        super().parse_string_body(body_end)
        self.macros[self.current_field_name.lower()] = "".join(self.current_value)


class _Strings(dict[str, str]):
    """The texts of @string. They may contain each other, so an entry may use only so many (T23: hostile uploads)."""

    given: int
    """Characters of these texts that the present entry has used."""

    def give(self, size: int) -> None:
        """Count the characters that an entry uses. Raises BadItem if they are too many."""
        self.given += size
        if self.given > _MOST_FROM_STRINGS:
            raise BadItem("the entry is longer than {limit} characters", limit=_MOST_FROM_STRINGS)
