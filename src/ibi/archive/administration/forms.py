"""Forms with files: the files go into staging while they come, within the limits of the JSON interface.

The token of the form has to come before any file does, so that nobody fills a disk with a forged form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from python_multipart.multipart import parse_options_header

from ibi.archive.api import multipart
from ibi.errors import IbiError
from ibi.interface.refusal import Refusal
from ibi.interface.routes import aside
from ibi.signing_in.forms import LONGEST_FIELDS, MOST_FIELDS, TOKEN, unix_lines, unreadable
from ibi.signing_in.visit import Form

if TYPE_CHECKING:
    from ibi.archive.api.intake import Files
    from ibi.archive.storage import Storage
    from ibi.interface.bodies import Body
    from ibi.signing_in.forms import Check


MOST_PARTS: Final = MOST_FIELDS + multipart.MOST_FILES
"""Parts of one form, also those that bring nothing: each of them costs something."""


async def read_with_files(
    body: Body, content_type: str, storage: Storage, files: Files, check: Check
) -> Form:
    """A form with files, which go into staging and into `files`.

    Raises Denied, Refusal, BadItem, SetupError, and ClientGone.
    """
    reading = _Reading(content_type, storage, files, check)
    try:
        async for piece in body.pieces():
            await aside(reading.feed, piece)
        reading.finish()
    finally:
        await aside(reading.stop)
    reading.checked()
    return Form(unix_lines(reading.fields), files)


class _Reading(multipart.Form):
    """A form of the API whose other parts are fields of a page."""

    def __init__(self, content_type: str, storage: Storage, files: Files, check: Check) -> None:
        super().__init__(content_type, storage, files)
        self.fields: list[tuple[str, str]] = []
        self._check = check
        self._sound = False
        self._field_name = ""
        self._left = LONGEST_FIELDS
        self._skipped = False
        self._parts = 0

    def checked(self) -> None:
        """Make sure that the form is of this session. Raises what `check` raises."""
        if not self._sound:
            self._check(next((value for name, value in self.fields if name == TOKEN), ""))
            self._sound = True

    def _part(self) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise unreadable()
        said = next((value for name, value in self._headers if name == b"content-disposition"), b"")
        kind, options = parse_options_header(said.decode("latin-1"))
        name, filename = options.get(b"name", b""), options.get(b"filename")
        if kind != b"form-data" or not name or len(self.fields) >= MOST_FIELDS:
            raise unreadable()
        self._skipped = filename == b""
        if filename is None:
            self._field_name, self._text = name.decode("utf-8", "replace"), bytearray()
        elif filename:
            self.checked()
            self._file(filename.replace(b"\\", b"/").rpartition(b"/")[2], name)

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._text is not None:
            self._left -= end - start
            if self._left < 0:
                raise Refusal(413, IbiError("the texts of the form are too long"))
            self._text += data[start:end]
        elif not self._skipped:
            super()._data(data, start, end)

    def _part_end(self) -> None:
        if self._text is None:
            super()._part_end()
            return
        try:
            self.fields.append((self._field_name, self._text.decode()))
        except UnicodeDecodeError:
            raise Refusal(
                400, IbiError("the form cannot be read; open the page again and repeat it")
            ) from None
        self._text = None
