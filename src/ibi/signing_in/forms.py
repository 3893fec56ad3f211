"""Forms as browsers send them, read within limits. Each is checked to be of its session before it is believed."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from ibi.errors import IbiError
from ibi.signing_in.door import Denied
from ibi.signing_in.visit import Form

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ibi.exchange import Asked

    Receive = Callable[[], Awaitable[Any]]
    Check = Callable[[str], None]
    """Given the token of a form, raises Denied if it is not one of this session."""

LONGEST_FIELDS: Final = 1 << 20
"""Bytes of all fields of a form together."""
MOST_FIELDS: Final = 2000
"""Fields of a form."""
PARSING: Final = ThreadPoolExecutor(2, "forms")
"""What strangers send is taken apart in these threads, which is a matter of tenths of a second, and not in the loop."""
TOKEN: Final = "form_token"  # noqa: S105 - the name of a field
"""The field that tells of which session a form is."""
URLENCODED: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"


class Gone(Exception):
    """Whoever asked went away before the form was there."""


def kind_of(asked: Asked) -> str:
    """The media type of a form, in lower case, without its parameters."""
    return asked.header(b"content-type").partition(";")[0].strip().lower()


def unreadable() -> Denied:
    """What is said of a form that no browser has made of our page."""
    return Denied(400, IbiError("the form cannot be read; open the page again and repeat it"))


async def read_fields(asked: Asked, receive: Receive, check: Check) -> Form:
    """A form without files; `check` is given its token. Raises Denied and Gone."""
    if kind_of(asked) != URLENCODED:
        raise Denied(415, IbiError("this is not the form of this page; open the page again"))
    raw, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        raw += message.get("body", b"")
        more = message.get("more_body", False)
        if len(raw) > LONGEST_FIELDS:
            raise Denied(413, IbiError("the texts of the form are too long"))
    try:
        pairs = await asyncio.get_running_loop().run_in_executor(PARSING, _pairs, raw)
    except ValueError:
        raise unreadable() from None
    form = Form(unix_lines(pairs))
    check(form.one(TOKEN))
    return form


def _pairs(raw: bytes | bytearray) -> list[tuple[str, str]]:
    """The fields of a form without files. Raises ValueError for what is none."""
    return parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)


def unix_lines(fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Browsers end the lines of a text with two characters; we keep one."""
    return [(name, value.replace("\r\n", "\n")) for name, value in fields]
