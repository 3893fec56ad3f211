"""Names of files in items: refused ones, equal ones on some disk; media types (threats T21, T22; pure)."""

from __future__ import annotations

import mimetypes
import re
import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

from ibi.archive.model.item import readable
from ibi.errors import BadItem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LONGEST_PART = 255
"""Bytes of the longest name that file systems take."""

_NAME = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})+")
_LONGEST_NAME = 1024  # characters of a file's name, percent-encoded
_REFUSED_BYTES = re.compile(rb"[\x00-\x1f\x7f\\]")
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*\x00-\x1f\x7f-\x9f\\]|[. ]$')
# Names of devices on Windows, also with an ending ("con.txt"): such a file cannot be unpacked there.
_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\.|$)", re.IGNORECASE)
# Without the lists of types of the machine (`filenames=()`), so that types are the same on every machine.
_TYPES = mimetypes.MimeTypes(filenames=())
_TYPES.add_type("application/geo+json", ".geojson")
_TYPES_READ_AS = {"application/javascript": "text/javascript", "text/xml": "application/xml"}


def file_parts(name: str) -> tuple[bytes, ...]:
    """Split a percent-encoded name into folders and file, each decoded once.

    Raises BadItem for empty, "." or ".." parts, backslashes and control characters (SVC-13: climbing paths; T21:
    paths out of the store).
    """
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise BadItem(
            "the file name {name} is not percent-encoded, as it must stand in a URL; write {proposal}",
            name=name, proposal=quote(name[:_LONGEST_NAME], safe="/%!$&'()*+,;=:@~", errors="replace"),
        )  # fmt: skip
    parts = tuple(unquote_to_bytes(name).split(b"/"))
    for part in parts:
        if part in {b"", b".", b".."} or len(part) > LONGEST_PART:
            raise BadItem("the file name {name} has an empty, relative or overlong part", name=name)
        if _REFUSED_BYTES.search(part):
            raise BadItem("the file name {name} holds a backslash or a control character", name=name)
    return parts


def check_names(names: Iterable[str]) -> None:
    """Refuse two names that some file system takes for the same, and a file that is also a folder.

    Raises BadItem. See T22: colliding names.
    """
    seen: dict[str, str] = {}
    for name in names:
        raw = unquote_to_bytes(name)
        folded = unicodedata.normalize("NFC", raw.decode("utf-8", "surrogateescape")).casefold()
        other = seen.setdefault(folded, name)
        if other != name:
            raise BadItem("the file names {one} and {other} are too much alike", one=other, other=name)
    for folded in seen:
        for end, char in enumerate(folded):
            if char == "/" and folded[:end] in seen:
                raise BadItem("{name} is a file and a folder", name=seen[folded[:end]])


def listed_name(given: str, names: Collection[str]) -> str:
    """Return which of `names` (percent-encoded) `given` means; `given` is percent-encoded or plain text.

    If no name or several names match, `given` is returned as it is.
    """
    if not given or given in names:
        return given
    try:
        raw = given.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a character, which JSON can write
        return given
    for same in (
        [name for name in names if unquote_to_bytes(name) in {raw, unquote_to_bytes(raw)}],
        [name for name in names if _composed(unquote_to_bytes(name)) == _composed(raw)],
    ):
        if len(same) == 1:
            return same[0]
    return given


def _composed(raw: bytes) -> str:
    # macOS writes an accent and its letter as two characters.
    return unicodedata.normalize("NFC", readable(raw))


def portable_part(text: str, escape: str) -> str:
    """Return a name inside a folder in a form that every system, Windows too, can write.

    A character that Windows refuses becomes `escape` and two hexadecimal digits for each byte of UTF-8.
    """

    def escaped(text: str) -> str:
        return "".join(f"{escape}{byte:02X}" for byte in text.encode())

    text = _NOT_ON_WINDOWS.sub(lambda found: escaped(found[0]), text)
    return escaped(text[0]) + text[1:] if _DEVICES.match(text) else text


def media_type(name: str) -> str:
    """Return the media type as which a file is served, by the extension of its name."""
    guessed, packed = _TYPES.guess_type(name)
    if guessed is None or packed:
        return "application/octet-stream"
    return _TYPES_READ_AS.get(guessed, guessed)
