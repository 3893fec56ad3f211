"""Tables as CSV: a line that names the columns, then an item a row; a row that cannot be read harms no other.

Commas, semicolons or tabs; UTF-8, Latin-1 or UTF-16; within a cell, ";" stands between several values.
"""

from __future__ import annotations

import csv
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ibi.archive.dublin_core import ELEMENTS
from ibi.archive.facts import FACTS
from ibi.archive.intake.sources.record import Record, record, whole
from ibi.archive.intake.sources.text_lines import TextLines
from ibi.archive.intake.sources.values import language_of, name_in, names_in
from ibi.archive.item_lines import LONGEST_LINE
from ibi.errors import BadItem
from ibi.identifier.legacy import LegacyId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from ibi.archive.intake.sources.text_lines import Line

_SEPARATORS: Final = ",;\t"
_TRUE: Final = frozenset({"true", "yes", "1", "sim", "verdadeiro"})
_FALSE: Final = frozenset({"false", "no", "0", "não", "nao", "falso"})
_TRUTHS: Final = frozenset({"transferable", "file_list_public"})
_TABLES: Final = frozenset({"translations", "formats"})
_PLAIN: Final = frozenset({*FACTS, "ibi", "rep", "ibip", "key", "timestamp", "files"}) - {
    "metadata",
    *_TABLES,
}
"""Fields that are a column of their own."""

Put = tuple[str, str, str]
"""What a column says: field, and inside it element or tag, and the language of its values."""


def read_table(file: BinaryIO) -> Iterator[Record]:
    """The rows of a CSV file as records, in their order. Raises BadItem where the name of a column means nothing."""
    lines = TextLines(file)
    try:
        head = next(lines, None)
        if head is None:
            return
        separator = max(_SEPARATORS, key=head.text.count)
        lines.give_back([head])
        columns: list[Put] | None = None
        for line, cells in _rows(lines, separator):
            if isinstance(cells, BadItem):
                if columns is None:
                    raise cells
                yield Record(line, "", cells, lines.read)
            elif columns is None:
                columns = _columns(cells)
            elif any(cell.strip() for cell in cells):
                yield _row(line, columns, cells, lines.read)
    finally:
        lines.leave()


def _rows(lines: TextLines, separator: str) -> Iterator[tuple[int, list[str] | BadItem]]:
    """The rows, each with the number of its first line. One with an open quotation mark costs only its first line."""
    used: list[Line] = []

    def fed() -> Iterator[str]:
        for line in lines:
            used.append(line)
            if len(line.text) > LONGEST_LINE:
                raise csv.Error(f"line longer than {LONGEST_LINE} characters")
            yield line.text

    while True:
        used.clear()
        try:
            row = next(csv.reader(fed(), delimiter=separator, strict=True), None)
        except csv.Error as error:
            lines.give_back(used[1:])
            yield used[0].number, BadItem("the row is not CSV: {reason}", reason=error)
            continue
        if row is None:
            return
        yield used[0].number, row


def _columns(names: Sequence[str]) -> list[Put]:
    columns = [_column(name.strip()) for name in names]
    twice = next((put for n, put in enumerate(columns) if put[0] and put in columns[:n]), None)
    if twice and twice[0] != "metadata":
        raise BadItem("there are two columns {name}", name=".".join(filter(None, twice)))
    return columns


def _column(name: str) -> Put:
    """What a column says: a field of items before an element of Dublin Core. Raises BadItem."""
    first, _, rest = name.partition(".")
    field, element = first.lower(), rest.partition(".")[0].lower()
    if field == "metadata" and element in ELEMENTS:
        return "metadata", element, rest.partition(".")[2]
    if field in _TABLES and rest:
        return field, rest, ""
    if field in _PLAIN and not rest:
        return field, "", ""
    if field in ELEMENTS:
        return "metadata", field, rest
    if not name:
        return "", "", ""
    raise BadItem("there is no field {name}", name=name)


def _row(line: int, columns: Sequence[Put], cells: Sequence[str], read: int) -> Record:
    try:
        whole(list(cells))
        value = _value(columns, cells)
    except BadItem as error:
        return Record(line, "", error, read)
    name = next((str(value[field]) for field in ("rep", "ibip", "key") if field in value), "")
    return record(line, name, value, read)


def _value(columns: Sequence[Put], cells: Sequence[str]) -> dict[str, Any]:
    """The object of a row, as a JSON line would have it. Raises BadItem."""
    value: dict[str, Any] = {}
    if any(cell.strip() for cell in cells[len(columns) :]):
        raise BadItem("the row has more cells than there are columns")
    for (field, inner, tag), cell in zip(columns, cells, strict=False):
        if not (field and cell.strip()):
            continue
        if field == "metadata":
            said = [{"value": each, "lang": tag} if tag else each for each in _several(cell)]
            value.setdefault(field, {}).setdefault(inner, []).extend(said)
        elif field in _TABLES:
            value.setdefault(field, {})[inner if inner != "-" else ""] = cell.strip()
        elif field == "ibi":
            value |= _named(cell)
        else:
            value[field] = _READ.get(field, str.strip)(cell)
    return value


def _several(cell: str) -> list[str]:
    return [each.strip() for each in cell.split(";") if each.strip()]


def _named(cell: str) -> dict[str, Any]:
    """The names in a cell of a column `ibi`; a text without any is shown to the grammar, which says why."""
    names = names_in(_several(cell))
    return names or {"rep": cell.strip()}


def _truth(cell: str) -> Any:
    said = cell.strip().lower()
    return True if said in _TRUE else False if said in _FALSE else cell


def _files(cell: str) -> dict[str, str]:
    """Paths; each file is called as the last part of its path is. Raises BadItem where two are called the same."""
    files: dict[str, str] = {}
    for path in _several(cell):
        name = PurePosixPath(path).name
        if files.setdefault(quote(name), path) != path:
            raise BadItem("two files are called {name}", name=name)
    return files


def _language(cell: str) -> str:
    return language_of(cell) or cell.strip()


def _aliases(cell: str) -> list[str]:
    names = {each: name_in(each) for each in _several(cell)}
    return [str(name) if isinstance(name, LegacyId) else each for each, name in names.items()]


_READ: Final[dict[str, Callable[[str], Any]]] = {
    "aliases": _aliases,
    "files": _files,
    "language": _language,
    **dict.fromkeys(_TRUTHS, _truth),
}
"""Fields whose values are more than a text."""
