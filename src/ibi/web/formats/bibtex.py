r"""BibTeX: one entry in UTF-8, its special characters as commands, so that no brace of a title ends a field (pure).

BibTeX counts braces, also those behind a backslash; so a brace is written as \textbraceleft.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ibi.web.formats.record import Person, Record

_SPECIAL: Final = str.maketrans({
    "{": r"\textbraceleft{}",
    "}": r"\textbraceright{}",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{char: f"\\{char}" for char in "%&#$_"},
})  # fmt: skip
_NO_KEY: Final = re.compile(r"[^A-Za-z0-9]+")
_NOT_IN_URL: Final = re.compile(r"[{}\\\s]")
_PUBLISHED_BY: Final = {"phdthesis": "school", "mastersthesis": "school", "techreport": "institution"}
_INSIDE: Final = {"article": "journal", "inproceedings": "booktitle", "incollection": "booktitle"}


def write(item: Record) -> bytes:
    """The item as one BibTeX entry; its key is made of its name."""
    kind = item.kind.bibtex
    fields = {
        "title": f"{{{_tex(item.title)}}}",  # the second pair of braces keeps its capital letters
        "author": " and ".join(map(_name, item.creators)),
        "year": str(item.issued.year) if item.issued else "",
        "month": str(item.issued.month or "") if item.issued else "",
        _PUBLISHED_BY.get(kind, "publisher"): _tex(item.publisher),
        _INSIDE.get(kind, "howpublished"): _tex(item.source),
        "keywords": _tex(", ".join(text.value for text in item.subjects)),
        "abstract": _tex(" ".join(text.value for text in item.descriptions)),
        "language": _tex(item.language),
        "doi": _NOT_IN_URL.sub("", item.doi),
        "url": _NOT_IN_URL.sub("", item.url),
        "note": f"removed on {item.updated[:10]}" if item.removed else "",
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    key = _NO_KEY.sub("-", item.names[0])
    return "\n".join((f"@{kind}{{{key},", *lines, "}", "")).encode("utf-8", "replace")


def _name(person: Person) -> str:
    """A person in two parts; a name that is only whole stands in braces, so that no "and" or comma cuts it."""
    if person.family:
        return f"{_part(person.family)}, {_part(person.given)}"
    return f"{{{_tex(person.name)}}}"


def _part(name: str) -> str:
    """Part of a name, in braces where it would be cut."""
    return f"{{{_tex(name)}}}" if "," in name or " and " in f" {name.lower()} " else _tex(name)


def _tex(text: str) -> str:
    return text.translate(_SPECIAL)
