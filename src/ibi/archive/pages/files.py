"""Stored files over HTTP: only what the catalogue lists, with its digest as its ETag, whole or in part.

`served_as` finds out the media type and charset of a file from its first bytes, where its name does not show them. Text
is UTF-8 if its bytes are, else ISO-8859-1, unless it declares another charset itself: then no charset is sent. What
cannot be found out for sure is left out, so that nothing wrong is ever sent.
"""

from __future__ import annotations

import codecs
import os
import re
from base64 import b64encode
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ibi.archive.model.item import readable
from ibi.http.conditional import Unsatisfiable, http_date, part, unchanged
from ibi.http.response import Response
from ibi.runtime.durable_files import setup_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from ibi.archive.model.item import Holding, StoredFile
    from ibi.archive.store.files import FileStore
    from ibi.http.files_origin import FilesOrigin
    from ibi.http.request import Request
    from ibi.http.response import Headers
    from ibi.identifier.forms import Name


SAMPLE: Final = 1 << 20
"""Bytes from the beginning of a file that are examined."""

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
_BYTE_ORDER: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_UNICODE: Final = frozenset({"", "utf-8", "utf8"})  # what is declared, or nothing
_WESTERN: Final = frozenset({"iso-8859-1", "latin1", "latin-1", "us-ascii", "ascii"})
# Seven-bit encodings of East Asian scripts begin with it, and look like ASCII otherwise.
_OTHER_SETS = b"\x1b"


def served_as(listed: str, sample: bytes, size: int) -> str:
    """The Content-Type of a file: that of its name (`listed`), made more exact by its first bytes.

    `sample`: its first SAMPLE bytes at most; `size`: how long it is.
    """
    kind = listed if listed != UNKNOWN else _kind(sample)
    if not kind.startswith("text/") or "charset" in kind:
        return kind
    charset = _charset(sample, whole=len(sample) >= size)
    return f"{kind}; charset={charset}" if charset else kind


def _kind(sample: bytes) -> str:
    """The media type of a file whose name does not show it."""
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
    """The charset of a text; None if it cannot be known for sure, or if the text declares it itself."""
    for prefix, charset in _BYTE_ORDER:
        if sample.startswith(prefix):
            return charset
    if _NO_TEXT.search(sample) or _OTHER_SETS in sample:
        return None
    declared = _DECLARED.search(sample, 0, _WHERE_DECLARED)
    charset_declared = (
        next((word for word in declared.groups() if word), b"").decode().lower() if declared else ""
    )
    if sample.isascii():
        # Bytes behind the sample may be in any charset.
        return "utf-8" if whole and not charset_declared else None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=whole)
    except UnicodeDecodeError:
        return "iso-8859-1" if charset_declared in _WESTERN or charset_declared in _UNICODE else None
    return "utf-8" if charset_declared in _UNICODE else None


# Scripts in deposited pages would otherwise run with the rights of the Archive's address.
_ACTIVE_TYPES: Final = frozenset(
    {
        "text/html",
        "application/xml",
        "text/xml",
        "text/xsl",
        "text/javascript",
        "application/javascript",
        "multipart/related",
        "message/rfc822",
    }
)
"""Types that can run scripts, and all that end in "+xml" (XHTML, SVG …): served in a sandbox (note 32)."""
_PDF: Final = "application/pdf"  # the viewers of browsers do not work in a sandbox

_SANDBOX: Final = (
    "sandbox allow-downloads allow-popups; object-src 'none'; base-uri 'none'; form-action 'none'"
)
# The files of all items share that address, some of them restricted: not `allow-same-origin`.
_SANDBOX_APART: Final = _SANDBOX.replace("sandbox", "sandbox allow-scripts", 1)
"""At an address that serves nothing but files, where scripts may run: they can read nothing there either."""
PUBLIC: Final = "public, no-cache"
"""Caches revalidate each time: the file may change, or be closed."""
PRIVATE: Final = "private, no-store"
"""For data that are not open to all readers."""

_MOST_KNOWN: Final = 10_000  # files whose media type is kept
_UNSAFE_IN_QUOTES = re.compile(r"[^ !#-\[\]-~]|%")


class FileReplaced(Exception):
    """The opened file is no longer the listed one. `now`: the item as it is listed by now."""

    def __init__(self, now: Holding) -> None:
        super().__init__()
        self.now = now


class FileOpener:
    """Opens files of items, and only those that are listed. `listed` looks an item up, or raises NotHeld.

    A name leads to other bytes once its file is replaced, which may happen between the look-up of the item and the
    opening of the file. So the item is looked up once more when the file is open. This is enough, because a new version
    is listed before it is moved to its place, and listed as placed after that (`FileStore.settle`):

    - It is still listed in staging, under the same name: that is random and never used again, so no other version was
      listed between the two look-ups. If its file had left staging when it was opened, it was found in its place, where
      no other version can have been put meanwhile.
    - It is listed as placed: at the second look-up its bytes are in their place. The opened file still has a name, so
      it has not been replaced: it is what was in the place then. This also detects a version that was replaced, and
      came back, between the two look-ups.
    """

    def __init__(self, file_store: FileStore, listed: Callable[[Name], Holding]) -> None:
        self._file_store = file_store
        self._listed = listed

    def open(self, holding: Holding, files: Sequence[StoredFile]) -> list[BinaryIO]:
        """Open files of an item; the caller closes them.

        Raises FileReplaced, NotHeld, and SetupError for a file that is not there as it is listed.
        """
        opened: list[BinaryIO] = []
        with ExitStack() as closing:
            for file in files:
                with setup_errors("the file {name} cannot be read: {reason}", name=file.name):
                    try:
                        opened.append(closing.enter_context(self._file_store.open(holding.forms, file)))
                    except OSError:
                        # It may be missing because it was replaced meanwhile.
                        self._check_listed(holding, files, opened)
                        raise
            self._check_listed(holding, files, opened)
            closing.pop_all()
        return opened

    def _check_listed(
        self, holding: Holding, files: Sequence[StoredFile], opened: Sequence[BinaryIO]
    ) -> None:
        """Raise FileReplaced unless what was opened, or could not be, is what is listed by now."""
        now = self._listed(holding.forms.main)
        listed = {file.name: file for file in now.files}
        for file, handle in zip(files, opened, strict=False):
            is_named = os.fstat(handle.fileno()).st_nlink > 0
            if not is_named or listed.get(file.name) not in {file, replace(file, staged="")}:
                raise FileReplaced(now)
        if len(opened) < len(files):
            failed = files[len(opened)]
            if listed.get(failed.name) != failed:
                raise FileReplaced(now)


class FileResponses:
    """Responses with the files of one Archive.

    `accel`: the internal location under which nginx serves DIR/col, "" where this process sends files itself;
    `origin`: the address of files that a browser would render, if they have one.
    """

    def __init__(
        self, file_store: FileStore, opener: FileOpener, origin: FilesOrigin, accel: str = ""
    ) -> None:
        self._file_store = file_store
        self._origin = origin
        self._opener = opener
        self._accel = accel.rstrip("/")
        self._types: dict[tuple[str, str], str] = {}

    def serve(self, request: Request, holding: Holding, file: StoredFile, kept: str = PUBLIC) -> Response:
        """Serve a file of an item, a part of it, or 304; or redirect to the address of such files.

        `kept`: the Cache-Control. Raises as `FileOpener.open` does.
        """
        # First: a page that a browser has kept from here must not be confirmed.
        if self._origin.separates(request) and self._is_rendered(holding, file):
            return self._origin.redirect(request)
        tag = f'"{file.sha256}"'
        validators: Headers = (
            ("etag", tag),
            ("cache-control", kept),
            ("last-modified", http_date(holding.timestamp)),
        )
        if unchanged(request, tag, holding.timestamp):
            return Response(304, headers=validators)
        (opened,) = self._opener.open(holding, (file,))
        try:
            kind = self._type(file, opened)
            headers = (*validators, *_described(holding, file), *self._policy(request, kind))
            # In staging nginx would find the file under a name that is about to change.
            if self._accel and not file.staged:
                path = quote(self._file_store.relative_path(holding.forms, file.name))
                # nginx sends parts by itself, and says so.
                headers = tuple(header for header in headers if header[0] != "accept-ranges")
                headers = (*headers, ("x-accel-redirect", f"{self._accel}/{path}"))
                response = Response(200, content_type=kind, headers=headers)
            else:
                response = _whole_or_part(request, file, opened, kind, headers)
        except BaseException:
            opened.close()
            raise
        if response.file is None:
            opened.close()
        return response

    def _is_rendered(self, holding: Holding, file: StoredFile) -> bool:
        """Whether a browser would run the file, or show it with more than its own means."""
        kind = self._types.get((file.sha256, file.media_type))
        if kind is None:
            (opened,) = self._opener.open(holding, (file,))
            with opened:
                kind = self._type(file, opened)
        return _is_active(kind) or kind == _PDF

    def _policy(self, request: Request, kind: str) -> Headers:
        if not _is_active(kind):
            return ()
        policy = _SANDBOX_APART if self._origin.receives(request) else _SANDBOX
        return (("content-security-policy", policy),)

    def _type(self, file: StoredFile, opened: BinaryIO) -> str:
        # Found out once for each digest: bytes never change under their digest.
        known = self._types.get((file.sha256, file.media_type))
        if known is not None:
            return known
        kind = served_as(file.media_type, os.pread(opened.fileno(), SAMPLE, 0), file.size)
        # Dropped as a whole: to keep an order of use would cost more than to find the types out again.
        if len(self._types) >= _MOST_KNOWN:
            self._types.clear()
        self._types[file.sha256, file.media_type] = kind
        return kind


def _whole_or_part(
    request: Request, file: StoredFile, opened: BinaryIO, kind: str, headers: Headers
) -> Response:
    try:
        wanted = part(request, f'"{file.sha256}"', file.size)
    except Unsatisfiable:
        return Response(416, headers=(*headers, ("content-range", f"bytes */{file.size}")))
    if wanted is None:
        headers = (*headers, ("content-digest", _digest(file)))
        return Response(200, content_type=kind, headers=headers, file=opened, size=file.size)
    start, length = wanted
    headers = (*headers, ("content-range", f"bytes {start}-{start + length - 1}/{file.size}"))
    return Response(206, content_type=kind, headers=headers, file=opened, size=length, start=start)


def _is_active(kind: str) -> bool:
    """Whether a Content-Type is one that can run scripts."""
    media_type = kind.partition(";")[0]
    return media_type in _ACTIVE_TYPES or media_type.endswith("+xml")


def _described(holding: Holding, file: StoredFile) -> Headers:
    """The headers of a file besides its validators."""
    headers: Headers = (("accept-ranges", "bytes"), ("repr-digest", _digest(file)))
    if holding.language:
        headers = (*headers, ("content-language", holding.language))
    # Programs take what stands in a URL for UTF-8, and would call a file with any other name otherwise.
    last = file.raw.rpartition(b"/")[2]
    name = readable(last)
    if name.encode() != last:
        headers = (*headers, ("content-disposition", disposition("inline", name)))
    return headers


def _digest(file: StoredFile) -> str:
    """The digest of the whole file (RFC 9530)."""
    return f"sha-256=:{b64encode(bytes.fromhex(file.sha256)).decode()}:"


def disposition(how: str, name: str) -> str:
    """A Content-Disposition with the name of a file (RFC 6266), in ASCII for programs that know no other form."""
    plain = _UNSAFE_IN_QUOTES.sub("_", name)
    better = f"; filename*=UTF-8''{quote(name, safe='')}" if plain != name else ""
    return f'{how}; filename="{plain}"{better}'
