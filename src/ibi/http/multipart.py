"""Bodies as multipart/form-data (RFC 7578), read part by part as they come, within limits (T12: smuggled line ends)."""

from __future__ import annotations

from typing import Final

from python_multipart.multipart import MultipartParser, parse_options_header

_MOST_HEADERS: Final = 8  # header lines of a part
_LONGEST_HEADERS: Final = 8 * 1024  # bytes of the head of a part


class PartReader:
    """Reads the parts of one form; its subclasses decide what becomes of each part.

    The constructor raises FormParserError for an invalid boundary, and `write` for a body that is no form.
    """

    def __init__(self, boundary: bytes) -> None:
        self._field, self._value, self._disposition = bytearray(), bytearray(), b""
        self.ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_header_field": lambda data, start, end: self._field.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._data,
                "on_part_end": self._part_end,
                "on_end": self._end,
            },
            max_header_count=_MOST_HEADERS,
            max_header_size=_LONGEST_HEADERS,
        )

    def write(self, piece: bytes) -> None:
        """Read a piece of the body."""
        self._parser.write(piece)

    def _header_end(self) -> None:
        if self._field.lower() == b"content-disposition" and not self._disposition:
            self._disposition = bytes(self._value)
        self._field.clear()
        self._value.clear()

    def _headers_finished(self) -> None:
        kind, options = parse_options_header(self._disposition.decode("latin-1"))
        self._disposition = b""
        self._part(kind, options)

    def _part(self, kind: bytes, options: dict[bytes, bytes]) -> None:
        """Begin a part with this Content-Disposition."""

    def _data(self, data: bytes, start: int, end: int) -> None:
        """Take a piece of the part that has begun."""

    def _part_end(self) -> None:
        """End the part."""

    def _end(self) -> None:
        self.ended = True
