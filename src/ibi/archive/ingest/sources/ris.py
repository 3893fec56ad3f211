"""Reads RIS, reference by reference: an unreadable one does not affect others; the file may exceed memory.

TY  - JOUR          the first line of a reference
AU  - Silva, M.     a tag, two blanks, a hyphen, and its value; a line without a tag continues the line before
ER  -               its last line; it may be missing before the next TY
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.ingest.sources.records import SourceRecord, TextLines, record, reference_object
from ibi.archive.model.record_values import Source, as_adviser, day_of, doi_address, names_in, web_address
from ibi.errors import BadItem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO

LONGEST_REFERENCE: Final = 1 << 20
"""Characters of one reference."""

_TAG: Final = re.compile(r"([A-Z][A-Z0-9])  ?-(?: (.*))?", re.DOTALL)
_DATE: Final = re.compile(r"([12][0-9]{3})(?:[/-]([0-9]{1,2})(?:[/-]([0-9]{1,2}))?)?(?![0-9])")
_TYPES: Final = {
    tag: kind
    for kind, *tags in (
        ("article", "JOUR", "EJOUR", "MGZN", "NEWS"),
        ("preprint", "UNPB"),
        ("book", "BOOK", "EBOOK", "EDBOOK"),
        ("book chapter", "CHAP", "ECHAP"),
        ("conference paper", "CPAPER"),
        ("proceedings", "CONF"),
        ("presentation", "SLIDE"),
        ("thesis", "THES"),
        ("report", "RPRT"),
        ("dataset", "DATA", "DBASE"),
        ("software", "COMP"),
        ("map", "MAP"),
        ("video", "VIDEO"),
        ("sound", "SOUND"),
        ("web page", "ELEC"),
    )
    for tag in tags
}
"""The types of RIS in words; any other type stays as it is."""
_ELEMENT_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "title": ("TI", "T1", "CT"),
    "description": ("AB", "N2"),
    "publisher": ("PB",),
    "language": ("LA",),
}
"""The tags of an element of Dublin Core; its value is that of the first tag in a reference."""
_SOURCE_TAGS: Final = (("T2", "JO", "JF", "JA", "BT"), ("VL",), ("IS",), ("SP",), ("EP",))
"""The tags of the parts of the element `source`: a name, a volume, a number, the first and the last page."""


def read_ris(file: BinaryIO) -> Iterator[SourceRecord]:
    """Yield the references of a file as records; the fields of an overlong reference are discarded."""
    lines = TextLines(file)
    reference = _Reference(0)
    try:
        for number, text in lines:
            tag = _TAG.fullmatch(text.rstrip("\r\n"))
            begins = tag is not None and tag[1] == "TY"
            if begins and reference:
                yield reference.record(lines.read)
            if begins:
                reference = _Reference(number)
            if tag is not None and tag[1] == "ER":
                if reference:
                    yield reference.record(lines.read)
                reference = _Reference(0)
            elif text.strip() or reference.overlong:
                reference.take(number, tag, text)
        if reference:
            yield reference.record(lines.read)
    finally:
        lines.leave()


class _Reference:
    """A reference that is being read; `line` is the number of its line TY, 0 without such a line."""

    def __init__(self, line: int) -> None:
        self.overlong = False
        self._line = line
        self._begun = line > 0
        # For each field its tag, and the lines of its value.
        self._fields: list[tuple[str, list[str]]] = []
        self._size = 0

    def __bool__(self) -> bool:
        """Return whether the reference has any line."""
        return self._begun or bool(self._fields) or self.overlong

    def take(self, number: int, tag: re.Match[str] | None, text: str) -> None:
        """Add a line."""
        self._line = self._line or number
        self._size += len(text)
        if self._size > LONGEST_REFERENCE:
            self.overlong = True
        elif tag is not None:
            self._fields.append((tag[1], [(tag[2] or "").strip()]))
        elif self._fields:
            self._fields[-1][1].append(text.strip())
        else:
            self._fields.append(("", [text.strip()]))

    def record(self, read: int) -> SourceRecord:
        """Return the reference as a record, with an error if it cannot be read."""
        if self.overlong:
            why = BadItem("the reference is longer than {limit} characters", limit=LONGEST_REFERENCE)
            return SourceRecord(self._line, "", why, read)
        if not self._begun:
            return SourceRecord(self._line, "", BadItem("a reference of RIS begins with a line TY"), read)
        values: dict[str, list[str]] = {}
        for name, parts in self._fields:
            if value := " ".join(parts).strip():
                values.setdefault(name, []).append(value)
        return record(
            self._line, next(iter(values.get("ID", values.get("TI", ()))), ""), _item_of(values), read
        )


def _contributors(values: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the contributors; of a thesis, A3 is who advised it."""
    if "THES" not in values.get("TY", ()):
        return _all(values, "A2", "ED", "A3", "A4")
    return [*_all(values, "A2", "ED", "A4"), *map(as_adviser, _all(values, "A3"))]


def _item_of(values: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Make the object of a reference, as in a JSON line."""
    links = [address for text in _all(values, "UR", "L2") if (address := web_address(text))]
    dois = [address for text in _all(values, "DO", "M3") if (address := doi_address(text))]
    names = names_in(_all(values, "ID", "AN", "C7"), only_names=True)
    metadata: dict[str, list[str]] = {
        "creator": _all(values, "AU", "A1"),
        "contributor": _contributors(values),
        "subject": _all(values, "KW"),
        "date": [date for text in _all(values, "DA", "PY", "Y1") if (date := _date(text))][:1],
        "type": [_TYPES.get(kind, kind) for kind in values.get("TY", ())],
        "identifier": [*links, *dois, *_all(values, "SN")],
    }
    for element, tags in _ELEMENT_FIELDS.items():
        metadata[element] = _all(values, *tags)[:1]
    name, volume, number, first, last = (next(iter(_all(values, *tags)), "") for tags in _SOURCE_TAGS)
    pages = f"{first}-{last}" if first and last not in {"", first} else first or last
    metadata["source"] = [str(Source.of(name, volume, number, pages))]
    language = next(iter(values.get("LA", ())), "")
    return reference_object(names, links, next(iter(dois), ""), language, metadata)


def _all(values: Mapping[str, Sequence[str]], *tags: str) -> list[str]:
    return [value for tag in tags for value in values.get(tag, ())]


def _date(text: str) -> str:
    """Return a date as "2014-05-03", "2014-05" or "2014"; "" if there is none."""
    match = _DATE.match(text.strip())
    if match is None:
        return str(day_of(text) or "")
    return "-".join(part.zfill(2) for part in match.groups() if part and int(part))
