"""A deposit as multipart/form-data: the JSON of an item, and files that go into staging while they come.

    item                      JSON, at most once
    file; filename="a b.txt"  a file, called as it was where it came from: its name is encoded for a URL
    data/a%20b.txt; filename  a file of this very name in the item, percent-encoded as in a URL

Bytes are handed to the storage as they arrive; there are no temporary files but those in staging.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from ibi.errors import IbiError
from ibi.interface.bodies import LONGEST_JSON
from ibi.interface.refusal import Refusal

if TYPE_CHECKING:
    from ibi.archive.holding import StoredFile
    from ibi.archive.storage import Staging, Storage

MOST_FILES: Final = 1000
"""Files of one deposit."""

_MOST_HEADERS: Final = 8
_LONGEST_HEADERS: Final = 8 * 1024
_SAFE: Final = "/!$&'()*+,;=:@~"


class Form:
    """A form that is being read. Everything here may wait for the disk, so it belongs into a thread.

    Complete files are put into `files`, and are the business of whoever gave it. Whoever stops before `finish` calls
    `stop`, which removes the file that was coming.
    """

    def __init__(self, content_type: str, storage: Storage, files: dict[str, StoredFile]) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not boundary:
            raise Refusal(415, IbiError("the body must be JSON, or multipart/form-data with its boundary"))
        self.item: bytes | None = None
        self.files = files
        self._storage = storage
        self._headers: list[tuple[bytes, bytes]] = []
        self._field, self._value = bytearray(), bytearray()
        self._text: bytearray | None = None  # the part `item`, while it comes
        self._staging: Staging | None = None  # the file that comes
        self._name = ""
        self._ended = False
        self._parser = self._begin(boundary)

    def feed(self, piece: bytes) -> None:
        """Take in more of the body. Raises Refusal, BadItem, SetupError, and OSError where the disk fails."""
        try:
            self._parser.write(piece)
        except FormParserError:
            raise _broken() from None

    def finish(self) -> None:
        """The body has come to its end. Raises Refusal if the form has not."""
        if not self._ended:
            raise _broken()

    def stop(self) -> None:
        """Forget the file that is coming, if there is one."""
        if self._staging is not None:
            self._staging.discard()
            self._staging = None

    def _begin(self, boundary: bytes) -> MultipartParser:
        try:
            return MultipartParser(
                boundary,
                {
                    "on_part_begin": self._headers.clear,
                    "on_header_field": lambda data, start, end: self._field.extend(data[start:end]),
                    "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                    "on_header_end": self._header,
                    "on_headers_finished": self._part,
                    "on_part_data": self._data,
                    "on_part_end": self._part_end,
                    "on_end": self._end,
                },
                max_header_count=_MOST_HEADERS,
                max_header_size=_LONGEST_HEADERS,
            )
        except FormParserError:
            raise _broken() from None

    def _header(self) -> None:
        self._headers.append((bytes(self._field).lower(), bytes(self._value)))
        self._field.clear()
        self._value.clear()

    def _part(self) -> None:
        """The head of a part is there."""
        said = next((value for name, value in self._headers if name == b"content-disposition"), b"")
        kind, options = parse_options_header(said.decode("latin-1"))
        name = options.get(b"name", b"")
        if kind != b"form-data" or not name:
            raise Refusal(
                400, IbiError("every part of the form needs a name: Content-Disposition: form-data; name=…")
            )
        if name == b"item":
            if self.item is not None:
                raise Refusal(422, IbiError("the part {name} is there twice", name="item"))
            self._text = bytearray()
        elif b"filename" in options:
            self._file(options[b"filename"] if name == b"file" else None, name)
        else:
            shown = name.decode("ascii", "backslashreplace")[:40]
            raise Refusal(422, IbiError("the part {name} is neither the item nor a file", name=shown))

    def _file(self, filename: bytes | None, part: bytes) -> None:
        self._name = part.decode("latin-1") if filename is None else quote(filename, safe=_SAFE)
        if self._name in self.files:
            raise Refusal(422, IbiError("the file {name} is there twice", name=self._name))
        if len(self.files) >= MOST_FILES:
            raise Refusal(413, IbiError("at most {most} files are taken at a time", most=MOST_FILES))
        self._staging = self._storage.stage_stream(self._name)

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._staging is not None:
            self._staging.write(memoryview(data)[start:end])
        elif self._text is not None:
            if len(self._text) + end - start > LONGEST_JSON:
                problem = "the part {name} is too long: at most {most} bytes are read"
                raise Refusal(413, IbiError(problem, name="item", most=LONGEST_JSON))
            self._text += data[start:end]

    def _part_end(self) -> None:
        if self._staging is not None:
            self.files[self._name] = self._staging.finish()
            self._staging = None
        elif self._text is not None:
            self.item, self._text = bytes(self._text), None

    def _end(self) -> None:
        self._ended = True


def _broken() -> Refusal:
    return Refusal(400, IbiError("the form is broken off, or not as multipart/form-data has to be"))
