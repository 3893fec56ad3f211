"""What the bytes of a file tell about it where its name does not: its kind, and how its text is written (pure).

Text is UTF-8 if its bytes are, else ISO-8859-1, unless it declares something else itself: then its word counts and
nothing is said beside it. What cannot be told for sure is not said, so that nothing wrong ever is.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

SAMPLE: Final = 1 << 20
"""Bytes from the beginning of a file that are looked at."""

UNKNOWN: Final = "application/octet-stream"

_SIGNATURES: Final = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"%!PS-Adobe", "application/postscript"),
    (b"\x89HDF\r\n\x1a\n", "application/x-hdf5"),
    (b"CDF\x01", "application/x-netcdf"),
    (b"CDF\x02", "application/x-netcdf"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
)
_PAGE = re.compile(rb"\s*(?:<!--.{0,1000}?-->\s*)*<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE | re.DOTALL)
_XML = re.compile(rb"\s*<\?xml\s")
_DECLARED = re.compile(
    rb"<meta[^>]{0,200}\bcharset\s*=\s*[\"']?\s*([\w-]+)|^\s*@charset\s+\"([\w-]+)\"|encoding\s*=\s*[\"']([\w-]+)",
    re.IGNORECASE,
)
_WHERE_DECLARED: Final = 1024
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_UNICODE: Final = frozenset({"", "utf-8", "utf8"})  # what is declared, or nothing
_WESTERN: Final = frozenset({"iso-8859-1", "latin1", "latin-1", "us-ascii", "ascii"})
_OTHER_SETS = b"\x1b"  # begins what seven-bit encodings of East Asian scripts write


def served_as(listed: str, sample: bytes, size: int) -> str:
    """The Content-Type of a file: what its name told (`listed`), made more exact by its first bytes.

    `sample`: its first SAMPLE bytes at most; `size`: how long it is.
    """
    kind = listed if listed != UNKNOWN else _kind(sample)
    if not kind.startswith("text/") or "charset" in kind:
        return kind
    charset = _charset(sample, whole=len(sample) >= size)
    return f"{kind}; charset={charset}" if charset else kind


def _kind(sample: bytes) -> str:
    """What a file is whose name says nothing."""
    for signature, kind in _SIGNATURES:
        if sample.startswith(signature):
            return kind
    if _PAGE.match(sample):
        return "text/html"
    if _XML.match(sample):
        return "application/xml"
    if not sample or _NO_TEXT.search(sample):
        return UNKNOWN
    return "text/plain"


def _charset(sample: bytes, *, whole: bool) -> str | None:
    """How a text is written; None if that cannot be told, or if it says so itself."""
    for mark, charset in _MARKS:
        if sample.startswith(mark):
            return charset
    if _NO_TEXT.search(sample) or _OTHER_SETS in sample:
        return None
    declared = _DECLARED.search(sample, 0, _WHERE_DECLARED)
    said = next((word for word in declared.groups() if word), b"").decode().lower() if declared else ""
    if sample.isascii():
        return "utf-8" if whole and not said else None  # what follows the sample may be anything
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=whole)
    except UnicodeDecodeError:
        return "iso-8859-1" if said in _WESTERN or said in _UNICODE else None
    return "utf-8" if said in _UNICODE else None
