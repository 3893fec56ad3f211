"""JSON lines: an object a line, as docs/contract.md describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.archive.intake.sources.record import Record
from ibi.archive.item_lines import LONGEST_LINE, read_line
from ibi.errors import BadItem, IbiError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from ibi.archive.item_lines import Draft


def read_json_lines(file: BinaryIO) -> Iterator[Record]:
    """The lines that hold anything, as records; of an overlong one no more than its beginning is ever in memory."""
    number = read = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        read += len(line)
        whole = line
        while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            line = file.readline(LONGEST_LINE + 1)
            read += len(line)
        if number == 1:
            whole = whole.removeprefix(b"\xef\xbb\xbf")
        if not whole.strip():
            continue
        draft: Draft | IbiError
        try:
            draft = read_line(_checked(whole))
        except IbiError as error:
            draft = error
        yield Record(number, "", draft, read)


def _checked(line: bytes) -> bytes:
    if len(line) > LONGEST_LINE:
        raise BadItem("the line is longer than {limit} bytes", limit=LONGEST_LINE)
    return line
