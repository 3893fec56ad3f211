"""Lines of text files that people made: their encoding found out, and never more than one line in memory."""

from __future__ import annotations

import codecs
import io
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.item_lines import LONGEST_LINE
from ibi.errors import BadItem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_UTF8: Final = "utf-8-sig"
_UTF16: Final = "utf-16"
_MARKS: Final = {codecs.BOM_UTF8: _UTF8, codecs.BOM_UTF16_LE: _UTF16, codecs.BOM_UTF16_BE: _UTF16}


class Line(NamedTuple):
    """A line with its end; of one longer than LONGEST_LINE only so much that its length shows."""

    number: int
    text: str


class TextLines:
    """The lines of a file, from its beginning. `give_back` makes lines come again.

    Bytes that the encoding does not know stand as half characters (U+DC80 to U+DCFF).
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._encoding = encoding_of(file)
        errors = "strict" if self._encoding == _UTF16 else "surrogateescape"
        self._text = io.TextIOWrapper(file, encoding=self._encoding, errors=errors, newline="\n")
        self._again: deque[Line] = deque()
        self._number = 0

    def __iter__(self) -> Iterator[Line]:
        """Each line, from where the last one ended."""
        return self

    def __next__(self) -> Line:
        """The next line. Raises BadItem where the file cannot be read on."""
        if self._again:
            return self._again.popleft()
        rest = line = self._piece()
        if not line:
            raise StopIteration
        while len(rest) > LONGEST_LINE and not rest.endswith("\n"):
            rest = self._piece()
        self._number += 1
        return Line(self._number, line)

    def _piece(self) -> str:
        try:
            return self._text.readline(LONGEST_LINE + 1)
        except UnicodeDecodeError:  # of UTF-16 nothing can be read after a fault
            raise BadItem("the file is not {encoding} all through", encoding=self._encoding.upper()) from None

    def give_back(self, lines: list[Line]) -> None:
        """Let these come again before all others."""
        self._again.extendleft(reversed(lines))

    @property
    def read(self) -> int:
        """How many bytes of the file have been read."""
        return self._file.tell()

    def leave(self) -> None:
        """Leave the file open to whoever opened it."""
        self._text.detach()


def encoding_of(file: BinaryIO) -> str:
    """The encoding of a file, which is left at its beginning: by its mark, else UTF-8 or Windows' Latin-1.

    It is Latin-1 only if more lines with letters beyond ASCII are wrong in UTF-8 than right: one bad byte in a file of
    a million lines spoils its own line, not all of them.
    """
    file.seek(0)
    start = file.read(3)
    marked = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
    file.seek(0)
    if marked:
        return marked
    right = wrong = 0
    while line := file.readline(LONGEST_LINE):
        if line.isascii():
            continue
        try:
            line.decode()
            right += 1
        except UnicodeDecodeError:
            wrong += 1
    file.seek(0)
    return "cp1252" if wrong > right else _UTF8
