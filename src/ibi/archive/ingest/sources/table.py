"""Reads CSV: a line with the names of the columns, then an item for each row; a bad row affects no others.

Commas, semicolons or tabs separate cells, ";" several values in a cell; UTF-8, Windows-1252 or UTF-16.
"""

from __future__ import annotations

import csv
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from ibi.archive.ingest.sources.records import SourceRecord, TextLines, check_encodable, printable, record
from ibi.archive.model.item import ELEMENTS
from ibi.archive.model.item_fields import ITEM_FIELDS
from ibi.archive.model.item_json import FACTS, LONGEST_LINE
from ibi.archive.model.record_values import ADVISER, as_adviser, language_of, name_in, names_in
from ibi.errors import BadItem
from ibi.identifier.legacy import LegacyId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from ibi.archive.ingest.sources.records import TextLine

_SEPARATORS: Final = ",;\t"
_TRUE: Final = frozenset({"true", "yes", "1", "sim", "verdadeiro"})
_FALSE: Final = frozenset({"false", "no", "0", "não", "nao", "falso"})
_TRUTHS: Final = frozenset(each.name for each in ITEM_FIELDS if each.schema.get("type") == "boolean")
_TABLES: Final = frozenset(each.name for each in ITEM_FIELDS if each.schema.get("type") == "object") - {
    "metadata"
}
_PLAIN: Final = frozenset({*FACTS, "ibi", "rep", "ibip", "key", "timestamp", "files"}) - {
    "metadata",
    *_TABLES,
}
"""Fields with a column of their own."""

_ELEMENT_COLUMNS: Final = tuple(
    f"metadata.{element}" if element in _PLAIN else element for element in ELEMENTS
)
"""The names of columns for the elements of Dublin Core."""

_ADVISERS: Final = frozenset(
    {"adviser", "advisor", "orientador", "orientadora", "contributor.advisor", "contributor.adviser"}
)
"""The columns of advisers: contributors with this role."""

_LONGEST_NAME: Final = 80  # characters of the name of a column that are shown

ColumnTarget = tuple[str, str, str]
"""The target of a column: a field, an element or tag inside the field, and the language of its values."""


def read_table(file: BinaryIO) -> Iterator[SourceRecord]:
    """Yield the rows of a CSV file as records, in their order. Raises BadItem for an unknown column."""
    lines = TextLines(file)
    try:
        head = next(lines, None)
        if head is None:
            return
        separator = max(_SEPARATORS, key=head.text.count)
        lines.give_back([head])
        columns: list[ColumnTarget] | None = None
        for line, cells in _rows(lines, separator):
            if isinstance(cells, BadItem):
                if columns is None:
                    raise cells
                yield SourceRecord(line, "", cells, lines.read)
            elif columns is None:
                columns = _columns(cells)
            elif any(cell.strip() for cell in cells):
                yield _row(line, columns, cells, lines.read)
    finally:
        lines.leave()


class TableColumns(NamedTuple):
    """The columns of a CSV file by their names: those that items have, and others, with which it is refused."""

    known: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def table_columns(file: BinaryIO) -> TableColumns:
    """Return the columns of a CSV file. Raises BadItem if its first line is no CSV."""
    lines = TextLines(file)
    try:
        head = next(lines, None)
        if head is None:
            return TableColumns()
        lines.give_back([head])
        _, cells = next(_rows(lines, max(_SEPARATORS, key=head.text.count)))
    finally:
        lines.leave()
    if isinstance(cells, BadItem):
        raise cells
    names = [printable(name.strip())[:_LONGEST_NAME] for name in cells if name.strip()]
    known = [name for name in names if _is_known(name)]
    return TableColumns(tuple(known), tuple(name for name in names if name not in known))


def _is_known(name: str) -> bool:
    try:
        _column(name)
    except BadItem:
        return False
    return True


def _rows(lines: TextLines, separator: str) -> Iterator[tuple[int, list[str] | BadItem]]:
    """Yield the rows, each with the number of its first line."""
    used: list[TextLine] = []

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
            # An unclosed quotation mark takes in the next lines: its line is refused, they are read again.
            lines.give_back(used[1:])
            yield used[0].number, BadItem("the row is not CSV: {reason}", reason=error)
            continue
        if row is None:
            return
        yield used[0].number, row


def _columns(names: Sequence[str]) -> list[ColumnTarget]:
    columns = [_column(name.strip()) for name in names]
    twice = next((put for n, put in enumerate(columns) if put[0] and put in columns[:n]), None)
    if twice and twice[0] != "metadata":
        raise BadItem("there are two columns {name}", name=".".join(filter(None, twice)))
    return columns


def _column(name: str) -> ColumnTarget:
    """Return the target of a column; fields of items precede elements of Dublin Core. Raises BadItem."""
    if name.lower().removeprefix("dc.") in _ADVISERS:
        return ADVISER, "", ""
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
    problem = "there is no column {name}; there are {columns}, and those such as title.pt and translations.pt"
    raise BadItem(problem, name=name, columns=", ".join((*sorted(_PLAIN), *_ELEMENT_COLUMNS)))


def _row(line: int, columns: Sequence[ColumnTarget], cells: Sequence[str], read: int) -> SourceRecord:
    try:
        check_encodable(list(cells))
        value = _value(columns, cells)
    except BadItem as error:
        return SourceRecord(line, "", error, read)
    name = next((str(value[field]) for field in ("rep", "ibip", "key") if field in value), "")
    return record(line, name, value, read)


def _value(columns: Sequence[ColumnTarget], cells: Sequence[str]) -> dict[str, Any]:
    """Make the object of a row, as in a JSON line. Raises BadItem."""
    value: dict[str, Any] = {}
    if any(cell.strip() for cell in cells[len(columns) :]):
        raise BadItem("the row has more cells than there are columns")
    for (field, inner, tag), cell in zip(columns, cells, strict=False):
        if not (field and cell.strip()):
            continue
        if field == "metadata":
            values = [{"value": each, "lang": tag} if tag else each for each in _several(cell)]
            value.setdefault(field, {}).setdefault(inner, []).extend(values)
        elif field == ADVISER:
            people = value.setdefault("metadata", {}).setdefault("contributor", [])
            people.extend(map(as_adviser, _several(cell)))
        elif field in _TABLES:
            value.setdefault(field, {})[inner if inner != "-" else ""] = cell.strip()
        elif field == "ibi":
            # A text without a name is passed on, so that the parser reports the error.
            value |= names_in(_several(cell)) or {"rep": cell.strip()}
        else:
            value[field] = _READ.get(field, str.strip)(cell)
    return value


def _several(cell: str) -> list[str]:
    return [each.strip() for each in cell.split(";") if each.strip()]


def _truth(cell: str) -> Any:
    text = cell.strip().lower()
    return True if text in _TRUE else False if text in _FALSE else cell


def _files(cell: str) -> dict[str, str]:
    """Return paths by file name, the last part of a path. Raises BadItem if two files have the same name."""
    files: dict[str, str] = {}
    for path in _several(cell):
        name = PurePosixPath(path).name
        if files.setdefault(quote(name), path) != path:
            raise BadItem("two files are called {name}", name=name)
    return files


def _aliases(cell: str) -> list[str]:
    names = {each: name_in(each) for each in _several(cell)}
    return [str(name) if isinstance(name, LegacyId) else each for each, name in names.items()]


_READ: Final[dict[str, Callable[[str], Any]]] = {
    "aliases": _aliases,
    "files": _files,
    "language": lambda cell: language_of(cell) or cell.strip(),
    **dict.fromkeys(_TRUTHS, _truth),
}
"""The readers of fields whose values are not plain texts."""
