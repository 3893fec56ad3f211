"""Records of any source, lines of text files in any usual encoding, and the reader of JSON lines.

The fields are those of docs/reference/formats.md. At most one line of a file is in memory.
"""

from __future__ import annotations

import codecs
import io
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.model.item_json import LONGEST_LINE, Draft, keyed, read_item, read_line
from ibi.archive.model.record_values import impossible_dates, is_persistent, language_of, names_in
from ibi.errors import BadItem, IbiError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO


_LONGEST_SHOWN: Final = 200  # characters of a faulty text that a report shows


class SourceRecord(NamedTuple):
    """A record: the line where it starts (0 without lines), its name in the source, and the item or an error.

    `read`: the number of bytes of the source that have been read so far; `left_out`: the names of fields of
    the source that an item does not have.
    """

    line: int
    name: str
    draft: Draft | IbiError
    read: int
    left_out: Sequence[str] = ()

    def notes(self) -> Iterator[IbiError]:
        """Yield the notices about a record that is not refused."""
        if self.left_out:
            yield IbiError(
                "not imported, for an item has no field for it: {fields}", fields=", ".join(self.left_out)
            )
        if not isinstance(self.draft, IbiError) and (metadata := self.draft.facts.get("metadata")):
            yield from impossible_dates(metadata)


def record(
    line: int, name: str, value: Mapping[str, Any], read: int, left_out: Sequence[str] = ()
) -> SourceRecord:
    """Make a record of an object as in a JSON line (docs/reference/formats.md)."""
    name = printable(name)
    try:
        check_encodable(value)
        return SourceRecord(line, name, keyed(read_item(value), value), read, left_out)
    except IbiError as error:
        return SourceRecord(line, name, error, read)


def reference_object(
    names: Mapping[str, Any], links: Sequence[str], doi: str, language: str, metadata: Mapping[str, list[str]]
) -> dict[str, Any]:
    """Make the object of a reference, as in a JSON line.

    A persistent URL among its links becomes its name; the first other link, else its DOI's URL, its url.
    """
    value: dict[str, Any] = {**names_in(filter(is_persistent, links)), **names}
    if place := next((link for link in links if not is_persistent(link)), doi):
        value["url"] = place
    if (tag := language_of(language)) is not None:
        value["language"] = tag
    return value | {"metadata": {element: values for element, values in metadata.items() if any(values)}}


def printable(text: str) -> str:
    """Return a text from a source for a report: shortened, with "?" for unprintable characters."""
    return "".join(char if char.isprintable() else "?" for char in text[:_LONGEST_SHOWN])


def check_encodable(value: Any) -> None:
    """Refuse half a surrogate pair, which no file or database can store. Raises BadItem."""
    texts = [value]
    for each in texts:
        if isinstance(each, str):
            try:
                each.encode()
            except UnicodeEncodeError:
                raise BadItem("the text is not in the encoding that the rest of the file has") from None
        elif isinstance(each, dict):
            texts += [*each, *each.values()]
        elif isinstance(each, list):
            texts += each


_UTF8: Final = "utf-8-sig"
_UTF16: Final = "utf-16"
_ENCODINGS_BY_PREFIX: Final = {
    codecs.BOM_UTF8: _UTF8,
    codecs.BOM_UTF16_LE: _UTF16,
    codecs.BOM_UTF16_BE: _UTF16,
}


class TextLine(NamedTuple):
    """A line with its line end. A line longer than LONGEST_LINE is cut after one character more."""

    number: int
    text: str


class TextLines:
    """The lines of a file, from its beginning. `give_back` puts lines back, to be read again.

    Bytes that are invalid in the encoding become half characters (U+DC80 to U+DCFF).
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._encoding = encoding_of(file)
        errors = "strict" if self._encoding == _UTF16 else "surrogateescape"
        self._text = io.TextIOWrapper(file, encoding=self._encoding, errors=errors, newline="\n")
        self._again: deque[TextLine] = deque()
        self._number = 0

    def __iter__(self) -> Iterator[TextLine]:
        """Return itself: the lines are read once."""
        return self

    def __next__(self) -> TextLine:
        """Return the next line. Raises BadItem where the file cannot be decoded further."""
        if self._again:
            return self._again.popleft()
        rest = line = self._piece()
        if not line:
            raise StopIteration
        while len(rest) > LONGEST_LINE and not rest.endswith("\n"):
            rest = self._piece()
        self._number += 1
        return TextLine(self._number, line)

    def _piece(self) -> str:
        try:
            return self._text.readline(LONGEST_LINE + 1)
        except UnicodeDecodeError:
            # After an error in UTF-16 no further line can be read.
            raise BadItem("the file is not {encoding} all through", encoding=self._encoding.upper()) from None

    def give_back(self, lines: list[TextLine]) -> None:
        """Put lines back; they are read again before all others."""
        self._again.extendleft(reversed(lines))

    @property
    def read(self) -> int:
        """The number of bytes of the file that have been read."""
        return self._file.tell()

    def leave(self) -> None:
        """Detach from the file, which its opener closes."""
        self._text.detach()


def encoding_of(file: BinaryIO) -> str:
    """Return the encoding of a file, by its byte order mark, else UTF-8 or Windows-1252; rewind the file."""
    # Windows-1252 only if more lines with letters beyond ASCII are invalid UTF-8 than valid: one bad byte in
    # a file of a million lines must spoil only its own line.
    file.seek(0)
    start = file.read(len(codecs.BOM_UTF8))
    marked = next((name for prefix, name in _ENCODINGS_BY_PREFIX.items() if start.startswith(prefix)), None)
    file.seek(0)
    if marked:
        return marked
    wrong = 0  # lines that are not UTF-8, less those that are
    while line := file.readline(LONGEST_LINE):
        if line.isascii():
            continue
        try:
            line.decode()
            wrong -= 1
        except UnicodeDecodeError:
            wrong += 1
    file.seek(0)
    return "cp1252" if wrong > 0 else _UTF8


def read_json_lines(file: BinaryIO) -> Iterator[SourceRecord]:
    """Yield the lines that are not blank as records; an overlong line is never in memory as a whole."""
    number = read = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        read += len(line)
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            line = file.readline(LONGEST_LINE + 1)
            read += len(line)
        if not text.strip():
            continue
        draft: Draft | IbiError
        try:
            if len(text) > LONGEST_LINE:
                raise BadItem("the line is longer than {limit} bytes", limit=LONGEST_LINE)
            draft = read_line(text)
        except IbiError as error:
            draft = error
        yield SourceRecord(number, "", draft, read)
