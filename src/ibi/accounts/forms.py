"""Read the forms of browsers within limits; the token of a form is checked before the form is used.

A form may come after its session has ended. Then the page to sign in keeps what was typed. Such a form may
come from a stranger, so it is read within narrow limits, and its files are skipped.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from ibi.accounts.layout import Form
from ibi.errors import IbiError
from ibi.http.multipart import PartReader
from ibi.http.request import ClientGone, read_body
from ibi.http.response import Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ibi.http.request import Request

    Receive = Callable[[], Awaitable[Any]]
    Check = Callable[[str], None]
    """(token of a form): raises Refusal unless the token belongs to this session."""
    Typed = tuple[tuple[str, str], ...]


LONGEST_FIELDS: Final = 1 << 20
"""Bytes of all fields of a form together."""
MOST_FIELDS: Final = 2000
"""Fields of a form."""
LARGEST_SMALL: Final = 1 << 20
"""Bytes of a whole form with pictures, such as a logo: its texts and its pictures together."""
LONGEST_KEPT: Final = 1 << 18
"""Characters of the kept texts: percent-encoded, at most three times as long, they still fit into a form."""
LONGEST_EXPIRED: Final = 1 << 25
"""Bytes of a form whose session has ended: its files are dropped, its texts are kept for the sign-in."""
PARSING: Final = ThreadPoolExecutor(2, "forms")
"""Threads that parse forms: a large form takes tenths of a second, and must not block the event loop."""
TOKEN: Final = "form_token"  # noqa: S105 - the name of a field
"""The field with the token of a form's session."""
_SECRETS: Final = frozenset({TOKEN, "token", "key"})  # fields that are secrets, besides passwords
URLENCODED: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"


def media_type_of(request: Request) -> str:
    """Return the media type of a form, in lower case, without its parameters."""
    return request.header(b"content-type").partition(";")[0].strip().lower()


def unreadable() -> Refusal:
    """Return the refusal of a form that no browser can have made from our page."""
    return Refusal(400, IbiError("the form cannot be read; open the page again and repeat it"))


async def read_fields(request: Request, receive: Receive, check: Check) -> Form:
    """Read a form without files; call `check` with its token. Raises Refusal and ClientGone."""
    if media_type_of(request) != URLENCODED:
        raise Refusal(415, IbiError("this is not the form of this page; open the page again"))
    raw = await read_body(receive, LONGEST_FIELDS)
    if raw is None:
        raise Refusal(413, IbiError("the texts of the form are too long"))
    try:
        parse = partial(parse_qsl, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
        pairs = await asyncio.get_running_loop().run_in_executor(PARSING, parse, raw.decode("ascii"))
    except ValueError:
        raise unreadable() from None
    form = Form(unix_lines(pairs))
    check(form.one(TOKEN))
    return form


async def read_small_files(request: Request, receive: Receive, check: Check) -> Form:
    """Read a form with small files, as bytes by the names of their fields; call `check` with its token.

    Raises Refusal and ClientGone.
    """
    raw = await read_body(receive, LARGEST_SMALL)
    if raw is None:
        raise Refusal(413, IbiError("the pictures of the form are too large"))
    try:
        reader = _SmallFiles(request.header(b"content-type"))
        await asyncio.get_running_loop().run_in_executor(PARSING, reader.write, raw)
    except FormParserError:
        raise unreadable() from None
    if not reader.ended:
        raise unreadable()
    form = Form(unix_lines(reader.fields), reader.files)
    check(form.one(TOKEN))
    return form


def unix_lines(fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Replace the line ends of browsers, two characters, with one character."""
    return [(name, value.replace("\r\n", "\n")) for name, value in fields]


async def read_expired_form(request: Request, receive: Receive) -> Typed | None:
    """Read the texts of a form without secrets; None if they are too long. Raises Refusal and ClientGone."""
    if media_type_of(request) == MULTIPART:
        fields = await _texts_of(request, receive)
    else:
        fields = (await read_fields(request, receive, lambda _: None)).fields
    if fields is None:
        return None
    # A password must never be written back into a page.
    typed = tuple((name, text) for name, text in fields if "password" not in name and name not in _SECRETS)
    return typed if len(packed(typed)) <= LONGEST_KEPT else None


def packed(typed: Typed) -> str:
    """Pack the fields of a form into one text, for a hidden field."""
    return json.dumps(typed)


def unpacked(text: str) -> Typed:
    """Unpack the fields of a form; return () for a text that none of our pages has written."""
    try:
        pairs: Any = json.loads(text) if text and len(text) <= LONGEST_KEPT else []
        return tuple((str(name), str(value)) for name, value in pairs)
    except (ValueError, TypeError, RecursionError):
        return ()


async def _texts_of(request: Request, receive: Receive) -> Sequence[tuple[str, str]] | None:
    """Read the texts of a form with files; None if it is too long, () if it is broken. Raises ClientGone."""
    left, more = LONGEST_EXPIRED, True
    loop = asyncio.get_running_loop()
    try:
        texts = _Texts(request.header(b"content-type"))
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientGone
            # The bytes of files are skipped, to reach the texts that come after them.
            piece, more = message.get("body", b""), message.get("more_body", False)
            left -= len(piece)
            if left < 0:
                return None
            await loop.run_in_executor(PARSING, texts.write, piece)
    except Refusal:
        return None
    except FormParserError:
        return ()
    return None if texts.left < 0 else unix_lines(texts.fields)


class _Texts(PartReader):
    """Collects the text parts of a form. Raises FormParserError; `write` also raises Refusal."""

    def __init__(self, content_type: str) -> None:
        super().__init__(parse_options_header(content_type)[1].get(b"boundary", b""))
        self.fields: list[tuple[str, str]] = []
        self.left = LONGEST_FIELDS  # bytes; below 0: they were too many
        self._name: str | None = None  # of the part that is being read, if it is a text
        self._text = bytearray()
        self._parts = 0

    def _part(self, kind: bytes, options: dict[bytes, bytes]) -> None:
        self._parts += 1
        if self._parts > MOST_FIELDS:
            # More parts than in any of our forms; each part costs processor time (T12: smuggled line ends).
            raise unreadable()
        # A part with a file name is a file, whatever its type; a part without a disposition has no name.
        is_text = bool(kind) and b"filename" not in options
        self._name = options.get(b"name", b"").decode("utf-8", "replace") if is_text else None

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name is not None:
            self.left -= end - start
            if self.left >= 0:
                self._text += data[start:end]

    def _part_end(self) -> None:
        if self._name is not None:
            self.fields.append((self._name, self._text.decode("utf-8", "replace")))
        self._name = None
        self._text.clear()


class _SmallFiles(_Texts):
    """Collects the texts and the files of a form."""

    def __init__(self, content_type: str) -> None:
        super().__init__(content_type)
        self.files: dict[str, bytes] = {}
        self._file_name: str | None = None  # the field of the file that is being read
        self._content = bytearray()

    def _part(self, kind: bytes, options: dict[bytes, bytes]) -> None:
        super()._part(kind, options)
        is_file = bool(kind) and bool(options.get(b"filename"))
        self._file_name = options.get(b"name", b"").decode("utf-8", "replace") if is_file else None

    def _data(self, data: bytes, start: int, end: int) -> None:
        super()._data(data, start, end)
        if self._file_name is not None:
            self._content += data[start:end]

    def _part_end(self) -> None:
        super()._part_end()
        if self._file_name is not None:
            self.files[self._file_name] = bytes(self._content)
        self._file_name = None
        self._content.clear()
