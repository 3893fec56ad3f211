"""Forms that come after their session has ended: what was typed is kept on the page on which its owner signs in again.

Nobody is signed in who sends one, so it is read within narrow limits, and its files are read past.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from ibi.signing_in.forms import (
    LONGEST_FIELDS,
    MOST_FIELDS,
    MULTIPART,
    PARSING,
    TOKEN,
    Gone,
    kind_of,
    read_fields,
    unix_lines,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.exchange import Asked
    from ibi.signing_in.forms import Receive

    Typed = tuple[tuple[str, str], ...]

LONGEST_KEPT: Final = 1 << 18
"""Characters of what is kept: written for a form, three times as long, it still is one that we read."""
LONGEST_LATE: Final = 1 << 25
"""Bytes of a form with files that are read past for the sake of its texts."""

_MOST_HEADERS: Final = 8
_LONGEST_HEADERS: Final = 8 * 1024


async def typed_late(asked: Asked, receive: Receive) -> Typed | None:
    """What was typed into a form, but for passwords; None if it is too long to be kept. Raises Denied and Gone."""
    if kind_of(asked) == MULTIPART:
        fields = await _texts_of(asked, receive)
    else:
        fields = (await read_fields(asked, receive, lambda _: None)).fields
    if fields is None:
        return None
    typed = tuple((name, text) for name, text in fields if name != TOKEN and "password" not in name)
    return typed if len(packed(typed)) <= LONGEST_KEPT else None


def packed(typed: Typed) -> str:
    """What was typed as one text, which a page carries in a hidden field."""
    return json.dumps(typed)


def unpacked(text: str) -> Typed:
    """What was typed before the session had ended; () for what no page of ours has written."""
    try:
        pairs: Any = json.loads(text) if text and len(text) <= LONGEST_KEPT else []
        return tuple((str(name), str(value)) for name, value in pairs)
    except (ValueError, TypeError, RecursionError):
        return ()


async def _texts_of(asked: Asked, receive: Receive) -> Sequence[tuple[str, str]] | None:
    """The texts of a form with files; None if it is too long, () for one that is broken. Raises Gone."""
    texts, left, more = _Texts(), LONGEST_LATE, True
    loop = asyncio.get_running_loop()
    try:
        parser = texts.parser(asked.header(b"content-type"))
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise Gone
            piece, more = message.get("body", b""), message.get("more_body", False)
            left -= len(piece)
            if left < 0:
                return None
            await loop.run_in_executor(PARSING, parser.write, piece)
    except _TooMany:
        return None
    except FormParserError:
        return ()
    return None if texts.left < 0 else unix_lines(texts.fields)


class _TooMany(Exception):
    """A form has more parts than one of ours, and each of them costs something."""


class _Texts:
    """The parts of a form that are texts, as a parser of it tells."""

    def __init__(self) -> None:
        self.fields: list[tuple[str, str]] = []
        self.left = LONGEST_FIELDS  # bytes; below 0: they were too many
        self._header, self._value = bytearray(), bytearray()
        self._name: str | None = None  # of the part that comes, if it is a text
        self._text = bytearray()
        self._parts = 0

    def parser(self, content_type: str) -> MultipartParser:
        """What takes the bytes of the form. Raises FormParserError, also while it takes them, and then _TooMany."""
        _kind, options = parse_options_header(content_type)
        return MultipartParser(
            options.get(b"boundary", b""),
            {
                "on_part_begin": self._part_begin,
                "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._header_end,
                "on_part_data": self._data,
                "on_part_end": self._part_end,
            },
            max_header_count=_MOST_HEADERS,
            max_header_size=_LONGEST_HEADERS,
        )

    def _part_begin(self) -> None:
        self._parts += 1
        if self._parts > MOST_FIELDS:
            raise _TooMany

    def _header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            _kind, options = parse_options_header(self._value.decode("latin-1"))
            self._name = (
                None if b"filename" in options else options.get(b"name", b"").decode("utf-8", "replace")
            )
        self._header.clear()
        self._value.clear()

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
