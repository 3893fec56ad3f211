"""BibTeX, entry by entry: one that cannot be read harms no other, and the file may be larger than memory.

pybtex reads the entries; it would read the whole file at once and give up at the first fault, so the entries are told
apart here, by their braces.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pybtex.database.input.bibtex import LowLevelParser, month_names
from pybtex.scanner import PybtexSyntaxError

from ibi.archive.intake.sources.bibtex_fields import item_of
from ibi.archive.intake.sources.record import Record, record, shown, whole
from ibi.archive.intake.sources.text_lines import TextLines
from ibi.archive.item_lines import LONGEST_LINE
from ibi.errors import BadItem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from ibi.archive.intake.sources.text_lines import Line

LONGEST_ENTRY: Final = 1 << 18
"""Characters of the longest entry that is read."""

_MOST_FROM_STRINGS: Final = 1 << 20  # characters that the @string texts of one entry may come to
_START: Final = re.compile(r"\s*@\s*[A-Za-z]+\s*[{(]")
_CERTAIN_START: Final = re.compile(r'@\s*[A-Za-z]+\s*[{(]\s*[^\s,{}"=]+\s*,')


def read_bibtex(file: BinaryIO) -> Iterator[Record]:
    """The entries of a BibTeX file as records, in their order."""
    lines, texts = TextLines(file), _Strings()
    try:
        for first, chunk in _chunks(lines):
            yield from _entries(first, chunk, texts, lines)
    finally:
        lines.leave()


def _chunks(lines: TextLines) -> Iterator[tuple[int, str]]:
    """Pieces of the file that each hold one entry, now and then several, with the number of their first line."""
    piece: list[Line] = []
    size = depth = 0
    for line in lines:
        starts = (_CERTAIN_START if depth else _START).match(line.text)
        if piece and starts:
            yield piece[0].number, "".join(each.text for each in piece)
            piece, size, depth = [], 0, 0
        if not piece and not starts:
            continue  # between the entries anybody may write anything
        depth = max(0, depth + line.text.count("{") - line.text.count("}"))
        size += len(line.text)
        if size <= LONGEST_ENTRY:
            piece.append(line)
        else:  # only where it began is still of interest
            piece = [(piece or [line])[0]._replace(text="")]
    if piece:
        yield piece[0].number, "".join(each.text for each in piece)


def _entries(first: int, chunk: str, texts: _Strings, lines: TextLines) -> Iterator[Record]:
    if not chunk:
        problem = "the entry is longer than {limit} characters"
        yield Record(first, "", BadItem(problem, limit=LONGEST_ENTRY), lines.read)
        return
    texts.given = 0
    parser = _Entries(chunk, texts)
    try:
        for command, body in parser:
            if command.lower() in {"string", "preamble"}:
                continue
            key, fields = body
            said = [(name.lower(), "".join(parts)) for name, parts in fields]
            try:
                whole([key, *(text for _, text in said)])
            except BadItem as error:
                yield Record(first + parser.begun, shown(key), error, lines.read)
                continue
            value = item_of(command.lower(), key, said)
            yield record(first + parser.begun, key, value, lines.read)
    except (PybtexSyntaxError, BadItem) as error:
        name = shown(parser.current_entry_key or "")
        yield Record(first + parser.begun, name, _fault(error, first), lines.read)


def _fault(error: Exception, first: int) -> BadItem:
    if isinstance(error, BadItem):
        return error
    reason = shown(str(error.args[0]))
    line = first + getattr(error, "lineno", 1) - 1
    return BadItem("the entry is not BibTeX from line {line} on: {reason}", line=line, reason=reason)


class _Entries(LowLevelParser):  # type: ignore[misc]  # pybtex ships no types
    """pybtex's reader of entries, which takes a name without @string as it stands and raises every other fault."""

    def __init__(self, text: str, texts: _Strings) -> None:
        super().__init__(text, macros=texts)

    @property
    def begun(self) -> int:
        """How many lines of the text stand before the entry being read."""
        return int(self.text.count("\n", 0, self.command_start or 0))

    def substitute_macro(self, name: str) -> str:
        """The text of an @string, or the name itself."""
        found: str = self.macros.get(name.lower(), name)
        self.macros.give(len(found))
        return found

    def parse_string_body(self, body_end: Any) -> None:
        """Note an @string under its name in lower case."""
        super().parse_string_body(body_end)
        self.macros[self.current_field_name.lower()] = "".join(self.current_value)


class _Strings(dict[str, str]):
    """The texts of @string, which later ones may repeat: no entry may grow by them beyond all measure."""

    def __init__(self) -> None:
        super().__init__(month_names)
        self.given = 0

    def give(self, size: int) -> None:
        """Count what an entry takes. Raises BadItem where it is too much."""
        self.given += size
        if self.given > _MOST_FROM_STRINGS:
            raise BadItem("the entry is longer than {limit} characters", limit=LONGEST_LINE)
